#version 450
#extension GL_GOOGLE_include_directive : require
/* y[s][n] = the largest (POOL_MAX) or the sum (POOL_SUM), over the tokens t of sequence s, of
 * activate(sum over k of x[t][k] * w[n][k] + bias[n]): a weight of each word, of which no token's are stored.
 * One work-group for a sequence and TILE_N words, sequences fastest: what runs at the same time reads the same words.
 * Twin of cl/gemm_pool.cl.
 *
 * The sequence's tokens are taken TILE_M at a time, from its first one on, and what they give is joined in registers, in
 * ascending order of each work-item's own; then the work-items' are, in ascending order: a function of the sequence's
 * length alone. The largest is looked for among the sums: bias and activation rise with them. */
#include "tile.glsl"
#include "formulas.h"

layout(constant_id = CONST_N) const uint N = 32;
layout(constant_id = CONST_K) const uint K = 32;
layout(constant_id = CONST_BIAS) const uint BIAS = 0;
layout(constant_id = CONST_ACTIVATION) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = CONST_POOL) const uint POOL = POOL_MAX;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_W, w);
INPUT(SLOT_BIAS, bias);
OUTPUT(SLOT_Y, y);

/* Rows of both operands begin on 16 bytes. The result's may begin anywhere. */
#define WIDE (K % VECTOR == 0)
#define LARGEST (POOL == POOL_MAX)

vec4 b[SUM_QUADS], held[SUM_QUADS];

vec4 finish(const vec4 v, const vec4 of)
{
    return vec4(activate(ACTIVATION, v.x + of.x), activate(ACTIVATION, v.y + of.y), activate(ACTIVATION, v.z + of.z),
                activate(ACTIVATION, v.w + of.w));
}

vec4 together(const vec4 a, const vec4 c) { return LARGEST ? max(a, c) : a + c; }

void main()
{
    const uint sequences = batch[HEADER_SEQUENCES];
    const uint sequence = group_number() % max(sequences, 1u);
    const uint column0 = group_number() / max(sequences, 1u) * TILE_N;
    if (sequences > 0 && column0 < N) {
        const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
        const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
        UNROLL
        for (uint j = 0; j < SUM_QUADS; j++) {
            b[j] = vec4(0.0);
            if (BIAS != 0) {
                const uint c = column0 + sum_column(j, false);
                LOAD_SOME(b[j], bias, c, c, N);
            }
            held[j] = vec4(LARGEST ? -3.402823466e38 : 0.0);
        }
        for (uint row0 = 0; row0 < length; row0 += TILE_M) {
            UNROLL
            for (uint i = 0; i < SUMS; i++) sum[i] = vec4(0.0);
            for (uint k0 = 0; k0 < K; k0 += TILE_K) {
                barrier(); /* nobody reads the stage before any more */
                UNROLL
                for (uint i = 0; i < BLOCKS; i++) {
                    const uint block = local_number() + i * LOCAL_SIZE;
                    uvec4 raw[4];
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
                barrier();
                multiply();
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
        barrier(); /* nobody reads the last stage any more */
        UNROLL
        for (uint j = 0; j < SUM_QUADS; j++) tile[thread_m() * QUADS_N + j * THREADS_N + thread_n()] = held[j];
        barrier();
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
    }
}
