/* The weights that are computed with, W = X + scale B A: X is what the model has, floats in the same order, and A and B
 * of all matrices lie in GRADIENT. A work-group has a tile of ADAPTER_TILE rows and as many columns of a matrix. Sums are
 * over the rank in order. Twin of shaders/adapter_merge.comp. LOCAL_SIZE: any power of two up to 256. */
#include "common.h"
#include "adapter.h"

#define OUTPUTS (ADAPTER_TILE * ADAPTER_TILE / LOCAL_SIZE)
#define PITCH (ADAPTER_STRIP + 1)
#define UNROLL_K _Pragma("unroll 2") /* whole strips take AMD's compiler 256 registers of gfx1100, and spill; so 126 */

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void adapter_merge(BATCH_ARGUMENT
    , INPUT_OF(float, x)
    , OUTPUT(w)
    , INPUT_OF(uint, table)
    , INPUT_OF(float, factors)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(float, x);
    BEGIN_OUTPUT(w);
    BEGIN_OF(uint, table);
    BEGIN_OF(float, factors);
    __local float left[ADAPTER_TILE * PITCH], right[ADAPTER_TILE * PITCH];
    const uint number = group_number();
    if (batch[ADAPTER_ACTIVE] != 0 && number < table[ADAPTER_GROUPS]) {
        const uint group = ADAPTER_TABLE + number * GROUP_WORDS;
        const uint m = table[ADAPTER_MATRICES] + table[group + GROUP_MATRIX];
        const uint row0 = table[group + GROUP_FIRST], column0 = table[group + GROUP_SECOND];
        const uint rows = table[m + MATRIX_ROWS], columns = table[m + MATRIX_COLUMNS], rank = batch[ADAPTER_RANK];
        const uint block = table[m + MATRIX_BLOCK], row_step = table[m + MATRIX_ROW_STEP];
        const uint block_step = table[m + MATRIX_BLOCK_STEP], column_step = table[m + MATRIX_COLUMN_STEP];
        const uint base = table[m + MATRIX_BASE], to = table[m + MATRIX_WEIGHT];
        const uint a = table[m + MATRIX_A], b = table[m + MATRIX_B];
        const bool along = column_step == 1; /* neighbours are along a row */
        const float scale = as_float(batch[ADAPTER_SCALE]);
        float sums[OUTPUTS];
        for (uint o = 0; o < OUTPUTS; o++) sums[o] = 0.0f;
        for (uint k0 = 0; k0 < rank; k0 += ADAPTER_STRIP) {
            for (uint i = local_number(); i < ADAPTER_TILE * ADAPTER_STRIP; i += LOCAL_SIZE) {
                const uint k = i % ADAPTER_STRIP, row = i / ADAPTER_STRIP;
                const bool there = row0 + row < rows && k0 + k < rank;
                left[row * PITCH + k] = there ? factors[b + (row0 + row) * rank + k0 + k] : 0.0f;
            }
            for (uint i = local_number(); i < ADAPTER_TILE * ADAPTER_STRIP; i += LOCAL_SIZE) {
                const uint k = i / ADAPTER_TILE, column = i % ADAPTER_TILE;
                const bool there = column0 + column < columns && k0 + k < rank;
                right[column * PITCH + k] = there ? factors[a + (k0 + k) * columns + column0 + column] : 0.0f;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            UNROLL_K for (uint k = 0; k < ADAPTER_STRIP; k++)
                UNROLL for (uint o = 0; o < OUTPUTS; o++)
                {
                    const uint i = local_number() + o * LOCAL_SIZE, fast = i % ADAPTER_TILE, slow = i / ADAPTER_TILE;
                    const uint row = along ? slow : fast, column = along ? fast : slow;
                    sums[o] = fma(left[row * PITCH + k], right[column * PITCH + k], sums[o]);
                }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        for (uint o = 0; o < OUTPUTS; o++) {
            const uint i = local_number() + o * LOCAL_SIZE, fast = i % ADAPTER_TILE, slow = i / ADAPTER_TILE;
            const uint row = row0 + (along ? slow : fast), column = column0 + (along ? fast : slow);
            const uint at = row / block * block_step + row % block * row_step + column * column_step;
            if (row < rows && column < columns) STORE(w, to + at, fma(scale, sums[o], x[base + at]));
        }
    }
}
