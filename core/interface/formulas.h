/* Scalar formulas of the kernels, written once for OpenCL C and GLSL, so that both compute the same function. They are
 * built on exp2, log2, fma and division alone, whose accuracy both languages bound; erf and tanh are in one language
 * only, or in a quality that differs from driver to driver. A NaN that goes in comes out. */
#ifndef WHERRY_KERNEL_FORMULAS_H
#define WHERRY_KERNEL_FORMULAS_H

#ifdef __OPENCL_C_VERSION__
#define FORMULA static inline
#define FORMULA_ABS fabs
#else
#define FORMULA
#define FORMULA_ABS abs
#endif

/* erfc(a) for a >= 0 as 2^q(a), q a polynomial without constant term: the minimax fit of log2(erfc) on [0, 4.4] under
 * the weight erfc, which makes the error of erfc itself level. Its absolute error there is 2e-9 before rounding, about
 * 1e-7 with it; beyond, q keeps falling and the result is below 1e-9. No cancellation for large a, as 1 - erf(a) has.
 */
#define ERFC_FIRST (-1.17851361e-06f)
#define ERFC_STEPS(STEP)                                                                                               \
    STEP(2.36077190e-05f)                                                                                              \
    STEP(-2.02889846e-04f)                                                                                             \
    STEP(9.58345302e-04f)                                                                                              \
    STEP(-2.41465276e-03f)                                                                                             \
    STEP(1.88824944e-04f)                                                                                              \
    STEP(2.76804642e-02f)                                                                                              \
    STEP(-1.48298136e-01f)                                                                                             \
    STEP(-9.18443860e-01f)                                                                                             \
    STEP(-1.62790724e+00f)

FORMULA float erfc_positive(float a)
{
    a = a > 7.0f ? 7.0f : a; /* 2^q stays a normal number */
    float q = ERFC_FIRST;
#define ERFC_STEP(coefficient) q = fma(q, a, coefficient);
    ERFC_STEPS(ERFC_STEP)
#undef ERFC_STEP
    return exp2(q * a);
}

/* Absolute error below 2e-7. */
FORMULA float erf_portable(float x)
{
    float tail = erfc_positive(FORMULA_ABS(x));
    return x < 0.0f ? tail - 1.0f : 1.0f - tail;
}

/* x * Phi(x) = 0.5 x (1 + erf(x / sqrt 2)). Left of zero 1 + erf is the tail itself. */
FORMULA float gelu(float x)
{
    float tail = 0.5f * erfc_positive(0.70710678f * FORMULA_ABS(x));
    return x < 0.0f ? x * tail : x * (1.0f - tail);
}

/* e^-x for x in [-87, 87] at most. */
FORMULA float exp_negative(float x) { return exp2(-1.44269504f * x); }

/* 0.5 x (1 + tanh(u)) = x / (1 + e^-2u) with u = sqrt(2 / pi) (x + 0.044715 x^3). */
FORMULA float gelu_tanh(float x)
{
    float a = x < -9.0f ? -9.0f : x; /* e^-2u stays finite; tanh is 1 in size long before */
    a = a > 9.0f ? 9.0f : a;
    float u = 0.79788456f * fma(0.044715f * a * a, a, a);
    return x / (1.0f + exp_negative(2.0f * u));
}

/* Absolute error below 2e-7; exactly 1 in size from 10 on, where tanh rounds to it. */
FORMULA float tanh_safe(float x)
{
    float a = FORMULA_ABS(x);
    a = a > 10.0f ? 10.0f : a;
    float e = exp_negative(2.0f * a);
    float t = (1.0f - e) / (1.0f + e);
    return x < 0.0f ? -t : t;
}

/* x / (1 + e^-x). Left of -87 the result is below 1e-36 in size. */
FORMULA float silu(float x)
{
    float a = x < -87.0f ? -87.0f : x;
    a = a > 87.0f ? 87.0f : a;
    return x / (1.0f + exp_negative(a));
}

/* log(1 + relu(x)). What x's last digits are lost to, the result is as small as. */
FORMULA float log1p_relu(float x) { return 0.69314718f * log2(1.0f + (x < 0.0f ? 0.0f : x)); }

/* `activation` is a constant, so that one branch is left. */
FORMULA float activate(uint activation, float x)
{
    if (activation == ACTIVATION_RELU) return x < 0.0f ? 0.0f : x;
    if (activation == ACTIVATION_GELU) return gelu(x);
    if (activation == ACTIVATION_GELU_TANH) return gelu_tanh(x);
    if (activation == ACTIVATION_SILU) return silu(x);
    if (activation == ACTIVATION_TANH) return tanh_safe(x);
    if (activation == ACTIVATION_LOG1P_RELU) return log1p_relu(x);
    if (activation == ACTIVATION_LOG1P_LOG1P_RELU) return log1p_relu(log1p_relu(x));
    return x;
}

/* ---- derivatives of the activations ----
 * Where they are flat, arguments are cut off: a product of a huge x with the smallest normal number is not 0. */

/* Phi(x) + x phi(x). Absolute error below 3e-7. */
FORMULA float gelu_derivative(float x)
{
    float a = x < -13.0f ? -13.0f : x; /* phi(a) stays a normal number */
    a = a > 13.0f ? 13.0f : a;
    float tail = 0.5f * erfc_positive(0.70710678f * FORMULA_ABS(a));
    float density = 0.39894228f * exp2(-0.72134752f * a * a);
    return fma(a, density, a < 0.0f ? tail : 1.0f - tail);
}

/* Of x s with s = 1 / (1 + e^-2u): s + x s (1 - s) 2u'. Absolute error below 5e-7. */
FORMULA float gelu_tanh_derivative(float x)
{
    float a = x < -9.0f ? -9.0f : x;
    a = a > 9.0f ? 9.0f : a;
    float square = a * a;
    float u = 0.79788456f * fma(0.044715f * square, a, a);
    float e = exp_negative(2.0f * u);
    float s = 1.0f / (1.0f + e);
    return fma(a * 1.59576912f * fma(0.134145f, square, 1.0f), s * (e * s), s); /* e * s is 1 - s */
}

/* s + x s (1 - s) with s = 1 / (1 + e^-x). */
FORMULA float silu_derivative(float x)
{
    float a = x < -43.0f ? -43.0f : x; /* e s^2 stays a number */
    a = a > 43.0f ? 43.0f : a;
    float e = exp_negative(a);
    float s = 1.0f / (1.0f + e);
    return fma(a, s * (e * s), s); /* e * s is 1 - s */
}

/* Of `activation` where `saved` went into it; for RELU it may be what came out, too, and for TANH it is. */
FORMULA float derivative(uint activation, float saved)
{
    if (activation == ACTIVATION_RELU) return saved > 0.0f ? 1.0f : 0.0f;
    if (activation == ACTIVATION_GELU) return gelu_derivative(saved);
    if (activation == ACTIVATION_GELU_TANH) return gelu_tanh_derivative(saved);
    if (activation == ACTIVATION_SILU) return silu_derivative(saved);
    if (activation == ACTIVATION_TANH) return fma(-saved, saved, 1.0f);
    return 1.0f;
}

#endif
