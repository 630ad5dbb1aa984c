/* SentencePiece's normalizer, by a precompiled character map. */
#ifndef WHERRY_TOKENIZER_NORMALIZE_PRECOMPILED_H
#define WHERRY_TOKENIZER_NORMALIZE_PRECOMPILED_H

#include "tokenizer/normalizers.h"

/* *data: of normalizer_precompiled, made of the bytes of a map; given back by its close, also after a failure, unless
 * it is NULL. */
bool precompiled_make(const struct part_reader *r, const unsigned char *map, size_t bytes, void **data);

#endif
