/* Texts from a file, one at a time, and batches of their tokens. */
#include "texts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "json_file.h"
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
    json_decref(source->object);
    free(source->chunk);
    free(source->buffer);
    free(source->id);
    *source = (struct text_source){0};
}

static int read_chunk(struct text_source *source)
{
    errno = 0;
    source->at = 0;
    source->end = fread(source->chunk, 1, CHUNK, source->file);
    if (source->end || !ferror(source->file)) return EXIT_FINE;
    if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
    return complain(EXIT_INPUT, "can't read %s: %s", source->name, strerror(errno ? errno : EIO));
}

/* The next line without its end, in source->buffer with a NUL behind it. */
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

static int parse_object(struct text_source *source, size_t bytes, struct text *out)
{
    static const struct json_limits limits = {.bytes = (size_t)3 * LINE_MAX_BYTES, .values = 1 << 16, .depth = 64};
    char *repaired = need(malloc(3 * bytes + 1)), name[PATH_SHOWN + 32];
    snprintf(name, sizeof name, "%.*s, line %llu", PATH_SHOWN, source->name, (unsigned long long)source->line);
    size_t size = repair_utf8(source->buffer, bytes, repaired);
    json_decref(source->object);
    int code = json_text_read(repaired, size, name, &limits, JSON_ALLOW_NUL | JSON_DECODE_ANY, &source->object);
    free(repaired);
    free(source->id);
    source->id = NULL;
    if (code) return code;
    const json_t *text = json_object_get(source->object, "text"), *pair = json_object_get(source->object, "pair");
    const json_t *id = json_object_get(source->object, "id");
    if (!json_is_string(text)) return bad_line(source, "an object with a string \"text\" is needed");
    if (pair && !json_is_null(pair) && !json_is_string(pair)) return bad_line(source, "\"pair\" is not a string");
    if (id && !json_is_string(id) && !json_is_number(id)) return bad_line(source, "\"id\" is no string or number");
    if (id) source->id = need(json_dumps(id, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)));
    *out = (struct text){.text = json_string_value(text),
                         .text_bytes = json_string_length(text),
                         .pair = json_string_value(pair),
                         .pair_bytes = json_string_length(pair),
                         .id = source->id,
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
}

static void label_free(struct text_label *label)
{
    free(label->id);
    free(label->text);
    *label = (struct text_label){0};
}

static void batch_clear(struct text_batch *batch)
{
    for (uint32_t s = 0; s < batch->sequences; s++) label_free(&batch->labels[s]);
    batch->sequences = batch->tokens = 0;
}

void text_batch_destroy(struct text_batch *batch)
{
    if (batch->labels) batch_clear(batch);
    label_free(&batch->waiting_label);
    free(batch->offsets);
    free(batch->ids);
    free(batch->types);
    free(batch->labels);
    free(batch->waiting_ids);
    free(batch->waiting_types);
    *batch = (struct text_batch){0};
}

static char *copy_bytes(const char *text, size_t bytes)
{
    char *copy = need(malloc(bytes + 1));
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    return copy;
}

/* Reads and tokenizes the next text into the waiting place. */
static int fetch(struct text_batch *batch, struct tool *tool, struct text_source *source)
{
    struct text text;
    int code = text_source_next(source, &text, &batch->waiting);
    if (code || !batch->waiting) return code;
    size_t count = batch->max_length;
    wherry_status status =
        wherry_tokenize(tool->context, tool->model, text.text, text.text_bytes, text.pair, text.pair_bytes,
                        batch->truncate ? batch->max_length : 0, batch->waiting_ids, batch->waiting_types, &count);
    if (status) {
        char where[PATH_SHOWN + 32];
        snprintf(where, sizeof where, "%.*s, line %llu", PATH_SHOWN, source->name, (unsigned long long)text.line);
        return tool_error(tool, status, where);
    }
    if (count > batch->max_length)
        return complain(EXIT_INPUT, "%s, line %llu: %zu tokens, and the limit is %u; cut such texts with --truncate",
                        source->name, (unsigned long long)text.line, count, batch->max_length);
    batch->waiting_tokens = (uint32_t)count;
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
        memcpy(batch->ids + batch->tokens, batch->waiting_ids, batch->waiting_tokens * sizeof *batch->ids);
        memcpy(batch->types + batch->tokens, batch->waiting_types, batch->waiting_tokens * sizeof *batch->types);
        batch->labels[batch->sequences++] = batch->waiting_label;
        batch->tokens += batch->waiting_tokens;
        batch->offsets[batch->sequences] = batch->tokens;
        batch->waiting_label = (struct text_label){0};
        batch->waiting = false;
        if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
    }
}

wherry_batch text_batch_view(const struct text_batch *batch)
{
    return (wherry_batch){.struct_size = sizeof(wherry_batch),
                          .sequences = batch->sequences,
                          .offsets = batch->offsets,
                          .ids = batch->ids,
                          .types = batch->types};
}

/* ---- limits ---- */

int text_limits(const struct tool *tool, uint32_t *batch_tokens, uint32_t *length)
{
    const struct options *options = tool->options;
    uint32_t limit = tool->model_info.max_tokens;
    if (!tool->model_info.has_tokenizer)
        return complain(EXIT_INPUT, "%s has no tokenizer: put the model's vocab.txt or tokenizer.json there",
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

int tool_open_text_session(struct tool *tool, const struct text_batch *batch, bool more)
{
    const struct options *options = tool->options;
    wherry_session_desc desc = {.max_tokens = batch->max_tokens,
                                .max_length = batch->max_length,
                                .dtype = (wherry_dtype)options->dtype,
                                .pool = (wherry_pool)options->pool,
                                .normalize = options->normalize      ? 1
                                             : options->no_normalize ? -1
                                                                     : 0};
    if (!more) { /* a few texts need little memory; powers of two, so that sizes seldom differ from run to run */
        uint32_t tokens = 256;
        while (tokens < batch->tokens) tokens *= 2;
        if (tokens < desc.max_tokens) desc.max_tokens = tokens;
        if (desc.max_length > desc.max_tokens) desc.max_length = desc.max_tokens;
    }
    return tool_open_session(tool, plan_name(options->plan), desc);
}
