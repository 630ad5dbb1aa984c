#version 450
#extension GL_GOOGLE_include_directive : require
/* Y [1]: the sum of X [ROWS], for COSENT ln(1 + the sum of its exponentials), which LSE gets, too, times the weight in
 * EXTRA [ROWS][2]; RESIDUAL adds the losses before. Twin of cl/loss_sum.cl.
 *
 * One work-group: rows are few. The order of the sum depends on LOCAL_SIZE and the number of rows alone. Any power of
 * two is right. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_SEQUENCES;
layout(constant_id = CONST_FORM) const uint FORM = FORM_SQUARED;
layout(constant_id = CONST_RESIDUAL) const uint RESIDUAL = 0;
layout(constant_id = CONST_LSE) const uint LSE = LSE_NONE;
#include "loss_formulas.h"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_RESIDUAL, residual);
OUTPUT_OF(SLOT_LSE, float, lse);
INPUT(SLOT_EXTRA, extra);
OUTPUT(SLOT_Y, y);

void main()
{
    if (group_number() == 0) {
        float part = 0.0, before = 0.0;
        if (RESIDUAL != 0) before = LOAD(residual, 0);
        if (FORM == FORM_COSENT) {
            float peak = 0.0;
            for (uint r = local_number(); r < batch[ROWS]; r += LOCAL_SIZE) peak = max(peak, LOAD(x, r));
            peak = group_max(peak);
            for (uint r = local_number(); r < batch[ROWS]; r += LOCAL_SIZE) part += exp_below(LOAD(x, r) - peak);
            const float all = peak + log(exp_below(-peak) + group_sum(part));
            if (local_number() == 0) {
                if (LSE == LSE_WRITE) lse[0] = all;
                STORE(y, 0, LOAD(extra, 1) * all + before);
            }
        } else {
            for (uint r = local_number(); r < batch[ROWS]; r += LOCAL_SIZE) part += LOAD(x, r);
            const float all = group_sum(part);
            if (local_number() == 0) STORE(y, 0, all + before);
        }
    }
}
