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

#define UNROLL_K _Pragma("unroll 2") /* with 4, NVIDIA's compiler takes more than 128 registers */
#include "tile.h"
#include "dropout.h"
#include "formulas.h"
#include "gemm_arguments.h"
#include "gate.h"
#include "rotary.h"

#ifndef PART_ROWS
#define PART_ROWS TILE_K
#endif

/* Quads of columns lie paired: then a unit's two are read without bank conflicts. */
#define PAIR_N true

/* `rows` is the batch's number of them. */
#define END_M (BATCH_M ? rows : M)
#define END_N (BATCH_N ? rows : N)
#define TILES_M ((END_M + TILE_M - 1) / TILE_M)
#define TILES_N (BATCH_N ? max((rows + TILE_N - 1) / TILE_N, 1u) : (N + TILE_N - 1) / TILE_N) /* no batch: no row */
/* Stages end where the sum does. */
#define WHOLE_STAGES (!BATCH_K && K % TILE_K == 0)

/* The sums go to memory by way of the stages' place in shared memory, where a work-item takes eight columns side by side
 * and every LANES-th row: wide accesses, one call of dropout's generator, and a loop instead of code and registers for
 * all of a work-item's sums at once. As many rows of sums as there is place for make a chunk, in which a work-item has
 * CHUNK of its THREAD_M rows; that is at least one, because THREADS_M is at most TILE_K. */
#define UNITS_N (TILE_N / 8)
#define LANES (LOCAL_SIZE / UNITS_N)
#define CHUNK_PLACE ((TILE_X_QUADS + TILE_W_QUADS) / (THREADS_M * QUADS_N))
#define CHUNK (CHUNK_PLACE >= THREAD_M ? THREAD_M : CHUNK_PLACE >= 4 ? 4 : CHUNK_PLACE >= 2 ? 2 : 1)

/* Whether the loop over chunks stays one. Without an epilogue it costs more than it saves. */
#if FORM == GEMM_NT && (ACTIVATION || DROPOUT || RESIDUAL)
#define FOR_CHUNKS ROLLED for
#else
#define FOR_CHUNKS UNROLL for
#endif

/* Eight elements of a row of `end` from `column` on, a multiple of 8; of a row of the output. */
#if ALIGNED
#define LOAD_OF(v, name, at, column, end) LOAD_EIGHT(v, name, at, (column) + 4 < (end))
#define STORE_OF(name, at, v, column, end) STORE_EIGHT(name, at, v, (column) + 4 < (end))
#else
#define LOAD_OF(v, name, at, column, end)                                                                              \
    LOAD_SOME((v)[0], name, at, column, end);                                                                          \
    LOAD_SOME((v)[1], name, (at) + 4, (column) + 4, end)
#define STORE_OF(name, at, v, column, end)                                                                             \
    STORE_SOME(name, at, (v)[0], column, end);                                                                         \
    STORE_SOME(name, (at) + 4, (v)[1], (column) + 4, end)
#endif
#define LOAD_UNIT(v, name, at, column) LOAD_OF(v, name, at, column, END_N)
#define STORE_UNIT(name, at, v, column) STORE_OF(name, at, v, column, END_N)

/* What eight pairs made of, four results: half as long rows may begin on eight bytes. */
#if ALIGNED && N % 8 == 0
#define STORE_GATED(at, v, column) STORE_QUAD(y, at, v)
#else
#define STORE_GATED(at, v, column) STORE_SOME(y, at, v, column, N / 2)
#endif

/* Whether there is k0 + r of a block whose k is slow: written for few registers. */
#define K_THERE(b, r) (WHOLE_STAGES ? block_rows[b] > 0 : k0 + r < block_end[b])

/* Starts the loads of this work-item's blocks of the stage at k0. */
INLINE void fetch_stage(__global const storage *x, __global const weight *w, const uint *block_at,
                       const int *block_rows, const uint *block_end, const uint k0, const uint depth, uint4 *raw)
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
#if X_MAJOR
                FETCH_VECTOR(raw[b * 4 + r], x, block_at[b] + (k0 + r) * X_STRIDE, K_THERE(b, r), 0, left,
                             ALIGNED != 0);
