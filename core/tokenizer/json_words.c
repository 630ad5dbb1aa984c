/* The vocabulary of a tokenizer.json, read without building JSON values of it. What is not as plain as all published
 * files are is left to the reader of JSON, which also says what is wrong. */
#include "tokenizer/json_words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/source.h"
#include "base/utf8.h"

struct span {
    const char *at;
    size_t bytes;
};

static size_t skip_space(const char *text, size_t size, size_t i)
{
    while (i < size && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r')) i++;
    return i;
}

/* ---- where the vocabulary is ---- */

static bool is_key(const struct span *key, const char *name)
{
    return key->bytes == strlen(name) && !memcmp(key->at, name, key->bytes);
}

/* The byte after the '{' or '[' of model.vocab; 0: there is none. Goes by brackets and strings alone, for the rest of
 * the text is read as JSON after this. */
static size_t vocabulary_find_object(const char *text, size_t size)
{
    struct span keys[3] = {{"", 0}, {"", 0}, {"", 0}}; /* by depth */
    size_t depth = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '{' || text[i] == '[') {
            if (depth == 2 && is_key(&keys[1], "model") && is_key(&keys[2], "vocab")) return i + 1;
            if (++depth < 3) keys[depth] = (struct span){"", 0};
        } else if (text[i] == '}' || text[i] == ']') {
            depth -= depth > 0;
        } else if (text[i] == '"') {
            size_t first = ++i;
            while (i < size && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
            if (i >= size) return 0;
            size_t after = skip_space(text, size, i + 1);
            if (depth < 3 && after < size && text[after] == ':') keys[depth] = (struct span){text + first, i - first};
        } else if (text[i] == ',' && depth < 3) {
            keys[depth] = (struct span){"", 0};
        }
    }
    return 0;
}

/* ---- its words ---- */

/* Four hexadecimal digits; false: they are not that. */
static bool read_hex(const char *text, size_t size, size_t i, uint32_t *out)
{
    if (size - i < 4) return false;
    *out = 0;
    for (size_t k = i; k < i + 4; k++) {
        char c = text[k];
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit > 15) return false;
        *out = *out << 4 | digit;
    }
    return true;
}

/* The character after a backslash at text[i], or 0. *n: the bytes of its escape. */
static uint32_t read_escape(const char *text, size_t size, size_t i, size_t *n)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    uint32_t c, low;
    if (i >= size) return 0;
    const char *name = text[i] ? strchr(names, text[i]) : NULL;
    *n = 1;
    if (name) return (uint32_t)meant[name - names];
    if (text[i] != 'u' || !read_hex(text, size, i + 1, &c)) return 0;
    *n = 5;
    if (c < 0xD800 || c > 0xDFFF) return c;
    if (c > 0xDBFF || size - i < 11 || text[i + 5] != '\\' || text[i + 6] != 'u' ||
        !read_hex(text, size, i + 7, &low) || low < 0xDC00 || low > 0xDFFF)
        return 0;
    *n = 11;
    return 0x10000 + ((c - 0xD800) << 10 | (low - 0xDC00));
}

/* The byte after a string's closing quote; 0: it is no plain one. In `to`, unless NULL, its text, which is as long or
 * shorter: in the string's own place. */
static size_t read_string(const char *text, size_t size, size_t i, char *to, size_t *bytes)
{
    *bytes = 0;
    while (i < size && text[i] != '"') {
        uint32_t c;
        char escaped[4];
        const char *from = text + i;
        bool valid = true;
        size_t n, used;
        if (text[i] == '\\') {
            if (!(c = read_escape(text, size, i + 1, &used))) return 0;
            n = utf8_write(c, escaped);
            from = escaped;
            used++;
        } else {
            used = n = utf8_decode(text + i, size - i, &c, &valid);
            if (!valid || c < 0x20) return 0;
        }
        for (size_t k = 0; to && k < n; k++) to[*bytes + k] = from[k];
        *bytes += n;
        i += used;
    }
    return i < size ? i + 1 : 0;
}

/* The byte after a whole number; 0: it is none, or has a sign, a fraction or more than nine digits. */
static size_t read_number(const char *text, size_t size, size_t i, uint32_t *out)
{
    size_t first = i;
    for (*out = 0; i < size && text[i] >= '0' && text[i] <= '9' && i - first < 9; i++)
        *out = *out * 10 + (uint32_t)(text[i] - '0');
    bool zero_first = i - first > 1 && text[first] == '0';
    return i == first || zero_first || i >= size || !strchr(" \t\r\n,}", text[i]) || !text[i] ? 0 : i;
}

/* The double that the reader makes of digits and a power of ten: both are rounded, and then what they give. */
static bool score_of(uint64_t digits, int64_t exponent, double *out)
{
    enum { MOST = 308 };
    double value = (double)digits;
    for (; exponent < -MOST; exponent += MOST) {
        if (value == 0) break;
        value /= 1e308;
    }
    if (exponent < -MOST) exponent = -MOST;
    if (exponent > MOST && value != 0) return false;
    double power = 1;
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int64_t size = exponent < 0 ? -exponent : exponent;
    if (size < (int64_t)(sizeof powers / sizeof *powers)) {
        power = powers[size];
    } else {
        char text[16];
        snprintf(text, sizeof text, "1e%d", (int)(size > MOST ? MOST : size));
        power = number_read(text, NULL);
    }
    *out = exponent < 0 ? value / power : value * power;
    return *out < HUGE_VAL;
}

