/* Gates: of two neighbours, one through an activation, times the other. Twin of cl/gate.h. */

/* Pairs with what goes through the activation first, and back. A formula stands in the module once for each place that
 * it is called at, so both orders go through the same ones. */
vec4 gate_turned(const vec4 v) { return GATE == GATE_ODD ? v.yxwz : v; }

/* Of the pairs (x, y) and (z, w). */
vec2 gate_quad(const vec4 pairs)
{
    const vec4 v = gate_turned(pairs);
    return vec2(activate(ACTIVATION, v.x) * v.y, activate(ACTIVATION, v.z) * v.w);
}

/* The gradients of both pairs, by those of what they made. */
vec4 gate_gradient(const vec4 pairs, const vec2 d)
{
    const vec4 v = gate_turned(pairs);
    return gate_turned(vec4(d.x * v.y * derivative(DERIVATIVE, v.x), d.x * activate(DERIVATIVE, v.x),
                            d.y * v.w * derivative(DERIVATIVE, v.z), d.y * activate(DERIVATIVE, v.z)));
}
