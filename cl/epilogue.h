/* What gemm's variants by mma.sync share: what becomes of eight neighbouring sums of a row. For 16-bit floats and rows
 * that start on 16 bytes. */
#include "common.h"
#include "dropout.h"
#include "formulas.h"
#include "gemm_arguments.h"
#include "gate.h"
#include "mma.h"
#include "rotary.h"

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

#if ROTARY
#define TURN(v, row, column) rotary_eight(v, position, positions[row], column)
#else
#define TURN(v, row, column)
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

#if GATE && !DERIVATIVE && DROPOUT
#define DROP_GATED(v, row, column) (v) *= dropout_half(dropout_words_keyed(dropout, row, column), (column) % 8 != 0)
#else
#define DROP_GATED(v, row, column)
#endif

/* From sums to results, in place, and to memory. */
#if GATE && !DERIVATIVE
/* Of a row of N / 2. */
#define FINISH(v, raw_bias, row, column)                                                                               \
    {                                                                                                                  \
        ADD_BIAS(v, raw_bias);                                                                                         \
        STORE_BEFORE(v, row, column);                                                                                  \
        float4 gated_ = gate_eight(v);                                                                                 \
        DROP_GATED(gated_, row, (column) / 2);                                                                         \
        *(__global uint2 *)(y + ((row)*N + (column)) / 2) =                                                            \
            (uint2)(pack_halves(gated_.x, gated_.y), pack_halves(gated_.z, gated_.w));                                 \
    }
#elif GATE
/* Of a row of 2 N. */
#define FINISH(v, raw_bias, row, column)                                                                               \
    {                                                                                                                  \
        float pairs_[16];                                                                                              \
        ADD_BIAS(v, raw_bias);                                                                                         \
        DROP(v, row, column);                                                                                          \
        LOAD_VECTOR(saved, 2 * ((row)*N + (column)), pairs_);                                                          \
        LOAD_VECTOR(saved, 2 * ((row)*N + (column)) + 8, pairs_ + 8);                                                  \
        gate_gradient_eight(pairs_, v);                                                                                \
        STORE_PACKED(y, 2 * ((row)*N + (column)), pairs_);                                                             \
        STORE_PACKED(y, 2 * ((row)*N + (column)) + 8, pairs_ + 8);                                                     \
    }
#else
#define FINISH(v, raw_bias, row, column)                                                                               \
    {                                                                                                                  \
        ADD_BIAS(v, raw_bias);                                                                                         \
        STORE_BEFORE(v, row, column);                                                                                  \
        TURN(v, row, column);                                                                                          \
        UNROLL for (uint c_ = 0; c_ < 8; c_++)(v)[c_] = activate(ACTIVATION, (v)[c_]);                                 \
        DROP(v, row, column);                                                                                          \
        TIMES_DERIVATIVE(v, row, column);                                                                              \
        ADD_RESIDUAL(v, row, column);                                                                                  \
        STORE_RESULT(v, row, column);                                                                                  \
    }
#endif
