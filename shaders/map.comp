#version 450
#extension GL_GOOGLE_include_directive : require
/* Y = activation(X + bias) + residual, element by element over rows of N. Twin of cl/map.cl.
 *
 * One access of each operand per work-item: what hides the latency is the number of work-items, so LOCAL_SIZE is what
 * fills a compute unit, 128 or 256. Any power of two is right. */
#include "common.glsl"

layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;
layout(constant_id = CONST_BIAS) const uint BIAS = 0;
layout(constant_id = CONST_ACTIVATION) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = CONST_RESIDUAL) const uint RESIDUAL = 0;
#include "formulas.h"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_BIAS, bias);
INPUT(SLOT_RESIDUAL, residual);
OUTPUT(SLOT_Y, y);

void main()
{
    const uint at = (group_number() * LOCAL_SIZE + local_number()) * ACCESS;
    if (at < batch[ROWS] * N) {
        float v[VECTOR];
        LOAD_ACCESS(x, at, v);
        if (BIAS != 0) {
            float b[VECTOR];
            LOAD_ACCESS(bias, at % N, b);
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] += b[c];
        }
        UNROLL for (uint c = 0; c < ACCESS; c++) v[c] = activate(ACTIVATION, v[c]);
        /* Dropout belongs here. */
        if (RESIDUAL != 0) {
            float r[VECTOR];
            LOAD_ACCESS(residual, at, r);
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] += r[c];
        }
        STORE_ACCESS(y, at, v);
    }
}
