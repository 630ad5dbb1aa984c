/* Pre-tokenizers: how a normalized text is split into the pieces that the model encodes one by one. Each kind is a row
 * of the table in pre_tokenizers.c. */
#ifndef WHERRY_TOKENIZER_PRE_TOKENIZERS_H
#define WHERRY_TOKENIZER_PRE_TOKENIZERS_H

#include "tokenizer/parts.h"

/* Where pieces go: to the next pre-tokenizer, or to the model. */
struct pieces {
    bool (*take)(struct pieces *to, const struct view *piece);
    const bool *full;    /* no more are needed */
    struct text scratch; /* for a pre-tokenizer that changes the text, for its use alone while it splits */
    struct error *e;
};

/* Hands on text[first, end), unless it is empty. */
static inline bool piece_add(struct pieces *to, const struct view *text, size_t first, size_t end)
{
    if (first >= end) return true;
    struct view piece = view_slice(text, first, end);
    return to->take(to, &piece);
}

struct pre_tokenizer_kind {
    const char *type; /* as tokenizer.json names it */
    /* As of a normalizer. */
    bool (*open)(const struct part_reader *r, const json_t *json, void **data);
    /* Splits a text that is not empty, in time linear in its length. */
    bool (*split)(const void *data, const struct view *text, struct pieces *to);
    void (*close)(const struct host *host, void *data);
    bool (*needs_places)(const void *data); /* NULL: it does not */
};

extern const struct pre_tokenizer_kind pre_tokenizer_bert, pre_tokenizer_whitespace, pre_tokenizer_whitespace_split,
    pre_tokenizer_punctuation, pre_tokenizer_digits, pre_tokenizer_delimiter, pre_tokenizer_split,
    pre_tokenizer_metaspace, pre_tokenizer_byte_level;

struct pre_tokenizer {
    const struct pre_tokenizer_kind *kind;
    void *data;
};

/* Each splits the pieces of the one before. */
struct pre_tokenizers {
    struct pre_tokenizer *list;
    size_t count;
};

/* `json` NULL or null: none. A sequence's members are appended in order. */
bool pre_tokenizers_read(const struct part_reader *r, const json_t *json, struct pre_tokenizers *out);
bool pre_tokenizers_add(const struct part_reader *r, const struct pre_tokenizer_kind *kind, void *data,
                        struct pre_tokenizers *out); /* owns the data, also after a failure */
void pre_tokenizers_free(const struct host *host, struct pre_tokenizers *pre_tokenizers);
/* Whether one of them asks where a text begins. */
bool pre_tokenizers_need_places(const struct pre_tokenizers *pre_tokenizers);

#endif
