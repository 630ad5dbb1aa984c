/* What attention's kernels on cooperative matrices share: the shape of a step, how tiles come into shared memory,
 * dropout's bits.
 *
 * A tile in shared memory keeps its rows of HEAD_DIM channels as they lie in memory, 16 bytes further apart: so eight
 * rows of a matrix, which a subgroup loads together, begin in different banks. A subgroup owns BLOCKS times MATRIX_M
 * rows of the group's tile of scores, so all that concerns a row stays in it. */
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"

layout(constant_id = CONST_HEADS) const uint HEADS = 1;
layout(constant_id = CONST_KEY_HEADS) const uint KEY_HEADS = 0;
#include "heads.h"
layout(constant_id = CONST_HEAD_DIM) const uint HEAD_DIM = 64;
layout(constant_id = CONST_QKV_INTERLEAVED) const uint QKV_INTERLEAVED = 0;
layout(constant_id = CONST_SCALE) const uint SCALE = 0x3f800000u;
layout(constant_id = CONST_X_STRIDE) const uint X_STRIDE = 64;
layout(constant_id = CONST_X_OFFSET) const uint X_OFFSET = 0;
layout(constant_id = CONST_W_STRIDE) const uint W_STRIDE = 64;
layout(constant_id = CONST_W_OFFSET) const uint W_OFFSET = 0;
layout(constant_id = CONST_V_STRIDE) const uint V_STRIDE = 64;
layout(constant_id = CONST_V_OFFSET) const uint V_OFFSET = 0;
layout(constant_id = CONST_TILE_M) const uint TILE_M = 64;
layout(constant_id = CONST_TILE_N) const uint TILE_N = 32;
layout(constant_id = CONST_BLOCKS) const uint BLOCKS = 1;
layout(constant_id = CONST_MATRIX_M) const uint MATRIX_M = 16;
layout(constant_id = CONST_MATRIX_N) const uint MATRIX_N = 16;
layout(constant_id = CONST_MATRIX_K) const uint MATRIX_K = 16;
layout(constant_id = CONST_SUBGROUP) const uint SUBGROUP = 32;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_W, w);
INPUT(SLOT_V, v);
OUTPUT(SLOT_Y, y);

#include "dropout.glsl"

/* exp(x) is 2^(x log2 e): the scores are scaled once for both. */
#define LOG2E 1.44269504
#define LN2 0.693147181

#define MATRIX_A coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>
#define MATRIX_B coopmat<float16_t, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>
#define MATRIX_C coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#define MATRIX_Y coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#define BY_ROWS gl_CooperativeMatrixLayoutRowMajor
#define BY_COLUMNS gl_CooperativeMatrixLayoutColumnMajor

/* Matrices along the channels, as they are summed over and as they are columns of a result. */
#define DEEP (HEAD_DIM / MATRIX_K)
#define WIDE (HEAD_DIM / MATRIX_N)
#define SUBGROUP_ROWS (BLOCKS * MATRIX_M)

/* 16-byte vectors of a row in memory, and from one row to the next in shared memory. */
#define VECTORS (HEAD_DIM / VECTOR)
#define ROW (VECTORS + 1)

/* ---- loads ----
 * `tile_rows` rows of a tensor from row `row0` of name[at] on: into registers, and from there to tiles[to]. No load has
 * a condition, so that it is on its way early: past row `last`, that row is read again. */
#define ROUNDS(tile_rows) (((tile_rows) * VECTORS + LOCAL_SIZE - 1) / LOCAL_SIZE)

#define FETCH_ROWS(held, name, at, stride, row0, last, tile_rows)                                                      \
    UNROLL for (uint b = 0; b < ROUNDS(tile_rows); b++)                                                                \
    {                                                                                                                  \
        const uint block = local_number() + b * LOCAL_SIZE;                                                            \
        held[b] = name##_wide[(at) / VECTOR + min((row0) + block / VECTORS, last) * ((stride) / VECTOR) +              \
                              block % VECTORS];                                                                        \
    }

#define PLACE_ROWS(to, held, tile_rows)                                                                                \
    UNROLL for (uint b = 0; b < ROUNDS(tile_rows); b++)                                                                \
    {                                                                                                                  \
        const uint block = local_number() + b * LOCAL_SIZE;                                                            \
        if (block < (tile_rows) * VECTORS) tiles[(to) + block / VECTORS * ROW + block % VECTORS] = held[b];            \
    }

/* Of which `count` are there; the others become 0. */
#define PLACE_SOME(to, held, count, tile_rows)                                                                         \
    {                                                                                                                  \
        UNROLL for (uint b = 0; b < ROUNDS(tile_rows); b++)                                                            \
        {                                                                                                              \
            const bool there = (local_number() + b * LOCAL_SIZE) / VECTORS < (count);                                  \
            held[b] = mix(uvec4(0), held[b], bvec4(there));                                                            \
        }                                                                                                              \
        PLACE_ROWS(to, held, tile_rows);                                                                               \
    }

/* `count` rows of tiles[from] to name[at]. */
#define STORE_ROWS(name, at, stride, count, from, tile_rows)                                                           \
    UNROLL for (uint b = 0; b < ROUNDS(tile_rows); b++)                                                                \
    {                                                                                                                  \
        const uint block = local_number() + b * LOCAL_SIZE;                                                            \
        const uint row = block / VECTORS;                                                                              \
        if (row < (count) && row < (tile_rows))                                                                        \
            name##_wide[((at) + row * (stride)) / VECTOR + block % VECTORS] =                                          \
                tiles[(from) + row * ROW + block % VECTORS];                                                           \
    }

/* ---- dropout ----
 * Which weights of a step are kept: a word is for 32 keys of one query, bit k for key k, made once and tested by
 * whoever has one of its elements. First bit k is at k / 2, for odd k 16 higher: so the two halves of a random word are
 * decided together. */
uint keep_of_word(const uint word)
{
    /* x >= DROPOUT in both halves: the lower 15 bits are compared by an addition that carries into bit 15. */
    const uint low = (word & 0x7fff7fffu) + (0x8000u - (DROPOUT & 0x7fffu)) * 0x10001u;
    return (DROPOUT < 0x8000u ? low | word : low & word) & 0x80008000u;
}

/* The bits of eight keys: at 0 to 3 and 16 to 19. */
uint keep_eight(const uvec4 words)
{
    return keep_of_word(words.x) >> 15 | keep_of_word(words.y) >> 14 | keep_of_word(words.z) >> 13 |
           keep_of_word(words.w) >> 12;
}

/* The bits of both halves in turns. */
uint mix_halves(const uint word)
{
    uint x = word, t = (x ^ x >> 8) & 0x0000ff00u;
    x ^= t ^ t << 8;
    t = (x ^ x >> 4) & 0x00f000f0u;
    x ^= t ^ t << 4;
    t = (x ^ x >> 2) & 0x0c0c0c0cu;
    x ^= t ^ t << 2;
    t = (x ^ x >> 1) & 0x22222222u;
    return x ^ t ^ t << 1;
}

/* The word of `count` keys, 32 at most, from `key` on, a multiple of 8; the row is token times HEADS plus head. */
uint keep_word(const uvec4 random, const uint row, const uint key, const uint count)
{
    uint bits = 0;
    UNROLL
    for (uint c = 0; c < count / 8; c++) bits |= keep_eight(dropout_words_keyed(random, row, key + 8 * c)) << 4 * c;
    return mix_halves(bits);
}

/* Whether key k of the word is kept. */
bool is_kept(const uint word, const uint k) { return (word >> k & 1u) != 0; }
