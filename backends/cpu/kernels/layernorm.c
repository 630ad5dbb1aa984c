/* layernorm and embed: rows, what is added to them, and their layernorm (cl/layernorm.cl, cl/embed.cl). */
#include "dropout.h"
#include "rows.h"
#include "traffic.h"

/* What both end with. */
static void finish(const struct cpu_step *s, float *held, size_t row, bool norm)
{
    size_t n = s->value[CONST_N];
    if (s->value[CONST_SUM]) row_store(s->at[SLOT_SUM] + row * n, held, n);
    if (!norm) {
        row_store(s->at[SLOT_Y] + row * n, held, n);
        return;
    }
    row_standardize(held, n, step_epsilon(s));
    row_shift(s->at[SLOT_Y] + row * n, held, s->at[SLOT_GAMMA], s->at[SLOT_BETA], n);
}

static void layernorm_run(const struct cpu_step *s, size_t item, float *held)
{
    size_t n = s->value[CONST_N], unit = rows_at_once(s), end = block_end(item, unit, step_rows(s));
    struct dropout drop = dropout_of(s);
    for (size_t row = item * unit; row < end; row++) {
        row_load(held, s->at[SLOT_X] + row * n, n);
        if (s->value[CONST_BIAS]) row_add(held, s->at[SLOT_BIAS], n);
        if (drop.threshold && s->value[CONST_KEPT])
            row_scale(held, n, drop.scale);
        else if (drop.threshold)
            row_drop(&drop, held, n, (uint32_t)row, 0);
        if (s->value[CONST_RESIDUAL]) row_add(held, s->at[SLOT_RESIDUAL] + row * n, n);
        finish(s, held, row, true);
    }
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
        finish(s, held, row, s->value[CONST_NORM] != 0);
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
