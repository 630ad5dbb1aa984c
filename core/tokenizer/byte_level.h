/* Byte-level texts: every byte of the UTF-8 is one character that can be seen, so that a vocabulary of 256 of them has
 * all texts. */
#ifndef WHERRY_TOKENIZER_BYTE_LEVEL_H
#define WHERRY_TOKENIZER_BYTE_LEVEL_H

#include "tokenizer/pre_tokenizers.h"

/* The pre-tokenizer without a file: GPT-2's words, with a space put before the first one where it has none. */
bool byte_level_make(const struct part_reader *r, bool prefix_space, void **data);
/* Writes the bytes that the characters stand for, one for each; false: one of them stands for none. */
bool byte_level_spells(const uint32_t *text, size_t length, char *bytes);

#endif
