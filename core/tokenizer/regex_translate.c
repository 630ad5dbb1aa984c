/* Oniguruma's patterns as PCRE2's. Both are matched alike; what differs is a part of the notation, and which characters
 * a class has: PCRE2's are those of the Unicode it was made for. */
#include "tokenizer/regex_translate.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/letters.h"

enum { DEEPEST = 64 };
#define NO_ATOM SIZE_MAX

struct group {
    size_t first;  /* where it begins in `out` */
    bool caseless; /* outside it */
    bool atom;     /* it may be repeated: it is no look around */
};

struct translation {
    const struct host *host;
    const char *text;
    size_t size, at;
    char *out;
    size_t count, room;
    size_t atom; /* where in `out` what may be repeated begins */
    struct group groups[DEEPEST];
    size_t depth;
    bool begins;   /* an alternative begins: options may be set for all of it */
    bool caseless; /* letters match those of other case */
    uint32_t last; /* the literal before this one, caseless; 0: none */
    struct error *e;
};

static bool refuse(struct translation *t, const char *what)
{
    return fail(t->e, WHERRY_STATUS_UNSUPPORTED, "the pattern \"%.*s\" has %s at byte %zu, which is not supported",
                utf8_cut(t->text, t->size < 300 ? t->size : 300), t->text, what, t->at);
}

static bool emit(struct translation *t, const char *format, ...) PRINTF_LIKE(2, 3);
static bool emit(struct translation *t, const char *format, ...)
{
    enum { MOST = 256 };
    if (t->room - t->count < MOST) {
        size_t room = 2 * t->room + MOST;
        char *out = host_grow(t->host, t->out, t->count, room, 1, t->e);
        if (!out) return false;
        t->out = out;
        t->room = room;
    }
    va_list ap;
    va_start(ap, format);
    t->count += (size_t)vsnprintf(t->out + t->count, MOST, format, ap);
    va_end(ap);
    return true;
}

static char peek(const struct translation *t, size_t ahead)
{
    return t->at + ahead < t->size ? t->text[t->at + ahead] : 0;
}

/* Takes the next character. */
static uint32_t next(struct translation *t)
{
    uint32_t c = 0;
    t->at += utf8_decode(t->text + t->at, t->size - t->at, &c, NULL);
    return c;
}

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
    TRY(emit(t, "\\p{%s}", category));
    while (letter_recent(category, &at, &range))
        TRY(emit(t, "\\x{%x}-\\x{%x}", (unsigned)range.first, (unsigned)range.last));
    return true;
}

static bool emit_word(struct translation *t)
{
    static const char *const parts[] = {"L", "M", "Nd", "Nl", "Pc"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) TRY(emit_category(t, parts[i]));
    return emit(t, "%s", word_symbols);
}

/* Writes a class that stands for itself, or, `inside`, in another one. */
static bool emit_set(struct translation *t, bool inside, bool negated,
                     bool (*items)(struct translation *, const char *), const char *name)
{
    if (inside && negated) return refuse(t, "what is not in a class, within a class,");
    TRY(inside || emit(t, negated ? "[^" : "["));
    return items(t, name) && (inside || emit(t, "]"));
}

static bool items_text(struct translation *t, const char *text) { return emit(t, "%s", text); }

static bool items_word(struct translation *t, const char *name)
{
    (void)name;
    return emit_word(t);
}

static bool items_script(struct translation *t, const char *name)
{
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        if (!strcmp(scripts[i].name, name)) return emit(t, "\\p{sc:%s}%s", name, scripts[i].recent);
    }
    return refuse(t, "a property of another name than general categories and some scripts have");
}

