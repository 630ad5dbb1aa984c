/* The kernels of low-rank adapters, adapter_gradient and adapter_merge (the files of those names in cl/). An item is
 * what a work-group has there. */
#include "interface/adapter.h"
#include "vector.h"

#include "backends/cpu/step.h"

struct matrix {
    size_t rows, columns, block, block_step, row_step, column_step, weight, gradient, base, a, b, rank;
    float scale;
};

static const uint32_t *group_of(const struct cpu_step *s, size_t item)
{
    return (const uint32_t *)s->at[SLOT_IDS] + ADAPTER_TABLE + item * GROUP_WORDS;
}

static struct matrix matrix_of(const struct cpu_step *s, size_t item)
{
    const uint32_t *table = (const uint32_t *)s->at[SLOT_IDS];
    const uint32_t *m = table + table[ADAPTER_MATRICES] + group_of(s, item)[GROUP_MATRIX];
    struct matrix out = {.rows = m[MATRIX_ROWS],
                         .columns = m[MATRIX_COLUMNS],
                         .block = m[MATRIX_BLOCK],
                         .block_step = m[MATRIX_BLOCK_STEP],
                         .row_step = m[MATRIX_ROW_STEP],
                         .column_step = m[MATRIX_COLUMN_STEP],
                         .weight = m[MATRIX_WEIGHT],
                         .gradient = m[MATRIX_GRADIENT],
                         .base = m[MATRIX_BASE],
                         .a = m[MATRIX_A],
                         .b = m[MATRIX_B],
                         .rank = s->batch[ADAPTER_RANK]};
    memcpy(&out.scale, &s->batch[ADAPTER_SCALE], sizeof out.scale);
    return out;
}

static size_t row_at(const struct matrix *m, size_t row)
{
    return row / m->block * m->block_step + row % m->block * m->row_step;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static size_t groups(const struct cpu_step *s)
{
    return s->batch[ADAPTER_ACTIVE] ? ((const uint32_t *)s->at[SLOT_IDS])[ADAPTER_GROUPS] : 0;
}

/* ---- gradients ---- */

/* Whatever lies between elements of x: in the usual order of a matrix they lie side by side. */
static float dot(const float *x, size_t step, const float *y, size_t n)
{
    const size_t whole = step == 1 ? n / LANES * LANES : 0;
    float sum = whole ? row_dot(x, y, whole) : 0;
    for (size_t i = whole; i < n; i++) sum += x[i * step] * y[i];
    return sum;
}

static void add_scaled(const float *x, size_t step, float factor, size_t n, float *restrict sums)
{
    for (size_t i = 0; step == 1 && i < n; i++) sums[i] += factor * x[i];
    for (size_t i = 0; step != 1 && i < n; i++) sums[i] += factor * x[i * step];
}

/* dB of some rows: each row of dW times rows of A. */
static void rows_run(const struct matrix *m, const float *dw, const float *w, size_t first, size_t k0, float *y)
{
    const size_t end = least(first + ADAPTER_SPAN, m->rows), k_end = least(k0 + ADAPTER_RANKS, m->rank);
    for (size_t row = first; row < end; row++)
        for (size_t k = k0; k < k_end; k++)
            y[m->b + row * m->rank + k] = m->scale * dot(dw + m->gradient + row_at(m, row), m->column_step,
                                                         w + m->a + k * m->columns, m->columns);
}

/* dA of some columns: the rows of dW, each times elements of B, added up. */
static void columns_run(const struct matrix *m, const float *dw, const float *w, size_t first, size_t k0, float *y)
{
    const size_t n = least(first + ADAPTER_SPAN, m->columns) - first, ranks = least(k0 + ADAPTER_RANKS, m->rank) - k0;
    float sums[ADAPTER_RANKS][ADAPTER_SPAN] = {{0}};
    for (size_t row = 0; row < m->rows; row++) {
        const float *g = dw + m->gradient + row_at(m, row) + first * m->column_step;
        for (size_t k = 0; k < ranks; k++) add_scaled(g, m->column_step, w[m->b + row * m->rank + k0 + k], n, sums[k]);
    }
    for (size_t k = 0; k < ranks; k++)
        for (size_t c = 0; c < n; c++) y[m->a + (k0 + k) * m->columns + first + c] = m->scale * sums[k][c];
}

static void gradient_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    const uint32_t *group = group_of(s, item);
    const struct matrix m = matrix_of(s, item);
    (group[GROUP_OF] == GROUP_OF_B ? rows_run : columns_run)(&m, s->at[SLOT_X], s->at[SLOT_W], group[GROUP_FIRST],
                                                             group[GROUP_SECOND], s->at[SLOT_Y]);
}

/* ---- weights ---- */

static void merge_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    const uint32_t *group = group_of(s, item);
    const struct matrix m = matrix_of(s, item);
    const size_t first = group[GROUP_SECOND], n = least(first + ADAPTER_TILE, m.columns) - first;
    const size_t end = least(group[GROUP_FIRST] + (size_t)ADAPTER_TILE, m.rows);
    const float *factors = s->at[SLOT_GRADIENT];
    for (size_t row = group[GROUP_FIRST]; row < end; row++) {
        const float *b = factors + m.b + row * m.rank;
        const float *base = s->at[SLOT_X] + m.base + row_at(&m, row) + first * m.column_step;
        float *w = s->at[SLOT_W] + m.weight + row_at(&m, row) + first * m.column_step;
        float sums[ADAPTER_TILE] = {0};
        for (size_t k = 0; k < m.rank; k++) {
            const float *a = factors + m.a + k * m.columns + first;
            add_scaled(a, 1, b[k], n, sums);
        }
        for (size_t c = 0; c < n; c++) w[c * m.column_step] = base[c * m.column_step] + m.scale * sums[c];
    }
}

const struct cpu_kernel CPU_NAME(cpu_adapter_gradient) = {
    .name = "adapter_gradient", .items = groups, .run = gradient_run};
const struct cpu_kernel CPU_NAME(cpu_adapter_merge) = {.name = "adapter_merge", .items = groups, .run = merge_run};
