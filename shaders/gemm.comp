#version 450
#extension GL_GOOGLE_include_directive : require
/* The matrix products with a weight. FORM says which:
 * GEMM_NT: y[r][n] = epilogue(sum over k of x[r][k] * w[n][k]);
 * GEMM_NN: y[r][n] = epilogue(sum over k of x[r][k] * w[k][n]);
 * GEMM_TN: y[m][n] = sum over rows r of x[r][m] * w[r][n], the weight's gradient.
 * RUNTIME says which of the sizes is the batch's number of rows, where it is another one.
 * One work-group per tile of y, columns fastest. While a stage is multiplied, the next one is on its way from memory to
 * registers.
 *
 * GATE: neighbouring columns are a pair, of which one goes through the activation and is multiplied by the other; y has
 * rows of N / 2. With DERIVATIVE it is the gradient: a column is that of what a pair made, and y has rows of 2 N.
 * ROTARY: pairs of Q and K are turned.
 * SCALES: w has elements of 8 bits, which are multiplied as they are; the sums of a column are then scaled.
 *
 * COLUMN_SUMS: the epilogue's results are also summed over each tile's share of the batch's rows, to
 * partials[row tile][N] or, where those are columns, partials[column tile][M]. A weight's gradient, which sums over
 * them itself, has few tiles and long sums instead of an epilogue, so there it cuts the sum: as many times the tiles as
 * there are parts of PART_ROWS rows, the parts slowest, and their sums go to partials[part][M][N] instead of y. */
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
layout(constant_id = CONST_GATE) const uint GATE = GATE_NONE;
layout(constant_id = CONST_ROTARY) const uint ROTARY = ROTARY_NONE;
layout(constant_id = CONST_SCALES) const uint SCALES = 0;
layout(constant_id = CONST_QKV_INTERLEAVED) const uint QKV_INTERLEAVED = 0;
layout(constant_id = CONST_HEAD_DIM) const uint HEAD_DIM = 8;
layout(constant_id = CONST_COLUMN_SUMS) const uint COLUMN_SUMS = 0;
layout(constant_id = CONST_PART_ROWS) const uint PART_ROWS = 16;
layout(constant_id = CONST_RUNTIME) const uint RUNTIME = RUNTIME_FORM;

/* Which size is the batch's number of rows. */
#define BATCH_M (RUNTIME == RUNTIME_FORM ? FORM != GEMM_TN : RUNTIME == RUNTIME_M)
#define BATCH_N (RUNTIME == RUNTIME_N)
#define BATCH_K (RUNTIME == RUNTIME_FORM ? FORM == GEMM_TN : RUNTIME == RUNTIME_K)
/* Whether k is the slow dimension of an operand. */
#define X_MAJOR (FORM == GEMM_TN)
#define W_MAJOR (FORM != GEMM_NT)
/* Sums over the batch's rows in parts, and the results' sums over them. */
#define PARTS (BATCH_K ? COLUMN_SUMS != 0 : false)
#define EPILOGUE_SUMS (BATCH_K ? false : COLUMN_SUMS != 0)

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
layout(set = 0, binding = SLOT_W) restrict readonly buffer w_words { uint w_bytes[]; };
layout(set = 0, binding = SLOT_W) restrict readonly buffer w_floats { float scales[]; };
INPUT(SLOT_BIAS, bias);
INPUT(SLOT_RESIDUAL, residual);
INPUT(SLOT_SAVED, saved);
INPUT_OF(SLOT_POSITIONS, uint, positions);
INPUT_OF(SLOT_POSITION, float, position);
OUTPUT_OF(SLOT_PARTIALS, float, partials);
layout(set = 0, binding = SLOT_PARTIALS) restrict writeonly buffer partials_pairs { vec4 partials_quads[]; };
OUTPUT(SLOT_Y, y);
OUTPUT(SLOT_SUM, before);
#include "dropout.glsl"
#include "gate.glsl"
#include "rotary.glsl"

/* Quads of columns lie paired: then a unit's two are read without bank conflicts. */
#define PAIR_N true

/* `rows` is the batch's number of them. */
#define END_M (BATCH_M ? rows : M)
#define END_N (BATCH_N ? rows : N)
#define TILES_M ((END_M + TILE_M - 1) / TILE_M)
#define TILES_N (BATCH_N ? max((rows + TILE_N - 1) / TILE_N, 1u) : (N + TILE_N - 1) / TILE_N) /* no batch: no row */
/* Stages end where the sum does. */
#define WHOLE_STAGES (BATCH_K ? false : K % TILE_K == 0)

/* The sums go to memory by way of the stages' place in shared memory, where a work-item takes eight columns side by side
 * and every LANES-th row: wide accesses, one call of dropout's generator, and a loop instead of code and registers for
 * all of a work-item's sums at once. As many rows of sums as there is place for make a chunk, in which a work-item has
 * CHUNK of its THREAD_M rows; that is at least one, because THREADS_M is at most TILE_K. */
