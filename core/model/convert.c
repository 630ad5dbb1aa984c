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

/* ---- other orders ---- */

/* A column of the matrix goes to a row that is `stride` elements behind the one before. ORDER_STRIP rows, or fewer:
 * what is written of a row then is a cache line, and what is read stays in the cache. */
static void strip_turn16(const uint16_t *from, size_t rows, size_t columns, uint16_t *to, size_t stride)
{
    for (size_t c = 0; c < columns; c++)
        for (size_t r = 0; r < rows; r++) to[c * stride + r] = from[r * columns + c];
}

static void strip_turn32(const float *from, size_t rows, size_t columns, float *to, size_t stride)
{
    for (size_t c = 0; c < columns; c++)
        for (size_t r = 0; r < rows; r++) to[c * stride + r] = from[r * columns + c];
}

void floats_from_order(const struct matrix_order *order, const float *from, float *to)
{
    size_t rows = (size_t)order->rows, columns = (size_t)order->columns;
    for (size_t r0 = 0; r0 < rows; r0 += ORDER_STRIP) {
        size_t end = r0 + ORDER_STRIP < rows ? r0 + ORDER_STRIP : rows;
        for (size_t r = r0; r < end && !order->turned; r++)
            memcpy(to + matrix_order_row(order, r) * columns, from + r * columns, columns * sizeof *to);
        for (size_t c = 0; c < columns && order->turned; c++)
            for (size_t r = r0; r < end; r++) to[matrix_order_row(order, r) * columns + c] = from[c * rows + r];
    }
}

/* Columns of one row. Parts are whole rows, and all alike. */
static bool row_convert(const struct weight_part *parts, const struct matrix_order *order, uint64_t row, uint64_t first,
                        uint64_t count, bool f16, void *out)
{
    uint64_t at = matrix_order_row(order, row) * order->columns, part = at / parts->elements;
    return weight_convert(&parts[part], at % parts->elements + first, count, f16, out);
}

bool weight_convert_order(const struct weight_part *parts, const struct matrix_order *order, uint64_t first,
                          uint64_t count, bool f16, void *strip, void *out)
{
    size_t size = f16 ? 2 : 4;
    bool ok = true;
    for (uint64_t r = 0; r < count && !order->turned; r++)
        ok &= row_convert(parts, order, first + r, 0, order->columns, f16, (char *)out + r * order->columns * size);
    for (uint64_t r = 0, taken = 0; r < order->rows && order->turned; r += taken) {
        for (taken = 0; taken < ORDER_STRIP && r + taken < order->rows; taken++)
            ok &= row_convert(parts, order, r + taken, first, count, f16, (char *)strip + taken * count * size);
        if (f16)
            strip_turn16(strip, (size_t)taken, (size_t)count, (uint16_t *)out + r, (size_t)order->rows);
        else
            strip_turn32(strip, (size_t)taken, (size_t)count, (float *)out + r, (size_t)order->rows);
    }
    return ok;
}
