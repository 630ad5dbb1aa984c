/* Y [ROWS][N]: the gradient of the sum of `entropy_sum` by X [ROWS][N], the scores of the words from number POSITION on,
 * times EXTRA [W_OFFSET]: e^(x - DELTA), DELTA [ROWS] being the logarithms that it left, less 1 at the label (IDS). Twin of
 * shaders/entropy_backward.comp.
 *
 * A work-group per row, which it holds in registers. Any power of two is right for LOCAL_SIZE. */
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
        float held[STEPS][ACCESS];
        ROW_LOAD(x, row * X_STRIDE);
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++)
                held[i][c] = d * (exp_below(held[i][c] - lse) - (column_of(i) + c == place ? 1.0f : 0.0f));
        }
        ROW_STORE(y, row * Y_STRIDE);
    }
}
