/* The matrix products of gemm.cl, the same forms, arguments and results, by mma.sync on NVIDIA's GPUs from sm_80 on:
 * 16-bit storage, lengths that are multiples of 8.
 *
 * A work-group computes TILE_M x TILE_N sums in stages of TILE_K, a warp WARP_M x WARP_N of them: 64 x 64 are 128
 * registers of sums, and 8 loads of matrices for 32 products. STAGES of them are in shared memory, all but one on
 * their way; a warp loads the matrices of the next 16 k while it multiplies those before. Tiles go down bands of rows,
 * columns slowest, so that what runs at the same time reads a near square of both operands. */
#include "epilogue.h"

#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef TILE_K
#define TILE_K 32
#endif
#ifndef WARP_M
#define WARP_M 64
#endif
#ifndef WARP_N
#define WARP_N 64
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef PART_ROWS
#define PART_ROWS TILE_K
#endif

#include "mma_tile.h"

#define TILES_N ((N + TILE_N - 1) / TILE_N)
#define RASTER (2048 / TILE_M)

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1))) void gemm_mma(PRODUCT_ARGUMENTS)
{
    BEGIN_PRODUCT;
    BEGIN_DROPOUT;
    __local uint4 tile[STAGES * STAGE_BYTES / 16] __attribute__((aligned(128)));

    const uint rows = batch[ROWS];
    const uint row_end = X_MAJOR ? M : rows;
    const uint tiles_m = (row_end + TILE_M - 1) / TILE_M, tiles = tiles_m * TILES_N;
    const uint part = PARTS ? group_number() / ((M + TILE_M - 1) / TILE_M * TILES_N) : 0;
    const uint number = group_number() - part * tiles;
    const uint begin = PARTS ? part * PART_ROWS : 0;
    const uint depth = PARTS ? min(begin + PART_ROWS, rows) : X_MAJOR ? rows : K;
    if (number >= tiles || (PARTS && begin >= rows)) return;

    const uint band = number / (RASTER * TILES_N), in_band = number % (RASTER * TILES_N);
    const uint height = min((uint)RASTER, tiles_m - band * RASTER);
    const uint tile_m = band * RASTER + in_band % height;
    const uint row0 = tile_m * TILE_M, column0 = in_band / height * TILE_N;
    const uint lane = local_number() % WARP, warp = local_number() / WARP;
    const uint warp_m = warp / WARPS_N, warp_n = warp % WARPS_N;

    float sum[FRAGMENTS_M * FRAGMENTS_N * 4];
    UNROLL for (uint i = 0; i < FRAGMENTS_M * FRAGMENTS_N * 4; i++) sum[i] = 0.0f;

    /* What this work-item copies. */
    const uint base = SHARED_ADDRESS(tile), l = local_number();
    const uint x_line = l / X_CHUNKS, x_chunk = l % X_CHUNKS, w_line = l / W_CHUNKS, w_chunk = l % W_CHUNKS;
    const uint x_to = tile_chunk(x_line, x_chunk, X_CHUNKS), w_to = X_BYTES + tile_chunk(w_line, w_chunk, W_CHUNKS);
    const uint x_row = row0 + (X_MAJOR ? x_chunk * 8 : x_line), x_k = begin + (X_MAJOR ? x_line : x_chunk * 8);
    const uint w_row = column0 + (W_MAJOR ? w_chunk * 8 : w_line), w_k = begin + (W_MAJOR ? w_line : w_chunk * 8);
    const uint x_inside = pieces_inside(x_row, X_STEP, X_MAJOR ? 1 : X_LINES / X_STEP, row_end);
    const uint w_inside = pieces_inside(w_row, W_STEP, W_MAJOR ? 1 : W_LINES / W_STEP, N);
    const int x_left = (int)depth - (int)x_k, w_left = (int)depth - (int)w_k;
    __global const storage *x_from = x + X_OFFSET + (X_MAJOR ? x_k * X_STRIDE + x_row : x_row * X_STRIDE + x_k);
    __global const storage *w_from = w + W_OFFSET + (W_MAJOR ? w_k * W_STRIDE + w_row : w_row * W_STRIDE + w_k);
    const uint x_fragments = x_fragments_at(warp_m, lane), w_fragments = w_fragments_at(warp_n, lane);

    const uint k_tiles = (depth - begin + TILE_K - 1) / TILE_K;
    MULTIPLY_STAGES(sum, base, x_fragments, w_fragments, k_tiles);

    /* Four fragments of columns at a time, of which each lane of a quad finishes one. */
#if EPILOGUE_SUMS
    __local float *totals = (__local float *)tile; /* [warps of rows][TILE_N] */
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    UNROLL for (uint j = 0; j < FRAGMENTS_N; j += 4)
    {
        const uint in_tile = warp_n * WARP_N + (j + lane % 4) * 8, column = column0 + in_tile;
        LOAD_BIAS(raw_bias, column);
#if EPILOGUE_SUMS
        float total[8];
        UNROLL for (uint c = 0; c < 8; c++) total[c] = 0.0f;
#endif
        UNROLL for (uint i = 0; i < FRAGMENTS_M * 2; i++)
        {
            const uint row = row0 + warp_m * WARP_M + i * 8 + lane / 4;
            float v[8];
            take_eight(v, sum, i, j, lane);
            if (row < row_end && column < N) {
                FINISH(v, raw_bias, row, column);
#if EPILOGUE_SUMS
                UNROLL for (uint c = 0; c < 8; c++) total[c] += v[c];
#endif
            }
        }
#if EPILOGUE_SUMS
        UNROLL for (uint c = 0; c < 8; c++)
        {
            total[c] += shuffle_xor_float(total[c], 4);
            total[c] += shuffle_xor_float(total[c], 8);
            total[c] += shuffle_xor_float(total[c], 16);
            if (lane / 4 == 0) totals[warp_m * TILE_N + in_tile + c] = total[c];
        }
#endif
    }
#if EPILOGUE_SUMS
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint c = local_number(); c < TILE_N; c += LOCAL_SIZE) {
        float total = totals[c];
        for (uint m = 1; m < WARPS_M; m++) total += totals[m * TILE_N + c];
        if (column0 + c < N) partials[tile_m * N + column0 + c] = total;
    }
#endif
}
