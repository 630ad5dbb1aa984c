/* The loss's gradients by the rows of a batch, floats X, to the gradient of the session's output, Y. Each work-group flags
 * in PARTIALS whether one of its values is none that Y can hold, the first one also whether the loss, BIAS, is no finite
 * number (interface/optimizer.h). Twin of shaders/handover_give.comp. */
#include "common.h"
#include "optimizer.h"

#if BF16
#define HELD 0x7f7f8000u
#elif F16
#define HELD as_uint(65520.0f)
#else
#define HELD 0x7f800000u
#endif

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void handover_give(BATCH_ARGUMENT
    , INPUT_OF(float, x)
    , INPUT_OF(float, loss)
    , OUTPUT_OF(float, partials)
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(float, x);
    BEGIN_OF(float, loss);
    BEGIN_OUTPUT_OF(float, partials);
    BEGIN_OUTPUT(y);
    __local float scratch[REDUCE_WORDS];
    if (batch[HANDOVER_ACTIVE] != 0) {
        const uint count = batch[HANDOVER_COUNT], at = batch[HANDOVER_AT], group = group_number();
        float bad = group == 0 && (as_uint(loss[0]) & 0x7f800000u) == 0x7f800000u ? 1.0f : 0.0f;
        for (uint i = group * LOCAL_SIZE + local_number(); i < count; i += HANDOVER_GROUPS * LOCAL_SIZE) {
            const float v = x[at + i];
            STORE(y, i, v);
            if ((as_uint(v) & 0x7fffffffu) >= HELD) bad = 1.0f;
        }
        bad = group_sum(bad, scratch);
        if (local_number() == 0) {
            const float flag = batch[HANDOVER_KEEPS] != 0 ? partials[group] : 0.0f;
            partials[group] = bad > 0.0f ? as_float(0x7f800000u) : flag;
        }
        LAST_BARRIER;
    }
}
