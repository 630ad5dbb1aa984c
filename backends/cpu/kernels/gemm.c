/* gemm: the products with a weight (cl/gemm.cl says what is computed). An item is a block of rows and columns, whose
 * sums lie in scratch memory until what belongs to them is done, row by row. */
#include "dropout.h"
#include "formulas.h"
#include "product.h"
#include "traffic.h"

/* What the call's sizes are for this batch. */
struct shape {
    size_t m, n, k;
    struct operand x, w;
    size_t y_row;
    bool batch_n;
};

static struct shape shape_of(const struct cpu_step *s)
{
    uint32_t form = s->value[CONST_FORM], runtime = s->value[CONST_RUNTIME];
    if (runtime == RUNTIME_FORM) runtime = form == GEMM_TN ? RUNTIME_K : RUNTIME_M;
    size_t rows = step_rows(s);
    struct shape z = {.m = runtime == RUNTIME_M ? rows : s->value[CONST_M],
                      .n = runtime == RUNTIME_N ? rows : s->value[CONST_N],
                      .k = runtime == RUNTIME_K ? rows : s->value[CONST_K],
                      .batch_n = runtime == RUNTIME_N};
    bool x_major = form == GEMM_TN, w_major = form != GEMM_NT;
    size_t x_stride = s->value[CONST_X_STRIDE], w_stride = s->value[CONST_W_STRIDE];
    if (!x_stride) x_stride = x_major ? z.m : z.k;
    if (!w_stride) w_stride = w_major ? z.n : z.k;
    z.x = (struct operand){s->at[SLOT_X] + s->value[CONST_X_OFFSET], x_major ? 1 : x_stride, x_major ? x_stride : 1};
    z.w = (struct operand){s->at[SLOT_W] + s->value[CONST_W_OFFSET], w_major ? 1 : w_stride, w_major ? w_stride : 1};
    z.y_row = s->value[CONST_Y_STRIDE] ? s->value[CONST_Y_STRIDE] : s->value[CONST_N];
    return z;
}

/* ---- blocks ---- */

struct blocks {
    size_t rows, columns;        /* of one */
    size_t row_blocks, in_a_row; /* how many */
};

enum { ROWS_MOST = 256 };

/* Large ones read operands seldom, small ones give work to all threads. Where results are summed over a tile of the
 * batch's rows, which is a part for the kernel `reduce`, blocks are such tiles. */
static struct blocks blocks_for(const struct cpu_step *s, const struct shape *z)
{
    const size_t most_panels = s->packed ? 8 : 4;
    struct blocks b = {s->packed ? 64 : ROWS_MOST, most_panels * TILE_COLUMNS, 0, 0};
    bool sums = s->value[CONST_COLUMN_SUMS] != 0;
    if (sums && !z->batch_n) b.rows = s->value[CONST_TILE_M];
    if (sums && z->batch_n) b.columns = s->value[CONST_TILE_N];
    for (;;) {
        b.row_blocks = blocks_of(z->m, b.rows);
        b.in_a_row = blocks_of(z->n, b.columns);
        size_t count = b.row_blocks * b.in_a_row;
        if (count >= 3 * s->threads || s->threads == 1) return b;
        /* Of few rows a block reads as much as of more: they are cut for threads that would have nothing to do. */
        size_t least = count < s->threads ? TILE_ROWS : 4 * TILE_ROWS;
        if (b.columns > TILE_COLUMNS && !(sums && z->batch_n))
            b.columns -= TILE_COLUMNS;
        else if (b.rows > least && (!sums || z->batch_n))
            b.rows /= 2;
        else
            return b;
    }
}

static size_t gemm_items(const struct cpu_step *s)
{
    struct shape z = shape_of(s);
    struct blocks b = blocks_for(s, &z);
    return b.row_blocks * b.in_a_row;
}

static size_t gemm_scratch(const struct cpu_step *s)
{
    size_t rows = ROWS_MOST, columns = 8 * TILE_COLUMNS;
    if (s->value[CONST_TILE_M] > rows) rows = s->value[CONST_TILE_M];
    if (s->value[CONST_TILE_N] > columns) columns = s->value[CONST_TILE_N];
    rows += TILE_ROWS;
    columns = panels_of(columns) * TILE_COLUMNS;
    return (rows + 2) * columns + product_scratch(rows, columns);
}

/* ---- the packed operand ---- */

static size_t gemm_packed(const struct cpu_step *s, size_t *panels)
{
    struct shape z = shape_of(s);
    *panels = panels_of(z.n);
    return *panels * TILE_COLUMNS * z.k;
}

static void gemm_pack(const struct cpu_step *s, size_t item, float *packed)
{
    struct shape z = shape_of(s);
    size_t first = item * TILE_COLUMNS, left = z.n - first;
    pack_panel(&z.w, first, left < TILE_COLUMNS ? left : TILE_COLUMNS, TILE_COLUMNS, 0, z.k, packed + first * z.k);
}

/* ---- what becomes of the sums ---- */

struct finish {
    const struct cpu_step *s;
    const struct shape *z;
    struct dropout drop;
    size_t column0, columns;
    float *sums; /* [columns] of the rows so far, NULL: none */
};

static void add_row(float *to, const float *row, size_t n)
{
    FOR_VECTORS(i, n) v_store(to + i, v_load(to + i) + v_load_at(row, i, n));
}

