#version 450
#extension GL_GOOGLE_include_directive : require
/* OF_FORWARD: Y [ROWS][N] = the sum of a row's CHOSEN neighbouring rows of X, in their order, with WEIGHTED each times its
 * DELTA. OF_BACKWARD: the gradient of X, whose rows are row r of X here, which is that of Y, times DELTA. Twin of
 * cl/combine.cl.
 *
 * A work-item per ACCESS columns of one row. Any LOCAL_SIZE is right. */
#include "common.glsl"

layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_CHOSEN) const uint CHOSEN = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;
layout(constant_id = CONST_FORM) const uint FORM = OF_FORWARD;
layout(constant_id = CONST_WEIGHTED) const uint WEIGHTED = 0;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT_OF(SLOT_DELTA, float, delta);
OUTPUT(SLOT_Y, y);

float weight_of(const uint row)
{
    if (WEIGHTED == 0) return 1.0;
    return delta[row];
}

void main()
{
    const uint at = (group_number() * LOCAL_SIZE + local_number()) * ACCESS, row = at / N, column = at % N;
    if (row < batch[ROWS]) {
        float v[VECTOR], sum[VECTOR];
        if (FORM == OF_FORWARD) {
            UNROLL for (uint c = 0; c < VECTOR; c++) sum[c] = 0.0;
            for (uint k = row * CHOSEN; k < (row + 1) * CHOSEN; k++) {
                LOAD_ACCESS(x, k * N + column, v);
                UNROLL for (uint c = 0; c < ACCESS; c++) sum[c] = fma(v[c], weight_of(k), sum[c]);
            }
            STORE_ACCESS(y, at, sum);
        } else {
            LOAD_ACCESS(x, at, v);
            for (uint k = row * CHOSEN; k < (row + 1) * CHOSEN; k++) {
                UNROLL for (uint c = 0; c < VECTOR; c++) sum[c] = v[c] * weight_of(k);
                STORE_ACCESS(y, k * N + column, sum);
            }
        }
    }
}
