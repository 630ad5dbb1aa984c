#version 450
#extension GL_GOOGLE_include_directive : require
/* delta[r][h] = sum over p of x[r][h][p] * saved[r][h][p]: what each row of attention's weights has in common in its
 * gradient, from attention's output and that one's gradient.
 *
 * One work-group per row; SHARERS neighbours share a head, so that with 64 channels in f16 each of them loads once. The
 * order of the sum depends on HEAD_DIM and ACCESS alone. Any LOCAL_SIZE that SHARERS divides is right; SHARERS * HEADS
 * leaves none idle. */
#include "common.glsl"

layout(constant_id = CONST_HEADS) const uint HEADS = 1;
layout(constant_id = CONST_HEAD_DIM) const uint HEAD_DIM = 32;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_SAVED, saved);
OUTPUT_OF(SLOT_DELTA, float, delta);

#define SHARERS 8
#define HEADS_AT_ONCE (LOCAL_SIZE / SHARERS)

shared float part[LOCAL_SIZE];

void main()
{
    const uint row = group_number();
    if (row < batch[ROWS]) {
        const uint l = local_number();
        for (uint head0 = 0; head0 < HEADS; head0 += HEADS_AT_ONCE) {
            const uint head = head0 + l / SHARERS;
            float sum = 0.0;
            if (head < HEADS)
                for (uint p = l % SHARERS * ACCESS; p < HEAD_DIM; p += SHARERS * ACCESS) {
                    const uint at = (row * HEADS + head) * HEAD_DIM + p;
                    float a[VECTOR], b[VECTOR];
                    LOAD_ACCESS(x, at, a);
                    LOAD_ACCESS(saved, at, b);
                    UNROLL
                    for (uint c = 0; c < ACCESS; c++) sum = fma(a[c], b[c], sum);
                }
            part[l] = sum;
            barrier();
            if (l < HEADS_AT_ONCE && head0 + l < HEADS) {
                float all = part[l * SHARERS];
                for (uint i = 1; i < SHARERS; i++) all += part[l * SHARERS + i];
                delta[row * HEADS + head0 + l] = all;
            }
            barrier(); /* the parts may be written again */
        }
    }
}
