#version 450
#extension GL_GOOGLE_include_directive : require
/* Attention without stored scores:
 * y[j][h][p] = sum over k of softmax over k of (SCALE * x[j][h] . w[k][h]) * v[k][h][p].
 *
 * One work-group per query tile and head walks over the keys of the sequence in steps of TILE_N: scores of TILE_M x
 * TILE_N from slabs of TILE_K channels, then their softmax as far as it is known (the largest score and the sum of each
 * row are carried on, and what was summed before is rescaled), then the product with the values. A work-item owns
 * THREAD_M rows and every THREADS_N-th key, later the same rows and every THREADS_N-th quad of channels; so the rows'
 * statistics live in its registers. Steps begin at the sequence's first key: the result depends on its own sequence
 * alone. Dropout has its place at the weights, behind their total. */
#include "product.glsl"

layout(constant_id = CONST_HEADS) const uint HEADS = 1;
layout(constant_id = CONST_HEAD_DIM) const uint HEAD_DIM = 32;
layout(constant_id = CONST_SCALE) const uint SCALE = 0x3f800000u;
layout(constant_id = CONST_X_STRIDE) const uint X_STRIDE = 32;
layout(constant_id = CONST_X_OFFSET) const uint X_OFFSET = 0;
layout(constant_id = CONST_W_STRIDE) const uint W_STRIDE = 32;
layout(constant_id = CONST_W_OFFSET) const uint W_OFFSET = 0;
layout(constant_id = CONST_V_STRIDE) const uint V_STRIDE = 32;
layout(constant_id = CONST_V_OFFSET) const uint V_OFFSET = 0;
layout(constant_id = CONST_Y_STRIDE) const uint Y_STRIDE = 32;
layout(constant_id = CONST_Y_OFFSET) const uint Y_OFFSET = 0;
layout(constant_id = CONST_TILE_M) const uint TILE_M = 32;
layout(constant_id = CONST_TILE_N) const uint TILE_N = 32;
layout(constant_id = CONST_TILE_K) const uint TILE_K = 32;
layout(constant_id = CONST_THREAD_M) const uint THREAD_M = 4;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_W, w);
INPUT(SLOT_V, v);
OUTPUT(SLOT_Y, y);
QUADS_OF(SLOT_Y, y, writeonly);

/* LOCAL_SIZE is THREADS_M times THREADS_N, a power of two. TILE_M and THREAD_M are multiples of 4, TILE_N of
 * 4 * THREADS_N, TILE_K of VECTOR. */
#define THREADS_M (TILE_M / THREAD_M)
#define THREADS_N (LOCAL_SIZE / THREADS_M)
#define QUADS_M (TILE_M / 4)
#define QUADS_N (TILE_N / 4)
#define KEY_QUADS (QUADS_N / THREADS_N)                                       /* of a work-item */
#define CHANNEL_QUADS ((HEAD_DIM + 4 * THREADS_N - 1) / (4 * THREADS_N)) /* likewise; 0 beyond HEAD_DIM */
#define QUADS_V (CHANNEL_QUADS * THREADS_N)

/* One quad of padding keeps the neighbours that store a column of the weights on different banks. */
#define QUADS_P (QUADS_M + 1)

/* Keys and values take turns in the same memory. */
#define TILE_W_QUADS (TILE_K * QUADS_N)
#define TILE_V_QUADS (TILE_N * QUADS_V)
#define TILE_WV_QUADS (TILE_W_QUADS > TILE_V_QUADS ? TILE_W_QUADS : TILE_V_QUADS)

#define VECTORS_K (TILE_K / VECTOR)
#define VECTORS_V (QUADS_V * 4 / VECTOR)
#define BLOCKS_X (QUADS_M * VECTORS_K)
#define BLOCKS_W (QUADS_N * VECTORS_K)
#define BLOCKS_V (TILE_N / 4 * VECTORS_V)
#define ROUNDS(blocks) (((blocks) + LOCAL_SIZE - 1) / LOCAL_SIZE)

/* Below every score, and far enough from the end of the range that a difference stays finite. */
#define LOWEST -3.0e38

/* exp(x) is 2^(x log2 e): the scores are scaled once for both. */
#define LOG2E 1.44269504

