/* The gradients of the weights that combine multiplies with: DELTA [ROWS][CHOSEN] = the product of row r of X, the
 * gradient of what combine made, with each of its CHOSEN rows of SAVED. Twin of shaders/combine_weights.comp.
 *
 * A work-group per row of SAVED. LOCAL_SIZE is any multiple of 8. */
#include "common.h"

#ifndef N
#define N 1
#endif
#ifndef CHOSEN
#define CHOSEN 1
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void combine_weights(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT(saved)
    , OUTPUT_OF(float, delta)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(saved);
    BEGIN_OUTPUT_OF(float, delta);
    __local float scratch[REDUCE_WORDS];
    const uint row = group_number();
    if (row < batch[ROWS] * CHOSEN) {
        float sum = 0.0f;
        for (uint column = local_number() * ACCESS; column < N; column += LOCAL_SIZE * ACCESS) {
            float a[ACCESS], b[ACCESS];
            LOAD_ACCESS(x, row / CHOSEN * N + column, a);
            LOAD_ACCESS(saved, row * N + column, b);
            UNROLL for (uint c = 0; c < ACCESS; c++) sum = fma(a[c], b[c], sum);
        }
        sum = group_sum(sum, scratch);
        if (local_number() == 0) delta[row] = sum;
        LAST_BARRIER;
    }
}
