/* What the products with a weight (cl/gemm.cl says what is computed) share, whatever type their operands have. An item
 * is a block of rows and columns, whose sums lie in scratch memory until what belongs to them is done, row by row. */
#ifndef WHERRY_CPU_GEMM_H
#define WHERRY_CPU_GEMM_H

#include "pairs.h"
#include "product.h"
#include "traffic.h"

/* What the call's sizes are for this batch. */
struct shape {
    size_t m, n, k;
    struct operand x, w;
    size_t y_row;
    bool batch_n;
};

static inline struct shape shape_of(const struct cpu_step *s)
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
    z.x = (struct operand){s->at[SLOT_X] + s->value[CONST_X_OFFSET], x_major ? 1 : x_stride, x_major ? x_stride : 1,
                           NULL, NULL};
    z.w = (struct operand){s->at[SLOT_W] + s->value[CONST_W_OFFSET], w_major ? 1 : w_stride, w_major ? w_stride : 1,
                           NULL, NULL};
    if (s->value[CONST_SCALES]) {
        z.w.bytes = (const int8_t *)s->at[SLOT_W];
        z.w.scales = s->at[SLOT_W] + s->value[CONST_SCALES];
    }
    z.y_row = s->value[CONST_Y_STRIDE] ? s->value[CONST_Y_STRIDE] : s->value[CONST_N];
    return z;
}

/* ---- blocks ---- */

struct blocks {
    size_t rows, columns;        /* of one */
    size_t row_blocks, in_a_row; /* how many */
};

/* Of a type of operands: the largest block, in rows and panels, and the rows of a tile. */
struct block_sizes {
    size_t rows, panels, tile;
};

/* Large ones read operands seldom, small ones give work to all threads. Where results are summed over a tile of the
 * batch's rows, which is a part for the kernel `reduce`, blocks are such tiles. */
static inline struct blocks blocks_for(const struct cpu_step *s, const struct shape *z, struct block_sizes most)
{
    struct blocks b = {most.rows, most.panels * TILE_COLUMNS, 0, 0};
    bool sums = s->value[CONST_COLUMN_SUMS] != 0;
    size_t unit = TILE_COLUMNS * (TILE_COLUMNS % 2 && s->value[CONST_GATE] ? 2 : 1); /* whole pairs */
    if (sums && !z->batch_n) b.rows = s->value[CONST_TILE_M];
    if (sums && z->batch_n) b.columns = s->value[CONST_TILE_N];
    for (;;) {
        b.row_blocks = blocks_of(z->m, b.rows);
        b.in_a_row = blocks_of(z->n, b.columns);
        size_t count = b.row_blocks * b.in_a_row;
        if (count >= 3 * s->threads || s->threads == 1) return b;
        /* Of few rows a block reads as much as of more: they are cut for threads that would have nothing to do. */
        size_t least = count < s->threads ? most.tile : 4 * most.tile;
        if (b.columns > unit && !(sums && z->batch_n))
            b.columns -= unit;
        else if (b.rows > least && (!sums || z->batch_n))
            b.rows /= 2;
        else
            return b;
    }
}

/* Where one of them is. */
struct block {
    size_t row, column, row_block, column_block;
    size_t rows, columns;
    size_t next; /* the column where this thread's next block begins, if all threads are equally fast; this one's, if
                    that is in another row */
};

static inline struct block block_of(const struct cpu_step *s, const struct shape *z, const struct blocks *b,
                                    size_t item)
{
    struct block at = {.row_block = item / b->in_a_row, .column_block = item % b->in_a_row};
    at.row = at.row_block * b->rows;
    at.column = at.column_block * b->columns;
    at.rows = z->m - at.row < b->rows ? z->m - at.row : b->rows;
    at.columns = z->n - at.column < b->columns ? z->n - at.column : b->columns;
    size_t after = at.column + s->threads * b->columns;
    at.next = after < z->n ? after : at.column;
    return at;
}

/* ---- what becomes of the sums ---- */

