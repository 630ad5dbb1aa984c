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
#include "tile.h"
#include "dropout.h"
#include "formulas.h"

#ifndef FORM
#define FORM GEMM_NT
#endif
#ifndef M
#define M 32
#endif
#ifndef N
#define N 32
#endif
#ifndef K
#define K 32
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif
#ifndef BIAS
#define BIAS 0
#endif
#ifndef ACTIVATION
#define ACTIVATION ACTIVATION_NONE
#endif
#ifndef RESIDUAL
#define RESIDUAL 0
#endif
#ifndef SUM
#define SUM 0
#endif
#ifndef DERIVATIVE
#define DERIVATIVE ACTIVATION_NONE
#endif
#ifndef COLUMN_SUMS
#define COLUMN_SUMS 0
#endif
#ifndef PART_ROWS
#define PART_ROWS TILE_K
#endif

/* Whether k is the slow dimension of an operand. */
#define X_MAJOR (FORM == GEMM_TN)
#define W_MAJOR (FORM != GEMM_NT)
/* GEMM_TN in parts, and the column sums of the other forms. */
#define PARTS (FORM == GEMM_TN && COLUMN_SUMS)
#define EPILOGUE_SUMS (FORM != GEMM_TN && COLUMN_SUMS)

#ifndef X_STRIDE
#define X_STRIDE (X_MAJOR ? M : K)
#endif
#ifndef X_OFFSET
#define X_OFFSET 0
#endif
#ifndef W_STRIDE
#define W_STRIDE (W_MAJOR ? N : K)
#endif
#ifndef W_OFFSET
#define W_OFFSET 0
#endif
#ifndef Y_STRIDE
#define Y_STRIDE N
#endif
#ifndef Y_OFFSET
#define Y_OFFSET 0
#endif

/* Eight columns side by side share dropout's random numbers. */
#define PAIR_N (W_MAJOR || DROPOUT > 0)
#define SHARED_WORDS (SUM_QUADS == 2)

#define TILES_M ((M + TILE_M - 1) / TILE_M)
#define TILES_N ((N + TILE_N - 1) / TILE_N)
/* Slabs end where the sum does. */
#define WHOLE_SLABS (!X_MAJOR && K % TILE_K == 0)

/* Four elements of a row of N from `column` on. */
#if ALIGNED
#define LOAD_FOUR(v, name, at, column) v = LOAD_QUAD(name, at)
#define STORE_FOUR(name, at, v, column) STORE_QUAD(name, at, v)
#else
#define LOAD_FOUR(v, name, at, column) LOAD_SOME(v, name, at, column, N)
#define STORE_FOUR(name, at, v, column) STORE_SOME(name, at, v, column, N)
#endif

/* Whether there is k0 + r of a block whose k is slow: written for few registers. */
#define K_THERE(b, r) (WHOLE_SLABS ? block_rows[b] > 0 : k0 + r < block_end[b])

/* Starts the loads of this work-item's blocks of the slab at k0. */
INLINE void fetch_slab(__global const storage *x, __global const storage *w, const uint *block_at,
                       const int *block_rows, const uint *block_end, const uint k0, const uint depth, uint4 *raw)
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
#if X_MAJOR
                FETCH_VECTOR(raw[b * 4 + r], x, block_at[b] + (k0 + r) * X_STRIDE, K_THERE(b, r), 0, left,
                             ALIGNED != 0);
#else
                FETCH_VECTOR(raw[b * 4 + r], x, block_at[b] + k0 + r * X_STRIDE, r < block_rows[b], k, end,
                             ALIGNED != 0);
#endif
            }
        } else if (block < BLOCKS_X + BLOCKS_W) {
            UNROLL
            for (int r = 0; r < 4; r++) {
#if W_MAJOR
                FETCH_VECTOR(raw[b * 4 + r], w, block_at[b] + (k0 + r) * W_STRIDE, K_THERE(b, r), 0, left,
                             ALIGNED != 0);
#else
                FETCH_VECTOR(raw[b * 4 + r], w, block_at[b] + k0 + r * W_STRIDE, r < block_rows[b], k, end,
                             ALIGNED != 0);
#endif
            }
        }
    }
}

#if COLUMN_SUMS
INLINE void store_floats(__global float *to, const uint at, const float4 v, const uint column)
{
#if ALIGNED
    *(__global float4 *)(to + at) = v;
#else
    if (column < N) to[at] = v.x;
    if (column + 1 < N) to[at + 1] = v.y;
    if (column + 2 < N) to[at + 2] = v.z;
    if (column + 3 < N) to[at + 3] = v.w;
#endif
}
#endif

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void gemm(INPUT_OF(uint, batch)
    , INPUT(x)
    , INPUT(w)
#if BIAS
    , INPUT(bias)
#endif
#if RESIDUAL
    , INPUT(residual)
#endif
#if DERIVATIVE
    , INPUT(saved)
#endif
#if COLUMN_SUMS
    , OUTPUT_OF(float, partials)
#endif
#if !PARTS
    , OUTPUT(y)
#endif
#if SUM
    , OUTPUT(before)
#endif
#if DROPOUT
    , const uint site
#endif
)
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(w);
#if BIAS
    BEGIN(bias);
