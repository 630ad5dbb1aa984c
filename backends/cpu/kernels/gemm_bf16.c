/* gemm in bf16: the products with a weight that lies in bf16, of floats that are rounded to it. Sums, and what is done
 * with them, are those of gemm.c. Compiled for the sets that have such instructions (cmake/cpu.cmake). */
#include "gemm.h"
#include "tile_bf16.h"

static const struct block_sizes sizes = {BF16_BLOCK_ROWS, BF16_BLOCK_PANELS, BF16_TILE_ROWS};

/* As many pieces as needed, as even as they can be. */
static size_t piece_of(size_t depth)
{
    size_t pieces = blocks_of(depth, BF16_DEPTH_MOST);
    return pieces ? bf16_depth(blocks_of(depth, pieces)) : BF16_DEPTH_UNIT;
}

static size_t rows_of_tiles(size_t rows) { return blocks_of(rows, BF16_TILE_ROWS) * BF16_TILE_ROWS; }

static size_t gemm_items(const struct cpu_step *s)
{
    struct shape z = shape_of(s);
    struct blocks b = blocks_for(s, &z, sizes);
    return b.row_blocks * b.in_a_row;
}

/* A block's sums, and its rows of the first operand, a piece deep. */
static size_t gemm_scratch(const struct cpu_step *s)
{
    (void)s;
    const size_t rows = BF16_BLOCK_ROWS, columns = BF16_BLOCK_PANELS * TILE_COLUMNS;
    return (rows + BF16_TILE_ROWS + 1) * columns + rows * BF16_A_ROW / 2;
}

/* ---- the packed operand ---- */

static size_t gemm_packed(const struct cpu_step *s, size_t *panels)
{
    struct shape z = shape_of(s);
    *panels = panels_of(z.n);
    return *panels * TILE_COLUMNS * bf16_depth(z.k) * sizeof(uint16_t);
}

/* to [k / 2][TILE_COLUMNS][2], with zeros after the last column and the last k. Few k at a time, so that what is
 * written stays in the first cache. */
static void gemm_pack(const struct cpu_step *s, size_t item, void *packed)
{
    struct shape z = shape_of(s);
    size_t first = item * TILE_COLUMNS, left = z.n - first, columns = left < TILE_COLUMNS ? left : TILE_COLUMNS;
    const uint16_t *w = (const uint16_t *)(const void *)s->at[SLOT_W] + s->value[CONST_W_OFFSET] + first * z.w.row;
    uint16_t *to = (uint16_t *)packed + first * bf16_depth(z.k);
    for (size_t from = 0; from < bf16_depth(z.k); from += BF16_DEPTH_UNIT, to += BF16_STEP)
        for (size_t c = 0; c < TILE_COLUMNS; c++)
            for (size_t k = 0; k < BF16_DEPTH_UNIT; k++)
                to[(k / 2 * TILE_COLUMNS + c) * 2 + k % 2] =
                    c < columns && from + k < z.k ? w[c * z.w.row + (from + k) * z.w.step] : 0;
}

/* ---- the product ---- */

/* Rows of the first operand from `from` on, rounded to nearest; zeros after the last k and the last row. */
static void round_rows(const float *x, size_t x_row, size_t rows, size_t k, size_t deep, uint16_t *to)
{
    size_t all = rows_of_tiles(rows);
    for (size_t r = 0; r < all; r++, to += BF16_A_ROW) {
        if (r >= rows) {
            memset(to, 0, deep * sizeof *to);
            continue;
        }
        const float *row = x + r * x_row;
        for (size_t i = 0; i < deep; i += BF16_DEPTH_UNIT) {
            vec low = i < k ? v_load_at(row, i, k) : v_zero(),
                high = i + LANES < k ? v_load_at(row, i + LANES, k) : v_zero();
            _mm512_storeu_si512(to + i, bf16_round(low, high));
        }
    }
}

/* c [rows][c_row] = the block's products; of a row's panels, `packed` and `next` are where this block's and the one
 * after it begin. */
static void multiply(const float *x, size_t x_row, const uint16_t *packed, const uint16_t *next, const struct block *at,
                     size_t k, float *c, size_t c_row, uint16_t *a)
{
    size_t depth = bf16_depth(k), piece = piece_of(depth), panels = panels_of(at->columns);
    if (!depth)
        for (size_t r = 0; r < at->rows; r++) memset(c + r * c_row, 0, c_row * sizeof *c);
    bf16_begin();
    for (size_t from = 0; from < depth; from += piece) {
        size_t deep = depth - from < piece ? depth - from : piece;
        round_rows(x + from, x_row, at->rows, k - from, deep, a);
        for (size_t p = 0; p < panels; p++) {
            const uint16_t *panel = packed + (p * depth + from) * TILE_COLUMNS;
            const uint16_t *ahead = p + 1 < panels ? panel + depth * TILE_COLUMNS : next + from * TILE_COLUMNS;
            for (size_t r = 0; r < at->rows; r += BF16_TILE_ROWS)
                bf16_tile(at->rows - r, a + r * BF16_A_ROW, panel, r ? NULL : ahead, deep,
                          c + r * c_row + p * TILE_COLUMNS, c_row, from > 0);
        }
    }
    bf16_end();
}

static void gemm_run(const struct cpu_step *s, size_t item, float *scratch)
{
    struct shape z = shape_of(s);
    struct blocks b = blocks_for(s, &z, sizes);
    struct block at = block_of(s, &z, &b, item);
    size_t c_row = panels_of(at.columns) * TILE_COLUMNS, depth = bf16_depth(z.k);
    float *sums = scratch, *c = sums + c_row, *rest = c + (at.rows + BF16_TILE_ROWS) * c_row;
    const uint16_t *packed = s->packed;
    multiply(z.x.at + at.row * z.x.row, z.x.row, packed + at.column * depth, packed + at.next * depth, &at, z.k, c,
             c_row, (uint16_t *)(void *)rest);
    finish_block(s, &z, &at, c, c_row, sums);
}

/* ---- what it moves ---- */

/* As gemm.c's, but for w, of which an element is 2 bytes, with zeros after the last k, too. */
static void gemm_count(const struct cpu_step *s, struct count *c)
{
    struct shape z = shape_of(s);
    struct blocks b = blocks_for(s, &z, sizes);
    uint64_t w = z.n * z.k * sizeof(uint16_t),
             panels = panels_of(z.n) * TILE_COLUMNS * bf16_depth(z.k) * sizeof(uint16_t);
    uint64_t streams = streams_of(c) * sizeof(float), x = b.rows * z.k * sizeof(float);
    uint64_t block = x + b.columns * bf16_depth(z.k) * sizeof(uint16_t) + b.rows * b.columns * streams;
    c->out->requested_read += panels * b.row_blocks;
    c->out->model_read += panels - w;
    if (x + panels + b.rows * z.n * streams > c->cache || !c->cache) c->out->model_read += panels * (b.row_blocks - 1);
    count_rest(s, &z, &b, block, c);
}

const struct cpu_kernel CPU_NAME(cpu_gemm_bf16) = {.name = "gemm",
                                                   .items = gemm_items,
                                                   .run = gemm_run,
                                                   .scratch = gemm_scratch,
                                                   .packed = gemm_packed,
                                                   .pack = gemm_pack,
                                                   .count = gemm_count};
