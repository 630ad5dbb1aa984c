/* Classes of characters in Oniguruma's patterns, as PCRE2's: which characters they have is what differs, for PCRE2's
 * are those of the Unicode that it was made for. */
#include <string.h>

#include "tokenizer/letters.h"
#include "tokenizer/regex_translation.h"

/* ---- classes ---- */

static const char spaces[] =
    "\\t-\\r\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
static const char others[] = "\\x00-\\x08\\x0e-\\x1f\\x21-\\x84\\x86-\\x9f\\xa1-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-"
                             "\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";
/* What belongs to words besides letters, marks and numbers: parts of Latin-1, and circled letters. */
static const char word_symbols[] = "\\xb2\\xb3\\xb9\\xbc-\\xbe\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-"
                                   "\\x{1f169}\\x{1f170}-\\x{1f189}";

static const char *const categories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N", "Nd",
                                         "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm",
                                         "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};

/* Scripts, and what of them came after Unicode 14. */
static const struct {
    const char *name, *recent;
} scripts[] = {
    {"Han", "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"},
    {"Hiragana", "\\x{1b132}"},
    {"Katakana", "\\x{1b155}"},
    {"Hangul", ""},
};

static bool emit_category(struct translation *t, const char *category)
{
    struct letter_range range;
    size_t at = 0;
    TRY(regex_emit(t, "\\p{%s}", category));
    while (letter_recent(category, &at, &range))
        TRY(regex_emit(t, "\\x{%x}-\\x{%x}", (unsigned)range.first, (unsigned)range.last));
    return true;
}

bool regex_emit_word(struct translation *t)
{
    static const char *const parts[] = {"L", "M", "Nd", "Nl", "Pc"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) TRY(emit_category(t, parts[i]));
    return regex_emit(t, "%s", word_symbols);
}

/* Writes a class that stands for itself, or, `inside`, in another one. */
static bool emit_set(struct translation *t, bool inside, bool negated,
                     bool (*items)(struct translation *, const char *), const char *name)
{
    if (inside && negated) return regex_refuse(t, "what is not in a class, within a class,");
    TRY(inside || regex_emit(t, negated ? "[^" : "["));
    return items(t, name) && (inside || regex_emit(t, "]"));
}

static bool items_text(struct translation *t, const char *text) { return regex_emit(t, "%s", text); }

static bool items_word(struct translation *t, const char *name)
{
    (void)name;
    return regex_emit_word(t);
}

static bool items_script(struct translation *t, const char *name)
{
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        if (!strcmp(scripts[i].name, name)) return regex_emit(t, "\\p{sc:%s}%s", name, scripts[i].recent);
    }
    return regex_refuse(t, "a property of another name than general categories and some scripts have");
}

/* After "\p" or "\P". */
static bool read_property(struct translation *t, bool inside, bool negated)
{
    char name[16];
    const char *end = t->at < t->size ? memchr(t->text + t->at, '}', t->size - t->at) : NULL;
    if (regex_peek(t, 0) != '{' || !end) return regex_refuse(t, "a property without braces");
    t->at++;
    if (regex_peek(t, 0) == '^') {
        negated = !negated;
        t->at++;
    }
    size_t length = (size_t)(end - (t->text + t->at));
    if (length >= sizeof name)
        return regex_refuse(t, "a property of another name than general categories and some scripts have");
    memcpy(name, t->text + t->at, length);
    name[length] = 0;
    if (t->caseless && (!strcmp(name, "Lu") || !strcmp(name, "Ll") || !strcmp(name, "Lt")))
        return regex_refuse(t, "a property of case where case does not count");
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++) {
        if (strcmp(name, categories[i])) continue;
        TRY(emit_set(t, inside, negated, emit_category, name));
        t->at += length + 1;
        return true;
    }
    TRY(emit_set(t, inside, negated, items_script, name));
    t->at += length + 1;
    return true;
}

/* ---- escapes ---- */

/* Digits of base 16, `least` to `most` of them. */
static bool read_hex(struct translation *t, unsigned least, unsigned most, uint32_t *out)
{
    unsigned n = 0;
    for (*out = 0; n < most; n++, t->at++) {
        char c = regex_peek(t, 0);
        if (c >= '0' && c <= '9')
            *out = *out << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            *out = *out << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            break;
    }
    return n >= least || regex_refuse(t, "a number of a character that is no such number");
}

