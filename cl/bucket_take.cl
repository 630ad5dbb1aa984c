/* Some of the session's gradients, X, as a message, Y, which is a bucket's: those of chunks WIRE_CHUNK and following of the
 * table IDS, which is optimizer_add's (interface/optimizer.h), as far as they are the bucket's. With 16 bits they are
 * what the session has, and the message's head the factor; else they are multiplied with it. Twin of
 * shaders/bucket_take.comp.
 *
 * A work-item moves 4 elements at a time; what is behind a tensor, up to where the next one begins, is 0. Any LOCAL_SIZE
 * is right. */
#include "common.h"
#include "bucket.h"
#include "optimizer.h"
#include "quad.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void bucket_take(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT_OF(uint, chunks)
    , OUTPUT_OF(uint, y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OF(uint, chunks);
    BEGIN_OUTPUT_OF(uint, y);
    const uint end = batch[WIRE_ACTIVE] != 0 ? batch[WIRE_CHUNK] + batch[WIRE_CHUNKS] : 0;
    const uint most = batch[WIRE_TABLE + MESSAGE_COUNT], to = batch[WIRE_TABLE + MESSAGE_AT];
#if WIRE_HALVES
    if (end != 0 && group_number() == 0 && local_number() < WIRE_ROUND)
        y[to + local_number()] = head_word(local_number(), 0, batch[WIRE_FACTOR]);
#endif
    for (uint chunk = batch[WIRE_CHUNK] + group_number(); chunk < end; chunk += WIRE_GROUPS) {
        const uint entry = OPTIMIZER_TABLE + chunk * CHUNK_WORDS;
        const uint from = chunks[entry + CHUNK_GRADIENT], count = chunks[entry + CHUNK_COUNT];
        const uint first = chunks[entry + CHUNK_AT] - batch[WIRE_AT]; /* below the bucket it is very large */
        const uint padded = (count + OPTIMIZER_GAP - 1) / OPTIMIZER_GAP * OPTIMIZER_GAP;
        for (uint i = 4 * local_number(); i < padded; i += 4 * LOCAL_SIZE) {
            if (first + i >= most) continue;
#if WIRE_HALVES && F16
            uint2 raw = 0;
            if (i + 4 <= count) {
                raw = *(__global const uint2 *)(x + from + i);
            } else {
                for (uint c = 0; i + c < count; c++) ((ushort *)&raw)[c] = ((__global const ushort *)x)[from + i + c];
            }
            *(__global uint2 *)(y + to + WIRE_ROUND + (first + i) / 2) = raw;
#else
            const float factor = as_float(batch[WIRE_FACTOR]);
            float4 v = 0.0f;
            if (i + 4 <= count) {
                v = load_quad(x, from + i);
            } else {
                if (i < count) v.x = LOAD(x, from + i);
                if (i + 1 < count) v.y = LOAD(x, from + i + 1);
                if (i + 2 < count) v.z = LOAD(x, from + i + 2);
            }
            *(__global uint4 *)(y + to + first + i) = as_uint4(v * factor);
#endif
        }
    }
}
