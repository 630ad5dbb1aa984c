/* Unigram: of all ways to cut a piece of text into tokens, the one whose scores add up to the most. */
#ifndef WHERRY_TOKENIZER_UNIGRAM_H
#define WHERRY_TOKENIZER_UNIGRAM_H

#include "tokenizer/models.h"
#include "tokenizer/words.h"

enum { UNIGRAM_NO_UNKNOWN = -1 };

/* Makes the model of a vocabulary that was read, whose tokens it sorts. scores[id]: the logarithm of the token's
 * probability. `unknown`: the token of characters that no token has. `byte_fallback`: these become the tokens of their
 * UTF-8 bytes, "<0x00>" to "<0xFF>", where all are there. *data is given back by the kind's close, also after a
 * failure, unless it is NULL. */
bool unigram_make(const struct part_reader *r, struct words *words, const double *scores, int32_t unknown,
                  bool byte_fallback, void **data);

#endif
