#version 450
#extension GL_GOOGLE_include_directive : require
/* Floats of a bucket, X, as the messages of the table, in Y. In f16 the largest of each is in PARTIALS, as
 * bucket_scan left it. Twin of cl/bucket_pack.cl.
 *
 * An invocation writes 4 elements at a time, those behind the last one as 0. Any LOCAL_SIZE is right. */
#define REDUCE
#include "common.glsl"
#include "wire.h"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT_OF(SLOT_X, float, x);
layout(set = 0, binding = SLOT_X) restrict readonly buffer x_vectors { vec4 x_quads[]; };
INPUT_OF(SLOT_IDS, uint, rows);
INPUT_OF(SLOT_PARTIALS, float, partials);
OUTPUT_OF(SLOT_Y, uint, y);
layout(set = 0, binding = SLOT_Y) restrict writeonly buffer y_vectors { uvec4 y_quads[]; };
layout(set = 0, binding = SLOT_Y) restrict writeonly buffer y_pairs { uvec2 y_halves[]; };
#include "bucket.glsl"

/* What divides a message whose largest magnitude is this (interface/wire.h). */
int exponent_of(const float largest)
{
    const int bits = int(floatBitsToUint(largest) >> 23);
    return largest > 0.0 ? max(bits, 1) - 126 - 15 : 0;
}

/* Float number `i` of a message that ends before `count`: 0 behind it. */
float float_of(const uint first, const uint i, const uint count) { return i < count ? x[element_at(first + i)] : 0.0; }

void main()
{
    const uint message = group_number() / WIRE_GROUPS, part = group_number() % WIRE_GROUPS;
    if (batch[WIRE_ACTIVE] != 0 && message < batch[WIRE_MESSAGES]) {
        const uint entry = WIRE_TABLE + MESSAGE_WORDS * message;
        const uint first = batch[entry + MESSAGE_FIRST], count = batch[entry + MESSAGE_COUNT],
                   to = batch[entry + MESSAGE_AT];
        int exponent = 0;
        if (FORM == WIRE_FORM_F16) {
            float largest = 0.0;
            for (uint i = local_number(); i < WIRE_GROUPS; i += LOCAL_SIZE)
                largest = max(largest, partials[message * WIRE_GROUPS + i]);
            exponent = exponent_of(group_max(largest));
        }
        if (FORM != WIRE_FORM_F32 && part == 0 && local_number() < WIRE_ROUND)
            y[to + local_number()] = head_word(local_number(), exponent, floatBitsToUint(1.0));
        for (uint i = 4 * (part * LOCAL_SIZE + local_number()); i < count; i += 4 * WIRE_GROUPS * LOCAL_SIZE) {
            vec4 v;
            if (batch[WIRE_ROW] == 0 && i + 4 <= count) {
                v = x_quads[(batch[WIRE_AT] + first + i) / 4];
            } else {
                v = vec4(float_of(first, i, count), float_of(first, i + 1, count), float_of(first, i + 2, count),
                         float_of(first, i + 3, count));
            }
            if (FORM == WIRE_FORM_F16) {
                const vec2 low = vec2(scaled(v.x, -exponent), scaled(v.y, -exponent));
                const vec2 high = vec2(scaled(v.z, -exponent), scaled(v.w, -exponent));
                y_halves[(to + WIRE_ROUND) / 2 + i / 4] = uvec2(packHalf2x16(low), packHalf2x16(high));
            } else if (FORM == WIRE_FORM_BF16) {
                const uvec4 bits = floatBitsToUint(v);
                y_halves[(to + WIRE_ROUND) / 2 + i / 4] = uvec2(WIRE_BF16(bits.x) | WIRE_BF16(bits.y) << 16,
                                                                WIRE_BF16(bits.z) | WIRE_BF16(bits.w) << 16);
            } else {
                y_quads[(to + i) / 4] = floatBitsToUint(v);
            }
        }
    }
}
