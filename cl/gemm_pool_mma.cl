/* The weights of words of gemm_pool.cl, the same arguments and results, by mma.sync on NVIDIA's GPUs from sm_80 on:
 * 16-bit storage, K a multiple of 8.
 *
 * A work-group has a sequence and TILE_N words, sequences fastest, and goes through the sequence's tokens TILE_M at a
 * time, in stages as gemm_mma does. A lane holds what its own rows of sums gave, for two columns of each fragment; at the
 * end eight lanes and the warps of rows join theirs in an order of their own numbers. */
#include "common.h"
#include "formulas.h"
#include "gemm_arguments.h"
#include "mma.h"

#ifndef POOL
#define POOL POOL_MAX
#endif
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
#define WARP_N 32
#endif
#ifndef STAGES
#define STAGES 4
#endif
#include "mma_tile.h"

#define LARGEST (POOL == POOL_MAX)
#define NOTHING (LARGEST ? -FLT_MAX : 0.0f)

INLINE float together(const float a, const float b) { return LARGEST ? max(a, b) : a + b; }

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1))) void gemm_pool_mma(PRODUCT_ARGUMENTS)
{
    BEGIN_PRODUCT;
    __local uint4 tile[STAGES * STAGE_BYTES / 16] __attribute__((aligned(128)));

    const uint sequences = batch[HEADER_SEQUENCES];
    const uint sequence = group_number() % max(sequences, 1u);
    const uint column0 = group_number() / max(sequences, 1u) * TILE_N;
    if (sequences == 0 || column0 >= N) return;

    const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
    const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
    const uint lane = local_number() % WARP, warp = local_number() / WARP;
    const uint warp_m = warp / WARPS_N, warp_n = warp % WARPS_N;

    /* As in gemm_mma: what this work-item copies. */
    const uint base = SHARED_ADDRESS(tile), l = local_number();
    const uint x_line = l / X_CHUNKS, x_chunk = l % X_CHUNKS, w_line = l / W_CHUNKS, w_chunk = l % W_CHUNKS;
    const uint x_to = tile_chunk(x_line, x_chunk, X_CHUNKS), w_to = X_BYTES + tile_chunk(w_line, w_chunk, W_CHUNKS);
    const uint w_inside = pieces_inside(column0 + w_line, W_STEP, W_LINES / W_STEP, N);
    const int x_left = (int)K - (int)(x_chunk * 8), w_left = (int)K - (int)(w_chunk * 8);
    __global const storage *w_from = w + (column0 + w_line) * K + w_chunk * 8;
    const uint x_fragments = x_fragments_at(warp_m, lane), w_fragments = w_fragments_at(warp_n, lane);
    const uint k_tiles = (K + TILE_K - 1) / TILE_K;

    /* Of columns c and c + 1 of fragment j at 2 * j: the bias, and what the tokens so far have given. */
    float held[2 * FRAGMENTS_N], of[2 * FRAGMENTS_N];
    UNROLL for (uint j = 0; j < 2 * FRAGMENTS_N; j++)
    {
        held[j] = NOTHING;
        of[j] = 0.0f;
#if BIAS
        const uint column = column0 + warp_n * WARP_N + j / 2 * 8 + lane % 4 * 2 + j % 2;
        if (column < N) of[j] = LOAD(bias, column);
#endif
    }

    ROLLED for (uint row0 = 0; row0 < length; row0 += TILE_M)
    {
        const uint x_row = row0 + x_line;
        const uint x_inside = pieces_inside(x_row, X_STEP, X_LINES / X_STEP, length);
        __global const storage *x_from = x + (first + x_row) * K + x_chunk * 8;
        float sum[FRAGMENTS_M * FRAGMENTS_N * 4];
        UNROLL for (uint i = 0; i < FRAGMENTS_M * FRAGMENTS_N * 4; i++) sum[i] = 0.0f;
        MULTIPLY_STAGES(sum, base, x_fragments, w_fragments, k_tiles);
        barrier(CLK_LOCAL_MEM_FENCE); /* the next tokens' stages go where these were */

        /* The largest is looked for among the sums: bias and activation rise with them. */
        UNROLL for (uint i = 0; i < FRAGMENTS_M * 2; i++)
        {
            if (row0 + warp_m * WARP_M + i * 8 + lane / 4 < length) {
                UNROLL for (uint j = 0; j < 2 * FRAGMENTS_N; j++)
                {
                    const float v = sum[(i / 2 * FRAGMENTS_N + j / 2) * 4 + i % 2 * 2 + j % 2];
                    held[j] = together(held[j], LARGEST ? v : activate(ACTIVATION, v + of[j]));
                }
            }
        }
    }

    __local float *joined = (__local float *)tile; /* [warps of rows][TILE_N] */
    UNROLL for (uint j = 0; j < 2 * FRAGMENTS_N; j++)
    {
        held[j] = together(held[j], shuffle_xor_float(held[j], 4));
        held[j] = together(held[j], shuffle_xor_float(held[j], 8));
        held[j] = together(held[j], shuffle_xor_float(held[j], 16));
        if (LARGEST) held[j] = held[j] + of[j];
        if (lane / 4 == 0) joined[warp_m * TILE_N + warp_n * WARP_N + j / 2 * 8 + lane % 4 * 2 + j % 2] = held[j];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint c = local_number(); c < TILE_N; c += LOCAL_SIZE) {
        float all = joined[c];
        for (uint m = 1; m < WARPS_M; m++) all = together(all, joined[m * TILE_N + c]);
        if (column0 + c < N) STORE(y, sequence * N + column0 + c, LARGEST ? activate(ACTIVATION, all) : all);
    }
}
