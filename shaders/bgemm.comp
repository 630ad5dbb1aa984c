#version 450
#extension GL_GOOGLE_include_directive : require
/* The products of attention with stored scores, per sequence s and head h:
 * BATCHED_SCORES:     y[s][h][j][k] = sum over p of x[j][h][p] * w[k][h][p], one work-group per score tile and head;
 * BATCHED_CONTEXT:    y[j][h][p] = sum over k of x[s][h][j][k] * w[k][h][p], one work-group per query tile and head;
 * BATCHED_TRANSPOSED: y[k][h][p] = sum over j of x[s][h][j][k] * w[j][h][p], likewise, the tile's rows being keys. */
#include "tile.glsl"

layout(constant_id = CONST_BATCHED) const uint BATCHED = BATCHED_SCORES;
layout(constant_id = CONST_HEADS) const uint HEADS = 1;
layout(constant_id = CONST_KEY_HEADS) const uint KEY_HEADS = 0;
#include "heads.h"
layout(constant_id = CONST_HEAD_DIM) const uint HEAD_DIM = 32;
layout(constant_id = CONST_QKV_INTERLEAVED) const uint QKV_INTERLEAVED = 0;
layout(constant_id = CONST_X_STRIDE) const uint X_STRIDE = 32;
layout(constant_id = CONST_X_OFFSET) const uint X_OFFSET = 0;
layout(constant_id = CONST_W_STRIDE) const uint W_STRIDE = 32;
layout(constant_id = CONST_W_OFFSET) const uint W_OFFSET = 0;
layout(constant_id = CONST_Y_STRIDE) const uint Y_STRIDE = 32;
layout(constant_id = CONST_Y_OFFSET) const uint Y_OFFSET = 0;

/* Heads of Q that a work-group sums over, of which each head of K or V has so many, and heads of a result. */
#define MEMBERS (BATCHED == BATCHED_TRANSPOSED ? KEY_HEAD_MEMBERS : 1)
#define OWNERS (HEADS / MEMBERS)
#define SCORES (BATCHED == BATCHED_SCORES)
/* Whether the summed dimension is the slow one of an operand. */
#define X_MAJOR (BATCHED == BATCHED_TRANSPOSED)
#define W_MAJOR (BATCHED != BATCHED_SCORES)
#define HEADER_TILES (SCORES ? HEADER_SCORE_TILES : HEADER_QUERY_TILES)
#define HEADER_AT_TILES (SCORES ? HEADER_AT_SCORE_TILES : HEADER_AT_QUERY_TILES)

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_W, w);
OUTPUT(SLOT_Y, y);
QUADS_OF(SLOT_Y, y, writeonly);

