/* Gradient of attention's queries: the sum over the parts of what attention_backward left, y[j] = SCALE * (sum over
 * parts of partials[part][j]). A part of whose tiles of keys none met the query's step has nothing of it. A
 * work-item has ACCESS elements and adds the parts in the order of their first tiles that did. ROTARY: sums are turned
 * back by their tokens' angles; then ACCESS is a multiple of 2. */
#include "common.h"

#ifndef HEADS
#define HEADS 1
#endif
#ifndef HEAD_DIM
#define HEAD_DIM 32
#endif
#ifndef QKV_INTERLEAVED
#define QKV_INTERLEAVED 0
#endif
#ifndef SCALE
#define SCALE 0x3f800000
#endif
#ifndef X_STRIDE
#define X_STRIDE HEAD_DIM
#endif
#ifndef X_OFFSET
#define X_OFFSET 0
#endif
#ifndef PARTS
#define PARTS 1
#endif
#ifndef TILE_M
#define TILE_M 32 /* keys of a tile */
#endif
#ifndef TILE_N
#define TILE_N 32 /* queries of a step */
#endif
#ifndef N
#define N (HEADS * HEAD_DIM)
#endif
#ifndef ROTARY
#define ROTARY ROTARY_NONE
#endif
#include "masked.h"
#if ROTARY != ROTARY_NONE
#include "rotary.h"
#define ARGUMENT_TURN , INPUT_OF(uint, turn_positions), INPUT_OF(float, turn)
#else
#define ARGUMENT_TURN
#endif

#define ROW (HEADS * HEAD_DIM)

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1))) void
attention_dq(BATCH_ARGUMENT ARGUMENT_TURN, INPUT_OF(float, partials), OUTPUT(y))
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(float, partials);
    BEGIN_OUTPUT(y);
    const uint tokens = batch[HEADER_TOKENS];
    const uint at = (group_number() * LOCAL_SIZE + local_number()) * ACCESS;
    if (at < tokens * ROW) {
        const uint token = at / ROW;
        const uint offset = batch[HEADER_AT_OFFSETS] + batch[batch[HEADER_AT_TOKEN_SEQUENCE] + token];
        const uint length = batch[offset + 1] - batch[offset];
        const uint query0 = (token - batch[offset]) / TILE_N * TILE_N, last = min(query0 + TILE_N, length) - 1;
        const uint from = (uint)mask_first_key((int)query0, BEFORE) / TILE_M;
        const uint end = ((uint)mask_end_key((int)last, AFTER, (int)length) + TILE_M - 1) / TILE_M;
        const uint parts = min(end - from, (uint)PARTS);
        float sum[ACCESS];
        UNROLL
        for (uint c = 0; c < ACCESS; c++) sum[c] = 0.0f;
        for (uint i = 0; i < parts; i++) {
            float v[ACCESS];
            LOAD_FLOATS(partials, (from + i) % PARTS * tokens * ROW + at, v);
            UNROLL
            for (uint c = 0; c < ACCESS; c++) sum[c] += v[c];
        }
        UNROLL
        for (uint c = 0; c < ACCESS; c++) sum[c] *= as_float((uint)SCALE);
#if ROTARY != ROTARY_NONE
        BEGIN_OF(uint, turn_positions);
        BEGIN_OF(float, turn);
        float angles[ACCESS];
        LOAD_FLOATS(turn, turn_positions[token] * HEAD_DIM + at % HEAD_DIM, angles);
        rotary_turn(sum, angles, ACCESS);
#endif
        const uint column =
            QKV_INTERLEAVED ? HEAD_AT(at % ROW / HEAD_DIM, X_STRIDE) + at % HEAD_DIM : at % ROW;
        STORE_ACCESS(y, X_OFFSET + token * X_STRIDE + column, sum);
    }
}
