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
static inline void fetch_slab(__global const storage *x, __global const storage *w, const uint *block_at,
                              const uint *block_rows, const uint k0, uint4 *raw)
{
#pragma unroll
    for (uint b = 0; b < BLOCKS; b++) {
        const uint block = local_number() + b * LOCAL_SIZE;
        const uint k = k0 + block_vector(block < BLOCKS_X ? block : block - BLOCKS_X) * VECTOR;
        const uint valid = K % TILE_K == 0 ? VECTOR : k < K ? min((uint)K - k, (uint)VECTOR) : 0;
        if (block < BLOCKS_X) {
#pragma unroll
            for (uint r = 0; r < 4; r++)
                FETCH_VECTOR(raw[b * 4 + r], x, block_at[b] + k0 + r * K, r < block_rows[b] ? valid : 0, ALIGNED != 0);
        } else if (block < BLOCKS_X + BLOCKS_W) {
#pragma unroll
            for (uint r = 0; r < 4; r++)
                FETCH_VECTOR(raw[b * 4 + r], w, block_at[b] + k0 + r * K, r < block_rows[b] ? valid : 0, ALIGNED != 0);
        }
    }
}

/* What becomes of a sum before it is stored, in this order. Dropout has its place before the residual. */
static inline float epilogue(const float sum, const float bias, const float residual)
{
    return activate(ACTIVATION, sum + bias) + residual;
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
        uint block_at[BLOCKS], block_rows[BLOCKS], block_to[BLOCKS];
#pragma unroll
        for (uint b = 0; b < BLOCKS; b++) {
            const uint block = local_number() + b * LOCAL_SIZE;
            const bool of_x = block < BLOCKS_X;
            const uint quad = block_quad(of_x ? block : block - BLOCKS_X);
            const uint k = block_vector(of_x ? block : block - BLOCKS_X) * VECTOR;
            const uint row = (of_x ? row0 : column0) + quad * 4;
            const uint end = of_x ? rows : N;
            block_at[b] = row * K + k;
            block_rows[b] = row < end ? end - row : 0;
            block_to[b] = of_x ? k * QUADS_M + quad : TILE_X_QUADS + k * QUADS_N + quad;
        }

        float4 sum[SUMS];
#pragma unroll
        for (uint i = 0; i < SUMS; i++) sum[i] = (float4)(0.0f);

        uint4 raw[BLOCKS * 4];
        fetch_slab(x, w, block_at, block_rows, 0, raw);
        for (uint k0 = 0; k0 < K; k0 += TILE_K) {
            barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the slab before any more */
#pragma unroll
            for (uint b = 0; b < BLOCKS; b++) {
                const uint block = local_number() + b * LOCAL_SIZE;
                if (block < BLOCKS_X + BLOCKS_W)
                    PUT_ROWS(tile, block_to[b], block < BLOCKS_X ? QUADS_M : QUADS_N, raw + b * 4);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (k0 + TILE_K < K) fetch_slab(x, w, block_at, block_rows, k0 + TILE_K, raw);
            multiply(tile, sum);
        }

#pragma unroll
        for (uint j = 0; j < SUM_QUADS; j++) {
            const uint column = column0 + sum_column(j);
            float b[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#if BIAS
#pragma unroll
            for (uint c = 0; c < 4; c++)
                if (column + c < N) b[c] = LOAD(bias, column + c);
#endif
#pragma unroll
            for (uint i = 0; i < THREAD_M; i++) {
                const uint row = row0 + sum_row(i);
                const uint at = row * N + column;
                const float4 quad = sum[i * SUM_QUADS + j];
                if (row < rows && column < N) {
#if ALIGNED
                    float4 r = (float4)(0.0f);
#if RESIDUAL
                    r = LOAD_QUAD(residual, at);
#endif
                    STORE_QUAD(y, at,
                               (float4)(epilogue(quad.x, b[0], r.x), epilogue(quad.y, b[1], r.y),
                                        epilogue(quad.z, b[2], r.z), epilogue(quad.w, b[3], r.w)));
#else
                    const float s[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
                    for (uint c = 0; c < 4; c++) {
                        if (column + c < N) {
                            float r = 0.0f;
#if RESIDUAL
                            r = LOAD(residual, at + c);
#endif
                            STORE(y, at + c, epilogue(s[c], b[c], r));
                        }
                    }
#endif
                }
            }
        }
    }
}