#else
                /* What lies after the batch's rows may be no number. */
                FETCH_VECTOR(raw[b * 4 + r], x, block_at[b] + k0 + r * X_STRIDE, r < block_rows[b], k, end,
                             ALIGNED != 0 && (!BATCH_K || k + VECTOR <= end));
#endif
            }
        } else if (block < BLOCKS_X + BLOCKS_W) {
            UNROLL
            for (int r = 0; r < 4; r++) {
#if W_MAJOR
                FETCH_VECTOR(raw[b * 4 + r], w, block_at[b] + (k0 + r) * W_STRIDE, K_THERE(b, r), 0, left,
                             ALIGNED != 0);
#elif SCALES
                raw[b * 4 + r] = fetch_bytes(w, block_at[b] + k0 + r * W_STRIDE, r < block_rows[b], k, end, ALIGNED != 0);
#else
                FETCH_VECTOR(raw[b * 4 + r], w, block_at[b] + k0 + r * W_STRIDE, r < block_rows[b], k, end,
                             ALIGNED != 0);
#endif
            }
        }
    }
}

#if SCALES
INLINE float4 load_scales(__global const float *from, const uint column)
{
    return (float4)(column < N ? from[column] : 0.0f, column + 1 < N ? from[column + 1] : 0.0f,
                    column + 2 < N ? from[column + 2] : 0.0f, column + 3 < N ? from[column + 3] : 0.0f);
}
#endif

