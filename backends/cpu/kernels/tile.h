/* The innermost loop of every product: a tile of TILE_ROWS x up to TILE_VECTORS registers of sums. Each sum is one
 * chain of fma over ascending k, whatever tile it stands in, so that a row's results do not depend on its neighbours.
 */
#ifndef WHERRY_CPU_TILE_H
#define WHERRY_CPU_TILE_H

#include "vector.h"

/* 24 or 12 sums, three vectors of the second operand; the first operand's values are broadcast as they are loaded. */
#define TILE_ROWS (MANY_REGISTERS ? 8 : 4)
#define TILE_VECTORS 3
#define TILE_COLUMNS (TILE_VECTORS * LANES)

/* How the first operand lies: row i at from[i], k side by side; or k at from[0] + k * step, rows side by side. */
struct tile_rows {
    const float *from[TILE_ROWS];
};

enum { LINE = 16 }; /* floats of a line of the cache */

/* c[i][...] = (add ? c[i][...] : 0) + sum over k of a[i][k] * b[k][...], for `rows` rows of c, `c_row` apart, and
 * `vectors` vectors of columns; b's rows are TILE_COLUMNS apart. Inlined with constants. `ahead` is what will be read
 * next: where it `fetches`, `depth` lines of it are asked for meanwhile. */
INLINE void tile_multiply(const int rows, const int vectors, const bool side_by_side, const struct tile_rows *a,
                          size_t a_step, const float *b, const bool fetches, const float *ahead, size_t depth, float *c,
                          size_t c_row, bool add)
{
    vec sum[TILE_ROWS][TILE_VECTORS];
    const float *from[TILE_ROWS];
    UNROLL for (int i = 0; i < rows; i++)
    {
        from[i] = a->from[side_by_side ? 0 : i];
        UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = add ? v_load(c + i * c_row + j * LANES) : v_zero();
    }
    for (size_t k = 0; k < depth; k++, b += TILE_COLUMNS) {
        if (fetches) v_prefetch_far(ahead + k * LINE);
        vec columns[TILE_VECTORS];
        UNROLL for (int j = 0; j < vectors; j++) columns[j] = v_load(b + j * LANES);
        UNROLL for (int i = 0; i < rows; i++)
        {
            vec value = v_set(side_by_side ? from[0][k * a_step + i] : from[i][k]);
            UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = v_fma(value, columns[j], sum[i][j]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (int j = 0; j < vectors; j++) v_store(c + i * c_row + j * LANES, sum[i][j]);
    }
}

/* The same with rows along k, `rows` of them from 1 to TILE_ROWS; c has room for the next power of two of them, and
 * from[] repeats the last. `fetches`: whether `ahead` counts. */
#define TILE_CASE(least, vectors, fetches)                                                                             \
    if (rows >= least) {                                                                                               \
        tile_multiply(least > TILE_ROWS ? TILE_ROWS : least, vectors, false, a, 0, b, fetches, ahead, depth, c, c_row, \
                      add);                                                                                            \
        return;                                                                                                        \
    }

#define TILE_ALONG(vectors, fetches)                                                                                   \
    static void tile_along_##vectors(int rows, const struct tile_rows *a, const float *b, const float *ahead,          \
                                     size_t depth, float *c, size_t c_row, bool add)                                   \
    {                                                                                                                  \
        (void)ahead;                                                                                                   \
        rows = rows > 4 ? 8 : rows > 2 ? 4 : rows;                                                                     \
        TILE_CASE(8, vectors, fetches)                                                                                 \
        TILE_CASE(4, vectors, fetches)                                                                                 \
        TILE_CASE(2, vectors, fetches)                                                                                 \
        TILE_CASE(1, vectors, fetches)                                                                                 \
    }

/* The same with rows side by side, TILE_ROWS of them. */
#define TILE_BESIDE(vectors)                                                                                           \
    static void tile_beside_##vectors(const float *a, size_t a_step, const float *b, size_t depth, float *c,           \
                                      size_t c_row, bool add)                                                          \
    {                                                                                                                  \
        const struct tile_rows all = {{a}};                                                                            \
        tile_multiply(TILE_ROWS, vectors, true, &all, a_step, b, false, NULL, depth, c, c_row, add);                   \
    }

/* Where a row's k begin: row `i`, or the last one. */
static inline struct tile_rows tile_rows_at(const float *first, size_t row, int rows)
{
    struct tile_rows a;
    for (int i = 0; i < TILE_ROWS; i++) a.from[i] = first + (size_t)(i < rows ? i : rows - 1) * row;
    return a;
}

#endif
