/* Letters, numbers and white space as the regular expressions of Hugging Face's library know them: Oniguruma's \p{L},
 * \p{N} and \s, of Unicode 16. */
#ifndef WHERRY_TOKENIZER_LETTERS_H
#define WHERRY_TOKENIZER_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum letter { LETTER_NONE, LETTER_ANY, LETTER_NUMBER, LETTER_SPACE };

enum letter letter_look_up(uint32_t c);

static inline enum letter letter_of(uint32_t c)
{
    if (c - 'a' < 26 || c - 'A' < 26) return LETTER_ANY;
    if (c == ' ') return LETTER_SPACE;
    return letter_look_up(c);
}

/* What of a general category ("L", "Nd") came after Unicode 14: the next range from `*at` on, which begins with 0;
 * false: there are no more. */
struct letter_range {
    uint32_t first, last;
};
bool letter_recent(const char *category, size_t *at, struct letter_range *out);

#endif
