/* The vocabulary of a tokenizer.json, read without building JSON values of it. What is not as plain as all published
 * files are is left to the reader of JSON, which also says what is wrong. */
#include "tokenizer/json_words.h"

#include <string.h>

#include "base/platform.h"
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

/* The byte after the '{' of model.vocab; 0: there is none. Goes by brackets and strings alone, for the rest of the text
 * is read as JSON after this. */
static size_t vocabulary_find_object(const char *text, size_t size)
{
    struct span keys[3] = {{"", 0}, {"", 0}, {"", 0}}; /* by depth */
    size_t depth = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '{' || text[i] == '[') {
            if (text[i] == '{' && depth == 2 && is_key(&keys[1], "model") && is_key(&keys[2], "vocab")) return i + 1;
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

/* The byte after a string's closing quote; 0: it is no plain one. In `to`, unless NULL, its text, which is as long or
 * shorter: in the string's own place. */
static size_t read_string(const char *text, size_t size, size_t i, char *to, size_t *bytes)
{
    *bytes = 0;
    while (i < size && text[i] != '"') {
        uint32_t c;
        bool valid = true;
        size_t from = i, n;
        if (text[i] == '\\') {
            if (i + 1 >= size || !strchr("\"\\/", text[i + 1])) return 0;
            from++;
            n = 1;
        } else {
            n = utf8_decode(text + i, size - i, &c, &valid);
            if (!valid || c < 0x20) return 0;
        }
        for (size_t k = 0; to && k < n; k++) to[*bytes + k] = text[from + k];
        *bytes += n;
        i = from + n;
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

/* The byte after the object's '}'; 0: not all of it is plain. The words in `list`, unless NULL, which has room for
 * them; their texts are then in place of the strings. */
static size_t read_words(char *text, size_t size, size_t i, struct json_word *list, size_t *count)
{
    for (*count = 0;; ++*count) {
        struct json_word word;
        size_t bytes;
        i = skip_space(text, size, i);
        if (i >= size || text[i] != '"') return 0;
        char *to = text + ++i;
        if (!(i = read_string(text, size, i, list ? to : NULL, &bytes))) return 0;
        i = skip_space(text, size, i);
        if (i >= size || text[i] != ':') return 0;
        if (!(i = read_number(text, size, skip_space(text, size, i + 1), &word.id))) return 0;
        word.text = to;
        word.bytes = (uint32_t)bytes;
        if (list) list[*count] = word;
        i = skip_space(text, size, i);
        if (i < size && text[i] == ',') {
            i++;
            continue;
        }
        ++*count;
        return i < size && text[i] == '}' ? i + 1 : 0;
    }
}

/* ---- the file ---- */

/* The text without the words; NULL and no words: it is not plain, or there is no memory for this. */
static char *words_cut(const struct host *host, char *text, size_t size, const struct json_limits *limits,
                       struct json_words *words, size_t *rest_size)
{
    struct error ignored;
    size_t first = vocabulary_find_object(text, size), count = 0;
    size_t end = first ? read_words(text, size, first, NULL, &count) : 0;
    if (!end || count >= limits->values || size > UINT32_MAX) return NULL;
    char *rest = host_alloc(host, size - (end - 1 - first) + 1, 1, &ignored);
    words->list = rest ? host_alloc(host, count, sizeof *words->list, &ignored) : NULL;
    if (!words->list) {
        host_free(host, rest);
        return NULL;
    }
    *rest_size = size - (end - 1 - first);
    memcpy(rest, text, first);
    memcpy(rest + first, text + end - 1, size - end + 1);
    read_words(text, size, first, words->list, &words->count);
    return rest;
}

bool json_words_read(const struct host *host, const char *folder, const char *name, const struct json_limits *limits,
                     struct json_words *words, json_t **out, struct error *e)
{
    char *path = path_join(host, folder, name, e), *rest = NULL, why[JSON_WHY];
    size_t size = 0, rest_size = 0;
    *words = (struct json_words){0};
    bool read = path && file_read(host, path, limits->bytes, &words->text, &size, e);
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
