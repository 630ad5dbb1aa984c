#version 450
#extension GL_GOOGLE_include_directive : require
/* Y [ROWS][N]: the gradient of the sum of `entropy_sum` by X [ROWS][N], the scores of the words from number POSITION on,
 * times EXTRA [W_OFFSET]: e^(x - DELTA), DELTA [ROWS] being the logarithms that it left, less 1 at the label (IDS). Twin of
 * cl/entropy_backward.cl.
 *
 * A work-group per row, which it holds in registers. Any power of two is right for LOCAL_SIZE. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_POSITION) const uint POSITION = 0;
layout(constant_id = CONST_W_OFFSET) const uint W_OFFSET = 0;
#include "loss_formulas.h"
#include "row.glsl"

/* 0: rows without gaps. */
layout(constant_id = CONST_X_STRIDE) const uint GIVEN_X_STRIDE = 0;
layout(constant_id = CONST_Y_STRIDE) const uint GIVEN_Y_STRIDE = 0;
#define X_STRIDE (GIVEN_X_STRIDE != 0 ? GIVEN_X_STRIDE : N)
#define Y_STRIDE (GIVEN_Y_STRIDE != 0 ? GIVEN_Y_STRIDE : N)

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT_OF(SLOT_IDS, uint, ids);
INPUT_OF(SLOT_DELTA, float, delta);
INPUT_OF(SLOT_EXTRA, float, extra);
OUTPUT(SLOT_Y, y);

void main()
{
    const uint row = group_number();
    if (row < batch[ROWS]) {
        const uint place = ids[row] - POSITION; /* a word before POSITION wraps around */
        const float d = extra[W_OFFSET], lse = delta[row];
        ROW_LOAD(x, row * X_STRIDE);
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++)
                held[i][c] = d * (exp_below(held[i][c] - lse) - (column_of(i) + c == place ? 1.0 : 0.0));
        }
        ROW_STORE(y, row * Y_STRIDE);
    }
}
