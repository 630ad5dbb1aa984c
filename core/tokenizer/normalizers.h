/* Normalizers: what happens to a text before it is split. Each kind is a row of the table in normalizers.c. */
#ifndef WHERRY_TOKENIZER_NORMALIZERS_H
#define WHERRY_TOKENIZER_NORMALIZERS_H

#include "tokenizer/parts.h"

struct normalizer_kind {
    const char *type; /* as tokenizer.json names it */
    /* Reads the part. *data: what `apply` gets, of any kind; it is given back by `close` where there is one, also after
     * a failure, unless it is NULL. NULL: there is nothing to read. */
    bool (*open)(const struct part_reader *r, const json_t *json, void **data);
    /* Writes the normalized text, in time linear in its length; rewrite_begin is its beginning. */
    bool (*apply)(const void *data, const struct view *from, struct text *to, struct error *e);
    void (*close)(const struct host *host, void *data);
};

/* BERT's: cleaning, spaces around ideographs, accents off, lower case, in this order. */
struct bert_normalizer {
    bool clean, split_ideographs, strip_accents, lowercase;
    bool strip_follows; /* accents go where capitals go */
};

extern const struct normalizer_kind normalizer_bert, normalizer_lowercase, normalizer_strip, normalizer_strip_accents,
    normalizer_replace, normalizer_prepend, normalizer_nmt, normalizer_nfc, normalizer_nfd, normalizer_nfkc,
    normalizer_nfkd, normalizer_precompiled, normalizer_byte_level;

struct normalizer {
    const struct normalizer_kind *kind;
    void *data;
};

/* One after the other. */
struct normalizers {
    struct normalizer *list;
    size_t count;
};

/* `json` NULL or null: none. A sequence's members are appended in order. */
bool normalizers_read(const struct part_reader *r, const json_t *json, struct normalizers *out);
bool normalizers_add(const struct part_reader *r, const struct normalizer_kind *kind, void *data,
                     struct normalizers *out); /* owns the data, also after a failure */
void normalizers_free(const struct host *host, struct normalizers *normalizers);
/* BERT's, where it is the only one, else NULL. */
struct bert_normalizer *normalizers_bert(const struct normalizers *normalizers);

/* *out: the normalized text, in one of the two, or `from` itself. */
bool normalizers_apply(const struct normalizers *normalizers, const struct view *from, struct text between[2],
                       struct view *out, struct error *e);

#endif
