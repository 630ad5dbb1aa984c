/* Entries of a list by what names them, sorted once: each is found without going through the list. */
#ifndef WHERRY_TOOLS_REPORT_KEYS_H
#define WHERRY_TOOLS_REPORT_KEYS_H

#include <jansson.h>
#include <stddef.h>

/* Texts that are the list's own; NULL is less than any. `item`: the entry's place in the list. */
struct key {
    const char *texts[3];
    double number;
    size_t item;
};

/* To be freed. */
struct keys {
    struct key *list;
    size_t count;
};

struct keys keys_begin(size_t room);
/* The next item's key. */
void keys_add(struct keys *keys, struct key key);
/* After the last one, before anything is looked up. */
void keys_sort(struct keys *keys);
/* Of `count` structures of `size` bytes. */
struct keys keys_of(const void *list, size_t count, size_t size, struct key (*key_of)(const void *entry));
struct keys keys_of_list(const json_t *list, struct key (*key_of)(const json_t *entry));
void keys_free(struct keys *keys);

/* The first item with this key (whose own `item` says nothing); NULL: none. */
const struct key *keys_find(const struct keys *keys, struct key wanted);
/* How many have it. */
size_t keys_like(const struct keys *keys, struct key wanted);

#endif