void main()
{
    const uint tiles = batch[HEADER_TILES];
    const uint head = group_number() / max(tiles, 1u);
    if (tiles > 0 && head < OWNERS) {
        const uint entry = batch[HEADER_AT_TILES] + group_number() % tiles * 2;
        const uint sequence = batch[entry];
        const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
        const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
        const uint scores_at =
            HEADS * batch[batch[HEADER_AT_SCORE_OFFSETS] + sequence] + head * MEMBERS * length * length; /* of this head */

        const uint row0 = SCORES ? (batch[entry + 1] & 0xffff) * TILE_M : batch[entry + 1];
        const uint columns_begin = SCORES ? (batch[entry + 1] >> 16) * TILE_N : 0;
        const uint columns_end = SCORES ? min(columns_begin + TILE_N, length) : HEAD_DIM;
        const uint depth = SCORES ? HEAD_DIM : length, stages = (depth + TILE_K - 1) / TILE_K;
        const uint x_stride = SCORES ? X_STRIDE : length;
        const uint x_first = SCORES ? X_OFFSET + first * X_STRIDE + HEAD_AT(head, X_STRIDE) : scores_at;
        const bool wide_x = ALIGNED != 0 && (SCORES || (length % VECTOR == 0 && scores_at % VECTOR == 0));
        const uint y_stride = SCORES ? length : Y_STRIDE;
        const uint y_at = SCORES ? scores_at : Y_OFFSET + first * Y_STRIDE + HEAD_AT(head, Y_STRIDE);
        const bool wide_y = ALIGNED != 0 && (!SCORES || (length % 4 == 0 && scores_at % 4 == 0));

        for (uint column0 = columns_begin; column0 < columns_end; column0 += TILE_N) {
                UNROLL
            for (uint i = 0; i < SUMS; i++) sum[i] = vec4(0.0);

            for (uint at = 0; at < MEMBERS * stages; at++) {
                const uint k0 = at % stages * TILE_K, member = at / stages;
                const uint w_head = BATCHED == BATCHED_TRANSPOSED ? head * MEMBERS + member : KEY_HEAD(head);
                const uint w_at = W_OFFSET + first * W_STRIDE + HEAD_AT(w_head, W_STRIDE);
                const uint x_at = x_first + member * length * length;
                barrier(); /* nobody reads the stage before any more */
                UNROLL
                for (uint b = 0; b < BLOCKS; b++) {
                    const uint block = local_number() + b * LOCAL_SIZE;
                    uvec4 raw[4];
                    const uint place = block_place(block, X_MAJOR, W_MAJOR);
                    const uint k = block_k(block, X_MAJOR, W_MAJOR);
                    if (block < BLOCKS_X) {
                        const uint row = row0 + place_quad(place, QUADS_M, X_MAJOR) * 4;
                        UNROLL
                        for (uint r = 0; r < 4; r++) {
                            if (X_MAJOR) {
                                FETCH_VECTOR(raw[r], x, x_at + (k0 + k + r) * x_stride + row, k0 + k + r < depth, row,
                                             length, wide_x);
                            } else {
                                FETCH_VECTOR(raw[r], x, x_at + (row + r) * x_stride + k0 + k, row + r < length, k0 + k,
                                             depth, wide_x);
                            }
                        }
                        if (X_MAJOR) {
                            PUT_VECTORS(tile, k * QUADS_M + place, QUADS_M, raw, 0);
                        } else {
                            PUT_ROWS(tile, k * QUADS_M + place, QUADS_M, raw, 0);
                        }
                    } else if (block < BLOCKS_X + BLOCKS_W) {
                        const uint row = column0 + place_quad(place, QUADS_N, W_MAJOR) * 4;
                        UNROLL
                        for (uint r = 0; r < 4; r++) {
                            if (W_MAJOR) {
                                FETCH_VECTOR(raw[r], w, w_at + (k0 + k + r) * W_STRIDE + row, k0 + k + r < depth, row,
                                             HEAD_DIM, ALIGNED != 0);
                            } else {
                                FETCH_VECTOR(raw[r], w, w_at + (row + r) * W_STRIDE + k0 + k, row + r < length, k0 + k,
                                             HEAD_DIM, ALIGNED != 0);
                            }
                        }
                        if (W_MAJOR) {
                            PUT_VECTORS(tile, TILE_X_QUADS + k * QUADS_N + place, QUADS_N, raw, 0);
                        } else {
                            PUT_ROWS(tile, TILE_X_QUADS + k * QUADS_N + place, QUADS_N, raw, 0);
                        }
                    }
                }
                barrier();
                multiply();
            }

            UNROLL
            for (uint j = 0; j < SUM_QUADS; j++) {
                const uint column = column0 + sum_column(j, W_MAJOR);
                UNROLL
                for (uint i = 0; i < THREAD_M; i++) {
                    const uint row = row0 + sum_row(i, X_MAJOR);
                    const uint at = y_at + row * y_stride + column;
                    const vec4 quad = sum[i * SUM_QUADS + j];
                    if (row < length && column < columns_end) {
                        if (wide_y)
                            STORE_QUAD(y, at, quad);
                        else
                            STORE_SOME(y, at, quad, column, columns_end);
                    }
                }
            }
        }
    }
}
