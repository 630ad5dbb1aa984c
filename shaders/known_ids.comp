#version 450
#extension GL_GOOGLE_include_directive : require
/* Token ids that nobody looked at, as an application's buffer has them: what is none of the M of the vocabulary, negative
 * ones included, becomes 0, so that no row is read which the table of words does not have. Twin of cl/known_ids.cl. */
#include "common.glsl"

layout(constant_id = CONST_M) const uint M = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;

INPUT_OF(SLOT_BATCH, uint, batch);
layout(set = 0, binding = SLOT_Y) restrict buffer y_elements { uint y[]; };

void main()
{
    const uint at = group_number() * LOCAL_SIZE + local_number();
    if (at < batch[ROWS] && y[at] >= M) y[at] = 0;
}
