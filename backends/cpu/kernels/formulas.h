/* The scalar formulas of core/interface/formulas.h in vectors: the same polynomials and the same bounds. */
#ifndef WHERRY_CPU_FORMULAS_H
#define WHERRY_CPU_FORMULAS_H

#include "vector.h"

/* For its coefficients: its functions are the kernels' languages', of which C is close to OpenCL's. */
#define uint unsigned int
#define __OPENCL_C_VERSION__ 120
#include "interface/formulas.h"

#include "interface/angles.h"
#undef __OPENCL_C_VERSION__
#undef uint

/* 2^x with a relative error below 1.5e-7 of results from 2^-126 to 2^127; x is cut off there. The nearest integer goes
 * into the exponent, and the rest into a polynomial: the minimax fit of 2^f on [-1/2, 1/2], 1.9e-9 before rounding. */
INLINE vec v_exp2(vec x)
{
    const vec magic = v_set(12582912.0f); /* 1.5 * 2^23: a sum's lowest bits are an integer */
    x = v_min(v_max(x, v_set(-126.0f)), v_set(127.0f));
    vec shifted = x + magic, f = x - (shifted - magic);
    vec p = v_set(1.534581217e-04f);
    p = v_fma(p, f, v_set(1.339993121e-03f));
    p = v_fma(p, f, v_set(9.618488956e-03f));
    p = v_fma(p, f, v_set(5.550328777e-02f));
    p = v_fma(p, f, v_set(2.402264689e-01f));
    p = v_fma(p, f, v_set(6.931472057e-01f));
    p = v_fma(p, f, v_set(1.0f));
    return p * v_float((v_bits(shifted) << 23) + (127 << 23));
}

#define V_LOG2E 1.44269504f

/* e^-x for x in [-87, 87] at most. */
INLINE vec v_exp_negative(vec x) { return v_exp2(v_set(-V_LOG2E) * x); }

INLINE vec v_erfc_positive(vec a)
{
    a = v_min(a, v_set(7.0f)); /* 2^q stays a normal number */
    vec q = v_set(ERFC_FIRST);
#define ERFC_STEP(coefficient) q = v_fma(q, a, v_set(coefficient));
    ERFC_STEPS(ERFC_STEP)
#undef ERFC_STEP
    return v_exp2(q * a);
}

INLINE vec v_gelu(vec x)
{
    vec tail = v_set(0.5f) * v_erfc_positive(v_set(0.70710678f) * v_abs(x));
    return x * v_choose(v_above(v_zero(), x), tail, v_set(1.0f) - tail);
}

INLINE vec v_gelu_tanh(vec x)
{
    vec a = v_min(v_max(x, v_set(-9.0f)), v_set(9.0f));
    vec u = v_set(0.79788456f) * v_fma(v_set(0.044715f) * a * a, a, a);
    return x / (v_set(1.0f) + v_exp_negative(v_set(2.0f) * u));
}

INLINE vec v_silu(vec x) { return x / (v_set(1.0f) + v_exp_negative(v_min(v_max(x, v_set(-87.0f)), v_set(87.0f)))); }

INLINE vec v_tanh(vec x)
{
    vec e = v_exp_negative(v_set(2.0f) * v_min(v_abs(x), v_set(10.0f)));
    vec t = (v_set(1.0f) - e) / (v_set(1.0f) + e);
    return v_choose(v_above(v_zero(), x), -t, t);
}

/* ln x for x in [1, 2^127]: a power of two and a mantissa m in [sqrt 1/2, sqrt 2], of which ln m = 2 artanh(s) with
 * s = (m - 1) / (m + 1), a series in s. Absolute error below 2e-7 for x below 100. */
INLINE vec v_log(vec x)
{
    ivec bits = v_bits(x), power = ((bits - 0x3f3504f3) >> 23);
    vec m = v_float(bits - (power << 23)), s = (m - v_set(1.0f)) / (m + v_set(1.0f)), t = s * s;
    vec p = v_fma(v_set(0.11111111f), t, v_set(0.14285715f));
    p = v_fma(p, t, v_set(0.2f));
    p = v_fma(p, t, v_set(0.33333334f));
    p = v_fma(p * t, s, s);
    return v_fma(v_number(power), v_set(0.69314718f), p + p) + (x - x); /* no number stays none */
}