/* After "\p" or "\P". */
static bool read_property(struct translation *t, bool inside, bool negated)
{
    char name[16];
    const char *end = t->at < t->size ? memchr(t->text + t->at, '}', t->size - t->at) : NULL;
    if (peek(t, 0) != '{' || !end) return refuse(t, "a property without braces");
    t->at++;
    if (peek(t, 0) == '^') {
        negated = !negated;
        t->at++;
    }
    size_t length = (size_t)(end - (t->text + t->at));
    if (length >= sizeof name)
        return refuse(t, "a property of another name than general categories and some scripts have");
    memcpy(name, t->text + t->at, length);
    name[length] = 0;
    if (t->caseless && (!strcmp(name, "Lu") || !strcmp(name, "Ll") || !strcmp(name, "Lt")))
        return refuse(t, "a property of case where case does not count");
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
        char c = peek(t, 0);
        if (c >= '0' && c <= '9')
            *out = *out << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            *out = *out << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            break;
    }
    return n >= least || refuse(t, "a number of a character that is no such number");
}

static bool read_number(struct translation *t, char kind, uint32_t *c)
{
    bool braces = kind == 'x' && peek(t, 0) == '{';
    if (braces) t->at++;
    TRY(read_hex(t, braces ? 1 : kind == 'u' ? 4 : 2, braces ? 6 : kind == 'u' ? 4 : 2, c));
    if (braces && peek(t, 0) != '}') return refuse(t, "a number of a character that is no such number");
    if (braces) t->at++;
    if ((!braces && kind == 'x' && *c >= 0x80) || *c > 0x10FFFF || (*c >= 0xD800 && *c < 0xE000))
        return refuse(t, "a byte or a surrogate in place of a character");
    return true;
}

/* What is after a backslash: one character, *c, or a class, which is written; *set tells. */
static bool read_escape(struct translation *t, bool inside, bool *set, uint32_t *c)
{
    static const char from[] = "ntrfvae", to[] = "\n\t\r\f\v\a\x1b";
    if (t->at >= t->size) return refuse(t, "a backslash at its end");
    *c = next(t);
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
        return refuse(t, "an escape");
    }
    return true;
}

static bool emit_character(struct translation *t, uint32_t c) { return emit(t, "\\x{%x}", (unsigned)c); }

/* ---- a class in brackets ---- */

/* One character, or a class, which is written. */
static bool read_item(struct translation *t, bool *set, uint32_t *c)
{
    *set = false;
    *c = next(t);
    if (*c == '\\') {
        /* In a class, \b is the backspace. */
        if (peek(t, 0) == 'b') return refuse(t, "a backspace");
        TRY(read_escape(t, true, set, c));
    }
    if (!*set && t->caseless && *c >= 0x80) return refuse(t, "a letter other than ASCII's where case does not count");
    return true;
}

/* Items up to a bracket. */
static bool read_items(struct translation *t)
{
    bool set;
    uint32_t c, end;
    while (t->at < t->size && peek(t, 0) != ']' && peek(t, 0) != '[') {
        if (peek(t, 0) == '&' && peek(t, 1) == '&') return refuse(t, "an intersection of classes");
        TRY(read_item(t, &set, &c));
        if (set) continue;
        TRY(emit_character(t, c));
        if (peek(t, 0) != '-' || peek(t, 1) == ']' || peek(t, 1) == '[' || !peek(t, 1)) continue;
        t->at++;
        TRY(emit(t, "-") && read_item(t, &set, &end));
        if (set || end < c) return refuse(t, "a range that is none");
        TRY(emit_character(t, end));
    }
    return true;
}

/* After its "[". A class in a class adds to it. */
static bool read_class(struct translation *t)
{
    size_t depth = 1;
    bool negated = peek(t, 0) == '^';
    t->at += negated;
    TRY(emit(t, negated ? "[^" : "["));
    if (peek(t, 0) == ']') {
        t->at++;
        TRY(emit_character(t, ']'));
    }
    while (depth) {
        TRY(read_items(t));
        if (t->at >= t->size) return refuse(t, "a class without an end");
        if (t->text[t->at++] == ']') {
            depth--;
            continue;
        }
        if (peek(t, 0) == '^' || peek(t, 0) == ':' || peek(t, 0) == ']') return refuse(t, "a class in a class");
        depth++;
    }
    return emit(t, "]");
}

/* ---- groups ---- */

