/* WordPiece: the longest token that a word begins with, then the longest that continues it. */
#ifndef WHERRY_TOKENIZER_WORD_PIECE_H
#define WHERRY_TOKENIZER_WORD_PIECE_H

#include "tokenizer/models.h"
#include "tokenizer/words.h"

/* Makes the model of a vocabulary that was read, whose tokens it sorts. `max_word`: a word of more characters is
 * unknown. *data is given back by the kind's close, also after a failure, unless it is NULL. */
bool word_piece_make(const struct part_reader *r, struct words *words, const char *unknown, const char *prefix,
                     size_t max_word, void **data);

#endif
