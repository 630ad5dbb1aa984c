#version 450
#extension GL_GOOGLE_include_directive : require
/* One row per sequence: the mean, the first or the largest of what a layernorm makes of its tokens' rows of X, which is
 * not stored; NORMALIZE divides it by its L2 norm. A sequence per work-group. Twin of cl/layernorm_pool.cl.
 *
 * Tokens are normalized one after the other, in ascending order. A mean is scaled and shifted by GAMMA and BETA once,
 * at the end; of the largest every token is, because GAMMA may be negative.
 * LOCAL_SIZE: N / (4 * VECTOR) rounded to a power of two, from 32 to 256, as layernorm's. Any power of two is right. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_POOL) const uint POOL = POOL_MEAN;
layout(constant_id = CONST_NORMALIZE) const uint NORMALIZE = 0;
layout(constant_id = CONST_EPSILON) const uint EPSILON = 0x2b8cbcccu; /* 1e-12 */
#include "row.glsl"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_GAMMA, gamma);
INPUT(SLOT_BETA, beta);
OUTPUT(SLOT_Y, y);

const float NOTHING = POOL == POOL_MAX ? -3.402823466e38 : 0.0;
float pooled[STEPS][VECTOR]; /* of the tokens so far */

float together(const float a, const float b) { return POOL == POOL_MAX ? max(a, b) : a + b; }

void main()
{
    const uint row = group_number();
    if (row < batch[ROWS]) {
        const uint offsets = batch[HEADER_AT_OFFSETS], first = batch[offsets + row];
        const uint count = POOL == POOL_CLS ? 1 : batch[offsets + row + 1] - first;
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) pooled[i][c] = NOTHING;
        }
        for (uint token = 0; token < count; token++) {
            ROW_LOAD(x, (first + token) * N);
            row_standardize(uintBitsToFloat(EPSILON));
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
        if (POOL == POOL_MEAN) row_scale(1.0 / float(count));
        if (POOL != POOL_MAX) {
            ROW_SCALE_SHIFT(gamma, beta);
        }
        if (NORMALIZE != 0) row_scale(1.0 / max(sqrt(row_square_sum()), 1e-12));
        ROW_STORE(y, row * N);
    }
}
