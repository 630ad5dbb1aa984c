/* The rows that a session's output is, X, to their place among those of a loss, floats Y. Each work-group flags in PARTIALS
 * whether one of its values is not finite (interface/optimizer.h). Twin of shaders/handover_take.comp. */
#include "common.h"
#include "optimizer.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void handover_take(BATCH_ARGUMENT
    , INPUT(x)
    , OUTPUT_OF(float, partials)
    , OUTPUT_OF(float, y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OUTPUT_OF(float, partials);
    BEGIN_OUTPUT_OF(float, y);
    __local float scratch[REDUCE_WORDS];
    if (batch[HANDOVER_ACTIVE] != 0) {
        const uint count = batch[HANDOVER_COUNT], at = batch[HANDOVER_AT], group = group_number();
        float bad = 0.0f;
        for (uint i = group * LOCAL_SIZE + local_number(); i < count; i += HANDOVER_GROUPS * LOCAL_SIZE) {
            const float v = LOAD(x, i);
            y[at + i] = v;
            if ((as_uint(v) & 0x7f800000u) == 0x7f800000u) bad = 1.0f;
        }
        bad = group_sum(bad, scratch);
        if (local_number() == 0) {
            const float flag = batch[HANDOVER_KEEPS] != 0 ? partials[group] : 0.0f;
            partials[group] = bad > 0.0f ? as_float(0x7f800000u) : flag;
        }
        LAST_BARRIER;
    }
}