struct finish {
    const struct cpu_step *s;
    const struct shape *z;
    struct dropout drop;
    size_t column0, columns;
    float *sums; /* [columns] of the rows so far, NULL: none */
};

static inline void drop(const struct finish *f, float *values, size_t row)
{
    if (!f->drop.threshold) return;
    if (f->s->value[CONST_KEPT])
        row_scale(values, f->columns, f->drop.scale);
    else if (f->z->batch_n)
        column_drop(&f->drop, values, f->columns, (uint32_t)f->column0, 1, (uint32_t)row);
    else
        row_drop(&f->drop, values, f->columns, (uint32_t)row, (uint32_t)f->column0);
}

/* Pairs of columns, a strip of them at a time. */
enum { GATE_STRIP = 64 };

/* What a row of pairs makes, of a row of N / 2. */
static inline void gate_row(const struct finish *f, const float *values, size_t row)
{
    float gated[GATE_STRIP], other[GATE_STRIP];
    const struct halves h = {gated, other, NULL};
    size_t all = f->columns / 2, first = f->column0 / 2, at = row * (f->s->value[CONST_N] / 2) + first;
    for (size_t i = 0; i < all; i += GATE_STRIP) {
        size_t n = all - i < GATE_STRIP ? all - i : GATE_STRIP;
        halves_load(f->s, values + 2 * i, NULL, n, &h);
        halves_gate(f->s, &f->drop, row, first + i, n, &h);
        row_store(f->s->at[SLOT_Y] + at + i, gated, n);
    }
}

/* The gradients of the pairs that made what a row's columns are the gradients of: a row of 2 N. */
static inline void gate_row_gradient(const struct finish *f, float *values, size_t row)
{
    float gated[GATE_STRIP], other[GATE_STRIP];
    size_t at = row * f->s->value[CONST_N] + f->column0;
    for (size_t i = 0; i < f->columns; i += GATE_STRIP) {
        size_t n = f->columns - i < GATE_STRIP ? f->columns - i : GATE_STRIP;
        const struct halves h = {gated, other, values + i};
        halves_load(f->s, f->s->at[SLOT_SAVED] + 2 * (at + i), NULL, n, &h);
        halves_differentiate(f->s, n, &h, f->s->at[SLOT_Y] + 2 * (at + i));
    }
}

static inline void turn_row(const struct finish *f, float *values, size_t row)
{
    const uint32_t *positions = (const uint32_t *)f->s->at[SLOT_POSITIONS];
    const float *angles = f->s->at[SLOT_POSITION] + (size_t)positions[row] * f->s->value[CONST_HEAD_DIM];
    turn_columns(f->s, angles, f->column0, f->columns, values);
}

/* In the order of cl/gemm.cl, in place, and then to memory. */
static inline void finish_row(const struct finish *f, float *values, size_t row)
{
    const struct cpu_step *s = f->s;
    size_t n = f->columns, at = row * f->z->y_row + f->column0;
    const float *bias = s->at[SLOT_BIAS];
    if (s->value[CONST_BIAS] && f->z->batch_n)
        FOR_VECTORS(i, n) v_store(values + i, v_load(values + i) + v_set(bias[row]));
    else if (s->value[CONST_BIAS])
        row_add(values, bias + f->column0, n);
    if (s->value[CONST_SUM]) FOR_VECTORS(i, n) v_store_at(s->at[SLOT_SUM] + at, i, n, v_load(values + i));
    if (s->value[CONST_ROTARY]) turn_row(f, values, row);
    if (s->value[CONST_GATE] && !s->value[CONST_DERIVATIVE]) {
        gate_row(f, values, row);
        return;
    }
    row_activate(values, n, s->value[CONST_ACTIVATION]);
    drop(f, values, row);
    if (s->value[CONST_GATE]) {
        gate_row_gradient(f, values, row);
        return;
    }
    if (s->value[CONST_DERIVATIVE]) row_derive(values, n, s->value[CONST_DERIVATIVE], s->at[SLOT_SAVED] + at);
    if (s->value[CONST_RESIDUAL]) row_add(values, s->at[SLOT_RESIDUAL] + at, n);
    if (f->sums && !f->z->batch_n) FOR_VECTORS(i, n) v_store(f->sums + i, v_load(f->sums + i) + v_load(values + i));
    float *y = s->at[SLOT_Y] + s->value[CONST_Y_OFFSET] + at;
    FOR_VECTORS(i, n) v_store_at(y, i, n, v_load(values + i));
}

