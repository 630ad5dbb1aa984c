#version 450
#extension GL_GOOGLE_include_directive : require
/* Y = SCALE * saved * (g - sum over the row of saved * g) with g = dropout(X): the scores' gradient from that of the
 * weights after the dropout and the weights before it, a row per team. DELTA: the sum is read, not made. Twin of
 * cl/softmax_backward.cl.
 *
 * LOCAL_SIZE and TEAM: see scores.glsl. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_DELTA) const uint DELTA = 0;

INPUT_OF(SLOT_BATCH, uint, batch);
#include "scores.glsl"

/* gradient = the gradient and weight = the weights of block i. */
#define LOAD_BOTH(i, gradient, weight)                                                                                 \
    LOAD_BLOCK(x, i, gradient);                                                                                        \
    LOAD_BLOCK(saved, i, weight);

#define SUM_BLOCK(i, gradient, weight)                                                                                 \
    UNROLL for (uint c = 0; c < VECTOR; c++) part = COLUMN(i, c) < count ? fma(weight[c], gradient[c], part) : part;

#define RESULT_BLOCK(gradient, weight)                                                                                 \
    UNROLL for (uint c = 0; c < VECTOR; c++) gradient[c] = scale * weight[c] * (gradient[c] - total);

INPUT(SLOT_X, x);
INPUT(SLOT_SAVED, saved);
INPUT_OF(SLOT_DELTA, float, delta);
OUTPUT(SLOT_Y, y);

void main()
{
    if (FIRST_SCORE_ROW < SCORE_ROWS) {
        BEGIN_SCORES;
        const float scale = uintBitsToFloat(SCALE);
        float held[BLOCKS][VECTOR], weights[BLOCKS][VECTOR];
        float rest[VECTOR], rest_weights[VECTOR];

        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                LOAD_BOTH(i, held[i], weights[i]);
            }
        }
        if (DROPOUT != 0) {
            KEEP_BLOCKS;
            UNROLL for (uint i = 0; i < BLOCKS; i++)
            {
                if (i * BLOCK < count) {
                    DROP_BLOCK(i, held[i]);
                }
            }
        }
        float total;
        if (DELTA != 0) {
            total = delta[row];
        } else {
            float part = 0.0;
            UNROLL for (uint i = 0; i < BLOCKS; i++)
            {
                if (i * BLOCK < count) {
                    SUM_BLOCK(i, held[i], weights[i]);
                }
            }
            for (uint i = BLOCKS; i * BLOCK < count; i++) {
                LOAD_BOTH(i, rest, rest_weights);
                if (DROPOUT != 0) {
                    DROP_REST(i, rest);
                }
                SUM_BLOCK(i, rest, rest_weights);
            }
            total = group_sum(part);
        }
        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                RESULT_BLOCK(held[i], weights[i]);
                STORE_BLOCK(y, i, held[i]);
            }
        }
        for (uint i = BLOCKS; i * BLOCK < count; i++) {
            LOAD_BOTH(i, rest, rest_weights);
            if (DROPOUT != 0) {
                DROP_REST(i, rest);
            }
            RESULT_BLOCK(rest, rest_weights);
            STORE_BLOCK(y, i, rest);
        }
    }
}
