/* Y [1]: the sum of X [ROWS], for COSENT ln(1 + the sum of its exponentials), which LSE gets, too, times the weight in
 * EXTRA [ROWS][2]; RESIDUAL adds the losses before. Twin of shaders/loss_sum.comp.
 *
 * One work-group: rows are few. The order of the sum depends on LOCAL_SIZE and the number of rows alone. Any power of
 * two is right. */
#include "common.h"

#ifndef ROWS
#define ROWS HEADER_SEQUENCES
#endif
#ifndef FORM
#define FORM FORM_SQUARED
#endif
#ifndef RESIDUAL
#define RESIDUAL 0
#endif
#ifndef LSE
#define LSE LSE_NONE
#endif
#include "loss_formulas.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void loss_sum(BATCH_ARGUMENT
    , INPUT(x)
#if RESIDUAL
    , INPUT(residual)
#endif
#if LSE == LSE_WRITE
    , OUTPUT_OF(float, lse)
#endif
#if FORM == FORM_COSENT
    , INPUT(extra)
#endif
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OUTPUT(y);
    __local float scratch[REDUCE_WORDS];
    if (group_number() == 0) {
        float part = 0.0f, before = 0.0f;
#if RESIDUAL
        BEGIN(residual);
        before = LOAD(residual, 0);
#endif
#if FORM == FORM_COSENT
        BEGIN(extra);
        float peak = 0.0f;
        for (uint r = local_number(); r < batch[ROWS]; r += LOCAL_SIZE) peak = max(peak, LOAD(x, r));
        peak = group_max(peak, scratch);
        for (uint r = local_number(); r < batch[ROWS]; r += LOCAL_SIZE) part += exp_below(LOAD(x, r) - peak);
        const float all = peak + log(exp_below(-peak) + group_sum(part, scratch));
        if (local_number() == 0) {
#if LSE == LSE_WRITE
            BEGIN_OUTPUT_OF(float, lse);
            lse[0] = all;
#endif
            STORE(y, 0, LOAD(extra, 1) * all + before);
        }
#else
        for (uint r = local_number(); r < batch[ROWS]; r += LOCAL_SIZE) part += LOAD(x, r);
        const float all = group_sum(part, scratch);
        if (local_number() == 0) STORE(y, 0, all + before);
#endif
        LAST_BARRIER;
    }
}
