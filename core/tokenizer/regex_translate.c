/* Oniguruma's patterns as PCRE2's. Both are matched alike; what differs is a part of the notation, and which characters
 * a class has (regex_classes.c). */
#include "tokenizer/regex_translate.h"

#include <string.h>

#include "tokenizer/regex_translation.h"

/* ---- groups ---- */

static bool open_group(struct translation *t, const char *as, bool atom)
{
    if (t->depth == DEEPEST) return regex_refuse(t, "too many groups in each other");
    t->groups[t->depth++] = (struct group){t->count, t->caseless, atom};
    t->atom = NO_ATOM;
    t->begins = true;
    return regex_emit(t, "%s", as);
}

/* After "(?": options, for the rest of the alternative or for the group. Ruby's m is that "." matches all. */
static bool read_options(struct translation *t)
{
    bool on = true, caseless = t->caseless;
    char text[8];
    size_t n = 0;
    for (;; t->at++) {
        char c = regex_peek(t, 0);
        if (c == ':' || c == ')' || n > 4) break;
        if (c == '-' && on)
            on = false;
        else if (c == 'i')
            caseless = on;
        else if (c != 'm')
            return regex_refuse(t, "a group of a kind");
        text[n++] = c == 'm' ? 's' : c;
    }
    text[n] = 0;
    char close = regex_peek(t, 0);
    if (!n || (close != ':' && close != ')')) return regex_refuse(t, "a group of a kind");
    if (close == ')' && !t->begins) return regex_refuse(t, "an option behind something");
    t->at++;
    if (close == ':') {
        TRY(open_group(t, "(?", true) && regex_emit(t, "%s:", text));
        t->caseless = caseless;
        return true;
    }
    t->caseless = caseless;
    return regex_emit(t, "(?%s)", text);
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
        return open_group(t, "(", kinds[i].atom) && regex_emit(t, "%s", kinds[i].text);
    }
    if (regex_peek(t, 0) == '?') {
        t->at++;
        return read_options(t);
    }
    return open_group(t, "(?:", true); /* nothing asks for what it matched */
}

static bool close_group(struct translation *t)
{
    if (!t->depth) return regex_refuse(t, "a parenthesis that closes nothing");
    const struct group *group = &t->groups[--t->depth];
    t->caseless = group->caseless;
    t->atom = group->atom ? group->first : NO_ATOM;
    t->begins = false;
    return regex_emit(t, ")");
}

/* ---- repetition ---- */

/* "{n}", "{n,}", "{n,m}" or "{,m}" at the brace: false where it is none of these. */
static bool is_interval(const struct translation *t, size_t *length, long *least, long *most)
{
    size_t i = 1, digits = 0;
    long values[2] = {-1, -1};
    bool comma = false;
    for (;; i++) {
        char c = regex_peek(t, i);
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
    TRY(regex_emit(t, "   )"));
    memmove(t->out + t->atom + 3, t->out + t->atom, t->count - t->atom - 4);
    memcpy(t->out + t->atom, "(?:", 3);
    return true;
}

static bool read_repeat(struct translation *t)
{
    size_t length = 1;
    long least = 0, most = 0;
    bool interval = regex_peek(t, 0) == '{';
    if (interval && !is_interval(t, &length, &least, &most)) {
        t->at++;
        t->atom = t->count;
        return regex_emit_character(t, '{');
    }
    if (t->atom == NO_ATOM) return regex_refuse(t, "a repetition of nothing");
    if (interval && most >= 0 && most < least) return regex_refuse(t, "an interval from more to less");
    TRY(!interval || (most >= 0 ? regex_emit(t, "{%ld,%ld}", least, most) : regex_emit(t, "{%ld,}", least)));
    TRY(interval || regex_emit(t, "%c", regex_peek(t, 0)));
    t->at += length;
    char sign = regex_peek(t, 0);
    if (sign == '?' || sign == '+') {
        /* Behind an interval, + repeats it, and behind one of a single number, ? does. */
        if (interval && (sign == '+' || least == most)) TRY(wrap(t));
        t->at++;
        TRY(regex_emit(t, "%c", sign));
    }
    sign = regex_peek(t, 0);
    if (sign == '*' || sign == '+' || sign == '?' || (sign == '{' && is_interval(t, &length, &least, &most)))
        return regex_refuse(t, "a repetition of a repetition");
    t->atom = NO_ATOM;
    return true;
}

/* ---- the pattern ---- */

/* Where the two sides of a place differ in being a word's. */
static bool emit_border(struct translation *t, bool is)
{
    t->atom = NO_ATOM;
    return regex_emit(t, is ? "(?:(?<=[" : "(?:(?<![") && regex_emit_word(t) && regex_emit(t, "])(?![") &&
           regex_emit_word(t) && regex_emit(t, is ? "])|(?<![" : "])|(?<=[") && regex_emit_word(t) &&
           regex_emit(t, "])(?=[") && regex_emit_word(t) && regex_emit(t, "]))");
}

/* A literal. Without regard to case, some letters are equal to one other letter: those are not looked for. */
static bool emit_literal(struct translation *t, uint32_t c)
{
    if (t->caseless) {
        uint32_t small = c - 'A' < 26 ? c + 32 : c;
        bool folds = (t->last == 's' && (small == 's' || small == 't')) ||
                     (t->last == 'f' && (small == 'f' || small == 'i' || small == 'l'));
        if (c >= 0x80 || folds) return regex_refuse(t, "letters that are one letter where case does not count,");
        t->last = small;
    }
    t->atom = t->count;
    return regex_emit_character(t, c);
}

static bool read_backslash(struct translation *t)
{
    bool set;
    uint32_t c;
    char kind = regex_peek(t, 0);
    if (kind == 'b' || kind == 'B') {
        t->at++;
        return emit_border(t, kind == 'b');
    }
    if (kind == 'A' || kind == 'z' || kind == 'Z') {
        t->at++;
        t->atom = NO_ATOM;
        return regex_emit(t, "\\%c", kind);
    }
    t->atom = t->count;
    TRY(regex_escape(t, false, &set, &c));
    return set || emit_literal(t, c);
}

static bool read_one(struct translation *t)
{
    char kind = regex_peek(t, 0);
    if (strchr("*+?{", kind) && kind) return read_repeat(t);
    uint32_t c = regex_take(t), last = t->last;
    t->last = 0;
    if (c == '(') return read_group(t);
    if (c == ')') return close_group(t);
    if (c == '|') {
        t->atom = NO_ATOM;
        t->begins = true;
        return regex_emit(t, "|");
    }
    t->begins = false;
    t->atom = c == '^' || c == '$' ? NO_ATOM : t->count;
    if (c == '[') return regex_class(t);
    if (c == '^' || c == '$' || c == '.') return regex_emit(t, "%c", (char)c);
    t->last = last;
    return c == '\\' ? read_backslash(t) : emit_literal(t, c);
}

bool regex_translate(const struct host *host, const char *pattern, size_t bytes, char **out, size_t *out_bytes,
                     struct error *e)
{
    struct translation t = {.host = host, .text = pattern, .size = bytes, .atom = NO_ATOM, .begins = true, .e = e};
    bool ok = bytes <= 1 << 14 || fail(e, WHERRY_STATUS_UNSUPPORTED, "a pattern of %zu bytes is too long", bytes);
    ok = ok && regex_emit(&t, "%s", "");
    while (ok && t.at < t.size) ok = read_one(&t);
    if (ok && t.depth) ok = regex_refuse(&t, "a group without an end");
    if (!ok) {
        host_free(host, t.out);
        return false;
    }
    *out = t.out;
    *out_bytes = t.count;
    return true;
}
