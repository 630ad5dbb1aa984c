/* layernorm and embed: rows, what is added to them, and their layernorm (cl/layernorm.cl, cl/embed.cl). */
#include "dropout.h"
#include "rows.h"
#include "traffic.h"

/* A row as it leaves: what was added up, and its layernorm. */
INLINE void shift(float *y, float *sum, const float *held, const float *gamma, const float *beta, size_t n, float mean,
                  float rstd)
{
    FOR_VECTORS(i, n)
    {
        vec v = v_load(held + i);
        if (sum) v_store_at(sum, i, n, v);
        v_store_at(y, i, n, v_fma((v - v_set(mean)) * v_set(rstd), v_load_at(gamma, i, n), v_load_at(beta, i, n)));
    }
}

/* The same around the caches, of whole vectors. What is read some rows later is asked for beside these stores: spread
 * over them it is under way while the next row is computed, and memory is never without work. */
INLINE void shift_past(float *y, float *sum, const float *held, const float *gamma, const float *beta, size_t n,
                       float mean, float rstd, const struct ahead *soon, const int count)
{
    for (size_t i = 0; i < n; i += LANES) {
        UNROLL for (int a = 0; a < count; a++) v_prefetch_far(soon->rows[a] + i);
        vec v = v_load(held + i);
        if (sum) v_stream(sum + i, v);
        v_stream(y + i, v_fma((v - v_set(mean)) * v_set(rstd), v_load(gamma + i), v_load(beta + i)));
    }
}

/* The same without a beta, and of a mean square. */
static void finish_scaled(const struct cpu_step *s, float *held, size_t row)
{
    size_t n = s->value[CONST_N];
    if (s->value[CONST_SUM]) row_store(s->at[SLOT_SUM] + row * n, held, n);
    row_end(held, n);
    row_standardize(s, held, n);
    row_shift(s, s->at[SLOT_Y] + row * n, held, n);
}

/* What both end with, of a row whose sum is known. `near` is asked for in the meantime; `soon`: results go around the
 * caches, and this is asked for. */
static void finish(const struct cpu_step *s, float *held, float total, size_t row, struct ahead *near,
                   const struct ahead *soon)
{
    size_t n = s->value[CONST_N];
    float *y = s->at[SLOT_Y] + row * n, *sum = s->value[CONST_SUM] ? s->at[SLOT_SUM] + row * n : NULL;
    const float *gamma = s->at[SLOT_GAMMA], *beta = s->at[SLOT_BETA];
    if (s->value[CONST_RMS] || !s->value[CONST_BETA]) {
        finish_scaled(s, held, row);
        return;
    }
    if (!soon) ahead_add(near, y), ahead_add(near, sum);
    float mean = total / (float)n;
    float rstd = 1.0f / sqrtf(row_squares(held, n, mean, near) / (float)n + step_epsilon(s));
    if (!soon && sum)
        shift(y, sum, held, gamma, beta, n, mean, rstd);
    else if (!soon)
        shift(y, NULL, held, gamma, beta, n, mean, rstd);
    else if (soon->count == 0)
        shift_past(y, sum, held, gamma, beta, n, mean, rstd, soon, 0);
    else if (soon->count == 1 && !sum)
        shift_past(y, NULL, held, gamma, beta, n, mean, rstd, soon, 1);
    else if (soon->count == 1)
        shift_past(y, sum, held, gamma, beta, n, mean, rstd, soon, 1);
    else if (!sum)
        shift_past(y, NULL, held, gamma, beta, n, mean, rstd, soon, 2);
    else
        shift_past(y, sum, held, gamma, beta, n, mean, rstd, soon, 2);
}

/* Results that the last cache can't hold until somebody reads them. */
static bool is_streamed(const struct cpu_step *s)
{
    size_t n = s->value[CONST_N];
    return STREAMS && s->cache_bytes && step_rows(s) * n * sizeof(float) > s->cache_bytes && n % LANES == 0;
}

/* Rows of an item. What is asked for ahead must not be another thread's, so streamed items are long. */
enum { ROWS_STREAMED = 64, ROWS_AHEAD = 2 };
static size_t layernorm_unit(const struct cpu_step *s) { return is_streamed(s) ? ROWS_STREAMED : rows_at_once(s); }

static size_t layernorm_items(const struct cpu_step *s) { return blocks_of(step_rows(s), layernorm_unit(s)); }

