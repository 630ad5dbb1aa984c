/* Post-processors: the special tokens around one text or two, and what becomes of places. Each kind is a row of the
 * table in post_processors.c. */
#ifndef WHERRY_TOKENIZER_POST_PROCESSORS_H
#define WHERRY_TOKENIZER_POST_PROCESSORS_H

#include "tokenizer/parts.h"
#include "tokenizer/tokens.h"

enum piece_kind { PIECE_TOKEN, PIECE_FIRST, PIECE_SECOND };

/* A sequence is pieces in order: special tokens, and what the first and the second text gave. */
struct template_piece {
    enum piece_kind kind;
    int32_t id; /* of PIECE_TOKEN */
    int32_t type;
};

struct template
{
    struct template_piece *pieces;
    size_t count;
    size_t special; /* how many pieces are tokens */
};

enum { TRIMS_MOST = 8 };

struct post_processor {
    struct template single, pair;
    /* White space at the ends of tokens is left out of their places, once for each entry; true: a space that may have
     * been put before the text is not. */
    bool trims[TRIMS_MOST];
    size_t trim_count;
    bool framed; /* a kind that gives the templates was there */
};

/* `json` NULL or null: no special tokens. */
bool post_processor_read(const struct part_reader *r, const json_t *json, struct post_processor *out);
/* [CLS] first [SEP], and [CLS] first [SEP] second [SEP]; -1: without these. The second text's type is 1. */
bool post_processor_bert(const struct part_reader *r, int32_t cls, int32_t sep, struct post_processor *out);
/* The same with two [SEP] between the texts, and type 0 throughout. */
bool post_processor_roberta(const struct part_reader *r, int32_t cls, int32_t sep, struct post_processor *out);
void post_processor_free(const struct host *host, struct post_processor *post);

/* Leaves white space out of the places, as `post` says. */
void post_processor_trim(const struct post_processor *post, struct token_place *places, size_t count);

#endif
