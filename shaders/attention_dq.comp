#version 450
#extension GL_GOOGLE_include_directive : require
/* Gradient of attention's queries: the sum over the parts of what attention_backward left, y[j] = SCALE * (sum over
 * parts of partials[part][j]). A part of whose tiles of keys none met the query's step has nothing of it. A
 * work-item has ACCESS elements and adds the parts in the order of their first tiles that did. ROTARY: sums are turned
 * back by their tokens' angles; then ACCESS is a multiple of 2. Twin of cl/attention_dq.cl. */
#include "common.glsl"

layout(constant_id = CONST_HEADS) const uint HEADS = 1;
layout(constant_id = CONST_HEAD_DIM) const uint HEAD_DIM = 32;
layout(constant_id = CONST_QKV_INTERLEAVED) const uint QKV_INTERLEAVED = 0;
layout(constant_id = CONST_SCALE) const uint SCALE = 0x3f800000u;
layout(constant_id = CONST_X_STRIDE) const uint X_STRIDE = 32;
layout(constant_id = CONST_X_OFFSET) const uint X_OFFSET = 0;
layout(constant_id = CONST_PARTS) const uint PARTS = 1;
layout(constant_id = CONST_TILE_M) const uint TILE_M = 32; /* keys of a tile */
layout(constant_id = CONST_TILE_N) const uint TILE_N = 32; /* queries of a step */
layout(constant_id = CONST_N) const uint N = 32;
layout(constant_id = CONST_ROTARY) const uint ROTARY = ROTARY_NONE;

#include "masked.glsl"
#include "rotary.glsl"

#define ROW (HEADS * HEAD_DIM)

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT_OF(SLOT_TURN_POSITIONS, uint, turn_positions);
INPUT_OF(SLOT_TURN, float, turn);
INPUT_OF(SLOT_TURN, vec4, turn_quads);
INPUT_OF(SLOT_PARTIALS, float, partials);
INPUT_OF(SLOT_PARTIALS, vec4, partials_quads);
OUTPUT(SLOT_Y, y);

void main()
{
    const uint tokens = batch[HEADER_TOKENS];
    const uint at = (group_number() * LOCAL_SIZE + local_number()) * ACCESS;
    if (at < tokens * ROW) {
        const uint token = at / ROW;
        const uint offset = batch[HEADER_AT_OFFSETS] + batch[batch[HEADER_AT_TOKEN_SEQUENCE] + token];
        const uint length = batch[offset + 1] - batch[offset];
        const uint query0 = (token - batch[offset]) / TILE_N * TILE_N, last = min(query0 + TILE_N, length) - 1;
        const uint from = uint(mask_first_key(int(query0), BEFORE)) / TILE_M;
        const uint end = (uint(mask_end_key(int(last), AFTER, int(length))) + TILE_M - 1) / TILE_M;
        const uint parts = min(end - from, PARTS);
        float sum[VECTOR];
        UNROLL
        for (uint c = 0; c < VECTOR; c++) sum[c] = 0.0;
        for (uint i = 0; i < parts; i++) {
            float v[VECTOR];
            LOAD_FLOATS(partials, (from + i) % PARTS * tokens * ROW + at, v);
            UNROLL
            for (uint c = 0; c < ACCESS; c++) sum[c] += v[c];
        }
        UNROLL
        for (uint c = 0; c < VECTOR; c++) sum[c] *= uintBitsToFloat(SCALE);
        if (ROTARY != ROTARY_NONE) {
            float angles[VECTOR];
            LOAD_FLOATS(turn, turn_positions[token] * HEAD_DIM + at % HEAD_DIM, angles);
            ROTARY_TURN(sum, angles, VECTOR)
        }
        const uint column = QKV_INTERLEAVED != 0 ? HEAD_AT(at % ROW / HEAD_DIM, X_STRIDE) + at % HEAD_DIM : at % ROW;
        STORE_ACCESS(y, X_OFFSET + token * X_STRIDE + column, sum);
    }
}
