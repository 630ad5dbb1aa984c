/* 16-bit floats on the host. */
#ifndef WHERRY_BASE_HALF_H
#define WHERRY_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3ff, bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000 | mantissa << 13;
    } else if (exponent) {
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    } else { /* zero or subnormal: mantissa * 2^-24 */
        float value = (float)mantissa * (1.0f / 16777216.0f);
        memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    }
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Rounds to nearest, ties to even; what is too large becomes infinity. */
static inline uint16_t half_from_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return sign | 0x7e00;  /* NaN */
    if (magnitude >= 0x47800000) return sign | 0x7c00; /* 65536 and more */
    if (magnitude < 0x38800000) {                      /* below 2^-14: subnormal */
        float value;
        memcpy(&value, &magnitude, sizeof value);
        value += 0.5f; /* 0.5 has an ulp of 2^-24: the addition rounds for us */
        uint32_t rounded;
        memcpy(&rounded, &value, sizeof rounded);
        return (uint16_t)(sign | (rounded - 0x3f000000));
    }
    /* Without a branch on the rounded-off bits, which no processor could predict. A carry goes into the exponent. */
    uint32_t half = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    return (uint16_t)(sign | half);
}

#endif
