#version 450
#extension GL_GOOGLE_include_directive : require
/* The loss's gradients by the rows of a batch, floats X, to the gradient of the session's output, Y. Each work-group flags
 * in PARTIALS whether one of its values is none that Y can hold, the first one also whether the loss, BIAS, is no finite
 * number (interface/optimizer.h). Twin of cl/handover_give.cl. */
#define REDUCE
#include "common.glsl"
#include "optimizer.h"

#if BF16
#define HELD 0x7f7f8000u
#elif F16
#define HELD floatBitsToUint(65520.0)
#else
#define HELD 0x7f800000u
#endif

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT_OF(SLOT_X, float, x);
INPUT_OF(SLOT_BIAS, float, loss);
layout(set = 0, binding = SLOT_PARTIALS) restrict buffer partials_elements { float partials[]; };
OUTPUT(SLOT_Y, y);

void main()
{
    if (batch[HANDOVER_ACTIVE] != 0) {
        const uint count = batch[HANDOVER_COUNT], at = batch[HANDOVER_AT], group = group_number();
        float bad = group == 0 && (floatBitsToUint(loss[0]) & 0x7f800000u) == 0x7f800000u ? 1.0 : 0.0;
        for (uint i = group * LOCAL_SIZE + local_number(); i < count; i += HANDOVER_GROUPS * LOCAL_SIZE) {
            const float v = x[at + i];
            STORE(y, i, v);
            if ((floatBitsToUint(v) & 0x7fffffffu) >= HELD) bad = 1.0;
        }
        bad = group_sum(bad);
        if (local_number() == 0) {
            const float flag = batch[HANDOVER_KEEPS] != 0 ? partials[group] : 0.0;
            partials[group] = bad > 0.0 ? uintBitsToFloat(0x7f800000u) : flag;
        }
    }
}
