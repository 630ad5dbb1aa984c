/* How the operands of products come into shared memory and their results out: what gemm, bgemm and attention share.
 * Twin of shaders/product.glsl.
 *
 * A tile lies in shared memory k-major and in f32: a quad (float4) holds four consecutive rows of the operand at one k.
 * So the inner loop is vector loads and fma alone, and every output is one work-item's chain of fma over ascending k:
 * the same bits whatever the tile. */
#include "common.h"

/* Four elements: what a work-item holds of a row of the output. 8 bytes where elements have 16 bits, else 16. */
#if F16
#define LOAD_QUAD(name, at) unpack_quad(*(__global const uint2 *)((name) + (at)))
#define STORE_QUAD(name, at, v) *(__global uint2 *)((name) + (at)) = pack_quad(v)

#if BF16
INLINE float4 unpack_quad(const uint2 raw) { return (float4)(bf16_floats(raw.x), bf16_floats(raw.y)); }
INLINE uint2 pack_quad(const float4 v) { return (uint2)(bf16_pair(v.x, v.y), bf16_pair(v.z, v.w)); }
#else
INLINE float4 unpack_quad(const uint2 raw)
{
    const half *halves = (const half *)&raw;
    return (float4)(vload_half(0, halves), vload_half(1, halves), vload_half(2, halves), vload_half(3, halves));
}

INLINE uint2 pack_quad(const float4 v)
{
    uint2 raw;
    half *halves = (half *)&raw;
    vstore_half_rte(v.x, 0, halves);
    vstore_half_rte(v.y, 1, halves);
    vstore_half_rte(v.z, 2, halves);
    vstore_half_rte(v.w, 3, halves);
    return raw;
}
#endif

/* Eight elements, v[0] and v[1]; `second`: whether there is v[1]. With 16-bit floats that is one access and always. */
#define LOAD_EIGHT(v, name, at, second)                                                                                \
    {                                                                                                                  \
        const uint4 eight = *(__global const uint4 *)((name) + (at));                                                  \
        (v)[0] = unpack_quad(eight.lo);                                                                                \
        (v)[1] = unpack_quad(eight.hi);                                                                                \
    }
#define STORE_EIGHT(name, at, v, second)                                                                               \
    *(__global uint4 *)((name) + (at)) = (uint4)(pack_quad((v)[0]), pack_quad((v)[1]))
#else
#define LOAD_QUAD(name, at) (*(__global const float4 *)((name) + (at)))
#define STORE_QUAD(name, at, v) *(__global float4 *)((name) + (at)) = (v)
#define LOAD_EIGHT(v, name, at, second)                                                                                \
    {                                                                                                                  \
        (v)[0] = LOAD_QUAD(name, at);                                                                                  \
        (v)[1] = (second) ? LOAD_QUAD(name, (at) + 4) : (float4)(0.0f);                                                \
    }
#define STORE_EIGHT(name, at, v, second)                                                                               \
    {                                                                                                                  \
        STORE_QUAD(name, at, (v)[0]);                                                                                  \
        if (second) STORE_QUAD(name, (at) + 4, (v)[1]);                                                                \
    }
#endif

/* v = the same where `at` may be anything: the elements `column`, `column` + 1, ... of a row of `end`. */
#define LOAD_SOME(v, name, at, column, end) v = load_some(name, at, column, end)
#define STORE_SOME(name, at, v, column, end) store_some(name, at, v, column, end)

INLINE float4 load_some(__global const storage *from, const uint at, const uint column, const uint end)
{
    float4 v = (float4)(0.0f);
    if (column < end) v.x = LOAD(from, at);
    if (column + 1 < end) v.y = LOAD(from, at + 1);
    if (column + 2 < end) v.z = LOAD(from, at + 2);
    if (column + 3 < end) v.w = LOAD(from, at + 3);
    return v;
}

INLINE void store_some(__global storage *to, const uint at, const float4 v, const uint column, const uint end)
{
    if (column < end) STORE(to, at, v.x);
    if (column + 1 < end) STORE(to, at + 1, v.y);
    if (column + 2 < end) STORE(to, at + 2, v.z);
    if (column + 3 < end) STORE(to, at + 3, v.w);
}

/* raw = VECTOR elements from `at` on, in the storage type (16 bytes in flight cost four registers). They are the
 * elements `k`, `k` + 1, ... of a row of `end`; what lies beyond, or in no row (`there` false), is 0. `wide`: `at` and
 * `end` are multiples of VECTOR. */
#define FETCH_VECTOR(raw, name, at, there, k, end, wide) raw = fetch_vector(name, at, there, k, end, wide)

INLINE uint4 fetch_vector(__global const storage *from, const uint at, const bool there, const uint k, const uint end,
                          const bool wide)
{
    if (wide) return there && k < end ? *(__global const uint4 *)(from + at) : (uint4)(0);
    float v[VECTOR];
    UNROLL
    for (uint c = 0; c < VECTOR; c++) v[c] = there && k + c < end ? LOAD(from, at + c) : 0.0f;
    return pack_vector(v);
}

