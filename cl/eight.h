/* Formulas of eight values at once for results of 16 bits: formulas.h's, step by step for all of them, so that no step
 * waits for the one before, and GELU's with a shorter polynomial. After hopper.h. */
#include "formulas.h"

/* tail[c] = 1 - Phi(a[c]) = erfc(a[c] / sqrt 2) / 2 for a[c] >= 0, as 2^q: q is the minimax fit of log2 of it under the
 * weight that rounding to f16 gives a * tail. Its relative error is 5e-6 at most where a * tail is a normal number of
 * 16 bits. After TAIL_END, where 2^q is 2^-116, q would rise again. */
#define TAIL_END 13.0f
#define TAIL_FIRST (-8.36233482e-07f)
#define TAIL_STEPS(STEP)                                                                                               \
    STEP(4.64251098e-05f)                                                                                              \
    STEP(-8.40556924e-04f)                                                                                             \
    STEP(8.24517291e-03f)                                                                                              \
    STEP(-5.35682738e-02f)                                                                                             \
    STEP(-4.58743453e-01f)                                                                                             \
    STEP(-1.15117359f)
#define TAIL_LAST (-1.0f)

/* tail[c] of a[c] / scale, times 2^more; both are constants. */
INLINE void tail_eight(const float *a, const float scale, const float more, float *tail)
{
    float b[8], q[8], power = 1.0f / (scale * scale * scale * scale * scale * scale * scale);
    UNROLL for (uint c = 0; c < 8; c++) b[c] = a[c] > TAIL_END * scale ? TAIL_END * scale : a[c];
    UNROLL for (uint c = 0; c < 8; c++) q[c] = TAIL_FIRST * power;
#define TAIL_STEP(coefficient)                                                                                         \
    power *= scale;                                                                                                    \
    UNROLL for (uint c = 0; c < 8; c++) q[c] = fma(q[c], b[c], (coefficient)*power);
    TAIL_STEPS(TAIL_STEP)
#undef TAIL_STEP
    UNROLL for (uint c = 0; c < 8; c++) q[c] = fma(q[c], b[c], TAIL_LAST + more);
    UNROLL for (uint c = 0; c < 8; c++) tail[c] = exp2_fast(q[c]);
}

/* v = scale * activation(v / scale); `scale` is a constant, and 1 but for the activations here. */
#define CAN_SCALE(activation)                                                                                          \
    ((activation) == ACTIVATION_NONE || (activation) == ACTIVATION_RELU || (activation) == ACTIVATION_GELU)

INLINE void activate_eight(const uint activation, const float scale, float *v)
{
    if (activation == ACTIVATION_GELU) {
        float a[8], tail[8];
        UNROLL for (uint c = 0; c < 8; c++) a[c] = fabs(v[c]);
        tail_eight(a, scale, 0.0f, tail);
        UNROLL for (uint c = 0; c < 8; c++) v[c] = fma(-fabs(v[c]), tail[c], v[c] > 0.0f ? v[c] : 0.0f);
    } else {
        UNROLL for (uint c = 0; c < 8; c++) v[c] = activate(activation, v[c]);
    }
}

/* v = scale * activation(v), and scale times its slope there; `scale` is a constant. GELU's is v Phi(v), with the slope
 * Phi(v) + v phi(v): the scale goes into the exponents of both. */
INLINE void activate_slope_eight(const uint activation, const float scale, float *v, float *slope)
{
    if (activation == ACTIVATION_GELU) {
        float a[8], tail[8], density[8];
        const float more = log2(scale);
        UNROLL for (uint c = 0; c < 8; c++) a[c] = fabs(v[c]);
        tail_eight(a, 1.0f, more, tail);
        /* log2 of 1 / sqrt(2 pi) is in the exponent. */
        UNROLL for (uint c = 0; c < 8; c++) density[c] = exp2_fast(fma(-0.72134752f * v[c], v[c], more - 1.32574807f));
        UNROLL for (uint c = 0; c < 8; c++)
        {
            const float below = v[c] < 0.0f ? tail[c] : scale - tail[c];
            slope[c] = fma(v[c], density[c], below);
            v[c] *= below;
        }
    } else {
        UNROLL for (uint c = 0; c < 8; c++)
        {
            slope[c] = scale * derivative(activation, v[c]);
            v[c] = scale * activate(activation, v[c]);
        }
    }
}

/* v *= the activation's derivative at saved, or what is saved. */
INLINE void derive_eight(const uint activation, float *v, const float *saved)
{
    if (activation == ACTIVATION_GIVEN) {
        UNROLL for (uint c = 0; c < 8; c++) v[c] *= saved[c];
    } else if (activation == ACTIVATION_GELU) {
        float a[8], t[8], tail[8], density[8];
        UNROLL for (uint c = 0; c < 8; c++)
        {
            a[c] = saved[c] < -13.0f ? -13.0f : saved[c];
            a[c] = a[c] > 13.0f ? 13.0f : a[c];
        }
        UNROLL for (uint c = 0; c < 8; c++) t[c] = fabs(a[c]);
        tail_eight(t, 1.0f, 0.0f, tail);
        UNROLL for (uint c = 0; c < 8; c++) density[c] = 0.39894228f * exp2_fast(-0.72134752f * a[c] * a[c]);
        UNROLL for (uint c = 0; c < 8; c++)
            v[c] *= fma(a[c], density[c], a[c] < 0.0f ? tail[c] : 1.0f - tail[c]);
    } else {
        UNROLL for (uint c = 0; c < 8; c++) v[c] *= derivative(activation, saved[c]);
    }
}
