#version 450
#extension GL_GOOGLE_include_directive : require
/* EXTRA [2], from number Y_OFFSET on: the sum over ROWS of the logarithm of a row's sum of exponentials less its label's score, and the number
 * of rows with no score above their label's, of what `entropy` left (DELTA). LSE [ROWS]: those logarithms, where asked for. Twin of
 * cl/entropy_sum.cl.
 *
 * One work-group: rows are few. The order of the sum depends on LOCAL_SIZE and the number of rows alone. Any power of
 * two is right. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_LABELLED;
layout(constant_id = CONST_Y_OFFSET) const uint Y_OFFSET = 0;
layout(constant_id = CONST_LSE) const uint LSE = LSE_NONE;

INPUT_OF(SLOT_BATCH, uint, batch);
OUTPUT_OF(SLOT_LSE, float, lse);
INPUT_OF(SLOT_DELTA, float, delta);
OUTPUT_OF(SLOT_EXTRA, float, extra);

void main()
{
    if (group_number() == 0) {
        float loss = 0.0, right = 0.0;
        for (uint row = local_number(); row < batch[ROWS]; row += LOCAL_SIZE) {
            const float peak = delta[ENTROPY_STATE * row], own = delta[ENTROPY_STATE * row + 2];
            const float all = peak + log(delta[ENTROPY_STATE * row + 1]);
            if (LSE == LSE_WRITE) lse[row] = all;
            loss += all - own;
            right += own >= peak ? 1.0 : 0.0;
        }
        loss = group_sum(loss);
        right = group_sum(right);
        if (local_number() == 0) {
            extra[Y_OFFSET] = loss;
            extra[Y_OFFSET + 1] = right;
        }
    }
}
