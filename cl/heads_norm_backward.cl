/* The gradients of norms of single heads (cl/heads_norm.cl). d = X, s = SAVED, z = s / sqrt(mean square + epsilon):
 *   NORM_DX  Y = (g - z * mean(g * z)) / sqrt(mean square + epsilon) with g = d * gamma; of V's heads d;
 *   NORM_DW  partials of d * z, of Q's heads and of K's: [part][2][N].
 * Where RMS is RMS_NONE they are layernorms': s is less its mean, g in NORM_DX less its own, and NORM_DW has partials
 * of d after those of d * z: [part][4][N].
 * Twin of shaders/heads_norm_backward.comp.
 *
 * A work-group takes PART_ROWS tokens at a time, its own ones and then those PARTS * PART_ROWS further on; of each its
 * teams take the heads in turns. What a team has summed up stays in registers; at the end the teams' are added in their
 * order. LOCAL_SIZE, TEAM: a vector of a head a work-item, several teams. Any powers of two are right. */
#include "common.h"

#ifndef HEADS
#define HEADS 3
#endif
#ifndef KEY_HEADS
#define KEY_HEADS 1
#endif
#ifndef NORM_DW
#define NORM_DW 0
#endif
#ifndef NORM_DX
#define NORM_DX 0
#endif
#ifndef EPSILON
#define EPSILON 0x2b8cbcccu /* 1e-12 */
#endif
#ifndef PARTS
#define PARTS 1
#endif
#ifndef PART_ROWS
#define PART_ROWS 1
#endif
#include "row.h"

#define TURN (PARTS * PART_ROWS)
#define SETS (RMS == RMS_NONE ? 4 : 2)

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void heads_norm_backward(BATCH_ARGUMENT
    , INPUT(x)
#if NORM_DX
    , INPUT(gamma)
#endif
    , INPUT(saved)
#if NORM_DW
    , OUTPUT_OF(float, partials)
#endif
#if NORM_DX
    , OUTPUT(y)
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(saved);
#if NORM_DX
    BEGIN(gamma);
    BEGIN_OUTPUT(y);
#endif
    __local float scratch[REDUCE_WORDS];
#if NORM_DW
    __local float of_teams[TEAMS * N];
#endif
    const uint first = group_number() * PART_ROWS, rows = batch[ROWS];
    if (first < rows && group_number() < PARTS) {
        const uint team = local_number() / TEAM;
        float sums[SETS][STEPS][ACCESS]; /* of Q's heads, and of K's */
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint set = 0; set < SETS; set++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++) sums[set][i][c] = 0.0f;
            }
        }
        for (uint turn = first; turn < rows; turn += TURN) {
            const uint end = min(turn + PART_ROWS, rows) * HEADS;
            for (uint own = turn * HEADS + team; own - team < end; own += TEAMS) {
                const uint row = min(own, end - 1), head = row % HEADS;
                const bool there = own < end, normed = head < HEADS - KEY_HEADS, key = head >= HEADS - 2 * KEY_HEADS;
                float d[STEPS][ACCESS], held[STEPS][ACCESS];
                ROW_LOAD(saved, row * N);
#if RMS == RMS_NONE
                const float mean = row_sum(held, scratch) / (float)(N);
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] -= mean;
                }
#endif
                const float root = 1.0f / sqrt(row_square_sum(held, scratch) / (float)(N) + as_float((uint)(EPSILON)));
                row_scale(held, root);
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    LOAD_ACCESS(x, row * N + column_inside(i), d[i]);
                    UNROLL for (uint c = 0; c < ACCESS; c++)
                    {
                        const float change = there && normed && in_row(i) ? d[i][c] * held[i][c] : 0.0f;
                        sums[0][i][c] += key ? 0.0f : change;
                        sums[1][i][c] += key ? change : 0.0f;
#if RMS == RMS_NONE
                        const float shift = there && normed && in_row(i) ? d[i][c] : 0.0f;
                        sums[2][i][c] += key ? 0.0f : shift;
                        sums[3][i][c] += key ? shift : 0.0f;
#endif
                    }
                }
#if NORM_DX
                float part = 0.0f, level = 0.0f, scaled[STEPS][ACCESS];
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    LOAD_ACCESS(gamma, (key ? N : 0) + column_inside(i), scaled[i]);
                    UNROLL for (uint c = 0; c < ACCESS; c++)
                    {
                        scaled[i][c] = d[i][c] * SCALE_OF(scaled[i][c]);
                        part = in_row(i) ? fma(scaled[i][c], held[i][c], part) : part;
                        level += in_row(i) ? scaled[i][c] : 0.0f;
                    }
                }
#if RMS == RMS_NONE
                level = group_sum(level, scratch) / (float)(N);
#else
                level = 0.0f;
#endif
                const float along = group_sum(part, scratch) / (float)(N);
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    UNROLL for (uint c = 0; c < ACCESS; c++)
                        held[i][c] = normed ? root * fma(-held[i][c], along, scaled[i][c] - level) : d[i][c];
                }
                if (there) {
                    ROW_STORE(y, row * N);
                }
#endif
            }
        }
#if NORM_DW
        BEGIN_OUTPUT_OF(float, partials);
        UNROLL for (uint set = 0; set < SETS; set++)
        {
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++)
                    if (in_row(i)) of_teams[team * N + column_of(i) + c] = sums[set][i][c];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint column = local_number(); column < N; column += LOCAL_SIZE) {
                float sum = 0.0f;
                for (uint t = 0; t < TEAMS; t++) sum += of_teams[t * N + column];
                partials[(group_number() * SETS + set) * N + column] = sum;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
#endif
        LAST_BARRIER;
    }
}