#define UNITS_N (TILE_N / 8)
#define LANES (LOCAL_SIZE / UNITS_N)
#define CHUNK_PLACE ((TILE_X_QUADS + TILE_W_QUADS) / (THREADS_M * QUADS_N))
#define CHUNK (CHUNK_PLACE >= THREAD_M ? THREAD_M : CHUNK_PLACE >= 4 ? 4 : CHUNK_PLACE >= 2 ? 2 : 1)

/* Eight elements of a row of `end` from `column` on, a multiple of 8; of a row of the output. */
#define LOAD_OF(v, name, at, column, end)                                                                              \
    {                                                                                                                  \
        if (ALIGNED != 0) {                                                                                            \
            LOAD_EIGHT(v, name, at, (column) + 4 < (end));                                                             \
        } else {                                                                                                       \
            LOAD_SOME(v[0], name, at, column, end);                                                                    \
            LOAD_SOME(v[1], name, (at) + 4, (column) + 4, end);                                                        \
        }                                                                                                              \
    }
#define STORE_OF(name, at, v, column, end)                                                                             \
    {                                                                                                                  \
        if (ALIGNED != 0) {                                                                                            \
            STORE_EIGHT(name, at, v, (column) + 4 < (end));                                                            \
        } else {                                                                                                       \
            STORE_SOME(name, at, v[0], column, end);                                                                   \
            STORE_SOME(name, (at) + 4, v[1], (column) + 4, end);                                                       \
        }                                                                                                              \
    }
#define LOAD_UNIT(v, name, at, column) LOAD_OF(v, name, at, column, END_N)
#define STORE_UNIT(name, at, v, column) STORE_OF(name, at, v, column, END_N)

/* This work-item's blocks: where they begin, how many rows there are from there on (and where k is slow, how many k),
 * where they go, and what is on its way to them. */
uint block_at[BLOCKS], block_to[BLOCKS], block_end[BLOCKS];
int block_rows[BLOCKS];
uvec4 raw[BLOCKS * 4];

/* Whether there is k0 + r of a block whose k is slow: written for few registers. */
#define K_THERE(b, r) (WHOLE_STAGES ? block_rows[b] > 0 : k0 + r < block_end[b])

/* Starts the loads of this work-item's blocks of the stage at k0. */
void fetch_stage(const uint k0, const uint depth)
{
    UNROLL
    for (uint b = 0; b < BLOCKS; b++) {
        const uint block = local_number() + b * LOCAL_SIZE;
        const uint k = k0 + block_k(block, X_MAJOR, W_MAJOR);
        const uint end = WHOLE_STAGES ? k + VECTOR : depth;
        const uint left = ALIGNED != 0 ? VECTOR : max(block_rows[b], 0);
        if (block < BLOCKS_X) {
            UNROLL
            for (int r = 0; r < 4; r++) {
                if (X_MAJOR) {
                    FETCH_VECTOR(raw[b * 4 + r], x, block_at[b] + (k0 + r) * X_STRIDE, K_THERE(b, r), 0, left,
                             ALIGNED != 0);
                } else {
                    /* What lies after the batch's rows may be no number. */
                    FETCH_VECTOR(raw[b * 4 + r], x, block_at[b] + k0 + r * X_STRIDE, r < block_rows[b], k, end,
                                 ALIGNED != 0 && (!(BATCH_K) || k + VECTOR <= end));
                }
            }
        } else if (block < BLOCKS_X + BLOCKS_W) {
            UNROLL
            for (int r = 0; r < 4; r++) {
                if (W_MAJOR) {
                    FETCH_VECTOR(raw[b * 4 + r], w, block_at[b] + (k0 + r) * W_STRIDE, K_THERE(b, r), 0, left,
                             ALIGNED != 0);
                } else if (SCALES != 0) {
                    FETCH_BYTES(raw[b * 4 + r], w_bytes, block_at[b] + k0 + r * W_STRIDE, r < block_rows[b], k, end,
                                ALIGNED != 0);
                } else {
                    FETCH_VECTOR(raw[b * 4 + r], w, block_at[b] + k0 + r * W_STRIDE, r < block_rows[b], k, end,
                                 ALIGNED != 0);
                }
            }
        }
    }
}

void store_floats(const uint at, const vec4 v[2], const uint column)
{
    UNROLL
    for (uint c = 0; c < 2; c++) {
        if (ALIGNED != 0) {
            if (column + c * 4 < N) partials_quads[at / 4 + c] = v[c];
        } else {
            if (column + c * 4 < N) partials[at + c * 4] = v[c].x;
            if (column + c * 4 + 1 < N) partials[at + c * 4 + 1] = v[c].y;
            if (column + c * 4 + 2 < N) partials[at + c * 4 + 2] = v[c].z;
            if (column + c * 4 + 3 < N) partials[at + c * 4 + 3] = v[c].w;
        }
    }
}

