#version 450
#extension GL_GOOGLE_include_directive : require
/* The gradients of the weights that combine multiplies with: DELTA [ROWS][CHOSEN] = the product of row r of X, the
 * gradient of what combine made, with each of its CHOSEN rows of SAVED. Twin of cl/combine_weights.cl.
 *
 * A work-group per row of SAVED. LOCAL_SIZE is any multiple of 8. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_CHOSEN) const uint CHOSEN = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_SAVED, saved);
OUTPUT_OF(SLOT_DELTA, float, delta);

void main()
{
    const uint row = group_number();
    if (row < batch[ROWS] * CHOSEN) {
        float sum = 0.0;
        for (uint column = local_number() * ACCESS; column < N; column += LOCAL_SIZE * ACCESS) {
            float a[VECTOR], b[VECTOR];
            LOAD_ACCESS(x, row / CHOSEN * N + column, a);
            LOAD_ACCESS(saved, row * N + column, b);
            UNROLL for (uint c = 0; c < ACCESS; c++) sum = fma(a[c], b[c], sum);
        }
        sum = group_sum(sum);
        if (local_number() == 0) delta[row] = sum;
    }
}
