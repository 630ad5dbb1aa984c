#version 450
#extension GL_GOOGLE_include_directive : require
/* Ceilings of memory: reads, writes or copies, and computes next to nothing. Twin of cl/roof_memory.cl.
 *
 * A work-item moves THREAD_M times N words of 32 bits in each turn, all loaded before the first is stored. LOCAL_SIZE
 * and THREAD_M are what is varied. BATCHED is for processors, which run work-items one after the other: each one's words
 * are neighbours, and a barrier keeps the group together from turn to turn, without which each work-item would walk
 * a thin strip of all chunks. */
#include "common.glsl"
#include "roof.h"

layout(constant_id = CONST_FORM) const uint FORM = ROOF_COPY;
layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_THREAD_M) const uint THREAD_M = 1;
layout(constant_id = CONST_BATCHED) const uint BATCHED = 0;

INPUT_OF(SLOT_BATCH, uint, batch);
layout(set = 0, binding = SLOT_X) restrict readonly buffer x_elements { uint x[]; };
layout(set = 0, binding = SLOT_X) restrict readonly buffer x_vectors { uvec2 x_pairs[]; };
layout(set = 0, binding = SLOT_X) restrict readonly buffer x_quadruples { uvec4 x_quads[]; };
layout(set = 0, binding = SLOT_W) restrict readonly buffer w_elements { uint w[]; };
layout(set = 0, binding = SLOT_W) restrict readonly buffer w_vectors { uvec2 w_pairs[]; };
layout(set = 0, binding = SLOT_W) restrict readonly buffer w_quadruples { uvec4 w_quads[]; };
layout(set = 0, binding = SLOT_Y) restrict writeonly buffer y_elements { uint y[]; };
layout(set = 0, binding = SLOT_Y) restrict writeonly buffer y_vectors { uvec2 y_pairs[]; };
layout(set = 0, binding = SLOT_Y) restrict writeonly buffer y_quadruples { uvec4 y_quads[]; };

const uint BEGIN_STRIDE = BATCHED != 0 ? THREAD_M : 1;
#define ITEM_STRIDE (BATCHED != 0 ? 1 : LOCAL_SIZE)

/* One access of N words; the rest of the four is 0. */
#define FETCH(name, at)                                                                                                \
    (N == 4 ? name##_quads[at] : N == 2 ? uvec4(name##_pairs[at], 0, 0) : uvec4(name[at], 0, 0, 0))
#define STORE_WORDS(at, v)                                                                                             \
    if (N == 4) {                                                                                                      \
        y_quads[at] = v;                                                                                               \
    } else if (N == 2) {                                                                                               \
        y_pairs[at] = (v).xy;                                                                                          \
    } else {                                                                                                           \
        y[at] = (v).x;                                                                                                 \
    }

shared uint scratch[LOCAL_SIZE + 8];

void main()
{
    uvec4 sum = uvec4(0);
    const uint group = group_number();
    if (group < batch[ROOF_GROUPS]) {
        const uint turns = batch[ROOF_TURNS], chunks = batch[ROOF_CHUNKS], own = batch[ROOF_OWN];
        const uint step_ = batch[ROOF_STEP];
        const uint salt = batch[ROOF_SALT], mask = batch[ROOF_MASK], bits = batch[ROOF_BITS];
        uint at = group * batch[ROOF_FIRST] % chunks;
        for (uint turn = 0; turn < turns; turn++) {
            const uint first = (group * own + at) * (LOCAL_SIZE * THREAD_M) + local_number() * BEGIN_STRIDE;
            uvec4 v[THREAD_M], h[THREAD_M];
            if (FORM == ROOF_READ) {
                UNROLL for (uint i = 0; i < THREAD_M; i++) v[i] = FETCH(x, first + i * ITEM_STRIDE);
                UNROLL for (uint i = 0; i < THREAD_M; i++) sum += v[i];
            } else if (FORM == ROOF_WRITE) {
                UNROLL for (uint i = 0; i < THREAD_M; i++)
                {
                    const uint word = (first + i * ITEM_STRIDE) * N + salt;
                    const uvec4 scattered = ROOF_SCATTER(word + uvec4(0, 1, 2, 3));
                    const uvec4 value = (ROOF_MIX(scattered) & mask) | bits;
                    STORE_WORDS(first + i * ITEM_STRIDE, value);
                }
            } else if (FORM == ROOF_COPY) {
                UNROLL for (uint i = 0; i < THREAD_M; i++) v[i] = FETCH(x, first + i * ITEM_STRIDE);
                UNROLL for (uint i = 0; i < THREAD_M; i++) STORE_WORDS(first + i * ITEM_STRIDE, v[i]);
            } else {
                UNROLL for (uint i = 0; i < THREAD_M; i++)
                {
                    v[i] = FETCH(x, first + i * ITEM_STRIDE);
                    h[i] = FETCH(w, first + i * ITEM_STRIDE);
                }
                UNROLL for (uint i = 0; i < THREAD_M; i++)
                {
                    const uvec4 value = floatBitsToUint(uintBitsToFloat(v[i]) + 0.5 * uintBitsToFloat(h[i]));
                    STORE_WORDS(first + i * ITEM_STRIDE, value);
                }
            }
            at += step_;
            if (at >= chunks) at -= chunks;
            if (BATCHED != 0) barrier();
        }
        if (FORM == ROOF_READ) {
            const uint l = local_number();
            scratch[l] = sum.x + sum.y + sum.z + sum.w;
            barrier();
            if (l < 8) {
                uint part = 0;
                for (uint i = l; i < LOCAL_SIZE; i += 8) part += scratch[i];
                scratch[LOCAL_SIZE + l] = part;
            }
            barrier();
            if (l == 0) {
                uint all_ = 0;
                for (uint i = 0; i < 8; i++) all_ += scratch[LOCAL_SIZE + i];
                y[group] = all_;
            }
        }
    }
}
