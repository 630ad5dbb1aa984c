#version 450
#extension GL_GOOGLE_include_directive : require
/* Rows of a loss, column by column of its examples. OF_FORWARD: Y [ROWS, or M][N] is the first N elements of the rows of
 * X [][X_STRIDE] from column POSITION on, SETS columns of them (0: all rows); Y's rows beyond these become 0, up to M of
 * them. OF_BACKWARD: back to their places in Y [ROWS][N], which is 0 elsewhere; RESIDUAL adds what others gave before.
 * Twin of cl/take.cl.
 *
 * A work-group per row of the batch, which writes that row of Y and every ROWS-th after it. Any LOCAL_SIZE is right. */
#include "common.glsl"

layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_M) const uint M = 0;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;
layout(constant_id = CONST_X_STRIDE) const uint X_STRIDE = 1;
layout(constant_id = CONST_POSITION) const uint POSITION = 0;
layout(constant_id = CONST_SETS) const uint SETS = 0;
layout(constant_id = CONST_FORM) const uint FORM = OF_FORWARD;
layout(constant_id = CONST_RESIDUAL) const uint RESIDUAL = 0;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_RESIDUAL, residual);
OUTPUT(SLOT_Y, y);

void main()
{
    const uint rows = batch[ROWS], examples = batch[HEADER_SEQUENCES], first = POSITION * examples;
    const uint taken = SETS > 0 ? SETS * examples : batch[HEADER_TOKENS];
    for (uint row = group_number(); row < max(rows, M); row += rows) {
        if (group_number() >= rows) break;
        const uint from = FORM == OF_FORWARD ? row + first : row - first;
        const bool inside = FORM == OF_FORWARD ? row < taken : row >= first && from < taken;
        for (uint column = local_number() * ACCESS; column < N; column += LOCAL_SIZE * ACCESS) {
            float v[VECTOR];
            UNROLL for (uint c = 0; c < VECTOR; c++) v[c] = 0.0;
            if (inside && column < X_STRIDE) {
                LOAD_ACCESS(x, from * X_STRIDE + column, v);
            }
            if (RESIDUAL != 0) {
                float before[VECTOR];
                LOAD_ACCESS(residual, row * N + column, before);
                UNROLL for (uint c = 0; c < ACCESS; c++) v[c] += before[c];
            }
            STORE_ACCESS(y, row * N + column, v);
        }
    }
}
