#version 450
#extension GL_GOOGLE_include_directive : require
/* Gradient of attention's queries. With A[j][k] = exp(SCALE * x[j] . w[k] - lse[j]) and dropout's factor f:
 * y[j] = sum over k of SCALE * A[j][k] * (f * gradient[j] . v[k] - delta[j]) * w[k].
 *
 * One work-group per tile of queries and head walks over the keys of the sequence in steps of TILE_N. Both products
 * over the channels, queries with keys and gradients with values, are made together, slab by slab; the scores'
 * gradients that they give go through shared memory and are multiplied with the keys. The result stays in registers to
 * the end: no sum is shared with another work-group, and its order is that of the keys. */
#include "attention.glsl"

INPUT_OF(SLOT_LSE, float, lse);
INPUT_OF(SLOT_DELTA, float, delta);
INPUT(SLOT_GRADIENT, gradient);

/* Slabs of rows and weights take turns in the same memory, so do slabs of columns and columns x channels. */
#define TILE_XP_QUADS (2 * TILE_X_QUADS > TILE_P_QUADS ? 2 * TILE_X_QUADS : TILE_P_QUADS)
#define TILE_WV_QUADS (2 * TILE_W_QUADS > TILE_V_QUADS ? 2 * TILE_W_QUADS : TILE_V_QUADS)

shared vec4 xp_tile[TILE_XP_QUADS]; /* queries and gradients [channel][query]; scores' gradients [key][query] */
shared vec4 wv_tile[TILE_WV_QUADS]; /* keys and values [channel][key]; keys [key][channel] */

/* This work-item's part of a step and of the result. */
vec4 score[SCORES], change[SCORES];
vec4 sum[SUMS];

void main()
{
    const uint tiles = batch[HEADER_QUERY_TILES];
    const uint head = group_number() / max(tiles, 1u);
    if (tiles > 0 && head < HEADS) {
        const uint entry = batch[HEADER_AT_QUERY_TILES] + group_number() % tiles * 2;
        const uint sequence = batch[entry];
        const uint query0 = batch[entry + 1];
        const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
        const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
        const uint x_at = X_OFFSET + (first + query0) * X_STRIDE + head * HEAD_DIM;
        const uint w_at = W_OFFSET + first * W_STRIDE + head * HEAD_DIM;
        const uint v_at = V_OFFSET + first * V_STRIDE + head * HEAD_DIM;
        const uint gradient_at = (first + query0) * GRADIENT_STRIDE + head * HEAD_DIM;
        const uint queries = length - query0;
        const float scale = uintBitsToFloat(SCALE) * LOG2E;

        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] = vec4(0.0);

        /* ---- statistics of this work-item's queries. Those beyond the sequence are never stored ---- */
        float query_lse[THREAD_M], query_delta[THREAD_M];
        UNROLL
        for (uint i = 0; i < THREAD_M; i++) {
            const uint at = (first + query0 + min(held_row(i), queries - 1)) * HEADS + head;
            query_lse[i] = lse[at] * LOG2E;
            query_delta[i] = delta[at];
        }

        for (uint key0 = 0; key0 < length; key0 += TILE_N) {
            const uint keys = min(length - key0, TILE_N);
            if (DROPOUT > 0) {
                make_keep(TILE_M, first + query0, head, key0);
            }

            /* ---- scores, and the gradients of the weights behind dropout ---- */
            UNROLL
            for (uint i = 0; i < SCORES; i++) {
                score[i] = vec4(0.0);
                change[i] = vec4(0.0);
            }
            for (uint p0 = 0; p0 < HEAD_DIM; p0 += TILE_K) {
                const uint channels = min(HEAD_DIM - p0, TILE_K);
                barrier(); /* nobody reads the tiles before any more */
                LOAD_ROWS(xp_tile, 0, x, x_at, X_STRIDE, queries, p0, 0);
                LOAD_ROWS(xp_tile, TILE_X_QUADS, gradient, gradient_at, GRADIENT_STRIDE, queries, p0, BLOCKS_X);
                LOAD_COLUMNS(wv_tile, 0, w, w_at + key0 * W_STRIDE, W_STRIDE, keys, p0, 2 * BLOCKS_X);
                LOAD_COLUMNS(wv_tile, TILE_W_QUADS, v, v_at + key0 * V_STRIDE, V_STRIDE, keys, p0,
                             2 * BLOCKS_X + BLOCKS_W);
                barrier();
                MULTIPLY_SLABS(score, xp_tile, 0, wv_tile, 0, channels);
                MULTIPLY_SLABS(change, xp_tile, TILE_X_QUADS, wv_tile, TILE_W_QUADS, channels);
            }

            /* ---- the gradients of the scores; those of keys beyond the sequence are never multiplied ---- */
            UNROLL
            for (uint i = 0; i < THREAD_M; i++)
                UNROLL
                for (uint j = 0; j < COLUMN_QUADS; j++) {
                    const uint at = i * COLUMN_QUADS + j;
                    const vec4 weight = exp2(fma(score[at], vec4(scale), vec4(-query_lse[i])));
                    if (DROPOUT > 0) {
                        change[at] *= keep_quad(TILE_M, held_row(i), 0, held_column(j), THREADS_N);
                    }
                    change[at] = weight * (change[at] - query_delta[i]);
                }
            barrier();

            PUT_SCORES(xp_tile, change);
            LOAD_CHANNELS(wv_tile, w, w_at + key0 * W_STRIDE, W_STRIDE, keys);
            barrier();
            MULTIPLY_CHANNELS(sum, xp_tile, wv_tile, keys);
        }

        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] *= uintBitsToFloat(SCALE);
        STORE_SUMS(y, x_at, X_STRIDE, queries, sum);
    }
}
