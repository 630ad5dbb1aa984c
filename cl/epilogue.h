/* What gemm's variants share (cl/gemm.cl says what is computed): the constants, the arguments, and what becomes of
 * eight neighbouring sums of a row. For 16-bit floats and rows that start on 16 bytes. */
#include "common.h"
#include "dropout.h"
#include "formulas.h"
#include "mma.h"

#ifndef FORM
#define FORM GEMM_NT
#endif
#ifndef M
#define M 32
#endif
#ifndef N
#define N 32
#endif
#ifndef K
#define K 32
#endif
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
#ifndef SUM
#define SUM 0
#endif
#ifndef DERIVATIVE
#define DERIVATIVE ACTIVATION_NONE
#endif
#ifndef COLUMN_SUMS
#define COLUMN_SUMS 0
#endif
#ifndef NORM
#define NORM 0
#endif
#ifndef EPSILON
#define EPSILON 0x2b8cbcccu /* 1e-12 */
#endif

/* Whether k is the slow dimension of an operand. */
#define X_MAJOR (FORM == GEMM_TN)
#define W_MAJOR (FORM != GEMM_NT)
/* GEMM_TN in parts, and the column sums of the other forms. */
#define PARTS (FORM == GEMM_TN && COLUMN_SUMS)
#define EPILOGUE_SUMS (FORM != GEMM_TN && COLUMN_SUMS)

#ifndef X_STRIDE
#define X_STRIDE (X_MAJOR ? M : K)
#endif
#ifndef X_OFFSET
#define X_OFFSET 0
#endif
#ifndef W_STRIDE
#define W_STRIDE (W_MAJOR ? N : K)
#endif
#ifndef W_OFFSET
#define W_OFFSET 0
#endif
#ifndef Y_STRIDE
#define Y_STRIDE N
#endif
#ifndef Y_OFFSET
#define Y_OFFSET 0
#endif

/* ---- arguments ---- */

#if BIAS
#define ARGUMENT_BIAS , INPUT(bias)
#define BEGIN_BIAS BEGIN(bias)
#else
#define ARGUMENT_BIAS
#define BEGIN_BIAS
#endif
#if RESIDUAL
#define ARGUMENT_RESIDUAL , INPUT(residual)
#define BEGIN_RESIDUAL BEGIN(residual)
#else
#define ARGUMENT_RESIDUAL
#define BEGIN_RESIDUAL
#endif
#if NORM
#define ARGUMENT_NORM , INPUT(gamma), INPUT(beta)
#define BEGIN_NORM                                                                                                     \
    BEGIN(gamma);                                                                                                      \
    BEGIN(beta)
#else
#define ARGUMENT_NORM
#define BEGIN_NORM
#endif
#if DERIVATIVE
#define ARGUMENT_SAVED , INPUT(saved)
#define BEGIN_SAVED BEGIN(saved)
#else
#define ARGUMENT_SAVED
#define BEGIN_SAVED
#endif
#if COLUMN_SUMS
#define ARGUMENT_PARTIALS , OUTPUT_OF(float, partials)
#define BEGIN_PARTIALS BEGIN_OUTPUT_OF(float, partials)
#else
#define ARGUMENT_PARTIALS
#define BEGIN_PARTIALS
#endif
#if PARTS
#define ARGUMENT_Y
#define BEGIN_Y
#else
#define ARGUMENT_Y , OUTPUT(y)
#define BEGIN_Y BEGIN_OUTPUT(y)
#endif
/* With NORM it is what the layernorm of x gives, else what goes into the activation. */
#if SUM
#define ARGUMENT_BEFORE , OUTPUT(before)
#define BEGIN_BEFORE BEGIN_OUTPUT(before)
#else
#define ARGUMENT_BEFORE
#define BEGIN_BEFORE
#endif
#if DROPOUT
#define ARGUMENT_SITE , const uint site
#define BEGIN_DROPOUT const uint4 dropout = dropout_key(batch, site)
#else
#define ARGUMENT_SITE
#define BEGIN_DROPOUT
#endif

#define PRODUCT_ARGUMENTS                                                                                              \
    INPUT_OF(uint, batch), INPUT(x),                                                                                   \
        INPUT(w) ARGUMENT_BIAS ARGUMENT_RESIDUAL ARGUMENT_NORM ARGUMENT_SAVED ARGUMENT_PARTIALS ARGUMENT_Y             \
            ARGUMENT_BEFORE ARGUMENT_SITE

