/* Gradients of attention's keys and values. With A[j][k] = exp(SCALE * x[j] . w[k] - lse[j]) and dropout's factor f:
 * values: y[k] = sum over j of f A[j][k] * gradient[j];
 * keys: y[k] = sum over j of SCALE * A[j][k] * (f * gradient[j] . v[k] - delta[j]) * x[j].
 *
 * One work-group per tile of keys and head walks over the queries of the sequence in steps of TILE_N. Both products
 * over the channels, keys with queries and values with gradients, are made together, slab by slab; what they give goes
 * through shared memory, first the weights, then the scores' gradients, and is multiplied with the gradients and the
 * queries. Both results stay in registers to the end: no sum is shared with another work-group, and their order is
 * that of the queries. The tiles are those of the query table, taken as tiles of keys. */
#include "attention.h"

/* Slabs of rows and weights take turns in the same memory, so do slabs of columns and columns x channels. */
#define TILE_XP_QUADS (2 * TILE_X_QUADS > TILE_P_QUADS ? 2 * TILE_X_QUADS : TILE_P_QUADS)
#define TILE_WV_QUADS (2 * TILE_W_QUADS > TILE_V_QUADS ? 2 * TILE_W_QUADS : TILE_V_QUADS)

/* A statistic of the four queries of a work-item's quad. */
#define QUERY_QUAD(at)                                                                                                 \
    (float4)(query_tile[at], query_tile[(at) + THREADS_N], query_tile[(at) + 2 * THREADS_N],                           \
             query_tile[(at) + 3 * THREADS_N])

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void attention_dkv(INPUT_OF(uint, batch)
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
    __local float4 xp_tile[TILE_XP_QUADS]; /* keys and values [channel][key]; weights [query][key] */
    __local float4 wv_tile[TILE_WV_QUADS]; /* queries and gradients [channel][query]; one of them [query][channel] */
    __local float query_tile[2 * TILE_N];  /* lse, delta */
#if DROPOUT > 0
    __local uint keep_tile[KEEP_WORDS];
#endif

    const uint tiles = batch[HEADER_QUERY_TILES];
    const uint head = group_number() / max(tiles, 1u);
    if (tiles > 0 && head < HEADS) {
        const uint entry = batch[HEADER_AT_QUERY_TILES] + group_number() % tiles * 2;
        const uint sequence = batch[entry];
        const uint key0 = batch[entry + 1];
        const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
        const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
        const uint x_at = X_OFFSET + first * X_STRIDE + head * HEAD_DIM;
        const uint w_at = W_OFFSET + (first + key0) * W_STRIDE + head * HEAD_DIM;
        const uint v_at = V_OFFSET + (first + key0) * V_STRIDE + head * HEAD_DIM;
        const uint gradient_at = first * GRADIENT_STRIDE + head * HEAD_DIM;
        const uint keys = length - key0;
        const float scale = as_float((uint)SCALE) * LOG2E;

        float4 key_sum[SUMS], value_sum[SUMS];
        UNROLL
        for (uint i = 0; i < SUMS; i++) {
            key_sum[i] = (float4)(0.0f);
            value_sum[i] = (float4)(0.0f);
        }

        for (uint query0 = 0; query0 < length; query0 += TILE_N) {
            const uint queries = min(length - query0, (uint)TILE_N);

            /* ---- statistics of the queries. Those beyond the sequence are never multiplied ---- */
            for (uint i = local_number(); i < 2 * TILE_N; i += LOCAL_SIZE) {
                const uint at = (first + query0 + min(i % TILE_N, queries - 1)) * HEADS + head;
                query_tile[i] = i < TILE_N ? lse[at] * LOG2E : delta[at];
            }
#if DROPOUT > 0
            make_keep(keep_tile, batch, site, TILE_N, first + query0, head, key0);
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
                LOAD_ROWS(xp_tile, 0, w, w_at, W_STRIDE, keys, p0, 0);
                LOAD_ROWS(xp_tile, TILE_X_QUADS, v, v_at, V_STRIDE, keys, p0, BLOCKS_X);
                LOAD_COLUMNS(wv_tile, 0, x, x_at + query0 * X_STRIDE, X_STRIDE, queries, p0, 2 * BLOCKS_X);
                LOAD_COLUMNS(wv_tile, TILE_W_QUADS, gradient, gradient_at + query0 * GRADIENT_STRIDE, GRADIENT_STRIDE,
                             queries, p0, 2 * BLOCKS_X + BLOCKS_W);
                barrier(CLK_LOCAL_MEM_FENCE);
                MULTIPLY_SLABS(score, xp_tile, 0, wv_tile, 0, channels);
                MULTIPLY_SLABS(change, xp_tile, TILE_X_QUADS, wv_tile, TILE_W_QUADS, channels);
            }

            /* ---- weights, and the gradients of the scores ---- */
            UNROLL
            for (uint j = 0; j < COLUMN_QUADS; j++) {
                const uint query = held_column(j);
                const float4 query_lse = QUERY_QUAD(query);
                const float4 query_delta = QUERY_QUAD(TILE_N + query);
                UNROLL
                for (uint i = 0; i < THREAD_M; i++) {
                    const uint at = i * COLUMN_QUADS + j;
                    const float4 weight = exp2(fma(score[at], (float4)(scale), -query_lse));
#if DROPOUT > 0
                    const float4 factor = keep_quad(keep_tile, TILE_N, query, THREADS_N, held_row(i), 0);
                    score[at] = weight * factor;
                    change[at] = weight * (change[at] * factor - query_delta);
#else
                    score[at] = weight;
                    change[at] = weight * (change[at] - query_delta);
#endif
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);

            /* ---- values ---- */
            PUT_SCORES(xp_tile, score);
            LOAD_CHANNELS(wv_tile, gradient, gradient_at + query0 * GRADIENT_STRIDE, GRADIENT_STRIDE, queries);
            barrier(CLK_LOCAL_MEM_FENCE);
            MULTIPLY_CHANNELS(value_sum, xp_tile, wv_tile, queries);
            barrier(CLK_LOCAL_MEM_FENCE);

            /* ---- keys ---- */
            PUT_SCORES(xp_tile, change);
            LOAD_CHANNELS(wv_tile, x, x_at + query0 * X_STRIDE, X_STRIDE, queries);
            barrier(CLK_LOCAL_MEM_FENCE);
            MULTIPLY_CHANNELS(key_sum, xp_tile, wv_tile, queries);
        }

        UNROLL
        for (uint i = 0; i < SUMS; i++) key_sum[i] *= as_float((uint)SCALE);
        STORE_SUMS(y, w_at, W_STRIDE, keys, key_sum);
        STORE_SUMS(y, v_at, V_STRIDE, keys, value_sum);
        LAST_BARRIER;
    }
}