static void drop(const struct finish *f, float *values, size_t row)
{
    if (!f->drop.threshold) return;
    if (f->s->value[CONST_KEPT])
        row_scale(values, f->columns, f->drop.scale);
    else if (f->z->batch_n)
        column_drop(&f->drop, values, f->columns, (uint32_t)f->column0, 1, (uint32_t)row);
    else
        row_drop(&f->drop, values, f->columns, (uint32_t)row, (uint32_t)f->column0);
}

/* In the order of cl/gemm.cl, in place, and then to memory. */
static void finish_row(const struct finish *f, float *values, size_t row)
{
    const struct cpu_step *s = f->s;
    size_t n = f->columns, at = row * f->z->y_row + f->column0;
    const float *bias = s->at[SLOT_BIAS];
    if (s->value[CONST_BIAS] && f->z->batch_n)
        FOR_VECTORS(i, n) v_store(values + i, v_load(values + i) + v_set(bias[row]));
    else if (s->value[CONST_BIAS])
        add_row(values, bias + f->column0, n);
    if (s->value[CONST_SUM]) FOR_VECTORS(i, n) v_store_at(s->at[SLOT_SUM] + at, i, n, v_load(values + i));
    row_activate(values, n, s->value[CONST_ACTIVATION]);
    drop(f, values, row);
    if (s->value[CONST_DERIVATIVE]) row_derive(values, n, s->value[CONST_DERIVATIVE], s->at[SLOT_SAVED] + at);
    if (s->value[CONST_RESIDUAL]) add_row(values, s->at[SLOT_RESIDUAL] + at, n);
    if (f->sums && !f->z->batch_n) FOR_VECTORS(i, n) v_store(f->sums + i, v_load(f->sums + i) + v_load(values + i));
    float *y = s->at[SLOT_Y] + s->value[CONST_Y_OFFSET] + at;
    FOR_VECTORS(i, n) v_store_at(y, i, n, v_load(values + i));
}

static void gemm_run(const struct cpu_step *s, size_t item, float *scratch)
{
    struct shape z = shape_of(s);
    struct blocks b = blocks_for(s, &z);
    size_t row_block = item / b.in_a_row, column_block = item % b.in_a_row;
    size_t row0 = row_block * b.rows, column0 = column_block * b.columns;
    size_t rows = z.m - row0 < b.rows ? z.m - row0 : b.rows, n = z.n - column0 < b.columns ? z.n - column0 : b.columns;
    size_t c_row = panels_of(n) * TILE_COLUMNS;
    float *sums = scratch, *c = sums + c_row, *rest = c + (rows + TILE_ROWS) * c_row;
    struct operand x = z.x, w = z.w;
    x.at += row0 * x.row;
    w.at += column0 * w.row;
    /* What this thread takes next, if all are equally fast. */
    size_t after = column0 + s->threads * b.columns;
    const float *packed = s->packed ? s->packed + column0 * z.k : NULL;
    const float *then = packed && after < z.n ? s->packed + after * z.k : packed;
    product(&x, &w, packed, then, rows, n, z.k, c, c_row, rest);
    bool summed = s->value[CONST_COLUMN_SUMS] != 0;
    struct finish f = {s, &z, dropout_of(s), column0, n, summed ? sums : NULL};
    memset(sums, 0, c_row * sizeof *sums);
    float *partials = s->at[SLOT_PARTIALS];
    for (size_t r = 0; r < rows; r++) {
        finish_row(&f, c + r * c_row, row0 + r);
        if (!summed || !z.batch_n) continue;
        row_end(c + r * c_row, n);
        partials[column_block * z.m + row0 + r] = row_sum(c + r * c_row, n);
    }
    if (summed && !z.batch_n)
        FOR_VECTORS(i, n) v_store_at(partials + row_block * z.n + column0, i, n, v_load(sums + i));
}

/* ---- what it moves ---- */

/* Blocks of a row follow each other and share x, rows of blocks share w. In panels w has zeros after its last column.
 */
static void gemm_count(const struct cpu_step *s, struct count *c)
{
    struct shape z = shape_of(s);
    struct blocks b = blocks_for(s, &z);
    uint64_t all = z.m * z.n, x = z.m * z.k, w = z.n * z.k,
             panels = s->packed ? panels_of(z.n) * TILE_COLUMNS * z.k : w;
    uint64_t streams = 1 + (element_of(c, SLOT_SUM) + element_of(c, SLOT_SAVED) + element_of(c, SLOT_RESIDUAL)) / 4;
    uint64_t block = (b.rows * z.k + b.columns * z.k + b.rows * b.columns * streams) * sizeof(float),
             row = (b.rows * z.k + panels + b.rows * z.n * streams) * sizeof(float);
    bool summed = s->value[CONST_COLUMN_SUMS] != 0;
    count_again(c, SLOT_X, x * b.in_a_row, x, s->threads * block);
    count_again(c, SLOT_W, panels * b.row_blocks, panels, row);
    c->out->model_read += (panels - w) * sizeof(float);
    count_vector(c, SLOT_BIAS, z.batch_n ? b.in_a_row : b.row_blocks, z.batch_n ? z.m : z.n);
    reads(c, SLOT_SAVED, all);
    reads(c, SLOT_RESIDUAL, all);
    writes(c, SLOT_SUM, all);
    writes(c, SLOT_Y, all);
    if (summed) writes_scratch(c, SLOT_PARTIALS, z.batch_n ? b.in_a_row * z.m : b.row_blocks * z.n);
}

const struct cpu_kernel CPU_NAME(cpu_gemm) = {.name = "gemm",
                                              .items = gemm_items,
                                              .run = gemm_run,
                                              .scratch = gemm_scratch,
                                              .packed = gemm_packed,
                                              .pack = gemm_pack,
                                              .count = gemm_count};
