#version 450
#extension GL_GOOGLE_include_directive : require
/* The matrix products with a weight. FORM says which:
 * GEMM_NT: y[r][n] = epilogue(sum over k of x[r][k] * w[n][k]);
 * GEMM_NN: y[r][n] = epilogue(sum over k of x[r][k] * w[k][n]);
 * GEMM_TN: y[m][n] = sum over rows r of x[r][m] * w[r][n], the weight's gradient.
 * One work-group per tile of y, columns fastest. While a slab is multiplied, the next one is on its way from memory to
 * registers.
 *
 * COLUMN_SUMS: the epilogue's results are also summed over each tile's rows, to partials[row tile][N]. GEMM_TN has few
 * tiles and long sums instead of an epilogue, so there it cuts the sum: as many times the tiles as there are parts of
 * PART_ROWS rows, the parts slowest, and their sums go to partials[part][M][N] instead of y. */
#include "tile.glsl"
#include "formulas.h"

layout(constant_id = CONST_FORM) const uint FORM = GEMM_NT;
layout(constant_id = CONST_M) const uint M = 32;
layout(constant_id = CONST_N) const uint N = 32;
layout(constant_id = CONST_K) const uint K = 32;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;
layout(constant_id = CONST_BIAS) const uint BIAS = 0;
layout(constant_id = CONST_ACTIVATION) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = CONST_RESIDUAL) const uint RESIDUAL = 0;
layout(constant_id = CONST_SUM) const uint SUM = 0;
layout(constant_id = CONST_DERIVATIVE) const uint DERIVATIVE = ACTIVATION_NONE;
layout(constant_id = CONST_COLUMN_SUMS) const uint COLUMN_SUMS = 0;
layout(constant_id = CONST_PART_ROWS) const uint PART_ROWS = 16;

/* Whether k is the slow dimension of an operand. */
#define X_MAJOR (FORM == GEMM_TN)
#define W_MAJOR (FORM != GEMM_NT)
/* GEMM_TN in parts, and the column sums of the other forms. */
#define PARTS (X_MAJOR ? COLUMN_SUMS != 0 : false)
#define EPILOGUE_SUMS (X_MAJOR ? false : COLUMN_SUMS != 0)

/* 0: rows without gaps. */
layout(constant_id = CONST_X_STRIDE) const uint GIVEN_X_STRIDE = 0;
layout(constant_id = CONST_X_OFFSET) const uint X_OFFSET = 0;
layout(constant_id = CONST_W_STRIDE) const uint GIVEN_W_STRIDE = 0;
layout(constant_id = CONST_W_OFFSET) const uint W_OFFSET = 0;
layout(constant_id = CONST_Y_STRIDE) const uint GIVEN_Y_STRIDE = 0;
layout(constant_id = CONST_Y_OFFSET) const uint Y_OFFSET = 0;
#define X_STRIDE (GIVEN_X_STRIDE != 0 ? GIVEN_X_STRIDE : X_MAJOR ? M : K)
#define W_STRIDE (GIVEN_W_STRIDE != 0 ? GIVEN_W_STRIDE : W_MAJOR ? N : K)
#define Y_STRIDE (GIVEN_Y_STRIDE != 0 ? GIVEN_Y_STRIDE : N)

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_W, w);
INPUT(SLOT_BIAS, bias);
INPUT(SLOT_RESIDUAL, residual);
QUADS_OF(SLOT_RESIDUAL, residual, readonly);
INPUT(SLOT_SAVED, saved);
QUADS_OF(SLOT_SAVED, saved, readonly);
OUTPUT_OF(SLOT_PARTIALS, float, partials);
layout(set = 0, binding = SLOT_PARTIALS) restrict writeonly buffer partials_pairs { vec4 partials_quads[]; };
OUTPUT(SLOT_Y, y);
QUADS_OF(SLOT_Y, y, writeonly);
OUTPUT(SLOT_SUM, before);
QUADS_OF(SLOT_SUM, before, writeonly);
#include "dropout.glsl"

/* Eight columns side by side share dropout's random numbers. */
#define PAIR_N (W_MAJOR ? true : DROPOUT > 0)
#define SHARED_WORDS (SUM_QUADS == 2)

#define TILES_M ((M + TILE_M - 1) / TILE_M)
#define TILES_N ((N + TILE_N - 1) / TILE_N)
/* Slabs end where the sum does. */
#define WHOLE_SLABS (X_MAJOR ? false : K % TILE_K == 0)

