/* Elementwise work and sums over rows: map, columns, reduce, delta (the files of those names in cl/). */
#include "base/bits.h"
#include "dropout.h"
#include "formulas.h"
#include "rows.h"
#include "traffic.h"

static void drop_row(const struct cpu_step *s, const struct dropout *drop, float *held, size_t n, size_t row,
                     size_t column)
{
    if (drop->threshold && s->value[CONST_KEPT])
        row_scale(held, n, drop->scale);
    else if (drop->threshold)
        row_drop(drop, held, n, (uint32_t)row, (uint32_t)column);
}

/* ---- map: rows of N; with RUNTIME_N M rows of as many as the batch has, where dropout's row is the column ---- */

enum { STRIP = 512 };   /* columns that lie in scratch memory at a time */
#define ONE 0x3f800000u /* the bits of 1 */

static bool is_channel_major(const struct cpu_step *s) { return s->value[CONST_RUNTIME] == RUNTIME_N; }

static size_t map_items(const struct cpu_step *s) { return is_channel_major(s) ? s->value[CONST_M] : rows_items(s); }

static size_t map_scratch(const struct cpu_step *s)
{
    (void)s;
    return padded(STRIP);
}

/* `n` elements of row `row` from `column` on, which lie at `at`. */
static void map_strip(const struct cpu_step *s, const struct dropout *drop, size_t at, size_t row, size_t column,
                      size_t n, float *held)
{
    row_load(held, s->at[SLOT_X] + at, n);
    if (s->value[CONST_BIAS] && is_channel_major(s))
        FOR_VECTORS(i, n) v_store(held + i, v_load(held + i) + v_set(s->at[SLOT_BIAS][row]));
    else if (s->value[CONST_BIAS])
        row_add(held, s->at[SLOT_BIAS] + column, n);
    if (s->value[CONST_SUM]) row_store(s->at[SLOT_SUM] + at, held, n);
    row_activate(held, n, s->value[CONST_ACTIVATION]);
    if (s->value[CONST_SCALE] != ONE) row_scale(held, n, bits_float(s->value[CONST_SCALE]));
    if (drop->threshold && is_channel_major(s) && !s->value[CONST_KEPT])
        column_drop(drop, held, n, (uint32_t)column, 1, (uint32_t)row);
    else
        drop_row(s, drop, held, n, row, column);
    if (s->value[CONST_DERIVATIVE]) row_derive(held, n, s->value[CONST_DERIVATIVE], s->at[SLOT_SAVED] + at);
    if (s->value[CONST_RESIDUAL]) row_add(held, s->at[SLOT_RESIDUAL] + at, n);
    row_store(s->at[SLOT_Y] + at, held, n);
}

static void map_row(const struct cpu_step *s, const struct dropout *drop, size_t row, size_t stride, size_t n,
                    float *held)
{
    for (size_t column = 0; column < n; column += STRIP)
        map_strip(s, drop, row * stride + column, row, column, n - column < STRIP ? n - column : STRIP, held);
}

static void map_run(const struct cpu_step *s, size_t item, float *held)
{
    struct dropout drop = dropout_of(s);
    size_t n = s->value[CONST_N], unit = rows_at_once(s), end = block_end(item, unit, step_rows(s));
    if (is_channel_major(s)) {
        map_row(s, &drop, item, s->value[CONST_Y_STRIDE], step_rows(s), held);
        return;
    }
    for (size_t row = item * unit; row < end; row++) map_row(s, &drop, row, n, n, held);
}

static void map_count(const struct cpu_step *s, struct count *c)
{
    bool channels = is_channel_major(s);
    uint64_t n = s->value[CONST_N], all = step_rows(s) * (channels ? s->value[CONST_M] : n);
    reads(c, SLOT_X, all);
    reads(c, SLOT_SAVED, all);
    reads(c, SLOT_RESIDUAL, all);
    if (channels)
        reads(c, SLOT_BIAS, s->value[CONST_M]);
    else
        count_vector(c, SLOT_BIAS, rows_items(s), n);
    writes(c, SLOT_SUM, all);
    writes(c, SLOT_Y, all);
}

/* ---- columns: sums over a part's rows, an item being a strip of columns of one part ---- */

static size_t strips_of(const struct cpu_step *s) { return blocks_of(s->value[CONST_N], STRIP); }

static size_t columns_items(const struct cpu_step *s)
{
    return strips_of(s) * blocks_of(step_rows(s), s->value[CONST_PART_ROWS]);
}

static size_t columns_scratch(const struct cpu_step *s)
{
    (void)s;
    return 2 * padded(STRIP);
}

