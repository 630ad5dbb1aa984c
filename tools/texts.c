/* Texts from a file, one at a time, and batches of their tokens. */
#include "texts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "system.h"

enum { CHUNK = 1 << 16, LINE_MAX_BYTES = 1 << 26, PATH_SHOWN = 255 };

/* ---- reading ---- */

int text_source_open(struct text_source *source, const char *path, enum input_kind kind, bool pairs)
{
    bool standard = !path || strcmp(path, "-") == 0;
    *source = (struct text_source){.kind = kind, .pairs = pairs, .name = standard ? "standard input" : path};
    source->file = standard ? stdin : fopen(path, "rb");
    if (!source->file) return complain(EXIT_INPUT, "can't open %s: %s", path, strerror(errno));
    source->chunk = need(malloc(CHUNK));
    return EXIT_FINE;
}

void text_source_close(struct text_source *source)
{
    if (source->file && source->file != stdin) fclose(source->file);
    json_line_clear(&source->json);
    free(source->chunk);
    free(source->buffer);
    *source = (struct text_source){0};
}

/* The name of the encoding that the input's first bytes show to be another than UTF-8, NULL: none. Without a mark it is
 * UTF-16 where bytes at odd places, or at even ones alone, are mostly 0: text of ASCII characters. */
static const char *other_encoding(const char *data, size_t bytes)
{
    size_t zeros[2] = {0, 0}, seen = bytes < 1024 ? bytes : 1024;
    if (bytes >= 4 && (!memcmp(data, "\xFF\xFE\0\0", 4) || !memcmp(data, "\0\0\xFE\xFF", 4))) return "UTF-32";
    if (bytes >= 2 && (!memcmp(data, "\xFF\xFE", 2) || !memcmp(data, "\xFE\xFF", 2))) return "UTF-16";
    for (size_t n = 0; n < seen; n++) zeros[n & 1] += !data[n];
    if (zeros[0] + zeros[1] < 2 || (zeros[0] && zeros[1]) || 4 * (zeros[0] + zeros[1]) < seen) return NULL;
    return zeros[0] ? "UTF-16BE" : "UTF-16LE";
}

/* Whether every line of the first chunk begins like an object of JSON. */
static bool looks_like_jsonl(const char *data, size_t bytes)
{
    const char *at = data, *end = data + bytes;
    bool any = false;
    if (bytes >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0) at += 3;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        while (at < stop && (*at == ' ' || *at == '\t' || *at == '\r')) at++;
        if (at < stop && *at != '{') return false;
        if (at < stop) {
            for (at++; at < stop && (*at == ' ' || *at == '\t'); at++) continue;
            if (at < stop && *at != '"') return false;
            any = any || at < stop;
        }
        at = stop + (newline != NULL);
    }
    return any;
}

/* What the first bytes tell, once. */
static int look_at_begin(const struct text_source *source)
{
    const char *encoding = other_encoding(source->chunk, source->end);
    if (encoding)
        return complain(EXIT_INPUT, "%s is %s, and texts must be UTF-8: convert it, as in iconv -f %s -t UTF-8",
                        source->name, encoding, encoding);
    if (source->kind == INPUT_LINES && source->hint && !source->quiet && looks_like_jsonl(source->chunk, source->end))
        complain(0,
                 "note: the lines of %s look like JSON and are embedded as they stand; for their \"text\" say "
                 "--input jsonl, to leave this note out --input lines",
                 source->name);
    return EXIT_FINE;
}

static int read_chunk(struct text_source *source)
{
    bool first = !source->begun;
    errno = 0;
    source->at = 0;
    source->end = fread(source->chunk, 1, CHUNK, source->file);
    source->begun = true;
    if (first && source->end) return look_at_begin(source);
    if (source->end || !ferror(source->file)) return EXIT_FINE;
    if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
    return complain(EXIT_INPUT, "can't read %s: %s", source->name, strerror(errno ? errno : EIO));
}