/* Four elements of a row of N from `column` on. */
#define LOAD_FOUR(v, name, at, column)                                                                                 \
    {                                                                                                                  \
        if (ALIGNED != 0) {                                                                                            \
            v = LOAD_QUAD(name, at);                                                                                   \
        } else {                                                                                                       \
            LOAD_SOME(v, name, at, column, N);                                                                         \
        }                                                                                                              \
    }
#define STORE_FOUR(name, at, v, column)                                                                                \
    {                                                                                                                  \
        if (ALIGNED != 0) {                                                                                            \
            STORE_QUAD(name, at, v);                                                                                   \
        } else {                                                                                                       \
            STORE_SOME(name, at, v, column, N);                                                                        \
        }                                                                                                              \
    }

/* This work-item's blocks: where they begin, how many rows there are from there on (and where k is slow, how many k),
 * where they go, and what is on its way to them. */
uint block_at[BLOCKS], block_to[BLOCKS], block_end[BLOCKS];
int block_rows[BLOCKS];
uvec4 raw[BLOCKS * 4];

/* Whether there is k0 + r of a block whose k is slow: written for few registers. */
#define K_THERE(b, r) (WHOLE_SLABS ? block_rows[b] > 0 : k0 + r < block_end[b])

/* Starts the loads of this work-item's blocks of the slab at k0. */
void fetch_slab(const uint k0, const uint depth)
{
    UNROLL
    for (uint b = 0; b < BLOCKS; b++) {
        const uint block = local_number() + b * LOCAL_SIZE;
        const uint k = k0 + block_k(block, X_MAJOR, W_MAJOR);
        const uint end = WHOLE_SLABS ? k + VECTOR : depth;
        const uint left = ALIGNED != 0 ? VECTOR : max(block_rows[b], 0);
        if (block < BLOCKS_X) {
            UNROLL
            for (int r = 0; r < 4; r++) {
                if (X_MAJOR) {
                    FETCH_VECTOR(raw[b * 4 + r], x, block_at[b] + (k0 + r) * X_STRIDE, K_THERE(b, r), 0, left,
                             ALIGNED != 0);
                } else {
                    FETCH_VECTOR(raw[b * 4 + r], x, block_at[b] + k0 + r * X_STRIDE, r < block_rows[b], k, end,
                                 ALIGNED != 0);
                }
            }
        } else if (block < BLOCKS_X + BLOCKS_W) {
            UNROLL
            for (int r = 0; r < 4; r++) {
                if (W_MAJOR) {
                    FETCH_VECTOR(raw[b * 4 + r], w, block_at[b] + (k0 + r) * W_STRIDE, K_THERE(b, r), 0, left,
                             ALIGNED != 0);
                } else {
                    FETCH_VECTOR(raw[b * 4 + r], w, block_at[b] + k0 + r * W_STRIDE, r < block_rows[b], k, end,
                                 ALIGNED != 0);
                }
            }
        }
    }
}

void store_floats(const uint at, const vec4 v, const uint column)
{
    if (ALIGNED != 0) {
        partials_quads[at / 4] = v;
    } else {
        if (column < N) partials[at] = v.x;
        if (column + 1 < N) partials[at + 1] = v.y;
        if (column + 2 < N) partials[at + 2] = v.z;
        if (column + 3 < N) partials[at + 3] = v.w;
    }
}