/* The same of elements of 8 bits, which stay so in the first words of raw until widen_bytes makes them VECTOR elements
 * of the storage type. */
INLINE uint4 fetch_bytes(__global const char *from, const uint at, const bool there, const uint k, const uint end,
                         const bool wide)
{
    uint4 raw = (uint4)(0);
    if (wide) {
        if (there && k < end) {
#if F16
            raw.xy = *(__global const uint2 *)(from + at);
#else
            raw.x = *(__global const uint *)(from + at);
#endif
        }
        return raw;
    }
    UNROLL
    for (uint c = 0; c < VECTOR; c++) {
        const uint byte = there && k + c < end ? (uchar)from[at + c] : 0;
        if (c < 4)
            raw.x |= byte << c * 8;
        else
            raw.y |= byte << (c - 4) * 8;
    }
    return raw;
}

INLINE uint4 widen_bytes(const uint4 raw)
{
    float v[VECTOR];
    UNROLL
    for (uint c = 0; c < VECTOR; c++) v[c] = (float)(char)(uchar)((c < 4 ? raw.x : raw.y) >> c % 4 * 8);
    return pack_vector(v);
}

/* Four rows of VECTOR elements, raw[first] and the next three, become VECTOR quads: tile[at], tile[at + quads], ... */
#define PUT_ROWS(tile, at, quads, raw, first) put_rows(tile, at, quads, (raw) + (first))

INLINE void put_rows(__local float4 *tile, const uint at, const uint quads, const uint4 *raw)
{
    float v[4][VECTOR];
    UNROLL
    for (uint r = 0; r < 4; r++) unpack_vector(raw[r], v[r]);
    UNROLL
    for (uint c = 0; c < VECTOR; c++) tile[at + c * quads] = (float4)(v[0][c], v[1][c], v[2][c], v[3][c]);
}

/* VECTOR elements that are k-major in memory already become VECTOR / 4 quads side by side. */
#define PUT_VECTOR(tile, at, raw) put_vector(tile, at, raw)

INLINE void put_vector(__local float4 *tile, const uint at, const uint4 raw)
{
    float v[VECTOR];
    unpack_vector(raw, v);
    UNROLL
    for (uint c = 0; c < VECTOR / 4; c++)
        tile[at + c] = (float4)(v[c * 4], v[c * 4 + 1], v[c * 4 + 2], v[c * 4 + 3]);
}

/* The same of four consecutive k, raw[first] and the next three, `quads` apart; the second quad of a vector of 16-bit
 * floats lies half of that after the first (tile.h: paired). */
#define PUT_VECTORS(tile, at, quads, raw, first) put_vectors(tile, at, quads, (raw) + (first))

INLINE void put_vectors(__local float4 *tile, const uint at, const uint quads, const uint4 *raw)
{
    UNROLL
    for (uint r = 0; r < 4; r++) {
        float v[VECTOR];
        unpack_vector(raw[r], v);
        UNROLL
        for (uint c = 0; c < VECTOR / 4; c++)
            tile[at + r * quads + c * (quads / 2)] = (float4)(v[c * 4], v[c * 4 + 1], v[c * 4 + 2], v[c * 4 + 3]);
    }
}

/* sum += the product of two tiles in shared memory, in ascending k up to `count`: a work-item's THREAD_M rows, quads
 * that lie THREADS_M apart from a[a_at] on, times `quads` quads of columns that lie THREADS_N apart from b[b_at] on. A
 * k is a_step and b_step quads. UNROLL_K: how many k the compiler sees at a time, of which it loads some ahead. */
#ifndef UNROLL_K
#define UNROLL_K _Pragma("unroll 4")
#endif
#define MULTIPLY(sum, quads, a, a_at, a_step, b, b_at, b_step, count)                                                  \
    UNROLL_K for (uint k = 0; k < (count); k++)                                                                        \
    {                                                                                                                  \
        float a_k[THREAD_M];                                                                                           \
        float4 b_k[quads];                                                                                             \
        UNROLL for (uint i = 0; i < THREAD_M / 4; i++)                                                                 \
        {                                                                                                              \
            const float4 quad = (a)[(a_at) + k * (a_step) + i * THREADS_M];                                            \
            a_k[i * 4] = quad.x;                                                                                       \
            a_k[i * 4 + 1] = quad.y;                                                                                   \
            a_k[i * 4 + 2] = quad.z;                                                                                   \
            a_k[i * 4 + 3] = quad.w;                                                                                   \
        }                                                                                                              \
        UNROLL for (uint j = 0; j < (quads); j++) b_k[j] = (b)[(b_at) + k * (b_step) + j * THREADS_N];                 \
        UNROLL for (uint i = 0; i < THREAD_M; i++)                                                                     \
        {                                                                                                              \
            UNROLL for (uint j = 0; j < (quads); j++)                                                                  \
                (sum)[i * (quads) + j] = fma((float4)(a_k[i]), b_k[j], (sum)[i * (quads) + j]);                        \
        }                                                                                                              \
    }
