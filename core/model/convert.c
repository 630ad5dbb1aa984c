/* Stored weights as f32, f16 or bf16, and whether they are numbers that can be computed with. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/number.h"
#include "model/model.h"
#include "model/safetensors.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weights are read as they lie in the file, which is little-endian"
#endif

static size_t stored_bytes(enum weight_type type) { return type == WEIGHT_TYPE_F32 ? 4 : 2; }

/* ---- values that are refused ---- */

/* A value's bits without its sign grow with its size, infinity is beyond all finite ones and NaN beyond infinity: one
 * comparison finds whatever can't be stored: as f32, as f16, in which 65520 and more would become infinity, and as
 * bf16, in which the last 2^15 of the f32 would. */
static const uint32_t beyond[][3] = {
    [WEIGHT_TYPE_F32] = {0x7f800000, 0x477ff000, 0x7f7f8000},
    [WEIGHT_TYPE_F16] = {0x7c00, 0x7c00, 0x7c00},
    [WEIGHT_TYPE_BF16] = {0x7f80, 0x4780, 0x7f80},
};

/* Without a branch in the loop, so that it is done in vectors. */
static bool all_within32(const unsigned char *from, size_t n, uint32_t limit)
{
    uint32_t outside = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, from + 4 * i, sizeof bits);
        outside |= (int32_t)(bits & 0x7fffffff) >= (int32_t)limit;
    }
    return !outside;
}

static bool all_within16(const unsigned char *from, size_t n, uint32_t limit)
{
    uint16_t outside = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, from + 2 * i, sizeof bits);
        outside |= (int16_t)(bits & 0x7fff) >= (int16_t)limit;
    }
    return !outside;
}

static bool all_within(enum weight_type type, const unsigned char *from, size_t n, uint32_t limit)
{
    return type == WEIGHT_TYPE_F32 ? all_within32(from, n, limit) : all_within16(from, n, limit);
}

static float load(enum weight_type type, const unsigned char *at)
{
    uint32_t bits;
    uint16_t half;
    float f;
    memcpy(&half, at, sizeof half);
    if (type == WEIGHT_TYPE_F16) return half_to_float(half);
    bits = (uint32_t)half << 16;
    if (type == WEIGHT_TYPE_F32) memcpy(&bits, at, sizeof bits);
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* " [row, column]" of a matrix' element. */
static void place_text(const struct safetensors_tensor *t, uint64_t element, char *text, size_t size)
{
    *text = 0;
    if (!t || t->rank != 2 || !t->shape[1]) return;
    snprintf(text, size, " [%" PRIu64 ", %" PRIu64 "]", element / t->shape[1], element % t->shape[1]);
}

/* One of these is, and `first` is the number of the first in the part. `remedy` ends the sentence on what is beyond a
 * type's range. */
static bool fail_value(const struct weight_part *part, uint64_t first, const unsigned char *from, uint32_t limit,
                       enum weight_type as, const char *remedy, struct error *e)
{
    char place[64];
    while (all_within(part->type, from, 1, limit)) first++, from += stored_bytes(part->type);
    place_text(part->tensor, first, place, sizeof place);
    const char *file = part->file ? part->file->path : "random weights", *name = part->tensor ? part->tensor->name : "";
    double value = (double)load(part->type, from);
    if (isfinite(value))
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "%.500s: tensor %.200s has the value %s at element %" PRIu64 "%s, beyond the range of %s%s", file,
                    name, NUMBER("%g", value), first, place, as == WEIGHT_TYPE_BF16 ? "bf16" : "16-bit floats (65504)",
                    remedy);
    return fail(e, WHERRY_STATUS_BAD_FORMAT,
                "%.500s: tensor %.200s has the value %s at element %" PRIu64
                "%s: the file has it, so get it again or train the model again",
                file, name, NUMBER("%g", value), first, place);
}

/* ---- conversion ---- */

static void store(enum weight_type type, float value, unsigned char *to)
{
    if (type == WEIGHT_TYPE_F32)
        memcpy(to, &value, 4);
    else
        memcpy(to, &(uint16_t){type == WEIGHT_TYPE_F16 ? half_from_float(value) : bf16_from_float(value)}, 2);
}

/* A loop for each pair of types, in which the compiler knows both. */
#define CONVERT(from_type, to_type)                                                                                    \
    if (type == from_type && as == to_type)                                                                            \
        for (size_t i = 0; i < n; i++)                                                                                 \
            store(to_type, load(from_type, from + (from_type == WEIGHT_TYPE_F32 ? 4 : 2) * i),                         \
                  to + (to_type == WEIGHT_TYPE_F32 ? 4 : 2) * i);

static void convert(enum weight_type type, enum weight_type as, const unsigned char *from, size_t n, void *out)
{
    unsigned char *to = out;
    if (type == as) memcpy(to, from, n * stored_bytes(type));
    CONVERT(WEIGHT_TYPE_F32, WEIGHT_TYPE_F16)
    CONVERT(WEIGHT_TYPE_F32, WEIGHT_TYPE_BF16)
    CONVERT(WEIGHT_TYPE_F16, WEIGHT_TYPE_F32)
    CONVERT(WEIGHT_TYPE_F16, WEIGHT_TYPE_BF16)
    CONVERT(WEIGHT_TYPE_BF16, WEIGHT_TYPE_F32)
    CONVERT(WEIGHT_TYPE_BF16, WEIGHT_TYPE_F16)
}

