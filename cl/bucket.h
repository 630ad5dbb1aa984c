/* What the kernels of buckets share: where elements lie, and powers of two. Twin of shaders/bucket.glsl. */
#include "wire.h"

#ifndef FORM
#define FORM WIRE_FORM_F32
#endif

/* Messages of 16 bits. */
#define WIRE_HALVES (FORM != WIRE_FORM_F32)

/* Where float number `i` of a bucket lies in the slab. */
static inline uint element_at(__global const uint *batch, __global const uint *rows, const uint i)
{
    const uint row = batch[WIRE_ROW];
    if (row == 0) return batch[WIRE_AT] + i;
    return batch[WIRE_AT] + (rows[batch[WIRE_LIST] + i / row] - batch[WIRE_FIRST_ROW]) * row + i % row;
}

static inline float power_of_two(const int exponent) { return as_float((uint)(exponent + 127) << 23); }

/* Times 2^exponent: twice, where one factor is out of a float's range. */
static inline float scaled(const float x, const int exponent)
{
    return x * power_of_two(exponent / 2) * power_of_two(exponent - exponent / 2);
}

/* What is in a message's head, of words that stand for 16 bits. */
static inline uint head_word(const uint word, const int exponent, const uint factor)
{
    return word == WIRE_HEAD_EXPONENT ? as_uint(exponent) : word == WIRE_HEAD_FACTOR ? factor : 0;
}

/* Float number `i` of a message: rounded as bucket_add's, and not made one with the addition behind it, which compilers
 * do with a multiplication whatever FP_CONTRACT says. */
static inline float message_float(__global const uint *message, const uint i)
{
#if WIRE_HALVES
#if FORM == WIRE_FORM_BF16
    const float x = as_float((uint)((__global const ushort *)(message + WIRE_ROUND))[i] << 16);
#else
    const float x = vload_half(i, (__global const half *)(message + WIRE_ROUND));
#endif
    return fma(scaled(x, as_int(message[WIRE_HEAD_EXPONENT])), as_float(message[WIRE_HEAD_FACTOR]), 0.0f);
#else
    return as_float(message[i]);
#endif
}

/* Those from i on, a multiple of 4. */
static inline float4 message_quad(__global const uint *message, const uint i)
{
#if WIRE_HALVES
    const uint2 raw = *(__global const uint2 *)(message + WIRE_ROUND + i / 2);
#if FORM == WIRE_FORM_BF16
    const float4 x = as_float4((uint4)(raw.x << 16, raw.x & 0xffff0000u, raw.y << 16, raw.y & 0xffff0000u));
#else
    const float4 x = vload_half4(0, (const half *)&raw);
#endif
    const int exponent = as_int(message[WIRE_HEAD_EXPONENT]);
    return fma(x * power_of_two(exponent / 2) * power_of_two(exponent - exponent / 2),
               as_float(message[WIRE_HEAD_FACTOR]), 0.0f);
#else
    return as_float4(*(__global const uint4 *)(message + i));
#endif
}