INLINE vec v_log1p_relu(vec x) { return v_log(v_set(1.0f) + v_choose(v_above(v_zero(), x), v_zero(), x)); }

INLINE vec v_gelu_derivative(vec x)
{
    vec a = v_min(v_max(x, v_set(-13.0f)), v_set(13.0f)); /* its density stays a normal number */
    vec tail = v_set(0.5f) * v_erfc_positive(v_set(0.70710678f) * v_abs(a));
    vec density = v_set(0.39894228f) * v_exp2(v_set(-0.72134752f) * a * a);
    return v_fma(a, density, v_choose(v_above(v_zero(), a), tail, v_set(1.0f) - tail));
}

INLINE vec v_gelu_tanh_derivative(vec x)
{
    vec a = v_min(v_max(x, v_set(-9.0f)), v_set(9.0f)), square = a * a;
    vec u = v_set(0.79788456f) * v_fma(v_set(0.044715f) * square, a, a);
    vec e = v_exp_negative(v_set(2.0f) * u), s = v_set(1.0f) / (v_set(1.0f) + e);
    vec slope = a * v_set(1.59576912f) * v_fma(v_set(0.134145f), square, v_set(1.0f));
    return v_fma(slope, s * (e * s), s); /* e * s is 1 - s */
}

INLINE vec v_silu_derivative(vec x)
{
    vec a = v_min(v_max(x, v_set(-43.0f)), v_set(43.0f)), e = v_exp_negative(a), s = v_set(1.0f) / (v_set(1.0f) + e);
    return v_fma(a, s * (e * s), s); /* e * s is 1 - s */
}

/* ---- of rows in scratch memory, to whose last vector they go ---- */

#define ROW_MAP(row, n, formula)                                                                                       \
    FOR_VECTORS(i_, n)                                                                                                 \
    {                                                                                                                  \
        vec x = v_load((row) + i_);                                                                                    \
        v_store((row) + i_, formula);                                                                                  \
    }

static inline void row_activate(float *row, size_t n, uint32_t activation)
{
    if (activation == ACTIVATION_RELU) ROW_MAP(row, n, v_choose(v_above(v_zero(), x), v_zero(), x));
    if (activation == ACTIVATION_GELU) ROW_MAP(row, n, v_gelu(x));
    if (activation == ACTIVATION_GELU_TANH) ROW_MAP(row, n, v_gelu_tanh(x));
    if (activation == ACTIVATION_SILU) ROW_MAP(row, n, v_silu(x));
    if (activation == ACTIVATION_TANH) ROW_MAP(row, n, v_tanh(x));
    if (activation == ACTIVATION_LOG1P_RELU) ROW_MAP(row, n, v_log1p_relu(x));
    if (activation == ACTIVATION_LOG1P_LOG1P_RELU) ROW_MAP(row, n, v_log1p_relu(v_log1p_relu(x)));
}

#define ROW_TIMES(row, n, saved, formula)                                                                              \
    FOR_VECTORS(i_, n)                                                                                                 \
    {                                                                                                                  \
        vec x = v_load_at(saved, i_, n);                                                                               \
        v_store((row) + i_, v_load((row) + i_) * (formula));                                                           \
    }

/* row *= the activation's derivative at `saved`, a row of a tensor. */
static inline void row_derive(float *row, size_t n, uint32_t activation, const float *saved)
{
    if (activation == ACTIVATION_RELU) ROW_TIMES(row, n, saved, v_choose(v_above(x, v_zero()), v_set(1.0f), v_zero()));
    if (activation == ACTIVATION_GELU) ROW_TIMES(row, n, saved, v_gelu_derivative(x));
    if (activation == ACTIVATION_GELU_TANH) ROW_TIMES(row, n, saved, v_gelu_tanh_derivative(x));
    if (activation == ACTIVATION_SILU) ROW_TIMES(row, n, saved, v_silu_derivative(x));
    if (activation == ACTIVATION_TANH) ROW_TIMES(row, n, saved, v_fma(-x, x, v_set(1.0f)));
}

#endif
