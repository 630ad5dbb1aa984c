#version 450
#extension GL_GOOGLE_include_directive : require
/* The largest finite magnitude of a bucket's floats, X, that each message of the table is to have: of a work-group's
 * part, to its place in PARTIALS. Twin of cl/bucket_scan.cl.
 *
 * Any LOCAL_SIZE is right: the largest is the same in any order. */
#define REDUCE
#include "common.glsl"
#include "wire.h"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT_OF(SLOT_X, float, x);
INPUT_OF(SLOT_IDS, uint, rows);
OUTPUT_OF(SLOT_PARTIALS, float, partials);
#include "bucket.glsl"

void main()
{
    const uint message = group_number() / WIRE_GROUPS, part = group_number() % WIRE_GROUPS;
    if (batch[WIRE_ACTIVE] != 0 && message < batch[WIRE_MESSAGES]) {
        const uint entry = WIRE_TABLE + MESSAGE_WORDS * message;
        const uint first = batch[entry + MESSAGE_FIRST], count = batch[entry + MESSAGE_COUNT];
        float largest = 0.0;
        for (uint i = part * LOCAL_SIZE + local_number(); i < count; i += WIRE_GROUPS * LOCAL_SIZE) {
            const uint bits = floatBitsToUint(x[element_at(first + i)]) & 0x7fffffffu;
            if (bits < 0x7f800000u) largest = max(largest, uintBitsToFloat(bits));
        }
        largest = group_max(largest);
        if (local_number() == 0) partials[group_number()] = largest;
    }
}
