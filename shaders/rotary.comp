#version 450
#extension GL_GOOGLE_include_directive : require
/* Y = X + bias with each pair of neighbouring channels of Q and K turned by its token's position: of a row of N, Q and
 * K are the first two thirds, or of each head's stretch of 3 HEAD_DIM (QKV_INTERLEAVED); the rest is copied. POSITION
 * [positions][HEAD_DIM] has each pair's cosine and sine. SUM also stores X + bias. Twin of cl/rotary.cl.
 *
 * One access per work-item: what hides the latency is the number of work-items, so LOCAL_SIZE is what fills a compute
 * unit, 128 or 256. Any power of two is right. */
#include "common.glsl"

layout(constant_id = CONST_N) const uint N = 6;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;
layout(constant_id = CONST_BIAS) const uint BIAS = 0;
layout(constant_id = CONST_HEAD_DIM) const uint HEAD_DIM = 2;
layout(constant_id = CONST_QKV_INTERLEAVED) const uint QKV_INTERLEAVED = 0;
layout(constant_id = CONST_ROTARY) const uint ROTARY = ROTARY_FORWARD;
layout(constant_id = CONST_SUM) const uint SUM = 0;
#include "rotary.glsl"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_BIAS, bias);
INPUT_OF(SLOT_POSITIONS, uint, positions);
INPUT_OF(SLOT_POSITION, float, position);
INPUT_OF(SLOT_POSITION, vec4, position_quads);
OUTPUT(SLOT_Y, y);
OUTPUT(SLOT_SUM, sum);

void main()
{
    const uint at = (group_number() * LOCAL_SIZE + local_number()) * ACCESS;
    if (at < batch[ROWS] * N) {
        const uint column = at % N;
        float v[VECTOR];
        LOAD_ACCESS(x, at, v);
        if (BIAS != 0) {
            float b[VECTOR];
            LOAD_ACCESS(bias, column, b);
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] += b[c];
        }
        if (SUM != 0) {
            STORE_ACCESS(sum, at, v);
        }
        if (ROTARY_TURNS(column)) {
            const uint angle = positions[at / N] * HEAD_DIM + column % HEAD_DIM;
            if (ALIGNED == 0) {
                float other = LOAD(x, at ^ 1); /* N is even */
                if (BIAS != 0) other += LOAD(bias, column ^ 1);
                const float sine = position[angle | 1];
                v[0] = fma(other, (column % 2 != 0) == (ROTARY == ROTARY_FORWARD) ? sine : -sine,
                           v[0] * position[angle & ~1u]);
            } else {
                float turn[VECTOR];
                LOAD_FLOATS(position, angle, turn);
                ROTARY_TURN(v, turn, ACCESS)
            }
        }
        STORE_ACCESS(y, at, v);
    }
}
