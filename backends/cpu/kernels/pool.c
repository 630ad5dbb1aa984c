/* pool, layernorm_pool and pool_backward: rows of sequences from rows of tokens, and back (the files of those names in
 * cl/). An item is a sequence; of pool_backward some tokens, but for POOL_MAX. */
#include "rows.h"
#include "traffic.h"

static void norm_of(float *held, size_t n)
{
    float length = sqrtf(row_dot(held, held, n));
    row_scale(held, n, 1.0f / (length > 1e-12f ? length : 1e-12f));
}

/* held = held and one token's row; `weight` is POOL_WEIGHTED's. */
static void join(uint32_t pool, float *held, const float *row, size_t n, float weight)
{
    if (pool == POOL_MAX)
        FOR_VECTORS(i, n) v_store(held + i, v_max(v_load_at(row, i, n), v_load(held + i)));
    else if (pool == POOL_WEIGHTED)
        FOR_VECTORS(i, n) v_store(held + i, v_fma(v_load_at(row, i, n), v_set(weight), v_load(held + i)));
    else
        row_add(held, row, n);
    row_end(held, n);
}

static bool is_sum(uint32_t pool)
{
    return pool == POOL_MEAN || pool == POOL_SUM || pool == POOL_SQRT || pool == POOL_WEIGHTED;
}

/* What the sum over the tokens is multiplied with. */
static float share(uint32_t pool, size_t tokens)
{
    float n = (float)tokens;
    if (pool == POOL_SUM) return 1.0f;
    return pool == POOL_SQRT ? 1.0f / sqrtf(n) : pool == POOL_WEIGHTED ? 2.0f / (n * (n + 1.0f)) : 1.0f / n;
}

/* The tokens of a result's row. */
static struct stretch tokens_of(const struct cpu_step *s, size_t row)
{
    uint32_t pool = s->value[CONST_POOL];
    if (pool == POOL_NONE) return (struct stretch){row, 1};
    struct stretch own = step_sequence(s, row);
    if (pool == POOL_ROW) own.first += ((const uint32_t *)s->at[SLOT_IDS])[row];
    if (pool == POOL_LAST) own.first += own.length - 1;
    if (!is_sum(pool) && pool != POOL_MAX) own.length = 1;
    return own;
}

static size_t pool_items(const struct cpu_step *s) { return step_rows(s); }

static void pool_run(const struct cpu_step *s, size_t row, float *held)
{
    size_t n = s->value[CONST_N];
    uint32_t pool = s->value[CONST_POOL];
    struct stretch own = tokens_of(s, row);
    const float *x = s->at[SLOT_X] + own.first * n;
    row_load(held, x, n);
    for (size_t token = 1; token < own.length; token++) join(pool, held, x + token * n, n, (float)(token + 1));
    if (is_sum(pool)) row_scale(held, n, share(pool, own.length));
    if (s->value[CONST_SUM]) row_store(s->at[SLOT_SUM] + row * n, held, n);
    if (s->value[CONST_NORMALIZE]) norm_of(held, n);
    size_t stride = s->value[CONST_Y_STRIDE] ? s->value[CONST_Y_STRIDE] : n;
    row_store(s->at[SLOT_Y] + row * stride + s->value[CONST_Y_OFFSET], held, n);
}

/* Rows of tokens that are read. */
static uint64_t pool_tokens(const struct cpu_step *s)
{
    uint32_t pool = s->value[CONST_POOL];
    return is_sum(pool) || pool == POOL_MAX ? s->batch[HEADER_TOKENS] : step_rows(s);
}

static void pool_count(const struct cpu_step *s, struct count *c)
{
    uint64_t n = s->value[CONST_N], rows = step_rows(s);
    reads(c, SLOT_X, pool_tokens(s) * n);
    count_vector(c, SLOT_GAMMA, rows, n);
    count_vector(c, SLOT_BETA, rows, n);
    writes(c, SLOT_SUM, rows * n);
    writes(c, SLOT_Y, rows * n);
}

static size_t norm_pool_scratch(const struct cpu_step *s) { return 2 * padded(s->value[CONST_N]); }

static void norm_pool_run(const struct cpu_step *s, size_t row, float *pooled)
{
    size_t n = s->value[CONST_N];
    uint32_t pool = s->value[CONST_POOL];
    float *held = pooled + padded(n);
    struct stretch own = tokens_of(s, row);
    for (size_t token = 0; token < own.length; token++) {
        row_load(held, s->at[SLOT_X] + (own.first + token) * n, n);
        row_standardize(s, held, n);
        if (pool == POOL_MAX) row_shift(s, held, held, n);
        if (token)
            join(pool, pooled, held, n, 1.0f);
        else
            row_load(pooled, held, n);
    }
    if (pool == POOL_MEAN) row_scale(pooled, n, 1.0f / (float)own.length);
    if (pool != POOL_MAX) row_shift(s, pooled, pooled, n);
    row_end(pooled, n);
    if (s->value[CONST_NORMALIZE]) norm_of(pooled, n);
    row_store(s->at[SLOT_Y] + row * n, pooled, n);
}

/* ---- backward ---- */

static bool of_largest(const struct cpu_step *s) { return s->value[CONST_POOL] == POOL_MAX; }

