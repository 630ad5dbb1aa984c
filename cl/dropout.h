/* Dropout as kernels do it (core/interface/random.h is the definition). Twin of shaders/dropout.glsl. A kernel with
 * DROPOUT > 0 has `const uint site` as its last argument; the seed and the step are in the batch header. */
#ifndef DROPOUT
#define DROPOUT 0
#endif
#ifndef KEPT
#define KEPT 0
#endif
#include "random.h"

#define PHILOX_WORD uint
#define PHILOX_MUL(high, low, a, b)                                                                                    \
    high = mul_hi((uint)(a), b);                                                                                       \
    low = (a)*b

/* What a kept value is multiplied by. */
#define DROPOUT_SCALE (65536.0f / (65536.0f - (float)(DROPOUT)))

/* What of the counter and the key is the same for all elements: the seed, the step, the site. Loops over rows keep it,
 * because a compiler may load it again after every store or barrier. */
static inline uint4 dropout_key(__global const uint *batch, const uint site)
{
    return (uint4)(batch[HEADER_SEED], batch[HEADER_SEED + 1], batch[HEADER_STEP], site);
}

/* The random words of the eight columns around `column`. */
static inline uint4 dropout_words_keyed(const uint4 key, const uint row, const uint column)
{
    uint c0 = row, c1 = column / 8, c2 = key.w, c3 = key.z, k0 = key.x, k1 = key.y;
    PHILOX(c0, c1, c2, c3, k0, k1)
    return (uint4)(c0, c1, c2, c3);
}

static inline uint4 dropout_words(__global const uint *batch, const uint site, const uint row, const uint column)
{
    return dropout_words_keyed(dropout_key(batch, site), row, column);
}

/* The factors of two columns in one word. */
static inline float2 dropout_pair(const uint word)
{
    return (float2)((word & 0xffff) < DROPOUT ? 0.0f : DROPOUT_SCALE, (word >> 16) < DROPOUT ? 0.0f : DROPOUT_SCALE);
}

/* v, eight columns that are scaled already, with 0 for those that are dropped. */
static inline void drop_eight(float *v, const uint4 words)
{
    v[0] = (words.x & 0xffff) < DROPOUT ? 0.0f : v[0];
    v[1] = (words.x >> 16) < DROPOUT ? 0.0f : v[1];
    v[2] = (words.y & 0xffff) < DROPOUT ? 0.0f : v[2];
    v[3] = (words.y >> 16) < DROPOUT ? 0.0f : v[3];
    v[4] = (words.z & 0xffff) < DROPOUT ? 0.0f : v[4];
    v[5] = (words.z >> 16) < DROPOUT ? 0.0f : v[5];
    v[6] = (words.w & 0xffff) < DROPOUT ? 0.0f : v[6];
    v[7] = (words.w >> 16) < DROPOUT ? 0.0f : v[7];
}

/* Bit c is set when column c of the eight is kept. */
static inline uint dropout_bits(const uint4 words)
{
    uint bits = 0;
    bits |= (words.x & 0xffff) < DROPOUT ? 0 : 1;
    bits |= (words.x >> 16) < DROPOUT ? 0 : 2;
    bits |= (words.y & 0xffff) < DROPOUT ? 0 : 4;
    bits |= (words.y >> 16) < DROPOUT ? 0 : 8;
    bits |= (words.z & 0xffff) < DROPOUT ? 0 : 16;
    bits |= (words.z >> 16) < DROPOUT ? 0 : 32;
    bits |= (words.w & 0xffff) < DROPOUT ? 0 : 64;
    bits |= (words.w >> 16) < DROPOUT ? 0 : 128;
    return bits;
}

/* The factors of four of the eight columns: the lower or the higher ones. */
static inline float4 dropout_half(const uint4 words, const bool high)
{
    return (float4)(dropout_pair(high ? words.z : words.x), dropout_pair(high ? words.w : words.y));
}

/* The factors of the columns `column` to `column` + 3, a multiple of 4. */
static inline float4 dropout_quad(__global const uint *batch, const uint site, const uint row, const uint column)
{
    return dropout_half(dropout_words(batch, site, row, column), column % 8 != 0);
}

/* v, the ACCESS columns from `column` on, times their factors. */
static inline void dropout_keyed(float *v, const uint4 key, const uint row, const uint column)
{
    const uint4 words = dropout_words_keyed(key, row, column);
#if ACCESS == 1
    v[0] *= (dropout_bits(words) >> column % 8 & 1) ? DROPOUT_SCALE : 0.0f;
#elif ACCESS == 4
    const float4 factor = dropout_half(words, column % 8 != 0);
    v[0] *= factor.x;
    v[1] *= factor.y;
    v[2] *= factor.z;
    v[3] *= factor.w;
#else
    const float2 f0 = dropout_pair(words.x), f1 = dropout_pair(words.y), f2 = dropout_pair(words.z),
                 f3 = dropout_pair(words.w);
    v[0] *= f0.x;
    v[1] *= f0.y;
    v[2] *= f1.x;
    v[3] *= f1.y;
    v[4] *= f2.x;
    v[5] *= f2.y;
    v[6] *= f3.x;
    v[7] *= f3.y;
#endif
}

/* The factor of one element. */
static inline float dropout_factor(const uint4 key, const uint row, const uint column)
{
    return (dropout_bits(dropout_words_keyed(key, row, column)) >> column % 8 & 1) ? DROPOUT_SCALE : 0.0f;
}

static inline void dropout_access(float *v, __global const uint *batch, const uint site, const uint row,
                                  const uint column)
{
    dropout_keyed(v, dropout_key(batch, site), row, column);
}
