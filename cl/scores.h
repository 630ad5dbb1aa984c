/* The row of scores of one query and head: where it lies, which scores a work-item has, loads, stores and dropout. What
 * softmax and softmax_backward share. Twin of shaders/scores.glsl.
 *
 * A team has a row, and a work-group has several teams, because rows are short and many: one row of 128 scores per
 * work-group kept an H200 busy with starting work-groups, at a quarter of its bandwidth. The first BLOCKS blocks of
 * TEAM * VECTOR scores stay in registers, 16 a work-item, so that such a row is read once. The rest of a longer row is
 * read again for every pass over it; those reads find it in a cache, a row being some 10 KiB. TEAM: what holds the
 * session's longest row, from 8 to 32, which holds 512 scores: BERT's longest, with 16-byte loads. LOCAL_SIZE: 128. Any
 * powers of two are right, TEAM from 8 on.
 *
 * The order of a sum may depend on the row's length, but not on where the row begins, which depends on the sequences
 * before it. So the length decides which scores a work-item has: VECTOR neighbours where VECTOR divides it, else every
 * TEAM-th. Where the row begins decides only whether neighbours travel as 16 bytes or one by one. ALIGNED: the
 * tensors begin on 16 bytes; their rows are looked at here. */
#ifndef HEADS
#define HEADS 1
#endif
#ifndef SCALE
#define SCALE 0x3f800000u /* 1 */
#endif
#include "dropout.h"

#define BLOCKS (16 / VECTOR)
#define BLOCK (TEAM * VECTOR)

/* The row that belongs to this team, token by token, in it head by head: it begins at `from` and has `count` scores,
 * all of which are stored; a team after the last row repeats that one and stores nothing. For work-groups that have
 * rows. */
#define SCORE_ROWS (batch[HEADER_TOKENS] * HEADS)
#define FIRST_SCORE_ROW (group_number() * TEAMS)
#define SCORE_TOKEN (row / HEADS)
#define BEGIN_SCORES                                                                                                   \
    const uint lane = local_number() % TEAM, own_row = FIRST_SCORE_ROW + local_number() / TEAM;                        \
    const uint row = min(own_row, SCORE_ROWS - 1);                                                                     \
    const uint sequence = batch[batch[HEADER_AT_TOKEN_SEQUENCE] + SCORE_TOKEN];                                        \
    const uint offsets = batch[HEADER_AT_OFFSETS] + sequence;                                                          \
    const uint first = batch[offsets];                                                                                 \
    const uint count = batch[offsets + 1] - first;                                                                     \
    const uint stored = own_row < SCORE_ROWS ? count : 0;                                                                \
    const uint scores = HEADS * batch[batch[HEADER_AT_SCORE_OFFSETS] + sequence];                                      \
    const uint from = scores + (row % HEADS * count + SCORE_TOKEN - first) * count;                                    \
    const bool neighbours = ALIGNED != 0 && count % VECTOR == 0;                                                       \
    const bool wide = neighbours && from % VECTOR == 0;                                                                \
    const uint begin = neighbours ? lane * VECTOR : lane;                                                              \
    const uint apart = neighbours ? 1 : TEAM

/* Column of element c of a work-item's share of block i. */
#define COLUMN(i, c) ((i) * BLOCK + begin + (c) * apart)

/* v = the scores of block i. Past the row's end it repeats the last ones, which leaves the largest as it is. */
#define LOAD_BLOCK(name, i, v)                                                                                         \
    if (wide) {                                                                                                        \
        LOAD_VECTOR(name, from + min(COLUMN(i, 0), count - VECTOR), v);                                                \
    } else {                                                                                                           \
        UNROLL for (uint c = 0; c < VECTOR; c++) v[c] = LOAD(name, from + min(COLUMN(i, c), count - 1));               \
    }

/* The column that LOAD_BLOCK takes for element c. */
#define LOADED_COLUMN(i, c) (wide ? min(COLUMN(i, 0), count - VECTOR) + (c) : min(COLUMN(i, c), count - 1))

#define STORE_BLOCK(name, i, v)                                                                                        \
    if (wide) {                                                                                                        \
        if (COLUMN(i, 0) < stored) {                                                                                   \
            STORE_VECTOR(name, from + COLUMN(i, 0), v);                                                                \
        }                                                                                                              \
    } else {                                                                                                           \
        UNROLL for (uint c = 0; c < VECTOR; c++)                                                                       \
        {                                                                                                              \
            if (COLUMN(i, c) < stored) {                                                                               \
                STORE(name, from + COLUMN(i, c), v[c]);                                                                \
            }                                                                                                          \
        }                                                                                                              \
    }

/* ---- dropout ----
 * Neighbours share random numbers. Where a work-item's scores are far apart, every work-item makes those of eight
 * columns in each of the blocks in registers and the team exchanges them, a bit a column: 8 * i + column % 8 of
 * kept[column % BLOCK / 8]. A kernel declares __local uint kept[LOCAL_SIZE] and calls KEEP_BLOCKS once, all
 * work-items together. Columns beyond those blocks are too rare for that. */
#define KEEP_BLOCKS                                                                                                    \
    if (!neighbours) {                                                                                                 \
        uint bits = 0;                                                                                                 \
        UNROLL for (uint i = 0; i < BLOCKS; i++)                                                                       \
        {                                                                                                              \
            const uint column = i * BLOCK + lane * 8;                                                                  \
            if (lane * 8 < BLOCK && column < count) {                                                                  \
                bits |= dropout_bits(dropout_words(batch, site, row, column)) << 8 * i;                                \
            }                                                                                                          \
        }                                                                                                              \
        kept[local_number()] = bits;                                                                                   \
    }                                                                                                                  \
    barrier(CLK_LOCAL_MEM_FENCE)

/* v *= the factors of block i, which is in registers */
#define DROP_BLOCK(i, v)                                                                                               \
    if (neighbours) {                                                                                                  \
        dropout_access(v, batch, site, row, COLUMN(i, 0));                                                             \
    } else {                                                                                                           \
        UNROLL for (uint c = 0; c < VECTOR; c++)                                                                       \
        {                                                                                                              \
            const uint bits = kept[local_number() - lane + COLUMN(0, c) / 8] >> 8 * (i);                               \
            v[c] *= (bits >> COLUMN(0, c) % 8 & 1) != 0 ? DROPOUT_SCALE : 0.0f;                                        \
        }                                                                                                              \
    }

/* v *= the factors of any block */
#define DROP_REST(i, v)                                                                                                \
    if (neighbours) {                                                                                                  \
        dropout_access(v, batch, site, row, COLUMN(i, 0));                                                             \
    } else {                                                                                                           \
        UNROLL for (uint c = 0; c < VECTOR; c++)                                                                       \
        {                                                                                                              \
            const uint bits = dropout_bits(dropout_words(batch, site, row, COLUMN(i, c)));                             \
            v[c] *= (bits >> COLUMN(i, c) % 8 & 1) != 0 ? DROPOUT_SCALE : 0.0f;                                        \
        }                                                                                                              \
    }
