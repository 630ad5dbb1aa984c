/* Y = X + bias with each pair of neighbouring channels of Q and K turned by its token's position: of a row of N, Q and K
 * are the first two thirds, or of each head's stretch of 3 HEAD_DIM (QKV_INTERLEAVED); the rest is copied. POSITION
 * [positions][HEAD_DIM] has each pair's cosine and sine. SUM also stores X + bias. Twin of shaders/rotary.comp.
 *
 * One access per work-item: what hides the latency is the number of work-items, so LOCAL_SIZE is what fills a compute
 * unit, 128 or 256. Any power of two is right. */
#include "common.h"

#ifndef N
#define N 6
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif
#ifndef BIAS
#define BIAS 0
#endif
#ifndef HEAD_DIM
#define HEAD_DIM 2
#endif
#ifndef QKV_INTERLEAVED
#define QKV_INTERLEAVED 0
#endif
#ifndef ROTARY
#define ROTARY ROTARY_FORWARD
#endif
#ifndef SUM
#define SUM 0
#endif
#include "rotary.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void rotary(BATCH_ARGUMENT
    , INPUT(x)
#if BIAS
    , INPUT(bias)
#endif
    , INPUT_OF(uint, positions)
    , INPUT_OF(float, position)
    , OUTPUT(y)
#if SUM
    , OUTPUT(sum)
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OF(uint, positions);
    BEGIN_OF(float, position);
    BEGIN_OUTPUT(y);
    const uint at = (group_number() * LOCAL_SIZE + local_number()) * ACCESS;
    if (at < batch[ROWS] * N) {
        const uint column = at % N;
        float v[ACCESS];
        LOAD_ACCESS(x, at, v);
#if BIAS
        BEGIN(bias);
        float b[ACCESS];
        LOAD_ACCESS(bias, column, b);
        UNROLL for (uint c = 0; c < ACCESS; c++) v[c] += b[c];
#endif
#if SUM
        BEGIN_OUTPUT(sum);
        STORE_ACCESS(sum, at, v);
#endif
        if (ROTARY_TURNS(column)) {
            const uint angle = positions[at / N] * HEAD_DIM + column % HEAD_DIM;
#if ACCESS == 1
            float other = LOAD(x, at ^ 1); /* N is even */
#if BIAS
            other += LOAD(bias, column ^ 1);
#endif
            const float sine = position[angle | 1];
            v[0] = fma(other, (column % 2 != 0) == (ROTARY == ROTARY_FORWARD) ? sine : -sine, v[0] * position[angle & ~1u]);
#else
            float turn[ACCESS];
            LOAD_FLOATS(position, angle, turn);
            rotary_turn(v, turn, ACCESS);
#endif
        }
        STORE_ACCESS(y, at, v);
    }
}