/* The next line without its end, in source->buffer with a NUL after it. */
static int read_line(struct text_source *source, size_t *bytes, bool *more)
{
    size_t length = 0;
    *more = false;
    for (;;) {
        if (source->at == source->end) {
            int code = read_chunk(source);
            if (code) return code;
            if (!source->end) break;
        }
        *more = true;
        const char *from = source->chunk + source->at;
        const char *newline = memchr(from, '\n', source->end - source->at);
        size_t take = newline ? (size_t)(newline - from) : source->end - source->at;
        if (length + take > LINE_MAX_BYTES)
            return complain(EXIT_INPUT, "%s, line %llu: longer than %d MiB", source->name,
                            (unsigned long long)source->line + 1, LINE_MAX_BYTES >> 20);
        if (length + take + 1 > source->room) {
            source->room = 2 * (length + take + 1);
            source->buffer = need(realloc(source->buffer, source->room));
        }
        memcpy(source->buffer + length, from, take);
        length += take;
        source->at += take + (newline != NULL);
        if (newline) break;
    }
    if (!*more) return EXIT_FINE;
    source->line++;
    if (length && source->buffer[length - 1] == '\r') length--;
    source->buffer[length] = 0;
    *bytes = length;
    if (source->line == 1 && length >= 3 && memcmp(source->buffer, "\xEF\xBB\xBF", 3) == 0) {
        memmove(source->buffer, source->buffer + 3, length - 2); /* a byte order mark is no part of the text */
        *bytes -= 3;
    }
    return EXIT_FINE;
}

static int bad_line(const struct text_source *source, const char *what)
{
    return complain(EXIT_INPUT, "%s, line %llu: %s", source->name, (unsigned long long)source->line, what);
}

enum { REPLACED_NOTES = 5 };

static int parse_object(struct text_source *source, size_t bytes, struct text *out)
{
    struct json_line *json = &source->json;
    if (!json_line_read(json, source->buffer, bytes)) return bad_line(source, json->problem);
    if (json->surrogates && !source->quiet && source->replaced++ < REPLACED_NOTES)
        complain(0, "note: %s, line %llu: half of a surrogate pair (\\ud800 to \\udfff alone) became U+FFFD%s",
                 source->name, (unsigned long long)source->line,
                 source->replaced == REPLACED_NOTES ? "; further lines are not named" : "");
    *out = (struct text){.text = json->text,
                         .text_bytes = json->text_bytes,
                         .pair = json->pair,
                         .pair_bytes = json->pair_bytes,
                         .id = json->id,
                         .line = source->line};
    return EXIT_FINE;
}

int text_source_next(struct text_source *source, struct text *out, bool *more)
{
    size_t bytes = 0;
    for (;;) {
        int code = read_line(source, &bytes, more);
        if (code || !*more) return code;
        if (source->kind == INPUT_LINES) break;
        if (strspn(source->buffer, " \t") < bytes) return parse_object(source, bytes, out);
    }
    *out = (struct text){.text = source->buffer, .text_bytes = bytes, .line = source->line};
    if (!source->pairs) return EXIT_FINE;
    const char *tab = memchr(source->buffer, '\t', bytes);
    if (!tab) return bad_line(source, "no tab between two texts, as --pairs needs");
    if (memchr(tab + 1, '\t', (size_t)(source->buffer + bytes - tab - 1)))
        return bad_line(source, "more than one tab, and --pairs takes two texts with one between them");
    out->text_bytes = (size_t)(tab - source->buffer);
    out->pair = tab + 1;
    out->pair_bytes = bytes - out->text_bytes - 1;
    return EXIT_FINE;
}

/* ---- batches ---- */

void text_batch_create(struct text_batch *batch, uint32_t max_tokens, uint32_t max_length)
{
    *batch = (struct text_batch){.max_tokens = max_tokens, .max_length = max_length};
    batch->offsets = need(calloc((size_t)max_tokens + 1, sizeof *batch->offsets));
    batch->ids = need(malloc((size_t)max_tokens * sizeof *batch->ids));
    batch->types = need(malloc((size_t)max_tokens * sizeof *batch->types));
    batch->labels = need(calloc(max_tokens, sizeof *batch->labels));
    batch->waiting_ids = need(malloc((size_t)max_length * sizeof *batch->waiting_ids));
    batch->waiting_types = need(malloc((size_t)max_length * sizeof *batch->waiting_types));
    batch->rows = need(malloc((size_t)max_tokens * sizeof *batch->rows));
    batch->places = need(malloc((size_t)max_tokens * sizeof *batch->places));
    batch->waiting_places = need(malloc((size_t)max_length * sizeof *batch->waiting_places));
}