size_t json_score_read(const char *text, size_t size, size_t i, double *out)
{
    bool negative = i < size && text[i] == '-', point = false, full = false;
    uint64_t digits = 0;
    int64_t exponent = 0, given = 0;
    size_t first = i += negative, fraction = 0;
    for (; i < size && ((text[i] >= '0' && text[i] <= '9') || (text[i] == '.' && !point)); i++) {
        if (text[i] == '.') {
            if (i == first) return 0;
            point = true;
            full = false; /* digits after the point may fit again only where those before it did not fill it */
            fraction = i + 1;
            continue;
        }
        if (i == first + 1 && text[first] == '0') return 0;
        uint64_t digit = (uint64_t)(text[i] - '0');
        full = full || digits > (UINT64_MAX - digit) / 10;
        if (!full) digits = digits * 10 + digit;
        exponent += !point && full ? 1 : point && !full ? -1 : 0;
    }
    if (i == first || (point && i == fraction)) return 0;
    if (i < size && (text[i] == 'e' || text[i] == 'E')) {
        bool down = ++i < size && text[i] == '-';
        if (i < size && (text[i] == '-' || text[i] == '+')) i++;
        size_t begin = i;
        for (; i < size && text[i] >= '0' && text[i] <= '9'; i++)
            if (given < 1000000) given = given * 10 + (text[i] - '0');
        if (i == begin) return 0;
        exponent += down ? -given : given;
    }
    if (!score_of(digits, exponent, out)) return 0;
    if (negative) *out = -*out;
    return i;
}

static size_t expect(const char *text, size_t size, size_t i, char c)
{
    i = skip_space(text, size, i);
    return i < size && text[i] == c ? i + 1 : 0;
}

/* The byte after "word": id, or ["word", score]; 0: it is not plain. Its text then is in place of the string. */
static size_t read_word(char *text, size_t size, size_t i, bool scored, struct json_word *word)
{
    size_t bytes;
    if (scored && !(i = expect(text, size, i, '['))) return 0;
    if (!(i = expect(text, size, i, '"'))) return 0;
    word->text = text + i;
    if (!(i = read_string(text, size, i, text + i, &bytes))) return 0;
    word->bytes = (uint32_t)bytes;
    if (!(i = expect(text, size, i, scored ? ',' : ':'))) return 0;
    i = skip_space(text, size, i);
    if (!scored) return read_number(text, size, i, &word->id);
    return (i = json_score_read(text, size, i, &word->score)) ? expect(text, size, i, ']') : 0;
}

/* Room for as many words as there can be: there is a comma between two of them, and one in each that has a score. */
static bool reserve_words(const struct host *host, const char *text, size_t size, size_t i, struct json_words *words)
{
    struct error ignored;
    size_t commas = 0;
    for (; i < size; i++) commas += text[i] == ',';
    words->list = host_alloc_unset(host, (words->scored ? commas / 2 : commas) + 1, sizeof *words->list, &ignored);
    return words->list;
}

/* The byte after the closing bracket, and the words in the list, which has room for them; 0: not all of it is plain. An
 * empty list has none. */
static size_t read_words(char *text, size_t size, size_t i, size_t most, struct json_words *words)
{
    for (;;) {
        struct json_word word = {.id = (uint32_t)words->count};
        if (words->count >= most || !(i = read_word(text, size, i, words->scored, &word))) return 0;
        words->list[words->count++] = word;
        i = skip_space(text, size, i);
        if (i >= size || text[i] != ',') break;
        i++;
    }
    return i < size && text[i] == (words->scored ? ']' : '}') ? i + 1 : 0;
}

/* ---- the file ---- */

/* The text without the words; NULL: it is not plain, or there is no memory for this, and the text may be spoilt. */
static char *words_cut(const struct host *host, char *text, size_t size, const struct json_limits *limits,
                       struct json_words *words, size_t *rest_size)
{
    struct error ignored;
    size_t first = vocabulary_find_object(text, size);
    if (!first || size > UINT32_MAX) return NULL;
    words->scored = text[first - 1] == '[';
    if (!reserve_words(host, text, size, first, words)) return NULL;
    size_t end = read_words(text, size, first, limits->values, words);
    if (!end) return NULL;
    *rest_size = size - (end - 1 - first);
    char *rest = host_alloc(host, *rest_size + 1, 1, &ignored);
    if (!rest) return NULL;
    memcpy(rest, text, first);
    memcpy(rest + first, text + end - 1, size - end + 1);
    return rest;
}

bool json_words_read(const struct host *host, const char *folder, const char *name, const struct json_limits *limits,
                     struct json_words *words, json_t **out, struct error *e)
{
    char *path = path_join(host, folder, name, e), *rest = NULL, why[JSON_WHY];
    size_t size = 0, rest_size = 0;
    *words = (struct json_words){0};
    bool read = path && source_read_all(host, path, limits->bytes, &words->text, &size, e);
    host_free(host, path);
    if (!read) return false;
    if ((rest = words_cut(host, words->text, size, limits, words, &rest_size)) != NULL) {
        bool ok = !json_read(rest, rest_size, limits, 0, out, why);
        host_free(host, rest);
        if (ok) return true;
    }
    json_words_free(host, words);
    return json_file_read(host, folder, name, limits, 0, out, e);
}

void json_words_free(const struct host *host, struct json_words *words)
{
    host_free(host, words->list);
    host_free(host, words->text);
    *words = (struct json_words){0};
}
