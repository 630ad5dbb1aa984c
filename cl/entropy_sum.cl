/* EXTRA [2], from number Y_OFFSET on: the sum over ROWS of the logarithm of a row's sum of exponentials less its label's score, and the number
 * of rows with no score above their label's, of what `entropy` left (DELTA). LSE [ROWS]: those logarithms, where asked for. Twin of
 * shaders/entropy_sum.comp.
 *
 * One work-group: rows are few. The order of the sum depends on LOCAL_SIZE and the number of rows alone. Any power of
 * two is right. */
#include "common.h"

#ifndef ROWS
#define ROWS HEADER_LABELLED
#endif
#ifndef Y_OFFSET
#define Y_OFFSET 0
#endif
#ifndef LSE
#define LSE LSE_NONE
#endif

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void entropy_sum(BATCH_ARGUMENT
#if LSE == LSE_WRITE
    , OUTPUT_OF(float, lse)
#endif
    , INPUT_OF(float, delta)
    , OUTPUT_OF(float, extra)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
#if LSE == LSE_WRITE
    BEGIN_OUTPUT_OF(float, lse);
#endif
    BEGIN_OF(float, delta);
    BEGIN_OUTPUT_OF(float, extra);
    __local float scratch[REDUCE_WORDS];
    if (group_number() == 0) {
        float loss = 0.0f, right = 0.0f;
        for (uint row = local_number(); row < batch[ROWS]; row += LOCAL_SIZE) {
            const float peak = delta[ENTROPY_STATE * row], own = delta[ENTROPY_STATE * row + 2];
            const float all = peak + log(delta[ENTROPY_STATE * row + 1]);
#if LSE == LSE_WRITE
            lse[row] = all;
#endif
            loss += all - own;
            right += own >= peak ? 1.0f : 0.0f;
        }
        loss = group_sum(loss, scratch);
        right = group_sum(right, scratch);
        if (local_number() == 0) {
            extra[Y_OFFSET] = loss;
            extra[Y_OFFSET + 1] = right;
        }
        LAST_BARRIER;
    }
}