/* The sums of a block, `row` apart, become results. `sums` has room for one row of them. */
static inline void finish_block(const struct cpu_step *s, const struct shape *z, const struct block *at, float *c,
                                size_t c_row, float *sums)
{
    bool summed = s->value[CONST_COLUMN_SUMS] != 0;
    struct finish f = {s, z, dropout_of(s), at->column, at->columns, summed ? sums : NULL};
    memset(sums, 0, c_row * sizeof *sums);
    float *partials = s->at[SLOT_PARTIALS];
    for (size_t r = 0; r < at->rows; r++) {
        finish_row(&f, c + r * c_row, at->row + r);
        if (!summed || !z->batch_n) continue;
        row_end(c + r * c_row, at->columns);
        partials[at->column_block * z->m + at->row + r] = row_sum(c + r * c_row, at->columns);
    }
    if (summed && !z->batch_n) FOR_VECTORS(i, at->columns)
    v_store_at(partials + at->row_block * z->n + at->column, i, at->columns, v_load(sums + i));
}

/* ---- what it moves ---- */

/* Each block of a token's columns reads its position, and those of its angles that some column there wants. */
static inline void count_angles(const struct cpu_step *s, const struct shape *z, const struct blocks *b,
                                struct count *c)
{
    uint64_t dim = s->value[CONST_HEAD_DIM], angles = 0;
    for (size_t first = 0; first < z->n; first += b->columns)
        for (size_t channel = 0; channel < dim; channel++) {
            size_t end = z->n - first < b->columns ? z->n : first + b->columns, column = first - first % dim + channel;
            if (column < first) column += dim;
            while (column < end && !turns(s, column)) column += dim;
            angles += column < end;
        }
    count_again(c, SLOT_POSITIONS, z->m * b->in_a_row, z->m, b->rows * dim * sizeof(float));
    count_again(c, SLOT_POSITION, z->m * angles, z->m * dim, b->rows * dim * sizeof(float));
    if (z->m) reads_again(c, SLOT_POSITION, (z->m - angle_rows_of(c)) * dim, angle_rows_of(c) * count_row_bytes(c));
}

/* But for the second operand: x, of which a block reads `block` bytes and all else meanwhile, and what belongs to the
 * sums. Blocks of a row follow each other and share x. */
static inline void count_rest(const struct cpu_step *s, const struct shape *z, const struct blocks *b, uint64_t block,
                              struct count *c)
{
    uint64_t all = z->m * z->n, x = z->m * z->k;
    bool gated = s->value[CONST_GATE] != GATE_NONE, gradient = gated && s->value[CONST_DERIVATIVE];
    count_again(c, SLOT_X, x * b->in_a_row, x, s->threads * block);
    count_vector(c, SLOT_BIAS, z->batch_n ? b->in_a_row : b->row_blocks, z->batch_n ? z->m : z->n);
    reads(c, SLOT_SAVED, gradient ? 2 * all : all);
    reads(c, SLOT_RESIDUAL, all);
    if (s->value[CONST_ROTARY]) count_angles(s, z, b, c);
    writes(c, SLOT_SUM, all);
    writes(c, SLOT_Y, gradient ? 2 * all : gated ? all / 2 : all);
    if (s->value[CONST_COLUMN_SUMS])
        writes_scratch(c, SLOT_PARTIALS, z->batch_n ? b->in_a_row * z->m : b->row_blocks * z->n);
}

/* Of results and what is read with each of them. */
static inline uint64_t streams_of(const struct count *c)
{
    return 1 + (element_of(c, SLOT_SUM) + element_of(c, SLOT_SAVED) + element_of(c, SLOT_RESIDUAL)) / 4;
}

#endif
