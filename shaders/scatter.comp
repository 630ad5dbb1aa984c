#version 450
#extension GL_GOOGLE_include_directive : require
/* Y[m] = the sum of the rows of X whose token asks for row m of a table, in ascending order of the tokens: the gradient
 * of an embedding table, or of its M rows that come after Y_OFFSET elements. A row of the table per work-group; one that
 * nobody asks for becomes 0. RESIDUAL adds what other readers of the table gave. COLUMN_SUMS, for tables
 * so small that each of their rows has a large share of the tokens: a work-group sums one part of the tokens, and the
 * sums go to SUM [part][M * N] in float. Twin of cl/scatter.cl.
 *
 * The group looks at all ids, WINDOW at a time: a work-item marks its matches, one bit for each of CHUNKS ids that lie
 * LOCAL_SIZE apart. Where there are any, all work-items walk through the marks in the ids' order, together, and add the
 * rows, four rows' loads in flight. Most rows of a large table have no match, and cost the look alone.
 *
 * LOCAL_SIZE: N / VECTOR rounded up to a power of two, from 128 (because of the ids) to 256. Any power of two is right.
 */
#define REDUCE /* for row.glsl, which has sums of a row, too */
#include "common.glsl"

layout(constant_id = CONST_M) const uint M = 1;
layout(constant_id = CONST_Y_OFFSET) const uint Y_OFFSET = 0;
layout(constant_id = CONST_WORD) const uint WORD = 0;
layout(constant_id = CONST_POSITION) const uint POSITION = 0;
layout(constant_id = CONST_TYPE) const uint TYPE = 0;
layout(constant_id = CONST_RESIDUAL) const uint RESIDUAL = 0;
layout(constant_id = CONST_COLUMN_SUMS) const uint COLUMN_SUMS = 0;
layout(constant_id = CONST_PART_ROWS) const uint PART_ROWS = 1;
#include "row.glsl"

#define CHUNKS 16
#define WINDOW (CHUNKS * LOCAL_SIZE)
#define MARK_PARTS 8

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_RESIDUAL, residual);
INPUT_OF(SLOT_IDS, uint, ids);
INPUT_OF(SLOT_POSITIONS, uint, positions);
INPUT_OF(SLOT_TYPES, uint, types);
OUTPUT(SLOT_Y, y);
OUTPUT_OF(SLOT_SUM, float, sum);

uint ASKED(const uint token)
{
    if (WORD != 0) return ids[token];
    if (POSITION != 0) return positions[token];
    if (TYPE != 0) return types[token];
    return token;
}

shared uint marks[LOCAL_SIZE + MARK_PARTS]; /* after the work-items' marks all that are in some of them */

void main()
{
    const uint rows = batch[ROWS], l = local_number();
    const uint parts = COLUMN_SUMS != 0 ? (rows + PART_ROWS - 1) / PART_ROWS : min(rows, 1);
    if (group_number() < M * parts) {
        const uint asked = group_number() % M, part = group_number() / M;
        const uint first = COLUMN_SUMS != 0 ? part * PART_ROWS : 0;
        const uint end = COLUMN_SUMS != 0 ? min(first + PART_ROWS, rows) : rows;
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] = 0.0;
        }
        uint row0 = 0, row1 = 0, row2 = 0, row3 = 0, count = 0; /* the last `count` of them are not yet added */
        for (uint window = first; window < end; window += WINDOW) {
            uint mark = 0;
            UNROLL for (uint j = 0; j < CHUNKS; j++)
            {
                const uint token = window + j * LOCAL_SIZE + l;
                mark |= (ASKED(min(token, end - 1)) == asked + Y_OFFSET / N && token < end ? 1u : 0u) << j;
            }
            marks[l] = mark;
            barrier();
            if (l < MARK_PARTS) {
                mark = 0;
                for (uint i = l; i < LOCAL_SIZE; i += MARK_PARTS) mark |= marks[i];
                marks[LOCAL_SIZE + l] = mark;
            }
            barrier();
            mark = 0;
            for (uint i = 0; i < min(MARK_PARTS, LOCAL_SIZE); i++) mark |= marks[LOCAL_SIZE + i];
            for (uint j = 0; j < CHUNKS && mark >> j != 0; j++) {
                for (uint i = 0; i < LOCAL_SIZE && (mark >> j & 1) != 0; i++) {
                    if ((marks[i] >> j & 1) != 0) {
                        row0 = row1;
                        row1 = row2;
                        row2 = row3;
                        row3 = window + j * LOCAL_SIZE + i;
                        count++;
                        if (count == 4) {
                            ROW_ADD(x, row0 * N);
                            ROW_ADD(x, row1 * N);
                            ROW_ADD(x, row2 * N);
                            ROW_ADD(x, row3 * N);
                            count = 0;
                        }
                    }
                }
            }
            barrier(); /* the marks may be used again */
        }
        if (count > 2) {
            ROW_ADD(x, row1 * N);
        }
        if (count > 1) {
            ROW_ADD(x, row2 * N);
        }
        if (count > 0) {
            ROW_ADD(x, row3 * N);
        }
        if (COLUMN_SUMS != 0) {
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++)
                {
                    if (column_of(i) < N) sum[(part * M + asked) * N + column_of(i) + c] = held[i][c];
                }
            }
        } else {
            if (RESIDUAL != 0) {
                ROW_ADD(residual, asked * N);
            }
            ROW_STORE(y, asked * N);
        }
    }
}
