#version 450
#extension GL_GOOGLE_include_directive : require
/* Y[m] = the sum of the rows of X whose token asks for row m of a table, in ascending order of the tokens: the gradient
 * of an embedding table, or of its M rows that come after Y_OFFSET elements. TILE_M neighbouring rows of the table per
 * work-group; one that nobody asks for becomes 0. RESIDUAL adds what other readers of the table gave. COLUMN_SUMS, for
 * tables so small that each of their rows has a large share of the tokens: a work-group sums one part of the tokens, and
 * the sums go to SUM [part][M * N] in float. Twin of cl/scatter.cl.
 *
 * The group looks at all ids, WINDOW at a time, and marks each that asks for one of its rows by a bit in shared memory;
 * bits of `some` tell which words of these have any. Then all work-items walk through the bits in the ids' order,
 * together, and add the rows, AT_ONCE of them on their way. Most rows of a large table have no match, and cost the look
 * alone, which several rows share.
 *
 * LOCAL_SIZE: N / VECTOR rounded up to a power of two, from 128 (because of the ids) to 256. Any power of two is right.
 */
#define REDUCE /* for row.glsl, which has sums of a row, too */
#include "common.glsl"

layout(constant_id = CONST_M) const uint M = 1;
layout(constant_id = CONST_TILE_M) const uint TILE_M = 1;
layout(constant_id = CONST_Y_OFFSET) const uint Y_OFFSET = 0;
layout(constant_id = CONST_WORD) const uint WORD = 0;
layout(constant_id = CONST_POSITION) const uint POSITION = 0;
layout(constant_id = CONST_TYPE) const uint TYPE = 0;
layout(constant_id = CONST_RESIDUAL) const uint RESIDUAL = 0;
layout(constant_id = CONST_COLUMN_SUMS) const uint COLUMN_SUMS = 0;
layout(constant_id = CONST_PART_ROWS) const uint PART_ROWS = 1;
#include "row.glsl"

#define WINDOW 16384
#define WORDS (WINDOW / 32)
#define LOOKS 8 /* ids of a work-item on their way */
#define AT_ONCE 4

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_RESIDUAL, residual);
INPUT_OF(SLOT_IDS, uint, ids);
INPUT_OF(SLOT_POSITIONS, uint, positions);
INPUT_OF(SLOT_TYPES, uint, types);
OUTPUT(SLOT_Y, y);
OUTPUT_OF(SLOT_SUM, float, sum);

uint ASKED(const uint token)
{
    if (WORD != 0) return ids[token];
    if (POSITION != 0) return positions[token];
    if (TYPE != 0) return types[token];
    return token;
}

uint lowest_bit(const uint bits) { return uint(findLSB(bits)); }

