/* delta[r][h] = sum over p of x[r][h][p] * saved[r][h][p]: what each row of attention's weights has in common in its
 * gradient, from attention's output and that one's gradient.
 *
 * One work-group per row; SHARERS neighbours share a head, so that with 64 channels in f16 each of them loads once. The
 * order of the sum depends on HEAD_DIM and ACCESS alone. Any LOCAL_SIZE that SHARERS divides is right; SHARERS * HEADS
 * leaves none idle. */
#include "common.h"

#ifndef HEADS
#define HEADS 1
#endif
#ifndef HEAD_DIM
#define HEAD_DIM 32
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif

#define SHARERS 8
#define HEADS_AT_ONCE (LOCAL_SIZE / SHARERS)

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void delta(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT(saved)
    , OUTPUT_OF(float, delta)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(saved);
    BEGIN_OUTPUT_OF(float, delta);
    __local float part[LOCAL_SIZE];
    const uint row = group_number();
    if (row < batch[ROWS]) {
        const uint l = local_number();
        for (uint head0 = 0; head0 < HEADS; head0 += HEADS_AT_ONCE) {
            const uint head = head0 + l / SHARERS;
            float sum = 0.0f;
            if (head < HEADS)
                for (uint p = l % SHARERS * ACCESS; p < HEAD_DIM; p += SHARERS * ACCESS) {
                    const uint at = (row * HEADS + head) * HEAD_DIM + p;
                    float a[ACCESS], b[ACCESS];
                    LOAD_ACCESS(x, at, a);
                    LOAD_ACCESS(saved, at, b);
                    UNROLL
                    for (uint c = 0; c < ACCESS; c++) sum = fma(a[c], b[c], sum);
                }
            part[l] = sum;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (l < HEADS_AT_ONCE && head0 + l < HEADS) {
                float all = part[l * SHARERS];
                for (uint i = 1; i < SHARERS; i++) all += part[l * SHARERS + i];
                delta[row * HEADS + head0 + l] = all;
            }
            barrier(CLK_LOCAL_MEM_FENCE); /* the parts may be written again */
        }
    }
}
