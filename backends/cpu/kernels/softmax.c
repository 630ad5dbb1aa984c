/* softmax and softmax_backward: rows of stored scores, one for each token and head (cl/softmax.cl,
 * cl/softmax_backward.cl). An item is some tokens of one head. */
#include "distances.h"
#include "dropout.h"
#include "formulas.h"
#include "masked.h"
#include "rows.h"
#include "tokens.h"
#include "traffic.h"

/* The longest row that there may be: the scores of its sequence are its square, and have room for each head. */
static size_t longest(const struct cpu_step *s)
{
    size_t of_a_head = s->room[SLOT_X] / s->value[CONST_HEADS], length = 0;
    while (length * length < of_a_head) length++;
    return length;
}

static size_t softmax_scratch(const struct cpu_step *s) { return padded(longest(s)); }
static size_t backward_scratch(const struct cpu_step *s) { return 2 * padded(longest(s)); }

/* Where a row of scores begins. */
static size_t scores_at(const struct cpu_step *s, const struct tile_place *t)
{
    return step_scores(s, t->sequence) + (t->head * t->length + t->at) * t->length;
}

/* e^(SCALE x - peak) in place. */
static void soften(float *held, size_t n, float scale, float peak)
{
    FOR_VECTORS(i, n)
    v_store(held + i, v_exp2(v_fma(v_load(held + i), v_set(scale), v_set(-peak)) * v_set(V_LOG2E)));
    row_end(held, n);
}

static float largest(const float *held, size_t n, float scale)
{
    float peak = held[0] * scale;
    for (size_t i = 1; i < n; i++) peak = held[i] * scale > peak ? held[i] * scale : peak;
    return peak;
}

/* Less what ALiBi takes; keys that are not seen get the score of one that is, until they have no weight. */
static void mask_scores(const struct cpu_step *s, const struct tile_place *t, struct key_range seen, float scale,
                        float *held)
{
    float slope = alibi_slope(s, t->head) / scale;
    for (size_t k = seen.first; s->value[CONST_ALIBI] && k < seen.end; k++)
        held[k] = fmaf(-slope, (float)(k < t->at ? t->at - k : k - t->at), held[k]);
    for (size_t k = 0; k < seen.first; k++) held[k] = held[t->at];
    for (size_t k = seen.end; k < t->length; k++) held[k] = held[t->at];
}

static void hide_weights(struct key_range seen, size_t n, float *held)
{
    for (size_t k = 0; k < seen.first; k++) held[k] = 0;
    for (size_t k = seen.end; k < n; k++) held[k] = 0;
}

static void softmax_row(const struct cpu_step *s, const struct tile_place *t, float *held)
{
    size_t at = scores_at(s, t), n = t->length, row = (t->first + t->at) * s->value[CONST_HEADS] + t->head;
    struct dropout drop = dropout_of(s);
    uint32_t lse = s->value[CONST_LSE];
    float scale;
    memcpy(&scale, &s->value[CONST_SCALE], sizeof scale);
    row_load(held, s->at[SLOT_X] + at, n);
    for (size_t k = 0; s->value[CONST_RELATIVE] && k < n; k++)
        held[k] += distance_bias(s, t->head, (ptrdiff_t)k - (ptrdiff_t)t->at) / scale;
    struct key_range seen = keys_seen(s, t->at, t->at, n);
    mask_scores(s, t, seen, scale, held);
    if (s->value[CONST_SOFTMAX]) {
        float peak = lse == LSE_READ ? s->at[SLOT_LSE][row] : largest(held, n, scale);
        soften(held, n, scale, peak);
        hide_weights(seen, n, held);
        if (lse != LSE_READ) {
            float total = row_sum(held, n);
            row_scale(held, n, 1.0f / total);
            if (lse == LSE_WRITE) s->at[SLOT_LSE][row] = peak + logf(total);
        }
    }
    if (s->value[CONST_SUM]) row_store(s->at[SLOT_SUM] + at, held, n);
    if (drop.threshold) row_drop(&drop, held, n, (uint32_t)row, 0);
    row_store(s->at[SLOT_Y] + at, held, n);
}

static void backward_row(const struct cpu_step *s, const struct tile_place *t, float *gradient)
{
    size_t at = scores_at(s, t), n = t->length, row = (t->first + t->at) * s->value[CONST_HEADS] + t->head;
    float *weights = gradient + padded(n), scale;
    struct dropout drop = dropout_of(s);
    memcpy(&scale, &s->value[CONST_SCALE], sizeof scale);
    row_load(gradient, s->at[SLOT_X] + at, n);
    row_load(weights, s->at[SLOT_SAVED] + at, n);
    if (drop.threshold) row_drop(&drop, gradient, n, (uint32_t)row, 0);
    float total = s->value[CONST_DELTA] ? s->at[SLOT_DELTA][row] : row_dot(weights, gradient, n);
    FOR_VECTORS(i, n)
    v_store(gradient + i, v_set(scale) * v_load(weights + i) * (v_load(gradient + i) - v_set(total)));
    row_store(s->at[SLOT_Y] + at, gradient, n);
}

static void softmax_run(const struct cpu_step *s, size_t item, float *held)
{
    tiles_run(s, item, 1, softmax_row, held);
}
static void backward_run(const struct cpu_step *s, size_t item, float *held)
{
    tiles_run(s, item, 1, backward_row, held);
}

/* ---- what they move ---- */

static uint64_t count_scores(const struct cpu_step *s, const struct count *c)
{
    uint64_t scores = 0;
    for (uint32_t i = 0; i < s->batch[HEADER_SEQUENCES]; i++)
        scores += length_of(c, i) * length_of(c, i) * s->value[CONST_HEADS];
    return scores;
}

static void softmax_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = (uint64_t)s->batch[HEADER_TOKENS] * s->value[CONST_HEADS], scores = count_scores(s, c);
    reads(c, SLOT_X, scores);
    reads(c, SLOT_RELATIVE, tiles_items(s) * buckets_of(c));
    if (s->value[CONST_LSE] == LSE_READ) reads(c, SLOT_LSE, rows);
    if (s->value[CONST_LSE] == LSE_WRITE) writes(c, SLOT_LSE, rows);
    writes(c, SLOT_SUM, scores);
    writes(c, SLOT_Y, scores);
}

static void backward_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = (uint64_t)s->batch[HEADER_TOKENS] * s->value[CONST_HEADS], scores = count_scores(s, c);
    reads(c, SLOT_X, scores);
    reads(c, SLOT_SAVED, scores);
    reads(c, SLOT_DELTA, rows);
    writes(c, SLOT_Y, scores);
}

/* clang-format off */
const struct cpu_kernel CPU_NAME(cpu_softmax) = {.name = "softmax", .items = tiles_items, .run = softmax_run, .scratch = softmax_scratch, .count = softmax_count};
const struct cpu_kernel CPU_NAME(cpu_softmax_backward) = {.name = "softmax_backward", .items = tiles_items, .run = backward_run, .scratch = backward_scratch, .count = backward_count};
/* clang-format on */
