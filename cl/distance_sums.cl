/* distances[e][h] = sums of x[h][j][k], a sequence's scores' gradients, over the pairs of a distance k - j: first those
 * from -far to far, far = min(RELATIVE, length - 1), then zeros. Pairs that are farther apart than RELATIVE belong to
 * the outermost.
 *
 * One work-group per sequence and head. A work-item adds a diagonal, neighbours neighbouring ones; what belongs to the
 * outermost two is added by all. Any LOCAL_SIZE is right. */
#include "common.h"

#ifndef HEADS
#define HEADS 1
#endif
#include "distances.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void distance_sums(BATCH_ARGUMENT
    , INPUT(x)
    , OUTPUT_OF(float, distances)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OUTPUT_OF(float, distances);
    __local float scratch[REDUCE_WORDS];
    const uint sequences = batch[HEADER_SEQUENCES];
    const uint sequence = group_number() % max(sequences, 1u);
    const uint head = group_number() / max(sequences, 1u);
    if (sequences > 0 && head < HEADS) {
        const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
        const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
        const uint x_at = HEADS * batch[batch[HEADER_AT_SCORE_OFFSETS] + sequence] + head * length * length;
        const uint y_at = 2 * first * HEADS + head;
        const uint far = min(length - 1, (uint)RELATIVE);
        const bool ends = far == RELATIVE;

        for (uint e = local_number(); e < 2 * length; e += LOCAL_SIZE) {
            if (ends && (e == 0 || e == 2 * far)) continue;
            float sum = 0.0f;
            const uint before = e < far ? far - e : 0, after = e > far ? e - far : 0;
            if (e <= 2 * far)
                for (uint j = before; j + after < length; j++) sum += LOAD(x, x_at + j * length + j + after - before);
            distances[y_at + e * HEADS] = sum;
        }

        float before = 0.0f, after = 0.0f;
        if (ends)
            for (uint j = far; j < length; j++)
                for (uint k = local_number(); k + far <= j; k += LOCAL_SIZE) {
                    before += LOAD(x, x_at + j * length + k);
                    after += LOAD(x, x_at + k * length + j);
                }
        before = group_sum(before, scratch);
        after = group_sum(after, scratch);
        if (ends && local_number() == 0) {
            distances[y_at] = before;
            distances[y_at + 2 * far * HEADS] = after;
        }
        LAST_BARRIER;
    }
}
