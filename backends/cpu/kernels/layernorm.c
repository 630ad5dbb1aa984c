/* layernorm and embed: rows, what is added to them, and their layernorm (cl/layernorm.cl, cl/embed.cl). */
#include "dropout.h"
#include "rows.h"
#include "traffic.h"

/* A row as it leaves: what was added up, and its layernorm. `stream`: around the caches, of whole vectors. */
INLINE void shift(float *y, float *sum, const float *held, const float *gamma, const float *beta, size_t n, float mean,
                  float rstd, const bool stream)
{
    FOR_VECTORS(i, n)
    {
        vec v = v_load(held + i);
        vec result = v_fma((v - v_set(mean)) * v_set(rstd), v_load_at(gamma, i, n), v_load_at(beta, i, n));
        if (stream) {
            if (sum) v_stream(sum + i, v);
            v_stream(y + i, result);
        } else {
            if (sum) v_store_at(sum, i, n, v);
            v_store_at(y, i, n, result);
        }
    }
}

/* What both end with, of a row whose sum is known. */
static void finish(const struct cpu_step *s, const float *held, float total, size_t row, struct ahead *ahead,
                   bool stream)
{
    size_t n = s->value[CONST_N];
    float *y = s->at[SLOT_Y] + row * n, *sum = s->value[CONST_SUM] ? s->at[SLOT_SUM] + row * n : NULL;
    if (!stream) ahead_add(ahead, y), ahead_add(ahead, sum);
    float mean = total / (float)n;
    float rstd = 1.0f / sqrtf(row_squares(held, n, mean, ahead) / (float)n + step_epsilon(s));
    if (stream && sum)
        shift(y, sum, held, s->at[SLOT_GAMMA], s->at[SLOT_BETA], n, mean, rstd, true);
    else if (stream)
        shift(y, NULL, held, s->at[SLOT_GAMMA], s->at[SLOT_BETA], n, mean, rstd, true);
    else if (sum)
        shift(y, sum, held, s->at[SLOT_GAMMA], s->at[SLOT_BETA], n, mean, rstd, false);
    else
        shift(y, NULL, held, s->at[SLOT_GAMMA], s->at[SLOT_BETA], n, mean, rstd, false);
}

/* Results that the last cache can't hold until somebody reads them. */
static bool is_streamed(const struct cpu_step *s)
{
    size_t n = s->value[CONST_N];
    return STREAMS && s->cache_bytes && step_rows(s) * n * sizeof(float) > s->cache_bytes && n % LANES == 0;
}

static void layernorm_run(const struct cpu_step *s, size_t item, float *held)
{
    size_t n = s->value[CONST_N], unit = rows_at_once(s), end = block_end(item, unit, step_rows(s));
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
        if (residual) residual += n;
        struct ahead ahead = {.count = 0};
        if (row + 1 < end) ahead_add(&ahead, x + n), ahead_add(&ahead, residual);
        finish(s, held, total, row, &ahead, stream);
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
            finish(s, held, row_sum(held, n), row, &none, false);
            continue;
        }
        row_store(s->at[SLOT_Y] + row * n, held, n);
        if (s->value[CONST_SUM]) row_store(s->at[SLOT_SUM] + row * n, held, n);
    }
}

/* ---- what they move ---- */

static void count_finish(const struct cpu_step *s, struct count *c)
{
    uint64_t n = s->value[CONST_N], all = step_rows(s) * n;
    count_vector(c, SLOT_GAMMA, rows_items(s), n);
    count_vector(c, SLOT_BETA, rows_items(s), n);
    writes(c, SLOT_SUM, all);
    writes(c, SLOT_Y, all);
}

static void layernorm_count(const struct cpu_step *s, struct count *c)
{
    uint64_t n = s->value[CONST_N], all = step_rows(s) * n;
    reads(c, SLOT_X, all);
    reads(c, SLOT_RESIDUAL, all);
    count_vector(c, SLOT_BIAS, rows_items(s), n);
    count_finish(s, c);
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
    count_finish(s, c);
}

/* clang-format off */
const struct cpu_kernel CPU_NAME(cpu_layernorm) = {.name = "layernorm", .items = rows_items, .run = layernorm_run, .scratch = row_scratch, .count = layernorm_count};
const struct cpu_kernel CPU_NAME(cpu_embed) = {.name = "embed", .items = rows_items, .run = embed_run, .scratch = row_scratch, .count = embed_count};
/* clang-format on */