#define BEGIN_PRODUCT                                                                                                  \
    BEGIN_OF(uint, batch);                                                                                             \
    BEGIN(x);                                                                                                          \
    BEGIN(w);                                                                                                          \
    BEGIN_BIAS;                                                                                                        \
    BEGIN_RESIDUAL;                                                                                                    \
    BEGIN_NORM;                                                                                                        \
    BEGIN_SAVED;                                                                                                       \
    BEGIN_PARTIALS;                                                                                                    \
    BEGIN_Y;                                                                                                           \
    BEGIN_BEFORE;                                                                                                      \
    BEGIN_DROPOUT

/* ---- eight columns ---- */

#define STORE_PACKED(name, at, v)                                                                                      \
    *(__global uint4 *)((name) + (at)) =                                                                               \
        (uint4)(pack_pair((v)[0], (v)[1]), pack_pair((v)[2], (v)[3]), pack_pair((v)[4], (v)[5]),                       \
                pack_pair((v)[6], (v)[7]))

/* raw_bias = those of the eight columns: once for all rows. */
#if BIAS
#define LOAD_BIAS(raw_bias, column)                                                                                    \
    const uint4 raw_bias = (column) < N ? *(__global const uint4 *)(bias + (column)) : (uint4)(0)
#define ADD_BIAS(v, raw_bias)                                                                                          \
    {                                                                                                                  \
        float b_[8];                                                                                                   \
        unpack_vector(raw_bias, b_);                                                                                   \
        UNROLL for (uint c_ = 0; c_ < 8; c_++)(v)[c_] += b_[c_];                                                       \
    }
#else
#define LOAD_BIAS(raw_bias, column)
#define ADD_BIAS(v, raw_bias)
#endif

#if SUM && !NORM
#define STORE_BEFORE(v, row, column) STORE_PACKED(before, (row)*N + (column), v)
#else
#define STORE_BEFORE(v, row, column)
#endif

#if KEPT
#define DROP(v, row, column) UNROLL for (uint c_ = 0; c_ < 8; c_++)(v)[c_] *= DROPOUT_SCALE
#elif DROPOUT
#define DROP(v, row, column) dropout_keyed(v, dropout, row, column)
#else
#define DROP(v, row, column)
#endif

#if DERIVATIVE
#define TIMES_DERIVATIVE(v, row, column)                                                                               \
    {                                                                                                                  \
        float d_[8];                                                                                                   \
        LOAD_VECTOR(saved, (row)*N + (column), d_);                                                                    \
        UNROLL for (uint c_ = 0; c_ < 8; c_++)(v)[c_] *= derivative(DERIVATIVE, d_[c_]);                               \
    }
#else
#define TIMES_DERIVATIVE(v, row, column)
#endif

#if RESIDUAL
#define ADD_RESIDUAL(v, row, column)                                                                                   \
    {                                                                                                                  \
        float r_[8];                                                                                                   \
        LOAD_VECTOR(residual, (row)*N + (column), r_);                                                                 \
        UNROLL for (uint c_ = 0; c_ < 8; c_++)(v)[c_] += r_[c_];                                                       \
    }
#else
#define ADD_RESIDUAL(v, row, column)
#endif

#if PARTS
#define STORE_RESULT(v, row, column) STORE_FLOATS(partials, (part * M + (row)) * N + (column), v)
#else
#define STORE_RESULT(v, row, column) STORE_PACKED(y, Y_OFFSET + (row)*Y_STRIDE + (column), v)
#endif

/* From sums to results, in place, and to memory. */
#define FINISH(v, raw_bias, row, column)                                                                               \
    {                                                                                                                  \
        ADD_BIAS(v, raw_bias);                                                                                         \
        STORE_BEFORE(v, row, column);                                                                                  \
        UNROLL for (uint c_ = 0; c_ < 8; c_++)(v)[c_] = activate(ACTIVATION, (v)[c_]);                                 \
        DROP(v, row, column);                                                                                          \
        TIMES_DERIVATIVE(v, row, column);                                                                              \
        ADD_RESIDUAL(v, row, column);                                                                                  \
        STORE_RESULT(v, row, column);                                                                                  \
    }
