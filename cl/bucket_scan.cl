/* The largest finite magnitude of a bucket's floats, X, that each message of the table is to have: of a work-group's part,
 * to its place in PARTIALS. Twin of shaders/bucket_scan.comp.
 *
 * Any LOCAL_SIZE is right: the largest is the same in any order. */
#include "common.h"
#include "bucket.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void bucket_scan(BATCH_ARGUMENT
    , INPUT_OF(float, x)
    , INPUT_OF(uint, rows)
    , OUTPUT_OF(float, partials)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(float, x);
    BEGIN_OF(uint, rows);
    BEGIN_OUTPUT_OF(float, partials);
    __local float scratch[REDUCE_WORDS];
    const uint message = group_number() / WIRE_GROUPS, part = group_number() % WIRE_GROUPS;
    if (batch[WIRE_ACTIVE] != 0 && message < batch[WIRE_MESSAGES]) {
        const uint entry = WIRE_TABLE + MESSAGE_WORDS * message;
        const uint first = batch[entry + MESSAGE_FIRST], count = batch[entry + MESSAGE_COUNT];
        float largest = 0.0f;
        for (uint i = 4 * (part * LOCAL_SIZE + local_number()); i < count; i += 4 * WIRE_GROUPS * LOCAL_SIZE) {
            float4 v = 0.0f;
            if (batch[WIRE_ROW] == 0 && i + 4 <= count) {
                v = fabs(*(__global const float4 *)(x + batch[WIRE_AT] + first + i));
            } else {
                v.x = fabs(x[element_at(batch, rows, first + i)]);
                if (i + 1 < count) v.y = fabs(x[element_at(batch, rows, first + i + 1)]);
                if (i + 2 < count) v.z = fabs(x[element_at(batch, rows, first + i + 2)]);
                if (i + 3 < count) v.w = fabs(x[element_at(batch, rows, first + i + 3)]);
            }
            if (as_uint(v.x) < 0x7f800000u) largest = max(largest, v.x);
            if (as_uint(v.y) < 0x7f800000u) largest = max(largest, v.y);
            if (as_uint(v.z) < 0x7f800000u) largest = max(largest, v.z);
            if (as_uint(v.w) < 0x7f800000u) largest = max(largest, v.w);
        }
        largest = group_max(largest, scratch);
        if (local_number() == 0) partials[group_number()] = largest;
        LAST_BARRIER;
    }
}
