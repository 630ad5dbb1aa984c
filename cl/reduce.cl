/* The sum over the parts of partials [parts][SETS][N], stored as SETS vectors of N: Y, SUM, EXTRA. Twin of
 * shaders/reduce.comp.
 *
 * A work-group sums TILE_N neighbouring columns; LOCAL_SIZE / TILE_N work-items share one, each takes every SHARERS-th
 * part in ascending order, and their sums are added in the work-items' order. 32 bytes of a part are one access of
 * memory: TILE_N 8 gives work to the most multiprocessors, LOCAL_SIZE 256 then has 32 sharers, and all of the up to 528
 * parts that a GPU has are on the way at the same time. Any powers of two are right. */
#include "common.h"

#ifndef N
#define N 1
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif
#ifndef SETS
#define SETS 1
#endif
#ifndef PART_ROWS
#define PART_ROWS 1
#endif
#ifndef PARTS
#define PARTS UINT_MAX
#endif
#ifndef TILE_N
#define TILE_N 8
#endif

#define SHARERS (LOCAL_SIZE / TILE_N)
#define AT_ONCE (SHARERS > 1 ? 17 : 4)

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void reduce(BATCH_ARGUMENT
    , INPUT_OF(float, partials)
#if SETS > 2
    , OUTPUT(extra)
#endif
    , OUTPUT(y)
#if SETS > 1
    , OUTPUT(sum)
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(float, partials);
    BEGIN_OUTPUT(y);
    __local float scratch[LOCAL_SIZE];
    const uint parts = min((batch[ROWS] + PART_ROWS - 1) / PART_ROWS, (uint)PARTS);
    const uint first = group_number() * TILE_N;
    if (parts > 0 && first < SETS * N) {
        const uint column = first + local_number() % TILE_N;
        const uint from = min(column, (uint)(SETS * N - 1));
        float part_sum = 0.0f;
        for (uint part = local_number() / TILE_N; part < parts; part += AT_ONCE * SHARERS) {
            float v[AT_ONCE];
            UNROLL for (uint a = 0; a < AT_ONCE; a++)
                v[a] = part + a * SHARERS < parts ? partials[(part + a * SHARERS) * (SETS * N) + from] : 0.0f;
            UNROLL for (uint a = 0; a < AT_ONCE; a++) part_sum += v[a];
        }
        scratch[local_number()] = part_sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (local_number() < TILE_N && column < SETS * N) {
            float total = 0.0f;
            UNROLL for (uint i = 0; i < SHARERS; i++) total += scratch[i * TILE_N + local_number()];
            if (column < N) {
                STORE(y, column, total);
            }
#if SETS > 1
            BEGIN_OUTPUT(sum);
            if (column >= N && column < 2 * N) {
                STORE(sum, column - N, total);
            }
#endif
#if SETS > 2
            BEGIN_OUTPUT(extra);
            if (column >= 2 * N) {
                STORE(extra, column - 2 * N, total);
            }
#endif
        }
        LAST_BARRIER;
    }
}
