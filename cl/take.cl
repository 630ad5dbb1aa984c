/* Rows of a loss, column by column of its examples. OF_FORWARD: Y [ROWS, or M][N] is the first N elements of the rows of
 * X [][X_STRIDE] from column POSITION on, SETS columns of them (0: all rows); Y's rows beyond these become 0, up to M of
 * them. OF_BACKWARD: back to their places in Y [ROWS][N], which is 0 elsewhere; RESIDUAL adds what others gave before.
 * Twin of shaders/take.comp.
 *
 * A work-group per row of the batch, which writes that row of Y and every ROWS-th after it. Any LOCAL_SIZE is right. */
#include "common.h"

#ifndef N
#define N 1
#endif
#ifndef M
#define M 0
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif
#ifndef X_STRIDE
#define X_STRIDE N
#endif
#ifndef POSITION
#define POSITION 0
#endif
#ifndef SETS
#define SETS 0
#endif
#ifndef FORM
#define FORM OF_FORWARD
#endif
#ifndef RESIDUAL
#define RESIDUAL 0
#endif

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void take(BATCH_ARGUMENT
    , INPUT(x)
#if RESIDUAL
    , INPUT(residual)
#endif
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OUTPUT(y);
#if RESIDUAL
    BEGIN(residual);
#endif
    const uint rows = batch[ROWS], examples = batch[HEADER_SEQUENCES], first = POSITION * examples;
    const uint taken = SETS > 0 ? SETS * examples : batch[HEADER_TOKENS];
    for (uint row = group_number(); row < max(rows, (uint)M); row += rows) {
        if (group_number() >= rows) break;
        const uint from = FORM == OF_FORWARD ? row + first : row - first;
        const bool inside = FORM == OF_FORWARD ? row < taken : row >= first && from < taken;
        for (uint column = local_number() * ACCESS; column < N; column += LOCAL_SIZE * ACCESS) {
            float v[ACCESS];
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] = 0.0f;
            if (inside && column < X_STRIDE) {
                LOAD_ACCESS(x, from * X_STRIDE + column, v);
            }
#if RESIDUAL
            float before[ACCESS];
            LOAD_ACCESS(residual, row * N + column, before);
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] += before[c];
#endif
            STORE_ACCESS(y, row * N + column, v);
        }
    }
}