#if COLUMN_SUMS
INLINE void store_floats(__global float *to, const uint at, const float4 *v, const uint column)
{
    UNROLL
    for (uint c = 0; c < 2; c++) {
#if ALIGNED
        if (column + c * 4 < N) *(__global float4 *)(to + at + c * 4) = v[c];
#else
        if (column + c * 4 < N) to[at + c * 4] = v[c].x;
        if (column + c * 4 + 1 < N) to[at + c * 4 + 1] = v[c].y;
        if (column + c * 4 + 2 < N) to[at + c * 4 + 2] = v[c].z;
        if (column + c * 4 + 3 < N) to[at + c * 4 + 3] = v[c].w;
#endif
    }
}
#endif

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void gemm(PRODUCT_ARGUMENTS)
{
    BEGIN_PRODUCT;
    __local float4 tile[TILE_X_QUADS + TILE_W_QUADS];

    const uint rows = batch[ROWS];
    const uint part = PARTS ? group_number() / (TILES_M * TILES_N) : 0;
    const uint row0 = (PARTS ? group_number() / TILES_N % TILES_M : group_number() / TILES_N) * TILE_M;
    const uint column0 = group_number() % TILES_N * TILE_N;
    const uint begin = part * PART_ROWS;
    const uint depth = PARTS ? min(begin + PART_ROWS, rows) : BATCH_K ? rows : K;
    if (PARTS ? begin < rows : row0 < END_M) {
        /* This work-item's blocks: where they begin, how many rows there are from there on (and where k is slow, how
         * many k), and where they go. */
        uint block_at[BLOCKS], block_to[BLOCKS], block_end[BLOCKS];
        int block_rows[BLOCKS];
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
            block_rows[b] = (int)(block < BLOCKS_X ? END_M : END_N) - (int)row;
            block_end[b] = block_rows[b] > 0 && k < depth ? depth - k : 0;
            block_to[b] = k * (block < BLOCKS_X ? QUADS_M : QUADS_N) + place + (block < BLOCKS_X ? 0 : TILE_X_QUADS);
        }

        float4 sum[SUMS];
        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] = (float4)(0.0f);

        uint4 raw[BLOCKS * 4];
        fetch_stage(x, w, block_at, block_rows, block_end, begin, depth, raw);
        for (uint k0 = begin; k0 < depth; k0 += TILE_K) {
            barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the stage before any more */
            UNROLL
            for (uint b = 0; b < BLOCKS; b++) {
                const uint block = local_number() + b * LOCAL_SIZE;
                const uint quads = block < BLOCKS_X ? QUADS_M : QUADS_N;
                if (block < BLOCKS_X + BLOCKS_W) {
#if SCALES
                    if (block >= BLOCKS_X) {
                        UNROLL
                        for (uint r = 0; r < 4; r++) raw[b * 4 + r] = widen_bytes(raw[b * 4 + r]);
                    }
#endif
                    if (block < BLOCKS_X ? X_MAJOR : W_MAJOR)
                        PUT_VECTORS(tile, block_to[b], quads, raw, b * 4);
                    else
                        PUT_ROWS(tile, block_to[b], quads, raw, b * 4);
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (k0 + TILE_K < depth) fetch_stage(x, w, block_at, block_rows, block_end, k0 + TILE_K, depth, raw);
            multiply(tile, sum);
        }

        /* The same columns in all rows. */
        const uint unit = local_number() % UNITS_N, lane = local_number() / UNITS_N, column = column0 + unit * 8;
        /* Without a bias, zeros of which no compiler knows: sums that went straight to shared memory would have to lie
         * in the order of its quads in registers, where the inner loop is slower. */
        float4 b[SUM_QUADS];
#if SCALES
        float4 scale[SUM_QUADS];
#endif
        UNROLL
        for (uint j = 0; j < SUM_QUADS; j++) {
            b[j] = (float4)((float)(rows >> 31));
#if BIAS && !BATCH_N
            const uint c = column0 + sum_column(j, PAIR_N);
            LOAD_SOME(b[j], bias, c, c, N);
#endif
#if SCALES
            scale[j] = load_scales(scales, column0 + sum_column(j, PAIR_N));
#endif
        }
#if DROPOUT && BATCH_N && !KEPT
        const uint4 key = dropout_key(batch, site);
#endif
#if EPILOGUE_SUMS && !BATCH_N
        float4 total[2] = {(float4)(0.0f), (float4)(0.0f)};
#endif
        FOR_CHUNKS (uint chunk = 0; chunk < THREAD_M; chunk += CHUNK) {
            barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the last stage or chunk any more */
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                if (i / CHUNK * CHUNK == chunk) {
                    UNROLL
                    for (uint j = 0; j < SUM_QUADS; j++)
                        tile[(i % CHUNK * THREADS_M + thread_m()) * QUADS_N + j * THREADS_N + thread_n()] =
#if SCALES
                            fma(sum[i * SUM_QUADS + j], scale[j], b[j]);
#else
                            sum[i * SUM_QUADS + j] + b[j];
#endif
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            ROLLED
            for (uint at = lane; at < CHUNK * THREADS_M; at += LANES) {
                const uint row = row0 + sum_row_of(chunk + at / THREADS_M, at % THREADS_M, X_MAJOR);
#if EPILOGUE_SUMS && BATCH_N
                float of_tokens = 0.0f;
#endif
                if (row < END_M && column < END_N) {
                    float4 v[2] = {tile[at * QUADS_N + unit], tile[at * QUADS_N + QUADS_N / 2 + unit]};
#if BIAS && BATCH_N
                    const float of_row = LOAD(bias, row);
                    v[0] += of_row;
                    v[1] += of_row;
#endif
#if SUM
                    STORE_UNIT(before, row * Y_STRIDE + column, v, column);
#endif
#if ROTARY
                    const uint at_position = positions[row];
                    v[0] = rotary_quad(v[0], position, at_position, column);
                    v[1] = rotary_quad(v[1], position, at_position, column + 4);
#endif
#if GATE && !DERIVATIVE
                    float4 gated = (float4)(gate_quad(v[0]), gate_quad(v[1]));
#if DROPOUT
                    gated *= dropout_quad(batch, site, row, column / 2);
#endif
                    STORE_GATED(row * (N / 2) + column / 2, gated, column / 2);
                    continue;
#endif
                    UNROLL
                    for (uint c = 0; c < 2; c++)
                        /* In pairs, as in pack_vector: Oclgrind stores four scalars twice. */
                        v[c] = (float4)((float2)(activate(ACTIVATION, v[c].x), activate(ACTIVATION, v[c].y)),
                                        (float2)(activate(ACTIVATION, v[c].z), activate(ACTIVATION, v[c].w)));
#if KEPT
                    v[0] *= DROPOUT_SCALE;
                    v[1] *= DROPOUT_SCALE;
#elif DROPOUT && BATCH_N
                    UNROLL
                    for (uint c = 0; c < 2; c++)
                        v[c] *= (float4)(dropout_factor(key, column + c * 4, row),
                                         dropout_factor(key, column + c * 4 + 1, row),
                                         dropout_factor(key, column + c * 4 + 2, row),
                                         dropout_factor(key, column + c * 4 + 3, row));
#elif DROPOUT
                    const uint4 words = dropout_words(batch, site, row, column);
                    v[0] *= dropout_half(words, false);
                    v[1] *= dropout_half(words, true);
#endif
#if GATE && DERIVATIVE
                    UNROLL
                    for (uint c = 0; c < 2; c++) {
                        if (column + c * 4 < N) {
                            const uint pairs_at = 2 * (row * N + column + c * 4), pair = 2 * (column + c * 4);
                            float4 pairs[2];
                            LOAD_OF(pairs, saved, pairs_at, pair, 2 * N);
                            pairs[0] = gate_gradient(pairs[0], v[c].xy);
                            pairs[1] = gate_gradient(pairs[1], v[c].zw);
                            STORE_OF(y, pairs_at, pairs, pair, 2 * N);
                        }
                    }
                    continue;
#elif DERIVATIVE
                    float4 d[2];
                    LOAD_UNIT(d, saved, row * Y_STRIDE + column, column);
                    UNROLL
                    for (uint c = 0; c < 2; c++)
                        v[c] *= (float4)(derivative(DERIVATIVE, d[c].x), derivative(DERIVATIVE, d[c].y),
                                         derivative(DERIVATIVE, d[c].z), derivative(DERIVATIVE, d[c].w));
#endif
#if RESIDUAL
                    float4 r[2];
                    LOAD_UNIT(r, residual, row * Y_STRIDE + column, column);
                    v[0] += r[0];
                    v[1] += r[1];
#endif
#if EPILOGUE_SUMS && BATCH_N
                    UNROLL
                    for (uint c = 0; c < 2; c++) {
                        const uint at_column = column + c * 4;
                        of_tokens += at_column < rows ? v[c].x : 0.0f;
                        of_tokens += at_column + 1 < rows ? v[c].y : 0.0f;
                        of_tokens += at_column + 2 < rows ? v[c].z : 0.0f;
                        of_tokens += at_column + 3 < rows ? v[c].w : 0.0f;
                    }
#elif EPILOGUE_SUMS
                    total[0] += v[0];
                    total[1] += v[1];
#endif
#if PARTS
                    store_floats(partials, (part * M + row) * N + column, v, column);
#else
                    STORE_UNIT(y, Y_OFFSET + row * Y_STRIDE + column, v, column);
#endif
                }
#if EPILOGUE_SUMS && BATCH_N
                tile[at * QUADS_N + unit].x = of_tokens; /* in the place of what only this work-item read */
#endif
            }
#if EPILOGUE_SUMS && BATCH_N
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint at = local_number(); at < CHUNK * THREADS_M; at += LOCAL_SIZE) {
                const uint row = row0 + sum_row_of(chunk + at / THREADS_M, at % THREADS_M, X_MAJOR);
                float sums = 0.0f;
                for (uint u = 0; u < UNITS_N; u++) sums += tile[at * QUADS_N + u].x;
                if (row < M) partials[column0 / TILE_N * M + row] = sums;
            }
#endif
        }
#if EPILOGUE_SUMS && !BATCH_N
        barrier(CLK_LOCAL_MEM_FENCE);
        tile[lane * QUADS_N + unit * 2] = total[0];
        tile[lane * QUADS_N + unit * 2 + 1] = total[1];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane == 0 && column < N) {
            UNROLL
            for (uint c = 0; c < 2; c++) {
                total[c] = tile[unit * 2 + c];
                for (uint m = 1; m < LANES; m++) total[c] += tile[m * QUADS_N + unit * 2 + c];
            }
            store_floats(partials, row0 / TILE_M * N + column, total, column);
        }
#endif
        LAST_BARRIER;
    }
}
