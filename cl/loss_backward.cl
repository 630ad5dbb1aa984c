/* Y [ROWS][N]: the gradient of the losses that `loss` makes, with the same constants, by SAVED, which it read, times the
 * number X [1]. LSE is what `loss` stored, of COSENT what `loss_sum` did. Columns that CROSS_ENTROPY does not look at get
 * 0; the right one's p - 1 is less the sum of the others' p, which keeps its digits where p is nearly 1. Twin of shaders/loss_backward.comp.
 *
 * A work-group per row, neighbours next to each other. Any power of two is right for LOCAL_SIZE. */
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
#include "loss_formulas.h"

#define COLUMNS (RUNTIME == RUNTIME_N ? SETS * batch[ROWS] : N)
#define OF_LSE (FORM == FORM_CROSS_ENTROPY || FORM == FORM_COSENT)

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void loss_backward(BATCH_ARGUMENT
    , INPUT(x)
#if OF_LSE
    , INPUT_OF(float, lse)
#endif
    , INPUT(saved)
    , INPUT(extra)
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(saved);
    BEGIN(extra);
    BEGIN_OUTPUT(y);
#if OF_LSE
    BEGIN_OF(float, lse);
#endif
#if OF_LSE
    __local float scratch[REDUCE_WORDS];
#endif
    const uint row = group_number();
    if (row < batch[ROWS]) {
        const float scale = as_float((uint)(SCALE)), d = LOAD(x, 0);
#if FORM == FORM_CROSS_ENTROPY
        const uint at = row * N, columns = COLUMNS, right = (uint)LOAD(extra, 2 * row);
        const float share = d * LOAD(extra, 2 * row + 1) * scale, all = lse[row];
        float part = 0.0f;
        for (uint c = local_number(); c < N; c += LOCAL_SIZE) {
            const float p = c < columns && c != right ? exp_below(scale * LOAD(saved, at + c) - all) : 0.0f;
            part += p;
            if (c != right) STORE(y, at + c, share * p);
        }
        const float others = group_sum(part, scratch);
        if (local_number() == 0) STORE(y, at + right, -share * others);
        LAST_BARRIER;
#elif FORM == FORM_COSENT
        const float own = LOAD(saved, row), target = LOAD(extra, 2 * row), all = lse[0];
        float part = 0.0f;
        for (uint r = local_number(); r < batch[ROWS]; r += LOCAL_SIZE) {
            const float other = LOAD(saved, r), its = LOAD(extra, 2 * r);
            if (its > target) part += exp_below(scale * (own - other) - all);
            if (its < target) part -= exp_below(scale * (other - own) - all);
        }
        const float sum = group_sum(part, scratch);
        if (local_number() == 0) STORE(y, row, d * LOAD(extra, 2 * row + 1) * scale * sum);
        LAST_BARRIER;
#else
        const uint at = row * N, targets = row * (N + 1);
        const float share = d * LOAD(extra, targets + N);
        for (uint c = local_number(); c < N; c += LOCAL_SIZE) {
            const float v = LOAD(saved, at + c), t = LOAD(extra, targets + c);
#if FORM == FORM_SQUARED
            STORE(y, at + c, share * 2.0f * (v - t));
#else
            STORE(y, at + c, share * ((1.0f - t) * sigmoid(v) - scale * t * sigmoid(-v)));
#endif
        }
#endif
    }
}
