/* Bounded parsing of JSON, by jansson. */
#include "base/json.h"

#include <stdio.h>
#include <string.h>

#include "base/locale_plain.h"

/* ---- bounds ---- */

/* What a text has, found without understanding it: at least as much as a parser would. */
struct extent {
    size_t values;
    size_t token; /* bytes of the longest string or number */
    size_t lines;
};

static wherry_status too_many(char why[JSON_WHY], const char *what, size_t most)
{
    snprintf(why, JSON_WHY, "more than %zu %s, the most that are read of such a file", most, what);
    return WHERRY_STATUS_BAD_FORMAT;
}

/* The byte after the string whose text begins at `at`, or the end of all. */
static size_t string_end(const char *text, size_t size, size_t at)
{
    while (at < size && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
    return at < size ? at + 1 : size;
}

static wherry_status measure(const char *text, size_t size, const struct json_limits *limits, struct extent *out,
                             char why[JSON_WHY])
{
    struct extent x = {.values = 1, .lines = 1};
    size_t depth = 0, token = 0;
    if (size > limits->bytes) return too_many(why, "bytes", limits->bytes);
    for (size_t i = 0; i < size; i++) {
        switch (text[i]) {
        case '"':
            token = string_end(text, size, i + 1) - i;
            i += token - 1;
            break;
        case '{':
        case '[':
            if (++depth > limits->depth) return too_many(why, "levels of nesting", limits->depth);
            x.values++;
            token = 0;
            break;
        case '}':
        case ']':
            depth -= depth > 0;
            token = 0;
            break;
        case ',':
            x.values++;
            token = 0;
            break;
        case '\n':
            x.lines++;
            token = 0;
            break;
        default:
            token++;
        }
        if (token > x.token) x.token = token;
        if (x.values > limits->values) return too_many(why, "values", limits->values);
    }
    *out = x;
    return WHERRY_STATUS_OK;
}

/* ---- parsing ---- */

/* jansson's buffer for a string or number loses bytes, and says nothing, where it can't get memory to grow. So a string
 * that is longer than any of the text goes before it, in an array of both: the buffer grows only there, and a loss is
 * seen by that string's length. */
struct guarded {
    struct {
        const char *data; /* NULL: `size` times 'x' */
        size_t size;
    } parts[5];
    size_t part, at;
};

enum { BUFFER_START = 16, PART_PADDING = 1, PART_TEXT = 3 };

static struct guarded guard(const char *text, size_t size, size_t token)
{
    size_t padding = token; /* its quotes make it longer */
    size_t grows = BUFFER_START;
    while (grows < padding + 2) grows *= 2;
    padding += grows == padding + 2; /* the buffer must not grow at the closing quote: that one must not be lost */
    return (struct guarded){.parts = {{"[\"", 2}, {NULL, padding}, {"\",", 2}, {text, size}, {"]", 1}}};
}

static size_t guarded_next(void *buffer, size_t room, void *user)
{
    struct guarded *g = user;
    size_t done = 0;
    while (done < room && g->part < sizeof g->parts / sizeof *g->parts) {
        size_t left = g->parts[g->part].size - g->at, n = left < room - done ? left : room - done;
        if (g->parts[g->part].data)
            memcpy((char *)buffer + done, g->parts[g->part].data + g->at, n);
        else
            memset((char *)buffer + done, 'x', n);
        done += n;
        g->at += n;
        if (n < left) break;
        g->part++;
        g->at = 0;
    }
    return done;
}

/* Whether jansson stopped for want of memory. Often it says nothing then, and of a string that could not be copied that
 * it is no token, or of a key that it is no string, where it stands after the closing quote. */
static bool out_of_memory(const json_error_t *at, const char *text, size_t size, size_t before)
{
    static const char invalid[] = "invalid token", no_key[] = "string or '}' expected";
    if (!at->text[0] || json_error_code(at) == json_error_out_of_memory) return true;
    if (strncmp(at->text, invalid, sizeof invalid - 1) && strncmp(at->text, no_key, sizeof no_key - 1)) return false;
    if (at->position < 1) return false;
    size_t last = (size_t)at->position - 1;
    return last < before ? last == before - 2 : last - before < size && text[last - before] == '"';
}

static wherry_status no_memory(char why[JSON_WHY])
{
    snprintf(why, JSON_WHY, "out of host memory while its JSON was read");
    return WHERRY_STATUS_OUT_OF_HOST_MEMORY;
}

static wherry_status parse_guarded(const char *text, size_t size, size_t token, size_t flags, json_t **out,
                                   char why[JSON_WHY])
{
    json_error_t at;
    struct guarded g = guard(text, size, token);
    size_t padding = g.parts[PART_PADDING].size, before = 0;
    for (int i = 0; i < PART_TEXT; i++) before += g.parts[i].size;
    json_t *both = json_load_callback(guarded_next, &g, flags, &at);
    if (!both) return out_of_memory(&at, text, size, before) ? no_memory(why) : WHERRY_STATUS_BAD_FORMAT;
    wherry_status status = WHERRY_STATUS_OK;
    const json_t *value = json_array_get(both, 1);
    if (json_string_length(json_array_get(both, 0)) != padding)
        status = no_memory(why);
    else if (json_array_size(both) != 2)
        status = WHERRY_STATUS_BAD_FORMAT;
    else if (!(flags & JSON_DECODE_ANY) && !json_is_array(value) && !json_is_object(value))
        status = WHERRY_STATUS_BAD_FORMAT;
    else
        *out = json_incref((json_t *)value);
    json_decref(both);
    return status;
}

static wherry_status parse_plain(const char *text, size_t size, const struct extent *x, size_t flags, json_t **out,
                                 char why[JSON_WHY])
{
    json_error_t at;
    *out = json_loadb(text, size, flags, &at);
    if (*out) return WHERRY_STATUS_OK;
    if (out_of_memory(&at, text, size, 0)) return no_memory(why);
    if (json_error_code(&at) == json_error_premature_end_of_input)
        snprintf(why, JSON_WHY, "cut off: not valid JSON, as it ends too early, in line %d", at.line);
    else if (x->lines == 1)
        snprintf(why, JSON_WHY, "not valid JSON (column %d: %s)", at.column, at.text);
    else
        snprintf(why, JSON_WHY, "not valid JSON (line %d, column %d: %s)", at.line, at.column, at.text);
    return WHERRY_STATUS_BAD_FORMAT;
}

static wherry_status parse(const char *text, size_t size, const struct extent *x, size_t flags, json_t **out,
                           char why[JSON_WHY])
{
    if (x->token + 1 < BUFFER_START) return parse_plain(text, size, x, flags, out, why);
    wherry_status status = parse_guarded(text, size, x->token, flags, out, why);
    if (status != WHERRY_STATUS_BAD_FORMAT) return status;
    /* What is wrong, and where, is said best with nothing before the text. */
    status = parse_plain(text, size, x, flags, out, why);
    if (status) return status;
    json_decref(*out);
    *out = NULL;
    return no_memory(why);
}

wherry_status json_read(const char *text, size_t size, const struct json_limits *limits, size_t flags, json_t **out,
                        char why[JSON_WHY])
{
    struct extent x;
    struct locale_kept kept;
    *out = NULL;
    flags |= JSON_REJECT_DUPLICATES;
    wherry_status status = measure(text, size, limits, &x, why);
    if (status) return status;
    if (!locale_plain(&kept)) return no_memory(why);
    status = parse(text, size, &x, flags, out, why);
    locale_restore(&kept);
    return status;
}