static bool open_group(struct translation *t, const char *as, bool atom)
{
    if (t->depth == DEEPEST) return refuse(t, "too many groups in each other");
    t->groups[t->depth++] = (struct group){t->count, t->caseless, atom};
    t->atom = NO_ATOM;
    t->begins = true;
    return emit(t, "%s", as);
}

/* After "(?": options, for the rest of the alternative or for the group. Ruby's m is that "." matches all. */
static bool read_options(struct translation *t)
{
    bool on = true, caseless = t->caseless;
    char text[8];
    size_t n = 0;
    for (;; t->at++) {
        char c = peek(t, 0);
        if (c == ':' || c == ')' || n > 4) break;
        if (c == '-' && on)
            on = false;
        else if (c == 'i')
            caseless = on;
        else if (c != 'm')
            return refuse(t, "a group of a kind");
        text[n++] = c == 'm' ? 's' : c;
    }
    text[n] = 0;
    char close = peek(t, 0);
    if (!n || (close != ':' && close != ')')) return refuse(t, "a group of a kind");
    if (close == ')' && !t->begins) return refuse(t, "an option behind something");
    t->at++;
    if (close == ':') {
        TRY(open_group(t, "(?", true) && emit(t, "%s:", text));
        t->caseless = caseless;
        return true;
    }
    t->caseless = caseless;
    return emit(t, "(?%s)", text);
}

static bool read_group(struct translation *t)
{
    static const struct {
        const char *text;
        bool atom;
    } kinds[] = {{"?:", true}, {"?=", false}, {"?!", false}, {"?>", true}, {"?<=", false}, {"?<!", false}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i].text);
        if (t->size - t->at < n || memcmp(t->text + t->at, kinds[i].text, n)) continue;
        t->at += n;
        return open_group(t, "(", kinds[i].atom) && emit(t, "%s", kinds[i].text);
    }
    if (peek(t, 0) == '?') {
        t->at++;
        return read_options(t);
    }
    return open_group(t, "(?:", true); /* nothing asks for what it matched */
}

static bool close_group(struct translation *t)
{
    if (!t->depth) return refuse(t, "a parenthesis that closes nothing");
    const struct group *group = &t->groups[--t->depth];
    t->caseless = group->caseless;
    t->atom = group->atom ? group->first : NO_ATOM;
    t->begins = false;
    return emit(t, ")");
}

/* ---- repetition ---- */

/* "{n}", "{n,}", "{n,m}" or "{,m}" at the brace: false where it is none of these. */
static bool is_interval(const struct translation *t, size_t *length, long *least, long *most)
{
    size_t i = 1, digits = 0;
    long values[2] = {-1, -1};
    bool comma = false;
    for (;; i++) {
        char c = peek(t, i);
        long *value = &values[comma];
        if (c >= '0' && c <= '9') {
            *value = (*value < 0 ? 0 : *value) * 10 + (c - '0');
            if (*value > 65535) return false;
            digits++;
        } else if (c == ',' && !comma) {
            comma = true;
        } else if (c == '}' && digits) {
            break;
        } else {
            return false;
        }
    }
    *length = i + 1;
    *least = values[0] < 0 ? 0 : values[0];
    *most = comma ? values[1] : values[0];
    return true;
}

/* Makes what was written from the atom on a group, which the next sign repeats. */
static bool wrap(struct translation *t)
{
    TRY(emit(t, "   )"));
    memmove(t->out + t->atom + 3, t->out + t->atom, t->count - t->atom - 4);
    memcpy(t->out + t->atom, "(?:", 3);
    return true;
}

