/* Extended grapheme clusters, by the rules of Unicode's annex 29. */
#include "tokenizer/graphemes.h"

#include <stdbool.h>

enum grapheme_class {
    GRAPHEME_OTHER,
    GRAPHEME_RETURN,
    GRAPHEME_FEED,
    GRAPHEME_CONTROL,
    GRAPHEME_EXTEND,  /* goes on whatever comes before it, */
    GRAPHEME_MARK,    /* the same, but not within conjuncts of Indic consonants, */
    GRAPHEME_SPACING, /* nor within sequences of pictographs */
    GRAPHEME_LINKER,  /* joins Indic consonants */
    GRAPHEME_JOINER,  /* joins pictographs */
    GRAPHEME_PREPEND, /* whatever comes after it goes on it */
    GRAPHEME_CONSONANT,
    GRAPHEME_PICTOGRAPH,
    GRAPHEME_REGIONAL, /* two make a flag */
    GRAPHEME_LEADING,  /* of Hangul */
    GRAPHEME_VOWEL,
    GRAPHEME_TRAILING,
    GRAPHEME_OPEN_SYLLABLE, /* without, with a trailing consonant */
    GRAPHEME_CLOSED_SYLLABLE
};

#include "tokenizer/grapheme_ranges.h"

static enum grapheme_class classify(uint32_t c)
{
    enum { SYLLABLES = 0xAC00, SYLLABLE_COUNT = 11172, TRAILINGS = 28, REGIONALS = 0x1F1E6 };
    if (c < 0x7F)
        return c >= 0x20 ? GRAPHEME_OTHER : c == '\r' ? GRAPHEME_RETURN : c == '\n' ? GRAPHEME_FEED : GRAPHEME_CONTROL;
    if (c - 0x4E00 < 0x5200) return GRAPHEME_OTHER; /* ideographs */
    if (c - SYLLABLES < SYLLABLE_COUNT)
        return (c - SYLLABLES) % TRAILINGS ? GRAPHEME_CLOSED_SYLLABLE : GRAPHEME_OPEN_SYLLABLE;
    if (c == 0x200D) return GRAPHEME_JOINER;
    if (c - REGIONALS < 26) return GRAPHEME_REGIONAL;
    size_t low = 0, high = sizeof grapheme_ranges / sizeof *grapheme_ranges;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c > grapheme_ranges[middle].last)
            low = middle + 1;
        else if (c < grapheme_ranges[middle].first)
            high = middle;
        else
            return (enum grapheme_class)grapheme_ranges[middle].class_;
    }
    return GRAPHEME_OTHER;
}

/* What the cluster so far ends with. */
struct state {
    enum grapheme_class last;
    bool pictograph, joined;                          /* a pictograph and extending marks; a joiner after that */
    enum { NO_CONJUNCT, CONSONANT, LINKED } conjunct; /* a consonant, marks, and a linker among these */
    bool flag;                                        /* an odd number of regional indicators */
};

static bool is_control(enum grapheme_class class)
{
    return class == GRAPHEME_CONTROL || class == GRAPHEME_RETURN || class == GRAPHEME_FEED;
}

static bool joins_hangul(enum grapheme_class before, enum grapheme_class c)
{
    switch (before) {
    case GRAPHEME_LEADING:
        return c == GRAPHEME_LEADING || c == GRAPHEME_VOWEL || c == GRAPHEME_OPEN_SYLLABLE ||
               c == GRAPHEME_CLOSED_SYLLABLE;
    case GRAPHEME_VOWEL:
    case GRAPHEME_OPEN_SYLLABLE:
        return c == GRAPHEME_VOWEL || c == GRAPHEME_TRAILING;
    case GRAPHEME_TRAILING:
    case GRAPHEME_CLOSED_SYLLABLE:
        return c == GRAPHEME_TRAILING;
    default:
        return false;
    }
}

static bool joins(const struct state *s, enum grapheme_class c)
{
    if (s->last == GRAPHEME_RETURN && c == GRAPHEME_FEED) return true;
    if (is_control(s->last) || is_control(c)) return false;
    if (c >= GRAPHEME_EXTEND && c <= GRAPHEME_JOINER) return true;
    if (s->last == GRAPHEME_PREPEND) return true;
    if (c == GRAPHEME_CONSONANT) return s->conjunct == LINKED;
    if (c == GRAPHEME_PICTOGRAPH) return s->joined;
    if (c == GRAPHEME_REGIONAL) return s->flag;
    return joins_hangul(s->last, c);
}

static void advance(struct state *s, enum grapheme_class c)
{
    bool extends = c == GRAPHEME_EXTEND || c == GRAPHEME_MARK || c == GRAPHEME_LINKER;
    s->joined = c == GRAPHEME_JOINER && s->pictograph;
    s->pictograph = c == GRAPHEME_PICTOGRAPH || (extends && s->pictograph);
    s->flag = c == GRAPHEME_REGIONAL && !s->flag;
    if (c == GRAPHEME_CONSONANT)
        s->conjunct = CONSONANT;
    else if (c == GRAPHEME_LINKER)
        s->conjunct = s->conjunct ? LINKED : NO_CONJUNCT;
    else if (c != GRAPHEME_EXTEND && c != GRAPHEME_JOINER)
        s->conjunct = NO_CONJUNCT;
    s->last = c;
}

size_t grapheme_end(const uint32_t *text, size_t length, size_t at)
{
    struct state s = {.last = GRAPHEME_OTHER};
    size_t end = at + 1;
    if (end >= length || (text[at] - 0x20 < 0x5F && text[end] - 0x20 < 0x5F)) return end;
    advance(&s, classify(text[at]));
    for (; end < length; end++) {
        enum grapheme_class c = classify(text[end]);
        if (!joins(&s, c)) break;
        advance(&s, c);
    }
    return end;
}