static void columns_run(const struct cpu_step *s, size_t item, float *held)
{
    size_t n = s->value[CONST_N], part = item / strips_of(s), column = item % strips_of(s) * STRIP;
    size_t wide = n - column < STRIP ? n - column : STRIP, unit = s->value[CONST_PART_ROWS];
    float *sums = held + padded(STRIP);
    struct dropout drop = dropout_of(s);
    memset(sums, 0, padded(STRIP) * sizeof *sums);
    for (size_t row = part * unit; row < block_end(part, unit, step_rows(s)); row++) {
        size_t at = row * n + column;
        row_load(held, s->at[SLOT_X] + at, wide);
        drop_row(s, &drop, held, wide, row, column);
        if (s->value[CONST_DERIVATIVE]) row_derive(held, wide, s->value[CONST_DERIVATIVE], s->at[SLOT_SAVED] + at);
        if (s->value[CONST_COLUMN_SUMS] == 1) row_store(s->at[SLOT_Y] + at, held, wide);
        FOR_VECTORS(i, wide) v_store(sums + i, v_load(sums + i) + v_load(held + i));
    }
    row_store(s->at[SLOT_PARTIALS] + part * n + column, sums, wide);
}

static void columns_count(const struct cpu_step *s, struct count *c)
{
    uint64_t n = s->value[CONST_N], all = step_rows(s) * n;
    reads(c, SLOT_X, all);
    reads(c, SLOT_SAVED, all);
    if (s->value[CONST_COLUMN_SUMS] == 1) writes(c, SLOT_Y, all);
    writes_scratch(c, SLOT_PARTIALS, blocks_of(step_rows(s), s->value[CONST_PART_ROWS]) * n);
}

/* ---- reduce: the sum of the parts, in ascending order, as SETS vectors of N ---- */

static size_t reduce_items(const struct cpu_step *s)
{
    return blocks_of((size_t)s->value[CONST_SETS] * s->value[CONST_N], STRIP);
}

static size_t reduce_parts(const struct cpu_step *s)
{
    size_t parts = blocks_of(step_rows(s), s->value[CONST_PART_ROWS]), most = s->value[CONST_PARTS];
    return parts < most ? parts : most;
}

static void reduce_run(const struct cpu_step *s, size_t item, float *sums)
{
    static const uint8_t slots[] = {SLOT_Y, SLOT_SUM, SLOT_EXTRA};
    size_t n = s->value[CONST_N], width = s->value[CONST_SETS] * n, column = item * STRIP;
    size_t wide = width - column < STRIP ? width - column : STRIP;
    size_t parts = reduce_parts(s);
    memset(sums, 0, padded(STRIP) * sizeof *sums);
    for (size_t part = 0; part < parts; part++) row_add(sums, s->at[SLOT_PARTIALS] + part * width + column, wide);
    for (size_t i = 0; i < wide;) { /* of each set as many as the strip has */
        size_t set = (column + i) / n, at = (column + i) % n, left = n - at < wide - i ? n - at : wide - i;
        row_store(s->at[slots[set]] + at, sums + i, left);
        i += left;
    }
}

static void reduce_count(const struct cpu_step *s, struct count *c)
{
    uint64_t n = s->value[CONST_N];
    reads(c, SLOT_PARTIALS, reduce_parts(s) * s->value[CONST_SETS] * n);
    writes(c, SLOT_Y, n);
    writes(c, SLOT_SUM, n);
    writes(c, SLOT_EXTRA, n);
}

/* ---- delta: each head's product of a row with its gradient ---- */

static void delta_run(const struct cpu_step *s, size_t item, float *scratch)
{
    size_t heads = s->value[CONST_HEADS], dim = s->value[CONST_HEAD_DIM], unit = rows_at_once(s);
    float *a = scratch, *b = scratch + padded(dim);
    for (size_t row = item * unit; row < block_end(item, unit, step_rows(s)); row++)
        for (size_t head = 0; head < heads; head++) {
            size_t at = (row * heads + head) * dim;
            row_load(a, s->at[SLOT_X] + at, dim);
            row_load(b, s->at[SLOT_SAVED] + at, dim);
            s->at[SLOT_DELTA][row * heads + head] = row_dot(a, b, dim);
        }
}

static size_t delta_scratch(const struct cpu_step *s) { return 2 * padded(s->value[CONST_HEAD_DIM]); }

static void delta_count(const struct cpu_step *s, struct count *c)
{
    uint64_t results = step_rows(s) * s->value[CONST_HEADS], all = results * s->value[CONST_HEAD_DIM];
    reads(c, SLOT_X, all);
    reads(c, SLOT_SAVED, all);
    writes(c, SLOT_DELTA, results);
}

/* clang-format off */
const struct cpu_kernel CPU_NAME(cpu_map) = {.name = "map", .items = map_items, .run = map_run, .scratch = map_scratch, .count = map_count};
const struct cpu_kernel CPU_NAME(cpu_columns) = {.name = "columns", .items = columns_items, .run = columns_run, .scratch = columns_scratch, .count = columns_count};
const struct cpu_kernel CPU_NAME(cpu_reduce) = {.name = "reduce", .items = reduce_items, .run = reduce_run, .scratch = map_scratch, .count = reduce_count};
const struct cpu_kernel CPU_NAME(cpu_delta) = {.name = "delta", .items = rows_items, .run = delta_run, .scratch = delta_scratch, .count = delta_count};
/* clang-format on */