static bool read_repeat(struct translation *t)
{
    size_t length = 1;
    long least = 0, most = 0;
    bool interval = peek(t, 0) == '{';
    if (interval && !is_interval(t, &length, &least, &most)) {
        t->at++;
        t->atom = t->count;
        return emit_character(t, '{');
    }
    if (t->atom == NO_ATOM) return refuse(t, "a repetition of nothing");
    if (interval && most >= 0 && most < least) return refuse(t, "an interval from more to less");
    TRY(!interval || (most >= 0 ? emit(t, "{%ld,%ld}", least, most) : emit(t, "{%ld,}", least)));
    TRY(interval || emit(t, "%c", peek(t, 0)));
    t->at += length;
    char sign = peek(t, 0);
    if (sign == '?' || sign == '+') {
        /* Behind an interval, + repeats it, and behind one of a single number, ? does. */
        if (interval && (sign == '+' || least == most)) TRY(wrap(t));
        t->at++;
        TRY(emit(t, "%c", sign));
    }
    sign = peek(t, 0);
    if (sign == '*' || sign == '+' || sign == '?' || (sign == '{' && is_interval(t, &length, &least, &most)))
        return refuse(t, "a repetition of a repetition");
    t->atom = NO_ATOM;
    return true;
}

/* ---- the pattern ---- */

/* Where the two sides of a place differ in being a word's. */
static bool emit_border(struct translation *t, bool is)
{
    t->atom = NO_ATOM;
    return emit(t, is ? "(?:(?<=[" : "(?:(?<![") && emit_word(t) && emit(t, "])(?![") && emit_word(t) &&
           emit(t, is ? "])|(?<![" : "])|(?<=[") && emit_word(t) && emit(t, "])(?=[") && emit_word(t) && emit(t, "]))");
}

/* A literal. Without regard to case, some letters are equal to one other letter: those are not looked for. */
static bool emit_literal(struct translation *t, uint32_t c)
{
    if (t->caseless) {
        uint32_t small = c - 'A' < 26 ? c + 32 : c;
        bool folds = (t->last == 's' && (small == 's' || small == 't')) ||
                     (t->last == 'f' && (small == 'f' || small == 'i' || small == 'l'));
        if (c >= 0x80 || folds) return refuse(t, "letters that are one letter where case does not count,");
        t->last = small;
    }
    t->atom = t->count;
    return emit_character(t, c);
}

static bool read_backslash(struct translation *t)
{
    bool set;
    uint32_t c;
    char kind = peek(t, 0);
    if (kind == 'b' || kind == 'B') {
        t->at++;
        return emit_border(t, kind == 'b');
    }
    if (kind == 'A' || kind == 'z' || kind == 'Z') {
        t->at++;
        t->atom = NO_ATOM;
        return emit(t, "\\%c", kind);
    }
    t->atom = t->count;
    TRY(read_escape(t, false, &set, &c));
    return set || emit_literal(t, c);
}

static bool read_one(struct translation *t)
{
    char kind = peek(t, 0);
    if (strchr("*+?{", kind) && kind) return read_repeat(t);
    uint32_t c = next(t), last = t->last;
    t->last = 0;
    if (c == '(') return read_group(t);
    if (c == ')') return close_group(t);
    if (c == '|') {
        t->atom = NO_ATOM;
        t->begins = true;
        return emit(t, "|");
    }
    t->begins = false;
    t->atom = c == '^' || c == '$' ? NO_ATOM : t->count;
    if (c == '[') return read_class(t);
    if (c == '^' || c == '$' || c == '.') return emit(t, "%c", (char)c);
    t->last = last;
    return c == '\\' ? read_backslash(t) : emit_literal(t, c);
}

bool regex_translate(const struct host *host, const char *pattern, size_t bytes, char **out, size_t *out_bytes,
                     struct error *e)
{
    struct translation t = {.host = host, .text = pattern, .size = bytes, .atom = NO_ATOM, .begins = true, .e = e};
    bool ok = bytes <= 1 << 14 || fail(e, WHERRY_STATUS_UNSUPPORTED, "a pattern of %zu bytes is too long", bytes);
    ok = ok && emit(&t, "%s", "");
    while (ok && t.at < t.size) ok = read_one(&t);
    if (ok && t.depth) ok = refuse(&t, "a group without an end");
    if (!ok) {
        host_free(host, t.out);
        return false;
    }
    *out = t.out;
    *out_bytes = t.count;
    return true;
}
