#version 450
#extension GL_GOOGLE_include_directive : require
/* Y = dropout(activation(a) * b), a and b two neighbours of X + bias, of which GATE says which is a; SUM also stores
 * X + bias. N counts pairs: rows of X, bias and SUM have 2 N. DERIVATIVE: the gradient; X is that of Y, SAVED has the
 * neighbours, and Y, a row of 2 N, gets theirs. Where ACTIVATION is SLOPES_OF and one, Y is the gradient for a result's
 * gradient of 1, and where DERIVATIVE is ACTIVATION_GIVEN that is what SAVED has. Twin of cl/gate.cl.
 *
 * One access of pairs per work-item: what hides the latency is the number of work-items, so LOCAL_SIZE is what fills a
 * compute unit, 128 or 256. Any power of two is right. */
#include "common.glsl"

layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;
layout(constant_id = CONST_BIAS) const uint BIAS = 0;
layout(constant_id = CONST_ACTIVATION) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = CONST_DERIVATIVE) const uint DERIVATIVE = ACTIVATION_NONE;
layout(constant_id = CONST_GATE) const uint GATE = GATE_EVEN;
layout(constant_id = CONST_SUM) const uint SUM = 0;
#include "formulas.h"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_BIAS, bias);
INPUT(SLOT_SAVED, saved);
OUTPUT(SLOT_Y, y);
OUTPUT(SLOT_SUM, sum);
#include "dropout.glsl"

const bool SLOPES = ACTIVATION >= SLOPES_OF;
const uint OF = DERIVATIVE != 0 ? DERIVATIVE : SLOPES ? ACTIVATION - SLOPES_OF : ACTIVATION;
const bool MAKES_PAIRS = DERIVATIVE != 0 || SLOPES;

/* The number of each half of the neighbours: pair by pair. */
#define GATED(c) (2 * (c) + (GATE == GATE_ODD ? 1 : 0))
#define OTHER(c) (2 * (c) + (GATE == GATE_ODD ? 0 : 1))

/* 2 * ACCESS neighbours, in two halves and together. */
#define LOAD_PAIRS(name, at, pairs)                                                                                    \
    {                                                                                                                  \
        float half_[VECTOR];                                                                                           \
        LOAD_ACCESS(name, 2 * (at), half_);                                                                            \
        UNROLL for (uint c_ = 0; c_ < ACCESS; c_++) pairs[c_] = half_[c_];                                             \
        LOAD_ACCESS(name, 2 * (at) + ACCESS, half_);                                                                   \
        UNROLL for (uint c_ = 0; c_ < ACCESS; c_++) pairs[ACCESS + c_] = half_[c_];                                    \
    }
#define STORE_PAIRS(name, at, pairs)                                                                                   \
    {                                                                                                                  \
        float half_[VECTOR];                                                                                           \
        UNROLL for (uint c_ = 0; c_ < ACCESS; c_++) half_[c_] = pairs[c_];                                             \
        STORE_ACCESS(name, 2 * (at), half_);                                                                           \
        UNROLL for (uint c_ = 0; c_ < ACCESS; c_++) half_[c_] = pairs[ACCESS + c_];                                    \
        STORE_ACCESS(name, 2 * (at) + ACCESS, half_);                                                                  \
    }

void main()
{
    const uint at = (group_number() * LOCAL_SIZE + local_number()) * ACCESS;
    if (at < batch[ROWS] * N) {
        float v[VECTOR], pairs[2 * VECTOR];
        if (DERIVATIVE != 0) {
            LOAD_ACCESS(x, at, v);
            LOAD_PAIRS(saved, at, pairs);
        } else {
            LOAD_PAIRS(x, at, pairs);
        }
        if (BIAS != 0) {
            float b[2 * VECTOR];
            LOAD_PAIRS(bias, at % N, b);
            UNROLL for (uint c = 0; c < 2 * ACCESS; c++) pairs[c] += b[c];
        }
        if (SUM != 0) {
            STORE_PAIRS(sum, at, pairs);
        }
        if (SLOPES) {
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] = 1.0;
        } else if (DERIVATIVE == 0) {
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] = activate(OF, pairs[GATED(c)]) * pairs[OTHER(c)];
        }
        if (DROPOUT != 0) {
            dropout_access(v, at / N, at % N);
        }
        if (OF == ACTIVATION_GIVEN) {
            UNROLL for (uint c = 0; c < 2 * ACCESS; c++) pairs[c] *= v[c / 2];
        } else if (MAKES_PAIRS) {
            UNROLL for (uint c = 0; c < ACCESS; c++)
            {
                const float gate = pairs[GATED(c)], other = pairs[OTHER(c)];
                pairs[GATED(c)] = v[c] * other * derivative(OF, gate);
                pairs[OTHER(c)] = v[c] * activate(OF, gate);
            }
        }
        if (MAKES_PAIRS) {
            STORE_PAIRS(y, at, pairs);
        } else {
            STORE_ACCESS(y, at, v);
        }
    }
}
