/* Stored weights as f32 or f16. */
#include <string.h>

#include "base/half.h"
#include "model/model.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weights are read as they lie in the file, which is little-endian"
#endif

static float load_f32(const unsigned char *at)
{
    float f;
    memcpy(&f, at, sizeof f);
    return f;
}

static float load_bf16(const unsigned char *at)
{
    uint16_t high;
    memcpy(&high, at, sizeof high);
    uint32_t bits = (uint32_t)high << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static float load_f16(const unsigned char *at)
{
    uint16_t h;
    memcpy(&h, at, sizeof h);
    return half_to_float(h);
}

/* 1 where a finite f became infinite. */
static unsigned store_f16(float f, unsigned char *at)
{
    uint16_t h = half_from_float(f);
    memcpy(at, &h, sizeof h);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (h & 0x7fff) == 0x7c00 && (bits & 0x7fffffff) != 0x7f800000;
}

bool weight_convert(const struct weight_part *part, uint64_t first, uint64_t elements, bool f16, void *out)
{
    size_t size = part->type == WEIGHT_TYPE_F32 ? 4 : 2, n = (size_t)elements;
    const unsigned char *from = (const unsigned char *)part->data + (size_t)first * size;
    unsigned char *to = out;
    unsigned overflows = 0;
    if (part->type == (f16 ? WEIGHT_TYPE_F16 : WEIGHT_TYPE_F32)) {
        memcpy(to, from, n * size);
    } else if (f16 && part->type == WEIGHT_TYPE_F32) {
        for (size_t i = 0; i < n; i++) overflows |= store_f16(load_f32(from + 4 * i), to + 2 * i);
    } else if (f16) {
        for (size_t i = 0; i < n; i++) overflows |= store_f16(load_bf16(from + 2 * i), to + 2 * i);
    } else if (part->type == WEIGHT_TYPE_F16) {
        for (size_t i = 0; i < n; i++) memcpy(to + 4 * i, &(float){load_f16(from + 2 * i)}, 4);
    } else {
        for (size_t i = 0; i < n; i++) memcpy(to + 4 * i, &(float){load_bf16(from + 2 * i)}, 4);
    }
    return !overflows;
}
