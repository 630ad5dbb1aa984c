/* Gates: of two neighbours, one through an activation, times the other. Twin of cl/gate.h. */

/* Of the pairs (x, y) and (z, w). */
vec2 gate_quad(const vec4 v)
{
    return GATE == GATE_ODD ? vec2(activate(ACTIVATION, v.y) * v.x, activate(ACTIVATION, v.w) * v.z)
                            : vec2(activate(ACTIVATION, v.x) * v.y, activate(ACTIVATION, v.z) * v.w);
}

/* The gradients of both pairs, by those of what they made. */
vec4 gate_gradient(const vec4 v, const vec2 d)
{
    return GATE == GATE_ODD ? vec4(d.x * activate(DERIVATIVE, v.y), d.x * v.x * derivative(DERIVATIVE, v.y),
                                   d.y * activate(DERIVATIVE, v.w), d.y * v.z * derivative(DERIVATIVE, v.w))
                            : vec4(d.x * v.y * derivative(DERIVATIVE, v.x), d.x * activate(DERIVATIVE, v.x),
                                   d.y * v.w * derivative(DERIVATIVE, v.z), d.y * activate(DERIVATIVE, v.z));
}
