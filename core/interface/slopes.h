/* Activations' slopes, which the forward pass of training makes and the backward pass multiplies with. After
 * formulas.h, written once for OpenCL C and GLSL as that is. */
#ifndef WHERRY_KERNEL_SLOPES_H
#define WHERRY_KERNEL_SLOPES_H

/* activate(), or an activation's slope. */
FORMULA float activate_or_slope(uint activation, float x)
{
    if (activation == SLOPE_GELU) return gelu_derivative(x);
    if (activation == SLOPE_TANH_GELU) return gelu_tanh_derivative(x);
    return activate(activation, x);
}

/* derivative(), or what is given. */
FORMULA float derivative_or_given(uint activation, float saved)
{
    return activation == ACTIVATION_GIVEN ? saved : derivative(activation, saved);
}

#endif
