#version 450
#extension GL_GOOGLE_include_directive : require
/* Y = X in 32 bits: rows of N of what sessions store in 16, for applications whose buffer wants floats. Nothing else of
 * a session's is a float but statistics. Twin of cl/widen.cl. */
#include "common.glsl"

layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
OUTPUT_OF(SLOT_Y, float, y);

void main()
{
    const uint at = group_number() * LOCAL_SIZE + local_number();
    if (at < batch[ROWS] * N) y[at] = LOAD(x, at);
}
