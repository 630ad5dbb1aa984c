/* Products by blocks: what gemm and bgemm share. The second operand is packed into panels of TILE_COLUMNS columns, each
 * [k][TILE_COLUMNS] with zeros after the last column; the first is read where it lies, but for one whose rows lie side
 * by side, which is packed into panels of TILE_ROWS rows likewise. Depth is cut, so that both stay in the cache. */
#ifndef WHERRY_CPU_PRODUCT_H
#define WHERRY_CPU_PRODUCT_H

#include "backends/cpu/step.h"
#include "tile.h"

TILE_ALONG(3, true)
TILE_BESIDE(3)

/* Element (r, k) is at[r * row + k * step], and one of both is 1; or, where there are scales, bytes[r * row + k] times
 * that of row r. */
struct operand {
    const float *at;
    size_t row, step;
    const int8_t *bytes;
    const float *scales;
};

/* The same of 8 bits an element: rounded to floats, as the reference has them. */
static inline void pack_bytes(const struct operand *o, size_t first, size_t count, size_t width, size_t from,
                              size_t depth, float *to)
{
    for (size_t k0 = 0; k0 < depth; k0 += 16) {
        size_t end = k0 + 16 < depth ? k0 + 16 : depth;
        for (size_t r = 0; r < width; r++) {
            const int8_t *row = o->bytes + (first + (r < count ? r : 0)) * o->row + from;
            float scale = r < count ? o->scales[first + r] : 0.0f;
            for (size_t k = k0; k < end; k++) to[k * width + r] = (float)row[k] * scale;
        }
    }
}

enum { DEPTH_MOST = 384 };

/* Depth of a piece: as many pieces as needed, as even as they can be. */
static inline size_t depth_piece(size_t depth)
{
    size_t pieces = blocks_of(depth, DEPTH_MOST);
    return pieces ? blocks_of(depth, pieces) : 1;
}

/* to[k][width] = `count` rows of the operand from `first` on, k from `from` on; zeros after the last row. */
static inline void pack_panel(const struct operand *o, size_t first, size_t count, size_t width, size_t from,
                              size_t depth, float *to)
{
    if (o->scales) {
        pack_bytes(o, first, count, width, from, depth, to);
        return;
    }
    if (o->row == 1) {
        const float *row = o->at + from * o->step + first;
        for (size_t k = 0; k < depth; k++, row += o->step, to += width) {
            /* Sizes that the compiler knows are a few loads and stores. */
            if (count == TILE_COLUMNS)
                memcpy(to, row, TILE_COLUMNS * sizeof *to);
            else if (count == TILE_ROWS)
                memcpy(to, row, TILE_ROWS * sizeof *to);
            else
                for (size_t r = 0; r < count; r++) to[r] = row[r];
            for (size_t r = count; r < width; r++) to[r] = 0.0f;
        }
        return;
    }
    /* Few k at a time, so that what is written stays in the first cache while rows are read one after the other. */
    for (size_t k0 = 0; k0 < depth; k0 += 16) {
        size_t end = k0 + 16 < depth ? k0 + 16 : depth;
        for (size_t r = 0; r < width; r++) {
            const float *row = o->at + (first + r) * o->row + from;
            for (size_t k = k0; k < end; k++) to[k * width + r] = r < count ? row[k] : 0.0f;
        }
    }
}

static inline size_t panels_of(size_t columns) { return blocks_of(columns, TILE_COLUMNS); }

/* Floats of scratch memory for a product that packs its operands: one for the second, one for the first. */
static inline size_t product_scratch(size_t m, size_t n)
{
    return DEPTH_MOST * (panels_of(n) * TILE_COLUMNS + blocks_of(m, TILE_ROWS) * TILE_ROWS);
}

/* c [m][c_row] = the products of `a`'s m rows with `b`'s n rows (or, where `packed` is not NULL, with its panels, each
 * `depth` deep); c has room for whole tiles. Of few rows the time is that of reading panels from memory: the first
 * tiles of one ask for the panel after it, and those of the last one for `then`, which is packed too. */
static inline void product(const struct operand *a, const struct operand *b, const float *packed, const float *then,
                           size_t m, size_t n, size_t depth, float *c, size_t c_row, float *scratch)
{
    size_t piece = depth_piece(depth), panels = panels_of(n);
    float *packed_a = scratch + DEPTH_MOST * panels * TILE_COLUMNS;
    if (!depth)
        for (size_t r = 0; r < m; r++) memset(c + r * c_row, 0, panels * TILE_COLUMNS * sizeof *c);
    for (size_t from = 0; from < depth; from += piece) {
        size_t deep = depth - from < piece ? depth - from : piece;
        for (size_t r = 0; a->row == 1 && r < m; r += TILE_ROWS)
            pack_panel(a, r, m - r < TILE_ROWS ? m - r : TILE_ROWS, TILE_ROWS, from, deep, packed_a + r * deep);
        for (size_t p = 0; p < panels; p++) {
            const float *panel = packed ? packed + (p * depth + from) * TILE_COLUMNS : scratch;
            size_t first = p * TILE_COLUMNS, left = n - first;
            if (!packed)
                pack_panel(b, first, left < TILE_COLUMNS ? left : TILE_COLUMNS, TILE_COLUMNS, from, deep, scratch);
            const float *next = !packed          ? panel
                                : p + 1 < panels ? panel + depth * TILE_COLUMNS
                                                 : then + from * TILE_COLUMNS;
            for (size_t r = 0; r < m; r += TILE_ROWS) {
                /* A tile asks for a line for each k, and a panel's k is some lines. */
                size_t part = r / TILE_ROWS * LINE;
                const float *ahead = part < TILE_COLUMNS ? next + part * deep : panel;
                int rows = m - r < TILE_ROWS ? (int)(m - r) : TILE_ROWS;
                float *to = c + r * c_row + first;
                if (a->row == 1) {
                    tile_beside_3(packed_a + r * deep, TILE_ROWS, panel, deep, to, c_row, from > 0);
                    continue;
                }
                struct tile_rows at = tile_rows_at(a->at + r * a->row + from, a->row, rows);
                tile_along_3(rows, &at, panel, ahead, deep, to, c_row, from > 0);
            }
        }
    }
}

#endif