static bool read_number(struct translation *t, char kind, uint32_t *c)
{
    bool braces = kind == 'x' && regex_peek(t, 0) == '{';
    if (braces) t->at++;
    TRY(read_hex(t, braces ? 1 : kind == 'u' ? 4 : 2, braces ? 6 : kind == 'u' ? 4 : 2, c));
    if (braces && regex_peek(t, 0) != '}') return regex_refuse(t, "a number of a character that is no such number");
    if (braces) t->at++;
    if ((!braces && kind == 'x' && *c >= 0x80) || *c > 0x10FFFF || (*c >= 0xD800 && *c < 0xE000))
        return regex_refuse(t, "a byte or a surrogate in place of a character");
    return true;
}

/* What is after a backslash: one character, *c, or a class, which is written; *set tells. */
bool regex_escape(struct translation *t, bool inside, bool *set, uint32_t *c)
{
    static const char from[] = "ntrfvae", to[] = "\n\t\r\f\v\a\x1b";
    if (t->at >= t->size) return regex_refuse(t, "a backslash at its end");
    *c = regex_take(t);
    *set = true;
    switch (*c) {
    case 'p':
        return read_property(t, inside, false);
    case 'P':
        return read_property(t, inside, true);
    case 's':
        return emit_set(t, inside, false, items_text, spaces);
    case 'S':
        return emit_set(t, inside, false, items_text, others);
    case 'd':
        return emit_set(t, inside, false, emit_category, "Nd");
    case 'D':
        return emit_set(t, inside, true, emit_category, "Nd");
    case 'w':
        return emit_set(t, inside, false, items_word, NULL);
    case 'W':
        return emit_set(t, inside, true, items_word, NULL);
    case 'h':
        return emit_set(t, inside, false, items_text, "0-9A-Fa-f");
    case 'H':
        return emit_set(t, inside, true, items_text, "0-9A-Fa-f");
    default:
        break;
    }
    *set = false;
    if (*c == 'x' || *c == 'u') return read_number(t, (char)*c, c);
    const char *known = *c < 0x80 ? strchr(from, (int)*c) : NULL;
    if (known && *known) {
        *c = (uint32_t)to[known - from];
        return true;
    }
    if ((*c | 32) - 'a' < 26 || *c - '0' < 10) {
        t->at--;
        return regex_refuse(t, "an escape");
    }
    return true;
}

/* ---- a class in brackets ---- */

/* One character, or a class, which is written. */
static bool read_item(struct translation *t, bool *set, uint32_t *c)
{
    *set = false;
    *c = regex_take(t);
    if (*c == '\\') {
        /* In a class, \b is the backspace. */
        if (regex_peek(t, 0) == 'b') return regex_refuse(t, "a backspace");
        TRY(regex_escape(t, true, set, c));
    }
    if (!*set && t->caseless && *c >= 0x80)
        return regex_refuse(t, "a letter other than ASCII's where case does not count");
    return true;
}

/* Items up to a bracket. */
static bool read_items(struct translation *t)
{
    bool set;
    uint32_t c, end;
    while (t->at < t->size && regex_peek(t, 0) != ']' && regex_peek(t, 0) != '[') {
        if (regex_peek(t, 0) == '&' && regex_peek(t, 1) == '&') return regex_refuse(t, "an intersection of classes");
        TRY(read_item(t, &set, &c));
        if (set) continue;
        TRY(regex_emit_character(t, c));
        if (regex_peek(t, 0) != '-' || regex_peek(t, 1) == ']' || regex_peek(t, 1) == '[' || !regex_peek(t, 1))
            continue;
        t->at++;
        TRY(regex_emit(t, "-") && read_item(t, &set, &end));
        if (set || end < c) return regex_refuse(t, "a range that is none");
        TRY(regex_emit_character(t, end));
    }
    return true;
}

/* After its "[". A class in a class adds to it. */
bool regex_class(struct translation *t)
{
    size_t depth = 1;
    bool negated = regex_peek(t, 0) == '^';
    t->at += negated;
    TRY(regex_emit(t, negated ? "[^" : "["));
    if (regex_peek(t, 0) == ']') {
        t->at++;
        TRY(regex_emit_character(t, ']'));
    }
    while (depth) {
        TRY(read_items(t));
        if (t->at >= t->size) return regex_refuse(t, "a class without an end");
        if (t->text[t->at++] == ']') {
            depth--;
            continue;
        }
        if (regex_peek(t, 0) == '^' || regex_peek(t, 0) == ':' || regex_peek(t, 0) == ']')
            return regex_refuse(t, "a class in a class");
        depth++;
    }
    return regex_emit(t, "]");
}
