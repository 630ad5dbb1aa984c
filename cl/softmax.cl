/* Y = dropout(softmax(SCALE * X)) over the row of scores of one query and head, a row per team; its length is the
 * sequence's; keys that the query does not see (BEFORE, AFTER) have weight 0, and ALIBI takes from the others by their
 * distance. SUM also stores the weights before the dropout, LSE_WRITE the logarithm of what they were divided by;
 * LSE_READ takes it from there and sums nothing, and SOFTMAX 0 is dropout, or a bias by distance (RELATIVE), alone. Twin of shaders/softmax.comp.
 *
 * LOCAL_SIZE and TEAM: see scores.h. */
#include "common.h"

#ifndef SOFTMAX
#define SOFTMAX 1
#endif
#ifndef LSE
#define LSE LSE_NONE
#endif
#ifndef SUM
#define SUM 0
#endif
#include "scores.h"
#include "distances.h"
#include "masked.h"

/* v = the scores of block i, with their bias by distance, and without those that are not seen. */
#if RELATIVE > 0
#define LOAD_SCORES(i, v)                                                                                              \
    LOAD_BLOCK(x, i, v);                                                                                               \
    UNROLL for (uint c = 0; c < VECTOR; c++)                                                                           \
        v[c] += table_bias(relative, batch, row % HEADS,                                                               \
                           distance_at((int)LOADED_COLUMN(i, c) - (int)(SCORE_TOKEN - first))) / scale
#elif MASKED || ALIBI
#define LOAD_SCORES(i, v)                                                                                              \
    LOAD_BLOCK(x, i, v);                                                                                               \
    UNROLL for (uint c = 0; c < VECTOR; c++)                                                                           \
        v[c] = masked_score(v[c], (int)LOADED_COLUMN(i, c) - (int)(SCORE_TOKEN - first), slope)
#else
#define LOAD_SCORES(i, v) LOAD_BLOCK(x, i, v)
#endif

#define LOG2_E 1.44269504f

#define MAX_BLOCK(v) UNROLL for (uint c = 0; c < VECTOR; c++) peak = max(peak, v[c] * scale);

#define EXP_BLOCK(v)                                                                                                   \
    UNROLL for (uint c = 0; c < VECTOR; c++) v[c] = masked_weight(v[c], exp2(fma(v[c], scale, -peak) * LOG2_E));

#define SUM_BLOCK(i, v) UNROLL for (uint c = 0; c < VECTOR; c++) part += COLUMN(i, c) < count ? v[c] : 0.0f;

#define SHARE_BLOCK(v) UNROLL for (uint c = 0; c < VECTOR; c++) v[c] *= share;

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void softmax(BATCH_ARGUMENT
    , INPUT(x)
#if LSE == LSE_WRITE
    , OUTPUT_OF(float, lse)
#elif LSE == LSE_READ
    , INPUT_OF(float, lse)
#endif
#if RELATIVE > 0
    , INPUT(relative)
#endif
    , OUTPUT(y)
#if SUM
    , OUTPUT(sum)
#endif
#if DROPOUT
    , const uint site
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
#if RELATIVE > 0
    BEGIN(relative);
#endif
    BEGIN_OUTPUT(y);
    __local float scratch[REDUCE_WORDS];
#if DROPOUT
    __local uint kept[LOCAL_SIZE];
#endif
    if (FIRST_SCORE_ROW < SCORE_ROWS) {
        BEGIN_SCORES;
        const float scale = as_float((uint)(SCALE));
        float held[BLOCKS][VECTOR];
        float rest[VECTOR];
#if ALIBI
        const float slope = alibi_slope(HEADS, row % HEADS) / scale;
#elif MASKED
        const float slope = 0.0f;
#endif

        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                LOAD_SCORES(i, held[i]);
            }
        }
        float peak = 0.0f, share = 1.0f;
#if SOFTMAX
#if LSE == LSE_READ
        BEGIN_OF(float, lse);
        peak = lse[row];
        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                EXP_BLOCK(held[i]);
            }
        }
#else
        peak = held[0][0] * scale;
        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                MAX_BLOCK(held[i]);
            }
        }
        for (uint i = BLOCKS; i * BLOCK < count; i++) {
            LOAD_SCORES(i, rest);
            MAX_BLOCK(rest);
        }
        peak = group_max(peak, scratch);

        float part = 0.0f;
        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                EXP_BLOCK(held[i]);
                SUM_BLOCK(i, held[i]);
            }
        }
        for (uint i = BLOCKS; i * BLOCK < count; i++) {
            LOAD_SCORES(i, rest);
            EXP_BLOCK(rest);
            SUM_BLOCK(i, rest);
        }
        const float total = group_sum(part, scratch);
        share = 1.0f / total;
#if LSE == LSE_WRITE
        BEGIN_OUTPUT_OF(float, lse);
        if (lane == 0 && stored != 0) lse[row] = peak + log(total);
#endif
#endif
#endif

#if DROPOUT
        KEEP_BLOCKS;
#endif
#if SUM
        BEGIN_OUTPUT(sum);
#endif
        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                SHARE_BLOCK(held[i]);
#if SUM
                STORE_BLOCK(sum, i, held[i]);
#endif
#if DROPOUT
                DROP_BLOCK(i, held[i]);
#endif
                STORE_BLOCK(y, i, held[i]);
            }
        }
        for (uint i = BLOCKS; i * BLOCK < count; i++) {
            LOAD_SCORES(i, rest);
#if SOFTMAX
            EXP_BLOCK(rest);
#endif
            SHARE_BLOCK(rest);
#if SUM
            STORE_BLOCK(sum, i, rest);
#endif
#if DROPOUT
            DROP_REST(i, rest);
#endif
            STORE_BLOCK(y, i, rest);
        }
        LAST_BARRIER; /* teams leave the loop above at different times */
    }
}