/* Adds the rows of the last `count` tokens, each to the table's row that it asks for; `all`: they are AT_ONCE. */
#define ADD_TOKENS(all)                                                                                                \
    {                                                                                                                  \
        raw_access raw_[AT_ONCE][STEPS];                                                                               \
        uint to_[AT_ONCE];                                                                                             \
        UNROLL for (uint q = 0; q < AT_ONCE; q++)                                                                      \
        {                                                                                                              \
            if ((all) || q + count >= AT_ONCE) {                                                                       \
                to_[q] = TILE_M > 1 ? ASKED(tokens[q]) - lowest : 0;                                                   \
                UNROLL for (uint i = 0; i < STEPS; i++) FETCH_ACCESS(raw_[q][i], x, tokens[q] * N + column_inside(i)); \
            }                                                                                                          \
        }                                                                                                              \
        UNROLL for (uint q = 0; q < AT_ONCE; q++)                                                                      \
        {                                                                                                              \
            UNROLL for (uint m = 0; m < TILE_M; m++)                                                                   \
            {                                                                                                          \
                if (((all) || q + count >= AT_ONCE) && to_[q] == m) {                                                  \
                    UNROLL for (uint i = 0; i < STEPS; i++)                                                            \
                    {                                                                                                  \
                        float loaded_[VECTOR];                                                                         \
                        UNPACK_ACCESS(raw_[q][i], loaded_);                                                            \
                        UNROLL for (uint c = 0; c < ACCESS; c++) sums[m][i][c] += loaded_[c];                          \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

shared uint found[WORDS], some[WORDS / 32];

void main()
{
    const uint rows = batch[ROWS], l = local_number(), tiles = (M + TILE_M - 1) / TILE_M;
    const uint parts = COLUMN_SUMS != 0 ? (rows + PART_ROWS - 1) / PART_ROWS : min(rows, 1);
    if (group_number() < tiles * parts) {
        const uint asked = group_number() % tiles * TILE_M, part = group_number() / tiles;
        const uint lowest = asked + Y_OFFSET / N, own = min(TILE_M, M - asked);
        const uint first = COLUMN_SUMS != 0 ? part * PART_ROWS : 0;
        const uint end = COLUMN_SUMS != 0 ? min(first + PART_ROWS, rows) : rows;
        float sums[TILE_M][STEPS][VECTOR];
        UNROLL for (uint m = 0; m < TILE_M; m++)
        {
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++) sums[m][i][c] = 0.0;
            }
        }
        uint tokens[AT_ONCE], count = 0; /* the last `count` of them are not yet added */
        UNROLL for (uint q = 0; q < AT_ONCE; q++) tokens[q] = 0;
        for (uint window = first; window < end; window += WINDOW) {
            const uint looked = min(WINDOW, end - window), words = (looked + 31) / 32;
            for (uint w = l; w < words; w += LOCAL_SIZE) found[w] = 0;
            for (uint w = l; w < WORDS / 32; w += LOCAL_SIZE) some[w] = 0;
            barrier();
            for (uint t = l; t < looked; t += LOOKS * LOCAL_SIZE) {
                uint row[LOOKS];
                UNROLL for (uint k = 0; k < LOOKS; k++)
                    row[k] = ASKED(window + min(t + k * LOCAL_SIZE, looked - 1)) - lowest; /* one before wraps around */
                UNROLL for (uint k = 0; k < LOOKS; k++)
                {
                    const uint at = t + k * LOCAL_SIZE;
                    if (row[k] < own && at < looked) {
                        atomicOr(found[at / 32], 1u << at % 32);
                        atomicOr(some[at / 1024], 1u << at / 32 % 32);
                    }
                }
            }
            barrier();
            for (uint s = 0; s * 32 < words; s++) {
                for (uint left = some[s]; left != 0; left &= left - 1) {
                    const uint word = s * 32 + lowest_bit(left);
                    for (uint bits = found[word]; bits != 0; bits &= bits - 1) {
                        UNROLL for (uint q = 0; q + 1 < AT_ONCE; q++) tokens[q] = tokens[q + 1];
                        tokens[AT_ONCE - 1] = window + word * 32 + lowest_bit(bits);
                        if (++count == AT_ONCE) {
                            ADD_TOKENS(true);
                            count = 0;
                        }
                    }
                }
            }
            barrier(); /* the bits may be used again */
        }
        if (count > 0) {
            ADD_TOKENS(false);
        }
        UNROLL for (uint m = 0; m < TILE_M; m++)
        {
            if (m < own) {
                if (COLUMN_SUMS != 0) {
                    UNROLL for (uint i = 0; i < STEPS; i++)
                    {
                        UNROLL for (uint c = 0; c < ACCESS; c++)
                        {
                            if (column_of(i) < N) sum[(part * M + asked + m) * N + column_of(i) + c] = sums[m][i][c];
                        }
                    }
                } else {
                    UNROLL for (uint i = 0; i < STEPS; i++)
                    {
                        if (RESIDUAL != 0) {
                            float loaded[VECTOR];
                            LOAD_ACCESS(residual, (asked + m) * N + column_inside(i), loaded);
                            UNROLL for (uint c = 0; c < ACCESS; c++) sums[m][i][c] += loaded[c];
                        }
                    }
                    UNROLL for (uint i = 0; i < STEPS; i++)
                    {
                        if (in_row(i)) {
                            STORE_ACCESS(y, (asked + m) * N + column_of(i), sums[m][i]);
                        }
                    }
                }
            }
        }
    }
}
