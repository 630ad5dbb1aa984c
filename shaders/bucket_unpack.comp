#version 450
#extension GL_GOOGLE_include_directive : require
/* The floats of the messages of the table, X, to their places in a bucket, Y. Twin of cl/bucket_unpack.cl.
 *
 * Any LOCAL_SIZE is right. */
#include "common.glsl"
#include "wire.h"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT_OF(SLOT_X, uint, x);
INPUT_OF(SLOT_IDS, uint, rows);
OUTPUT_OF(SLOT_Y, float, y);
layout(set = 0, binding = SLOT_Y) restrict writeonly buffer y_vectors { vec4 y_quads[]; };
#include "bucket.glsl"

void main()
{
    const uint message = group_number() / WIRE_GROUPS, part = group_number() % WIRE_GROUPS;
    if (batch[WIRE_ACTIVE] != 0 && message < batch[WIRE_MESSAGES]) {
        const uint entry = WIRE_TABLE + MESSAGE_WORDS * message;
        const uint first = batch[entry + MESSAGE_FIRST], count = batch[entry + MESSAGE_COUNT],
                   from = batch[entry + MESSAGE_AT];
        const uint whole = batch[WIRE_ROW] == 0 ? count / 4 * 4 : 0;
        for (uint i = 4 * (part * LOCAL_SIZE + local_number()); i < whole; i += 4 * WIRE_GROUPS * LOCAL_SIZE)
            y_quads[(batch[WIRE_AT] + first + i) / 4] = vec4(MESSAGE_FLOAT(from, i), MESSAGE_FLOAT(from, i + 1),
                                                             MESSAGE_FLOAT(from, i + 2), MESSAGE_FLOAT(from, i + 3));
        for (uint i = whole + part * LOCAL_SIZE + local_number(); i < count; i += WIRE_GROUPS * LOCAL_SIZE)
            y[element_at(first + i)] = MESSAGE_FLOAT(from, i);
    }
}
