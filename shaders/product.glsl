/* How the operands of products come into shared memory and their results out: what gemm, bgemm and attention share.
 * Twin of cl/product.h.
 *
 * A tile lies in shared memory k-major and in f32: a quad (vec4) holds four consecutive rows of the operand at one k.
 * So the inner loop is vector loads and fma alone, and every output is one work-item's chain of fma over ascending k:
 * the same bits whatever the tile. Arrays are globals, because a function's inout array is a copy to some compilers. */
#include "common.glsl"

/* Four elements: what a work-item holds of a row of the output. 8 bytes where elements have 16 bits, else 16. */
#if F16
#define QUADS_OF(slot, name, access)                                                                                   \
    layout(set = 0, binding = slot) restrict access buffer name##_pairs { uvec2 name##_quads[]; }
#define LOAD_QUAD(name, at) unpack_quad(name##_quads[(at) / 4])
#define STORE_QUAD(name, at, v) name##_quads[(at) / 4] = pack_quad(v)

vec4 unpack_quad(const uvec2 raw) { return vec4(unpack_pair(raw.x), unpack_pair(raw.y)); }
uvec2 pack_quad(const vec4 v) { return uvec2(pack_pair(v.xy), pack_pair(v.zw)); }

/* Eight elements, v[0] and v[1]; `second`: whether there is v[1]. With 16-bit floats that is one access and always. */
#define LOAD_EIGHT(v, name, at, second)                                                                                \
    {                                                                                                                  \
        const uvec4 eight = name##_wide[(at) / 8];                                                                     \
        v[0] = unpack_quad(eight.xy);                                                                                  \
        v[1] = unpack_quad(eight.zw);                                                                                  \
    }
#define STORE_EIGHT(name, at, v, second) name##_wide[(at) / 8] = uvec4(pack_quad(v[0]), pack_quad(v[1]))
#else
#define QUADS_OF(slot, name, access)                                                                                   \
    layout(set = 0, binding = slot) restrict access buffer name##_pairs { uvec4 name##_quads[]; }
