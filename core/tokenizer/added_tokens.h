/* Added tokens, which are looked for in the text itself, before it is split into words: "[MASK]". */
#ifndef WHERRY_TOKENIZER_ADDED_TOKENS_H
#define WHERRY_TOKENIZER_ADDED_TOKENS_H

#include "tokenizer/models.h"
#include "tokenizer/normalizers.h"
#include "tokenizer/patterns.h"

struct added_token {
    int32_t id;
    bool single_word;    /* counts only where no word character touches it */
    bool lstrip, rstrip; /* swallows the white space before, after it */
};

/* Those of a tokenizer; the ids of the two sets of patterns are indices into `list`. */
struct added_tokens {
    struct added_token *list;
    struct patterns raw, normalized; /* looked for in the text as it was given, and in the normalized text */
};

void added_tokens_free(const struct host *host, struct added_tokens *added); /* accepts a zeroed one */

/* ---- read from files ---- */

/* An added token as the files have it. */
struct added_entry {
    struct added_token token;
    bool normalized;      /* is looked for in the normalized text, in its own normalized form */
    bool optional;        /* is forgotten when the vocabulary lacks it */
    size_t first, length; /* its characters in the reader's text */
};

/* All of a file, in its order. `text` has its host from the beginning. */
struct added_reader {
    struct list text;
    struct added_entry *entries;
    size_t count, capacity;
};

/* `content` NULL or "" is no token. */
bool added_add(struct added_reader *reader, const char *content, const struct added_entry *flags, bool optional,
               struct error *e);
/* Gives them ids: the model's own, or else the next free ones below the reader's `vocabulary`. */
bool added_build(const struct part_reader *r, struct added_reader *reader, const struct token_model *model,
                 const struct normalizers *normalizers, struct added_tokens *out);
void added_reader_free(struct added_reader *reader);

/* ---- found in texts ---- */

/* A walk over the added tokens in a text: leftmost first, then longest, none overlapping. Begins zeroed but for these
 * four. */
struct added_search {
    const struct added_token *tokens;
    const struct patterns *patterns;
    struct view text;
    struct list *window; /* for its use alone while it lasts: of text[window_first] and those after it */
    size_t window_first; /* what begins there, once the window has something */
    size_t at;           /* where to look next */
    size_t done;         /* what lies before has been dealt with */
    size_t spaces_end;   /* of the white space that the last token swallowed after it */
    size_t plain, start; /* of the token that was found: the text before it begins, and it begins */
    int32_t id;          /* its id */
};

/* Moves on to the next token: it covers [start, done), and [plain, start) is text before it. *more: there is one. */
bool added_next(struct added_search *s, bool *more, struct error *e);

#endif
