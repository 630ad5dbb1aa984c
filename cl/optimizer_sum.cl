/* What follows from the sums that chunks left in PARTIALS. FORM OPTIMIZER_SUM_NORM: a work-group adds all of them, which
 * are sums of squares, tells the norm, whether it is finite, and what gradients are clipped by. OPTIMIZER_SUM_RATIOS: a
 * work-group adds those of a tensor, in turn of p^2 and of u^2, and tells LAMB's q. Twin of shaders/optimizer_sum.comp.
 *
 * A work-item has every LOCAL_SIZE-th one, so that the order of a sum follows from LOCAL_SIZE. Any power of two is right. */
#include "common.h"
#include "optimizer.h"

#define AT_ONCE 16 /* loads on their way: one work-group adds them all */

#ifndef FORM
#define FORM OPTIMIZER_SUM_NORM
#endif

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void optimizer_sum(BATCH_ARGUMENT
#if FORM == OPTIMIZER_SUM_RATIOS
    , INPUT_OF(uint, tensors)
#endif
    , INPUT_OF(float, partials)
    , OUTPUT_OF(float, verdict)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
#if FORM == OPTIMIZER_SUM_RATIOS
    BEGIN_OF(uint, tensors);
#endif
    BEGIN_OF(float, partials);
    BEGIN_OUTPUT_OF(float, verdict);
    __local float scratch[REDUCE_WORDS];
    if (batch[OPTIMIZER_ACTIVE] != 0) {
#if FORM == OPTIMIZER_SUM_NORM
        const float most = as_float(batch[OPTIMIZER_MAX_NORM]);
        const uint count = batch[OPTIMIZER_SUMS];
        float part = 0.0f;
        for (uint i = local_number(); i < count; i += AT_ONCE * LOCAL_SIZE) {
            float held[AT_ONCE];
            UNROLL for (uint k = 0; k < AT_ONCE; k++) held[k] = partials[min(i + k * LOCAL_SIZE, count - 1)];
            UNROLL for (uint k = 0; k < AT_ONCE; k++) part += i + k * LOCAL_SIZE < count ? held[k] : 0.0f;
        }
        const float sum = group_sum(part, scratch), norm = sqrt(sum);
        if (local_number() == 0) {
            verdict[VERDICT_FINITE] = (as_uint(sum) & 0x7f800000u) != 0x7f800000u ? 1.0f : 0.0f;
            verdict[VERDICT_CLIP] = most > 0.0f ? min(1.0f, most / (norm + 1e-6f)) : 1.0f;
            verdict[VERDICT_NORM] = norm;
        }
#else
        const uint tensor = group_number(), entry = RATIO_WORDS * tensor;
        float weights = 0.0f, changes = 0.0f;
        for (uint i = tensors[entry + RATIO_BEGIN] + local_number(); i < tensors[entry + RATIO_END]; i += LOCAL_SIZE) {
            weights += partials[tensors[i]];
            changes += partials[tensors[i] + 1];
        }
        weights = group_sum(weights, scratch);
        changes = group_sum(changes, scratch);
        if (local_number() == 0) {
            const bool adapts = tensors[entry + RATIO_ADAPTS] != 0 && weights > 0.0f && changes > 0.0f;
            verdict[VERDICT_RATIOS + tensor] = adapts ? sqrt(weights) / sqrt(changes) : 1.0f;
        }
#endif
        LAST_BARRIER;
    }
}
