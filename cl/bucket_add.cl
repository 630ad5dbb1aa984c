/* Some of the session's gradients, X, times a factor, into a sum, GRADIENT, or added to it: chunks WIRE_CHUNK and
 * following of the table IDS, which is optimizer_add's (interface/optimizer.h). Twin of shaders/bucket_add.comp.
 *
 * A work-item moves 4 elements at a time. Any LOCAL_SIZE is right. */
#include "common.h"
#include "bucket.h"
#include "optimizer.h"
#include "quad.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void bucket_add(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT_OF(uint, chunks)
    , OUTPUT_OF(float, gradient)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OF(uint, chunks);
    BEGIN_OUTPUT_OF(float, gradient);
    const uint end = batch[WIRE_ACTIVE] != 0 ? batch[WIRE_CHUNK] + batch[WIRE_CHUNKS] : 0;
    const bool adds = batch[WIRE_ADDS] != 0;
    const float factor = as_float(batch[WIRE_FACTOR]);
    for (uint chunk = batch[WIRE_CHUNK] + group_number(); chunk < end; chunk += WIRE_GROUPS) {
        const uint entry = OPTIMIZER_TABLE + chunk * CHUNK_WORDS;
        const uint to = chunks[entry + CHUNK_AT], from = chunks[entry + CHUNK_GRADIENT], count = chunks[entry + CHUNK_COUNT];
        for (uint i = 4 * local_number(); i < count / 4 * 4; i += 4 * LOCAL_SIZE) {
            __global float4 *quad = (__global float4 *)(gradient + to + i);
            const float4 before = adds ? *quad : 0.0f;
            *quad = fma(load_quad(x, from + i), factor, before);
        }
        const uint last = count / 4 * 4 + local_number();
        if (last < count) gradient[to + last] = fma(LOAD(x, from + last), factor, adds ? gradient[to + last] : 0.0f);
    }
}
