/* The pre-tokenizer of SentencePiece: spaces become a character of their own, which words begin with. */
#ifndef WHERRY_TOKENIZER_PRE_METASPACE_H
#define WHERRY_TOKENIZER_PRE_METASPACE_H

#include "tokenizer/pre_tokenizers.h"

/* The data of pre_tokenizer_metaspace with U+2581, which splits; `prefix`: every piece gets one before it. NULL: there
 * is no memory. */
void *metaspace_make(const struct part_reader *r, bool prefix);

#endif
