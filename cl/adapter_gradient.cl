/* The gradients of adapters, Y, by those of the weights that they are added to, X: of W = W0 + scale B A
 *   dB[row][k] = scale * sum over columns of dW[row][column] A[k][column]
 *   dA[k][column] = scale * sum over rows of dW[row][column] B[row][k]
 * A and B of all matrices lie in W, floats, and their gradients at the same places in Y. A work-group has ADAPTER_TILE
 * rows of a B or columns of an A, and ADAPTER_RANKS of the rank: it goes through the other side of dW in order,
 * ADAPTER_DEPTH at a time, so that dW is read along its memory and each sum has one order. Twin of
 * shaders/adapter_gradient.comp. LOCAL_SIZE: any power of two up to 256. */
#include "common.h"
#include "adapter.h"

#define OUTPUTS (ADAPTER_TILE * ADAPTER_RANKS / LOCAL_SIZE)
#define PITCH (ADAPTER_DEPTH + 1)

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
    __local float tile[ADAPTER_TILE * PITCH], thin[ADAPTER_DEPTH * ADAPTER_RANKS];
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
        const uint depth = of_b ? columns : rows, ranks = min(rank - k0, (uint)ADAPTER_RANKS);
        /* Neighbours are along columns where these lie side by side, else along rows. */
        const bool along = of_b == (column_step != 1);
        const float scale = as_float(batch[ADAPTER_SCALE]);
        float sums[OUTPUTS];
        for (uint o = 0; o < OUTPUTS; o++) sums[o] = 0.0f;
        for (uint d0 = 0; d0 < depth; d0 += ADAPTER_DEPTH) {
            for (uint i = local_number(); i < ADAPTER_TILE * ADAPTER_DEPTH; i += LOCAL_SIZE) {
                const uint t = along ? i % ADAPTER_TILE : i / ADAPTER_DEPTH;
                const uint d = along ? i / ADAPTER_TILE : i % ADAPTER_DEPTH;
                const uint row = of_b ? first + t : d0 + d, column = of_b ? d0 + d : first + t;
                const bool there = row < rows && column < columns;
                const uint at = from + row / block * block_step + row % block * row_step + column * column_step;
                tile[t * PITCH + d] = there ? LOAD(x, at) : 0.0f;
            }
            for (uint i = local_number(); i < ADAPTER_DEPTH * ADAPTER_RANKS; i += LOCAL_SIZE) {
                const uint d = of_b ? i % ADAPTER_DEPTH : i / ADAPTER_RANKS;
                const uint k = of_b ? i / ADAPTER_DEPTH : i % ADAPTER_RANKS;
                const bool there = d0 + d < depth && k0 + k < rank;
                const uint at = of_b ? a + (k0 + k) * columns + d0 + d : b + (d0 + d) * rank + k0 + k;
                thin[d * ADAPTER_RANKS + k] = there ? w[at] : 0.0f;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint d = 0; d < ADAPTER_DEPTH; d++)
                UNROLL for (uint o = 0; o < OUTPUTS; o++)
                {
                    const uint i = local_number() + o * LOCAL_SIZE, k = i / ADAPTER_TILE;
                    if (k < ranks)
                        sums[o] = fma(tile[i % ADAPTER_TILE * PITCH + d], thin[d * ADAPTER_RANKS + k], sums[o]);
                }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        for (uint o = 0; o < OUTPUTS; o++) {
            const uint i = local_number() + o * LOCAL_SIZE, t = first + i % ADAPTER_TILE, k = k0 + i / ADAPTER_TILE;
            if (k < rank && t < (of_b ? rows : columns))
                y[of_b ? b + t * rank + k : a + k * columns + t] = scale * sums[o];
        }
    }
}
