/* Adds the gradients of all tensors to what is accumulated, GRADIENT, and tells the sums of its squares: a work-group has
 * a chunk, whose sum is the first of two in its place in PARTIALS. FORM OPTIMIZER_DIRECT: nothing is accumulated, the
 * sums are of the gradients themselves. Twin of shaders/optimizer_add.comp.
 *
 * A work-item moves 4 elements at a time, LOCAL_SIZE times 4 after the ones before, so that the order of a sum follows
 * from LOCAL_SIZE. Any power of two is right. */
#include "common.h"
#include "optimizer.h"
#include "quad.h"

#define AT_ONCE 4 /* accesses on their way, where gradients are the session's */

#ifndef FORM
#define FORM 0
#endif

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void optimizer_add(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT_OF(uint, chunks)
#if FORM != OPTIMIZER_DIRECT
    , OUTPUT_OF(float, gradient)
#endif
    , OUTPUT_OF(float, partials)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OF(uint, chunks);
#if FORM != OPTIMIZER_DIRECT
    BEGIN_OUTPUT_OF(float, gradient);
#endif
    BEGIN_OUTPUT_OF(float, partials);
    __local float scratch[REDUCE_WORDS];
    const uint chunk = group_number();
    if (batch[OPTIMIZER_ACTIVE] != 0 && chunk < chunks[0]) {
        const uint entry = OPTIMIZER_TABLE + chunk * CHUNK_WORDS;
        const uint to = chunks[entry + CHUNK_AT], from = chunks[entry + CHUNK_GRADIENT];
        const uint count = chunks[entry + CHUNK_COUNT], mode = batch[OPTIMIZER_MODE];
        const float factor = as_float(batch[OPTIMIZER_FACTOR]);
        const uint whole = count / 4 * 4, stride = 4 * LOCAL_SIZE;
        float4 squares = 0.0f;
#if FORM == OPTIMIZER_DIRECT
        for (uint i = 4 * local_number(); i < whole; i += AT_ONCE * stride) {
            float4 held[AT_ONCE];
            UNROLL for (uint k = 0; k < AT_ONCE; k++) held[k] = load_quad(x, from + min(i + k * stride, whole - 4));
            UNROLL for (uint k = 0; k < AT_ONCE; k++)
            {
                const float4 g = held[k] * factor;
                squares = i + k * stride < whole ? fma(g, g, squares) : squares;
            }
        }
#else
        for (uint i = 4 * local_number(); i < whole; i += stride) {
            __global float4 *quad = (__global float4 *)(gradient + to + i);
            float4 g = mode != OPTIMIZER_SET ? *quad : 0.0f;
            if (mode != OPTIMIZER_KEEP) {
                g = fma(load_quad(x, from + i), factor, g);
                *quad = g;
            }
            squares = fma(g, g, squares);
        }
#endif
        const uint last = whole + local_number();
        if (last < count) {
#if FORM == OPTIMIZER_DIRECT
            const float g = LOAD(x, from + last) * factor;
#else
            float g = mode != OPTIMIZER_SET ? gradient[to + last] : 0.0f;
            if (mode != OPTIMIZER_KEEP) {
                g = fma(LOAD(x, from + last), factor, g);
                gradient[to + last] = g;
            }
#endif
            squares.x = fma(g, g, squares.x);
        }
        const float sum = group_sum((squares.x + squares.y) + (squares.z + squares.w), scratch);
        if (local_number() == 0) {
            partials[2 * chunk] = sum;
            partials[2 * chunk + 1] = 0.0f;
        }
        LAST_BARRIER;
    }
}
