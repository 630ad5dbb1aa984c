/* Batches of texts' tokens. */
#include "texts.h"

#include <stdlib.h>
#include <string.h>

#include "ahead.h"
#include "system.h"

enum { PATH_SHOWN = 255 };

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
    ahead_destroy(batch->ahead);
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

/* With the batch's own settings, which stand before its first text. */
static int open_ahead(struct text_batch *batch, struct tool *tool)
{
    enum { BYTES_OF_TOKEN = 4 }; /* about: a block is what a batch takes */
    const struct ahead_form form = {.max_length = batch->max_length,
                                    .truncate = batch->truncate,
                                    .keep_places = batch->keep_places,
                                    .prompt = batch->prompt,
                                    .taken = batch->taken,
                                    .query = batch->query,
                                    .instruction = batch->instruction,
                                    .block_bytes = (size_t)batch->max_tokens * BYTES_OF_TOKEN,
                                    .threads = tool->options->threads};
    return batch->ahead ? EXIT_FINE : ahead_create(tool, &form, &batch->ahead);
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
    batch->waiting_label = (struct text_label){.name = label->name, .line = label->line, .again = true};
    return true;
}

/* Whether the text can be encoded. */
static int check_text(const struct text_batch *batch, struct tool *tool, const struct ahead_text *t)
{
    const char *name = t->text.name;
    uint32_t types = tool->model_info.config.token_types;
    unsigned long long line = t->text.line;
    if (batch->query && t->text.pair)
        return complain(EXIT_INPUT, "%s, line %llu: a pair, and the query is the other text of each", name, line);
    if (t->status == WHERRY_STATUS_TOO_LONG && t->count > batch->max_length)
        return complain(EXIT_INPUT, "%s, line %llu: %zu tokens, and the limit is %u; cut such texts with --truncate",
                        name, line, t->count, batch->max_length);
    if (t->status) {
        complain(0, "%.*s, line %llu: %s", PATH_SHOWN, name, line, t->problem);
        return tool_failed(tool, t->status);
    }
    for (size_t n = 0; n < t->count; n++)
        if (t->types[n] > 0 && (uint32_t)t->types[n] >= types)
            return complain(EXIT_INPUT, "%s, line %llu: a pair, and this model has %u token type%s: it takes one text",
                            name, line, types, types == 1 ? "" : "s");
    return EXIT_FINE;
}

/* Puts the next text into the waiting place. */
static int fetch(struct text_batch *batch, struct tool *tool, struct text_source *source)
{
    const struct ahead_text *t;
    int code = open_ahead(batch, tool);
    if (!code) code = ahead_next(batch->ahead, source, &t);
    if (code || !t) return code;
    code = check_text(batch, tool, t);
    if (code) return code;
    batch->waiting = true;
    memcpy(batch->waiting_ids, t->ids, t->count * sizeof *t->ids);
    memcpy(batch->waiting_types, t->types, t->count * sizeof *t->types);
    if (batch->keep_places) memcpy(batch->waiting_places, t->places, t->count * sizeof *t->places);
    batch->waiting_tokens = (uint32_t)t->count;
    batch->waiting_row = 0;
    if (batch->masked && !find_mask(batch, 0))
        return complain(EXIT_INPUT, "%s, line %llu: no mask to fill in it", t->text.name,
                        (unsigned long long)t->text.line);
    batch->waiting_label.name = t->text.name;
    batch->waiting_label.line = t->text.line;
    if (t->text.id) batch->waiting_label.id = copy_bytes(t->text.id, strlen(t->text.id));
    if (batch->keep_texts) {
        batch->waiting_label.text = copy_bytes(t->text.text, t->text.text_bytes);
        batch->waiting_label.text_bytes = t->text.text_bytes;
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

void text_batch_restart(struct text_batch *batch)
{
    batch_clear(batch);
    text_label_free(&batch->waiting_label);
    batch->waiting = false;
    ahead_restart(batch->ahead);
}

void text_batch_pass(struct text_batch *batch, struct text_batch *next)
{
    if (!next->offsets) {
        text_batch_create(next, batch->max_tokens, batch->max_length);
        next->truncate = batch->truncate;
        next->keep_texts = batch->keep_texts;
        next->keep_places = batch->keep_places;
        next->masked = batch->masked;
        next->mask = batch->mask;
        next->prompt = batch->prompt;
        next->taken = batch->taken;
        next->query = batch->query;
        next->instruction = batch->instruction;
    }
    next->ahead = batch->ahead;
    batch->ahead = NULL;
    next->waiting = batch->waiting;
    batch->waiting = false;
    next->waiting_label = batch->waiting_label;
    batch->waiting_label = (struct text_label){0};
    next->waiting_row = batch->waiting_row;
    next->waiting_tokens = batch->waiting_tokens;
    memcpy(next->waiting_ids, batch->waiting_ids, batch->waiting_tokens * sizeof *next->waiting_ids);
    memcpy(next->waiting_types, batch->waiting_types, batch->waiting_tokens * sizeof *next->waiting_types);
    if (batch->keep_places)
        memcpy(next->waiting_places, batch->waiting_places, batch->waiting_tokens * sizeof *next->waiting_places);
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
    desc.weights = (wherry_weights)options->weights;
    if (!more) { /* a few texts need little memory; powers of two, so that sizes seldom differ from run to run */
        uint32_t tokens = 256;
        while (tokens < batch->tokens) tokens *= 2;
        if (tokens < desc.max_tokens) desc.max_tokens = tokens;
        if (desc.max_length > desc.max_tokens) desc.max_length = desc.max_tokens;
    }
    return tool_open_session(tool, plan_name(options->plan), desc);
}
