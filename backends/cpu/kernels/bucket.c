/* The kernels of buckets of gradients, bucket_add, bucket_take, bucket_scan, bucket_pack, bucket_sum and bucket_unpack
 * (the files of those names in cl/). An item is a part of a message's elements, or of what is added. */
#include "base/bits.h"
#include "base/half.h"
#include "base/round.h"
#include "interface/optimizer.h"
#include "interface/wire.h"
#include "vector.h"

#include "backends/cpu/step.h"

enum { PARTS = 16 };

static size_t element_at(const struct cpu_step *s, size_t i)
{
    const uint32_t *list = (const uint32_t *)s->at[SLOT_IDS] + s->batch[WIRE_LIST];
    const size_t row = s->batch[WIRE_ROW], at = s->batch[WIRE_AT];
    return row ? at + (list[i / row] - s->batch[WIRE_FIRST_ROW]) * row + i % row : at + i;
}

static float two_to(int exponent) { return bits_float((uint32_t)(exponent + 127) << 23); }

static float scaled(float x, int exponent) { return x * two_to(exponent / 2) * two_to(exponent - exponent / 2); }

static float message_float(const struct cpu_step *s, const uint32_t *message, size_t i)
{
    if (s->value[CONST_FORM] == WIRE_FORM_F32) return bits_float(message[i]);
    const uint16_t half = (uint16_t)(message[WIRE_ROUND + i / 2] >> 16 * (i % 2));
    const float x = s->value[CONST_FORM] == WIRE_FORM_F16 ? half_to_float(half) : bf16_to_float(half);
    return scaled(x, (int)message[WIRE_HEAD_EXPONENT]) * bits_float(message[WIRE_HEAD_FACTOR]);
}

/* An item's message, and its elements. */
struct part {
    size_t number, first, begin, end, count, at;
};

static struct part part_of(const struct cpu_step *s, size_t item)
{
    const uint32_t *entry = s->batch + WIRE_TABLE + MESSAGE_WORDS * (item / PARTS);
    const size_t count = entry[MESSAGE_COUNT], share = (count / PARTS + WIRE_ROUND) / WIRE_ROUND * WIRE_ROUND,
                 begin = item % PARTS * share, end = begin + share;
    return (struct part){.number = item / PARTS,
                         .first = entry[MESSAGE_FIRST],
                         .begin = begin < count ? begin : count,
                         .end = end < count ? end : count,
                         .count = count,
                         .at = entry[MESSAGE_AT]};
}

static size_t parts(const struct cpu_step *s) { return s->batch[WIRE_ACTIVE] ? PARTS * s->batch[WIRE_MESSAGES] : 0; }

/* ---- to and from messages ---- */

static void scan_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    const struct part p = part_of(s, item);
    float largest = 0;
    for (size_t i = p.begin; i < p.end; i++) {
        const float v = fabsf(s->at[SLOT_X][element_at(s, p.first + i)]);
        if (v > largest && v < INFINITY) largest = v;
    }
    s->at[SLOT_PARTIALS][item] = largest;
}

static int exponent_of(const struct cpu_step *s, const struct part *p)
{
    float largest = 0;
    for (size_t i = 0; i < PARTS; i++)
        if (s->at[SLOT_PARTIALS][PARTS * p->number + i] > largest)
            largest = s->at[SLOT_PARTIALS][PARTS * p->number + i];
    const int bits = (int)(float_bits(largest) >> 23);
    return largest > 0 ? (bits > 1 ? bits : 1) - 126 - 15 : 0;
}

static uint32_t pair_of(const struct cpu_step *s, float low, float high, int exponent)
{
    if (s->value[CONST_FORM] == WIRE_FORM_BF16) return bf16_from_float(low) | (uint32_t)bf16_from_float(high) << 16;
    return half_from_float(scaled(low, -exponent)) | (uint32_t)half_from_float(scaled(high, -exponent)) << 16;
}

/* Pairs of a message, behind whose last float is 0. */
static void pack_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    const struct part p = part_of(s, item);
    const float *x = s->at[SLOT_X];
    uint32_t *to = (uint32_t *)s->at[SLOT_Y] + p.at;
    if (s->value[CONST_FORM] == WIRE_FORM_F32 && !s->batch[WIRE_ROW]) {
        memcpy(to + p.begin, x + s->batch[WIRE_AT] + p.first + p.begin, (p.end - p.begin) * sizeof *to);
        return;
    }
    if (s->value[CONST_FORM] == WIRE_FORM_F32) {
        for (size_t i = p.begin; i < p.end; i++) to[i] = float_bits(x[element_at(s, p.first + i)]);
        return;
    }
    const int exponent = s->value[CONST_FORM] == WIRE_FORM_F16 ? exponent_of(s, &p) : 0;
    if (item % PARTS == 0) {
        memset(to, 0, WIRE_ROUND * sizeof *to);
        to[WIRE_HEAD_EXPONENT] = (uint32_t)exponent;
        to[WIRE_HEAD_FACTOR] = float_bits(1);
    }
    for (size_t i = p.begin; i < p.end; i += 2) {
        const float low = x[element_at(s, p.first + i)], high = i + 1 < p.count ? x[element_at(s, p.first + i + 1)] : 0;
        to[WIRE_ROUND + i / 2] = pair_of(s, low, high, exponent);
    }
}

