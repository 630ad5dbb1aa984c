/* Y = dropout(activation(a) * b), a and b two neighbours of X + bias, of which GATE says which is a; SUM also stores
 * X + bias. N counts pairs: rows of X, bias and SUM have 2 N. DERIVATIVE: the gradient; X is that of Y, SAVED has the
 * neighbours, and Y, a row of 2 N, gets theirs. Where ACTIVATION is SLOPES_OF and one, Y is the gradient for a result's
 * gradient of 1, and where DERIVATIVE is ACTIVATION_GIVEN that is what SAVED has. Twin of shaders/gate.comp.
 *
 * One access of pairs per work-item: what hides the latency is the number of work-items, so LOCAL_SIZE is what fills a
 * compute unit, 128 or 256. Any power of two is right. */
#include "common.h"

#ifndef N
#define N 1
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
#ifndef DERIVATIVE
#define DERIVATIVE ACTIVATION_NONE
#endif
#ifndef GATE
#define GATE GATE_EVEN
#endif
#ifndef SUM
#define SUM 0
#endif
#include "dropout.h"
#include "formulas.h"

#define SLOPES (ACTIVATION >= SLOPES_OF)
#define OF (DERIVATIVE ? DERIVATIVE : SLOPES ? ACTIVATION - SLOPES_OF : ACTIVATION)
#define MAKES_PAIRS (DERIVATIVE || SLOPES)
#define GATED (GATE == GATE_ODD ? 1 : 0)
#define OTHER (GATE == GATE_ODD ? 0 : 1)

/* 2 * ACCESS neighbours, pair by pair. */
#define LOAD_PAIRS(name, at, v)                                                                                        \
    LOAD_ACCESS(name, 2 * (at), v);                                                                                    \
    LOAD_ACCESS(name, 2 * (at) + ACCESS, (v) + ACCESS)
#define STORE_PAIRS(name, at, v)                                                                                       \
    STORE_ACCESS(name, 2 * (at), v);                                                                                   \
    STORE_ACCESS(name, 2 * (at) + ACCESS, (v) + ACCESS)

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void gate(BATCH_ARGUMENT
    , INPUT(x)
#if BIAS
    , INPUT(bias)
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
    const uint at = (group_number() * LOCAL_SIZE + local_number()) * ACCESS;
    if (at < batch[ROWS] * N) {
        float v[ACCESS], pairs[2 * ACCESS];
#if DERIVATIVE
        BEGIN(saved);
        LOAD_ACCESS(x, at, v);
        LOAD_PAIRS(saved, at, pairs);
#else
        LOAD_PAIRS(x, at, pairs);
#endif
#if BIAS
        BEGIN(bias);
        float b[2 * ACCESS];
        LOAD_PAIRS(bias, at % N, b);
        UNROLL for (uint c = 0; c < 2 * ACCESS; c++) pairs[c] += b[c];
#endif
#if SUM
        BEGIN_OUTPUT(sum);
        STORE_PAIRS(sum, at, pairs);
#endif
#if SLOPES
        UNROLL for (uint c = 0; c < ACCESS; c++) v[c] = 1.0f;
#elif !DERIVATIVE
        UNROLL for (uint c = 0; c < ACCESS; c++) v[c] = activate(OF, pairs[2 * c + GATED]) * pairs[2 * c + OTHER];
#endif
#if DROPOUT
        dropout_access(v, batch, site, at / N, at % N);
#endif
#if OF == ACTIVATION_GIVEN
        UNROLL for (uint c = 0; c < 2 * ACCESS; c++) pairs[c] *= v[c / 2];
#elif MAKES_PAIRS
        UNROLL for (uint c = 0; c < ACCESS; c++)
        {
            const float gate = pairs[2 * c + GATED], other = pairs[2 * c + OTHER];
            pairs[2 * c + GATED] = v[c] * other * derivative(OF, gate);
            pairs[2 * c + OTHER] = v[c] * activate(OF, gate);
        }
#endif
#if MAKES_PAIRS
        STORE_PAIRS(y, at, pairs);
#else
        STORE_ACCESS(y, at, v);
#endif
    }
}