void main()
{
    const uint rows = batch[ROWS];
    const uint row_end = X_MAJOR ? M : rows;
    const uint part = PARTS ? group_number() / (TILES_M * TILES_N) : 0;
    const uint row0 = (PARTS ? group_number() / TILES_N % TILES_M : group_number() / TILES_N) * TILE_M;
    const uint column0 = group_number() % TILES_N * TILE_N;
    const uint begin = part * PART_ROWS;
    const uint depth = PARTS ? min(begin + PART_ROWS, rows) : X_MAJOR ? rows : K;
    if (PARTS ? begin < rows : row0 < row_end) {
        UNROLL
        for (uint b = 0; b < BLOCKS; b++) {
            const uint block = local_number() + b * LOCAL_SIZE;
            const uint place = block_place(block, X_MAJOR, W_MAJOR);
            const uint k = block_k(block, X_MAJOR, W_MAJOR);
            const uint row = block < BLOCKS_X ? row0 + place_quad(place, QUADS_M, X_MAJOR) * 4
                                              : column0 + place_quad(place, QUADS_N, PAIR_N) * 4;
            if (block < BLOCKS_X)
                block_at[b] = X_OFFSET + (X_MAJOR ? k * X_STRIDE + row : row * X_STRIDE + k);
            else
                block_at[b] = W_OFFSET + (W_MAJOR ? k * W_STRIDE + row : row * W_STRIDE + k);
            block_rows[b] = int(block < BLOCKS_X ? row_end : N) - int(row);
            block_end[b] = block_rows[b] > 0 && k < depth ? depth - k : 0;
            block_to[b] = k * (block < BLOCKS_X ? QUADS_M : QUADS_N) + place + (block < BLOCKS_X ? 0 : TILE_X_QUADS);
        }

        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] = vec4(0.0);

        fetch_slab(begin, depth);
        for (uint k0 = begin; k0 < depth; k0 += TILE_K) {
            barrier(); /* nobody reads the slab before any more */
            UNROLL
            for (uint b = 0; b < BLOCKS; b++) {
                const uint block = local_number() + b * LOCAL_SIZE;
                const uint quads = block < BLOCKS_X ? QUADS_M : QUADS_N;
                if (block < BLOCKS_X + BLOCKS_W) {
                    if (block < BLOCKS_X ? X_MAJOR : W_MAJOR) {
                        PUT_VECTORS(tile, block_to[b], quads, raw, b * 4);
                    } else {
                        PUT_ROWS(tile, block_to[b], quads, raw, b * 4);
                    }
                }
            }
            barrier();
            if (k0 + TILE_K < depth) fetch_slab(k0 + TILE_K, depth);
            multiply();
        }

        if (EPILOGUE_SUMS) barrier(); /* the sums take the last slab's place: THREADS_M is at most TILE_K */
        uvec4 words[THREAD_M];
        UNROLL
        for (uint j = 0; j < SUM_QUADS; j++) {
            const uint column = column0 + sum_column(j, PAIR_N);
            vec4 b = vec4(0.0);
            if (BIAS != 0) LOAD_SOME(b, bias, column, column, N);
            vec4 total = vec4(0.0);
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                const uint row = row0 + sum_row(i, X_MAJOR);
                if (row < row_end && column < N) {
                    vec4 v = sum[i * SUM_QUADS + j] + b;
                    if (SUM != 0) STORE_FOUR(before, row * N + column, v, column);
                    v = vec4(activate(ACTIVATION, v.x), activate(ACTIVATION, v.y), activate(ACTIVATION, v.z),
                             activate(ACTIVATION, v.w));
                    if (DROPOUT > 0) {
                        if (SHARED_WORDS ? j == 0 : true) words[i] = dropout_words(row, column);
                        v *= dropout_half(words[i], SHARED_WORDS ? j != 0 : column % 8 != 0);
                    }
                    if (DERIVATIVE != 0) {
                        vec4 d;
                        LOAD_FOUR(d, saved, row * N + column, column);
                        v *= vec4(derivative(DERIVATIVE, d.x), derivative(DERIVATIVE, d.y), derivative(DERIVATIVE, d.z),
                                  derivative(DERIVATIVE, d.w));
                    }
                    if (RESIDUAL != 0) {
                        vec4 r;
                        LOAD_FOUR(r, residual, row * N + column, column);
                        v += r;
                    }
                    if (EPILOGUE_SUMS) total += v;
                    if (PARTS) {
                        store_floats((part * M + row) * N + column, v, column);
                    } else {
                        STORE_FOUR(y, Y_OFFSET + row * Y_STRIDE + column, v, column);
                    }
                }
            }
            if (EPILOGUE_SUMS) tile[thread_m() * QUADS_N + j * THREADS_N + thread_n()] = total;
        }
        if (EPILOGUE_SUMS) {
            barrier();
            for (uint place = local_number(); place < QUADS_N; place += LOCAL_SIZE) {
                const uint column = column0 + place_quad(place, QUADS_N, PAIR_N) * 4;
                vec4 total = tile[place];
                for (uint m = 1; m < THREADS_M; m++) total += tile[m * QUADS_N + place];
                if (column < N) store_floats(row0 / TILE_M * N + column, total, column);
            }
        }
    }
}