static void unpack_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    const struct part p = part_of(s, item);
    const uint32_t *from = (const uint32_t *)s->at[SLOT_X] + p.at;
    if (s->value[CONST_FORM] == WIRE_FORM_F32 && !s->batch[WIRE_ROW]) {
        memcpy(s->at[SLOT_Y] + s->batch[WIRE_AT] + p.first + p.begin, from + p.begin, (p.end - p.begin) * sizeof *from);
        return;
    }
    for (size_t i = p.begin; i < p.end; i++) s->at[SLOT_Y][element_at(s, p.first + i)] = message_float(s, from, i);
}

/* ---- sums ---- */

static size_t shares(const struct cpu_step *s) { return s->batch[WIRE_ACTIVE] ? PARTS : 0; }

static float sum_of(const struct cpu_step *s, size_t i, float own)
{
    const uint32_t *operation = s->batch + s->batch[WIRE_OPERATIONS_AT];
    float held[WIRE_DEPTH];
    size_t n = 0;
    for (size_t o = 0; o < s->batch[WIRE_OPERATIONS]; o++, operation += OPERATION_WORDS) {
        const uint32_t *from = (const uint32_t *)s->at[SLOT_X] + operation[1];
        if (operation[0] == OPERATION_ADD) {
            n--;
            held[n - 1] += held[n];
            continue;
        }
        held[n++] = operation[0] == OPERATION_OWN       ? own
                    : operation[0] == OPERATION_MESSAGE ? message_float(s, from, i)
                                                        : bits_float(from[i]);
    }
    return n ? held[0] : 0;
}

static void sum_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    const size_t count = s->batch[WIRE_SUM_COUNT], end = (item + 1) * count / PARTS;
    float largest = 0;
    for (size_t i = item * count / PARTS; i < end; i++) {
        float *own = &s->at[SLOT_GRADIENT][element_at(s, s->batch[WIRE_SUM_FIRST] + i)];
        *own = sum_of(s, i, *own);
        if (fabsf(*own) > largest && fabsf(*own) < INFINITY) largest = fabsf(*own);
    }
    if (s->at[SLOT_PARTIALS]) s->at[SLOT_PARTIALS][item] = largest;
}

static size_t chunks(const struct cpu_step *s) { return s->batch[WIRE_ACTIVE] ? s->batch[WIRE_CHUNKS] : 0; }

static void add_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    const uint32_t *entry =
        (const uint32_t *)s->at[SLOT_IDS] + OPTIMIZER_TABLE + (s->batch[WIRE_CHUNK] + item) * CHUNK_WORDS;
    const float factor = bits_float(s->batch[WIRE_FACTOR]), *x = s->at[SLOT_X] + entry[CHUNK_GRADIENT];
    float *g = s->at[SLOT_GRADIENT] + entry[CHUNK_AT];
    if (!s->batch[WIRE_ADDS])
        for (size_t i = 0; i < entry[CHUNK_COUNT]; i++) g[i] = factor * x[i];
    else
        for (size_t i = 0; i < entry[CHUNK_COUNT]; i++) g[i] += factor * x[i];
}

/* A session of this device stores floats: these are messages of floats. */
static void take_run(const struct cpu_step *s, size_t item, float *scratch)
{
    (void)scratch;
    const uint32_t *entry =
        (const uint32_t *)s->at[SLOT_IDS] + OPTIMIZER_TABLE + (s->batch[WIRE_CHUNK] + item) * CHUNK_WORDS;
    const uint32_t most = s->batch[WIRE_TABLE + MESSAGE_COUNT], first = entry[CHUNK_AT] - s->batch[WIRE_AT];
    const float factor = bits_float(s->batch[WIRE_FACTOR]), *x = s->at[SLOT_X] + entry[CHUNK_GRADIENT];
    float *to = s->at[SLOT_Y] + s->batch[WIRE_TABLE + MESSAGE_AT];
    for (uint32_t i = 0; i < round_up(entry[CHUNK_COUNT], OPTIMIZER_GAP); i++)
        if (first + i < most) to[first + i] = i < entry[CHUNK_COUNT] ? factor * x[i] : 0;
}

const struct cpu_kernel CPU_NAME(cpu_bucket_add) = {.name = "bucket_add", .items = chunks, .run = add_run};
const struct cpu_kernel CPU_NAME(cpu_bucket_take) = {.name = "bucket_take", .items = chunks, .run = take_run};
const struct cpu_kernel CPU_NAME(cpu_bucket_scan) = {.name = "bucket_scan", .items = parts, .run = scan_run};
const struct cpu_kernel CPU_NAME(cpu_bucket_pack) = {.name = "bucket_pack", .items = parts, .run = pack_run};
const struct cpu_kernel CPU_NAME(cpu_bucket_sum) = {.name = "bucket_sum", .items = shares, .run = sum_run};
const struct cpu_kernel CPU_NAME(cpu_bucket_unpack) = {.name = "bucket_unpack", .items = parts, .run = unpack_run};
