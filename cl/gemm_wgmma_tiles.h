/* Which tiles of the result gemm_wgmma's work-groups take, in which order, and how the copy engine fills a stage of one. After
 * hopper.h and what gemm_wgmma.cl defines of tiles. */
/* Row tiles that neighbours walk through before the next column tile: what runs at the same time shares both operands.
 */
#ifndef RASTER
#define RASTER 8
#endif

struct place {
    uint row, column, part;
};

INLINE struct place place_of(uint tile, const uint row_tiles, const uint column_tiles)
{
    struct place p = {0, 0, 0};
#if PARTS
    p.part = tile / (row_tiles * column_tiles);
    tile %= row_tiles * column_tiles;
#endif
    const uint band = tile / (RASTER * column_tiles), at = tile % (RASTER * column_tiles);
    const uint wide = min((uint)RASTER, row_tiles - band * RASTER);
    p.row = (band * RASTER + at % wide) * TILE_M;
    p.column = at / wide * TILE_N;
    return p;
}

/* How long sums are that have parts. */
#define SUMMED(rows) (BATCH_K ? (rows) : K)

/* Tiles of k in a tile's sums. */
INLINE uint k_tiles_of(const struct place p, const uint rows)
{
#if PARTS
    return (min((uint)PART_ROWS, SUMMED(rows) - p.part * PART_ROWS) + DEPTH - 1) / DEPTH;
#elif BATCH_K
    return (rows + DEPTH - 1) / DEPTH;
#else
    return (K + DEPTH - 1) / DEPTH;
#endif
}

INLINE void load_stage(const uint to, __global const uchar *x_map, __global const uchar *w_map, const struct place p,
                      const uint k, const uint barrier)
{
#if X_MAJOR
    UNROLL for (uint c = 0; c < TILE_M / 64; c++)
        tensor_load(to + c * BOX_BYTES, x_map, p.row + c * 64, k, barrier);
#else
    tensor_load(to, x_map, k, p.row, barrier);
#endif
#if W_MAJOR
    UNROLL for (uint c = 0; c < TILE_N / 64; c++)
        tensor_load(to + X_BYTES + c * BOX_BYTES, w_map, p.column + c * 64, k, barrier);
#else
    UNROLL for (uint n = 0; n < TILE_N; n += W_BOX_ROWS)
        tensor_load(to + X_BYTES + n * (DEPTH * 2), w_map, k, p.column + n, barrier);
#endif
}
