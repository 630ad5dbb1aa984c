/* What a normalizer replaces and a pre-tokenizer splits at: a string, or a regular expression of a simple form. */
#ifndef WHERRY_TOKENIZER_SEARCH_H
#define WHERRY_TOKENIZER_SEARCH_H

#include "tokenizer/parts.h"

struct search {
    struct list text; /* the string; of a run, its one character */
    struct list back; /* [text.count] how much of the string is matched still after a mismatch behind each character */
    size_t least;     /* of a run: that many of the character, and as many more as there are; 0: it is a string */
};

/* The value of "pattern": {"String": ...} or {"Regex": ...}. */
bool search_read(const struct part_reader *r, const json_t *pattern, struct search *out);
void search_free(struct search *search); /* accepts a zeroed one */

/* The next match in text[*first, ...) as [*first, *end); false: there is none. */
bool search_next(const struct search *search, const struct view *text, size_t *first, size_t *end);

#endif
