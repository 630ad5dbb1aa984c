/* Dropout as kernels do it (core/interface/random.h is the definition). Twin of cl/dropout.h. The seed and the step are in the
 * batch header, the site is pushed (common.glsl). Include after the declaration of `batch`. */
layout(constant_id = CONST_DROPOUT) const uint DROPOUT = 0;
layout(constant_id = CONST_KEPT) const uint KEPT = 0;
#include "random.h"

#define PHILOX_WORD uint
#define PHILOX_MUL(high, low, a, b) umulExtended(a, b, high, low)

/* What a kept value is multiplied by. */
#define DROPOUT_SCALE (65536.0 / (65536.0 - float(DROPOUT)))

/* What of the counter and the key is the same for all elements: the seed, the step, the site. Loops over rows keep it,
 * because a compiler may load it again after every store or barrier. */
uvec4 dropout_key() { return uvec4(batch[HEADER_SEED], batch[HEADER_SEED + 1], batch[HEADER_STEP], site); }

/* The random words of the eight columns around `column`. */
uvec4 dropout_words_keyed(const uvec4 key, const uint row, const uint column)
{
    uint c0 = row, c1 = column / 8, c2 = key.w, c3 = key.z, k0 = key.x, k1 = key.y;
    PHILOX(c0, c1, c2, c3, k0, k1)
    return uvec4(c0, c1, c2, c3);
}

uvec4 dropout_words(const uint row, const uint column) { return dropout_words_keyed(dropout_key(), row, column); }

/* The factors of two columns in one word. */
vec2 dropout_pair(const uint word)
{
    return vec2((word & 0xffffu) < DROPOUT ? 0.0 : DROPOUT_SCALE, (word >> 16) < DROPOUT ? 0.0 : DROPOUT_SCALE);
}

/* Bit c is set when column c of the eight is kept. */
uint dropout_bits(const uvec4 words)
{
    uint bits = 0;
    for (uint c = 0; c < 4; c++) {
        bits |= (words[c] & 0xffffu) < DROPOUT ? 0u : 1u << (2 * c);
        bits |= (words[c] >> 16) < DROPOUT ? 0u : 2u << (2 * c);
    }
    return bits;
}

/* The factors of four of the eight columns: the lower or the higher ones. */
vec4 dropout_half(const uvec4 words, const bool high)
{
    return vec4(dropout_pair(high ? words.z : words.x), dropout_pair(high ? words.w : words.y));
}

/* The factors of the columns `column` to `column` + 3, a multiple of 4. */
vec4 dropout_quad(const uint row, const uint column)
{
    return dropout_half(dropout_words(row, column), column % 8 != 0);
}

/* The factor of one element. */
float dropout_factor(const uvec4 key, const uint row, const uint column)
{
    return (dropout_bits(dropout_words_keyed(key, row, column)) >> column % 8 & 1u) != 0 ? DROPOUT_SCALE : 0.0;
}

/* v, the ACCESS columns from `column` on, times their factors. */
void dropout_keyed(inout float v[VECTOR], const uvec4 key, const uint row, const uint column)
{
    const uvec4 words = dropout_words_keyed(key, row, column);
    if (ALIGNED == 0) {
        v[0] *= (dropout_bits(words) >> column % 8 & 1u) != 0 ? DROPOUT_SCALE : 0.0;
    } else {
        const uint first = VECTOR == 4 && column % 8 != 0 ? 2 : 0;
        UNROLL for (uint c = 0; c < VECTOR / 2; c++)
        {
            const vec2 factor = dropout_pair(words[first + c]);
            v[2 * c] *= factor.x;
            v[2 * c + 1] *= factor.y;
        }
    }
}

void dropout_access(inout float v[VECTOR], const uint row, const uint column)
{
    dropout_keyed(v, dropout_key(), row, column);
}
