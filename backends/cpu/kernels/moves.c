/* What moves elements and adds few: transpose, attention_dq, scatter (the files of those names in cl/). */
#include "rows.h"
#include "traffic.h"

/* ---- transpose: y[m][n] = x[n][m], sizes of the model's ---- */

enum { SIDE = 32 }; /* of a tile, whose rows and columns stay in the first cache */

static size_t transpose_items(const struct cpu_step *s)
{
    return blocks_of(s->value[CONST_M], SIDE) * blocks_of(s->value[CONST_N], SIDE);
}

static void transpose_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    size_t m = s->value[CONST_M], n = s->value[CONST_N], across = blocks_of(n, SIDE);
    size_t m0 = item / across, n0 = item % across;
    for (size_t i = m0 * SIDE; i < block_end(m0, SIDE, m); i++)
        for (size_t j = n0 * SIDE; j < block_end(n0, SIDE, n); j++) s->at[SLOT_Y][i * n + j] = s->at[SLOT_X][j * m + i];
}

static void transpose_count(const struct cpu_step *s, struct count *c)
{
    uint64_t all = (uint64_t)s->value[CONST_M] * s->value[CONST_N];
    reads(c, SLOT_X, all);
    writes(c, SLOT_Y, all);
}

/* ---- attention_dq: the parts of the queries' gradient ---- */

static size_t dq_parts(const struct cpu_step *s, size_t length)
{
    size_t parts = blocks_of(length, s->value[CONST_TILE_M]), most = s->value[CONST_PARTS];
    return parts < most ? parts : most;
}

static void dq_row(const struct cpu_step *s, size_t token, float *sums)
{
    size_t heads = s->value[CONST_HEADS], dim = s->value[CONST_HEAD_DIM], width = heads * dim,
           stride = s->value[CONST_X_STRIDE], tokens = s->batch[HEADER_TOKENS];
    size_t length = step_sequence(s, s->batch[s->batch[HEADER_AT_TOKEN_SEQUENCE] + token]).length;
    size_t parts = dq_parts(s, length);
    float scale;
    memcpy(&scale, &s->value[CONST_SCALE], sizeof scale);
    row_load(sums, s->at[SLOT_PARTIALS] + token * width, width);
    for (size_t part = 1; part < parts; part++)
        row_add(sums, s->at[SLOT_PARTIALS] + (part * tokens + token) * width, width);
    row_scale(sums, width, scale);
    float *y = s->at[SLOT_Y] + s->value[CONST_X_OFFSET] + token * stride;
    for (size_t head = 0; head < heads; head++) row_store(y + step_head(s, head, stride), sums + head * dim, dim);
}

static void dq_run(const struct cpu_step *s, size_t item, float *sums)
{
    size_t unit = rows_at_once(s), end = block_end(item, unit, step_rows(s));
    for (size_t token = item * unit; token < end; token++) dq_row(s, token, sums);
}

static size_t dq_scratch(const struct cpu_step *s)
{
    return padded((size_t)s->value[CONST_HEADS] * s->value[CONST_HEAD_DIM]);
}

static void dq_count(const struct cpu_step *s, struct count *c)
{
    uint64_t width = (uint64_t)s->value[CONST_HEADS] * s->value[CONST_HEAD_DIM];
    for (uint32_t i = 0; i < s->batch[HEADER_SEQUENCES]; i++) {
        uint64_t length = length_of(c, i);
        reads(c, SLOT_PARTIALS, dq_parts(s, length) * length * width);
        writes(c, SLOT_Y, length * width);
    }
}

/* ---- scatter: each row of a table sums the rows whose token asks for it. An item has some of the table's rows, and
 * looks at all ids; with COLUMN_SUMS it has one part of the tokens, and all of the table ---- */

enum { SHARES = 64 };

static size_t part_rows(const struct cpu_step *s) { return s->value[CONST_PART_ROWS]; }

static size_t scatter_items(const struct cpu_step *s)
{
    return s->value[CONST_COLUMN_SUMS] ? blocks_of(step_rows(s), part_rows(s)) : SHARES;
}

static uint8_t list_of(const struct cpu_step *s)
{
    return s->value[CONST_WORD] ? SLOT_IDS : s->value[CONST_POSITION] ? SLOT_POSITIONS : SLOT_TYPES;
}

static void scatter_some(const struct cpu_step *s, size_t first, size_t end, size_t from, size_t to, float *sums)
{
    size_t n = s->value[CONST_N];
    const uint32_t *ids = (const uint32_t *)s->at[list_of(s)];
    memset(sums, 0, (end - first) * n * sizeof *sums);
    for (size_t token = from; token < to; token++) {
        if (ids[token] < first || ids[token] >= end) continue;
        float *row = sums + (ids[token] - first) * n;
        FOR_VECTORS(i, n)
        v_store_at(row, i, n, v_load_at(row, i, n) + v_load_at(s->at[SLOT_X] + token * n, i, n));
    }
}

static void scatter_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    size_t n = s->value[CONST_N], m = s->value[CONST_M], rows = step_rows(s);
    if (s->value[CONST_COLUMN_SUMS]) {
        scatter_some(s, 0, m, item * part_rows(s), block_end(item, part_rows(s), rows), s->at[SLOT_SUM] + item * m * n);
        return;
    }
    size_t share = blocks_of(m, SHARES), first = item * share;
    if (first >= m) return;
    size_t end = block_end(item, share, m);
    float *y = s->at[SLOT_Y] + first * n;
    scatter_some(s, first, end, 0, rows, y);
    if (!s->value[CONST_RESIDUAL]) return;
    const float *before = s->at[SLOT_RESIDUAL] + first * n;
    FOR_VECTORS(i, (end - first) * n)
    v_store_at(y, i, (end - first) * n, v_load_at(y, i, (end - first) * n) + v_load_at(before, i, (end - first) * n));
}

static void scatter_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s), n = s->value[CONST_N], m = s->value[CONST_M], share = blocks_of(m, SHARES);
    reads(c, SLOT_X, rows * n);
    if (s->value[CONST_COLUMN_SUMS]) {
        reads(c, list_of(s), rows);
        writes_scratch(c, SLOT_SUM, scatter_items(s) * m * n);
        return;
    }
    reads(c, SLOT_RESIDUAL, m * n);
    count_vector(c, list_of(s), share ? blocks_of(m, share) : 0, rows);
    writes(c, SLOT_Y, m * n);
}

/* clang-format off */
const struct cpu_kernel CPU_NAME(cpu_transpose) = {.name = "transpose", .items = transpose_items, .run = transpose_run, .count = transpose_count};
const struct cpu_kernel CPU_NAME(cpu_attention_dq) = {.name = "attention_dq", .items = rows_items, .run = dq_run, .scratch = dq_scratch, .count = dq_count};
const struct cpu_kernel CPU_NAME(cpu_scatter) = {.name = "scatter", .items = scatter_items, .run = scatter_run, .count = scatter_count};
/* clang-format on */
