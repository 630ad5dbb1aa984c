/* Y = SCALE * dropout(activation(X + bias)) * derivative(saved) + residual, element by element over rows of N; SUM also stores
 * X + bias. RUNTIME_N: over M rows of as many as the batch has, Y_STRIDE apart; the bias is by row. Twin of
 * shaders/map.comp.
 *
 * One access of each operand per work-item: what hides the latency is the number of work-items, so LOCAL_SIZE is what
 * fills a compute unit, 128 or 256. Any power of two is right. */
#include "common.h"

#ifndef M
#define M 1
#endif
#ifndef N
#define N 1
#endif
#ifndef RUNTIME
#define RUNTIME RUNTIME_FORM
#endif
#ifndef Y_STRIDE
#define Y_STRIDE N
#endif
#define BATCH_N (RUNTIME == RUNTIME_N)
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif
#ifndef BIAS
#define BIAS 0
#endif
#ifndef ACTIVATION
#define ACTIVATION ACTIVATION_NONE
#endif
#ifndef RESIDUAL
#define RESIDUAL 0
#endif
#ifndef DERIVATIVE
#define DERIVATIVE ACTIVATION_NONE
#endif
#ifndef SCALE
#define SCALE 0x3f800000u /* 1 */
#endif
#ifndef SUM
#define SUM 0
#endif
#include "dropout.h"
#include "formulas.h"
#include "slopes.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void map(BATCH_ARGUMENT
    , INPUT(x)
#if BIAS
    , INPUT(bias)
#endif
#if RESIDUAL
    , INPUT(residual)
#endif
#if DERIVATIVE
    , INPUT(saved)
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
    BEGIN_OUTPUT(y);
    const uint item = group_number() * LOCAL_SIZE + local_number();
#if BATCH_N
    const uint of_row = max((batch[ROWS] + ACCESS - 1) / ACCESS, 1u);
    const uint row = item / of_row, column = item % of_row * ACCESS;
    const uint at = row * Y_STRIDE + column;
    if (row < M && column < batch[ROWS]) {
#else
    const uint at = item * ACCESS;
    if (at < batch[ROWS] * N) {
#endif
        float v[ACCESS];
        LOAD_ACCESS(x, at, v);
#if BIAS
        BEGIN(bias);
#if BATCH_N
        const float b = LOAD(bias, row);
        UNROLL for (uint c = 0; c < ACCESS; c++) v[c] += b;
#else
        float b[ACCESS];
        LOAD_ACCESS(bias, at % N, b);
        UNROLL for (uint c = 0; c < ACCESS; c++) v[c] += b[c];
#endif
#endif
#if SUM
        BEGIN_OUTPUT(sum);
        STORE_ACCESS(sum, at, v);
#endif
        UNROLL for (uint c = 0; c < ACCESS; c++) v[c] = activate_or_slope(ACTIVATION, v[c]);
        if ((uint)(SCALE) != 0x3f800000u) UNROLL for (uint c = 0; c < ACCESS; c++) v[c] *= as_float((uint)(SCALE));
#if DROPOUT && BATCH_N
        UNROLL for (uint c = 0; c < ACCESS; c++) v[c] *= dropout_factor(dropout_key(batch, site), column + c, row);
#elif DROPOUT
        dropout_access(v, batch, site, at / N, at % N);
#endif
#if DERIVATIVE
        BEGIN(saved);
        float s[ACCESS];
        LOAD_ACCESS(saved, at, s);
        UNROLL for (uint c = 0; c < ACCESS; c++) v[c] *= derivative_or_given(DERIVATIVE, s[c]);
#endif
#if RESIDUAL
        BEGIN(residual);
        float r[ACCESS];
        LOAD_ACCESS(residual, at, r);
        UNROLL for (uint c = 0; c < ACCESS; c++) v[c] += r[c];
#endif
        STORE_ACCESS(y, at, v);
    }
}
