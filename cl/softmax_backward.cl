/* Y = SCALE * saved * (g - sum over the row of saved * g) with g = dropout(X): the scores' gradient from that of the
 * weights after the dropout and the weights before it, a row per team. DELTA: the sum is read, not made. Twin of
 * shaders/softmax_backward.comp.
 *
 * LOCAL_SIZE and TEAM: see scores.h. */
#include "common.h"

#ifndef DELTA
#define DELTA 0
#endif
#include "scores.h"

/* gradient = the gradient and weight = the weights of block i. */
#define LOAD_BOTH(i, gradient, weight)                                                                                 \
    LOAD_BLOCK(x, i, gradient);                                                                                        \
    LOAD_BLOCK(saved, i, weight);

#define SUM_BLOCK(i, gradient, weight)                                                                                 \
    UNROLL for (uint c = 0; c < VECTOR; c++) part = COLUMN(i, c) < count ? fma(weight[c], gradient[c], part) : part;

#define RESULT_BLOCK(gradient, weight)                                                                                 \
    UNROLL for (uint c = 0; c < VECTOR; c++) gradient[c] = scale * weight[c] * (gradient[c] - total);

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void softmax_backward(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT(saved)
#if DELTA
    , INPUT_OF(float, delta)
#endif
    , OUTPUT(y)
#if DROPOUT
    , const uint site
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(saved);
    BEGIN_OUTPUT(y);
    __local float scratch[REDUCE_WORDS];
#if DROPOUT
    __local uint kept[LOCAL_SIZE];
#endif
    if (FIRST_SCORE_ROW < SCORE_ROWS) {
        BEGIN_SCORES;
        const float scale = as_float((uint)(SCALE));
        float held[BLOCKS][VECTOR], weights[BLOCKS][VECTOR];
        float rest[VECTOR], rest_weights[VECTOR];

        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                LOAD_BOTH(i, held[i], weights[i]);
            }
        }
#if DROPOUT
        KEEP_BLOCKS;
        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                DROP_BLOCK(i, held[i]);
            }
        }
#endif
#if DELTA
        BEGIN_OF(float, delta);
        const float total = delta[row];
#else
        float part = 0.0f;
        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                SUM_BLOCK(i, held[i], weights[i]);
            }
        }
        for (uint i = BLOCKS; i * BLOCK < count; i++) {
            LOAD_BOTH(i, rest, rest_weights);
#if DROPOUT
            DROP_REST(i, rest);
#endif
            SUM_BLOCK(i, rest, rest_weights);
        }
        const float total = group_sum(part, scratch);
#endif
        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                RESULT_BLOCK(held[i], weights[i]);
                STORE_BLOCK(y, i, held[i]);
            }
        }
        for (uint i = BLOCKS; i * BLOCK < count; i++) {
            LOAD_BOTH(i, rest, rest_weights);
#if DROPOUT
            DROP_REST(i, rest);
#endif
            RESULT_BLOCK(rest, rest_weights);
            STORE_BLOCK(y, i, rest);
        }
        LAST_BARRIER; /* teams leave the loop above at different times */
    }
}
