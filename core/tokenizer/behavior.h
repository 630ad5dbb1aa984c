/* Splitting at delimiters: what becomes of them. */
#ifndef WHERRY_TOKENIZER_BEHAVIOR_H
#define WHERRY_TOKENIZER_BEHAVIOR_H

#include "tokenizer/pre_tokenizers.h"

/* As tokenizer.json names them: "Removed", ... */
enum behavior { REMOVED, ISOLATED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS };

bool behavior_read(const struct part_reader *r, const json_t *part, const char *key, enum behavior *out);

/* A text on its way to be split: delimiters, and what lies between them, in order. Begins zeroed but for these. */
struct splitting {
    const struct view *text;
    struct pieces *to;
    enum behavior behavior;
    size_t first, end; /* what has come and is not handed on yet; empty: nothing */
    bool delimiter;    /* it is one */
};

/* Takes text[first, end), which follows what came before. Empty ones are nothing. */
bool splitting_add(struct splitting *s, size_t first, size_t end, bool delimiter);
/* Hands on what is left. */
bool splitting_end(struct splitting *s);

#endif
