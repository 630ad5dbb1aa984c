#version 450
#extension GL_GOOGLE_include_directive : require
/* The gradients of norms of single heads (shaders/heads_norm.comp). d = X, s = SAVED, z = s / sqrt(mean square + epsilon):
 *   NORM_DX  Y = (g - z * mean(g * z)) / sqrt(mean square + epsilon) with g = d * gamma; of V's heads d;
 *   NORM_DW  partials of d * z, of Q's heads and of K's: [part][2][N].
 * Where RMS is RMS_NONE they are layernorms': s is less its mean, g in NORM_DX less its own, and NORM_DW has partials
 * of d after those of d * z: [part][4][N].
 * Twin of cl/heads_norm_backward.cl.
 *
 * A work-group takes PART_ROWS tokens at a time, its own ones and then those PARTS * PART_ROWS further on; of each its
 * teams take the heads in turns. What a team has summed up stays in registers; at the end the teams' are added in their
 * order. LOCAL_SIZE, TEAM: a vector of a head a work-item, several teams. Any powers of two are right. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_HEADS) const uint HEADS = 3;
layout(constant_id = CONST_KEY_HEADS) const uint KEY_HEADS = 1;
layout(constant_id = CONST_NORM_DW) const uint NORM_DW = 0;
layout(constant_id = CONST_NORM_DX) const uint NORM_DX = 0;
layout(constant_id = CONST_EPSILON) const uint EPSILON = 0x2b8cbcccu; /* 1e-12 */
layout(constant_id = CONST_PARTS) const uint PARTS = 1;
layout(constant_id = CONST_PART_ROWS) const uint PART_ROWS = 1;
#include "row.glsl"

#define TURN (PARTS * PART_ROWS)

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_GAMMA, gamma);
INPUT(SLOT_SAVED, saved);
OUTPUT_OF(SLOT_PARTIALS, float, partials);
OUTPUT(SLOT_Y, y);

shared float of_teams[TEAMS * N];
const uint SETS = RMS == RMS_NONE ? 4 : 2;
float d[STEPS][VECTOR], scaled[STEPS][VECTOR], sums[4][STEPS][VECTOR]; /* sums: of Q's heads, and of K's */

void main()
{
    const uint first = group_number() * PART_ROWS, rows = batch[ROWS];
    if (first < rows && group_number() < PARTS) {
        const uint team = local_number() / TEAM;
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint set = 0; set < SETS; set++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++) sums[set][i][c] = 0.0;
            }
        }
        for (uint turn = first; turn < rows; turn += TURN) {
            const uint end = min(turn + PART_ROWS, rows) * HEADS;
            for (uint own = turn * HEADS + team; own - team < end; own += TEAMS) {
                const uint row = min(own, end - 1), head = row % HEADS;
                const bool there = own < end, normed = head < HEADS - KEY_HEADS, key = head >= HEADS - 2 * KEY_HEADS;
                ROW_LOAD(saved, row * N);
                if (RMS == RMS_NONE) {
                    const float mean = row_sum() / float(N);
                    UNROLL for (uint i = 0; i < STEPS; i++)
                    {
                        UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] -= mean;
                    }
                }
                const float root = 1.0 / sqrt(row_square_sum() / float(N) + uintBitsToFloat(EPSILON));
                row_scale(root);
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    LOAD_ACCESS(x, row * N + column_inside(i), d[i]);
                    UNROLL for (uint c = 0; c < ACCESS; c++)
                    {
                        const float change = there && normed && in_row(i) ? d[i][c] * held[i][c] : 0.0;
                        sums[0][i][c] += key ? 0.0 : change;
                        sums[1][i][c] += key ? change : 0.0;
                        if (RMS == RMS_NONE) {
                            const float shift = there && normed && in_row(i) ? d[i][c] : 0.0;
                            sums[2][i][c] += key ? 0.0 : shift;
                            sums[3][i][c] += key ? shift : 0.0;
                        }
                    }
                }
                if (NORM_DX != 0) {
                    float part = 0.0, level = 0.0;
                    UNROLL for (uint i = 0; i < STEPS; i++)
                    {
                        LOAD_ACCESS(gamma, (key ? N : 0) + column_inside(i), scaled[i]);
                        UNROLL for (uint c = 0; c < ACCESS; c++)
                        {
                            scaled[i][c] = d[i][c] * SCALE_OF(scaled[i][c]);
                            part = in_row(i) ? fma(scaled[i][c], held[i][c], part) : part;
                            level += in_row(i) ? scaled[i][c] : 0.0;
                        }
                    }
                    level = RMS == RMS_NONE ? group_sum(level) / float(N) : 0.0;
                    const float along = group_sum(part) / float(N);
                    UNROLL for (uint i = 0; i < STEPS; i++)
                    {
                        UNROLL for (uint c = 0; c < ACCESS; c++)
                            held[i][c] = normed ? root * fma(-held[i][c], along, scaled[i][c] - level) : d[i][c];
                    }
                    if (there) {
                        ROW_STORE(y, row * N);
                    }
                }
            }
        }
        if (NORM_DW != 0) {
            UNROLL for (uint set = 0; set < SETS; set++)
            {
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    UNROLL for (uint c = 0; c < ACCESS; c++)
                        if (in_row(i)) of_teams[team * N + column_of(i) + c] = sums[set][i][c];
                }
                barrier();
                for (uint column = local_number(); column < N; column += LOCAL_SIZE) {
                    float sum = 0.0;
                    for (uint t = 0; t < TEAMS; t++) sum += of_teams[t * N + column];
                    partials[(group_number() * SETS + set) * N + column] = sum;
                }
                barrier();
            }
        }
    }
}
