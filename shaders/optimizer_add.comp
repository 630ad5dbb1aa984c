#version 450
#extension GL_GOOGLE_include_directive : require
/* Adds the gradients of all tensors to what is accumulated, GRADIENT, and tells the sums of its squares: a work-group
 * has a chunk, whose sum is the first of two in its place in PARTIALS. FORM OPTIMIZER_DIRECT: nothing is accumulated, the
 * sums are of the gradients themselves. Twin of cl/optimizer_add.cl.
 *
 * A work-item moves 4 elements at a time, LOCAL_SIZE times 4 after the ones before, so that the order of a sum follows
 * from LOCAL_SIZE. Any power of two is right. */
#define REDUCE
#include "common.glsl"
#include "optimizer.h"

#define AT_ONCE 4 /* accesses on their way, where gradients are the session's */

layout(constant_id = CONST_FORM) const uint FORM = 0;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
layout(set = 0, binding = SLOT_X) restrict readonly buffer x_quadruples { uvec2 x_halves[]; };
INPUT_OF(SLOT_IDS, uint, chunks);
layout(set = 0, binding = SLOT_GRADIENT) restrict buffer gradient_elements { float gradient[]; };
layout(set = 0, binding = SLOT_GRADIENT) restrict buffer gradient_vectors { vec4 gradient_quads[]; };
OUTPUT_OF(SLOT_PARTIALS, float, partials);

/* Four elements; `at` is a multiple of 4. */
vec4 load_quad(const uint at)
{
#if F16
    const uvec2 raw = x_halves[at / 4];
    return vec4(unpack_pair(raw.x), unpack_pair(raw.y));
#else
    return uintBitsToFloat(x_wide[at / 4]);
#endif
}

void main()
{
    const uint chunk = group_number();
    if (batch[OPTIMIZER_ACTIVE] != 0 && chunk < chunks[0]) {
        const uint entry = OPTIMIZER_TABLE + chunk * CHUNK_WORDS;
        const uint to = chunks[entry + CHUNK_AT], from = chunks[entry + CHUNK_GRADIENT];
        const uint count = chunks[entry + CHUNK_COUNT], mode = batch[OPTIMIZER_MODE];
        const float factor = uintBitsToFloat(batch[OPTIMIZER_FACTOR]);
        const uint whole = count / 4 * 4, stride = 4 * LOCAL_SIZE;
        vec4 squares = vec4(0.0);
        for (uint i = 4 * local_number(); FORM == OPTIMIZER_DIRECT && i < whole; i += AT_ONCE * stride) {
            vec4 held[AT_ONCE];
            UNROLL for (uint k = 0; k < AT_ONCE; k++) held[k] = load_quad(from + min(i + k * stride, whole - 4));
            UNROLL for (uint k = 0; k < AT_ONCE; k++)
            {
                const vec4 g = held[k] * factor;
                squares = i + k * stride < whole ? fma(g, g, squares) : squares;
            }
        }
        for (uint i = 4 * local_number(); FORM != OPTIMIZER_DIRECT && i < whole; i += stride) {
            const uint quad = (to + i) / 4;
            vec4 g = vec4(0.0);
            if (mode != OPTIMIZER_SET) g = gradient_quads[quad];
            if (mode != OPTIMIZER_KEEP) {
                g = fma(load_quad(from + i), vec4(factor), g);
                gradient_quads[quad] = g;
            }
            squares = fma(g, g, squares);
        }
        const uint last = whole + local_number();
        if (last < count) {
            float g = 0.0;
            if (FORM == OPTIMIZER_DIRECT) {
                g = LOAD(x, from + last) * factor;
            } else {
                if (mode != OPTIMIZER_SET) g = gradient[to + last];
                if (mode != OPTIMIZER_KEEP) {
                    g = fma(LOAD(x, from + last), factor, g);
                    gradient[to + last] = g;
                }
            }
            squares.x = fma(g, g, squares.x);
        }
        const float sum = group_sum((squares.x + squares.y) + (squares.z + squares.w));
        if (local_number() == 0) {
            partials[2 * chunk] = sum;
            partials[2 * chunk + 1] = 0.0;
        }
    }
}
