/* Attention without stored scores:
 * y[j][h][p] = sum over k of softmax over k of (SCALE * x[j][h] . w[k][h]) * v[k][h][p].
 *
 * One work-group per query tile and head walks over the keys of the sequence in steps of TILE_N: scores of TILE_M x
 * TILE_N from stages of TILE_K channels, then their softmax as far as it is known (the largest score and the sum of each
 * row are carried on, and what was summed before is rescaled), then the product with the values. A work-item owns
 * THREAD_M rows and every THREADS_N-th key, later the same rows and every THREADS_N-th quad of channels; so the rows'
 * statistics live in its registers. Steps begin at the sequence's first key: the result depends on its own sequence
 * alone. Dropout has its place at the weights, after their total. RELATIVE: a bias by distance comes to the scores,
 * ALIBI: one that falls with it. BEFORE, AFTER: steps of which no query sees a key are passed over.
 *
 * LSE: the logarithm of a row's sum of exponentials goes to lse; the backward kernels make the weights from it anew. */
#ifndef POCL_DEVICE_ADDRESS_BITS
#define UNROLL_K _Pragma("unroll 16") /* with 4, 5 % slower on an H200 */
#endif
#include "attention.h"

/* Keys and weights take turns in the same memory, so do values and what the work-items of a row tell each other. */
#define ROW_QUADS (THREADS_N * QUADS_M)
#define TILE_WP_QUADS (TILE_W_QUADS > TILE_P_QUADS ? TILE_W_QUADS : TILE_P_QUADS)
#define TILE_VR_QUADS (TILE_V_QUADS > ROW_QUADS ? TILE_V_QUADS : ROW_QUADS)

/* Below every score, and far enough from the end of the range that a difference stays finite. */
#define LOWEST -3.0e38f

