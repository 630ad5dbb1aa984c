/* Ceilings of memory: reads, writes or copies, and computes next to nothing. Twin of shaders/roof_memory.comp.
 *
 * A work-item moves THREAD_M times N words of 32 bits in each turn, all loaded before the first is stored. LOCAL_SIZE
 * and THREAD_M are what is varied. BATCHED is for processors, which run work-items one after the other: each one's words
 * are neighbours, and a barrier keeps the group together from turn to turn, without which each work-item would walk
 * a thin strip of all chunks. */
#include "common.h"
#include "roof.h"

#ifndef FORM
#define FORM ROOF_COPY
#endif
#ifndef N
#define N 1
#endif
#ifndef THREAD_M
#define THREAD_M 1
#endif
#ifndef BATCHED
#define BATCHED 0
#endif

#if BATCHED
#define BEGIN_STRIDE THREAD_M
#define ITEM_STRIDE 1
#else
#define BEGIN_STRIDE 1
#define ITEM_STRIDE LOCAL_SIZE
#endif

#if N == 4
typedef uint4 access;
#define AS_FLOATS as_float4
#define AS_WORDS as_uint4
#define WORDS_SUM(v) (v.x + v.y + v.z + v.w)
#define WORDS_MADE(i) (access)(made(i), made((i) + 1), made((i) + 2), made((i) + 3))
#elif N == 2
typedef uint2 access;
#define AS_FLOATS as_float2
#define AS_WORDS as_uint2
#define WORDS_SUM(v) (v.x + v.y)
#define WORDS_MADE(i) (access)(made(i), made((i) + 1))
#else
typedef uint access;
#define AS_FLOATS as_float
#define AS_WORDS as_uint
#define WORDS_SUM(v) (v)
#define WORDS_MADE(i) made(i)
#endif
#define made(i) ((ROOF_MIX(ROOF_SCATTER(i)) & mask) | bits)

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void roof_memory(BATCH_ARGUMENT
#if FORM != ROOF_WRITE
    , INPUT_OF(uint, x)
#endif
#if FORM == ROOF_TRIAD
    , INPUT_OF(uint, w)
#endif
    , OUTPUT_OF(uint, y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OUTPUT_OF(uint, y);
#if FORM != ROOF_WRITE
    BEGIN_OF(uint, x);
    __global const access *from = (__global const access *)x;
#endif
#if FORM == ROOF_TRIAD
    BEGIN_OF(uint, w);
    __global const access *second = (__global const access *)w;
#endif
#if FORM == ROOF_READ
    __local uint scratch[LOCAL_SIZE + 8];
    access sum = 0;
#else
    __global access *to = (__global access *)y;
#endif
    const uint group = group_number();
    if (group < batch[ROOF_GROUPS]) {
        const uint turns = batch[ROOF_TURNS], chunks = batch[ROOF_CHUNKS], own = batch[ROOF_OWN];
        const uint step = batch[ROOF_STEP];
#if FORM == ROOF_WRITE
        const uint salt = batch[ROOF_SALT], mask = batch[ROOF_MASK], bits = batch[ROOF_BITS];
#endif
        uint at = group * batch[ROOF_FIRST] % chunks;
        for (uint turn = 0; turn < turns; turn++) {
            const uint first = (group * own + at) * (LOCAL_SIZE * THREAD_M) + local_number() * BEGIN_STRIDE;
#if FORM == ROOF_READ
            access v[THREAD_M];
            UNROLL for (uint i = 0; i < THREAD_M; i++) v[i] = from[first + i * ITEM_STRIDE];
            UNROLL for (uint i = 0; i < THREAD_M; i++) sum += v[i];
#elif FORM == ROOF_WRITE
            UNROLL for (uint i = 0; i < THREAD_M; i++)
            {
                const uint word = (first + i * ITEM_STRIDE) * N + salt;
                to[first + i * ITEM_STRIDE] = WORDS_MADE(word);
            }
#elif FORM == ROOF_COPY
            access v[THREAD_M];
            UNROLL for (uint i = 0; i < THREAD_M; i++) v[i] = from[first + i * ITEM_STRIDE];
            UNROLL for (uint i = 0; i < THREAD_M; i++) to[first + i * ITEM_STRIDE] = v[i];
#else
            access v[THREAD_M], h[THREAD_M];
            UNROLL for (uint i = 0; i < THREAD_M; i++)
            {
                v[i] = from[first + i * ITEM_STRIDE];
                h[i] = second[first + i * ITEM_STRIDE];
            }
            UNROLL for (uint i = 0; i < THREAD_M; i++)
                to[first + i * ITEM_STRIDE] = AS_WORDS(AS_FLOATS(v[i]) + 0.5f * AS_FLOATS(h[i]));
#endif
            at += step;
            if (at >= chunks) at -= chunks;
#if BATCHED
            barrier(CLK_LOCAL_MEM_FENCE);
#endif
        }
#if FORM == ROOF_READ
        const uint l = local_number();
        scratch[l] = WORDS_SUM(sum);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < 8) {
            uint part = 0;
            for (uint i = l; i < LOCAL_SIZE; i += 8) part += scratch[i];
            scratch[LOCAL_SIZE + l] = part;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l == 0) {
            uint all = 0;
            for (uint i = 0; i < 8; i++) all += scratch[LOCAL_SIZE + i];
            y[group] = all;
        }
        LAST_BARRIER;
#endif
    }
}
