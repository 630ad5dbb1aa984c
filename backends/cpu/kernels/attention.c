/* attention: scores, softmax and the product with the values, without stored scores (cl/attention.cl says what is
 * computed). */
#include "attention.h"

#define LN2 0.693147181f

static struct softmax memory_of(const struct cpu_step *s, float *scratch)
{
    size_t of_channels = (size_t)s->value[CONST_HEAD_DIM] * TILE_COLUMNS;
    struct softmax m = {.queries = scratch, .scores = scratch + of_channels};
    m.sums = m.scores + SCORE_FLOATS;
    m.largest = m.sums + of_channels;
    m.total = m.largest + TILE_COLUMNS;
    m.biases = m.total + TILE_COLUMNS;
    return m;
}

static size_t attention_scratch(const struct cpu_step *s)
{
    return 2 * (size_t)s->value[CONST_HEAD_DIM] * TILE_COLUMNS + SCORE_FLOATS + 2 * TILE_COLUMNS + distance_floats(s);
}

static void finish(const struct cpu_step *s, const struct tile_place *t, const struct softmax *m, size_t queries)
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
    struct softmax m = memory_of(s, scratch);
    struct dropout drop = dropout_of(s);
    size_t dim = s->value[CONST_HEAD_DIM], heads = s->value[CONST_HEADS], x_stride = s->value[CONST_X_STRIDE],
           w_stride = s->value[CONST_W_STRIDE], v_stride = s->value[CONST_V_STRIDE];
    size_t queries = t->length - t->at < TILE_COLUMNS ? t->length - t->at : TILE_COLUMNS, row = t->first + t->at;
    int vectors = (int)blocks_of(queries, LANES);
    const float *x = s->at[SLOT_X] + s->value[CONST_X_OFFSET] + row * x_stride + step_head(s, t->head, x_stride);
    const float *w =
        s->at[SLOT_W] + s->value[CONST_W_OFFSET] + t->first * w_stride + step_key_head(s, t->head, w_stride);
    const float *v =
        s->at[SLOT_V] + s->value[CONST_V_OFFSET] + t->first * v_stride + step_key_head(s, t->head, v_stride);
    float scale;
    memcpy(&scale, &s->value[CONST_SCALE], sizeof scale);
    rows_transpose(x, x_stride, queries, dim, scale * V_LOG2E, m.queries);
    distances_load(s, t->head, V_LOG2E, m.biases);
    soften_begin(&m, dim);
    m.masked = is_masked(s);
    struct key_range met = tile_keys(s, t->at, queries, t->length, KEY_UNIT);
    for (size_t key = met.first; key < met.end; key += KEYS) {
        size_t keys = met.end - key < KEYS ? met.end - key : KEYS;
        score(vectors, w + key * w_stride, w_stride, keys, m.queries, dim, m.scores);
        distances_add(s, m.biases, key, keys, t->at, queries, m.scores);
        mask_add(s, alibi_slope(s, t->head) * V_LOG2E, key, keys, t->at, queries, m.scores);
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

const struct cpu_kernel CPU_NAME(cpu_attention) = {.name = "attention",
                                                   .items = tiles_items,
                                                   .run = attention_run,
                                                   .scratch = attention_scratch,
                                                   .count = attention_count};
