/* One row per sequence: the mean, the first or the largest of its tokens' rows of X, or row s of X itself (POOL_NONE);
 * NORMALIZE divides it by its L2 norm, SUM also stores what it was before. A sequence per work-group. Twin of
 * shaders/pool.comp.
 *
 * Tokens are added in ascending order, a column by one work-item, four tokens' loads in flight. LOCAL_SIZE: N / VECTOR
 * rounded up to a power of two, from 32 to 256, because sequences are few. Any power of two is right. */
#include "common.h"

#ifndef POOL
#define POOL POOL_NONE
#endif
#ifndef NORMALIZE
#define NORMALIZE 0
#endif
#ifndef SUM
#define SUM 0
#endif
#include "row.h"

#define POOL_TOKEN(token)                                                                                              \
    if (POOL == POOL_MAX) {                                                                                            \
        ROW_MAX(x, (first + (token)) * N);                                                                             \
    } else {                                                                                                           \
        ROW_ADD(x, (first + (token)) * N);                                                                             \
    }

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void pool(BATCH_ARGUMENT
    , INPUT(x)
    , OUTPUT(y)
#if SUM
    , OUTPUT(sum)
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OUTPUT(y);
    __local float scratch[REDUCE_WORDS];
    const uint row = group_number();
    if (row < batch[ROWS]) {
        uint first = row, count = 1;
        if (POOL != POOL_NONE) {
            const uint offsets = batch[HEADER_AT_OFFSETS];
            first = batch[offsets + row];
            if (POOL != POOL_CLS) count = batch[offsets + row + 1] - first;
        }
        float held[STEPS][ACCESS];
        ROW_LOAD(x, first * N);
        uint token = 1;
        for (; token + 4 <= count; token += 4) {
            POOL_TOKEN(token);
            POOL_TOKEN(token + 1);
            POOL_TOKEN(token + 2);
            POOL_TOKEN(token + 3);
        }
        for (; token < count; token++) {
            POOL_TOKEN(token);
        }
        if (POOL == POOL_MEAN) row_scale(held, 1.0f / (float)count);
#if SUM
        BEGIN_OUTPUT(sum);
        ROW_STORE(sum, row * N);
#endif
        if (NORMALIZE != 0) row_scale(held, 1.0f / max(sqrt(row_square_sum(held, scratch)), 1e-12f));
        ROW_STORE(y, row * N);
    }
}
