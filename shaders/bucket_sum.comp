#version 450
#extension GL_GOOGLE_include_directive : require
/* The sums of all processes' parts of a bucket's floats, in the order of the batch buffer's operations: parts are this
 * device's, GRADIENT, where the sums go, messages, X, and floats beside them. Twin of cl/bucket_sum.cl.
 *
 * In f16 a work-group's largest finite magnitude of the sums goes to its place in PARTIALS, as bucket_scan's
 * does. What waits to be added is in registers: the last one in held[0]. Two messages that are added, as two processes
 * have it, go 4 elements at a time. Any LOCAL_SIZE is right. */
#define REDUCE
#include "common.glsl"
#include "wire.h"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT_OF(SLOT_X, uint, x);
layout(set = 0, binding = SLOT_X) restrict readonly buffer x_quadruples { uvec2 x_halves[]; };
layout(set = 0, binding = SLOT_X) restrict readonly buffer x_vectors { uvec4 x_quads[]; };
INPUT_OF(SLOT_IDS, uint, rows);
layout(set = 0, binding = SLOT_GRADIENT) restrict buffer gradient_elements { float gradient[]; };
layout(set = 0, binding = SLOT_GRADIENT) restrict buffer gradient_vectors { vec4 gradient_quads[]; };
OUTPUT_OF(SLOT_PARTIALS, float, partials);
#include "bucket.glsl"

/* Floats i to i + 3 of the message that begins with word `at`; i is a multiple of 4. */
vec4 message_quad(const uint at, const uint i)
{
    if (FORM == WIRE_FORM_F32) return uintBitsToFloat(x_quads[(at + i) / 4]);
    const uvec2 raw = x_halves[(at + WIRE_ROUND) / 2 + i / 4];
    const int exponent = int(x[at + WIRE_HEAD_EXPONENT]);
    const vec4 v = vec4(wire_floats(raw.x), wire_floats(raw.y));
    return fma(v * power_of_two(exponent / 2) * power_of_two(exponent - exponent / 2),
               vec4(uintBitsToFloat(x[at + WIRE_HEAD_FACTOR])), vec4(0.0));
}

float larger(const float largest, const float x)
{
    const uint bits = floatBitsToUint(x) & 0x7fffffffu;
    return bits < 0x7f800000u ? max(largest, uintBitsToFloat(bits)) : largest;
}

void main()
{
    const uint count = batch[WIRE_ACTIVE] != 0 ? batch[WIRE_SUM_COUNT] : 0, operations = batch[WIRE_OPERATIONS];
    const uint list = batch[WIRE_OPERATIONS_AT];
    float largest = 0.0;
    const bool two = operations == 3 && batch[list] == OPERATION_MESSAGE &&
                     batch[list + OPERATION_WORDS] == OPERATION_MESSAGE;
    const uint quads = two && batch[WIRE_ROW] == 0 ? count / 4 * 4 : 0;
    for (uint i = 4 * (group_number() * LOCAL_SIZE + local_number()); i < quads; i += 4 * WIRE_GROUPS * LOCAL_SIZE) {
        precise const vec4 sum =
            message_quad(batch[list + 1], i) + message_quad(batch[list + OPERATION_WORDS + 1], i);
        gradient_quads[(batch[WIRE_AT] + batch[WIRE_SUM_FIRST] + i) / 4] = sum;
        for (uint c = 0; c < 4; c++) largest = larger(largest, sum[c]);
    }
    for (uint i = quads + group_number() * LOCAL_SIZE + local_number(); i < count; i += WIRE_GROUPS * LOCAL_SIZE) {
        const uint at = element_at(batch[WIRE_SUM_FIRST] + i);
        float held[WIRE_DEPTH];
        UNROLL for (uint c = 0; c < WIRE_DEPTH; c++) held[c] = 0.0;
        for (uint o = 0; o < operations; o++) {
            const uint kind = batch[list + OPERATION_WORDS * o], from = batch[list + OPERATION_WORDS * o + 1];
            if (kind == OPERATION_ADD) {
                held[0] = held[1] + held[0];
                UNROLL for (uint c = 1; c + 1 < WIRE_DEPTH; c++) held[c] = held[c + 1];
                continue;
            }
            UNROLL for (uint c = WIRE_DEPTH - 1; c > 0; c--) held[c] = held[c - 1];
            if (kind == OPERATION_OWN)
                held[0] = gradient[at];
            else if (kind == OPERATION_MESSAGE)
                held[0] = MESSAGE_FLOAT(from, i);
            else
                held[0] = uintBitsToFloat(x[from + i]);
        }
        gradient[at] = held[0];
        largest = larger(largest, held[0]);
    }
    if (FORM == WIRE_FORM_F16 && batch[WIRE_ACTIVE] != 0) {
        largest = group_max(largest);
        if (local_number() == 0) partials[group_number()] = largest;
    }
}
