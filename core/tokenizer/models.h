/* Models: how a piece of text becomes tokens. Each kind is a row of the table in models.c. */
#ifndef WHERRY_TOKENIZER_MODELS_H
#define WHERRY_TOKENIZER_MODELS_H

#include "tokenizer/json_words.h"
#include "tokenizer/parts.h"
#include "tokenizer/tokens.h"
#include "tokenizer/vocabulary.h"

struct model_reader {
    struct part_reader part;
    const struct json_words *words; /* "vocab", where it is plain; then it is empty in the JSON */
    bool twice;                     /* set: a token of an object is there twice, which the reader of JSON will tell */
};

struct model_kind {
    const char *type; /* as tokenizer.json names it */
    /* Reads the "model". *data: what the others get, of any kind; given back by `close`, also after a failure, unless
     * it is NULL. */
    bool (*open)(struct model_reader *r, const json_t *json, void **data);
    void (*close)(const struct host *host, void *data);
    size_t (*size)(const void *data); /* tokens: an added one that is new gets the next id */
    int32_t (*find)(const void *data, const uint32_t *text, size_t length); /* of exactly this token; -1: none */
    /* Appends the tokens of a piece that is not empty, in time linear in its length. */
    bool (*encode)(const void *data, const struct view *piece, struct tokens *out);
    /* Calls `visit` with each token, in no order; false: it said so, or there was no memory. */
    bool (*each)(const void *data, const struct host *host, vocabulary_visit visit, void *user, struct error *e);
};

extern const struct model_kind model_word_piece, model_unigram, model_bpe;

struct token_model {
    const struct model_kind *kind;
    void *data;
};

bool model_read(struct model_reader *r, const json_t *json, struct token_model *out);
/* The id of a token given as UTF-8; -1: there is none. */
int32_t model_find(const struct token_model *model, const char *name);
void model_free(const struct host *host, struct token_model *model); /* accepts a zeroed one */

#endif
