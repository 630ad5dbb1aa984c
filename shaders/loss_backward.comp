#version 450
#extension GL_GOOGLE_include_directive : require
/* Y [ROWS][N]: the gradient of the losses that `loss` makes, with the same constants, by SAVED, which it read, times the
 * number X [1]. LSE is what `loss` stored, of COSENT what `loss_sum` did. Columns that CROSS_ENTROPY does not look at get
 * 0; the right one's p - 1 is less the sum of the others' p, which keeps its digits where p is nearly 1. Twin of cl/loss_backward.cl.
 *
 * A work-group per row, neighbours next to each other. Any power of two is right for LOCAL_SIZE. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_SEQUENCES;
layout(constant_id = CONST_FORM) const uint FORM = FORM_CROSS_ENTROPY;
layout(constant_id = CONST_SCALE) const uint SCALE = 0x3f800000;
layout(constant_id = CONST_RUNTIME) const uint RUNTIME = RUNTIME_FORM;
layout(constant_id = CONST_SETS) const uint SETS = 1;
#include "loss_formulas.h"

#define COLUMNS (RUNTIME == RUNTIME_N ? SETS * batch[ROWS] : N)

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT_OF(SLOT_LSE, float, lse);
INPUT(SLOT_SAVED, saved);
INPUT(SLOT_EXTRA, extra);
OUTPUT(SLOT_Y, y);

void main()
{
    const uint row = group_number();
    if (row < batch[ROWS]) {
        const float scale = uintBitsToFloat(SCALE), d = LOAD(x, 0);
        if (FORM == FORM_CROSS_ENTROPY) {
            const uint at = row * N, columns = COLUMNS, right = uint(LOAD(extra, 2 * row));
            const float share = d * LOAD(extra, 2 * row + 1) * scale, all = lse[row];
            float part = 0.0;
            for (uint c = local_number(); c < N; c += LOCAL_SIZE) {
                float p = 0.0;
                if (c < columns && c != right) p = exp_below(scale * LOAD(saved, at + c) - all);
                part += p;
                if (c != right) STORE(y, at + c, share * p);
            }
            const float others = group_sum(part);
            if (local_number() == 0) STORE(y, at + right, -share * others);
        } else if (FORM == FORM_COSENT) {
            const float own = LOAD(saved, row), target = LOAD(extra, 2 * row), all = lse[0];
            float part = 0.0;
            for (uint r = local_number(); r < batch[ROWS]; r += LOCAL_SIZE) {
                const float other = LOAD(saved, r), its = LOAD(extra, 2 * r);
                if (its > target) part += exp_below(scale * (own - other) - all);
                if (its < target) part -= exp_below(scale * (other - own) - all);
            }
            const float sum = group_sum(part);
            if (local_number() == 0) STORE(y, row, d * LOAD(extra, 2 * row + 1) * scale * sum);
        } else {
            const uint at = row * N, targets = row * (N + 1);
            const float share = d * LOAD(extra, targets + N);
            for (uint c = local_number(); c < N; c += LOCAL_SIZE) {
                const float v = LOAD(saved, at + c), t = LOAD(extra, targets + c);
                if (FORM == FORM_SQUARED)
                    STORE(y, at + c, share * 2.0 * (v - t));
                else
                    STORE(y, at + c, share * ((1.0 - t) * sigmoid(v) - scale * t * sigmoid(-v)));
            }
        }
    }
}
