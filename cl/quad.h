/* Four elements of what a session stores, as floats. */

/* `at` is a multiple of 4. */
static inline float4 load_quad(__global const storage *x, const uint at)
{
#if BF16
    const uint2 raw = *(__global const uint2 *)(x + at);
    return (float4)(bf16_floats(raw.x), bf16_floats(raw.y));
#elif F16
    const uint2 raw = *(__global const uint2 *)(x + at);
    return vload_half4(0, (const half *)&raw);
#else
    return *(__global const float4 *)(x + at);
#endif
}

#if F16
static inline void store_quad(__global storage *y, const uint at, const float4 v)
{
#if BF16
    const uint2 raw = (uint2)(bf16_pair(v.x, v.y), bf16_pair(v.z, v.w));
#else
    uint2 raw;
    vstore_half4_rte(v, 0, (half *)&raw);
#endif
    *(__global uint2 *)(y + at) = raw;
}
#endif
