/* y[r][n] = epilogue(sum over k of x[r][k] * w[n][k]): the matrix product with a weight. One work-group per tile of y,
 * columns fastest. While a slab is multiplied, the next one is on its way from memory to registers. */
#include "tile.h"
#include "formulas.h"

#ifndef N
#define N 32
#endif
#ifndef K
#define K 32
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif
#ifndef BIAS
#define BIAS 0
#endif
#ifndef ACTIVATION
#define ACTIVATION ACTIVATION_NONE
#endif
#ifndef RESIDUAL
#define RESIDUAL 0
#endif

#define TILES_N ((N + TILE_N - 1) / TILE_N)

/* Starts the loads of this work-item's blocks of the slab at k0. */
INLINE void fetch_slab(__global const storage *x, __global const storage *w, const uint *block_at,
                       const int *block_rows, const uint k0, uint4 *raw)
{
    UNROLL
    for (uint b = 0; b < BLOCKS; b++) {
        const uint block = local_number() + b * LOCAL_SIZE;
        const uint k = k0 + block_k(block);
        const uint end = K % TILE_K == 0 ? k + VECTOR : K;
        if (block < BLOCKS_X) {
            UNROLL
            for (int r = 0; r < 4; r++)
                FETCH_VECTOR(raw[b * 4 + r], x, block_at[b] + k0 + r * K, r < block_rows[b], k, end, ALIGNED != 0);
        } else if (block < BLOCKS_X + BLOCKS_W) {
            UNROLL
            for (int r = 0; r < 4; r++)
                FETCH_VECTOR(raw[b * 4 + r], w, block_at[b] + k0 + r * K, r < block_rows[b], k, end, ALIGNED != 0);
        }
    }
}

/* What becomes of four sums before they are stored, in this order. Dropout has its place before the residual. */
INLINE float4 epilogue(const float4 sum, const float4 bias, const float4 residual)
{
    const float4 v = sum + bias;
    return (float4)(activate(ACTIVATION, v.x), activate(ACTIVATION, v.y), activate(ACTIVATION, v.z),
                    activate(ACTIVATION, v.w)) +
           residual;
}

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1))) void gemm(INPUT_OF(uint, batch), INPUT(x), INPUT(w),
#if BIAS
                                                                           INPUT(bias),
#endif
#if RESIDUAL
                                                                           INPUT(residual),
#endif
                                                                           OUTPUT(y))
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(w);
#if BIAS
    BEGIN(bias);
#endif
#if RESIDUAL
    BEGIN(residual);
#endif
    BEGIN_OUTPUT(y);
    __local float4 tile[TILE_X_QUADS + TILE_W_QUADS];

    const uint rows = batch[ROWS];
    const uint row0 = group_number() / TILES_N * TILE_M;
    const uint column0 = group_number() % TILES_N * TILE_N;
    if (row0 < rows) {
        /* This work-item's blocks: where they begin, how many rows there are from there on, and where they go. */
        uint block_at[BLOCKS], block_to[BLOCKS];
        int block_rows[BLOCKS];
        UNROLL
        for (uint b = 0; b < BLOCKS; b++) {
            const uint block = local_number() + b * LOCAL_SIZE;
            const uint row = (block < BLOCKS_X ? row0 : column0) + block_quad(block) * 4;
            block_at[b] = row * K + block_k(block);
            block_rows[b] = (int)(block < BLOCKS_X ? rows : N) - (int)row;
            block_to[b] = block_k(block) * (block < BLOCKS_X ? QUADS_M : QUADS_N) + block_quad(block) +
                          (block < BLOCKS_X ? 0 : TILE_X_QUADS);
        }

        float4 sum[SUMS];
        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] = (float4)(0.0f);

        uint4 raw[BLOCKS * 4];
        fetch_slab(x, w, block_at, block_rows, 0, raw);
        for (uint k0 = 0; k0 < K; k0 += TILE_K) {
            barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the slab before any more */
            UNROLL
            for (uint b = 0; b < BLOCKS; b++) {
                const uint block = local_number() + b * LOCAL_SIZE;
                if (block < BLOCKS_X + BLOCKS_W)
                    PUT_ROWS(tile, block_to[b], block < BLOCKS_X ? QUADS_M : QUADS_N, raw, b * 4);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (k0 + TILE_K < K) fetch_slab(x, w, block_at, block_rows, k0 + TILE_K, raw);
            multiply(tile, sum);
        }

        UNROLL
        for (uint j = 0; j < SUM_QUADS; j++) {
            const uint column = column0 + sum_column(j);
            float4 b = (float4)(0.0f);
#if BIAS
            LOAD_SOME(b, bias, column, column, N);
#endif
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                const uint row = row0 + sum_row(i);
                const uint at = row * N + column;
                float4 r = (float4)(0.0f);
                if (row < rows && column < N) {
#if ALIGNED
#if RESIDUAL
                    r = LOAD_QUAD(residual, at);
#endif
                    STORE_QUAD(y, at, epilogue(sum[i * SUM_QUADS + j], b, r));
#else
#if RESIDUAL
                    LOAD_SOME(r, residual, at, column, N);
#endif
                    STORE_SOME(y, at, epilogue(sum[i * SUM_QUADS + j], b, r), column, N);
#endif
                }
            }
        }
        LAST_BARRIER;
    }
}