static size_t back_items(const struct cpu_step *s) { return of_largest(s) ? step_rows(s) : rows_items(s); }

static size_t back_scratch(const struct cpu_step *s) { return 2 * padded(s->value[CONST_N]); }

/* A column's gradient goes to the first of the tokens whose value is the largest: for each lane that value, and the
 * token in its bits. */
static void back_largest(const struct cpu_step *s, size_t row, float *largest)
{
    size_t n = s->value[CONST_N];
    struct stretch own = step_sequence(s, row);
    const float *saved = s->at[SLOT_SAVED] + own.first * n, *x = s->at[SLOT_X] + row * n;
    float *y = s->at[SLOT_Y] + own.first * n, *best = largest + padded(n);
    row_load(largest, saved, n);
    memset(best, 0, padded(n) * sizeof *best);
    for (size_t token = 1; token < own.length; token++) FOR_VECTORS(i, n)
        {
            vec value = v_load_at(saved + token * n, i, n), before = v_load(largest + i);
            ivec larger = v_above(value, before);
            v_store(largest + i, v_choose(larger, value, before));
            v_store(best + i, v_choose(larger, v_float(v_whole((int32_t)token)), v_load(best + i)));
        }
    for (size_t token = 0; token < own.length; token++) FOR_VECTORS(i, n)
        {
            ivec chosen = v_same(v_bits(v_load(best + i)), v_whole((int32_t)token));
            v_store_at(y + token * n, i, n, v_choose(chosen, v_load_at(x, i, n), v_zero()));
        }
}

/* y = (x - u (u . x)) / |saved|, where u = saved / |saved|. */
static void back_norm(const struct cpu_step *s, size_t row, float *held)
{
    size_t n = s->value[CONST_N];
    float *gradient = held + padded(n);
    row_load(held, s->at[SLOT_SAVED] + row * n, n);
    row_load(gradient, s->at[SLOT_X] + row * n, n);
    float length = sqrtf(row_dot(held, held, n)), scale = 1.0f / (length > 1e-12f ? length : 1e-12f);
    row_scale(held, n, scale);
    float along = row_dot(held, gradient, n);
    FOR_VECTORS(i, n)
    v_store(held + i, v_set(scale) * v_fma(v_set(-along), v_load(held + i), v_load(gradient + i)));
    row_store(s->at[SLOT_Y] + row * n, held, n);
}

/* The mean's: each token's share; of the first or last token's: all of it. */
static void back_token(const struct cpu_step *s, size_t token, float *held)
{
    size_t n = s->value[CONST_N], sequence = s->batch[s->batch[HEADER_AT_TOKEN_SEQUENCE] + token];
    struct stretch own = step_sequence(s, sequence);
    bool mean = s->value[CONST_POOL] == POOL_MEAN;
    size_t chosen = s->value[CONST_POOL] == POOL_LAST ? own.first + own.length - 1 : own.first;
    row_load(held, s->at[SLOT_X] + sequence * n, n);
    row_scale(held, n, mean ? 1.0f / (float)own.length : token == chosen ? 1.0f : 0.0f);
    row_store(s->at[SLOT_Y] + token * n, held, n);
}

static void back_run(const struct cpu_step *s, size_t item, float *held)
{
    size_t unit = rows_at_once(s), end = block_end(item, unit, step_rows(s));
    if (of_largest(s)) {
        back_largest(s, item, held);
        return;
    }
    for (size_t row = item * unit; row < end; row++)
        if (s->value[CONST_NORMALIZE])
            back_norm(s, row, held);
        else
            back_token(s, row, held);
}

/* A token asks for its sequence's row. */
static void back_count(const struct cpu_step *s, struct count *c)
{
    const uint32_t *sequences = s->batch + s->batch[HEADER_AT_TOKEN_SEQUENCE];
    uint64_t n = s->value[CONST_N], rows = step_rows(s), unit = rows_at_once(s), asked = 0;
    reads(c, SLOT_SAVED, (of_largest(s) ? s->batch[HEADER_TOKENS] : rows) * n);
    writes(c, SLOT_Y, (of_largest(s) ? s->batch[HEADER_TOKENS] : rows) * n);
    if (of_largest(s) || s->value[CONST_NORMALIZE]) {
        reads(c, SLOT_X, rows * n);
        return;
    }
    for (uint64_t first = 0; first < rows; first += unit)
        asked += sequences[least(first + unit, rows) - 1] - sequences[first] + 1;
    if (rows) count_again(c, SLOT_X, asked * n, s->batch[HEADER_SEQUENCES] * n, count_row_bytes(c));
}

/* clang-format off */
const struct cpu_kernel CPU_NAME(cpu_pool) = {.name = "pool", .items = pool_items, .run = pool_run, .scratch = row_scratch, .count = pool_count};
const struct cpu_kernel CPU_NAME(cpu_layernorm_pool) = {.name = "layernorm_pool", .items = pool_items, .run = norm_pool_run, .scratch = norm_pool_scratch, .count = pool_count};
const struct cpu_kernel CPU_NAME(cpu_pool_backward) = {.name = "pool_backward", .items = back_items, .run = back_run, .scratch = back_scratch, .count = back_count};
/* clang-format on */
