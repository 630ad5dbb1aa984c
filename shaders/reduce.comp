#version 450
#extension GL_GOOGLE_include_directive : require
/* The sum over the parts of partials [parts][SETS][N], stored as SETS vectors of N: Y, SUM, EXTRA. Twin of
 * cl/reduce.cl.
 *
 * A work-group sums TILE_N neighbouring columns; LOCAL_SIZE / TILE_N work-items share one, each takes every SHARERS-th
 * part in ascending order, and their sums are added in the work-items' order. 32 bytes of a part are one access of
 * memory: TILE_N 8 gives work to the most multiprocessors, LOCAL_SIZE 256 then has 32 sharers, and all of the up to 528
 * parts that a GPU has are on the way at the same time. Any powers of two are right. */
#include "common.glsl"

layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;
layout(constant_id = CONST_SETS) const uint SETS = 1;
layout(constant_id = CONST_PART_ROWS) const uint PART_ROWS = 1;
layout(constant_id = CONST_PARTS) const uint PARTS = 0xffffffffu;
layout(constant_id = CONST_TILE_N) const uint TILE_N = 8;

#define SHARERS (LOCAL_SIZE / TILE_N)
#define AT_ONCE (SHARERS > 1 ? 17 : 4)

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT_OF(SLOT_PARTIALS, float, partials);
OUTPUT(SLOT_EXTRA, extra);
OUTPUT(SLOT_Y, y);
OUTPUT(SLOT_SUM, sum);

shared float scratch[LOCAL_SIZE];

void main()
{
    const uint parts = min((batch[ROWS] + PART_ROWS - 1) / PART_ROWS, PARTS);
    const uint first = group_number() * TILE_N;
    if (parts > 0 && first < SETS * N) {
        const uint column = first + local_number() % TILE_N;
        const uint from = min(column, SETS * N - 1);
        float part_sum = 0.0;
        for (uint part = local_number() / TILE_N; part < parts; part += AT_ONCE * SHARERS) {
            float v[AT_ONCE];
            UNROLL for (uint a = 0; a < AT_ONCE; a++)
                v[a] = part + a * SHARERS < parts ? partials[(part + a * SHARERS) * (SETS * N) + from] : 0.0;
            UNROLL for (uint a = 0; a < AT_ONCE; a++) part_sum += v[a];
        }
        scratch[local_number()] = part_sum;
        barrier();
        if (local_number() < TILE_N && column < SETS * N) {
            float total = 0.0;
            UNROLL for (uint i = 0; i < SHARERS; i++) total += scratch[i * TILE_N + local_number()];
            if (column < N) {
                STORE(y, column, total);
            } else if (column < 2 * N) {
                STORE(sum, column - N, total);
            } else {
                STORE(extra, column - 2 * N, total);
            }
        }
    }
}
