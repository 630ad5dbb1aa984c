/* Texts that were seen, by 64 bits of each. */
#ifndef WHERRY_TOOLS_TRAIN_TEXT_SET_H
#define WHERRY_TOOLS_TRAIN_TEXT_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text_set {
    uint64_t *hashes; /* [room], 0: free */
    size_t count, room;
};

bool text_set_has(const struct text_set *set, const char *text, size_t bytes);
void text_set_add(struct text_set *set, const char *text, size_t bytes);
void text_set_clear(struct text_set *set); /* the memory stays */
void text_set_free(struct text_set *set);

#endif
