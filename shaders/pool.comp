#version 450
#extension GL_GOOGLE_include_directive : require
/* One row per sequence: the mean, the first or the largest of its tokens' rows of X, or row s of X itself (POOL_NONE);
 * NORMALIZE divides it by its L2 norm, SUM also stores what it was before. A sequence per work-group. Twin of
 * cl/pool.cl.
 *
 * Tokens are added in ascending order, a column by one work-item, four tokens' loads in flight. LOCAL_SIZE: N / VECTOR
 * rounded up to a power of two, from 32 to 256, because sequences are few. Any power of two is right. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_POOL) const uint POOL = POOL_NONE;
layout(constant_id = CONST_NORMALIZE) const uint NORMALIZE = 0;
layout(constant_id = CONST_SUM) const uint SUM = 0;
#include "row.glsl"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
OUTPUT(SLOT_Y, y);
OUTPUT(SLOT_SUM, sum);

#define POOL_TOKEN(token)                                                                                              \
    if (POOL == POOL_MAX) {                                                                                            \
        ROW_MAX(x, (first + (token)) * N);                                                                             \
    } else {                                                                                                           \
        ROW_ADD(x, (first + (token)) * N);                                                                             \
    }

void main()
{
    const uint row = group_number();
    if (row < batch[ROWS]) {
        uint first = row, count = 1;
        if (POOL != POOL_NONE) {
            const uint offsets = batch[HEADER_AT_OFFSETS];
            first = batch[offsets + row];
            if (POOL != POOL_CLS) count = batch[offsets + row + 1] - first;
        }
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
        if (POOL == POOL_MEAN) row_scale(1.0 / float(count));
        if (SUM != 0) {
            ROW_STORE(sum, row * N);
        }
        if (NORMALIZE != 0) row_scale(1.0 / max(sqrt(row_square_sum()), 1e-12));
        ROW_STORE(y, row * N);
    }
}
