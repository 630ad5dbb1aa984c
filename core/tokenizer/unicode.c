/* Characters as Hugging Face's BERT tokenizer sees them: decoding, classes, decomposition, lower case. */
#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include "tokenizer/unicode_ranges.h"
#include "tokenizer/unicode_tables.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* In a short list. */
static bool in_spans(const struct unicode_span *spans, size_t count, uint32_t c)
{
    for (size_t i = 0; i < count && spans[i].first <= c; i++) {
        if (c <= spans[i].last) return true;
    }
    return false;
}
#define IN_SPANS(spans, c) in_spans(spans, COUNT(spans), c)

/* In a long one. */
static bool among_spans(const struct unicode_span *spans, size_t count, uint32_t c)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c > spans[middle].last)
            low = middle + 1;
        else if (c < spans[middle].first)
            high = middle;
        else
            return true;
    }
    return false;
}

static const struct unicode_range *range_of(uint32_t c)
{
    size_t low = 0, high = COUNT(unicode_ranges);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c > unicode_ranges[middle].last)
            low = middle + 1;
        else if (c < unicode_ranges[middle].first)
            high = middle;
        else
            return &unicode_ranges[middle];
    }
    return NULL;
}

enum unicode_class unicode_classify(uint32_t c)
{
    if (c < 0x80) {
        if ((c | 32) - 'a' < 26 || c - '0' < 10 || c == ' ' || c == '\t' || c == '\n' || c == '\r')
            return UNICODE_PLAIN;
        return c < 0x20 || c == 0x7F ? UNICODE_REMOVED : UNICODE_PUNCTUATION;
    }
    const struct unicode_range *range = range_of(c);
    return range ? (enum unicode_class)range->class_ : UNICODE_PLAIN;
}

uint8_t unicode_order(uint32_t c)
{
    if (c < 0x300) return 0;
    const struct unicode_range *range = range_of(c);
    return range ? range->order : 0;
}

bool unicode_is_space(uint32_t c)
{
    if (c < 0x80) return c == ' ' || c - 0x9 < 5;
    return c == 0x85 || c == 0xA0 || c == 0x1680 || c - 0x2000 < 11 || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

bool unicode_is_word(uint32_t c)
{
    /* Letters, marks and digits of Unicode 15.1 and 16, which an older utf8proc doesn't know. */
    static const struct unicode_span recent[] = {
        {0x897, 0x897},     {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3},
        {0x10D40, 0x10D65}, {0x10D69, 0x10D6D}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x10EFC, 0x10EFC},
        {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113C0},
        {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC, 0x113D3}, {0x113E1, 0x113E2},
        {0x116D0, 0x116E3}, {0x11BC0, 0x11BE0}, {0x11BF0, 0x11BF9}, {0x11F5A, 0x11F5A}, {0x13460, 0x143FA},
        {0x16100, 0x16139}, {0x16D40, 0x16D6C}, {0x16D70, 0x16D79}, {0x18CFF, 0x18CFF}, {0x1CCF0, 0x1CCF9},
        {0x1E5D0, 0x1E5FA}, {0x2EBF0, 0x2EE5D},
    };
    /* Other_Alphabetic symbols (circled and squared letters), and the joiners. */
    static const struct unicode_span symbols[] = {
        {0x200C, 0x200D}, {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189},
    };
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return IN_SPANS(symbols, c) || IN_SPANS(recent, c);
    }
}

