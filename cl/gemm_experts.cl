/* Products of rows with the weights of their experts. IDS lists the rows of each expert (dispatch.cl). FORM says which:
 * GEMM_NT: y[row][n] = epilogue(sum over k of x[row][k] * w[expert][n][k]);
 * GEMM_NN: y[row][n] = epilogue(sum over k of x[row][k] * w[expert][k][n]);
 * GEMM_TN: y[expert][m][n] = sum over the expert's rows, in the list's order, of x[row][m] * w[row][n].
 * TOKEN_ROWS: x, and with GEMM_TN w, has one row for the CHOSEN rows of a token. Twin of shaders/gemm_experts.comp.
 *
 * Rows are gathered where they lie (expert_tile.h), and a row's sums are chains of fma over ascending k: neither depends
 * on what else is in the batch. SUM also stores what goes into the activation. */
#define UNROLL_K _Pragma("unroll 2")
#include "tile.h"
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
#ifndef ACTIVATION
#define ACTIVATION ACTIVATION_NONE
#endif
#ifndef DERIVATIVE
#define DERIVATIVE ACTIVATION_NONE
#endif
#ifndef SUM
#define SUM 0
#endif
#include "expert_tile.h"

#define X_MAJOR OF_ROWS
#define W_MAJOR (FORM != GEMM_NT)
#define PAIR_N true

/* As in gemm.cl. */
#define UNITS_N (TILE_N / 8)
#define LANES (LOCAL_SIZE / UNITS_N)
#define CHUNK_PLACE ((TILE_X_QUADS + TILE_W_QUADS) / (THREADS_M * QUADS_N))
#define CHUNK (CHUNK_PLACE >= THREAD_M ? THREAD_M : CHUNK_PLACE >= 4 ? 4 : CHUNK_PLACE >= 2 ? 2 : 1)

#if ALIGNED
#define LOAD_UNIT(v, name, at, column) LOAD_EIGHT(v, name, at, (column) + 4 < N)
#define STORE_UNIT(name, at, v, column) STORE_EIGHT(name, at, v, (column) + 4 < N)
#else
#define LOAD_UNIT(v, name, at, column)                                                                                 \
    LOAD_SOME((v)[0], name, at, column, N);                                                                            \
    LOAD_SOME((v)[1], name, (at) + 4, (column) + 4, N)
#define STORE_UNIT(name, at, v, column)                                                                                \
    STORE_SOME(name, at, (v)[0], column, N);                                                                           \
    STORE_SOME(name, (at) + 4, (v)[1], (column) + 4, N)
#endif

/* Starts the loads of this work-item's blocks of the stage at k0. Of GEMM_TN k is a place in the list, which begins with
 * the expert's rows. */
