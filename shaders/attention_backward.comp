#version 450
#extension GL_GOOGLE_include_directive : require
/* Gradients of attention's keys and values, and of its queries in parts. With A[j][k] = exp(SCALE * x[j] . w[k] -
 * lse[j]), dropout's factor f and s[j][k] = SCALE * A[j][k] * (f * gradient[j] . v[k] - delta[j]):
 * values: y[k] = sum over j of f A[j][k] * gradient[j];
 * keys: y[k] = sum over j of s[j][k] * x[j];
 * queries: partials[part][j] = sum over the part's keys of s[j][k] / SCALE * w[k].
 *
 * One work-group per sequence, head and part. The sequence's tiles of TILE_M keys are split into PARTS parts in turn; the
 * group walks over those of its part and for each of them over the queries in steps of TILE_N. Both products over the
 * channels, keys with queries and values with gradients, are made together, stage by stage; what they give goes through
 * shared memory, first the weights, then the scores' gradients in both directions, and is multiplied with the
 * gradients, the queries and the keys. The keys' and values' sums stay in registers to the end of their tile, the
 * queries' are added up in memory, always by the same work-item: no sum is shared with another work-group, their order
 * is that of the queries and of the tiles, and they depend on their own sequence alone. RELATIVE: the scores' gradients
 * are added up by distance, too, which is for one part. ALIBI: as in the forward pass. BEFORE, AFTER: a tile of keys
 * meets the steps of queries of which one sees one of its keys; the first tile of a part that meets a step begins its
 * sums. */
#include "attention.glsl"

layout(constant_id = CONST_PARTS) const uint PARTS = 1;

INPUT_OF(SLOT_LSE, float, lse);
INPUT_OF(SLOT_DELTA, float, delta);
INPUT(SLOT_GRADIENT, gradient);
OUTPUT_OF(SLOT_DISTANCES, float, distances);
#define BIASES
#include "distances.glsl"
#include "masked.glsl"
layout(set = 0, binding = SLOT_PARTIALS) restrict buffer partials_vectors { vec4 partials_quads[]; };

/* The weights and a stage of channels take turns with stages of keys, values, queries and gradients in the same memory. */
#define STAGES_QUADS (2 * (TILE_X_QUADS + TILE_W_QUADS))
#define TILE_QUADS (STAGES_QUADS > TILE_P_QUADS + TILE_V_QUADS ? STAGES_QUADS : TILE_P_QUADS + TILE_V_QUADS)

/* Above every logarithm; a query with it has weights of 0. */
#define HIGHEST 3.0e38

/* A statistic of the four queries of a work-item's quad. */
#define QUERY_QUAD(at)                                                                                                 \
    vec4(query_tile[at], query_tile[(at) + THREADS_N], query_tile[(at) + 2 * THREADS_N],                               \
             query_tile[(at) + 3 * THREADS_N])

/* The part's sum of a query of the step, four channels. */
#define PARTIAL(row, p) partials_quads[(partials_at + (query0 + (row)) * GRADIENT_STRIDE + (p)) / 4]

/* Stages: keys and values [channel][key], queries and gradients [channel][query]. Later weights [query][key] or
 * [key][query] and, after them, a stage of what they are multiplied with, [query or key][channel]. */
shared vec4 tile[TILE_QUADS];
shared float query_tile[2 * TILE_N]; /* lse, delta */

/* This work-item's part of a step and of the results. */
vec4 score[SCORES], change[SCORES];
vec4 key_sum[SUMS], value_sum[SUMS], sum[SUMS];

/* Sums of scores' gradients by distance: of each diagonal of a tile, for the tiles whose keys are s * TILE_N after their
 * queries, s from -APART_MOST to APART_MOST; those at both ends stand for all that are farther, too, which are beyond
 * RELATIVE. Tiles are square. */
const int APART_MOST = int((RELATIVE + TILE_N - 1) / TILE_N + 1);
const uint DIAGONALS = 2 * TILE_N - 1;
const uint DIAGONAL_SUMS = RELATIVE > 0 ? uint(2 * APART_MOST + 1) * DIAGONALS : 1;
shared float diagonals[DIAGONAL_SUMS];

/* Of a tile that was put down [query][key]. */
void add_diagonals(const int apart)
{
    const uint at = uint(clamp(apart, -APART_MOST, APART_MOST) + APART_MOST) * DIAGONALS;
    for (uint d = local_number(); d < DIAGONALS; d += LOCAL_SIZE) {
        float all = 0.0;
        for (uint query = 0; query < TILE_N; query++) {
            const uint key = query + d - (TILE_N - 1);
            if (key < TILE_N) all += tile[query * QUADS_P + key / 4][key % 4];
        }
        diagonals[at + d] += all;
    }
}

