#version 450
#extension GL_GOOGLE_include_directive : require
/* Y = dropout(softmax(SCALE * X)) over the row of scores of one query and head, a row per team; its length is the
 * sequence's; keys that the query does not see (BEFORE, AFTER) have weight 0, and ALIBI takes from the others by their
 * distance. SUM also stores the weights before the dropout, LSE_WRITE the logarithm of what they were divided by;
 * LSE_READ takes it from there and sums nothing, and SOFTMAX 0 is dropout, or a bias by distance (RELATIVE), alone. Twin of cl/softmax.cl.
 *
 * LOCAL_SIZE and TEAM: see scores.glsl. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_SOFTMAX) const uint SOFTMAX = 1;
layout(constant_id = CONST_LSE) const uint LSE = LSE_NONE;
layout(constant_id = CONST_SUM) const uint SUM = 0;

INPUT_OF(SLOT_BATCH, uint, batch);
#include "scores.glsl"
#include "distances.glsl"
#include "masked.glsl"

/* v = the scores of block i, with their bias by distance, and without those that are not seen. */
#define LOAD_SCORES(i, v)                                                                                              \
    LOAD_BLOCK(x, i, v);                                                                                               \
    if (RELATIVE > 0) {                                                                                                \
        UNROLL for (uint c = 0; c < VECTOR; c++)                                                                       \
            v[c] += table_bias(row % HEADS, distance_at(int(LOADED_COLUMN(i, c)) - int(SCORE_TOKEN - first))) / scale; \
    }                                                                                                                  \
    if (MASKED || ALIBI != 0) {                                                                                        \
        UNROLL for (uint c = 0; c < VECTOR; c++)                                                                       \
            v[c] = masked_score(v[c], int(LOADED_COLUMN(i, c)) - int(SCORE_TOKEN - first), slope);                     \
    }

#define LOG2_E 1.44269504f

#define MAX_BLOCK(v) UNROLL for (uint c = 0; c < VECTOR; c++) peak = max(peak, v[c] * scale);

#define EXP_BLOCK(v)                                                                                                   \
    UNROLL for (uint c = 0; c < VECTOR; c++) v[c] = masked_weight(v[c], exp2(fma(v[c], scale, -peak) * LOG2_E));

#define SUM_BLOCK(i, v) UNROLL for (uint c = 0; c < VECTOR; c++) part += COLUMN(i, c) < count ? v[c] : 0.0f;

#define SHARE_BLOCK(v) UNROLL for (uint c = 0; c < VECTOR; c++) v[c] *= share;

INPUT(SLOT_X, x);
INPUT_OF(SLOT_LSE, float, lse);
OUTPUT_OF(SLOT_LSE, float, lse_written);
OUTPUT(SLOT_Y, y);
OUTPUT(SLOT_SUM, sum);

void main()
{
    if (FIRST_SCORE_ROW < SCORE_ROWS) {
        BEGIN_SCORES;
        const float scale = uintBitsToFloat(SCALE);
        float held[BLOCKS][VECTOR];
        float rest[VECTOR];
        const float slope = ALIBI != 0 ? alibi_slope(HEADS, row % HEADS) / scale : 0.0;

        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                LOAD_SCORES(i, held[i]);
            }
        }
        float peak = 0.0, share = 1.0;
        if (SOFTMAX != 0) {
            if (LSE == LSE_READ) {
                peak = lse[row];
                UNROLL for (uint i = 0; i < BLOCKS; i++)
                {
                    if (i * BLOCK < count) {
                        EXP_BLOCK(held[i]);
                    }
                }
            } else {
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
                peak = group_max(peak);

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
                const float total = group_sum(part);
                share = 1.0f / total;
                if (LSE == LSE_WRITE) {
                    if (lane == 0 && stored != 0) lse_written[row] = peak + log(total);
                }
            }
        }

        if (DROPOUT != 0) {
            KEEP_BLOCKS;
        }
        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                SHARE_BLOCK(held[i]);
                if (SUM != 0) {
                    STORE_BLOCK(sum, i, held[i]);
                }
                if (DROPOUT != 0) {
                    DROP_BLOCK(i, held[i]);
                }
                STORE_BLOCK(y, i, held[i]);
            }
        }
        for (uint i = BLOCKS; i * BLOCK < count; i++) {
            LOAD_SCORES(i, rest);
            if (SOFTMAX != 0) {
                EXP_BLOCK(rest);
            }
            SHARE_BLOCK(rest);
            if (SUM != 0) {
                STORE_BLOCK(sum, i, rest);
            }
            if (DROPOUT != 0) {
                DROP_REST(i, rest);
            }
            STORE_BLOCK(y, i, rest);
        }
    }
}