void text_label_free(struct text_label *label)
{
    free(label->id);
    free(label->text);
    *label = (struct text_label){0};
}

static void batch_clear(struct text_batch *batch)
{
    for (uint32_t s = 0; s < batch->sequences; s++) text_label_free(&batch->labels[s]);
    batch->sequences = batch->tokens = 0;
}

void text_batch_destroy(struct text_batch *batch)
{
    if (batch->labels) batch_clear(batch);
    text_label_free(&batch->waiting_label);
    free(batch->offsets);
    free(batch->ids);
    free(batch->types);
    free(batch->labels);
    free(batch->waiting_ids);
    free(batch->waiting_types);
    free(batch->places);
    free(batch->rows);
    free(batch->waiting_places);
    *batch = (struct text_batch){0};
}

static char *copy_bytes(const char *text, size_t bytes)
{
    char *copy = need(malloc(bytes + 1));
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    return copy;
}

/* Into the waiting place, the query before it or the prompt in front of it. */
static wherry_status tokenize(struct text_batch *batch, struct tool *tool, const struct text *text, size_t *count)
{
    const char *first = text->text, *second = text->pair;
    size_t first_bytes = text->text_bytes, second_bytes = text->pair_bytes, prompt = 0;
    char *joined = NULL;
    if (batch->query) {
        second = first, second_bytes = first_bytes;
        first = batch->query, first_bytes = strlen(first);
    } else if (batch->prompt && *batch->prompt) {
        prompt = strlen(batch->prompt);
        joined = need(malloc(prompt + first_bytes + 1));
        memcpy(joined, batch->prompt, prompt);
        memcpy(joined + prompt, first, first_bytes);
        first = joined, first_bytes += prompt;
    }
    *count = batch->max_length;
    wherry_status status = wherry_tokenize_places(
        tool->context, tool->model, first, first_bytes, second, second_bytes, batch->truncate ? batch->max_length : 0,
        batch->waiting_ids, batch->waiting_types, batch->keep_places ? batch->waiting_places : NULL, count);
    free(joined);
    return status;
}

/* Goes on to the waiting text's next mask, from token `at` on; false: there is none. */
static bool find_mask(struct text_batch *batch, uint32_t at)
{
    while (at < batch->waiting_tokens && batch->waiting_ids[at] != batch->mask) at++;
    batch->waiting_row = at;
    return at < batch->waiting_tokens;
}

/* A text with more masks waits for the next one. */
static bool waits_again(struct text_batch *batch, const struct text_label *label)
{
    if (!batch->masked || !find_mask(batch, batch->waiting_row + 1)) return false;
    batch->waiting_label = (struct text_label){.line = label->line, .again = true};
    return true;
}

/* Reads and tokenizes the next text into the waiting place. */
static int fetch(struct text_batch *batch, struct tool *tool, struct text_source *source)
{
    struct text text;
    int code = text_source_next(source, &text, &batch->waiting);
    if (code || !batch->waiting) return code;
    uint32_t types = tool->model_info.config.token_types;
    size_t count = 0;
    if (batch->query && text.pair)
        return complain(EXIT_INPUT, "%s, line %llu: a pair, and the query is the other text of each", source->name,
                        (unsigned long long)text.line);
    wherry_status status = tokenize(batch, tool, &text, &count);
    if (status) {
        char where[PATH_SHOWN + 32];
        snprintf(where, sizeof where, "%.*s, line %llu", PATH_SHOWN, source->name, (unsigned long long)text.line);
        return tool_error(tool, status, where);
    }
    for (size_t n = 0; n < count && n < batch->max_length; n++)
        if (batch->waiting_types[n] > 0 && (uint32_t)batch->waiting_types[n] >= types)
            return complain(EXIT_INPUT, "%s, line %llu: a pair, and this model has %u token type%s: it takes one text",
                            source->name, (unsigned long long)text.line, types, types == 1 ? "" : "s");
    if (count > batch->max_length)
        return complain(EXIT_INPUT, "%s, line %llu: %zu tokens, and the limit is %u; cut such texts with --truncate",
                        source->name, (unsigned long long)text.line, count, batch->max_length);
    batch->waiting_tokens = (uint32_t)count;
    batch->waiting_row = 0;
    if (batch->masked && !find_mask(batch, 0))
        return complain(EXIT_INPUT, "%s, line %llu: no mask to fill in it", source->name,
                        (unsigned long long)text.line);
    batch->waiting_label.line = text.line;
    if (text.id) batch->waiting_label.id = copy_bytes(text.id, strlen(text.id));
    if (batch->keep_texts) {
        batch->waiting_label.text = copy_bytes(text.text, text.text_bytes);
        batch->waiting_label.text_bytes = text.text_bytes;
    }
    return EXIT_FINE;
}

