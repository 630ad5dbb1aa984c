#version 450
#extension GL_GOOGLE_include_directive : require
/* Products of rows with the weights of their experts. IDS lists the rows of each expert (dispatch.comp). FORM says which:
 * GEMM_NT: y[row][n] = epilogue(sum over k of x[row][k] * w[expert][n][k]);
 * GEMM_NN: y[row][n] = epilogue(sum over k of x[row][k] * w[expert][k][n]);
 * GEMM_TN: y[expert][m][n] = sum over the expert's rows, in the list's order, of x[row][m] * w[row][n].
 * TOKEN_ROWS: x, and with GEMM_TN w, has one row for the CHOSEN rows of a token. Twin of cl/gemm_experts.cl.
 *
 * Which tile a work-group has: expert_tile.glsl. Rows are gathered where they lie, and a row's sums are chains of fma
 * over ascending k: neither depends on what else is in the batch. SUM also stores what goes into the activation. */
#include "tile.glsl"
#include "formulas.h"

layout(constant_id = CONST_FORM) const uint FORM = GEMM_NT;
layout(constant_id = CONST_M) const uint M = 32;
layout(constant_id = CONST_N) const uint N = 32;
layout(constant_id = CONST_K) const uint K = 32;
layout(constant_id = CONST_ACTIVATION) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = CONST_DERIVATIVE) const uint DERIVATIVE = ACTIVATION_NONE;
layout(constant_id = CONST_SUM) const uint SUM = 0;

#include "expert_tile.glsl"

#define PAIR_N true

/* As in gemm.comp. */
#define UNITS_N (TILE_N / 8)
#define LANES (LOCAL_SIZE / UNITS_N)
#define CHUNK_PLACE ((TILE_X_QUADS + TILE_W_QUADS) / (THREADS_M * QUADS_N))
#define CHUNK (CHUNK_PLACE >= THREAD_M ? THREAD_M : CHUNK_PLACE >= 4 ? 4 : CHUNK_PLACE >= 2 ? 2 : 1)

INPUT(SLOT_X, x);
INPUT(SLOT_W, w);
INPUT(SLOT_SAVED, saved);
OUTPUT(SLOT_Y, y);
OUTPUT(SLOT_SUM, before);

#define LOAD_UNIT(v, name, at, column)                                                                                 \
    {                                                                                                                  \
        if (ALIGNED != 0) {                                                                                            \
            LOAD_EIGHT(v, name, at, (column) + 4 < N);                                                                 \
        } else {                                                                                                       \
            LOAD_SOME(v[0], name, at, column, N);                                                                      \
            LOAD_SOME(v[1], name, (at) + 4, (column) + 4, N);                                                          \
        }                                                                                                              \
    }
#define STORE_UNIT(name, at, v, column)                                                                                \
    {                                                                                                                  \
        if (ALIGNED != 0) {                                                                                            \
            STORE_EIGHT(name, at, v, (column) + 4 < N);                                                                \
        } else {                                                                                                       \
            STORE_SOME(name, at, v[0], column, N);                                                                     \
            STORE_SOME(name, (at) + 4, v[1], (column) + 4, N);                                                         \
        }                                                                                                              \
    }

/* This work-item's blocks: where they begin, where each of their rows does, how many rows there are from there on, where
 * they go, and what is on its way to them; and the list, which begins with the expert's rows. */
uint block_at[BLOCKS], block_row[BLOCKS * 4], block_to[BLOCKS];
int block_rows[BLOCKS];
uvec4 raw[BLOCKS * 4];
uint list;

/* Starts the loads of this work-item's blocks of the stage at k0. Of GEMM_TN k is a place in the list. */
void fetch_stage(const uint k0, const uint depth)
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
                    uint row = 0;
                    if (there) row = ids[list + k + r];
                    at = block_at[b] + (first ? LISTED_AT(row, M, false) : LISTED_AT(row, N, TOKEN_ROWS != 0));
                } else if (first) {
                    at = block_row[b * 4 + r] + k;
                } else {
                    at = block_at[b] + (W_MAJOR ? (k + r) * N : r * K + k);
                }
                const uint from = major ? 0 : k, end = major ? left : depth;
                if (first) {
                    FETCH_VECTOR(raw[b * 4 + r], x, at, there, from, end, ALIGNED != 0);
                } else {
                    FETCH_VECTOR(raw[b * 4 + r], w, at, there, from, end, ALIGNED != 0);
                }
            }
        }
    }
}

