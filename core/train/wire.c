/* Messages of 16-bit floats. */
#include "train/wire.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

enum { TOP = 15 };

void wire_encode(const float *from, uint64_t floats, void *to)
{
    uint16_t *half = (uint16_t *)to + 2;
    float largest = 0;
    int32_t exponent = 0;
    if (!floats) return;
    for (uint64_t i = 0; i < floats; i++)
        if (fabsf(from[i]) > largest && isfinite(from[i])) largest = fabsf(from[i]);
    if (largest > 0) {
        frexpf(largest, &exponent);
        exponent -= TOP;
    }
    memcpy(to, &exponent, sizeof exponent);
    /* Twice where one factor is out of a float's range. */
    const float a = ldexpf(1, -exponent / 2), b = ldexpf(1, -exponent + exponent / 2);
    for (uint64_t i = 0; i < floats; i++) half[i] = half_from_float(from[i] * a * b);
    if (floats % 2) half[floats] = 0;
}

void wire_decode(const void *from, float *to, uint64_t floats)
{
    const uint16_t *half = (const uint16_t *)from + 2;
    int32_t exponent;
    if (!floats) return;
    memcpy(&exponent, from, sizeof exponent);
    const float a = ldexpf(1, exponent / 2), b = ldexpf(1, exponent - exponent / 2);
    for (uint64_t i = 0; i < floats; i++) to[i] = half_to_float(half[i]) * a * b;
}
