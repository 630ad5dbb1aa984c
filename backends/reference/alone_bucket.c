/* The kernels of buckets of gradients (the files of their names in cl/), element by element. Sums are of floats, for
 * what they are summed from is; so they are what the order says. */
#include <math.h>
#include <string.h>

#include "alone.h"
#include "base/half.h"
#include "interface/optimizer.h"
#include "interface/wire.h"

static const uint32_t *batch_of(const struct alone_step *s) { return s->at[SLOT_BATCH]; }

/* What is in messages. */
static enum storage wire_type(const struct alone_step *s)
{
    const uint32_t form = call_get(s->step->call, CONST_FORM, WIRE_FORM_F32);
    return form == WIRE_FORM_F16 ? STORAGE_F16 : form == WIRE_FORM_BF16 ? STORAGE_BF16 : STORAGE_F32;
}

static bool is_half(const struct alone_step *s) { return wire_type(s) != STORAGE_F32; }

static float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t element_at(const struct alone_step *s, uint32_t i)
{
    const uint32_t *batch = batch_of(s), *rows = s->at[SLOT_IDS], row = batch[WIRE_ROW];
    if (!row) return batch[WIRE_AT] + i;
    return batch[WIRE_AT] + (rows[batch[WIRE_LIST] + i / row] - batch[WIRE_FIRST_ROW]) * row + i % row;
}

static float message_float(const struct alone_step *s, uint32_t at, uint32_t i)
{
    const uint32_t *x = (const uint32_t *)s->at[SLOT_X] + at;
    if (!is_half(s)) return bits_float(x[i]);
    return (float)ldexp((double)storage_float(wire_type(s), x + WIRE_ROUND, i), (int)x[WIRE_HEAD_EXPONENT]) *
           bits_float(x[WIRE_HEAD_FACTOR]);
}

static void head_write(uint32_t *message, int exponent, float factor)
{
    memset(message, 0, WIRE_ROUND * sizeof *message);
    message[WIRE_HEAD_EXPONENT] = (uint32_t)exponent;
    memcpy(&message[WIRE_HEAD_FACTOR], &factor, sizeof factor);
}

static uint32_t messages(const struct alone_step *s)
{
    return batch_of(s)[WIRE_ACTIVE] ? batch_of(s)[WIRE_MESSAGES] : 0;
}

static void add_run(const struct alone_step *s)
{
    const uint32_t *batch = batch_of(s);
    float *sum = s->at[SLOT_GRADIENT];
    for (uint32_t c = 0; batch[WIRE_ACTIVE] && c < batch[WIRE_CHUNKS]; c++) {
        const uint32_t *entry =
            (const uint32_t *)s->at[SLOT_IDS] + OPTIMIZER_TABLE + (batch[WIRE_CHUNK] + c) * CHUNK_WORDS;
        for (uint32_t i = 0; i < entry[CHUNK_COUNT]; i++) {
            const uint32_t from = entry[CHUNK_GRADIENT] + i, to = entry[CHUNK_AT] + i;
            const double x = (double)storage_float(step_type(s->step), s->at[SLOT_X], from);
            const double before = batch[WIRE_ADDS] ? (double)sum[to] : 0;
            sum[to] = (float)(before + (double)bits_float(batch[WIRE_FACTOR]) * x);
        }
    }
}

/* Of 16 bits they are as the session has them. */
static void take_run(const struct alone_step *s)
{
    const uint32_t *batch = batch_of(s), most = batch[WIRE_TABLE + MESSAGE_COUNT];
    uint32_t *y = (uint32_t *)s->at[SLOT_Y] + batch[WIRE_TABLE + MESSAGE_AT];
    if (batch[WIRE_ACTIVE] && is_half(s)) head_write(y, 0, bits_float(batch[WIRE_FACTOR]));
    for (uint32_t c = 0; batch[WIRE_ACTIVE] && c < batch[WIRE_CHUNKS]; c++) {
        const uint32_t *entry =
            (const uint32_t *)s->at[SLOT_IDS] + OPTIMIZER_TABLE + (batch[WIRE_CHUNK] + c) * CHUNK_WORDS;
        const uint32_t first = entry[CHUNK_AT] - batch[WIRE_AT], count = entry[CHUNK_COUNT];
        for (uint32_t i = 0; i < (count + OPTIMIZER_GAP - 1) / OPTIMIZER_GAP * OPTIMIZER_GAP; i++) {
            const uint32_t from = entry[CHUNK_GRADIENT] + i, to = first + i;
            if (to >= most) continue;
            const uint16_t half = s->step->f16 && i < count ? ((const uint16_t *)s->at[SLOT_X])[from] : 0;
            const float x = i < count ? storage_float(step_type(s->step), s->at[SLOT_X], from) : 0,
                        v = x * bits_float(batch[WIRE_FACTOR]);
            if (is_half(s))
                ((uint16_t *)(y + WIRE_ROUND))[to] = half;
            else
                memcpy(&y[to], &v, sizeof v);
        }
    }
}