void main()
{
    uint expert, begin, end, row0;
    find_tile(expert, begin, end, row0);
    const uint column0 = group_number() % TILES_N * TILE_N, rows = end - begin;
    const uint end_m = OF_ROWS ? M : rows, depth = OF_ROWS ? rows : K;
    list = EXPERTS + begin;
    if (expert < EXPERTS) {
        UNROLL
        for (uint b = 0; b < BLOCKS; b++) {
            const uint block = local_number() + b * LOCAL_SIZE;
            const bool first = block < BLOCKS_X;
            const uint spot = block_place(block, X_MAJOR, W_MAJOR), k = block_k(block, X_MAJOR, W_MAJOR);
            const uint row = first ? row0 + place_quad(spot, QUADS_M, X_MAJOR) * 4
                                   : column0 + place_quad(spot, QUADS_N, PAIR_N) * 4;
            block_rows[b] = int(first ? end_m : N) - int(row);
            block_to[b] = k * (first ? QUADS_M : QUADS_N) + spot + (first ? 0 : TILE_X_QUADS);
            block_at[b] = OF_ROWS ? row : expert * (N * K) + (W_MAJOR ? row : row * K);
            UNROLL
            for (int r = 0; r < 4; r++) {
                block_row[b * 4 + r] = 0;
                if (!OF_ROWS && first && r < block_rows[b])
                    block_row[b * 4 + r] = LISTED_AT(ids[list + row + r], K, TOKEN_ROWS != 0);
            }
        }

        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] = vec4(0.0);

        fetch_stage(0, depth);
        for (uint k0 = 0; k0 < depth; k0 += TILE_K) {
            barrier(); /* nobody reads the stage before any more */
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
            if (k0 + TILE_K < depth) fetch_stage(k0 + TILE_K, depth);
            multiply();
        }

        const uint unit = local_number() % UNITS_N, lane = local_number() / UNITS_N, column = column0 + unit * 8;
        ROLLED
        for (uint chunk = 0; chunk < THREAD_M; chunk += CHUNK) {
            barrier(); /* nobody reads the last stage or chunk any more */
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                if (i / CHUNK * CHUNK == chunk) {
                    UNROLL
                    for (uint j = 0; j < SUM_QUADS; j++)
                        tile[(i % CHUNK * THREADS_M + thread_m()) * QUADS_N + j * THREADS_N + thread_n()] =
                            sum[i * SUM_QUADS + j];
                }
            }
            barrier();
            ROLLED
            for (uint at = lane; at < CHUNK * THREADS_M; at += LANES) {
                const uint row = row0 + sum_row_of(chunk + at / THREADS_M, at % THREADS_M, X_MAJOR);
                if (row < end_m && column < N) {
                    uint to = expert * M + row;
                    if (!OF_ROWS) to = ids[list + row];
                    to = to * N + column;
                    vec4 v[2] = {tile[at * QUADS_N + unit], tile[at * QUADS_N + QUADS_N / 2 + unit]};
                    if (SUM != 0) STORE_UNIT(before, to, v, column);
                    UNROLL
                    for (uint c = 0; c < 2; c++)
                        v[c] = vec4(activate(ACTIVATION, v[c].x), activate(ACTIVATION, v[c].y),
                                    activate(ACTIVATION, v[c].z), activate(ACTIVATION, v[c].w));
                    if (DERIVATIVE != 0) {
                        vec4 d[2];
                        LOAD_UNIT(d, saved, to, column);
                        UNROLL
                        for (uint c = 0; c < 2; c++)
                            v[c] *= vec4(derivative(DERIVATIVE, d[c].x), derivative(DERIVATIVE, d[c].y),
                                         derivative(DERIVATIVE, d[c].z), derivative(DERIVATIVE, d[c].w));
                    }
                    STORE_UNIT(y, to, v, column);
                }
            }
        }
    }
}
