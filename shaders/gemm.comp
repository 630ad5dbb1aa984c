#version 450
#extension GL_GOOGLE_include_directive : require
/* y[r][n] = epilogue(sum over k of x[r][k] * w[n][k]): the matrix product with a weight. One work-group per tile of y,
 * columns fastest. While a slab is multiplied, the next one is on its way from memory to registers. */
#include "tile.glsl"
#include "formulas.h"

layout(constant_id = CONST_N) const uint N = 32;
layout(constant_id = CONST_K) const uint K = 32;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;
layout(constant_id = CONST_BIAS) const uint BIAS = 0;
layout(constant_id = CONST_ACTIVATION) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = CONST_RESIDUAL) const uint RESIDUAL = 0;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_W, w);
INPUT(SLOT_BIAS, bias);
INPUT(SLOT_RESIDUAL, residual);
QUADS_OF(SLOT_RESIDUAL, residual, readonly);
OUTPUT(SLOT_Y, y);
QUADS_OF(SLOT_Y, y, writeonly);

#define TILES_N ((N + TILE_N - 1) / TILE_N)

/* This work-item's blocks: where they begin, how many rows there are from there on, where they go, and what is on its
 * way to them. */
uint block_at[BLOCKS], block_to[BLOCKS];
int block_rows[BLOCKS];
uvec4 raw[BLOCKS * 4];

/* Starts the loads of this work-item's blocks of the slab at k0. */
void fetch_slab(const uint k0)
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
vec4 epilogue(const vec4 sum, const vec4 bias, const vec4 residual)
{
    const vec4 v = sum + bias;
    return vec4(activate(ACTIVATION, v.x), activate(ACTIVATION, v.y), activate(ACTIVATION, v.z),
                    activate(ACTIVATION, v.w)) +
           residual;
}

void main()
{
    const uint rows = batch[ROWS];
    const uint row0 = group_number() / TILES_N * TILE_M;
    const uint column0 = group_number() % TILES_N * TILE_N;
    if (row0 < rows) {
        UNROLL
        for (uint b = 0; b < BLOCKS; b++) {
            const uint block = local_number() + b * LOCAL_SIZE;
            const uint row = (block < BLOCKS_X ? row0 : column0) + block_quad(block) * 4;
            block_at[b] = row * K + block_k(block);
            block_rows[b] = int(block < BLOCKS_X ? rows : N) - int(row);
            block_to[b] = block_k(block) * (block < BLOCKS_X ? QUADS_M : QUADS_N) + block_quad(block) +
                          (block < BLOCKS_X ? 0 : TILE_X_QUADS);
        }

        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] = vec4(0.0);

        fetch_slab(0);
        for (uint k0 = 0; k0 < K; k0 += TILE_K) {
            barrier(); /* nobody reads the slab before any more */
            UNROLL
            for (uint b = 0; b < BLOCKS; b++) {
                const uint block = local_number() + b * LOCAL_SIZE;
                if (block < BLOCKS_X + BLOCKS_W)
                    PUT_ROWS(tile, block_to[b], block < BLOCKS_X ? QUADS_M : QUADS_N, raw, b * 4);
            }
            barrier();
            if (k0 + TILE_K < K) fetch_slab(k0 + TILE_K);
            multiply();
        }

        UNROLL
        for (uint j = 0; j < SUM_QUADS; j++) {
            const uint column = column0 + sum_column(j);
            vec4 b = vec4(0.0);
            if (BIAS != 0) LOAD_SOME(b, bias, column, column, N);
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                const uint row = row0 + sum_row(i);
                const uint at = row * N + column;
                vec4 r = vec4(0.0);
                if (row < rows && column < N) {
                    if (ALIGNED != 0) {
                        if (RESIDUAL != 0) r = LOAD_QUAD(residual, at);
                        STORE_QUAD(y, at, epilogue(sum[i * SUM_QUADS + j], b, r));
                    } else {
                        if (RESIDUAL != 0) LOAD_SOME(r, residual, at, column, N);
                        STORE_SOME(y, at, epilogue(sum[i * SUM_QUADS + j], b, r), column, N);
                    }
                }
            }
        }
    }
}
