/* What a normalizer replaces and a pre-tokenizer splits at: a string, or a regular expression. */
#ifndef WHERRY_TOKENIZER_SEARCH_H
#define WHERRY_TOKENIZER_SEARCH_H

#include "tokenizer/parts.h"
#include "tokenizer/regex.h"

struct search {
    struct list text; /* the string; of a run, its one character */
    struct list back; /* [text.count] how much of the string is matched still after a mismatch behind each character */
    size_t least;     /* of a run: that many of the character, and as many more as there are; 0: it is a string, or: */
    struct regex *regex;
};

/* The value of "pattern": {"String": ...} or {"Regex": ...}. */
bool search_read(const struct part_reader *r, const json_t *pattern, struct search *out);
void search_free(struct search *search); /* accepts a zeroed one */

/* A walk over the matches in a text, from the left, none overlapping. */
struct search_walk {
    const struct search *search;
    const struct view *text;
    size_t at;
    struct regex_search regex;
};

/* The text must stay until the end, which is due also after a failure. */
bool search_begin(const struct search *search, const struct host *host, const struct view *text,
                  struct search_walk *walk, struct error *e);
/* The next match as [*first, *end), which of a regular expression may be empty; *more false: there is none. */
bool search_next(struct search_walk *walk, bool *more, size_t *first, size_t *end, struct error *e);
void search_end(struct search_walk *walk);

#endif
