/* y[row][h] = sum of the sequences' distances[e][h] (cl/distance_sums.cl) over the distances that the row is for,
 * divided by SCALE, plus residual[row][h] with RESIDUAL: the gradient of a bias by distance, and what other layers gave.
 *
 * One work-group for each element of the table, M of them. The order of the sum depends on the number of sequences and
 * LOCAL_SIZE. */
#include "common.h"

#ifndef HEADS
#define HEADS 1
#endif
#ifndef SCALE
#define SCALE 0x3f800000u /* 1 */
#endif
#ifndef M
#define M 1
#endif
#ifndef RESIDUAL
#define RESIDUAL 0
#endif
#include "distances.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void distance_dw(BATCH_ARGUMENT
#if RESIDUAL
    , INPUT(residual)
#endif
    , INPUT_OF(float, distances)
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(float, distances);
    BEGIN_OUTPUT(y);
    __local float scratch[REDUCE_WORDS];
    __local uint limits[2]; /* the row's distances, which are neighbours */
    const uint item = group_number(), sequences = batch[HEADER_SEQUENCES];
    if (item < M && sequences > 0) {
        const uint row = item / HEADS, head = item % HEADS;
        const uint buckets = batch[HEADER_AT_BUCKETS];
        if (local_number() == 0) limits[0] = limits[1] = 0; /* a row may have none */
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = local_number(); i < DISTANCES; i += LOCAL_SIZE) {
            if (batch[buckets + i] != row) continue;
            if (i == 0 || batch[buckets + i - 1] != row) limits[0] = i;
            if (i + 1 == DISTANCES || batch[buckets + i + 1] != row) limits[1] = i + 1;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint begin = limits[0], end = limits[1];

        float sum = 0.0f;
        for (uint i = local_number(); i < (end - begin) * sequences; i += LOCAL_SIZE) {
            const uint offsets = batch[HEADER_AT_OFFSETS] + i % sequences;
            const uint first = batch[offsets], far = min(batch[offsets + 1] - first - 1, (uint)RELATIVE);
            const uint e = begin + i / sequences + far; /* RELATIVE beyond its place */
            if (e >= RELATIVE && e <= RELATIVE + 2 * far) sum += distances[(2 * first + e - RELATIVE) * HEADS + head];
        }
        sum = group_sum(sum, scratch) / as_float((uint)(SCALE));
        if (local_number() == 0) {
#if RESIDUAL
            BEGIN(residual);
            sum += LOAD(residual, item);
#endif
            STORE(y, item, sum);
        }
        LAST_BARRIER;
    }
}
