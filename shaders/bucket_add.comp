#version 450
#extension GL_GOOGLE_include_directive : require
/* Some of the session's gradients, X, times a factor, into a sum, GRADIENT, or added to it: chunks WIRE_CHUNK and
 * following of the table IDS, which is optimizer_add's (interface/optimizer.h). Twin of cl/bucket_add.cl.
 *
 * An invocation moves 4 elements at a time. Any LOCAL_SIZE is right. */
#include "common.glsl"
#include "optimizer.h"
#include "wire.h"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
layout(set = 0, binding = SLOT_X) restrict readonly buffer x_quadruples { uvec2 x_halves[]; };
INPUT_OF(SLOT_IDS, uint, chunks);
layout(set = 0, binding = SLOT_GRADIENT) restrict buffer gradient_elements { float gradient[]; };
layout(set = 0, binding = SLOT_GRADIENT) restrict buffer gradient_vectors { vec4 gradient_quads[]; };

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
    const uint end = batch[WIRE_ACTIVE] != 0 ? batch[WIRE_CHUNK] + batch[WIRE_CHUNKS] : 0;
    const bool adds = batch[WIRE_ADDS] != 0;
    const float factor = uintBitsToFloat(batch[WIRE_FACTOR]);
    for (uint chunk = batch[WIRE_CHUNK] + group_number(); chunk < end; chunk += WIRE_GROUPS) {
        const uint entry = OPTIMIZER_TABLE + chunk * CHUNK_WORDS;
        const uint to = chunks[entry + CHUNK_AT], from = chunks[entry + CHUNK_GRADIENT],
                   count = chunks[entry + CHUNK_COUNT];
        for (uint i = 4 * local_number(); i < count / 4 * 4; i += 4 * LOCAL_SIZE) {
            const uint quad = (to + i) / 4;
            vec4 before = vec4(0.0);
            if (adds) before = gradient_quads[quad];
            gradient_quads[quad] = fma(load_quad(from + i), vec4(factor), before);
        }
        const uint last = count / 4 * 4 + local_number();
        if (last < count) {
            float before = 0.0;
            if (adds) before = gradient[to + last];
            gradient[to + last] = fma(LOAD(x, from + last), factor, before);
        }
    }
}
