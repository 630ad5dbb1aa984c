/* Ceiling of NVIDIA's matrix units: products of 16 x 16 by 16 x 8 halves, summed in f32, from registers alone. There is
 * no twin: shaders reach matrix units by an extension of their own.
 *
 * A sub-group of 32 work-items holds TILES_A operands and THREAD_M of the other kind, and a sum for each pair of them, so
 * that many products are under way. Only called where the device has the instruction (compute capability 8.0). y gets the
 * sum of each work-item's numbers, so that none can be left out. */
#include "common.h"
#include "roof.h"

#ifndef THREAD_M
#define THREAD_M 4
#endif
#define TILES_A 2

/* Element values, eighths from -1 on: their products and sums are exact. */
#define A_VALUE(row, k) ((float)(((row)*5 + (k)*3) % 16) * 0.125f - 1.0f)
#define B_VALUE(k, column) ((float)(((k)*7 + (column)*11) % 16) * 0.125f - 1.0f)

INLINE uint pair(const float low, const float high)
{
    uint word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void roof_matrix(BATCH_ARGUMENT, OUTPUT_OF(float, y))
{
    BEGIN_OF(uint, batch);
    BEGIN_OUTPUT_OF(float, y);
    const uint group = group_number();
    if (group < batch[ROOF_GROUPS]) {
        const uint turns = batch[ROOF_TURNS], lane = local_number() % 32, row = lane / 4, at = lane % 4 * 2;
        uint a[TILES_A][4], b[THREAD_M][2];
        float c[TILES_A][THREAD_M][4];
        UNROLL for (uint i = 0; i < TILES_A; i++)
        {
            /* Rows and rows + 8, columns and columns + 8: the instruction's order. */
            UNROLL for (uint q = 0; q < 4; q++)
            {
                const uint r = i * 16 + row + q % 2 * 8, k = at + q / 2 * 8;
                a[i][q] = pair(A_VALUE(r, k), A_VALUE(r, k + 1));
            }
        }
        UNROLL for (uint j = 0; j < THREAD_M; j++)
        {
            UNROLL for (uint q = 0; q < 2; q++)
            {
                const uint k = at + q * 8, column = j * 8 + row;
                b[j][q] = pair(B_VALUE(k, column), B_VALUE(k + 1, column));
            }
            UNROLL for (uint i = 0; i < TILES_A; i++)
            {
                UNROLL for (uint q = 0; q < 4; q++) c[i][j][q] = 0.0f;
            }
        }
        for (uint turn = 0; turn < turns; turn++) {
            UNROLL for (uint u = 0; u < ROOF_UNROLLED; u++)
            {
                UNROLL for (uint i = 0; i < TILES_A; i++)
                {
                    UNROLL for (uint j = 0; j < THREAD_M; j++)
                        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                     : "+f"(c[i][j][0]), "+f"(c[i][j][1]), "+f"(c[i][j][2]), "+f"(c[i][j][3])
                                     : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]),
                                       "r"(b[j][1]));
                }
            }
        }
        float sum = 0.0f;
        UNROLL for (uint i = 0; i < TILES_A; i++)
        {
            UNROLL for (uint j = 0; j < THREAD_M; j++)
                sum += c[i][j][0] + 2.0f * c[i][j][1] + 3.0f * c[i][j][2] + 4.0f * c[i][j][3];
        }
        y[group * LOCAL_SIZE + local_number()] = sum;
    }
}
