/* Batches of training data. */
#include "train/batches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "options.h"
#include "train/draws.h"
#include "train/pairs.h"
#include "train/text_set.h"
#include "train/tokens.h"

/* Examples that wait for another batch, at most: then a batch ends before it is full. */
enum { WAITING_MOST = 4096 };

struct fill {
    struct token_list tokens;
    struct text_set texts; /* of the batch, where none may be in it twice */
    uint64_t *numbers;
    int32_t *labels; /* of classes, and of pairs */
    float *values;
    uint32_t examples, columns;
    size_t n_values, room, values_room;
};

void batches_open(struct batches *batches, const struct batches_desc *desc, struct lines *lines,
                  struct example_form *form)
{
    *batches = (struct batches){.desc = *desc, .lines = lines, .form = form};
    batches->fill = need(calloc(1, sizeof *batches->fill));
}

void batches_close(struct batches *batches)
{
    struct fill *fill = batches->fill;
    if (!fill) return;
    token_list_free(&fill->tokens);
    text_set_free(&fill->texts);
    free(fill->numbers);
    free(fill->labels);
    free(fill->values);
    free(fill);
    position_free(&batches->position);
    example_clear(&batches->example);
    *batches = (struct batches){.lines = NULL};
}

/* ---- one example ---- */

enum outcome { TAKEN, PUT_OFF, FULL };

/* In the place of an epoch's order, whose numbers are drawn likewise. */
enum { PAIRS = 0x70616972 };

static bool full(const struct batches *b) { return b->fill->examples == b->desc.examples; }

static int over_budget(const struct batches *b, uint64_t number, uint32_t tokens)
{
    char text[160];
    snprintf(text, sizeof text, "%u tokens, more than --batch-tokens %u: give more of them, or --truncate", tokens,
             b->desc.tokens);
    return lines_complain(b->lines, number, text);
}

/* Texts that are no other example's of the batch: those would count as wrong answers. */
static bool texts_are_new(const struct batches *b)
{
    if (b->form->task != TASK_CONTRASTIVE || b->desc.in_order) return true;
    for (uint32_t n = 0; n < b->example.columns; n++)
        if (text_set_has(&b->fill->texts, b->example.texts[n].text, b->example.texts[n].bytes)) return false;
    return true;
}

static void keep_example(struct batches *b, uint64_t number)
{
    struct fill *f = b->fill;
    const struct example *e = &b->example;
    if (f->examples == f->room) {
        f->room = f->room ? 2 * f->room : 64;
        f->numbers = need(realloc(f->numbers, f->room * sizeof *f->numbers));
        f->labels = need(realloc(f->labels, f->room * sizeof *f->labels));
    }
    if (f->n_values + e->n_values > f->values_room) {
        f->values_room = 2 * (f->n_values + e->n_values);
        f->values = need(realloc(f->values, f->values_room * sizeof *f->values));
    }
    f->numbers[f->examples] = number;
    f->labels[f->examples++] = e->label;
    if (e->n_values) memcpy(f->values + f->n_values, e->values, e->n_values * sizeof *e->values);
    f->n_values += e->n_values;
    f->columns = e->columns;
    if (b->form->task != TASK_CONTRASTIVE || b->desc.in_order) return;
    for (uint32_t n = 0; n < e->columns; n++) text_set_add(&f->texts, e->texts[n].text, e->texts[n].bytes);
}

static int try_example(struct batches *b, uint64_t number, enum outcome *outcome)
{
    struct token_list *tokens = &b->fill->tokens;
    uint32_t sequences = tokens->sequences, before = tokens->tokens;
    char *line;
    size_t bytes;
    int code = lines_read(b->lines, number, &line, &bytes);
    if (code) return code;
    if (!example_read(&b->example, b->form, line, bytes)) return lines_complain(b->lines, number, b->example.problem);
    if (b->form->next && !b->form->jsonl)
        code = pair_add(&b->example, b->form, b->lines, draw_bits(b->desc.seed, PAIRS, b->position.epoch), number);
    if (code) return code;
    *outcome = PUT_OFF;
    if (!texts_are_new(b)) return EXIT_FINE;
    if (!b->counting || b->desc.tokens) code = token_list_add(tokens, b, number);
    if (code) return code;
    *outcome = FULL;
    if (b->desc.tokens && tokens->tokens > b->desc.tokens) {
        if (!b->fill->examples) return over_budget(b, number, tokens->tokens - before);
        token_list_cut(tokens, sequences);
        return EXIT_FINE;
    }
    *outcome = TAKEN;
    keep_example(b, number);
    return EXIT_FINE;
}

/* ---- the order ---- */

static void put_off(struct position *p, uint64_t number)
{
    if (p->n_waiting == p->room) {
        p->room = p->room ? 2 * p->room : 64;
        p->waiting = need(realloc(p->waiting, p->room * sizeof *p->waiting));
    }
    p->waiting[p->n_waiting++] = number;
}