void main()
{
    const uint rows = batch[ROWS];
    const uint part = PARTS ? group_number() / (TILES_M * TILES_N) : 0;
    const uint row0 = (PARTS ? group_number() / TILES_N % TILES_M : group_number() / TILES_N) * TILE_M;
    const uint column0 = group_number() % TILES_N * TILE_N;
    const uint begin = part * PART_ROWS;
    const uint depth = PARTS ? min(begin + PART_ROWS, rows) : BATCH_K ? rows : K;
    if (PARTS ? begin < rows : row0 < END_M) {
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
            block_rows[b] = int(block < BLOCKS_X ? END_M : END_N) - int(row);
            block_end[b] = block_rows[b] > 0 && k < depth ? depth - k : 0;
            block_to[b] = k * (block < BLOCKS_X ? QUADS_M : QUADS_N) + place + (block < BLOCKS_X ? 0 : TILE_X_QUADS);
        }

        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] = vec4(0.0);

        fetch_stage(begin, depth);
        for (uint k0 = begin; k0 < depth; k0 += TILE_K) {
            barrier(); /* nobody reads the stage before any more */
            UNROLL
            for (uint b = 0; b < BLOCKS; b++) {
                const uint block = local_number() + b * LOCAL_SIZE;
                const uint quads = block < BLOCKS_X ? QUADS_M : QUADS_N;
                if (block < BLOCKS_X + BLOCKS_W) {
                    if (SCALES != 0 && block >= BLOCKS_X) {
                        UNROLL
                        for (uint r = 0; r < 4; r++) WIDEN_BYTES(raw[b * 4 + r])
                    }
                    if (block < BLOCKS_X ? X_MAJOR : W_MAJOR) {
                        PUT_VECTORS(tile, block_to[b], quads, raw, b * 4);
                    } else {
                        PUT_ROWS(tile, block_to[b], quads, raw, b * 4);
                    }
                }
            }
            barrier();
            if (k0 + TILE_K < depth) fetch_stage(k0 + TILE_K, depth);
            multiply();
        }

        /* Without a bias, zeros of which no compiler knows: sums that went straight to shared memory would have to lie
         * in the order of its quads in registers, where the inner loop is slower. */
        vec4 b[SUM_QUADS], scale[SUM_QUADS];
        UNROLL
        for (uint j = 0; j < SUM_QUADS; j++) {
            b[j] = vec4(float(rows >> 31));
            if (BIAS != 0 && !BATCH_N) {
                const uint c = column0 + sum_column(j, PAIR_N);
                LOAD_SOME(b[j], bias, c, c, N);
            }
            scale[j] = vec4(1.0);
            if (SCALES != 0) {
                const uint c = column0 + sum_column(j, PAIR_N);
                UNROLL
                for (uint i = 0; i < 4; i++)
                    if (c + i < N) scale[j][i] = scales[SCALES + c + i];
            }
        }
        /* The same columns in all rows. */
        const uint unit = local_number() % UNITS_N, lane = local_number() / UNITS_N, column = column0 + unit * 8;
        vec4 total[2] = {vec4(0.0), vec4(0.0)};
        const uvec4 key = dropout_key();
        ROLLED
        for (uint chunk = 0; chunk < THREAD_M; chunk += CHUNK) {
            barrier(); /* nobody reads the last stage or chunk any more */
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                if (i / CHUNK * CHUNK == chunk) {
                    UNROLL
                    for (uint j = 0; j < SUM_QUADS; j++)
                        tile[(i % CHUNK * THREADS_M + thread_m()) * QUADS_N + j * THREADS_N + thread_n()] =
                            SCALES != 0 ? fma(sum[i * SUM_QUADS + j], scale[j], b[j]) : sum[i * SUM_QUADS + j] + b[j];
                }
            }
            barrier();
            ROLLED
            for (uint at = lane; at < CHUNK * THREADS_M; at += LANES) {
                const uint row = row0 + sum_row_of(chunk + at / THREADS_M, at % THREADS_M, X_MAJOR);
                float of_tokens = 0.0;
                if (row < END_M && column < END_N) {
                    vec4 v[2] = {tile[at * QUADS_N + unit], tile[at * QUADS_N + QUADS_N / 2 + unit]};
                    if (BIAS != 0 && BATCH_N) {
                        const float of_row = LOAD(bias, row);
                        v[0] += of_row;
                        v[1] += of_row;
                    }
                    if (SUM != 0) STORE_UNIT(before, row * Y_STRIDE + column, v, column);
                    if (ROTARY != 0) {
                        const uint at_position = positions[row];
                        ROTARY_QUAD(v[0], position, at_position, column)
                        ROTARY_QUAD(v[1], position, at_position, column + 4)
                    }
                    if (GATE != 0 && DERIVATIVE == 0) {
                        vec4 gated = vec4(gate_quad(v[0]), gate_quad(v[1]));
                        if (DROPOUT > 0) gated *= dropout_half(dropout_words(row, column / 2), column / 2 % 8 != 0);
                        STORE_SOME(y, row * (N / 2) + column / 2, gated, column / 2, N / 2);
                        continue;
                    }
                    UNROLL
                    for (uint c = 0; c < 2; c++)
                        v[c] = vec4(activate(ACTIVATION, v[c].x), activate(ACTIVATION, v[c].y),
                                    activate(ACTIVATION, v[c].z), activate(ACTIVATION, v[c].w));
                    if (KEPT > 0) {
                        v[0] *= DROPOUT_SCALE;
                        v[1] *= DROPOUT_SCALE;
                    } else if (DROPOUT > 0 && BATCH_N) {
                        UNROLL
                        for (uint c = 0; c < 2; c++)
                            v[c] *= vec4(dropout_factor(key, column + c * 4, row),
                                         dropout_factor(key, column + c * 4 + 1, row),
                                         dropout_factor(key, column + c * 4 + 2, row),
                                         dropout_factor(key, column + c * 4 + 3, row));
                    } else if (DROPOUT > 0) {
                        const uvec4 words = dropout_words(row, column);
                        v[0] *= dropout_half(words, false);
                        v[1] *= dropout_half(words, true);
                    }
                    if (GATE != 0) {
                        UNROLL
                        for (uint c = 0; c < 2; c++) {
                            if (column + c * 4 < N) {
                                const uint pairs_at = 2 * (row * N + column + c * 4), pair = 2 * (column + c * 4);
                                vec4 pairs[2];
                                LOAD_OF(pairs, saved, pairs_at, pair, 2 * N);
                                pairs[0] = gate_gradient(pairs[0], v[c].xy);
                                pairs[1] = gate_gradient(pairs[1], v[c].zw);
                                STORE_OF(y, pairs_at, pairs, pair, 2 * N);
                            }
                        }
                        continue;
                    } else if (DERIVATIVE != 0) {
                        vec4 d[2];
                        LOAD_UNIT(d, saved, row * Y_STRIDE + column, column);
                        UNROLL
                        for (uint c = 0; c < 2; c++)
                            v[c] *= vec4(derivative(DERIVATIVE, d[c].x), derivative(DERIVATIVE, d[c].y),
                                         derivative(DERIVATIVE, d[c].z), derivative(DERIVATIVE, d[c].w));
                    }
                    if (RESIDUAL != 0) {
                        vec4 r[2];
                        LOAD_UNIT(r, residual, row * Y_STRIDE + column, column);
                        v[0] += r[0];
                        v[1] += r[1];
                    }
                    if (EPILOGUE_SUMS && BATCH_N) {
                        UNROLL
                        for (uint c = 0; c < 8; c++) of_tokens += column + c < rows ? v[c / 4][c % 4] : 0.0;
                    } else if (EPILOGUE_SUMS) {
                        total[0] += v[0];
                        total[1] += v[1];
                    }
                    if (PARTS) {
                        store_floats((part * M + row) * N + column, v, column);
                    } else {
                        STORE_UNIT(y, Y_OFFSET + row * Y_STRIDE + column, v, column);
                    }
                }
                /* In the place of what only this work-item read. */
                if (EPILOGUE_SUMS && BATCH_N) tile[at * QUADS_N + unit].x = of_tokens;
            }
            if (EPILOGUE_SUMS && BATCH_N) {
                barrier();
                for (uint at = local_number(); at < CHUNK * THREADS_M; at += LOCAL_SIZE) {
                    const uint row = row0 + sum_row_of(chunk + at / THREADS_M, at % THREADS_M, X_MAJOR);
                    float sums = 0.0;
                    for (uint u = 0; u < UNITS_N; u++) sums += tile[at * QUADS_N + u].x;
                    if (row < M) partials[column0 / TILE_N * M + row] = sums;
                }
            }
        }
        if (EPILOGUE_SUMS && !BATCH_N) {
            barrier();
            tile[lane * QUADS_N + unit * 2] = total[0];
            tile[lane * QUADS_N + unit * 2 + 1] = total[1];
            barrier();
            if (lane == 0) {
                UNROLL
                for (uint c = 0; c < 2; c++) {
                    total[c] = tile[unit * 2 + c];
                    for (uint m = 1; m < LANES; m++) total[c] += tile[m * QUADS_N + unit * 2 + c];
                }
                if (column < N) store_floats(row0 / TILE_M * N + column, total, column);
            }
        }
    }
}
