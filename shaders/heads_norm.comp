#version 450
#extension GL_GOOGLE_include_directive : require
/* Norms of single heads: rows of HEADS heads of N channels, of Q, then of K, then KEY_HEADS of V, which are copied.
 * Y = X / sqrt(mean square + epsilon) * gamma, GAMMA having the N of Q's heads, then those of K's; with ROTARY pairs of
 * channels are then turned by the token's position. Where RMS is RMS_NONE it is a layernorm, and BETA is as GAMMA.
 * A head a team. Twin of cl/heads_norm.cl.
 *
 * LOCAL_SIZE, TEAM: as layernorm's, of which a head is a row. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_HEADS) const uint HEADS = 3;
layout(constant_id = CONST_ROTARY) const uint ROTARY = ROTARY_NONE;
layout(constant_id = CONST_EPSILON) const uint EPSILON = 0x2b8cbcccu; /* 1e-12 */
#include "row.glsl"
#define HEAD_DIM N
#define QKV_INTERLEAVED 0
#include "rotary.glsl"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_GAMMA, gamma);
INPUT(SLOT_BETA, beta);
INPUT_OF(SLOT_POSITIONS, uint, positions);
INPUT_OF(SLOT_POSITION, float, position);
INPUT_OF(SLOT_POSITION, vec4, position_quads);
OUTPUT(SLOT_Y, y);

void main()
{
    const uint rows = batch[ROWS] * HEADS;
    if (FIRST_ROW < rows) {
        const uint own_row = FIRST_ROW + local_number() / TEAM, row = min(own_row, rows - 1);
        const bool stored = own_row == row;
        const uint head = row % HEADS, weights = head < HEADS - 2 * KEY_HEADS ? 0 : N;
        const bool normed = head < HEADS - KEY_HEADS;
        ROW_LOAD(x, row * N);
        if (RMS == RMS_NONE) {
            const float sum = row_sum(), mean = normed ? sum / float(N) : 0.0;
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] -= mean;
            }
        }
        const float root = 1.0 / sqrt(row_square_sum() / float(N) + uintBitsToFloat(EPSILON));
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            const uint column = column_inside(i);
            float scale[VECTOR];
            LOAD_ACCESS(gamma, weights + column, scale);
            UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] *= normed ? root * SCALE_OF(scale[c]) : 1.0;
            if (RMS == RMS_NONE) {
                float shift[VECTOR];
                LOAD_ACCESS(beta, weights + column, shift);
                UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] += normed ? shift[c] : 0.0;
            }
            if (ROTARY != ROTARY_NONE && normed) {
                const uint angle = positions[row / HEADS] * N + column;
                if (ALIGNED == 0) {
                    const uint beside = column ^ 1;
                    const float gamma_beside = LOAD(gamma, weights + beside);
                    const float other = LOAD(x, row * N + beside) * (root * SCALE_OF(gamma_beside));
                    const float sine = column % 2 != 0 ? position[angle] : -position[angle | 1];
                    held[i][0] = fma(other, sine, held[i][0] * position[angle & ~1u]);
                } else {
                    float turn[VECTOR];
                    LOAD_FLOATS(position, angle, turn);
                    ROTARY_TURN(held[i], turn, ACCESS)
                }
            }
        }
        if (stored) {
            ROW_STORE(y, row * N);
        }
    }
}
