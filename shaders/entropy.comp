#version 450
#extension GL_GOOGLE_include_directive : require
/* EXTRA [ROWS][ENTROPY_STATE] in float: of each row of X [ROWS][N], the scores of the words from number POSITION on,
 * the largest one, the sum of the exponentials by it, and the score of the label (IDS), which the strip that has it
 * sets. RESIDUAL: with those of the strips before (DELTA). Twin of cl/entropy.cl.
 *
 * A work-group per row, which it holds in registers. The order of the sum depends on N and LOCAL_SIZE alone. Any power
 * of two is right for LOCAL_SIZE. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_POSITION) const uint POSITION = 0;
layout(constant_id = CONST_RESIDUAL) const uint RESIDUAL = 0;
#include "loss_formulas.h"
#include "row.glsl"

/* 0: rows without gaps. */
layout(constant_id = CONST_X_STRIDE) const uint GIVEN_X_STRIDE = 0;
#define X_STRIDE (GIVEN_X_STRIDE != 0 ? GIVEN_X_STRIDE : N)

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT_OF(SLOT_IDS, uint, ids);
INPUT_OF(SLOT_DELTA, float, delta);
OUTPUT_OF(SLOT_EXTRA, float, extra);

void main()
{
    const uint row = group_number();
    if (row < batch[ROWS]) {
        ROW_LOAD(x, row * X_STRIDE);
        float peak = held[0][0], part = 0.0, before = 0.0;
        if (RESIDUAL != 0) {
            before = delta[ENTROPY_STATE * row];
            peak = max(peak, before);
        }
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) peak = max(peak, held[i][c]);
        }
        peak = group_max(peak);
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) part += in_row(i) ? exp_below(held[i][c] - peak) : 0.0;
        }
        float sum = group_sum(part), right = 0.0;
        if (local_number() == 0) {
            const uint place = ids[row] - POSITION; /* a word before POSITION wraps around */
            if (RESIDUAL != 0) {
                sum = fma(delta[ENTROPY_STATE * row + 1], exp_below(before - peak), sum);
                right = delta[ENTROPY_STATE * row + 2];
            }
            if (place < N) right = LOAD(x, row * X_STRIDE + place);
            extra[ENTROPY_STATE * row] = peak;
            extra[ENTROPY_STATE * row + 1] = sum;
            extra[ENTROPY_STATE * row + 2] = right;
        }
    }
}
