#version 450
#extension GL_GOOGLE_include_directive : require
/* y[row][h] = sum of the sequences' distances[e][h] (shaders/distance_sums.comp) over the distances that the row is for,
 * divided by SCALE, plus residual[row][h] with RESIDUAL: the gradient of a bias by distance, and what other layers gave.
 *
 * One work-group for each element of the table, M of them. The order of the sum depends on the number of sequences and
 * LOCAL_SIZE. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_HEADS) const uint HEADS = 1;
layout(constant_id = CONST_SCALE) const uint SCALE = 0x3f800000u;
layout(constant_id = CONST_M) const uint M = 1;
layout(constant_id = CONST_RESIDUAL) const uint RESIDUAL = 0;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_RESIDUAL, residual);
INPUT_OF(SLOT_DISTANCES, float, distances);
OUTPUT(SLOT_Y, y);
#include "distances.glsl"

shared uint limits[2]; /* the row's distances, which are neighbours */

void main()
{
    const uint item = group_number(), sequences = batch[HEADER_SEQUENCES];
    if (item < M && sequences > 0) {
        const uint row = item / HEADS, head = item % HEADS;
        const uint buckets = batch[HEADER_AT_BUCKETS];
        if (local_number() == 0) limits[0] = limits[1] = 0; /* a row may have none */
        barrier();
        for (uint i = local_number(); i < DISTANCES; i += LOCAL_SIZE) {
            if (batch[buckets + i] != row) continue;
            if (i == 0 || batch[buckets + i - 1] != row) limits[0] = i;
            if (i + 1 == DISTANCES || batch[buckets + i + 1] != row) limits[1] = i + 1;
        }
        barrier();
        const uint begin = limits[0], end = limits[1];

        float sum = 0.0;
        for (uint i = local_number(); i < (end - begin) * sequences; i += LOCAL_SIZE) {
            const uint offsets = batch[HEADER_AT_OFFSETS] + i % sequences;
            const uint first = batch[offsets], far = min(batch[offsets + 1] - first - 1, RELATIVE);
            const uint e = begin + i / sequences + far; /* RELATIVE beyond its place */
            if (e >= RELATIVE && e <= RELATIVE + 2 * far) sum += distances[(2 * first + e - RELATIVE) * HEADS + head];
        }
        sum = group_sum(sum) / uintBitsToFloat(SCALE);
        if (local_number() == 0) {
            if (RESIDUAL != 0) sum += LOAD(residual, item);
            STORE(y, item, sum);
        }
    }
}
