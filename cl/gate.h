/* Gates: of two neighbours, one through an activation, times the other. Twin of shaders/gate.glsl. */

/* Of the pairs (x, y) and (z, w). */
static inline float2 gate_quad(const float4 v)
{
    return GATE == GATE_ODD ? (float2)(activate(ACTIVATION, v.y) * v.x, activate(ACTIVATION, v.w) * v.z)
                            : (float2)(activate(ACTIVATION, v.x) * v.y, activate(ACTIVATION, v.z) * v.w);
}

/* The gradients of both pairs, by those of what they made. */
static inline float4 gate_gradient(const float4 v, const float2 d)
{
    return GATE == GATE_ODD
               ? (float4)((float2)(d.x * activate(DERIVATIVE, v.y), d.x * v.x * derivative(DERIVATIVE, v.y)),
                          (float2)(d.y * activate(DERIVATIVE, v.w), d.y * v.z * derivative(DERIVATIVE, v.w)))
               : (float4)((float2)(d.x * v.y * derivative(DERIVATIVE, v.x), d.x * activate(DERIVATIVE, v.x)),
                          (float2)(d.y * v.w * derivative(DERIVATIVE, v.z), d.y * activate(DERIVATIVE, v.z)));
}

/* Of the four pairs of eight values. */
static inline float4 gate_eight(const float *v)
{
    return (float4)(gate_quad((float4)(v[0], v[1], v[2], v[3])), gate_quad((float4)(v[4], v[5], v[6], v[7])));
}

/* Eight pairs become their gradients, by those of what they made. */
static inline void gate_gradient_eight(float *pairs, const float *d)
{
    UNROLL for (uint c = 0; c < 16; c += 4)
    {
        const float4 of = gate_gradient((float4)(pairs[c], pairs[c + 1], pairs[c + 2], pairs[c + 3]),
                                        (float2)(d[c / 2], d[c / 2 + 1]));
        pairs[c] = of.x;
        pairs[c + 1] = of.y;
        pairs[c + 2] = of.z;
        pairs[c + 3] = of.w;
    }
}