#define LN2 0.693147181f

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1))) void attention(ATTENTION_ARGUMENTS)
{
    BEGIN_ATTENTION;
    __local float4 x_tile[TILE_X_QUADS];   /* [channel][row] */
    __local float4 wp_tile[TILE_WP_QUADS]; /* keys [channel][key], weights [key][row] */
    __local float4 vr_tile[TILE_VR_QUADS]; /* values [key][channel], statistics [work-item of a row][row] */
#if RELATIVE > 0
    __local float biases[DISTANCES];
#endif
#if DROPOUT > 0
    __local uint keep_tile[KEEP_WORDS];
#endif

    const uint tiles = batch[HEADER_QUERY_TILES];
    const uint head = group_number() / max(tiles, 1u);
    if (tiles > 0 && head < HEADS) {
        const uint entry = batch[HEADER_AT_QUERY_TILES] + (tiles - 1 - group_number() % tiles) * 2;
        const uint sequence = batch[entry];
        const uint row0 = batch[entry + 1];
        const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
        const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
        const uint x_at = X_OFFSET + (first + row0) * X_STRIDE + HEAD_AT(head, X_STRIDE);
        const uint w_at = W_OFFSET + first * W_STRIDE + HEAD_AT(KEY_HEAD(head), W_STRIDE);
        const uint v_at = V_OFFSET + first * V_STRIDE + HEAD_AT(KEY_HEAD(head), V_STRIDE);
        const uint y_at = Y_OFFSET + (first + row0) * Y_STRIDE + HEAD_AT(head, Y_STRIDE);
        const uint rows = length - row0;
        const float scale = as_float((uint)SCALE) * LOG2E;

        const uint m = thread_m();
        const uint n = thread_n();
#if RELATIVE > 0
        load_biases(biases, relative, batch, head, LOG2E);
#endif
#if ALIBI
        const float slope = alibi_slope(HEADS, head) * LOG2E;
#endif
        const uint last_row = row0 + min(rows, (uint)TILE_M) - 1;
        const uint first_key = (uint)mask_first_key((int)row0, BEFORE) / TILE_N * TILE_N;
        const uint end_key = (uint)mask_end_key((int)last_row, AFTER, (int)length);

        float4 sum[SUMS];
        float largest[THREAD_M], total[THREAD_M]; /* total: of this work-item's keys alone */
        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] = (float4)(0.0f);
        UNROLL
        for (uint i = 0; i < THREAD_M; i++) {
            largest[i] = LOWEST;
            total[i] = 0.0f;
        }

        for (uint key0 = first_key; key0 < end_key; key0 += TILE_N) {
            const uint keys = min(length - key0, (uint)TILE_N);
#if DROPOUT > 0
            make_keep(keep_tile, batch, site, TILE_M, first + row0, head, key0);
#endif

            /* ---- scores ---- */
            float4 score[SCORES];
            UNROLL
            for (uint i = 0; i < SCORES; i++) score[i] = (float4)(0.0f);
            for (uint p0 = 0; p0 < HEAD_DIM; p0 += TILE_K) {
                barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the stages before any more */
                if (HEAD_DIM > TILE_K || key0 == first_key) LOAD_ROWS(x_tile, 0, x, x_at, X_STRIDE, rows, p0, 0);
                LOAD_COLUMNS(wp_tile, 0, w, w_at + key0 * W_STRIDE, W_STRIDE, keys, p0, 0);
                barrier(CLK_LOCAL_MEM_FENCE);
                MULTIPLY_STAGES(score, x_tile, 0, wp_tile, 0, min((uint)HEAD_DIM - p0, (uint)TILE_K));
            }

            /* ---- the largest score of each row; keys beyond the sequence are no keys ---- */
            float step[THREAD_M];
#if MASKED
            const bool all_seen = mask_sees_all((int)row0, (int)last_row, (int)key0, (int)(key0 + keys) - 1, BEFORE, AFTER);
#endif
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                step[i] = LOWEST;
                UNROLL
                for (uint j = 0; j < COLUMN_QUADS; j++) {
                    const uint key = held_column(j);
#if RELATIVE > 0 || ALIBI || MASKED
                    const int offset = (int)(key0 + key) - (int)(row0 + held_row(i));
#endif
#if RELATIVE > 0
                    float4 s = fma(score[i * COLUMN_QUADS + j], (float4)(scale), bias_quad(biases, offset, (int)THREADS_N));
#elif ALIBI
                    float4 s = fma(score[i * COLUMN_QUADS + j], (float4)(scale), alibi_quad(slope, offset, (int)THREADS_N));
#else
                    float4 s = score[i * COLUMN_QUADS + j] * scale;
#endif
#if MASKED
                    if (!all_seen) s = mask_quad(s, offset, (int)THREADS_N);
#endif
                    score[i * COLUMN_QUADS + j] = s;
                    if (key < keys) step[i] = fmax(step[i], s.x);
                    if (key + THREADS_N < keys) step[i] = fmax(step[i], s.y);
                    if (key + 2 * THREADS_N < keys) step[i] = fmax(step[i], s.z);
                    if (key + 3 * THREADS_N < keys) step[i] = fmax(step[i], s.w);
                }
            }
            UNROLL
            for (uint i = 0; i < THREAD_M / 4; i++)
                vr_tile[n * QUADS_M + i * THREADS_M + m] =
                    (float4)(step[i * 4], step[i * 4 + 1], step[i * 4 + 2], step[i * 4 + 3]);
            barrier(CLK_LOCAL_MEM_FENCE); /* the keys' tile is free, too */

            /* ---- weights, relative to the largest score so far ---- */
            UNROLL
            for (uint i = 0; i < THREAD_M / 4; i++) {
                float4 most = vr_tile[i * THREADS_M + m];
                UNROLL
                for (uint other = 1; other < THREADS_N; other++)
                    most = fmax(most, vr_tile[other * QUADS_M + i * THREADS_M + m]);
                step[i * 4] = most.x;
                step[i * 4 + 1] = most.y;
                step[i * 4 + 2] = most.z;
                step[i * 4 + 3] = most.w;
            }
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                const float now = fmax(largest[i], step[i]);
                const float shrink = exp2(largest[i] - now);
                largest[i] = now;
                total[i] *= shrink;
                UNROLL
                for (uint j = 0; j < CHANNEL_QUADS; j++) sum[i * CHANNEL_QUADS + j] *= shrink;
                UNROLL
                for (uint j = 0; j < COLUMN_QUADS; j++) {
                    const float4 s = score[i * COLUMN_QUADS + j];
                    const uint key = held_column(j);
                    float4 e;
                    e.x = key < keys ? exp2(s.x - now) : 0.0f;
                    e.y = key + THREADS_N < keys ? exp2(s.y - now) : 0.0f;
                    e.z = key + 2 * THREADS_N < keys ? exp2(s.z - now) : 0.0f;
                    e.w = key + 3 * THREADS_N < keys ? exp2(s.w - now) : 0.0f;
                    e = masked_weights(s, e);
                    total[i] += (e.x + e.y) + (e.z + e.w);
#if DROPOUT > 0
                    e *= keep_quad(keep_tile, TILE_M, held_row(i), 0, key, THREADS_N);
#endif
                    score[i * COLUMN_QUADS + j] = e;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);

            /* ---- weights times values ---- */
            PUT_SCORES(wp_tile, score);
            MULTIPLY_ROWS(sum, wp_tile, 0, vr_tile, 0, v, v_at + key0 * V_STRIDE, V_STRIDE, keys);
        }

        /* ---- the rows' totals, and the mean that they make of the sums ---- */
        UNROLL
        for (uint i = 0; i < THREAD_M / 4; i++)
            vr_tile[n * QUADS_M + i * THREADS_M + m] =
                (float4)(total[i * 4], total[i * 4 + 1], total[i * 4 + 2], total[i * 4 + 3]);
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL
        for (uint i = 0; i < THREAD_M / 4; i++) {
            float4 all = vr_tile[i * THREADS_M + m];
            UNROLL
            for (uint other = 1; other < THREADS_N; other++) all += vr_tile[other * QUADS_M + i * THREADS_M + m];
            total[i * 4] = all.x;
            total[i * 4 + 1] = all.y;
            total[i * 4 + 2] = all.z;
            total[i * 4 + 3] = all.w;
        }
        UNROLL
        for (uint i = 0; i < THREAD_M; i++) {
            UNROLL
            for (uint j = 0; j < CHANNEL_QUADS; j++) sum[i * CHANNEL_QUADS + j] = sum[i * CHANNEL_QUADS + j] / total[i];
        }
        STORE_SUMS(y, y_at, Y_STRIDE, rows, sum);
#if LSE == LSE_WRITE
        UNROLL
        for (uint i = 0; i < THREAD_M; i++)
            if (n == 0 && held_row(i) < rows)
                lse[(first + row0 + held_row(i)) * HEADS + head] = (largest[i] + log2(total[i])) * LN2;
#endif
        LAST_BARRIER;
    }
}
