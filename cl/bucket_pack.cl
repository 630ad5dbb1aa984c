/* Floats of a bucket, X, as the messages of the table, in Y. In f16 the largest of each is in PARTIALS, as
 * bucket_scan left it. Twin of shaders/bucket_pack.comp.
 *
 * A work-item writes 4 elements at a time, those behind the last one as 0. Any LOCAL_SIZE is right. */
#include "common.h"
#include "bucket.h"

/* What divides a message whose largest magnitude is this (interface/wire.h). */
static inline int exponent_of(const float largest)
{
    const int bits = (int)(as_uint(largest) >> 23);
    return largest > 0.0f ? max(bits, 1) - 126 - 15 : 0;
}

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void bucket_pack(BATCH_ARGUMENT
    , INPUT_OF(float, x)
    , INPUT_OF(uint, rows)
#if FORM == WIRE_FORM_F16
    , INPUT_OF(float, partials)
#endif
    , OUTPUT_OF(uint, y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(float, x);
    BEGIN_OF(uint, rows);
    BEGIN_OUTPUT_OF(uint, y);
    const uint message = group_number() / WIRE_GROUPS, part = group_number() % WIRE_GROUPS;
#if FORM == WIRE_FORM_F16
    BEGIN_OF(float, partials);
    __local float scratch[REDUCE_WORDS];
#endif
    if (batch[WIRE_ACTIVE] != 0 && message < batch[WIRE_MESSAGES]) {
        const uint entry = WIRE_TABLE + MESSAGE_WORDS * message;
        const uint first = batch[entry + MESSAGE_FIRST], count = batch[entry + MESSAGE_COUNT], to = batch[entry + MESSAGE_AT];
#if FORM == WIRE_FORM_F16
        float largest = 0.0f;
        for (uint i = local_number(); i < WIRE_GROUPS; i += LOCAL_SIZE)
            largest = max(largest, partials[message * WIRE_GROUPS + i]);
        const int exponent = exponent_of(group_max(largest, scratch));
#elif WIRE_HALVES
        const int exponent = 0; /* bf16 has the range */
#endif
#if WIRE_HALVES
        if (part == 0 && local_number() < WIRE_ROUND) 
            y[to + local_number()] = head_word(local_number(), exponent, as_uint(1.0f));
#endif
        for (uint i = 4 * (part * LOCAL_SIZE + local_number()); i < count; i += 4 * WIRE_GROUPS * LOCAL_SIZE) {
            float4 v = 0.0f;
            if (batch[WIRE_ROW] == 0 && i + 4 <= count) {
                v = *(__global const float4 *)(x + batch[WIRE_AT] + first + i);
            } else {
                v.x = x[element_at(batch, rows, first + i)];
                if (i + 1 < count) v.y = x[element_at(batch, rows, first + i + 1)];
                if (i + 2 < count) v.z = x[element_at(batch, rows, first + i + 2)];
                if (i + 3 < count) v.w = x[element_at(batch, rows, first + i + 3)];
            }
#if FORM == WIRE_FORM_F16
            uint2 raw;
            vstore_half_rte(scaled(v.x, -exponent), 0, (half *)&raw);
            vstore_half_rte(scaled(v.y, -exponent), 1, (half *)&raw);
            vstore_half_rte(scaled(v.z, -exponent), 2, (half *)&raw);
            vstore_half_rte(scaled(v.w, -exponent), 3, (half *)&raw);
            *(__global uint2 *)(y + to + WIRE_ROUND + i / 2) = raw;
#elif FORM == WIRE_FORM_BF16
            *(__global uint2 *)(y + to + WIRE_ROUND + i / 2) =
                (uint2)(WIRE_BF16(as_uint(v.x)) | WIRE_BF16(as_uint(v.y)) << 16, WIRE_BF16(as_uint(v.z)) | WIRE_BF16(as_uint(v.w)) << 16);
#else
            *(__global uint4 *)(y + to + i) = as_uint4(v);
#endif
        }
#if FORM == WIRE_FORM_F16
        LAST_BARRIER;
#endif
    }
}
