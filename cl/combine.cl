/* OF_FORWARD: Y [ROWS][N] = the sum of a row's CHOSEN neighbouring rows of X, in their order, with WEIGHTED each times its
 * DELTA. OF_BACKWARD: the gradient of X, whose rows are row r of X here, which is that of Y, times DELTA. Twin of
 * shaders/combine.comp.
 *
 * A work-item per ACCESS columns of one row. Any LOCAL_SIZE is right. */
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
#ifndef FORM
#define FORM OF_FORWARD
#endif
#ifndef WEIGHTED
#define WEIGHTED 0
#endif

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void combine(BATCH_ARGUMENT
    , INPUT(x)
#if WEIGHTED
    , INPUT_OF(float, delta)
#endif
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
#if WEIGHTED
    BEGIN_OF(float, delta);
#define WEIGHT(row) delta[row]
#else
#define WEIGHT(row) 1.0f
#endif
    BEGIN_OUTPUT(y);
    const uint at = (group_number() * LOCAL_SIZE + local_number()) * ACCESS, row = at / N, column = at % N;
    if (row < batch[ROWS]) {
        float v[ACCESS], sum[ACCESS];
#if FORM == OF_FORWARD
        UNROLL for (uint c = 0; c < ACCESS; c++) sum[c] = 0.0f;
        for (uint k = row * CHOSEN; k < (row + 1) * CHOSEN; k++) {
            LOAD_ACCESS(x, k * N + column, v);
            UNROLL for (uint c = 0; c < ACCESS; c++) sum[c] = fma(v[c], WEIGHT(k), sum[c]);
        }
        STORE_ACCESS(y, at, sum);
#else
        LOAD_ACCESS(x, at, v);
        for (uint k = row * CHOSEN; k < (row + 1) * CHOSEN; k++) {
            UNROLL for (uint c = 0; c < ACCESS; c++) sum[c] = v[c] * WEIGHT(k);
            STORE_ACCESS(y, k * N + column, sum);
        }
#endif
    }
}
