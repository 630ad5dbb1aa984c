/* attention: scores, softmax and the product with the values, without stored scores (cl/attention.cl says what is
 * computed). */
#include "attention.h"
#include "traffic.h"

#define LOWEST -3.0e38f
#define LN2 0.693147181f

struct memory {
    float *queries; /* [channel][query], times the scale and log2 e */
    float *scores;  /* [key][query], later weights */
    float *sums;    /* [channel][query] */
    float *largest, *total;
};

static struct memory memory_of(const struct cpu_step *s, float *scratch)
{
    size_t of_channels = (size_t)s->value[CONST_HEAD_DIM] * TILE_COLUMNS;
    struct memory m = {.queries = scratch, .scores = scratch + of_channels};
    m.sums = m.scores + SCORE_FLOATS;
    m.largest = m.sums + of_channels;
    m.total = m.largest + TILE_COLUMNS;
    return m;
}

static size_t attention_scratch(const struct cpu_step *s)
{
    return 2 * (size_t)s->value[CONST_HEAD_DIM] * TILE_COLUMNS + SCORE_FLOATS + 2 * TILE_COLUMNS;
}

/* One vector's queries: weights relative to the largest score so far, and the sums before shrunk to it. */
static void soften(const struct memory *m, size_t keys, size_t dim, size_t lane)
{
    vec before = v_load(m->largest + lane), now = before, total = v_load(m->total + lane);
    for (size_t k = 0; k < keys; k++) now = v_max(now, v_load(m->scores + k * TILE_COLUMNS + lane));
    vec shrink = v_exp2(before - now);
    total *= shrink;
    for (size_t k = 0; k < keys; k++) {
        float *at = m->scores + k * TILE_COLUMNS + lane;
        vec weight = v_exp2(v_load(at) - now);
        total += weight;
        v_store(at, weight);
    }
    v_store(m->largest + lane, now);
    v_store(m->total + lane, total);
    for (size_t p = 0; p < dim; p++) {
        float *at = m->sums + p * TILE_COLUMNS + lane;
        v_store(at, v_load(at) * shrink);
    }
}

static void finish(const struct cpu_step *s, const struct tile_place *t, const struct memory *m, size_t queries)
{
    size_t dim = s->value[CONST_HEAD_DIM], stride = s->value[CONST_Y_STRIDE], heads = s->value[CONST_HEADS];
    FOR_VECTORS(lane, queries)
    {
        vec share = v_set(1.0f) / v_load(m->total + lane);
        for (size_t p = 0; p < dim; p++) {
            float *at = m->sums + p * TILE_COLUMNS + lane;
            v_store(at, v_load(at) * share);
        }
    }
    size_t row = t->first + t->at;
    rows_transpose_back(m->sums, queries, dim,
                        s->at[SLOT_Y] + s->value[CONST_Y_OFFSET] + row * stride + step_head(s, t->head, stride),
                        stride);
    for (size_t q = 0; s->value[CONST_LSE] == LSE_WRITE && q < queries; q++)
        s->at[SLOT_LSE][(row + q) * heads + t->head] = (m->largest[q] + log2f(m->total[q])) * LN2;
}

static void tile(const struct cpu_step *s, const struct tile_place *t, float *scratch)
{
    struct memory m = memory_of(s, scratch);
    struct dropout drop = dropout_of(s);
    size_t dim = s->value[CONST_HEAD_DIM], heads = s->value[CONST_HEADS], x_stride = s->value[CONST_X_STRIDE],
           w_stride = s->value[CONST_W_STRIDE], v_stride = s->value[CONST_V_STRIDE];
    size_t queries = t->length - t->at < TILE_COLUMNS ? t->length - t->at : TILE_COLUMNS, row = t->first + t->at;
    int vectors = (int)blocks_of(queries, LANES);
    const float *x = s->at[SLOT_X] + s->value[CONST_X_OFFSET] + row * x_stride + step_head(s, t->head, x_stride);
    const float *w = s->at[SLOT_W] + s->value[CONST_W_OFFSET] + t->first * w_stride + step_head(s, t->head, w_stride);
    const float *v = s->at[SLOT_V] + s->value[CONST_V_OFFSET] + t->first * v_stride + step_head(s, t->head, v_stride);
    float scale;
    memcpy(&scale, &s->value[CONST_SCALE], sizeof scale);
    rows_transpose(x, x_stride, queries, dim, scale * V_LOG2E, m.queries);
    memset(m.sums, 0, dim * TILE_COLUMNS * sizeof(float));
    for (size_t q = 0; q < TILE_COLUMNS; q++) m.largest[q] = LOWEST, m.total[q] = 0.0f;
    for (size_t key = 0; key < t->length; key += KEYS) {
        size_t keys = t->length - key < KEYS ? t->length - key : KEYS;
        score(vectors, w + key * w_stride, w_stride, keys, m.queries, dim, m.scores);
        for (int j = 0; j < vectors; j++) soften(&m, keys, dim, (size_t)j * LANES);
        if (drop.threshold)
            columns_drop(&drop, m.scores, TILE_COLUMNS, keys, queries, (uint32_t)(row * heads + t->head),
                         (uint32_t)heads, (uint32_t)key);
        for (size_t p = 0; p < dim; p += TILE_ROWS)
            beside(vectors, v + key * v_stride + p, v_stride, m.scores, keys, m.sums + p * TILE_COLUMNS, true);
    }
    finish(s, t, &m, queries);
}

static void attention_run(const struct cpu_step *s, size_t item, float *scratch)
{
    tiles_run(s, item, TILE_COLUMNS, tile, scratch);
}

/* Items that have tiles of a sequence: keys and values are read once in each. */
static uint64_t count_items(struct stretch own)
{
    size_t items = 0, last = SIZE_MAX;
    for (size_t at = own.first; at < own.first + own.length; at += TILE_COLUMNS) {
        items += at / TOKENS_AT_ONCE != last;
        last = at / TOKENS_AT_ONCE;
    }
    return items;
}

static void attention_count(const struct cpu_step *s, struct count *c)
{
    uint64_t heads = s->value[CONST_HEADS], dim = s->value[CONST_HEAD_DIM];
    for (uint32_t i = 0; i < s->batch[HEADER_SEQUENCES]; i++) {
        uint64_t length = length_of(c, i), tiles = count_items(step_sequence(s, i)),
                 of_a_tile = 2 * dim * (length + TILE_COLUMNS) * sizeof(float);
        reads(c, SLOT_X, heads * length * dim);
        count_tiles(c, SLOT_W, tiles, length * dim, of_a_tile);
        count_tiles(c, SLOT_V, tiles, length * dim, of_a_tile);
        writes(c, SLOT_Y, heads * length * dim);
        if (s->value[CONST_LSE] == LSE_WRITE) writes(c, SLOT_LSE, heads * length);
    }
}

const struct cpu_kernel CPU_NAME(cpu_attention) = {.name = "attention",
                                                   .items = tiles_items,
                                                   .run = attention_run,
                                                   .scratch = attention_scratch,
                                                   .count = attention_count};