INLINE void fetch_stage(__global const storage *x, __global const storage *w, __global const uint *list,
                       const uint *block_at, const uint *block_row, const int *block_rows, const uint k0,
                       const uint depth, uint4 *raw)
{
    UNROLL
    for (uint b = 0; b < BLOCKS; b++) {
        const uint block = local_number() + b * LOCAL_SIZE;
        const uint k = k0 + block_k(block, X_MAJOR, W_MAJOR);
        const bool first = block < BLOCKS_X, major = first ? X_MAJOR : W_MAJOR;
        const uint left = ALIGNED != 0 ? VECTOR : max(block_rows[b], 0);
        if (block < BLOCKS_X + BLOCKS_W) {
            UNROLL
            for (int r = 0; r < 4; r++) {
                const bool there = major ? block_rows[b] > 0 && k + r < depth : r < block_rows[b];
                uint at = 0;
                if (OF_ROWS) {
                    const uint row = there ? list[k + r] : 0;
                    at = block_at[b] + (first ? LISTED_AT(row, M, false) : LISTED_AT(row, N, TOKEN_ROWS != 0));
                } else if (first) {
                    at = block_row[b * 4 + r] + k;
                } else {
                    at = block_at[b] + (W_MAJOR ? (k + r) * N : r * K + k);
                }
                if (first) {
                    FETCH_VECTOR(raw[b * 4 + r], x, at, there, major ? 0 : k, major ? left : depth, ALIGNED != 0);
                } else {
                    FETCH_VECTOR(raw[b * 4 + r], w, at, there, major ? 0 : k, major ? left : depth, ALIGNED != 0);
                }
            }
        }
    }
}

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void gemm_experts(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT(w)
    , INPUT_OF(uint, ids)
#if DERIVATIVE
    , INPUT(saved)
#endif
    , OUTPUT(y)
#if SUM
    , OUTPUT(before)
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(w);
    BEGIN_OF(uint, ids);
#if DERIVATIVE
    BEGIN(saved);
#endif
    BEGIN_OUTPUT(y);
#if SUM
    BEGIN_OUTPUT(before);
#endif
    __local float4 tile[TILE_X_QUADS + TILE_W_QUADS];

    uint expert, begin, end, row0;
    find_tile(batch, ids, &expert, &begin, &end, &row0);
    const uint column0 = group_number() % TILES_N * TILE_N, rows = end - begin;
    const uint end_m = OF_ROWS ? M : rows, depth = OF_ROWS ? rows : K;
    __global const uint *list = ids + EXPERTS + begin;
    if (expert < EXPERTS) {
        uint block_at[BLOCKS], block_row[BLOCKS * 4], block_to[BLOCKS];
        int block_rows[BLOCKS];
        UNROLL
        for (uint b = 0; b < BLOCKS; b++) {
            const uint block = local_number() + b * LOCAL_SIZE;
            const bool first = block < BLOCKS_X;
            const uint spot = block_place(block, X_MAJOR, W_MAJOR), k = block_k(block, X_MAJOR, W_MAJOR);
            const uint row = first ? row0 + place_quad(spot, QUADS_M, X_MAJOR) * 4
                                   : column0 + place_quad(spot, QUADS_N, PAIR_N) * 4;
            block_rows[b] = (int)(first ? end_m : N) - (int)row;
            block_to[b] = k * (first ? QUADS_M : QUADS_N) + spot + (first ? 0 : TILE_X_QUADS);
            block_at[b] = OF_ROWS ? row : expert * (N * K) + (W_MAJOR ? row : row * K);
            UNROLL
            for (int r = 0; r < 4; r++) {
                block_row[b * 4 + r] = 0;
                if (!OF_ROWS && first && r < block_rows[b])
                    block_row[b * 4 + r] = LISTED_AT(list[row + r], K, TOKEN_ROWS != 0);
            }
        }

        float4 sum[SUMS];
        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] = (float4)(0.0f);

        uint4 raw[BLOCKS * 4];
        fetch_stage(x, w, list, block_at, block_row, block_rows, 0, depth, raw);
        for (uint k0 = 0; k0 < depth; k0 += TILE_K) {
            barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the stage before any more */
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
            if (k0 + TILE_K < depth)
                fetch_stage(x, w, list, block_at, block_row, block_rows, k0 + TILE_K, depth, raw);
            multiply(tile, sum);
        }

        const uint unit = local_number() % UNITS_N, lane = local_number() / UNITS_N, column = column0 + unit * 8;
        UNROLL for (uint chunk = 0; chunk < THREAD_M; chunk += CHUNK)
        {
            barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the last stage or chunk any more */
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                if (i / CHUNK * CHUNK == chunk) {
                    UNROLL
                    for (uint j = 0; j < SUM_QUADS; j++)
                        tile[(i % CHUNK * THREADS_M + thread_m()) * QUADS_N + j * THREADS_N + thread_n()] =
                            sum[i * SUM_QUADS + j];
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            ROLLED
            for (uint at = lane; at < CHUNK * THREADS_M; at += LANES) {
                const uint row = row0 + sum_row_of(chunk + at / THREADS_M, at % THREADS_M, X_MAJOR);
                if (row < end_m && column < N) {
                    const uint to = (OF_ROWS ? expert * M + row : list[row]) * N + column;
                    float4 v[2] = {tile[at * QUADS_N + unit], tile[at * QUADS_N + QUADS_N / 2 + unit]};
#if SUM
                    STORE_UNIT(before, to, v, column);
#endif
                    UNROLL
                    for (uint c = 0; c < 2; c++)
                        /* In pairs, as in pack_vector: Oclgrind stores four scalars twice. */
                        v[c] = (float4)((float2)(activate(ACTIVATION, v[c].x), activate(ACTIVATION, v[c].y)),
                                        (float2)(activate(ACTIVATION, v[c].z), activate(ACTIVATION, v[c].w)));
#if DERIVATIVE
                    float4 d[2];
                    LOAD_UNIT(d, saved, to, column);
                    UNROLL
                    for (uint c = 0; c < 2; c++)
                        v[c] *= (float4)(derivative(DERIVATIVE, d[c].x), derivative(DERIVATIVE, d[c].y),
                                         derivative(DERIVATIVE, d[c].z), derivative(DERIVATIVE, d[c].w));
#endif
                    STORE_UNIT(y, to, v, column);
                }
            }
        }
        LAST_BARRIER;
    }
}