/* Neighbours take RUN quads of rows (or keys), the next ones the next VECTOR of channels of the same rows. */
#define RUN ((QUADS_M | QUADS_N) % 8 == 0 ? 8u : 1u)

uint block_quad(const uint block) { return block % RUN + block / (RUN * VECTORS_K) * RUN; }
uint block_channel(const uint block) { return block / RUN % VECTORS_K * VECTOR; }

shared vec4 x_tile[TILE_K * QUADS_M];       /* [channel][row] */
shared vec4 wv_tile[TILE_WV_QUADS];         /* keys [channel][key], values [key][channel] */
shared vec4 p_tile[TILE_N * QUADS_P];       /* weights [key][row] */
shared vec4 row_tile[THREADS_N * QUADS_M];  /* what the work-items of a row tell each other */

/* This work-item's part of a step, of the result, and of the rows' statistics. */
vec4 score[THREAD_M * KEY_QUADS];
vec4 sum[THREAD_M * CHANNEL_QUADS];
float largest[THREAD_M], total[THREAD_M]; /* total: of this work-item's keys alone */

void main()
{
    const uint tiles = batch[HEADER_QUERY_TILES];
    const uint head = group_number() / max(tiles, 1u);
    if (tiles > 0 && head < HEADS) {
        const uint entry = batch[HEADER_AT_QUERY_TILES] + group_number() % tiles * 2;
        const uint sequence = batch[entry];
        const uint row0 = batch[entry + 1];
        const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
        const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
        const uint x_at = X_OFFSET + (first + row0) * X_STRIDE + head * HEAD_DIM;
        const uint w_at = W_OFFSET + first * W_STRIDE + head * HEAD_DIM;
        const uint v_at = V_OFFSET + first * V_STRIDE + head * HEAD_DIM;
        const uint y_at = Y_OFFSET + (first + row0) * Y_STRIDE + head * HEAD_DIM;
        const uint rows = length - row0;
        const float scale = uintBitsToFloat(SCALE) * LOG2E;

        const uint l = local_number();
        const uint m = l / THREADS_N;
        const uint n = l % THREADS_N;

        UNROLL
        for (uint i = 0; i < THREAD_M * CHANNEL_QUADS; i++) sum[i] = vec4(0.0);
        UNROLL
        for (uint i = 0; i < THREAD_M; i++) {
            largest[i] = LOWEST;
            total[i] = 0.0;
        }

        for (uint key0 = 0; key0 < length; key0 += TILE_N) {
            const uint keys = min(length - key0, TILE_N);

            /* ---- scores ---- */
            UNROLL
            for (uint i = 0; i < THREAD_M * KEY_QUADS; i++) score[i] = vec4(0.0);
            for (uint p0 = 0; p0 < HEAD_DIM; p0 += TILE_K) {
                barrier(); /* nobody reads the tiles before any more */
                if (HEAD_DIM > TILE_K || key0 == 0) {
                    UNROLL
                    for (uint b = 0; b < ROUNDS(BLOCKS_X); b++) {
                        const uint block = l + b * LOCAL_SIZE;
                        const uint quad = block_quad(block);
                        const uint p = block_channel(block);
                        if (block < BLOCKS_X && p0 + p < HEAD_DIM) {
                            uvec4 raw[4];
                            UNROLL
                            for (uint r = 0; r < 4; r++)
                                FETCH_VECTOR(raw[r], x, x_at + (quad * 4 + r) * X_STRIDE + p0 + p, quad * 4 + r < rows,
                                             p0 + p, HEAD_DIM, ALIGNED != 0);
                            PUT_ROWS(x_tile, p * QUADS_M + quad, QUADS_M, raw, 0);
                        }
                    }
                }
                UNROLL
                for (uint b = 0; b < ROUNDS(BLOCKS_W); b++) {
                    const uint block = l + b * LOCAL_SIZE;
                    const uint quad = block_quad(block);
                    const uint p = block_channel(block);
                    if (block < BLOCKS_W && p0 + p < HEAD_DIM) {
                        /* A quad holds every THREADS_N-th key. */
                        const uint key = quad / THREADS_N * (4 * THREADS_N) + quad % THREADS_N;
                        uvec4 raw[4];
                        UNROLL
                        for (uint r = 0; r < 4; r++)
                            FETCH_VECTOR(raw[r], w, w_at + (key0 + key + r * THREADS_N) * W_STRIDE + p0 + p,
                                         key + r * THREADS_N < keys, p0 + p, HEAD_DIM, ALIGNED != 0);
                        PUT_ROWS(wv_tile, p * QUADS_N + quad, QUADS_N, raw, 0);
                    }
                }
                barrier();
                const uint channels = min(HEAD_DIM - p0, TILE_K);
                for (uint p = 0; p < channels; p++) {
                    float a[THREAD_M];
                    vec4 b[KEY_QUADS];
                    UNROLL
                    for (uint i = 0; i < THREAD_M / 4; i++) {
                        const vec4 quad = x_tile[p * QUADS_M + i * THREADS_M + m];
                        a[i * 4] = quad.x;
                        a[i * 4 + 1] = quad.y;
                        a[i * 4 + 2] = quad.z;
                        a[i * 4 + 3] = quad.w;
                    }
                    UNROLL
                    for (uint j = 0; j < KEY_QUADS; j++) b[j] = wv_tile[p * QUADS_N + j * THREADS_N + n];
                    UNROLL
                    for (uint i = 0; i < THREAD_M; i++)
                        UNROLL
                        for (uint j = 0; j < KEY_QUADS; j++)
                            score[i * KEY_QUADS + j] = fma(vec4(a[i]), b[j], score[i * KEY_QUADS + j]);
                }
            }

            /* ---- the largest score of each row; keys beyond the sequence are no keys ---- */
            float step[THREAD_M];
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                step[i] = LOWEST;
                UNROLL
                for (uint j = 0; j < KEY_QUADS; j++) {
                    const vec4 s = score[i * KEY_QUADS + j] * scale;
                    const uint key = j * 4 * THREADS_N + n;
                    score[i * KEY_QUADS + j] = s;
                    if (key < keys) step[i] = max(step[i], s.x);
                    if (key + THREADS_N < keys) step[i] = max(step[i], s.y);
                    if (key + 2 * THREADS_N < keys) step[i] = max(step[i], s.z);
                    if (key + 3 * THREADS_N < keys) step[i] = max(step[i], s.w);
                }
            }
            UNROLL
            for (uint i = 0; i < THREAD_M / 4; i++)
                row_tile[n * QUADS_M + i * THREADS_M + m] =
                    vec4(step[i * 4], step[i * 4 + 1], step[i * 4 + 2], step[i * 4 + 3]);
            barrier(); /* the keys' tile is free, too */

            /* ---- values ---- */
            UNROLL
            for (uint b = 0; b < ROUNDS(BLOCKS_V); b++) {
                const uint block = l + b * LOCAL_SIZE;
                const uint key = block / VECTORS_V * 4;
                const uint p = block % VECTORS_V * VECTOR;
                if (block < BLOCKS_V) {
                    uvec4 raw[4];
                    UNROLL
                    for (uint r = 0; r < 4; r++)
                        FETCH_VECTOR(raw[r], v, v_at + (key0 + key + r) * V_STRIDE + p, key + r < keys, p, HEAD_DIM,
                                     ALIGNED != 0);
                    UNROLL
                    for (uint r = 0; r < 4; r++) PUT_VECTOR(wv_tile, (key + r) * QUADS_V + p / 4, raw[r]);
                }
            }

            /* ---- weights, relative to the largest score so far ---- */
            UNROLL
            for (uint i = 0; i < THREAD_M / 4; i++) {
                vec4 most = row_tile[i * THREADS_M + m];
                UNROLL
                for (uint other = 1; other < THREADS_N; other++)
                    most = max(most, row_tile[other * QUADS_M + i * THREADS_M + m]);
                step[i * 4] = most.x;
                step[i * 4 + 1] = most.y;
                step[i * 4 + 2] = most.z;
                step[i * 4 + 3] = most.w;
            }
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                const float now = max(largest[i], step[i]);
                const float shrink = exp2(largest[i] - now);
                largest[i] = now;
                total[i] *= shrink;
                UNROLL
                for (uint j = 0; j < CHANNEL_QUADS; j++) sum[i * CHANNEL_QUADS + j] *= shrink;
                UNROLL
                for (uint j = 0; j < KEY_QUADS; j++) {
                    const vec4 s = score[i * KEY_QUADS + j];
                    const uint key = j * 4 * THREADS_N + n;
                    vec4 e;
                    e.x = key < keys ? exp2(s.x - now) : 0.0;
                    e.y = key + THREADS_N < keys ? exp2(s.y - now) : 0.0;
                    e.z = key + 2 * THREADS_N < keys ? exp2(s.z - now) : 0.0;
                    e.w = key + 3 * THREADS_N < keys ? exp2(s.w - now) : 0.0;
                    total[i] += (e.x + e.y) + (e.z + e.w);
                    score[i * KEY_QUADS + j] = e;
                }
            }
            UNROLL
            for (uint i = 0; i < THREAD_M / 4; i++) {
                UNROLL
                for (uint j = 0; j < KEY_QUADS; j++) {
                    const vec4 e0 = score[(i * 4) * KEY_QUADS + j], e1 = score[(i * 4 + 1) * KEY_QUADS + j];
                    const vec4 e2 = score[(i * 4 + 2) * KEY_QUADS + j], e3 = score[(i * 4 + 3) * KEY_QUADS + j];
                    const uint to = (j * 4 * THREADS_N + n) * QUADS_P + i * THREADS_M + m;
                    p_tile[to] = vec4(e0.x, e1.x, e2.x, e3.x);
                    p_tile[to + THREADS_N * QUADS_P] = vec4(e0.y, e1.y, e2.y, e3.y);
                    p_tile[to + 2 * THREADS_N * QUADS_P] = vec4(e0.z, e1.z, e2.z, e3.z);
                    p_tile[to + 3 * THREADS_N * QUADS_P] = vec4(e0.w, e1.w, e2.w, e3.w);
                }
            }
            barrier();

            /* ---- weights times values ---- */
            for (uint k = 0; k < keys; k++) {
                float a[THREAD_M];
                vec4 b[CHANNEL_QUADS];
                UNROLL
                for (uint i = 0; i < THREAD_M / 4; i++) {
                    const vec4 quad = p_tile[k * QUADS_P + i * THREADS_M + m];
                    a[i * 4] = quad.x;
                    a[i * 4 + 1] = quad.y;
                    a[i * 4 + 2] = quad.z;
                    a[i * 4 + 3] = quad.w;
                }
                UNROLL
                for (uint j = 0; j < CHANNEL_QUADS; j++) b[j] = wv_tile[k * QUADS_V + j * THREADS_N + n];
                UNROLL
                for (uint i = 0; i < THREAD_M; i++)
                    UNROLL
                    for (uint j = 0; j < CHANNEL_QUADS; j++)
                        sum[i * CHANNEL_QUADS + j] = fma(vec4(a[i]), b[j], sum[i * CHANNEL_QUADS + j]);
            }
        }

        /* ---- the rows' totals, and the mean that they make of the sums ---- */
        UNROLL
        for (uint i = 0; i < THREAD_M / 4; i++)
            row_tile[n * QUADS_M + i * THREADS_M + m] =
                vec4(total[i * 4], total[i * 4 + 1], total[i * 4 + 2], total[i * 4 + 3]);
        barrier();
        UNROLL
        for (uint i = 0; i < THREAD_M / 4; i++) {
            vec4 all = row_tile[i * THREADS_M + m];
            UNROLL
            for (uint other = 1; other < THREADS_N; other++) all += row_tile[other * QUADS_M + i * THREADS_M + m];
            total[i * 4] = all.x;
            total[i * 4 + 1] = all.y;
            total[i * 4 + 2] = all.z;
            total[i * 4 + 3] = all.w;
        }
        UNROLL
        for (uint i = 0; i < THREAD_M; i++) {
            const uint row = (i / 4 * THREADS_M + m) * 4 + i % 4;
            UNROLL
            for (uint j = 0; j < CHANNEL_QUADS; j++) {
                const uint p = (j * THREADS_N + n) * 4;
                const uint at = y_at + row * Y_STRIDE + p;
                const vec4 quad = sum[i * CHANNEL_QUADS + j] / total[i];
                if (row < rows && p < HEAD_DIM) {
                    if (ALIGNED != 0)
                        STORE_QUAD(y, at, quad);
                    else
                        STORE_SOME(y, at, quad, p, HEAD_DIM);
                }
            }
        }
    }
}
