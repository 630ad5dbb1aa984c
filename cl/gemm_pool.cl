/* y[s][n] = the largest (POOL_MAX) or the sum (POOL_SUM), over the tokens t of sequence s, of
 * activate(sum over k of x[t][k] * w[n][k] + bias[n]): a weight of each word, of which no token's are stored.
 * One work-group for a sequence and TILE_N words, sequences fastest: what runs at the same time reads the same words.
 * Twin of shaders/gemm_pool.comp.
 *
 * The sequence's tokens are taken TILE_M at a time, from its first one on, and what they give is joined in registers, in
 * ascending order of each work-item's own; then the work-items' are, in ascending order: a function of the sequence's
 * length alone. The largest is looked for among the sums: bias and activation rise with them. */
#define UNROLL_K _Pragma("unroll 2")
#include "tile.h"
#include "formulas.h"

#ifndef N
#define N 32
#endif
#ifndef K
#define K 32
#endif
#ifndef BIAS
#define BIAS 0
#endif
#ifndef ACTIVATION
#define ACTIVATION ACTIVATION_NONE
#endif
#ifndef POOL
#define POOL POOL_MAX
#endif

/* Rows of both operands begin on 16 bytes. The result's may begin anywhere. */
#define WIDE (K % VECTOR == 0)
#define LARGEST (POOL == POOL_MAX)

INLINE float4 finish(const float4 v, const float4 bias)
{
    return (float4)((float2)(activate(ACTIVATION, v.x + bias.x), activate(ACTIVATION, v.y + bias.y)),
                    (float2)(activate(ACTIVATION, v.z + bias.z), activate(ACTIVATION, v.w + bias.w)));
}

INLINE float4 together(const float4 a, const float4 b) { return LARGEST ? max(a, b) : a + b; }

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void gemm_pool(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT(w)
#if BIAS
    , INPUT(bias)
#endif
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(w);
#if BIAS
    BEGIN(bias);
#endif
    BEGIN_OUTPUT(y);
    __local float4 tile[TILE_X_QUADS + TILE_W_QUADS];

    const uint sequences = batch[HEADER_SEQUENCES];
    const uint sequence = group_number() % max(sequences, 1u);
    const uint column0 = group_number() / max(sequences, 1u) * TILE_N;
    if (sequences > 0 && column0 < N) {
        const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
        const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
        float4 b[SUM_QUADS], held[SUM_QUADS];
        UNROLL
        for (uint j = 0; j < SUM_QUADS; j++) {
            b[j] = (float4)(0.0f);
#if BIAS
            const uint c = column0 + sum_column(j, false);
            LOAD_SOME(b[j], bias, c, c, N);
#endif
            held[j] = (float4)(LARGEST ? -FLT_MAX : 0.0f);
        }
        for (uint row0 = 0; row0 < length; row0 += TILE_M) {
            float4 sum[SUMS];
            UNROLL
            for (uint i = 0; i < SUMS; i++) sum[i] = (float4)(0.0f);
            for (uint k0 = 0; k0 < K; k0 += TILE_K) {
                barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the stage before any more */
                UNROLL
                for (uint i = 0; i < BLOCKS; i++) {
                    const uint block = local_number() + i * LOCAL_SIZE;
                    uint4 raw[4];
                    const uint place = block_place(block, false, false);
                    const uint k = block_k(block, false, false);
                    if (block < BLOCKS_X) {
                        const uint row = row0 + place * 4;
                        UNROLL
                        for (uint r = 0; r < 4; r++)
                            FETCH_VECTOR(raw[r], x, (first + row + r) * K + k0 + k, row + r < length, k0 + k, K, WIDE);
                        PUT_ROWS(tile, k * QUADS_M + place, QUADS_M, raw, 0);
                    } else if (block < BLOCKS_X + BLOCKS_W) {
                        const uint row = column0 + place * 4;
                        UNROLL
                        for (uint r = 0; r < 4; r++)
                            FETCH_VECTOR(raw[r], w, (row + r) * K + k0 + k, row + r < N, k0 + k, K, WIDE);
                        PUT_ROWS(tile, TILE_X_QUADS + k * QUADS_N + place, QUADS_N, raw, 0);
                    }
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                multiply(tile, sum);
            }
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                if (row0 + sum_row(i, false) < length) {
                    UNROLL
                    for (uint j = 0; j < SUM_QUADS; j++)
                        held[j] = together(held[j], LARGEST ? sum[i * SUM_QUADS + j]
                                                            : finish(sum[i * SUM_QUADS + j], b[j]));
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the last stage any more */
        UNROLL
        for (uint j = 0; j < SUM_QUADS; j++) tile[thread_m() * QUADS_N + j * THREADS_N + thread_n()] = held[j];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (thread_m() == 0) {
            UNROLL
            for (uint j = 0; j < SUM_QUADS; j++) {
                const uint column = column0 + sum_column(j, false);
                for (uint m = 1; m < THREADS_M; m++)
                    held[j] = together(held[j], tile[m * QUADS_N + j * THREADS_N + thread_n()]);
                if (LARGEST) held[j] = finish(held[j], b[j]);
                if (column < N) STORE_SOME(y, sequence * N + column, held[j], column, N);
            }
        }
        LAST_BARRIER;
    }
}