bool unicode_is_ideograph(uint32_t c)
{
    static const struct unicode_span ideographs[] = {
        {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
        {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F},
    };
    return c >= 0x3400 && IN_SPANS(ideographs, c);
}

enum { HANGUL_FIRST = 0xAC00, HANGUL_COUNT = 11172 };

/* `out` has c, which stays where there is no decomposition. */
static size_t decompose(uint32_t c, utf8proc_option_t how, size_t most, uint32_t *out)
{
    utf8proc_int32_t parts[UNICODE_COMPATIBLE_MAX];
    int boundary = 0;
    utf8proc_ssize_t count =
        utf8proc_decompose_char((utf8proc_int32_t)c, parts, (utf8proc_ssize_t)most, how, &boundary);
    if (count < 1 || (size_t)count > most) return 1;
    for (utf8proc_ssize_t i = 0; i < count; i++) out[i] = (uint32_t)parts[i];
    return (size_t)count;
}

size_t unicode_decompose(uint32_t c, uint32_t *out)
{
    /* Where Unicode 9 has decompositions. Above these, later versions added some that are not to be applied. */
    static const struct unicode_span decomposed[] = {
        {0xC0, 0xFFFF},     {0x1109A, 0x110AB}, {0x1112E, 0x1112F}, {0x1134B, 0x1134C}, {0x114BB, 0x114BE},
        {0x115BA, 0x115BB}, {0x1D15E, 0x1D164}, {0x1D1BB, 0x1D1C0}, {0x2F800, 0x2FA1D},
    };
    out[0] = c;
    if (c < 0xC0 || !IN_SPANS(decomposed, c)) return 1;
    return decompose(c, UTF8PROC_DECOMPOSE, UNICODE_DECOMPOSED_MAX, out);
}

size_t unicode_decompose_compatible(uint32_t c, uint32_t *out)
{
    out[0] = c;
    bool hangul = c - HANGUL_FIRST < HANGUL_COUNT;
    if (c < 0xA0 || (!hangul && !among_spans(unicode_compatible, COUNT(unicode_compatible), c))) return 1;
    return decompose(c, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, UNICODE_COMPATIBLE_MAX, out);
}

/* Hangul syllables are made of a leading consonant, a vowel and maybe a trailing consonant, by number. */
static uint32_t compose_hangul(uint32_t first, uint32_t second)
{
    enum { LEADING = 0x1100, VOWEL = 0x1161, TRAILING = 0x11A7, LEADINGS = 19, VOWELS = 21, TRAILINGS = 28 };
    if (first - LEADING < LEADINGS && second - VOWEL < VOWELS)
        return HANGUL_FIRST + ((first - LEADING) * VOWELS + (second - VOWEL)) * TRAILINGS;
    bool open = first - HANGUL_FIRST < HANGUL_COUNT && (first - HANGUL_FIRST) % TRAILINGS == 0;
    return open && second - (TRAILING + 1) < TRAILINGS - 1 ? first + (second - TRAILING) : 0;
}

uint32_t unicode_compose(uint32_t first, uint32_t second)
{
    size_t low = 0, high = COUNT(unicode_pairs);
    if (second < 0x300) return 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct unicode_pair *pair = &unicode_pairs[middle];
        if (first > pair->first || (first == pair->first && second > pair->second))
            low = middle + 1;
        else if (first < pair->first || second < pair->second)
            high = middle;
        else
            return pair->joined;
    }
    return compose_hangul(first, second);
}

bool unicode_is_mark(uint32_t c) { return c >= 0x300 && among_spans(unicode_marks, COUNT(unicode_marks), c); }

bool unicode_is_number(uint32_t c)
{
    return c < 0x80 ? c - '0' < 10 : among_spans(unicode_numbers, COUNT(unicode_numbers), c);
}

size_t unicode_lower(uint32_t c, uint32_t *out)
{
    /* Capitals of Unicode 16 and 17, which an older utf8proc doesn't know. */
    static const struct {
        uint32_t first, last, lower;
    } recent[] = {
        {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},     {0xA7CC, 0xA7CC, 0xA7CD}, {0xA7CE, 0xA7CE, 0xA7CF},
        {0xA7D2, 0xA7D2, 0xA7D3},    {0xA7D4, 0xA7D4, 0xA7D5},    {0xA7DA, 0xA7DA, 0xA7DB}, {0xA7DC, 0xA7DC, 0x19B},
        {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB},
    };
    if (c < 0x80) {
        out[0] = c - 'A' < 26 ? c + 32 : c;
        return 1;
    }
    if (c == 0x130) { /* the only character whose lower case is longer: i and a dot above */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    for (size_t i = 0; i < COUNT(recent) && recent[i].first <= c; i++) {
        if (c > recent[i].last) continue;
        out[0] = recent[i].lower + (c - recent[i].first);
        return 1;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    return 1;
}
