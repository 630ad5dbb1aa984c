#version 450
#extension GL_GOOGLE_include_directive : require
/* The sums of all processes' parts of a bucket's floats, in the order of the batch buffer's operations: parts are this
 * device's, GRADIENT, where the sums go, messages, X, and floats beside them. Twin of cl/bucket_sum.cl.
 *
 * With 16 bits a work-group's largest finite magnitude of the sums goes to its place in PARTIALS, as bucket_scan's
 * does. What waits to be added is in registers: the last one in held[0]. Any LOCAL_SIZE is right. */
#define REDUCE
#include "common.glsl"
#include "wire.h"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT_OF(SLOT_X, uint, x);
INPUT_OF(SLOT_IDS, uint, rows);
layout(set = 0, binding = SLOT_GRADIENT) restrict buffer gradient_elements { float gradient[]; };
OUTPUT_OF(SLOT_PARTIALS, float, partials);
#include "bucket.glsl"

void main()
{
    const uint count = batch[WIRE_ACTIVE] != 0 ? batch[WIRE_SUM_COUNT] : 0, operations = batch[WIRE_OPERATIONS];
    const uint list = batch[WIRE_OPERATIONS_AT];
    float largest = 0.0;
    for (uint i = group_number() * LOCAL_SIZE + local_number(); i < count; i += WIRE_GROUPS * LOCAL_SIZE) {
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
        const uint bits = floatBitsToUint(held[0]) & 0x7fffffffu;
        if (bits < 0x7f800000u) largest = max(largest, uintBitsToFloat(bits));
    }
    if (FORM == WIRE_FORM_F16 && batch[WIRE_ACTIVE] != 0) {
        largest = group_max(largest);
        if (local_number() == 0) partials[group_number()] = largest;
    }
}
