#version 450
#extension GL_GOOGLE_include_directive : require
/* The cosine and sine of each pair of channels of a token, by which rotary positions turn it: ANGLES[token][N], of
 * POSITION[length - 1][N], which has for each length of a text what a pair turns by from one position to the next. IDS
 * has each token's length less 1. Twin of cl/angles.cl.
 *
 * One access per work-item, as rotary.comp. Any LOCAL_SIZE that is a power of two is right. */
#include "common.glsl"
#include "formulas.h"

#include "angles.h"

layout(constant_id = CONST_N) const uint N = 2;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT_OF(SLOT_IDS, uint, lengths);
INPUT_OF(SLOT_POSITIONS, uint, positions);
INPUT_OF(SLOT_POSITION, float, position);
OUTPUT_OF(SLOT_ANGLES, float, angles);

void main()
{
    const uint at = (group_number() * LOCAL_SIZE + local_number()) * ACCESS;
    if (at < batch[ROWS] * N) {
        const uint token = at / N, from = lengths[token] * N + at % N, place = positions[token];
        UNROLL for (uint c = 0; c < ACCESS; c++)
        {
            const uint pair = (from + c) & ~1u; /* N is even */
            const float whole = position[pair], part = position[pair + 1];
            const uint units = angle_units(place, whole, part);
            angles[at + c] = angle_cosine((at + c) % 2 == 0 ? units : units - ANGLE_QUARTER, angle_rest(place, part));
        }
    }
}
