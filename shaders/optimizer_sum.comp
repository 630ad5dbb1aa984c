#version 450
#extension GL_GOOGLE_include_directive : require
/* What follows from the sums that chunks left in PARTIALS. FORM OPTIMIZER_SUM_NORM: a work-group adds all of them, which
 * are sums of squares, tells the norm, whether it is finite, and what gradients are clipped by. OPTIMIZER_SUM_RATIOS: a
 * work-group adds those of a tensor, in turn of p^2 and of u^2, and tells LAMB's q. Twin of cl/optimizer_sum.cl.
 *
 * A work-item has every LOCAL_SIZE-th one, so that the order of a sum follows from LOCAL_SIZE. Any power of two is right. */
#define REDUCE
#include "common.glsl"
#include "optimizer.h"

#define AT_ONCE 16 /* loads on their way: one work-group adds them all */

layout(constant_id = CONST_FORM) const uint FORM = OPTIMIZER_SUM_NORM;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT_OF(SLOT_IDS, uint, tensors);
INPUT_OF(SLOT_PARTIALS, float, partials);
OUTPUT_OF(SLOT_Y, float, verdict);

void norm_tell()
{
    const float most = uintBitsToFloat(batch[OPTIMIZER_MAX_NORM]);
    const uint count = batch[OPTIMIZER_SUMS];
    float part = 0.0;
    for (uint i = local_number(); i < count; i += AT_ONCE * LOCAL_SIZE) {
        float held[AT_ONCE];
        UNROLL for (uint k = 0; k < AT_ONCE; k++) held[k] = partials[min(i + k * LOCAL_SIZE, count - 1)];
        UNROLL for (uint k = 0; k < AT_ONCE; k++) part += i + k * LOCAL_SIZE < count ? held[k] : 0.0;
    }
    const float sum = group_sum(part), norm = sqrt(sum);
    if (local_number() == 0) {
        verdict[VERDICT_FINITE] = (floatBitsToUint(sum) & 0x7f800000u) != 0x7f800000u ? 1.0 : 0.0;
        verdict[VERDICT_CLIP] = most > 0.0 ? min(1.0, most / (norm + 1e-6)) : 1.0;
        verdict[VERDICT_NORM] = norm;
    }
}

void ratio_tell()
{
    const uint tensor = group_number(), entry = RATIO_WORDS * tensor;
    float weights = 0.0, changes = 0.0;
    for (uint i = tensors[entry + RATIO_BEGIN] + local_number(); i < tensors[entry + RATIO_END]; i += LOCAL_SIZE) {
        weights += partials[tensors[i]];
        changes += partials[tensors[i] + 1];
    }
    weights = group_sum(weights);
    changes = group_sum(changes);
    if (local_number() == 0) {
        const bool adapts = tensors[entry + RATIO_ADAPTS] != 0 && weights > 0.0 && changes > 0.0;
        verdict[VERDICT_RATIOS + tensor] = adapts ? sqrt(weights) / sqrt(changes) : 1.0;
    }
}

void main()
{
    if (batch[OPTIMIZER_ACTIVE] != 0) {
        if (FORM == OPTIMIZER_SUM_NORM) {
            norm_tell();
        } else {
            ratio_tell();
        }
    }
}