static void layernorm_run(const struct cpu_step *s, size_t item, float *held)
{
    size_t n = s->value[CONST_N], unit = layernorm_unit(s), end = block_end(item, unit, step_rows(s));
    struct dropout drop = dropout_of(s);
    const float *bias = s->value[CONST_BIAS] ? s->at[SLOT_BIAS] : NULL, *x = s->at[SLOT_X] + item * unit * n,
                *residual = s->value[CONST_RESIDUAL] ? s->at[SLOT_RESIDUAL] + item * unit * n : NULL;
    bool stream = is_streamed(s);
    for (size_t row = item * unit; row < end; row++, x += n) {
        const float *own = drop.threshold ? NULL : residual;
        float total = row_gather(held, x, bias, own, n);
        if (drop.threshold && s->value[CONST_KEPT])
            row_scale(held, n, drop.scale);
        else if (drop.threshold)
            row_drop(&drop, held, n, (uint32_t)row, 0);
        if (drop.threshold && residual) row_add(held, residual, n);
        if (drop.threshold) total = row_sum(held, n);
        struct ahead near = {.count = 0}, soon = {.count = 0};
        if (!stream && row + 1 < end) ahead_add(&near, x + n), ahead_add(&near, residual ? residual + n : NULL);
        if (stream && row + ROWS_AHEAD < end)
            ahead_add(&soon, x + ROWS_AHEAD * n), ahead_add(&soon, residual ? residual + ROWS_AHEAD * n : NULL);
        if (residual) residual += n;
        finish(s, held, total, row, &near, stream ? &soon : NULL);
    }
    if (stream) v_stream_end();
}

static const float *table_row(const struct cpu_step *s, uint8_t list, uint8_t table, size_t row)
{
    const uint32_t *ids = (const uint32_t *)s->at[list];
    return s->at[table] + (size_t)ids[row] * s->value[CONST_N];
}

static void embed_run(const struct cpu_step *s, size_t item, float *held)
{
    size_t n = s->value[CONST_N], unit = rows_at_once(s), end = block_end(item, unit, step_rows(s));
    for (size_t row = item * unit; row < end; row++) {
        row_load(held, s->value[CONST_WORD] ? table_row(s, SLOT_IDS, SLOT_WORD, row) : s->at[SLOT_X] + row * n, n);
        if (s->value[CONST_POSITION]) row_add(held, table_row(s, SLOT_POSITIONS, SLOT_POSITION, row), n);
        if (s->value[CONST_TYPE]) row_add(held, table_row(s, SLOT_TYPES, SLOT_TYPE, row), n);
        if (s->value[CONST_NORM]) {
            struct ahead none = {.count = 0};
            finish(s, held, row_sum(held, n), row, &none, NULL);
            continue;
        }
        row_store(s->at[SLOT_Y] + row * n, held, n);
        if (s->value[CONST_SUM]) row_store(s->at[SLOT_SUM] + row * n, held, n);
    }
}

/* ---- what they move ---- */

static void count_finish(const struct cpu_step *s, size_t items, struct count *c)
{
    uint64_t n = s->value[CONST_N], all = step_rows(s) * n;
    count_vector(c, SLOT_GAMMA, items, n);
    count_vector(c, SLOT_BETA, items, n);
    writes(c, SLOT_SUM, all);
    writes(c, SLOT_Y, all);
}

static void layernorm_count(const struct cpu_step *s, struct count *c)
{
    uint64_t n = s->value[CONST_N], all = step_rows(s) * n;
    reads(c, SLOT_X, all);
    reads(c, SLOT_RESIDUAL, all);
    count_vector(c, SLOT_BIAS, layernorm_items(s), n);
    count_finish(s, layernorm_items(s), c);
}

/* Which rows a list names is the batch's affair: words count as all different, and positions begin anew with each
 * sequence. */
static void embed_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s), n = s->value[CONST_N], longest = least(c->batch->longest, rows);
    reads(c, SLOT_X, rows * n);
    reads(c, SLOT_IDS, rows);
    reads(c, SLOT_WORD, rows * n);
    reads(c, SLOT_POSITIONS, rows);
    count_again(c, SLOT_POSITION, rows * n, longest * n, longest * count_row_bytes(c));
    reads(c, SLOT_TYPES, rows);
    reads(c, SLOT_TYPE, rows * n);
    count_finish(s, rows_items(s), c);
}

/* clang-format off */
const struct cpu_kernel CPU_NAME(cpu_layernorm) = {.name = "layernorm", .items = layernorm_items, .run = layernorm_run, .scratch = row_scratch, .count = layernorm_count};
const struct cpu_kernel CPU_NAME(cpu_embed) = {.name = "embed", .items = rows_items, .run = embed_run, .scratch = row_scratch, .count = embed_count};
/* clang-format on */
