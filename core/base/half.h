/* 16-bit floats on the host, and what elements a kernel's tensors are of. */
#ifndef WHERRY_BASE_HALF_H
#define WHERRY_BASE_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Of tensors that are neither words nor floats whatever the session. */
enum storage { STORAGE_F32, STORAGE_F16, STORAGE_BF16 };

/* Without a branch, which no processor could predict and no compiler could do in vectors: every case is computed, and
 * one is taken. Written as `a ? b : c`, compilers make branches of it again. */
static inline uint32_t half_choose(uint32_t condition, uint32_t yes, uint32_t no)
{
    return no ^ ((yes ^ no) & (0 - condition));
}

static inline float half_to_float(uint16_t h)
{
    uint32_t magnitude = h & 0x7fff, sign = (uint32_t)(h & 0x8000) << 16;
    float f = (float)(int32_t)magnitude * (1.0f / 16777216.0f); /* zero or subnormal: mantissa * 2^-24 */
    uint32_t small, bits = (magnitude << 13) + (112u << 23);
    memcpy(&small, &f, sizeof small);
    bits += half_choose(magnitude >= 0x7c00, 112u << 23, 0); /* infinity and NaN: the largest exponent in both types */
    bits = sign | half_choose(magnitude < 0x400, small, bits);
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Rounds to nearest, ties to even; what is too large becomes infinity. */
static inline uint16_t half_from_float(float f)
{
    uint32_t bits, small;
    memcpy(&bits, &f, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    float value;
    memcpy(&value, &magnitude, sizeof value);
    value += 0.5f; /* for what is below 2^-14: 0.5 has an ulp of 2^-24, so the addition rounds for us */
    memcpy(&small, &value, sizeof small);
    uint32_t half = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13; /* a carry goes into the exponent */
    half = half_choose(magnitude < 0x38800000, small - 0x3f000000, half);
    half = half_choose(magnitude >= 0x47800000, 0x7c00, half); /* 65536 and more */
    half = half_choose(magnitude > 0x7f800000, 0x7e00, half);  /* NaN */
    return (uint16_t)(sign | half);
}

/* bf16: the upper half of a 32-bit float. */
static inline float bf16_to_float(uint16_t b)
{
    uint32_t bits = (uint32_t)b << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Rounds to nearest, ties to even; what is too large becomes infinity, and a NaN stays one. */
static inline uint16_t bf16_from_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)half_choose((bits & 0x7fffffff) > 0x7f800000, bits >> 16 | 0x40, rounded);
}

static inline const char *storage_name(enum storage type)
{
    return type == STORAGE_BF16 ? "bf16" : type == STORAGE_F16 ? "f16" : "f32";
}

/* Element i. */
static inline float storage_float(enum storage type, const void *elements, size_t i)
{
    const uint16_t *half = (const uint16_t *)elements;
    return type == STORAGE_BF16  ? bf16_to_float(half[i])
           : type == STORAGE_F16 ? half_to_float(half[i])
                                 : ((const float *)elements)[i];
}

/* What is as large as this, or larger, would be infinity in a type. */
static inline float storage_beyond(enum storage type)
{
    return type == STORAGE_BF16 ? 0x1.ffp127f : type == STORAGE_F16 ? 65520.0f : INFINITY;
}

static inline void storage_put(enum storage type, float value, void *elements, size_t i)
{
    if (type == STORAGE_F32)
        ((float *)elements)[i] = value;
    else
        ((uint16_t *)elements)[i] = type == STORAGE_BF16 ? bf16_from_float(value) : half_from_float(value);
}

#endif