#define LOAD_QUAD(name, at) uintBitsToFloat(name##_quads[(at) / 4])
#define STORE_QUAD(name, at, v) name##_quads[(at) / 4] = floatBitsToUint(v)
#define LOAD_EIGHT(v, name, at, second)                                                                                \
    {                                                                                                                  \
        v[0] = uintBitsToFloat(name##_wide[(at) / 4]);                                                                 \
        v[1] = vec4(0.0);                                                                                              \
        if (second) v[1] = uintBitsToFloat(name##_wide[(at) / 4 + 1]);                                                 \
    }
#define STORE_EIGHT(name, at, v, second)                                                                               \
    {                                                                                                                  \
        name##_wide[(at) / 4] = floatBitsToUint(v[0]);                                                                 \
        if (second) name##_wide[(at) / 4 + 1] = floatBitsToUint(v[1]);                                                 \
    }
#endif

/* v = the same where `at` may be anything: the elements `column`, `column` + 1, ... of a row of `end`. */
#define LOAD_SOME(v, name, at, column, end)                                                                            \
    {                                                                                                                  \
        v = vec4(0.0);                                                                                                 \
        if ((column) < (end)) v.x = LOAD(name, at);                                                                    \
        if ((column) + 1 < (end)) v.y = LOAD(name, (at) + 1);                                                          \
        if ((column) + 2 < (end)) v.z = LOAD(name, (at) + 2);                                                          \
        if ((column) + 3 < (end)) v.w = LOAD(name, (at) + 3);                                                          \
    }
#define STORE_SOME(name, at, v, column, end)                                                                           \
    {                                                                                                                  \
        const vec4 stored = v;                                                                                         \
        if ((column) < (end)) STORE(name, at, stored.x);                                                               \
        if ((column) + 1 < (end)) STORE(name, (at) + 1, stored.y);                                                     \
        if ((column) + 2 < (end)) STORE(name, (at) + 2, stored.z);                                                     \
        if ((column) + 3 < (end)) STORE(name, (at) + 3, stored.w);                                                     \
    }

/* lavapipe's compiler makes blocks of every load, in which it is quadratic: a CPU loads an unaligned row's elements in a
 * loop. On a GPU they are unrolled: with the loop a product takes 1.07 to 1.54 times as long on an H200. */
layout(constant_id = CONST_CPU) const uint CPU = 0;

/* An element as it lies in its word of a uvec4, and this word. */
#if F16
#define FETCH_ELEMENT(name, at, c) (pack_pair(vec2(LOAD(name, at), 0.0)) << (c) % 2 * 16)
#define FETCHED_ELEMENT(raw, c) raw[(c) / 2]
#else
#define FETCH_ELEMENT(name, at, c) floatBitsToUint(LOAD(name, at))
#define FETCHED_ELEMENT(raw, c) raw[c]
#endif

/* raw = VECTOR elements from `at` on, in the storage type (16 bytes in flight cost four registers). They are the
 * elements `k`, `k` + 1, ... of a row of `end`; what lies beyond, or in no row (`there` false), is 0. `wide`: `at` and
 * `end` are multiples of VECTOR. */
#define FETCH_VECTOR(raw, name, at, there, k, end, wide)                                                               \
    {                                                                                                                  \
        uvec4 fetched = uvec4(0);                                                                                      \
        if (wide) {                                                                                                    \
            if ((there) && (k) < (end)) fetched = name##_wide[(at) / VECTOR];                                          \
        } else if (CPU != 0) {                                                                                         \
            const uint last = (there) ? min((end) - min(k, end), uint(VECTOR)) : 0;                                    \
            ROLLED                                                                                                     \
            for (uint c = 0; c < last; c++) FETCHED_ELEMENT(fetched, c) |= FETCH_ELEMENT(name, (at) + c, c);           \
        } else {                                                                                                       \
            float loaded[VECTOR];                                                                                      \
            UNROLL                                                                                                     \
            for (uint c = 0; c < VECTOR; c++) {                                                                        \
                loaded[c] = 0.0;                                                                                       \
                if ((there) && (k) + c < (end)) loaded[c] = LOAD(name, (at) + c);                                      \
            }                                                                                                          \
            fetched = pack_vector(loaded);                                                                             \
        }                                                                                                              \
        raw = fetched;                                                                                                 \
    }

/* The same of elements of 8 bits, whose words are name[], which stay so in the first words of raw until WIDEN_BYTES makes
 * them VECTOR elements of the storage type. */
#define FETCH_BYTES(raw, name, at, there, k, end, wide)                                                                \
    {                                                                                                                  \
        uvec4 fetched = uvec4(0);                                                                                      \
        if (wide) {                                                                                                    \
            if ((there) && (k) < (end)) {                                                                              \
                fetched.x = name[(at) / 4];                                                                            \
                if (VECTOR == 8) fetched.y = name[(at) / 4 + 1];                                                       \
            }                                                                                                          \
        } else {                                                                                                       \
            const uint last = (there) ? min((end) - min(k, end), uint(VECTOR)) : 0;                                    \
            ROLLED                                                                                                     \
            for (uint c = 0; c < last; c++)                                                                            \
                fetched[c / 4] |= bitfieldExtract(name[((at) + c) / 4], int(((at) + c) % 4 * 8), 8) << c % 4 * 8;      \
        }                                                                                                              \
        raw = fetched;                                                                                                 \
    }
#define WIDEN_BYTES(raw)                                                                                               \
    {                                                                                                                  \
        float widened[VECTOR];                                                                                         \
        UNROLL                                                                                                         \
        for (uint c = 0; c < VECTOR; c++) widened[c] = float(bitfieldExtract(int(raw[c / 4]), int(c % 4 * 8), 8));     \
        raw = pack_vector(widened);                                                                                    \
    }

/* Four rows of VECTOR elements, raw[first] and the next three, become VECTOR quads: tile[at], tile[at + quads], ... */
#define PUT_ROWS(tile, at, quads, raw, first)                                                                          \
    {                                                                                                                  \
        float v0[VECTOR], v1[VECTOR], v2[VECTOR], v3[VECTOR];                                                          \
        unpack_vector(raw[first], v0);                                                                                 \
        unpack_vector(raw[(first) + 1], v1);                                                                           \
        unpack_vector(raw[(first) + 2], v2);                                                                           \
        unpack_vector(raw[(first) + 3], v3);                                                                           \
        UNROLL                                                                                                         \
        for (uint c = 0; c < VECTOR; c++) tile[(at) + c * (quads)] = vec4(v0[c], v1[c], v2[c], v3[c]);                 \
    }

/* VECTOR elements that are k-major in memory already become VECTOR / 4 quads side by side. */
#define PUT_VECTOR(tile, at, raw)                                                                                      \
    {                                                                                                                  \
        float v0[VECTOR];                                                                                              \
        unpack_vector(raw, v0);                                                                                        \
        UNROLL                                                                                                         \
        for (uint c = 0; c < VECTOR / 4; c++)                                                                          \
            tile[(at) + c] = vec4(v0[c * 4], v0[c * 4 + 1], v0[c * 4 + 2], v0[c * 4 + 3]);                             \
    }

/* The same of four consecutive k, raw[first] and the next three, `quads` apart; the second quad of a vector of 16-bit
 * floats lies half of that after the first (tile.glsl: paired). */
#define PUT_VECTORS(tile, at, quads, raw, first)                                                                       \
    {                                                                                                                  \
        UNROLL                                                                                                         \
        for (uint r = 0; r < 4; r++) {                                                                                 \
            float v0[VECTOR];                                                                                          \
            unpack_vector(raw[(first) + r], v0);                                                                       \
            UNROLL                                                                                                     \
            for (uint c = 0; c < VECTOR / 4; c++)                                                                      \
                tile[(at) + r * (quads) + c * ((quads) / 2)] =                                                         \
                    vec4(v0[c * 4], v0[c * 4 + 1], v0[c * 4 + 2], v0[c * 4 + 3]);                                      \
        }                                                                                                              \
    }

/* sum += the product of two tiles in shared memory, in ascending k up to `count`: a work-item's THREAD_M rows, quads
 * that lie THREADS_M apart from a[a_at] on, times `quads` quads of columns that lie THREADS_N apart from b[b_at] on. A
 * k is a_step and b_step quads. `at_once` k follow each other without a branch; the last may lie after `count`: there
 * one factor is 0, the other finite. */
#define MULTIPLY(sum, quads, a, a_at, a_step, b, b_at, b_step, count, at_once)                                         \
    for (uint k0 = 0; k0 < (count); k0 += (at_once)) {                                                                 \
        UNROLL for (uint next = 0; next < (at_once); next++)                                                           \
        {                                                                                                              \
            const uint k = k0 + next;                                                                                  \
            float a_k[THREAD_M];                                                                                       \
            vec4 b_k[quads];                                                                                           \
            UNROLL for (uint i = 0; i < THREAD_M / 4; i++)                                                             \
            {                                                                                                          \
                const vec4 quad = a[(a_at) + k * (a_step) + i * THREADS_M];                                            \
                a_k[i * 4] = quad.x;                                                                                   \
                a_k[i * 4 + 1] = quad.y;                                                                               \
                a_k[i * 4 + 2] = quad.z;                                                                               \
                a_k[i * 4 + 3] = quad.w;                                                                               \
            }                                                                                                          \
            UNROLL for (uint j = 0; j < (quads); j++) b_k[j] = b[(b_at) + k * (b_step) + j * THREADS_N];               \
            UNROLL for (uint i = 0; i < THREAD_M; i++)                                                                 \
            {                                                                                                          \
                UNROLL for (uint j = 0; j < (quads); j++)                                                              \
                    sum[i * (quads) + j] = fma(vec4(a_k[i]), b_k[j], sum[i * (quads) + j]);                            \
            }                                                                                                          \
        }                                                                                                              \
    }
