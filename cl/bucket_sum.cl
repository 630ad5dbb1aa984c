/* The sums of all processes' parts of a bucket's floats, in the order of the batch buffer's operations: parts are this
 * device's, GRADIENT, where the sums go, messages, X, and floats beside them. Twin of shaders/bucket_sum.comp.
 *
 * In f16 a work-group's largest finite magnitude of the sums goes to its place in PARTIALS, as bucket_scan's does.
 * What waits to be added is in registers: the last one in held[0]. Two messages that are added, as two processes have
 * it, go 4 elements at a time. Any LOCAL_SIZE is right. */
#include "common.h"
#include "bucket.h"

static inline float larger(const float largest, const float x)
{
    return (as_uint(x) & 0x7fffffffu) < 0x7f800000u ? max(largest, fabs(x)) : largest;
}

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void bucket_sum(BATCH_ARGUMENT
    , INPUT_OF(uint, x)
    , INPUT_OF(uint, rows)
    , OUTPUT_OF(float, gradient)
#if FORM == WIRE_FORM_F16
    , OUTPUT_OF(float, partials)
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(uint, x);
    BEGIN_OF(uint, rows);
    BEGIN_OUTPUT_OF(float, gradient);
#if FORM == WIRE_FORM_F16
    BEGIN_OUTPUT_OF(float, partials);
    __local float scratch[REDUCE_WORDS];
    float largest = 0.0f;
#endif
    const uint count = batch[WIRE_ACTIVE] != 0 ? batch[WIRE_SUM_COUNT] : 0, operations = batch[WIRE_OPERATIONS];
    __global const uint *list = batch + batch[WIRE_OPERATIONS_AT];
    const bool two = operations == 3 && list[0] == OPERATION_MESSAGE && list[OPERATION_WORDS] == OPERATION_MESSAGE;
    const uint quads = two && batch[WIRE_ROW] == 0 ? count / 4 * 4 : 0;
    for (uint i = 4 * (group_number() * LOCAL_SIZE + local_number()); i < quads; i += 4 * WIRE_GROUPS * LOCAL_SIZE) {
        const float4 sum = message_quad(x + list[1], i) + message_quad(x + list[OPERATION_WORDS + 1], i);
        *(__global float4 *)(gradient + batch[WIRE_AT] + batch[WIRE_SUM_FIRST] + i) = sum;
#if FORM == WIRE_FORM_F16
        largest = larger(larger(larger(larger(largest, sum.x), sum.y), sum.z), sum.w);
#endif
    }
    for (uint i = quads + group_number() * LOCAL_SIZE + local_number(); i < count; i += WIRE_GROUPS * LOCAL_SIZE) {
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
#if FORM == WIRE_FORM_F16
        largest = larger(largest, held[0]);
#endif
    }
#if FORM == WIRE_FORM_F16
    if (batch[WIRE_ACTIVE] != 0) {
        largest = group_max(largest, scratch);
        if (local_number() == 0) partials[group_number()] = largest;
        LAST_BARRIER;
    }
#endif
}
