/* Y [ROWS][N]: row IDS[r] of X for each row r, and 0 where that is NO_ROW: the rows of tokens that have a label, and the
 * gradients of all tokens' from theirs. Twin of shaders/pick.comp.
 *
 * A work-group per row of Y. Any LOCAL_SIZE is right. */
#include "common.h"

#ifndef N
#define N 1
#endif
#ifndef ROWS
#define ROWS HEADER_LABELLED
#endif

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void pick(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT_OF(uint, ids)
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OF(uint, ids);
    BEGIN_OUTPUT(y);
    const uint row = group_number();
    if (row < batch[ROWS]) {
        const uint from = ids[row];
        for (uint column = local_number() * ACCESS; column < N; column += LOCAL_SIZE * ACCESS) {
            float v[ACCESS];
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] = 0.0f;
            if (from != NO_ROW) {
                LOAD_ACCESS(x, from * N + column, v);
            }
            STORE_ACCESS(y, row * N + column, v);
        }
    }
}
