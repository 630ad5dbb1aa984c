/* gemm: the products with a weight, of floats. */
#include "gemm.h"

enum { ROWS_MOST = 256 };

static struct block_sizes sizes_of(const struct cpu_step *s)
{
    return (struct block_sizes){s->packed ? 64 : ROWS_MOST, s->packed ? 8 : 4, TILE_ROWS};
}

static size_t gemm_items(const struct cpu_step *s)
{
    struct shape z = shape_of(s);
    struct blocks b = blocks_for(s, &z, sizes_of(s));
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
    return *panels * TILE_COLUMNS * z.k * sizeof(float);
}

static void gemm_pack(const struct cpu_step *s, size_t item, void *packed)
{
    struct shape z = shape_of(s);
    size_t first = item * TILE_COLUMNS, left = z.n - first;
    pack_panel(&z.w, first, left < TILE_COLUMNS ? left : TILE_COLUMNS, TILE_COLUMNS, 0, z.k,
               (float *)packed + first * z.k);
}

static void gemm_run(const struct cpu_step *s, size_t item, float *scratch)
{
    struct shape z = shape_of(s);
    struct blocks b = blocks_for(s, &z, sizes_of(s));
    struct block at = block_of(s, &z, &b, item);
    size_t c_row = panels_of(at.columns) * TILE_COLUMNS;
    float *sums = scratch, *c = sums + c_row, *rest = c + (at.rows + TILE_ROWS) * c_row;
    struct operand x = z.x, w = z.w;
    x.at += at.row * x.row;
    if (w.scales)
        w.bytes += at.column * w.row, w.scales += at.column;
    else
        w.at += at.column * w.row;
    const float *packed = s->packed;
    const float *panels = packed ? packed + at.column * z.k : NULL, *then = packed ? packed + at.next * z.k : NULL;
    product(&x, &w, panels, then, at.rows, at.columns, z.k, c, c_row, rest);
    finish_block(s, &z, &at, c, c_row, sums);
}

/* ---- what it moves ---- */

/* Rows of blocks share w. In panels it has zeros after its last column. */
static void gemm_count(const struct cpu_step *s, struct count *c)
{
    struct shape z = shape_of(s);
    struct blocks b = blocks_for(s, &z, sizes_of(s));
    uint64_t w = z.n * z.k, panels = s->packed ? panels_of(z.n) * TILE_COLUMNS * z.k : w;
    uint64_t block = (b.rows * z.k + b.columns * z.k + b.rows * b.columns * streams_of(c)) * sizeof(float),
             row = (b.rows * z.k + panels + b.rows * z.n * streams_of(c)) * sizeof(float);
    count_again(c, SLOT_W, panels * b.row_blocks, panels, row);
    c->out->model_read += (panels - w) * sizeof(float);
    if (s->value[CONST_SCALES]) {
        c->out->requested_read += b.row_blocks * z.n * sizeof(float);
        c->out->model_read += (b.row_blocks - 1) * (row > c->cache ? z.n * sizeof(float) : 0);
    }
    count_rest(s, &z, &b, block, c);
}

const struct cpu_kernel CPU_NAME(cpu_gemm) = {.name = "gemm",
                                              .items = gemm_items,
                                              .run = gemm_run,
                                              .scratch = gemm_scratch,
                                              .packed = gemm_packed,
                                              .pack = gemm_pack,
                                              .count = gemm_count};
