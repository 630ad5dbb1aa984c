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
        for (uint i = part * LOCAL_SIZE + local_number(); i < count; i += WIRE_GROUPS * LOCAL_SIZE) {
            const float v = fabs(x[element_at(batch, rows, first + i)]);
            if (as_uint(v) < 0x7f800000u) largest = max(largest, v);
        }
        largest = group_max(largest, scratch);
        if (local_number() == 0) partials[group_number()] = largest;
        LAST_BARRIER;
    }
}
