/* Tensors of a kernel that is called by itself: numbers where there are rows and columns, none elsewhere, and guards.
 */
#ifndef WHERRY_TESTS_OPERANDS_H
#define WHERRY_TESTS_OPERANDS_H

#include "base/half.h"
#include "base/round.h"
#include "interface/interface.h"
#include "runtime/context.h"
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
    GUARD = 256, /* bytes before and after a tensor */
    POISON = 0x5a,
    NO_NUMBER = 0x7e00
};

struct operand {
    uint8_t slot;
    bool written, words;
    size_t elements, stride;
    unsigned char *data; /* with guards */
    struct buffer *buffer;
};

struct operands {
    struct operand of[SLOT_COUNT];
    const struct backend *api;
    struct backend_device *device;
};

static inline size_t operand_bytes(const struct operand *t)
{
    return round_up(2 * GUARD + t->elements * (t->words ? 4 : 2), 4);
}

static inline struct operand *operand_add(struct operands *all, uint8_t slot, size_t elements, size_t stride,
                                          bool written, bool words)
{
    struct error e = {0};
    struct operand *t = &all->of[slot];
    *t = (struct operand){slot, written, words, elements, stride, NULL, NULL};
    t->data = malloc(operand_bytes(t));
    t->buffer = all->api->buffer_create(all->device, operand_bytes(t), &e);
    assert_non_null(t->buffer);
    return t;
}

static inline double value(const struct operand *t, size_t row, size_t column)
{
    size_t at = row * t->stride + column;
    if (t->words) return (double)((const float *)(t->data + GUARD))[at];
    return (double)half_to_float(((const uint16_t *)(t->data + GUARD))[at]);
}

static inline void set_value(struct operand *t, size_t row, size_t column, float v)
{
    ((uint16_t *)(t->data + GUARD))[row * t->stride + column] = half_from_float(v);
}

/* Numbers where there are rows and columns, and none elsewhere. */
static inline void fill(struct operands *all, uint8_t slot, size_t rows, size_t columns, uint64_t *random)
{
    struct error e = {0};
    struct operand *t = &all->of[slot];
    for (size_t i = 0; i < operand_bytes(t) / 2; i++) ((uint16_t *)t->data)[i] = NO_NUMBER;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) set_value(t, r, c, (float)(int)(support_random(random) % 257 - 128) / 128);
    assert_true(all->api->buffer_write(all->device, t->buffer, 0, t->data, operand_bytes(t), &e));
}

/* The same of floats. Every number with an odd column is positive where `sums` are of squares. */
static inline void fill_words(struct operands *all, uint8_t slot, size_t rows, size_t columns, bool squares,
                              uint64_t *random)
{
    struct error e = {0};
    struct operand *t = &all->of[slot];
    float *numbers = (float *)(t->data + GUARD);
    memset(t->data, 0xff, operand_bytes(t));
    for (size_t i = 0; i < rows * columns; i++) {
        float v = (float)(int)(support_random(random) % 257 - 128) / 16;
        numbers[i / columns * t->stride + i % columns] = squares || i % 2 ? 8 * fabsf(v) : v;
    }
    assert_true(all->api->buffer_write(all->device, t->buffer, 0, t->data, operand_bytes(t), &e));
}

static inline void poison(struct operands *all, uint8_t slot)
{
    struct error e = {0};
    struct operand *t = &all->of[slot];
    memset(t->data, POISON, operand_bytes(t));
    assert_true(all->api->buffer_write(all->device, t->buffer, 0, t->data, operand_bytes(t), &e));
}

/* Nothing but these rows and columns was written. */
static inline void assert_only(const char *name, const struct operand *t, size_t rows, size_t columns)
{
    size_t element = t->words ? 4 : 2;
    for (size_t i = 0; i < operand_bytes(t); i++) {
        size_t at = i < GUARD ? SIZE_MAX : (i - GUARD) / element;
        bool inside = at < t->elements && at / t->stride < rows && at % t->stride < columns;
        if (!inside && t->data[i] != POISON)
            fail_msg("%s: slot %d: element %zu of rows of %zu was written, there are %zu x %zu", name, t->slot, at,
                     t->stride, rows, columns);
    }
}

#endif
