/* Extended grapheme clusters: what readers take for one character. */
#ifndef WHERRY_TOKENIZER_GRAPHEMES_H
#define WHERRY_TOKENIZER_GRAPHEMES_H

#include <stddef.h>
#include <stdint.h>

/* The end of the cluster that begins at text[at]; `at` is below `length`, and a cluster ends before it. Takes time
 * linear in the cluster. */
size_t grapheme_end(const uint32_t *text, size_t length, size_t at);

#endif
