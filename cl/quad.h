/* Four elements of what a session stores, as floats. */

/* `at` is a multiple of 4. */
static inline float4 load_quad(__global const storage *x, const uint at)
{
#if F16
    const uint2 raw = *(__global const uint2 *)(x + at);
    return vload_half4(0, (const half *)&raw);
#else
    return *(__global const float4 *)(x + at);
#endif
}