#endif
#if RESIDUAL
    BEGIN(residual);
#endif
#if DERIVATIVE
    BEGIN(saved);
#endif
#if COLUMN_SUMS
    BEGIN_OUTPUT_OF(float, partials);
#endif
#if !PARTS
    BEGIN_OUTPUT(y);
#endif
#if SUM
    BEGIN_OUTPUT(before);
#endif
    __local float4 tile[TILE_X_QUADS + TILE_W_QUADS];

    const uint rows = batch[ROWS];
    const uint row_end = X_MAJOR ? M : rows;
    const uint part = PARTS ? group_number() / (TILES_M * TILES_N) : 0;
    const uint row0 = (PARTS ? group_number() / TILES_N % TILES_M : group_number() / TILES_N) * TILE_M;
    const uint column0 = group_number() % TILES_N * TILE_N;
    const uint begin = part * PART_ROWS;
    const uint depth = PARTS ? min(begin + PART_ROWS, rows) : X_MAJOR ? rows : K;
    if (PARTS ? begin < rows : row0 < row_end) {
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
            block_rows[b] = (int)(block < BLOCKS_X ? row_end : N) - (int)row;
            block_end[b] = block_rows[b] > 0 && k < depth ? depth - k : 0;
            block_to[b] = k * (block < BLOCKS_X ? QUADS_M : QUADS_N) + place + (block < BLOCKS_X ? 0 : TILE_X_QUADS);
        }

        float4 sum[SUMS];
        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] = (float4)(0.0f);

        uint4 raw[BLOCKS * 4];
        fetch_slab(x, w, block_at, block_rows, block_end, begin, depth, raw);
        for (uint k0 = begin; k0 < depth; k0 += TILE_K) {
            barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the slab before any more */
            UNROLL
            for (uint b = 0; b < BLOCKS; b++) {
                const uint block = local_number() + b * LOCAL_SIZE;
                const uint quads = block < BLOCKS_X ? QUADS_M : QUADS_N;
                if (block < BLOCKS_X + BLOCKS_W) {
                    if (block < BLOCKS_X ? X_MAJOR : W_MAJOR)
                        PUT_VECTORS(tile, block_to[b], quads, raw, b * 4);
                    else
                        PUT_ROWS(tile, block_to[b], quads, raw, b * 4);
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (k0 + TILE_K < depth) fetch_slab(x, w, block_at, block_rows, block_end, k0 + TILE_K, depth, raw);
            multiply(tile, sum);
        }

#if EPILOGUE_SUMS
        barrier(CLK_LOCAL_MEM_FENCE); /* the sums take the last slab's place: THREADS_M is at most TILE_K */
#endif
#if DROPOUT
        uint4 words[THREAD_M];
#endif
        UNROLL
        for (uint j = 0; j < SUM_QUADS; j++) {
            const uint column = column0 + sum_column(j, PAIR_N);
            float4 b = (float4)(0.0f);
#if BIAS
            LOAD_SOME(b, bias, column, column, N);
#endif
#if EPILOGUE_SUMS
            float4 total = (float4)(0.0f);
#endif
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                const uint row = row0 + sum_row(i, X_MAJOR);
                if (row < row_end && column < N) {
                    float4 v = sum[i * SUM_QUADS + j] + b;
#if SUM
                    STORE_FOUR(before, row * N + column, v, column);
#endif
                    v = (float4)(activate(ACTIVATION, v.x), activate(ACTIVATION, v.y), activate(ACTIVATION, v.z),
                                 activate(ACTIVATION, v.w));
#if DROPOUT
                    if (!SHARED_WORDS || j == 0) words[i] = dropout_words(batch, site, row, column);
                    v *= dropout_half(words[i], SHARED_WORDS ? j != 0 : column % 8 != 0);
#endif
#if DERIVATIVE
                    float4 d;
                    LOAD_FOUR(d, saved, row * N + column, column);
                    v *= (float4)(derivative(DERIVATIVE, d.x), derivative(DERIVATIVE, d.y),
                                  derivative(DERIVATIVE, d.z), derivative(DERIVATIVE, d.w));
#endif
#if RESIDUAL
                    float4 r;
                    LOAD_FOUR(r, residual, row * N + column, column);
                    v += r;
#endif
#if EPILOGUE_SUMS
                    total += v;
#endif
#if PARTS
                    store_floats(partials, (part * M + row) * N + column, v, column);
#else
                    STORE_FOUR(y, Y_OFFSET + row * Y_STRIDE + column, v, column);
#endif
                }
            }
#if EPILOGUE_SUMS
            tile[thread_m() * QUADS_N + j * THREADS_N + thread_n()] = total;
#endif
        }
#if EPILOGUE_SUMS
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint place = local_number(); place < QUADS_N; place += LOCAL_SIZE) {
            const uint column = column0 + place_quad(place, QUADS_N, PAIR_N) * 4;
            float4 total = tile[place];
            for (uint m = 1; m < THREADS_M; m++) total += tile[m * QUADS_N + place];
            if (column < N) store_floats(partials, row0 / TILE_M * N + column, total, column);
        }
#endif
        LAST_BARRIER;
    }
}
