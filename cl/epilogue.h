/* What gemm's variants by mma.sync share: what becomes of eight neighbouring sums of a row. For 16-bit floats and rows
 * that start on 16 bytes. */
#include "common.h"
#include "dropout.h"
#include "formulas.h"
#include "gemm_arguments.h"
#include "mma.h"

#if DROPOUT
#define BEGIN_DROPOUT const uint4 dropout = dropout_key(batch, site)
#else
#define BEGIN_DROPOUT
#endif

#define STORE_PACKED(name, at, v) *(__global uint4 *)((name) + (at)) = pack_eight(v)

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
