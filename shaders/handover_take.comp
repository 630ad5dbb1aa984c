#version 450
#extension GL_GOOGLE_include_directive : require
/* The rows that a session's output is, X, to their place among those of a loss, floats Y. Each work-group flags in PARTIALS
 * whether one of its values is not finite (interface/optimizer.h). Twin of cl/handover_take.cl. */
#define REDUCE
#include "common.glsl"
#include "optimizer.h"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
layout(set = 0, binding = SLOT_PARTIALS) restrict buffer partials_elements { float partials[]; };
OUTPUT_OF(SLOT_Y, float, y);

void main()
{
    if (batch[HANDOVER_ACTIVE] != 0) {
        const uint count = batch[HANDOVER_COUNT], at = batch[HANDOVER_AT], group = group_number();
        float bad = 0.0;
        for (uint i = group * LOCAL_SIZE + local_number(); i < count; i += HANDOVER_GROUPS * LOCAL_SIZE) {
            const float v = LOAD(x, i);
            y[at + i] = v;
            if ((floatBitsToUint(v) & 0x7f800000u) == 0x7f800000u) bad = 1.0;
        }
        bad = group_sum(bad);
        if (local_number() == 0) {
            const float flag = batch[HANDOVER_KEEPS] != 0 ? partials[group] : 0.0;
            partials[group] = bad > 0.0 ? uintBitsToFloat(0x7f800000u) : flag;
        }
    }
}
