/* Formulas of eight values at once: formulas.h's arithmetic, step by step for all of them. Compilers keep that order, in
 * which no step waits for the one before; of values that come one after the other they interleave two at most, and where
 * few warps share a multiprocessor nothing else hides the waiting. After hopper.h. */
#include "formulas.h"

/* half_erfc[c] = erfc(a[c]) / 2 for a[c] >= 0. */
INLINE void erfc_half_eight(const float *a, float *half_erfc)
{
    float b[8], q[8];
    UNROLL for (uint c = 0; c < 8; c++) b[c] = a[c] > 7.0f ? 7.0f : a[c];
    UNROLL for (uint c = 0; c < 8; c++) q[c] = ERFC_FIRST;
#define ERFC_STEP(coefficient) UNROLL for (uint c = 0; c < 8; c++) q[c] = fma(q[c], b[c], coefficient);
    ERFC_STEPS(ERFC_STEP)
#undef ERFC_STEP
    UNROLL for (uint c = 0; c < 8; c++) q[c] = fma(q[c], b[c], -1.0f);
    UNROLL for (uint c = 0; c < 8; c++) half_erfc[c] = exp2_fast(q[c]);
}

/* v = activation(v). */
INLINE void activate_eight(const uint activation, float *v)
{
    if (activation == ACTIVATION_GELU) {
        float a[8], tail[8];
        UNROLL for (uint c = 0; c < 8; c++) a[c] = 0.70710678f * fabs(v[c]);
        erfc_half_eight(a, tail);
        UNROLL for (uint c = 0; c < 8; c++) v[c] = fma(-fabs(v[c]), tail[c], v[c] > 0.0f ? v[c] : 0.0f);
    } else {
        UNROLL for (uint c = 0; c < 8; c++) v[c] = activate(activation, v[c]);
    }
}

/* v *= the activation's derivative at saved. */
INLINE void derive_eight(const uint activation, float *v, const float *saved)
{
    if (activation == ACTIVATION_GELU) {
        float a[8], t[8], tail[8], density[8];
        UNROLL for (uint c = 0; c < 8; c++)
        {
            a[c] = saved[c] < -13.0f ? -13.0f : saved[c];
            a[c] = a[c] > 13.0f ? 13.0f : a[c];
        }
        UNROLL for (uint c = 0; c < 8; c++) t[c] = 0.70710678f * fabs(a[c]);
        erfc_half_eight(t, tail);
        UNROLL for (uint c = 0; c < 8; c++) density[c] = 0.39894228f * exp2_fast(-0.72134752f * a[c] * a[c]);
        UNROLL for (uint c = 0; c < 8; c++)
            v[c] *= fma(a[c], density[c], a[c] < 0.0f ? tail[c] : 1.0f - tail[c]);
    } else {
        UNROLL for (uint c = 0; c < 8; c++) v[c] *= derivative(activation, saved[c]);
    }
}
