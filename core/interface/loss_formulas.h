/* Scalar formulas of losses, for OpenCL C and GLSL; beside formulas.h, of which compiled kernels are kept. */
#ifndef WHERRY_KERNEL_LOSS_FORMULAS_H
#define WHERRY_KERNEL_LOSS_FORMULAS_H

#include "formulas.h"

/* -log(sigmoid(x)) = log(1 + e^-x), of which |x| is the larger part; below 2^-14 log(1 + e) is e - e^2 / 2. */
FORMULA float minus_log_sigmoid(float x)
{
    float a = FORMULA_ABS(x);
    float e = exp_negative(a > 87.0f ? 87.0f : a);
    float rest = e < 6.1e-5f ? e * (1.0f - 0.5f * e) : 0.69314718f * log2(1.0f + e);
    return x < 0.0f ? rest + a : rest;
}

/* 1 / (1 + e^-x), with its digits where it is small. */
FORMULA float sigmoid(float x)
{
    float a = FORMULA_ABS(x);
    float e = exp_negative(a > 87.0f ? 87.0f : a);
    return x < 0.0f ? e / (1.0f + e) : 1.0f / (1.0f + e);
}

/* e^x for x of at most 0; 0 below -87. */
FORMULA float exp_below(float x) { return x < -87.0f ? 0.0f : exp2(1.44269504f * x); }

#endif