/* The sum of the pairs whose keys are from `low` to `high` after their queries. */
float diagonals_between(const int low, const int high)
{
    float all = 0.0;
    for (int apart = -APART_MOST; apart <= APART_MOST; apart++) {
        const int zero = int(TILE_N) - 1 - apart * int(TILE_N), last = min(high + zero, int(DIAGONALS) - 1);
        for (int d = max(low + zero, 0); d <= last; d++) all += diagonals[uint(apart + APART_MOST) * DIAGONALS + d];
    }
    return all;
}

/* distances[e][head] of a sequence (shaders/distance_sums.comp), `at` being that of its first one. */
void store_distances(const uint at, const uint length)
{
    const int far = min(int(length) - 1, FARTHEST), beyond = (2 * APART_MOST + 1) * int(TILE_N);
    for (int e = int(local_number()); e < 2 * int(length); e += int(LOCAL_SIZE)) {
        const int offset = e - far;
        const int low = offset == -FARTHEST ? -beyond : offset, high = offset == FARTHEST ? beyond : offset;
        const float all = e <= 2 * far ? diagonals_between(low, high) : 0.0;
        distances[at + uint(e) * HEADS] = uintBitsToFloat(SCALE) * all;
    }
}

void main()
{
    const uint sequences = batch[HEADER_SEQUENCES];
    const uint sequence = group_number() % max(sequences, 1u);
    const uint key_head = group_number() / max(sequences, 1u) % KEY_HEAD_COUNT;
    const uint part = group_number() / max(sequences, 1u) / KEY_HEAD_COUNT;
    if (sequences > 0 && part < PARTS) {
        const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
        const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
        const float scale = uintBitsToFloat(SCALE) * LOG2E;
        if (RELATIVE > 0) {
            load_biases(key_head, LOG2E); /* with a bias by distance Q has no more heads */
            for (uint i = local_number(); i < DIAGONAL_SUMS; i += LOCAL_SIZE) diagonals[i] = 0.0;
        }

        for (uint key0 = part * TILE_M; key0 < length; key0 += PARTS * TILE_M) {
            const uint w_at = W_OFFSET + (first + key0) * W_STRIDE + HEAD_AT(key_head, W_STRIDE);
            const uint v_at = V_OFFSET + (first + key0) * V_STRIDE + HEAD_AT(key_head, V_STRIDE);
            const uint keys = length - key0;
            const uint last_key = key0 + min(keys, TILE_M) - 1;
            const uint first_query = uint(mask_first_query(int(key0), AFTER)) / TILE_N * TILE_N;
            const uint end_query = uint(mask_end_query(int(last_key), BEFORE, int(length)));

            UNROLL
            for (uint i = 0; i < SUMS; i++) {
                key_sum[i] = vec4(0.0);
                value_sum[i] = vec4(0.0);
            }

            /* All queries of the heads of Q that see something, one head after the other. */
            const uint query_tiles = (end_query - first_query + TILE_N - 1) / TILE_N;
            for (uint step = 0; step < KEY_HEAD_MEMBERS * query_tiles; step++) {
                const uint head = key_head * KEY_HEAD_MEMBERS + step / query_tiles;
                const uint query0 = first_query + step % query_tiles * TILE_N;
                const uint x_at = X_OFFSET + first * X_STRIDE + HEAD_AT(head, X_STRIDE);
                const uint gradient_at = first * GRADIENT_STRIDE + head * HEAD_DIM;
                const uint partials_at = part * batch[HEADER_TOKENS] * GRADIENT_STRIDE + gradient_at;
                const uint queries = min(length - query0, TILE_N);
                const float slope = ALIBI != 0 ? alibi_slope(HEADS, head) * LOG2E : 0.0;
                const bool begins = key0 < uint(mask_first_key(int(query0), BEFORE)) / TILE_M * TILE_M + PARTS * TILE_M;
                const bool all_seen = !MASKED || mask_sees_all(int(query0), int(query0 + queries) - 1, int(key0), int(last_key), BEFORE, AFTER);

                /* ---- statistics of the queries; those beyond the sequence weigh nothing ---- */
                for (uint i = local_number(); i < 2 * TILE_N; i += LOCAL_SIZE) {
                    const uint at = (first + query0 + min(i % TILE_N, queries - 1)) * HEADS + head;
                    const bool there = i % TILE_N < queries;
                    query_tile[i] = i < TILE_N ? (there ? lse[at] * LOG2E : HIGHEST) : delta[at];
                }
                if (DROPOUT > 0) {
                    make_keep(TILE_N, first + query0, head, key0);
                }

                /* ---- scores, and the gradients of the weights after dropout ---- */
                UNROLL
                for (uint i = 0; i < SCORES; i++) {
                    score[i] = vec4(0.0);
                    change[i] = vec4(0.0);
                }
                for (uint p0 = 0; p0 < HEAD_DIM; p0 += TILE_K) {
                    const uint channels = min(HEAD_DIM - p0, TILE_K);
                    const uint w_stage = TILE_X_QUADS, x_stage = 2 * TILE_X_QUADS, gradient_stage = x_stage + TILE_W_QUADS;
                    LOAD_ROWS(tile, 0, w, w_at, W_STRIDE, keys, p0, 0);
                    LOAD_ROWS(tile, w_stage, v, v_at, V_STRIDE, keys, p0, BLOCKS_X);
                    LOAD_COLUMNS(tile, x_stage, x, x_at + query0 * X_STRIDE, X_STRIDE, queries, p0, 2 * BLOCKS_X);
                    LOAD_COLUMNS(tile, gradient_stage, gradient, gradient_at + query0 * GRADIENT_STRIDE, GRADIENT_STRIDE,
                                 queries, p0, 2 * BLOCKS_X + BLOCKS_W);
                    barrier();
                    MULTIPLY_STAGES(score, tile, 0, tile, x_stage, channels);
                    MULTIPLY_STAGES(change, tile, w_stage, tile, gradient_stage, channels);
                    barrier(); /* the stages' memory is free */
                }

                /* ---- weights, and the gradients of the scores ---- */
                UNROLL
                for (uint j = 0; j < COLUMN_QUADS; j++) {
                    const uint query = held_column(j);
                    const vec4 query_lse = QUERY_QUAD(query);
                    const vec4 query_delta = QUERY_QUAD(TILE_N + query);
                    UNROLL
                    for (uint i = 0; i < THREAD_M; i++) {
                        const uint at = i * COLUMN_QUADS + j;
                        const int offset = int(key0 + held_row(i)) - int(query0 + query);
                        vec4 least = -query_lse;
                        if (RELATIVE > 0)
                            least += bias_quad(offset, -int(THREADS_N));
                        else if (ALIBI != 0)
                            least += alibi_quad(slope, offset, -int(THREADS_N));
                        vec4 s = fma(score[at], vec4(scale), least);
                        if (!all_seen) s = mask_quad(s, offset, -int(THREADS_N));
                        vec4 weight = exp2(s);
                        if (!all_seen) weight = masked_weights(s, weight);
                        if (DROPOUT > 0) {
                            const vec4 factor = keep_quad(TILE_N, query, THREADS_N, held_row(i), 0);
                            score[at] = weight * factor;
                            change[at] = weight * (change[at] * factor - query_delta);
                        } else {
                            score[at] = weight;
                            change[at] = weight * (change[at] - query_delta);
                        }
                    }
                }
                /* Keys beyond the sequence give nothing to the queries, and what their weights are may be infinite. */
                if (keys < TILE_M) {
                    UNROLL
                    for (uint i = 0; i < THREAD_M; i++) {
                        UNROLL
                        for (uint j = 0; j < COLUMN_QUADS; j++)
                            if (held_row(i) >= keys) change[i * COLUMN_QUADS + j] = vec4(0.0);
                    }
                }

                /* ---- values ---- */
                PUT_SCORES(tile, score);
                MULTIPLY_ROWS(value_sum, tile, 0, tile, TILE_P_QUADS, gradient, gradient_at + query0 * GRADIENT_STRIDE, GRADIENT_STRIDE, queries);

                /* ---- keys ---- */
                PUT_SCORES(tile, change);
                if (RELATIVE > 0) {
                    barrier();
                    add_diagonals(int(key0 / TILE_N) - int(query0 / TILE_N));
                }
                MULTIPLY_ROWS(key_sum, tile, 0, tile, TILE_P_QUADS, x, x_at + query0 * X_STRIDE, X_STRIDE, queries);

                /* ---- queries ---- */
                PUT_TRANSPOSED(tile, change);
                UNROLL
                for (uint i = 0; i < THREAD_M; i++) {
                    const uint row = transposed_row(i);
                    UNROLL
                    for (uint j = 0; j < CHANNEL_QUADS; j++) {
                        const uint p = held_channel(j);
                        sum[i * CHANNEL_QUADS + j] = vec4(0.0);
                        if (!begins && row < queries && p < HEAD_DIM)
                            sum[i * CHANNEL_QUADS + j] = PARTIAL(row, p);
                    }
                }
                MULTIPLY_ROWS(sum, tile, 0, tile, TILE_P_QUADS, w, w_at, W_STRIDE, min(keys, TILE_M));
                UNROLL
                for (uint i = 0; i < THREAD_M; i++) {
                    const uint row = transposed_row(i);
                    UNROLL
                    for (uint j = 0; j < CHANNEL_QUADS; j++) {
                        const uint p = held_channel(j);
                        if (row < queries && p < HEAD_DIM)
                            PARTIAL(row, p) = sum[i * CHANNEL_QUADS + j];
                    }
                }
            }

            UNROLL
            for (uint i = 0; i < SUMS; i++) key_sum[i] *= uintBitsToFloat(SCALE);
            STORE_SUMS(y, w_at, W_STRIDE, keys, key_sum);
            STORE_SUMS(y, v_at, V_STRIDE, keys, value_sum);
        }
        if (RELATIVE > 0) {
            barrier();
            store_distances(2 * first * HEADS + key_head, length);
        }
    }
}
