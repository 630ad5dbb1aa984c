#version 450
#extension GL_GOOGLE_include_directive : require
/* Some of the session's gradients, X, as a message, Y, which is a bucket's: those of chunks WIRE_CHUNK and following of
 * the table IDS, which is optimizer_add's (interface/optimizer.h), as far as they are the bucket's. With 16 bits they
 * are what the session has, and the message's head the factor; else they are multiplied with it. Twin of
 * cl/bucket_take.cl.
 *
 * An invocation moves 4 elements at a time; what is behind a tensor, up to where the next one begins, is 0. Any
 * LOCAL_SIZE is right. */
#include "common.glsl"
#include "optimizer.h"
#include "wire.h"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
layout(set = 0, binding = SLOT_X) restrict readonly buffer x_quadruples { uvec2 x_halves[]; };
INPUT_OF(SLOT_IDS, uint, chunks);
OUTPUT_OF(SLOT_Y, uint, y);
layout(set = 0, binding = SLOT_Y) restrict writeonly buffer y_vectors { uvec4 y_quads[]; };
layout(set = 0, binding = SLOT_Y) restrict writeonly buffer y_pairs { uvec2 y_halves[]; };
#include "wire.glsl"

/* Element `i` of a chunk, 0 behind its last one. */
float element(const uint from, const uint i, const uint count) { return i < count ? LOAD(x, from + i) : 0.0; }

/* Elements i to i + 3; from + i is a multiple of 4. */
vec4 quad(const uint from, const uint i, const uint count)
{
    return vec4(element(from, i, count), element(from, i + 1, count), element(from, i + 2, count),
                element(from, i + 3, count));
}

void main()
{
    const uint end = batch[WIRE_ACTIVE] != 0 ? batch[WIRE_CHUNK] + batch[WIRE_CHUNKS] : 0;
    const uint most = batch[WIRE_TABLE + MESSAGE_COUNT], to = batch[WIRE_TABLE + MESSAGE_AT];
    if (FORM != WIRE_FORM_F32 && end != 0 && group_number() == 0 && local_number() < WIRE_ROUND)
        y[to + local_number()] = head_word(local_number(), 0, batch[WIRE_FACTOR]);
    for (uint chunk = batch[WIRE_CHUNK] + group_number(); chunk < end; chunk += WIRE_GROUPS) {
        const uint entry = OPTIMIZER_TABLE + chunk * CHUNK_WORDS;
        const uint from = chunks[entry + CHUNK_GRADIENT], count = chunks[entry + CHUNK_COUNT];
        const uint first = chunks[entry + CHUNK_AT] - batch[WIRE_AT]; /* below the bucket it is very large */
        const uint padded = (count + OPTIMIZER_GAP - 1) / OPTIMIZER_GAP * OPTIMIZER_GAP;
        for (uint i = 4 * local_number(); i < padded; i += 4 * LOCAL_SIZE) {
            if (first + i >= most) continue;
#if F16
            if (FORM != WIRE_FORM_F32) {
                uvec2 raw;
                if (i + 4 <= count) {
                    raw = x_halves[(from + i) / 4];
                } else {
                    const vec4 v = quad(from, i, count);
                    raw = uvec2(pack_pair(v.xy), pack_pair(v.zw));
                }
                y_halves[(to + WIRE_ROUND) / 2 + (first + i) / 4] = raw;
                continue;
            }
#endif
            y_quads[(to + first + i) / 4] =
                floatBitsToUint(quad(from, i, count) * uintBitsToFloat(batch[WIRE_FACTOR]));
        }
    }
}
