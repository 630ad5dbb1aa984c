/* Gradient of attention's queries. With A[j][k] = exp(SCALE * x[j] . w[k] - lse[j]) and dropout's factor f:
 * y[j] = sum over k of SCALE * A[j][k] * (f * gradient[j] . v[k] - delta[j]) * w[k].
 *
 * One work-group per tile of queries and head walks over the keys of the sequence in steps of TILE_N. Both products
 * over the channels, queries with keys and gradients with values, are made together, slab by slab; the scores'
 * gradients that they give go through shared memory and are multiplied with the keys. The result stays in registers to
 * the end: no sum is shared with another work-group, and its order is that of the keys. */
#include "attention.h"

/* Slabs of rows and weights take turns in the same memory, so do slabs of columns and columns x channels. */
#define TILE_XP_QUADS (2 * TILE_X_QUADS > TILE_P_QUADS ? 2 * TILE_X_QUADS : TILE_P_QUADS)
#define TILE_WV_QUADS (2 * TILE_W_QUADS > TILE_V_QUADS ? 2 * TILE_W_QUADS : TILE_V_QUADS)

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void attention_dq(INPUT_OF(uint, batch)
    , INPUT(x)
    , INPUT(w)
    , INPUT(v)
    , INPUT_OF(float, lse)
    , INPUT_OF(float, delta)
    , INPUT(gradient)
    , OUTPUT(y)
#if DROPOUT > 0
    , const uint site
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(w);
    BEGIN(v);
    BEGIN_OF(float, lse);
    BEGIN_OF(float, delta);
    BEGIN(gradient);
    BEGIN_OUTPUT(y);
    __local float4 xp_tile[TILE_XP_QUADS]; /* queries and gradients [channel][query]; scores' gradients [key][query] */
    __local float4 wv_tile[TILE_WV_QUADS]; /* keys and values [channel][key]; keys [key][channel] */
#if DROPOUT > 0
    __local uint keep_tile[KEEP_WORDS];
#endif

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
        const float scale = as_float((uint)SCALE) * LOG2E;

        float4 sum[SUMS];
        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] = (float4)(0.0f);

        /* ---- statistics of this work-item's queries. Those beyond the sequence are never stored ---- */
        float query_lse[THREAD_M], query_delta[THREAD_M];
        UNROLL
        for (uint i = 0; i < THREAD_M; i++) {
            const uint at = (first + query0 + min(held_row(i), queries - 1)) * HEADS + head;
            query_lse[i] = lse[at] * LOG2E;
            query_delta[i] = delta[at];
        }

        for (uint key0 = 0; key0 < length; key0 += TILE_N) {
            const uint keys = min(length - key0, (uint)TILE_N);
#if DROPOUT > 0
            make_keep(keep_tile, batch, site, TILE_M, first + query0, head, key0);
#endif

            /* ---- scores, and the gradients of the weights behind dropout ---- */
            float4 score[SCORES], change[SCORES];
            UNROLL
            for (uint i = 0; i < SCORES; i++) {
                score[i] = (float4)(0.0f);
                change[i] = (float4)(0.0f);
            }
            for (uint p0 = 0; p0 < HEAD_DIM; p0 += TILE_K) {
                const uint channels = min((uint)HEAD_DIM - p0, (uint)TILE_K);
                barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the tiles before any more */
                LOAD_ROWS(xp_tile, 0, x, x_at, X_STRIDE, queries, p0, 0);
                LOAD_ROWS(xp_tile, TILE_X_QUADS, gradient, gradient_at, GRADIENT_STRIDE, queries, p0, BLOCKS_X);
                LOAD_COLUMNS(wv_tile, 0, w, w_at + key0 * W_STRIDE, W_STRIDE, keys, p0, 2 * BLOCKS_X);
                LOAD_COLUMNS(wv_tile, TILE_W_QUADS, v, v_at + key0 * V_STRIDE, V_STRIDE, keys, p0,
                             2 * BLOCKS_X + BLOCKS_W);
                barrier(CLK_LOCAL_MEM_FENCE);
                MULTIPLY_SLABS(score, xp_tile, 0, wv_tile, 0, channels);
                MULTIPLY_SLABS(change, xp_tile, TILE_X_QUADS, wv_tile, TILE_W_QUADS, channels);
            }

            /* ---- the gradients of the scores; those of keys beyond the sequence are never multiplied ---- */
            UNROLL
            for (uint i = 0; i < THREAD_M; i++)
                UNROLL
                for (uint j = 0; j < COLUMN_QUADS; j++) {
                    const uint at = i * COLUMN_QUADS + j;
                    const float4 weight = exp2(fma(score[at], (float4)(scale), (float4)(-query_lse[i])));
#if DROPOUT > 0
                    change[at] *= keep_quad(keep_tile, TILE_M, held_row(i), 0, held_column(j), THREADS_N);
#endif
                    change[at] = weight * (change[at] - query_delta[i]);
                }
            barrier(CLK_LOCAL_MEM_FENCE);

            PUT_SCORES(xp_tile, change);
            LOAD_CHANNELS(wv_tile, w, w_at + key0 * W_STRIDE, W_STRIDE, keys);
            barrier(CLK_LOCAL_MEM_FENCE);
            MULTIPLY_CHANNELS(sum, xp_tile, wv_tile, keys);
        }

        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] *= as_float((uint)SCALE);
        STORE_SUMS(y, x_at, X_STRIDE, queries, sum);
        LAST_BARRIER;
    }
}
