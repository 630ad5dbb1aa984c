/* The sums of all processes' parts of a bucket's floats, in the order of the batch buffer's operations: parts are this
 * device's, GRADIENT, where the sums go, messages, X, and floats beside them. Twin of shaders/bucket_sum.comp.
 *
 * What waits to be added is in registers: the last one in held[0]. Any LOCAL_SIZE is right. */
#include "common.h"
#include "bucket.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void bucket_sum(BATCH_ARGUMENT
    , INPUT_OF(uint, x)
    , INPUT_OF(uint, rows)
    , OUTPUT_OF(float, gradient)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(uint, x);
    BEGIN_OF(uint, rows);
    BEGIN_OUTPUT_OF(float, gradient);
    const uint count = batch[WIRE_ACTIVE] != 0 ? batch[WIRE_SUM_COUNT] : 0, operations = batch[WIRE_OPERATIONS];
    __global const uint *list = batch + batch[WIRE_OPERATIONS_AT];
    for (uint i = group_number() * LOCAL_SIZE + local_number(); i < count; i += WIRE_GROUPS * LOCAL_SIZE) {
        const uint at = element_at(batch, rows, batch[WIRE_SUM_FIRST] + i);
        float held[WIRE_DEPTH];
        UNROLL for (uint c = 0; c < WIRE_DEPTH; c++) held[c] = 0.0f;
        for (uint o = 0; o < operations; o++) {
            const uint kind = list[OPERATION_WORDS * o];
            __global const uint *from = x + list[OPERATION_WORDS * o + 1];
            if (kind == OPERATION_ADD) {
                held[0] = held[1] + held[0];
                UNROLL for (uint c = 1; c + 1 < WIRE_DEPTH; c++) held[c] = held[c + 1];
                continue;
            }
            UNROLL for (uint c = WIRE_DEPTH - 1; c > 0; c--) held[c] = held[c - 1];
            held[0] = kind == OPERATION_OWN ? gradient[at] : kind == OPERATION_MESSAGE ? message_float(from, i) : as_float(from[i]);
        }
        gradient[at] = held[0];
    }
}
