/* Letters, numbers and white space as Oniguruma knows them. */
#include "tokenizer/letters.h"

#include <string.h>

#include "tokenizer/letters_ranges.h"

enum letter letter_look_up(uint32_t c)
{
    if (c >> 8 >= sizeof letter_blocks) return LETTER_NONE;
    return (enum letter)(letter_bits[letter_blocks[c >> 8]][c >> 5 & 7] >> 2 * (c & 31) & 3);
}

bool letter_recent(const char *category, size_t *at, struct letter_range *out)
{
    while (*at < sizeof recent_ranges / sizeof *recent_ranges) {
        const struct recent_range *range = &recent_ranges[(*at)++];
        if (strncmp(range->category, category, strlen(category))) continue;
        *out = (struct letter_range){range->first, range->last};
        return true;
    }
    return false;
}
