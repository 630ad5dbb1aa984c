/* SentencePiece's own file of a model (a message of protocol buffers): its pieces, and how it normalizes. */
#ifndef WHERRY_TOKENIZER_SENTENCEPIECE_MODEL_H
#define WHERRY_TOKENIZER_SENTENCEPIECE_MODEL_H

#include "tokenizer/parts.h"

struct sentencepiece {
    const char *text; /* in the file's bytes, no NUL after it */
    size_t bytes;
    float score;
};

struct sentencepiece_model {
    struct sentencepiece *pieces;
    size_t count, room;
    enum { SENTENCEPIECE_UNIGRAM = 1, SENTENCEPIECE_BPE, SENTENCEPIECE_WORD, SENTENCEPIECE_CHARACTER } type;
    const unsigned char *map; /* the normalizer's character map, in the file's bytes; NULL: none */
    size_t map_bytes;
};

/* Points into `data`. `model` is freed also after a failure. */
bool sentencepiece_parse(const struct part_reader *r, const unsigned char *data, size_t size,
                         struct sentencepiece_model *model);
void sentencepiece_free(const struct host *host, struct sentencepiece_model *model); /* accepts a zeroed one */

#endif
