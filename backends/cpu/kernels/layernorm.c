/* layernorm and embed: rows, what is added to them, and their layernorm (cl/layernorm.cl, cl/embed.cl). */
#include "dropout.h"
#include "rows.h"

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

const struct cpu_kernel CPU_NAME(cpu_layernorm) = {
    .name = "layernorm", .items = rows_items, .run = layernorm_run, .scratch = row_scratch};
const struct cpu_kernel CPU_NAME(cpu_embed) = {
    .name = "embed", .items = rows_items, .run = embed_run, .scratch = row_scratch};
