#version 450
#extension GL_GOOGLE_include_directive : require
/* Y [ROWS]: each row's loss, of X [ROWS][N] and EXTRA [ROWS][targets + 1], by FORM (interface.h), times the row's
 * weight, the last of EXTRA, but for COSENT. CROSS_ENTROPY also stores the logarithm of the sum of the exponentials
 * (LSE); with RUNTIME_N it looks at the first SETS columns for each of the batch's rows, and not at all N. Twin of
 * cl/loss.cl.
 *
 * A work-group per row, neighbours next to each other; of scores each comes from memory once and from a cache a second
 * time. The order of a sum depends on LOCAL_SIZE and the number of columns alone. Any power of two is right. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_SEQUENCES;
layout(constant_id = CONST_FORM) const uint FORM = FORM_CROSS_ENTROPY;
layout(constant_id = CONST_SCALE) const uint SCALE = 0x3f800000;
layout(constant_id = CONST_RUNTIME) const uint RUNTIME = RUNTIME_FORM;
layout(constant_id = CONST_SETS) const uint SETS = 1;
layout(constant_id = CONST_LSE) const uint LSE = LSE_NONE;
#include "loss_formulas.h"

#define FLT_MAX 3.402823466e+38
#define COLUMNS (RUNTIME == RUNTIME_N ? SETS * batch[ROWS] : N)

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
OUTPUT_OF(SLOT_LSE, float, lse);
INPUT(SLOT_EXTRA, extra);
OUTPUT(SLOT_Y, y);

void main()
{
    const uint row = group_number();
    if (row < batch[ROWS]) {
        const float scale = uintBitsToFloat(SCALE);
        if (FORM == FORM_CROSS_ENTROPY) {
            const uint at = row * N, columns = COLUMNS;
            float peak = LOAD(x, at), part = 0.0;
            for (uint c = local_number(); c < columns; c += LOCAL_SIZE) peak = max(peak, LOAD(x, at + c));
            peak = group_max(peak);
            for (uint c = local_number(); c < columns; c += LOCAL_SIZE)
                part += exp_below(scale * (LOAD(x, at + c) - peak));
            const float rest = log(group_sum(part));
            if (local_number() == 0) {
                const float right = LOAD(x, at + uint(LOAD(extra, 2 * row)));
                if (LSE == LSE_WRITE) lse[row] = scale * peak + rest;
                STORE(y, row, LOAD(extra, 2 * row + 1) * (rest + scale * (peak - right)));
            }
        } else if (FORM == FORM_COSENT) {
            const float own = LOAD(x, row), target = LOAD(extra, 2 * row);
            float peak = -FLT_MAX, part = 0.0;
            for (uint r = local_number(); r < batch[ROWS]; r += LOCAL_SIZE)
                if (LOAD(extra, 2 * r) > target) peak = max(peak, scale * (own - LOAD(x, r)));
            peak = group_max(peak);
            for (uint r = local_number(); r < batch[ROWS]; r += LOCAL_SIZE)
                if (LOAD(extra, 2 * r) > target) part += exp_below(scale * (own - LOAD(x, r)) - peak);
            const float sum = group_sum(part);
            if (local_number() == 0) STORE(y, row, sum > 0.0 ? peak + log(sum) : -FLT_MAX);
        } else {
            const uint at = row * N, targets = row * (N + 1);
            float part = 0.0;
            for (uint c = local_number(); c < N; c += LOCAL_SIZE) {
                const float v = LOAD(x, at + c), t = LOAD(extra, targets + c);
                if (FORM == FORM_SQUARED)
                    part = fma(v - t, v - t, part);
                else
                    part += scale * t * minus_log_sigmoid(v) + (1.0 - t) * minus_log_sigmoid(-v);
            }
            const float sum = group_sum(part);
            if (local_number() == 0) STORE(y, row, LOAD(extra, targets + N) * sum);
        }
    }
}
