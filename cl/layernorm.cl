/* s = dropout(X + bias) + residual, Y = (s - mean) / sqrt(variance + epsilon) * gamma + beta, a row per team; SUM
 * also stores s. Twin of shaders/layernorm.comp.
 *
 * TEAM: N / (4 * VECTOR) rounded to a power of two, from 8 to 256. Then a work-item has four 16-byte loads of each
 * operand in flight, and a short row is one sub-group, whose barriers cost little. LOCAL_SIZE is as much, or 64 where
 * that is several teams. Any powers of two are right. */
#include "common.h"

#ifndef BIAS
#define BIAS 0
#endif
#ifndef RESIDUAL
#define RESIDUAL 0
#endif
#ifndef SUM
#define SUM 0
#endif
#ifndef EPSILON
#define EPSILON 0x2b8cbcccu /* 1e-12 */
#endif
#include "dropout.h"
#include "row.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void layernorm(BATCH_ARGUMENT
    , INPUT(x)
#if BIAS
    , INPUT(bias)
#endif
#if RESIDUAL
    , INPUT(residual)
#endif
    , INPUT(gamma)
#if BETA
    , INPUT(beta)
#endif
    , OUTPUT(y)
#if SUM
    , OUTPUT(sum)
#endif
#if DROPOUT
    , const uint site
#endif
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
    if (FIRST_ROW < batch[ROWS]) {
        BEGIN_ROW;
        float held[STEPS][ACCESS];
        ROW_LOAD(x, row * N);
#if BIAS
        BEGIN(bias);
        ROW_ADD(bias, 0);
#endif
#if DROPOUT
        ROW_DROPOUT(row);
#endif
#if RESIDUAL
        BEGIN(residual);
        ROW_ADD(residual, row * N);
#endif
#if SUM
        BEGIN_OUTPUT(sum);
        if (stored) {
            ROW_STORE(sum, row * N);
        }
#endif
        row_standardize(held, as_float((uint)(EPSILON)), scratch);
        ROW_SCALE_SHIFT(gamma, beta);
        if (stored) {
            ROW_STORE(y, row * N);
        }
    }
}
