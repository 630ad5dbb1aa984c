/* EXTRA [ROWS][ENTROPY_STATE] in float: of each row of X [ROWS][N], the scores of the words from number POSITION on,
 * the largest one, the sum of the exponentials by it, and the score of the label (IDS), which the strip that has it
 * sets. RESIDUAL: with those of the strips before (DELTA). Twin of shaders/entropy.comp.
 *
 * A work-group per row, whose work-items each pass over their columns once, some of them at a time: what they have so
 * far is by the largest that they have met. The order of the sum depends on N and LOCAL_SIZE alone. Any power of two is
 * right for LOCAL_SIZE. */
#include "common.h"

#ifndef POSITION
#define POSITION 0
#endif
#ifndef RESIDUAL
#define RESIDUAL 0
#endif
#include "loss_formulas.h"
#include "row.h"

#ifndef X_STRIDE
#define X_STRIDE N
#endif

/* Loads of a work-item that are under way together, and what is below all scores: that of no column. */
#define AT_ONCE 4
#define LOWEST (-3.0e38f)

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void entropy(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT_OF(uint, ids)
#if RESIDUAL
    , INPUT_OF(float, delta)
#endif
    , OUTPUT_OF(float, extra)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OF(uint, ids);
#if RESIDUAL
    BEGIN_OF(float, delta);
#endif
    BEGIN_OUTPUT_OF(float, extra);
    __local float scratch[REDUCE_WORDS];
    const uint row = group_number();
    if (row < batch[ROWS]) {
        float largest = LOWEST, part = 0.0f;
        ROLLED for (uint first = 0; first < STEPS; first += AT_ONCE)
        {
            const bool whole = (first + AT_ONCE) * ACCESS * TEAM <= N; /* all of them are in the row */
            float held[AT_ONCE][ACCESS], met = largest;
            UNROLL for (uint i = 0; i < AT_ONCE; i++)
            {
                if (first + i < STEPS) { LOAD_ACCESS(x, row * X_STRIDE + column_inside(first + i), held[i]); }
            }
            UNROLL for (uint i = 0; i < AT_ONCE; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++)
                {
                    if (!whole && column_of(first + i) + c >= N) held[i][c] = LOWEST;
                    met = max(met, held[i][c]);
                }
            }
            part *= exp_below(largest - met);
            UNROLL for (uint i = 0; i < AT_ONCE; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++) part += exp_below(held[i][c] - met);
            }
            largest = met;
        }
        float peak = largest;
#if RESIDUAL
        const float before = delta[ENTROPY_STATE * row];
        peak = max(peak, before);
#endif
        peak = group_max(peak, scratch);
        float sum = group_sum(part * exp_below(largest - peak), scratch), right = 0.0f;
        if (local_number() == 0) {
            const uint place = ids[row] - POSITION; /* a word before POSITION wraps around */
#if RESIDUAL
            sum = fma(delta[ENTROPY_STATE * row + 1], exp_below(before - peak), sum);
            right = delta[ENTROPY_STATE * row + 2];
#endif
            if (place < N) right = LOAD(x, row * X_STRIDE + place);
            extra[ENTROPY_STATE * row] = peak;
            extra[ENTROPY_STATE * row + 1] = sum;
            extra[ENTROPY_STATE * row + 2] = right;
        }
        LAST_BARRIER;
    }
}
