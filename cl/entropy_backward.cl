/* Y [ROWS][N]: the gradient of the sum of `entropy_sum` by X [ROWS][N], the scores of the words from number POSITION on,
 * times EXTRA [W_OFFSET]: e^(x - DELTA), DELTA [ROWS] being the logarithms that it left, less 1 at the label (IDS). Twin of
 * shaders/entropy_backward.comp.
 *
 * A work-group per row, whose work-items take their columns some at a time. Any power of two is right for LOCAL_SIZE. */
#include "common.h"

#ifndef POSITION
#define POSITION 0
#endif
#ifndef W_OFFSET
#define W_OFFSET 0
#endif
#include "loss_formulas.h"
#include "row.h"

#ifndef X_STRIDE
#define X_STRIDE N
#endif
#ifndef Y_STRIDE
#define Y_STRIDE N
#endif

#define AT_ONCE 4 /* loads of a work-item that are under way together */

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void entropy_backward(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT_OF(uint, ids)
    , INPUT_OF(float, delta)
    , INPUT_OF(float, extra)
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OF(uint, ids);
    BEGIN_OF(float, delta);
    BEGIN_OF(float, extra);
    BEGIN_OUTPUT(y);
    const uint row = group_number();
    if (row < batch[ROWS]) {
        const uint place = ids[row] - POSITION; /* a word before POSITION wraps around */
        const float d = extra[W_OFFSET], lse = delta[row];
        ROLLED for (uint first = 0; first < STEPS; first += AT_ONCE)
        {
            float held[AT_ONCE][ACCESS];
            UNROLL for (uint i = 0; i < AT_ONCE; i++)
            {
                if (first + i < STEPS) { LOAD_ACCESS(x, row * X_STRIDE + column_inside(first + i), held[i]); }
            }
            UNROLL for (uint i = 0; i < AT_ONCE; i++)
            {
                const uint column = column_of(first + i);
                UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] = exp_below(held[i][c] - lse);
                if (place - column < ACCESS) {
                    UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] -= column + c == place ? 1.0f : 0.0f;
                }
                UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] *= d;
                if (column < N) { STORE_ACCESS(y, row * Y_STRIDE + column, held[i]); }
            }
        }
    }
}