/* The first of a message's places has the largest of all of it, the others 0. */
static void scan_run(const struct alone_step *s)
{
    float *partials = s->at[SLOT_PARTIALS];
    for (uint32_t m = 0; m < messages(s); m++) {
        const uint32_t *entry = batch_of(s) + WIRE_TABLE + MESSAGE_WORDS * m;
        float largest = 0;
        for (uint32_t i = 0; i < entry[MESSAGE_COUNT]; i++) {
            const float v = fabsf(((const float *)s->at[SLOT_X])[element_at(s, entry[MESSAGE_FIRST] + i)]);
            if (isfinite(v) && v > largest) largest = v;
        }
        memset(&partials[m * WIRE_GROUPS], 0, WIRE_GROUPS * sizeof *partials);
        partials[m * WIRE_GROUPS] = largest;
    }
}

static int exponent_of(float largest)
{
    int exponent = 0;
    if (!(largest > 0)) return 0;
    frexp((double)(largest < 0x1p-126f ? 0x1p-126f : largest), &exponent);
    return exponent - 15;
}

static void pack_run(const struct alone_step *s)
{
    for (uint32_t m = 0; m < messages(s); m++) {
        const uint32_t *entry = batch_of(s) + WIRE_TABLE + MESSAGE_WORDS * m, count = entry[MESSAGE_COUNT];
        uint32_t *to = (uint32_t *)s->at[SLOT_Y] + entry[MESSAGE_AT];
        const int exponent =
            wire_type(s) == STORAGE_F16 ? exponent_of(((const float *)s->at[SLOT_PARTIALS])[m * WIRE_GROUPS]) : 0;
        if (is_half(s)) memset(to, 0, (WIRE_ROUND + (count + 1) / 2) * sizeof *to);
        if (is_half(s)) head_write(to, exponent, 1);
        for (uint32_t i = 0; i < count; i++) {
            const float v = ((const float *)s->at[SLOT_X])[element_at(s, entry[MESSAGE_FIRST] + i)];
            storage_put(wire_type(s), (float)ldexp((double)v, -exponent), is_half(s) ? to + WIRE_ROUND : to, i);
        }
    }
}

static void sum_run(const struct alone_step *s)
{
    const uint32_t *batch = batch_of(s);
    float *partials = s->at[SLOT_PARTIALS];
    if (partials && batch[WIRE_ACTIVE]) memset(partials, 0, WIRE_GROUPS * sizeof *partials);
    for (uint32_t i = 0; batch[WIRE_ACTIVE] && i < batch[WIRE_SUM_COUNT]; i++) {
        const uint32_t *operation = batch + batch[WIRE_OPERATIONS_AT];
        float *own = (float *)s->at[SLOT_GRADIENT] + element_at(s, batch[WIRE_SUM_FIRST] + i), held[WIRE_DEPTH] = {0};
        int n = 0;
        for (uint32_t o = 0; o < batch[WIRE_OPERATIONS]; o++, operation += OPERATION_WORDS)
            if (operation[0] == OPERATION_ADD) {
                held[n - 2] += held[n - 1];
                n--;
            } else if (operation[0] == OPERATION_MESSAGE) {
                held[n++] = message_float(s, operation[1], i);
            } else {
                held[n++] = operation[0] == OPERATION_OWN ? *own : ((const float *)s->at[SLOT_X])[operation[1] + i];
            }
        *own = held[0];
        if (partials && isfinite(*own) && fabsf(*own) > *partials) *partials = fabsf(*own);
    }
}

static void unpack_run(const struct alone_step *s)
{
    for (uint32_t m = 0; m < messages(s); m++) {
        const uint32_t *entry = batch_of(s) + WIRE_TABLE + MESSAGE_WORDS * m;
        for (uint32_t i = 0; i < entry[MESSAGE_COUNT]; i++)
            ((float *)s->at[SLOT_Y])[element_at(s, entry[MESSAGE_FIRST] + i)] = message_float(s, entry[MESSAGE_AT], i);
    }
}

alone_run alone_find_bucket(const char *kernel)
{
    static const struct {
        const char *kernel;
        alone_run run;
    } kernels[] = {{"bucket_add", add_run},   {"bucket_take", take_run}, {"bucket_scan", scan_run},
                   {"bucket_pack", pack_run}, {"bucket_sum", sum_run},   {"bucket_unpack", unpack_run}};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(kernels[i].kernel, kernel)) return kernels[i].run;
    return NULL;
}
