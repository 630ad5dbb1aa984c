/* Norms of single heads: rows of HEADS heads of N channels, of Q, then of K, then KEY_HEADS of V, which are copied.
 * Y = X / sqrt(mean square + epsilon) * gamma, GAMMA having the N of Q's heads, then those of K's; with ROTARY pairs of
 * channels are then turned by the token's position. Where RMS is RMS_NONE it is a layernorm, and BETA is as GAMMA.
 * A head a team. Twin of shaders/heads_norm.comp.
 *
 * LOCAL_SIZE, TEAM: as layernorm's, of which a head is a row. */
#include "common.h"

#ifndef HEADS
#define HEADS 3
#endif
#ifndef KEY_HEADS
#define KEY_HEADS 1
#endif
#ifndef ROTARY
#define ROTARY ROTARY_NONE
#endif
#ifndef EPSILON
#define EPSILON 0x2b8cbcccu /* 1e-12 */
#endif
#include "row.h"
#define HEAD_DIM N
#define QKV_INTERLEAVED 0
#include "rotary.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void heads_norm(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT(gamma)
#if RMS == RMS_NONE
    , INPUT(beta)
#endif
#if ROTARY
    , INPUT_OF(uint, positions)
    , INPUT_OF(float, position)
#endif
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(gamma);
#if RMS == RMS_NONE
    BEGIN(beta);
#endif
#if ROTARY
    BEGIN_OF(uint, positions);
    BEGIN_OF(float, position);
#endif
    BEGIN_OUTPUT(y);
    __local float scratch[REDUCE_WORDS];
    const uint rows = batch[ROWS] * HEADS;
    if (FIRST_ROW < rows) {
        const uint own_row = FIRST_ROW + local_number() / TEAM, row = min(own_row, rows - 1);
        const bool stored = own_row < rows;
        const uint head = row % HEADS, weights = head < HEADS - 2 * KEY_HEADS ? 0 : N;
        const bool normed = head < HEADS - KEY_HEADS;
        float held[STEPS][ACCESS];
        ROW_LOAD(x, row * N);
#if RMS == RMS_NONE
        const float sum = row_sum(held, scratch), mean = normed ? sum / (float)(N) : 0.0f;
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] -= mean;
        }
#endif
        const float root = 1.0f / sqrt(row_square_sum(held, scratch) / (float)(N) + as_float((uint)(EPSILON)));
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            const uint column = column_inside(i);
            float scale[ACCESS];
            LOAD_ACCESS(gamma, weights + column, scale);
            UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] *= normed ? root * SCALE_OF(scale[c]) : 1.0f;
#if RMS == RMS_NONE
            float shift[ACCESS];
            LOAD_ACCESS(beta, weights + column, shift);
            UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] += normed ? shift[c] : 0.0f;
#endif
#if ROTARY
            if (normed) {
                const uint angle = positions[row / HEADS] * N + column;
#if ACCESS == 1
                const float other = LOAD(x, row * N + (column ^ 1)) * (root * SCALE_OF(LOAD(gamma, weights + (column ^ 1))));
                const float sine = column % 2 != 0 ? position[angle] : -position[angle | 1];
                held[i][0] = fma(other, sine, held[i][0] * position[angle & ~1u]);
#else
                float turn[ACCESS];
                LOAD_FLOATS(position, angle, turn);
                rotary_turn(held[i], turn, ACCESS);
#endif
            }
#endif
        }
        if (stored) {
            ROW_STORE(y, row * N);
        }
    }
}
