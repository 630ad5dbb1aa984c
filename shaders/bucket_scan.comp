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
layout(set = 0, binding = SLOT_X) restrict readonly buffer x_vectors { vec4 x_quads[]; };
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
        for (uint i = 4 * (part * LOCAL_SIZE + local_number()); i < count; i += 4 * WIRE_GROUPS * LOCAL_SIZE) {
            vec4 v = vec4(0.0);
            if (batch[WIRE_ROW] == 0 && i + 4 <= count) {
                v = x_quads[(batch[WIRE_AT] + first + i) / 4];
            } else {
                for (uint c = 0; c < min(4, count - i); c++) v[c] = x[element_at(first + i + c)];
            }
            const uvec4 bits = floatBitsToUint(v) & uvec4(0x7fffffffu);
            for (uint c = 0; c < 4; c++)
                if (bits[c] < 0x7f800000u) largest = max(largest, uintBitsToFloat(bits[c]));
        }
        largest = group_max(largest);
        if (local_number() == 0) partials[group_number()] = largest;
    }
}
