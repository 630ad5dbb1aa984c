/* Y = softmax(SCALE * X) over the row of scores of one query and head, a row per work-group; its length is the
 * sequence's. Twin of shaders/softmax.comp.
 *
 * The first BLOCKS blocks of LOCAL_SIZE * VECTOR scores stay in registers, so that such a row is read once. The rest of
 * a longer row is read again for the sum and for the result; those reads find it in a cache, a row being some 10 KiB.
 * LOCAL_SIZE 32 holds 512 scores in f32 and 1024 in f16: BERT's longest, in one sub-group and with 16-byte loads. Any
 * power of two is right.
 *
 * The order of the sum may depend on the row's length, but not on where the row begins, which depends on the sequences
 * before it. So the length decides which scores a work-item has: VECTOR neighbours where VECTOR divides it, else every
 * LOCAL_SIZE-th. Where the row begins decides only whether neighbours travel as 16 bytes or one by one. ALIGNED: X and
 * Y begin on 16 bytes; their rows are looked at here. */
#include "common.h"

#ifndef HEADS
#define HEADS 1
#endif
#ifndef SCALE
#define SCALE 0x3f800000u /* 1 */
#endif

#define BLOCKS 4
#define BLOCK (LOCAL_SIZE * VECTOR)
#define LOG2_E 1.44269504f

/* Column of element c of a work-item's share of block i. */
#define COLUMN(i, c) ((i) * BLOCK + begin + (c) * apart)

/* v = the scores of block i. Past the row's end it repeats the last ones, which leaves the largest as it is. */
#define LOAD_BLOCK(i, v)                                                                                               \
    if (wide) {                                                                                                        \
        LOAD_VECTOR(x, from + min(COLUMN(i, 0), count - VECTOR), v);                                                   \
    } else {                                                                                                           \
        UNROLL for (uint c = 0; c < VECTOR; c++) v[c] = LOAD(x, from + min(COLUMN(i, c), count - 1));                  \
    }

#define MAX_BLOCK(v) UNROLL for (uint c = 0; c < VECTOR; c++) peak = max(peak, v[c] * scale);

#define EXP_BLOCK(v) UNROLL for (uint c = 0; c < VECTOR; c++) v[c] = exp2(fma(v[c], scale, -peak) * LOG2_E);

#define SUM_BLOCK(i, v) UNROLL for (uint c = 0; c < VECTOR; c++) part += COLUMN(i, c) < count ? v[c] : 0.0f;

#define STORE_BLOCK(i, v)                                                                                              \
    UNROLL for (uint c = 0; c < VECTOR; c++) v[c] *= share;                                                            \
    if (wide) {                                                                                                        \
        if (COLUMN(i, 0) < count) {                                                                                    \
            STORE_VECTOR(y, from + COLUMN(i, 0), v);                                                                   \
        }                                                                                                              \
    } else {                                                                                                           \
        UNROLL for (uint c = 0; c < VECTOR; c++)                                                                       \
        {                                                                                                              \
            if (COLUMN(i, c) < count) {                                                                                \
                STORE(y, from + COLUMN(i, c), v[c]);                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    }

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void softmax(INPUT_OF(uint, batch)
    , INPUT(x)
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OUTPUT(y);
    __local float scratch[REDUCE_WORDS];
    const uint head = group_number() % HEADS;
    const uint token = group_number() / HEADS;
    if (token < batch[HEADER_TOKENS]) {
        const uint sequence = batch[batch[HEADER_AT_TOKEN_SEQUENCE] + token];
        const uint offsets = batch[HEADER_AT_OFFSETS] + sequence;
        const uint first = batch[offsets];
        const uint count = batch[offsets + 1] - first;
        const uint scores = HEADS * batch[batch[HEADER_AT_SCORE_OFFSETS] + sequence];
        const uint from = scores + (head * count + token - first) * count;
        const bool neighbours = ALIGNED != 0 && count % VECTOR == 0;
        const bool wide = neighbours && from % VECTOR == 0;
        const uint begin = neighbours ? local_number() * VECTOR : local_number();
        const uint apart = neighbours ? 1 : LOCAL_SIZE;
        const float scale = as_float((uint)(SCALE));
        float held[BLOCKS][VECTOR];
        float rest[VECTOR];

        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                LOAD_BLOCK(i, held[i]);
            }
        }
        float peak = held[0][0] * scale;
        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                MAX_BLOCK(held[i]);
            }
        }
        for (uint i = BLOCKS; i * BLOCK < count; i++) {
            LOAD_BLOCK(i, rest);
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
            LOAD_BLOCK(i, rest);
            EXP_BLOCK(rest);
            SUM_BLOCK(i, rest);
        }
        const float share = 1.0f / group_sum(part, scratch);

        /* Dropout belongs here. */
        UNROLL for (uint i = 0; i < BLOCKS; i++)
        {
            if (i * BLOCK < count) {
                STORE_BLOCK(i, held[i]);
            }
        }
        for (uint i = BLOCKS; i * BLOCK < count; i++) {
            LOAD_BLOCK(i, rest);
            EXP_BLOCK(rest);
            STORE_BLOCK(i, rest);
        }
    }
}
