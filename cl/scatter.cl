/* Y[m] = the sum of the rows of X whose token asks for row m of a table, in ascending order of the tokens: the gradient
 * of an embedding table, or of its M rows that come after Y_OFFSET elements. A row of the table per work-group; one that
 * nobody asks for becomes 0. RESIDUAL adds what other readers of the table gave. COLUMN_SUMS, for tables
 * so small that each of their rows has a large share of the tokens: a work-group sums one part of the tokens, and the
 * sums go to SUM [part][M * N] in float. Twin of shaders/scatter.comp.
 *
 * The group looks at all ids, WINDOW at a time: a work-item marks its matches, one bit for each of CHUNKS ids that lie
 * LOCAL_SIZE apart. Where there are any, all work-items walk through the marks in the ids' order, together, and add the
 * rows, four rows' loads in flight. Most rows of a large table have no match, and cost the look alone.
 *
 * LOCAL_SIZE: N / VECTOR rounded up to a power of two, from 128 (because of the ids) to 256. Any power of two is right.
 */
#include "common.h"

#ifndef M
#define M 1
#endif
#ifndef Y_OFFSET
#define Y_OFFSET 0
#endif
#ifndef WORD
#define WORD 0
#endif
#ifndef POSITION
#define POSITION 0
#endif
#ifndef TYPE
#define TYPE 0
#endif
#ifndef RESIDUAL
#define RESIDUAL 0
#endif
#ifndef COLUMN_SUMS
#define COLUMN_SUMS 0
#endif
#ifndef PART_ROWS
#define PART_ROWS 1
#endif
#include "row.h"

#define CHUNKS 16
#define WINDOW (CHUNKS * LOCAL_SIZE)
#define MARK_PARTS 8

#if WORD
#define ASKED(token) ids[token]
#elif POSITION
#define ASKED(token) positions[token]
#elif TYPE
#define ASKED(token) types[token]
#else
#define ASKED(token) (token)
#endif

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void scatter(BATCH_ARGUMENT
    , INPUT(x)
#if RESIDUAL
    , INPUT(residual)
#endif
#if WORD
    , INPUT_OF(uint, ids)
#endif
#if POSITION
    , INPUT_OF(uint, positions)
#endif
#if TYPE
    , INPUT_OF(uint, types)
#endif
#if COLUMN_SUMS
    , OUTPUT_OF(float, sum)
#else
    , OUTPUT(y)
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
#if WORD
    BEGIN_OF(uint, ids);
#endif
#if POSITION
    BEGIN_OF(uint, positions);
#endif
#if TYPE
    BEGIN_OF(uint, types);
#endif
    __local uint marks[LOCAL_SIZE + MARK_PARTS]; /* after the work-items' marks all that are in some of them */
    const uint rows = batch[ROWS], l = local_number();
    const uint parts = COLUMN_SUMS != 0 ? (rows + PART_ROWS - 1) / PART_ROWS : min(rows, 1u);
    if (group_number() < M * parts) {
        const uint asked = group_number() % M, part = group_number() / M;
        const uint first = COLUMN_SUMS != 0 ? part * PART_ROWS : 0;
        const uint end = COLUMN_SUMS != 0 ? min(first + PART_ROWS, rows) : rows;
        float held[STEPS][ACCESS];
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] = 0.0f;
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
            barrier(CLK_LOCAL_MEM_FENCE);
            if (l < MARK_PARTS) {
                mark = 0;
                for (uint i = l; i < LOCAL_SIZE; i += MARK_PARTS) mark |= marks[i];
                marks[LOCAL_SIZE + l] = mark;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            mark = 0;
            for (uint i = 0; i < min((uint)MARK_PARTS, (uint)LOCAL_SIZE); i++) mark |= marks[LOCAL_SIZE + i];
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
            barrier(CLK_LOCAL_MEM_FENCE); /* the marks may be used again */
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
#if COLUMN_SUMS
        BEGIN_OUTPUT_OF(float, sum);
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++)
            {
                if (column_of(i) < N) sum[(part * M + asked) * N + column_of(i) + c] = held[i][c];
            }
        }
#else
        BEGIN_OUTPUT(y);
#if RESIDUAL
        BEGIN(residual);
        ROW_ADD(residual, asked * N);
#endif
        ROW_STORE(y, asked * N);
#endif
        barrier(CLK_LOCAL_MEM_FENCE); /* PoCL: see LAST_BARRIER in product.h */
    }
}