int text_batch_fill(struct text_batch *batch, struct tool *tool, struct text_source *source)
{
    batch_clear(batch);
    for (;;) {
        if (!batch->waiting) {
            int code = fetch(batch, tool, source);
            if (code) return code;
            if (!batch->waiting) return EXIT_FINE;
        }
        if (batch->waiting_tokens > batch->max_tokens - batch->tokens) return EXIT_FINE;
        if (batch->masked && batch->sequences == TEXT_MASKS_MOST) return EXIT_FINE;
        memcpy(batch->ids + batch->tokens, batch->waiting_ids, batch->waiting_tokens * sizeof *batch->ids);
        memcpy(batch->types + batch->tokens, batch->waiting_types, batch->waiting_tokens * sizeof *batch->types);
        if (batch->keep_places)
            memcpy(batch->places + batch->tokens, batch->waiting_places, batch->waiting_tokens * sizeof *batch->places);
        const struct text_label *label = &batch->labels[batch->sequences];
        batch->rows[batch->sequences] = batch->waiting_row;
        batch->labels[batch->sequences++] = batch->waiting_label;
        batch->tokens += batch->waiting_tokens;
        batch->offsets[batch->sequences] = batch->tokens;
        batch->waiting_label = (struct text_label){0};
        batch->waiting = waits_again(batch, label);
        if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
    }
}

wherry_batch text_batch_view(const struct text_batch *batch)
{
    return (wherry_batch){.struct_size = sizeof(wherry_batch),
                          .sequences = batch->sequences,
                          .offsets = batch->offsets,
                          .ids = batch->ids,
                          .types = batch->types,
                          .rows = batch->masked ? batch->rows : NULL};
}

/* ---- limits ---- */

int text_limits(const struct tool *tool, uint32_t *batch_tokens, uint32_t *length)
{
    const struct options *options = tool->options;
    uint32_t limit = tool->model_info.max_tokens;
    if (!tool->model_info.has_tokenizer)
        return complain(EXIT_INPUT, "%s has no tokenizer: put the model's tokenizer.json, or its older files, there",
                        options->model);
    *length = options->max_tokens ? options->max_tokens : limit;
    if (*length > limit) return complain(EXIT_USAGE, "--max-tokens %u: this model takes at most %u", *length, limit);
    *batch_tokens = options->batch_tokens;
    if (*batch_tokens && *batch_tokens < *length)
        return complain(EXIT_USAGE, "--batch-tokens %u is less than the longest text, %u tokens; give --max-tokens too",
                        *batch_tokens, *length);
    if (!*batch_tokens) {
        const wherry_device_info *device = &tool->device_info;
        *batch_tokens = strcmp(device->id, "reference") == 0 ? 1024 : device->type == WHERRY_DEVICE_CPU ? 4096 : 16384;
        if (*batch_tokens < *length) *batch_tokens = *length;
    }
    return EXIT_FINE;
}

int tool_open_text_session(struct tool *tool, const struct text_batch *batch, bool more, wherry_session_desc desc)
{
    const struct options *options = tool->options;
    desc.max_tokens = batch->max_tokens;
    desc.max_length = batch->max_length;
    desc.dtype = (wherry_dtype)options->dtype;
    if (!more) { /* a few texts need little memory; powers of two, so that sizes seldom differ from run to run */
        uint32_t tokens = 256;
        while (tokens < batch->tokens) tokens *= 2;
        if (tokens < desc.max_tokens) desc.max_tokens = tokens;
        if (desc.max_length > desc.max_tokens) desc.max_length = desc.max_tokens;
    }
    return tool_open_session(tool, plan_name(options->plan), desc);
}
