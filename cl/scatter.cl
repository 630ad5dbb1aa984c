/* Y[m] = the sum of the rows of X whose token asks for row m of a table, in ascending order of the tokens: the gradient
 * of an embedding table, or of its M rows that come after Y_OFFSET elements. TILE_M neighbouring rows of the table per
 * work-group; one that nobody asks for becomes 0. RESIDUAL adds what other readers of the table gave. COLUMN_SUMS, for
 * tables so small that each of their rows has a large share of the tokens: a work-group sums one part of the tokens, and
 * the sums go to SUM [part][M * N] in float. Twin of shaders/scatter.comp.
 *
 * The group looks at all ids, WINDOW at a time, and marks each that asks for one of its rows by a bit in shared memory;
 * bits of `some` tell which words of these have any. Then all work-items walk through the bits in the ids' order,
 * together, and add the rows, AT_ONCE of them on their way. Most rows of a large table have no match, and cost the look
 * alone, which several rows share.
 *
 * LOCAL_SIZE: N / VECTOR rounded up to a power of two, from 128 (because of the ids) to 256. Any power of two is right.
 */
#include "common.h"

#ifndef M
#define M 1
#endif
#ifndef TILE_M
#define TILE_M 1
#endif
#ifndef Y_OFFSET
#define Y_OFFSET 0
#endif
#ifndef WORD
#define WORD 0
#endif
#ifndef POSITION
#define POSITION 0
#endif
#ifndef TYPE
#define TYPE 0
#endif
#ifndef RESIDUAL
#define RESIDUAL 0
#endif
#ifndef COLUMN_SUMS
#define COLUMN_SUMS 0
#endif
#ifndef PART_ROWS
#define PART_ROWS 1
#endif
#include "row.h"

#define WINDOW 16384
#define WORDS (WINDOW / 32)
#define LOOKS 8 /* ids of a work-item on their way */
#define AT_ONCE 4

#if WORD
#define ASKED(token) ids[token]
#elif POSITION
#define ASKED(token) positions[token]
#elif TYPE
#define ASKED(token) types[token]
#else
#define ASKED(token) (token)
#endif

static inline uint lowest_bit(const uint bits) { return 31 - clz(bits & (0 - bits)); }

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
                        float loaded_[ACCESS];                                                                         \
                        UNPACK_ACCESS(raw_[q][i], loaded_);                                                            \
                        UNROLL for (uint c = 0; c < ACCESS; c++) held[m][i][c] += loaded_[c];                          \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void scatter(BATCH_ARGUMENT
    , INPUT(x)
#if RESIDUAL
    , INPUT(residual)
#endif
#if WORD
    , INPUT_OF(uint, ids)
#endif
#if POSITION
    , INPUT_OF(uint, positions)
#endif
#if TYPE
    , INPUT_OF(uint, types)
#endif
#if COLUMN_SUMS
    , OUTPUT_OF(float, sum)
#else
    , OUTPUT(y)
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
#if RESIDUAL
    BEGIN(residual);
#endif
#if WORD
    BEGIN_OF(uint, ids);
#endif
#if POSITION
    BEGIN_OF(uint, positions);
#endif
#if TYPE
    BEGIN_OF(uint, types);
#endif
#if COLUMN_SUMS
    BEGIN_OUTPUT_OF(float, sum);
#else
    BEGIN_OUTPUT(y);
#endif
    __local uint found[WORDS], some[WORDS / 32];
    const uint rows = batch[ROWS], l = local_number(), tiles = (M + TILE_M - 1) / TILE_M;
    const uint parts = COLUMN_SUMS != 0 ? (rows + PART_ROWS - 1) / PART_ROWS : min(rows, 1u);
    if (group_number() < tiles * parts) {
        const uint asked = group_number() % tiles * TILE_M, part = group_number() / tiles;
        const uint lowest = asked + Y_OFFSET / N, own = min((uint)TILE_M, M - asked);
        const uint first = COLUMN_SUMS != 0 ? part * PART_ROWS : 0;
        const uint end = COLUMN_SUMS != 0 ? min(first + PART_ROWS, rows) : rows;
        float held[TILE_M][STEPS][ACCESS];
        UNROLL for (uint m = 0; m < TILE_M; m++)
        {
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++) held[m][i][c] = 0.0f;
            }
        }
        uint tokens[AT_ONCE], count = 0; /* the last `count` of them are not yet added */
        UNROLL for (uint q = 0; q < AT_ONCE; q++) tokens[q] = 0;
        for (uint window = first; window < end; window += WINDOW) {
            const uint looked = min((uint)WINDOW, end - window), words = (looked + 31) / 32;
            for (uint w = l; w < words; w += LOCAL_SIZE) found[w] = 0;
            for (uint w = l; w < WORDS / 32; w += LOCAL_SIZE) some[w] = 0;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint t = l; t < looked; t += LOOKS * LOCAL_SIZE) {
                uint row[LOOKS];
                UNROLL for (uint k = 0; k < LOOKS; k++)
                    row[k] = ASKED(window + min(t + k * LOCAL_SIZE, looked - 1)) - lowest; /* one before wraps around */
                UNROLL for (uint k = 0; k < LOOKS; k++)
                {
                    const uint at = t + k * LOCAL_SIZE;
                    if (row[k] < own && at < looked) {
                        atomic_or(&found[at / 32], 1u << at % 32);
                        atomic_or(&some[at / 1024], 1u << at / 32 % 32);
                    }
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
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
            barrier(CLK_LOCAL_MEM_FENCE); /* the bits may be used again */
        }
        if (count > 0) {
            ADD_TOKENS(false);
        }
        UNROLL for (uint m = 0; m < TILE_M; m++)
        {
            if (m < own) {
#if COLUMN_SUMS
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    UNROLL for (uint c = 0; c < ACCESS; c++)
                    {
                        if (column_of(i) < N) sum[(part * M + asked + m) * N + column_of(i) + c] = held[m][i][c];
                    }
                }
#else
#if RESIDUAL
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    float loaded[ACCESS];
                    LOAD_ACCESS(residual, (asked + m) * N + column_inside(i), loaded);
                    UNROLL for (uint c = 0; c < ACCESS; c++) held[m][i][c] += loaded[c];
                }
#endif
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    if (in_row(i)) {
                        STORE_ACCESS(y, (asked + m) * N + column_of(i), held[m][i]);
                    }
                }
#endif
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* PoCL: see LAST_BARRIER in product.h */
    }
}
