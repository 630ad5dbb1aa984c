/* The gradients of adapters, Y, by those of the weights that they are added to, X: of W = W0 + scale B A
 *   dB[row][k] = scale * sum over columns of dW[row][column] A[k][column]
 *   dA[k][column] = scale * sum over rows of dW[row][column] B[row][k]
 * A and B of all matrices lie in W, floats, and their gradients at the same places in Y. A work-group has ADAPTER_SPAN
 * rows of a B or columns of an A, and ADAPTER_RANKS of the rank: it goes through the other side of dW in order,
 * ADAPTER_DEPTH at a time, so that dW is read along its memory and each sum has one order. A work-item has T_EACH of the
 * first and K_EACH of the second, so that each number in local memory is multiplied several times. Twin of
 * shaders/adapter_gradient.comp. LOCAL_SIZE: any power of two up to 256. */
#include "common.h"
#include "adapter.h"

#define T_ITEMS (LOCAL_SIZE < 64 ? LOCAL_SIZE : 64)
#define K_ITEMS (LOCAL_SIZE / T_ITEMS)
#define T_EACH (ADAPTER_SPAN / T_ITEMS)
#define K_EACH (ADAPTER_RANKS / K_ITEMS)
#define PITCH (ADAPTER_SPAN + 4)

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void adapter_gradient(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT_OF(float, w)
    , INPUT_OF(uint, table)
    , OUTPUT_OF(float, y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OF(float, w);
    BEGIN_OF(uint, table);
    BEGIN_OUTPUT_OF(float, y);
    __local float tile[ADAPTER_DEPTH * PITCH], thin[ADAPTER_DEPTH * ADAPTER_RANKS];
    __local uint row_at[ADAPTER_SPAN]; /* where rows of dW lie: the group's, or those that come next */
    const uint number = group_number();
    if (batch[ADAPTER_ACTIVE] != 0 && number < table[ADAPTER_GROUPS]) {
        const uint group = ADAPTER_TABLE + number * GROUP_WORDS;
        const uint m = table[ADAPTER_MATRICES] + table[group + GROUP_MATRIX];
        const uint first = table[group + GROUP_FIRST], k0 = table[group + GROUP_SECOND];
        const bool of_b = table[group + GROUP_OF] == GROUP_OF_B;
        const uint rows = table[m + MATRIX_ROWS], columns = table[m + MATRIX_COLUMNS], rank = batch[ADAPTER_RANK];
        const uint block = table[m + MATRIX_BLOCK], row_step = table[m + MATRIX_ROW_STEP];
        const uint block_step = table[m + MATRIX_BLOCK_STEP], column_step = table[m + MATRIX_COLUMN_STEP];
        const uint from = table[m + MATRIX_GRADIENT], a = table[m + MATRIX_A], b = table[m + MATRIX_B];
        const uint depth = of_b ? columns : rows;
        const uint t0 = local_number() % T_ITEMS * T_EACH, own_k = local_number() / T_ITEMS * K_EACH;
        /* Neighbours are along columns where these lie side by side, else along rows. */
        const bool along = of_b == (column_step != 1);
        const float scale = as_float(batch[ADAPTER_SCALE]);
        float sums[K_EACH][T_EACH];
        UNROLL for (uint k = 0; k < K_EACH; k++)
            UNROLL for (uint t = 0; t < T_EACH; t++) sums[k][t] = 0.0f;
        for (uint i = local_number(); i < (of_b ? ADAPTER_SPAN : ADAPTER_DEPTH); i += LOCAL_SIZE) {
            const uint row = of_b ? first + i : i;
            row_at[i] = from + row / block * block_step + row % block * row_step;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint d0 = 0; d0 < depth; d0 += ADAPTER_DEPTH) {
            for (uint i = local_number(); i < ADAPTER_SPAN * ADAPTER_DEPTH; i += LOCAL_SIZE) {
                const uint t = along ? i % ADAPTER_SPAN : i / ADAPTER_DEPTH;
                const uint d = along ? i / ADAPTER_SPAN : i % ADAPTER_DEPTH;
                const uint column = of_b ? d0 + d : first + t;
                const bool there = (of_b ? first + t : d0 + d) < rows && column < columns;
                tile[d * PITCH + t] = there ? LOAD(x, row_at[of_b ? t : d] + column * column_step) : 0.0f;
            }
            for (uint i = local_number(); i < ADAPTER_DEPTH * ADAPTER_RANKS; i += LOCAL_SIZE) {
                const uint d = of_b ? i % ADAPTER_DEPTH : i / ADAPTER_RANKS;
                const uint k = of_b ? i / ADAPTER_DEPTH : i % ADAPTER_RANKS;
                const bool there = d0 + d < depth && k0 + k < rank;
                const uint at = of_b ? a + (k0 + k) * columns + d0 + d : b + (d0 + d) * rank + k0 + k;
                thin[d * ADAPTER_RANKS + k] = there ? w[at] : 0.0f;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = local_number(); !of_b && i < ADAPTER_DEPTH; i += LOCAL_SIZE) {
                const uint row = d0 + ADAPTER_DEPTH + i;
                row_at[i] = from + row / block * block_step + row % block * row_step;
            }
            UNROLL for (uint d = 0; d < ADAPTER_DEPTH; d++)
            {
                float mine[T_EACH];
                UNROLL for (uint t = 0; t < T_EACH; t++) mine[t] = tile[d * PITCH + t0 + t];
                UNROLL for (uint k = 0; k < K_EACH; k++)
                {
                    const float factor = thin[d * ADAPTER_RANKS + own_k + k];
                    UNROLL for (uint t = 0; t < T_EACH; t++) sums[k][t] = fma(mine[t], factor, sums[k][t]);
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        UNROLL for (uint k = 0; k < K_EACH; k++)
            UNROLL for (uint t = 0; t < T_EACH; t++)
            {
                const uint at = first + t0 + t, number_k = k0 + own_k + k;
                if (number_k < rank && at < (of_b ? rows : columns))
                    y[of_b ? b + at * rank + number_k : a + number_k * columns + at] = scale * sums[k][t];
            }
    }
}
