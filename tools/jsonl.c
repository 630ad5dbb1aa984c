/* One line of JSON Lines: an object with a text, perhaps a second one, and an id that stays as it is written. */
#include "jsonl.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

/* ---- escapes ---- */

/* Value of the four digits at `text`, 0x10000: they are none. */
static uint32_t hex4(const char *text, const char *end)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    uint32_t value = 0;
    if (end - text < 4) return 0x10000;
    for (int n = 0; n < 4; n++) {
        const char *digit = text[n] ? strchr(digits, text[n]) : NULL;
        if (!digit) return 0x10000;
        value = value << 4 | ((uint32_t)(digit - digits) & 15);
    }
    return value;
}

/* Value of the escape \uXXXX at `at`, 0x10000: there is none. */
static uint32_t escape_value(const char *at, const char *end)
{
    return end - at >= 6 && at[0] == '\\' && at[1] == 'u' ? hex4(at + 2, end) : 0x10000;
}

/* Half of a surrogate pair means no character: U+FFFD in its place, of the same length. Returns whether there was one.
 */
static bool repair_surrogates(char *text, size_t bytes)
{
    bool any = false;
    char *end = text + bytes;
    for (char *at = text; at < end; at++) {
        if (*at != '\\') continue;
        uint32_t value = escape_value(at, end);
        if (value > 0xFFFF) { /* another escape: the character after it begins none */
            at++;
            continue;
        }
        uint32_t next = escape_value(at + 6 < end ? at + 6 : end, end);
        if (value >= 0xD800 && value < 0xDC00 && next >= 0xDC00 && next < 0xE000) {
            at += 11;
            continue;
        }
        if (value >= 0xD800 && value < 0xE000) {
            memcpy(at + 2, "fffd", 4);
            any = true;
        }
        at += 5;
    }
    return any;
}

/* ---- the id ---- */

/* These move through text that jansson has read already, so that it is JSON. */

static const char *skip_space(const char *at) { return at + strspn(at, " \t\r\n"); }

static const char *skip_string(const char *at)
{
    for (at++; *at != '"'; at++)
        if (*at == '\\') at++;
    return at + 1;
}

static const char *skip_value(const char *at)
{
    size_t depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at);
            continue;
        }
        if (*at == '{' || *at == '[')
            depth++;
        else if (*at == '}' || *at == ']')
            depth--;
        else if (!depth) /* a number, or a word */
            return at + strcspn(at, " \t\r\n,]}");
        at++;
    } while (depth);
    return at;
}

/* Whether the key at `at` is `name`, which may be written with escapes. */
static bool key_is(const char *at, const char *name)
{
    const char *end = skip_string(at) - 1;
    for (at++; *name; name++) {
        uint32_t value = escape_value(at, end);
        if (at < end && value > 0xFFFF && *at != '\\') value = (unsigned char)*at;
        if (value != (unsigned char)*name) return false;
        at += *at == '\\' ? 6 : 1;
    }
    return at == end;
}

/* Where the object's value of this key begins and ends; false: it has none. */
static bool find_value(const char *object, const char *name, const char **begin, const char **end)
{
    const char *at = skip_space(skip_space(object) + 1);
    while (*at != '}') {
        bool found = key_is(at, name);
        at = skip_space(skip_space(skip_string(at)) + 1); /* after the colon */
        *begin = at;
        *end = at = skip_value(at);
        if (found) return true;
        at = skip_space(at);
        if (*at == ',') at = skip_space(at + 1);
    }
    return false;
}

/* ---- lines ---- */

void json_line_clear(struct json_line *line)
{
    json_decref(line->object);
    free(line->id);
    *line = (struct json_line){.object = NULL};
}

static bool refuse(struct json_line *line, const char *why)
{
    snprintf(line->problem, sizeof line->problem, "%s", why);
    return false;
}

static bool take_values(struct json_line *line, const char *written)
{
    const json_t *text = json_object_get(line->object, "text"), *pair = json_object_get(line->object, "pair");
    const json_t *id = json_object_get(line->object, "id");
    const char *begin, *end;
    if (!json_is_string(text)) return refuse(line, "an object with a string \"text\" is needed");
    if (pair && !json_is_null(pair) && !json_is_string(pair)) return refuse(line, "\"pair\" is not a string");
    if (json_is_object(id) || json_is_array(id))
        return refuse(line, "\"id\" is an object or an array, not a string or a number");
    if (id && find_value(written, "id", &begin, &end)) {
        size_t size = (size_t)(end - begin);
        line->id = memcpy(need(malloc(size + 1)), begin, size);
        line->id[size] = 0;
    }
    line->text = json_string_value(text);
    line->text_bytes = json_string_length(text);
    line->pair = json_string_value(pair);
    line->pair_bytes = json_string_length(pair);
    return true;
}

bool json_line_read(struct json_line *line, const char *text, size_t bytes)
{
    static const struct json_limits limits = {
        .bytes = SIZE_MAX, .values = 1 << 16, .depth = 64}; /* lines are bounded */
    json_line_clear(line);
    char *repaired = need(malloc(3 * bytes + 1));
    size_t size = repair_utf8(text, bytes, repaired);
    repaired[size] = 0;
    line->surrogates = repair_surrogates(repaired, size);
    /* Integers as reals: an id may have more digits than any integer type, and is not computed with. */
    wherry_status status =
        json_read(repaired, size, &limits, JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &line->object,
                  line->problem);
    if (status == WHERRY_STATUS_OUT_OF_HOST_MEMORY) need(NULL);
    bool fine = !status && take_values(line, repaired);
    free(repaired);
    return fine;
}