/* Those that waited come first. */
static int take_waiting(struct batches *b, enum outcome *outcome)
{
    struct position *p = &b->position;
    size_t left = 0, n = 0;
    int code = EXIT_FINE;
    for (; n < p->n_waiting && !full(b); n++) {
        code = try_example(b, p->waiting[n], outcome);
        if (code || *outcome == FULL) break;
        if (*outcome == PUT_OFF) p->waiting[left++] = p->waiting[n];
    }
    for (; n < p->n_waiting; n++) p->waiting[left++] = p->waiting[n];
    p->n_waiting = left;
    return code;
}

static int take_new(struct batches *b)
{
    struct position *p = &b->position;
    while (p->place < b->lines->count && !full(b) && (p->n_waiting < WAITING_MOST || !b->fill->examples)) {
        enum outcome outcome = TAKEN;
        uint64_t number = b->desc.in_order ? p->place : draw_order(b->desc.seed, p->epoch, b->lines->count, p->place);
        int code = try_example(b, number, &outcome);
        if (code) return code;
        if (outcome == FULL) return EXIT_FINE;
        if (outcome == PUT_OFF) put_off(p, number);
        p->place++;
    }
    return EXIT_FINE;
}

static int fill_batch(struct batches *b)
{
    enum outcome outcome = TAKEN;
    struct fill *f = b->fill;
    token_list_cut(&f->tokens, 0);
    text_set_clear(&f->texts);
    f->examples = 0;
    f->n_values = 0;
    int code = take_waiting(b, &outcome);
    return code || outcome == FULL ? code : take_new(b);
}

/* Whether the position is an epoch's end; then it goes to the next one's begin. */
static bool turn_epoch(struct batches *b)
{
    struct position *p = &b->position;
    if (p->place < b->lines->count || p->n_waiting) return false;
    p->epoch++;
    p->place = 0;
    return true;
}

/* ---- what is handed out ---- */

static void *copy_of(const void *from, size_t count, size_t size)
{
    void *to = need(malloc(count ? count * size : 1));
    if (count) memcpy(to, from, count * size);
    return to;
}

/* Sequences lie example by example; they become column by column. */
static void order_sequences(const struct fill *f, struct train_batch *out)
{
    const struct token_list *t = &f->tokens;
    uint32_t columns = t->sequences / f->examples, sequence = 0;
    out->columns = columns;
    out->sequences = t->sequences;
    out->tokens = t->tokens;
    out->offsets = need(malloc((t->sequences + 1) * sizeof *out->offsets));
    out->ids = need(malloc(t->tokens * sizeof *out->ids));
    out->types = need(malloc(t->tokens * sizeof *out->types));
    out->offsets[0] = 0;
    for (uint32_t c = 0; c < columns; c++)
        for (uint32_t e = 0; e < f->examples; e++, sequence++) {
            uint32_t from = e * columns + c, first = from ? t->ends[from - 1] : 0, count = t->ends[from] - first;
            uint32_t at = out->offsets[sequence];
            memcpy(out->ids + at, t->ids + first, count * sizeof *out->ids);
            memcpy(out->types + at, t->types + first, count * sizeof *out->types);
            out->offsets[sequence + 1] = at + count;
        }
}

static void hand_out(const struct batches *b, struct train_batch *out)
{
    const struct fill *f = b->fill;
    enum train_task task = b->form->task;
    bool per_token = task == TASK_TOKENS || task == TASK_MLM;
    *out = (struct train_batch){.examples = f->examples};
    out->numbers = copy_of(f->numbers, f->examples, sizeof *f->numbers);
    order_sequences(f, out);
    if (per_token || (task == TASK_CLASSIFY && !b->form->several)) {
        out->n_labels = per_token ? f->tokens.tokens : f->examples;
        out->labels = copy_of(per_token ? f->tokens.labels : f->labels, out->n_labels, sizeof *out->labels);
    }
    if (b->form->next) out->next = copy_of(f->labels, f->examples, sizeof *f->labels);
    out->n_values = f->n_values;
    out->values = f->n_values ? copy_of(f->values, f->n_values, sizeof *f->values) : NULL;
}

int batches_next(struct batches *batches, struct train_batch *out)
{
    *out = (struct train_batch){.examples = 0};
    int code = fill_batch(batches);
    if (code) return code;
    hand_out(batches, out);
    out->last = turn_epoch(batches);
    position_copy(&out->after, &batches->position);
    return EXIT_FINE;
}

int batches_count(struct batches *batches, uint64_t epoch, uint64_t *count)
{
    struct position kept = batches->position;
    bool done = false;
    int code = EXIT_FINE;
    batches->position = (struct position){.epoch = epoch};
    batches->counting = true;
    for (*count = 0; !done && !code; (*count)++) {
        code = fill_batch(batches);
        done = turn_epoch(batches);
    }
    position_free(&batches->position);
    batches->position = kept;
    batches->counting = false;
    return code;
}

void train_batch_free(struct train_batch *batch)
{
    free(batch->numbers);
    free(batch->offsets);
    free(batch->ids);
    free(batch->types);
    free(batch->labels);
    free(batch->next);
    free(batch->values);
    position_free(&batch->after);
    *batch = (struct train_batch){.examples = 0};
}
