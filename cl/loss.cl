/* Y [ROWS]: each row's loss, of X [ROWS][N] and EXTRA [ROWS][targets + 1], by FORM (interface.h), times the row's
 * weight, the last of EXTRA, but for COSENT. CROSS_ENTROPY also stores the logarithm of the sum of the exponentials
 * (LSE); with RUNTIME_N it looks at the first SETS columns for each of the batch's rows, and not at all N. Twin of
 * shaders/loss.comp.
 *
 * A work-group per row, neighbours next to each other; of scores each comes from memory once and from a cache a second
 * time. The order of a sum depends on LOCAL_SIZE and the number of columns alone. Any power of two is right. */
#include "common.h"

#ifndef N
#define N 1
#endif
#ifndef ROWS
#define ROWS HEADER_SEQUENCES
#endif
#ifndef FORM
#define FORM FORM_CROSS_ENTROPY
#endif
#ifndef SCALE
#define SCALE 0x3f800000
#endif
#ifndef RUNTIME
#define RUNTIME RUNTIME_FORM
#endif
#ifndef SETS
#define SETS 1
#endif
#ifndef LSE
#define LSE LSE_NONE
#endif
#include "loss_formulas.h"

#define COLUMNS (RUNTIME == RUNTIME_N ? SETS * batch[ROWS] : N)

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void loss(BATCH_ARGUMENT
    , INPUT(x)
#if LSE == LSE_WRITE
    , OUTPUT_OF(float, lse)
#endif
    , INPUT(extra)
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(extra);
    BEGIN_OUTPUT(y);
    __local float scratch[REDUCE_WORDS];
    const uint row = group_number();
    if (row < batch[ROWS]) {
        const float scale = as_float((uint)(SCALE));
#if FORM == FORM_CROSS_ENTROPY
        const uint at = row * N, columns = COLUMNS;
        float peak = LOAD(x, at), part = 0.0f;
        for (uint c = local_number(); c < columns; c += LOCAL_SIZE) peak = max(peak, LOAD(x, at + c));
        peak = group_max(peak, scratch);
        for (uint c = local_number(); c < columns; c += LOCAL_SIZE)
            part += exp_below(scale * (LOAD(x, at + c) - peak));
        const float rest = log(group_sum(part, scratch));
        if (local_number() == 0) {
            const float right = LOAD(x, at + (uint)LOAD(extra, 2 * row));
#if LSE == LSE_WRITE
            BEGIN_OUTPUT_OF(float, lse);
            lse[row] = scale * peak + rest;
#endif
            STORE(y, row, LOAD(extra, 2 * row + 1) * (rest + scale * (peak - right)));
        }
#elif FORM == FORM_COSENT
        const float own = LOAD(x, row), target = LOAD(extra, 2 * row);
        float peak = -FLT_MAX, part = 0.0f;
        for (uint r = local_number(); r < batch[ROWS]; r += LOCAL_SIZE)
            if (LOAD(extra, 2 * r) > target) peak = max(peak, scale * (own - LOAD(x, r)));
        peak = group_max(peak, scratch);
        for (uint r = local_number(); r < batch[ROWS]; r += LOCAL_SIZE)
            if (LOAD(extra, 2 * r) > target) part += exp_below(scale * (own - LOAD(x, r)) - peak);
        const float sum = group_sum(part, scratch);
        if (local_number() == 0) STORE(y, row, sum > 0.0f ? peak + log(sum) : -FLT_MAX);
#else
        const uint at = row * N, targets = row * (N + 1);
        float part = 0.0f;
        for (uint c = local_number(); c < N; c += LOCAL_SIZE) {
            const float v = LOAD(x, at + c), t = LOAD(extra, targets + c);
#if FORM == FORM_SQUARED
            part = fma(v - t, v - t, part);
#else
            part += scale * t * minus_log_sigmoid(v) + (1.0f - t) * minus_log_sigmoid(-v);
#endif
        }
        const float sum = group_sum(part, scratch);
        if (local_number() == 0) STORE(y, row, LOAD(extra, targets + N) * sum);
#endif
        LAST_BARRIER;
    }
}
