/* The floats of the messages of the table, X, to their places in a bucket, Y. Twin of shaders/bucket_unpack.comp.
 *
 * Any LOCAL_SIZE is right. */
#include "common.h"
#include "bucket.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void bucket_unpack(BATCH_ARGUMENT
    , INPUT_OF(uint, x)
    , INPUT_OF(uint, rows)
    , OUTPUT_OF(float, y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(uint, x);
    BEGIN_OF(uint, rows);
    BEGIN_OUTPUT_OF(float, y);
    const uint message = group_number() / WIRE_GROUPS, part = group_number() % WIRE_GROUPS;
    if (batch[WIRE_ACTIVE] != 0 && message < batch[WIRE_MESSAGES]) {
        const uint entry = WIRE_TABLE + MESSAGE_WORDS * message;
        const uint first = batch[entry + MESSAGE_FIRST], count = batch[entry + MESSAGE_COUNT];
        __global const uint *from = x + batch[entry + MESSAGE_AT];
        const uint whole = batch[WIRE_ROW] == 0 ? count / 4 * 4 : 0;
        for (uint i = 4 * (part * LOCAL_SIZE + local_number()); i < whole; i += 4 * WIRE_GROUPS * LOCAL_SIZE) {
            const float4 v = (float4)(message_float(from, i), message_float(from, i + 1), message_float(from, i + 2),
                                      message_float(from, i + 3));
            *(__global float4 *)(y + batch[WIRE_AT] + first + i) = v;
        }
        for (uint i = whole + part * LOCAL_SIZE + local_number(); i < count; i += WIRE_GROUPS * LOCAL_SIZE)
            y[element_at(batch, rows, first + i)] = message_float(from, i);
    }
}