/* Block by block, so that what was read is still in the cache when it is checked and converted. */
bool weight_convert(const struct weight_part *part, uint64_t first, uint64_t elements, enum weight_type as, void *raw,
                    void *out, struct error *e)
{
    const size_t stored = stored_bytes(part->type), block = WEIGHT_RAW_BYTES / stored;
    const bool same = part->type == as;
    const uint32_t limit = beyond[part->type][as];
    unsigned char *to = out;
    for (uint64_t end = first + elements; first < end;) {
        size_t n = end - first < block ? (size_t)(end - first) : block;
        unsigned char *read = same ? to : raw;
        const unsigned char *from = read;
        if (part->memory)
            from = (const unsigned char *)part->memory + first * stored;
        else
            TRY(safetensors_read(part->file, part->tensor, first * stored, n * stored, read, e));
        if (!all_within(part->type, from, n, limit))
            return fail_value(part, first, from, limit, as,
                              as == WEIGHT_TYPE_BF16 ? ": use f32" : ": use bf16, or use f32", e);
        if (from != to) convert(part->type, as, from, n, to);
        first += n;
        to += n * stored_bytes(as);
    }
    return true;
}

bool weight_check(const struct weight_part *part, uint64_t first, uint64_t elements, enum weight_type as, void *raw,
                  struct error *e)
{
    const size_t stored = stored_bytes(part->type), block = WEIGHT_RAW_BYTES / stored;
    const uint32_t limit = beyond[part->type][as];
    for (uint64_t end = first + elements; first < end;) {
        size_t n = end - first < block ? (size_t)(end - first) : block;
        const unsigned char *from = part->memory ? (const unsigned char *)part->memory + first * stored : raw;
        if (!part->memory) TRY(safetensors_read(part->file, part->tensor, first * stored, n * stored, raw, e));
        if (!all_within(part->type, from, n, limit)) return fail_value(part, first, from, limit, as, "", e);
        first += n;
    }
    return true;
}

/* ---- other orders ---- */

/* A column of the matrix goes to a row that is `stride` elements after the one before. ORDER_STRIP rows, or fewer:
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

/* Between the order here and that of the model's files; to the order here with `to_here`. */
static void order_walk(const struct matrix_order *order, bool to_here, const float *from, float *to)
{
    size_t rows = (size_t)order->rows, columns = (size_t)order->columns;
    for (size_t r0 = 0; r0 < rows; r0 += ORDER_STRIP) {
        size_t end = r0 + ORDER_STRIP < rows ? r0 + ORDER_STRIP : rows;
        for (size_t r = r0; r < end && !order->transposed; r++) {
            size_t here = r * columns, file = (size_t)matrix_order_row(order, r) * columns;
            memcpy(to + (to_here ? here : file), from + (to_here ? file : here), columns * sizeof *to);
        }
        for (size_t c = 0; c < columns && order->transposed; c++)
            for (size_t r = r0; r < end; r++) {
                size_t here = c * rows + r, file = (size_t)matrix_order_row(order, r) * columns + c;
                to[to_here ? here : file] = from[to_here ? file : here];
            }
    }
}

void floats_from_order(const struct matrix_order *order, const float *from, float *to)
{
    order_walk(order, false, from, to);
}

void floats_to_order(const struct matrix_order *order, const float *from, float *to)
{
    order_walk(order, true, from, to);
}

/* The part that a row of the file is in; *row becomes its number there. */
static const struct weight_part *part_of(const struct weight_part *parts, uint64_t columns, uint64_t *row)
{
    for (; *row >= parts->elements / columns; parts++) *row -= parts->elements / columns;
    return parts;
}

/* `count` columns of some rows. Parts are whole rows. Where rows are taken whole, those that lie one after the other in
 * a part are read as one. */
static bool rows_convert(const struct weight_part *parts, const struct matrix_order *order, uint64_t row, uint64_t rows,
                         uint64_t first, uint64_t count, enum weight_type as, void *raw, char *out, struct error *e)
{
    const uint64_t bytes = count * stored_bytes(as);
    const bool whole = count == order->columns;
    for (uint64_t r = 0, n; r < rows; r += n) {
        uint64_t there = matrix_order_row(order, row + r), at = there;
        const struct weight_part *part = part_of(parts, order->columns, &at);
        for (n = 1; whole && r + n < rows && at + n < part->elements / order->columns; n++)
            if (matrix_order_row(order, row + r + n) != there + n) break;
        TRY(weight_convert(part, at * order->columns + first, n * count, as, raw, out + r * bytes, e));
    }
    return true;
}

bool weight_convert_order(const struct weight_part *parts, const struct matrix_order *order, uint64_t first,
                          uint64_t count, enum weight_type as, void *raw, void *strip, void *out, struct error *e)
{
    if (!order->transposed) return rows_convert(parts, order, first, count, 0, order->columns, as, raw, out, e);
    for (uint64_t r = 0, n; r < order->rows; r += n) {
        n = order->rows - r < ORDER_STRIP ? order->rows - r : ORDER_STRIP;
        TRY(rows_convert(parts, order, r, n, first, count, as, raw, strip, e));
        if (stored_bytes(as) == 2)
            strip_turn16(strip, (size_t)n, (size_t)count, (uint16_t *)out + r, (size_t)order->rows);
        else
            strip_turn32(strip, (size_t)n, (size_t)count, (float *)out + r, (size_t)order->rows);
    }
    return true;
}
