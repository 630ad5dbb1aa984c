/* What a tokenizer is made of: shared by the code that reads it from files and the code that runs it. */
#ifndef WHERRY_TOKENIZER_TOKENIZER_PARTS_H
#define WHERRY_TOKENIZER_TOKENIZER_PARTS_H

#include "tokenizer/patterns.h"
#include "tokenizer/tokenizer.h"

/* A token that is looked for in the text itself, before it is split into words: "[MASK]". */
struct added_token {
    int32_t id;
    bool single_word;    /* counts only where no word character touches it */
    bool lstrip, rstrip; /* swallows the white space before, after it */
};

enum piece_kind { PIECE_TOKEN, PIECE_FIRST, PIECE_SECOND };

/* A sequence is pieces in order: special tokens, and what the first and the second text gave. */
struct piece {
    enum piece_kind kind;
    int32_t id; /* of PIECE_TOKEN */
    int32_t type;
};

struct template
{
    struct piece *pieces;
    size_t count;
    size_t special; /* how many pieces are tokens */
};

/* A longer word is searched in linear time; trying all pieces at each place of a shorter one is faster. Hugging Face's
 * limit of a word, which next to all models have, is this. */
enum { WORD_LONG = 100 };

struct tokenizer {
    struct host host; /* a copy: the tokenizer may outlive the one it was made with */
    /* normalization */
    bool clean, split_ideographs, strip_accents, lowercase;
    /* words */
    struct vocabulary words;
    uint32_t continuation; /* the node that "##" leads to */
    int32_t unknown;
    size_t max_word;           /* in characters; a longer word is unknown */
    struct patterns continued; /* tokens that continue a word, without "##"; only where words may be WORD_LONG */
    /* added tokens; the ids of the two sets of patterns are indices into `added` */
    struct added_token *added;
    struct patterns added_raw, added_normalized;
    struct template single, pair;
};

/* Growing memory for characters or ids. */
struct list {
    const struct host *host;
    uint32_t *items;
    size_t count, capacity;
};

/* Makes room for `more` items after the last. */
bool list_reserve(struct list *list, size_t more, struct error *e);
void list_free(struct list *list);
/* Appends the characters of `text`; what is not UTF-8 becomes U+FFFD, or, where `what` names the text, a failure. */
bool list_add_text(struct list *list, const char *text, size_t bytes, const char *what, struct error *e);

/* The classes of tokenizer_config.json that are BERT's tokenizer, by whatever name. */
bool tokenizer_is_bert(const char *class_name);

/* Appends `text`, normalized, to `out`. */
bool tokenizer_normalize(const struct tokenizer *tokenizer, const uint32_t *text, size_t length, struct list *out,
                         struct error *e);

#endif
