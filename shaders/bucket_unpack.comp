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
#include "bucket.glsl"

void main()
{
    const uint message = group_number() / WIRE_GROUPS, part = group_number() % WIRE_GROUPS;
    if (batch[WIRE_ACTIVE] != 0 && message < batch[WIRE_MESSAGES]) {
        const uint entry = WIRE_TABLE + MESSAGE_WORDS * message;
        const uint first = batch[entry + MESSAGE_FIRST], count = batch[entry + MESSAGE_COUNT],
                   from = batch[entry + MESSAGE_AT];
        for (uint i = part * LOCAL_SIZE + local_number(); i < count; i += WIRE_GROUPS * LOCAL_SIZE)
            y[element_at(first + i)] = MESSAGE_FLOAT(from, i);
    }
}
