/* One row per sequence: the mean, the first or the largest of what a layernorm makes of its tokens' rows of X, which is
 * not stored; NORMALIZE divides it by its L2 norm. A sequence per work-group. Twin of shaders/layernorm_pool.comp.
 *
 * Tokens are normalized one after the other, in ascending order. A mean is scaled and shifted by GAMMA and BETA once,
 * at the end; of the largest every token is, because GAMMA may be negative.
 * LOCAL_SIZE: N / (4 * VECTOR) rounded to a power of two, from 32 to 256, as layernorm's. Any power of two is right. */
#include "common.h"

#ifndef POOL
#define POOL POOL_MEAN
#endif
#ifndef NORMALIZE
#define NORMALIZE 0
#endif
#ifndef EPSILON
#define EPSILON 0x2b8cbcccu /* 1e-12 */
#endif
#include "row.h"

#define NOTHING (POOL == POOL_MAX ? -FLT_MAX : 0.0f)

static inline float together(const float a, const float b) { return POOL == POOL_MAX ? max(a, b) : a + b; }

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void layernorm_pool(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT(gamma)
#if BETA
    , INPUT(beta)
#endif
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(gamma);
#if BETA
    BEGIN(beta);
#endif
    BEGIN_OUTPUT(y);
    __local float scratch[REDUCE_WORDS];
    const uint row = group_number();
    if (row < batch[ROWS]) {
        const uint offsets = batch[HEADER_AT_OFFSETS], first = batch[offsets + row];
        const uint count = POOL == POOL_CLS ? 1 : batch[offsets + row + 1] - first;
        float held[STEPS][ACCESS], pooled[STEPS][ACCESS]; /* of the tokens so far */
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) pooled[i][c] = NOTHING;
        }
        for (uint token = 0; token < count; token++) {
            ROW_LOAD(x, (first + token) * N);
            row_standardize(held, as_float((uint)(EPSILON)), scratch);
            if (POOL == POOL_MAX) {
                ROW_SCALE_SHIFT(gamma, beta);
            }
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++) pooled[i][c] = together(pooled[i][c], held[i][c]);
            }
        }
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] = pooled[i][c];
        }
        if (POOL == POOL_MEAN) row_scale(held, 1.0f / (float)count);
        if (POOL != POOL_MAX) {
            ROW_SCALE_SHIFT(gamma, beta);
        }
        if (NORMALIZE != 0) row_scale(held, 1.0f / max(sqrt(row_square_sum(held, scratch)), 1e-12f));
        ROW_STORE(y, row * N);
    }
}
