/* Characters as Hugging Face's BERT tokenizer sees them: classes, decomposition, lower case. */
#ifndef WHERRY_TOKENIZER_UNICODE_H
#define WHERRY_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* That library takes its categories from Unicode 8, its decompositions and combining classes from Unicode 9, lower case
 * from Unicode 17 and regular expressions' "\w" from Unicode 16; utf8proc has one version for all, another in each
 * release. So categories come from a table (unicode_ranges.h); decompositions and lower case, which Unicode never
 * changes once a character exists, come from utf8proc, within the limits of those versions. */
enum unicode_class {
    UNICODE_PLAIN,
    UNICODE_REMOVED,      /* control, format, private use, U+FFFD: cleaning drops it */
    UNICODE_PUNCTUATION,  /* a word of its own */
    UNICODE_MARK,         /* an accent that stripping drops */
    UNICODE_STARTER_MARK, /* the same with combining class 0: nothing is reordered across it */
    UNICODE_COMBINING     /* is reordered by its combining class, and stays */
};

enum { UNICODE_DECOMPOSED_MAX = 4, UNICODE_COMPATIBLE_MAX = 18, UNICODE_LOWER_MAX = 2 };

enum unicode_class unicode_classify(uint32_t c);
/* Canonical combining class. */
uint8_t unicode_order(uint32_t c);
/* The White_Space property. */
bool unicode_is_space(uint32_t c);
/* What a regular expression calls a word character. */
bool unicode_is_word(uint32_t c);
/* Combining marks of all kinds. */
bool unicode_is_mark(uint32_t c);
/* Digits, letters that are numbers, and other numbers. */
bool unicode_is_number(uint32_t c);
/* Unified and compatibility ideographs, as BERT delimits them: not extension E's first half, not those after it. */
bool unicode_is_ideograph(uint32_t c);

/* Canonical decomposition (without reordering), into at most UNICODE_DECOMPOSED_MAX characters; returns how many. */
size_t unicode_decompose(uint32_t c, uint32_t *out);
/* The same with compatibility decompositions, into at most UNICODE_COMPATIBLE_MAX. */
size_t unicode_decompose_compatible(uint32_t c, uint32_t *out);
/* The character that canonical composition makes of the two, 0: none. */
uint32_t unicode_compose(uint32_t first, uint32_t second);
/* Full lower case without context, into at most UNICODE_LOWER_MAX characters; returns how many. */
size_t unicode_lower(uint32_t c, uint32_t *out);

#endif
