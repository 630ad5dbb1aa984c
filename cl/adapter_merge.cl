/* The weights that are computed with, W = X + scale B A: X is what the model has, floats in the same order, and A and B
 * of all matrices lie in GRADIENT. A work-group has a tile of ADAPTER_TILE rows and as many columns of a matrix. Sums are
 * over the rank in order. Twin of shaders/adapter_merge.comp. LOCAL_SIZE: any power of two up to 256. */
#include "common.h"
#include "adapter.h"

#define FAST_ITEMS (LOCAL_SIZE < 32 ? LOCAL_SIZE : 32)
#define SLOW_ITEMS (LOCAL_SIZE / FAST_ITEMS)
#define FAST_EACH (ADAPTER_TILE / FAST_ITEMS)
#define SLOW_EACH (ADAPTER_TILE / SLOW_ITEMS)
#define PITCH (ADAPTER_TILE + 4)

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
    __local float of_row[ADAPTER_STRIP * PITCH], of_column[ADAPTER_STRIP * PITCH];
    __local uint row_at[ADAPTER_TILE];
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
        const uint fast0 = local_number() % FAST_ITEMS, slow0 = local_number() / FAST_ITEMS * SLOW_EACH;
        const float scale = as_float(batch[ADAPTER_SCALE]);
        float sums[SLOW_EACH][FAST_EACH];
        UNROLL for (uint s = 0; s < SLOW_EACH; s++)
            UNROLL for (uint f = 0; f < FAST_EACH; f++) sums[s][f] = 0.0f;
        for (uint i = local_number(); i < ADAPTER_TILE; i += LOCAL_SIZE)
            row_at[i] = (row0 + i) / block * block_step + (row0 + i) % block * row_step;
        for (uint k0 = 0; k0 < rank; k0 += ADAPTER_STRIP) {
            for (uint i = local_number(); i < ADAPTER_TILE * ADAPTER_STRIP; i += LOCAL_SIZE) {
                const uint k = i % ADAPTER_STRIP, row = i / ADAPTER_STRIP;
                const bool there = row0 + row < rows && k0 + k < rank;
                of_row[k * PITCH + row] = there ? factors[b + (row0 + row) * rank + k0 + k] : 0.0f;
            }
            for (uint i = local_number(); i < ADAPTER_TILE * ADAPTER_STRIP; i += LOCAL_SIZE) {
                const uint k = i / ADAPTER_TILE, column = i % ADAPTER_TILE;
                const bool there = column0 + column < columns && k0 + k < rank;
                of_column[k * PITCH + column] = there ? factors[a + (k0 + k) * columns + column0 + column] : 0.0f;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            UNROLL for (uint k = 0; k < ADAPTER_STRIP; k++)
            {
                float fast[FAST_EACH];
                UNROLL for (uint f = 0; f < FAST_EACH; f++)
                {
                    const uint i = k * PITCH + fast0 + f * FAST_ITEMS;
                    fast[f] = along ? of_column[i] : of_row[i];
                }
                UNROLL for (uint s = 0; s < SLOW_EACH; s++)
                {
                    const uint i = k * PITCH + slow0 + s;
                    const float slow = along ? of_row[i] : of_column[i];
                    UNROLL for (uint f = 0; f < FAST_EACH; f++) sums[s][f] = fma(slow, fast[f], sums[s][f]);
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        UNROLL for (uint s = 0; s < SLOW_EACH; s++)
            UNROLL for (uint f = 0; f < FAST_EACH; f++)
            {
                const uint fast = fast0 + f * FAST_ITEMS, slow = slow0 + s;
                const uint row = along ? slow : fast, column = column0 + (along ? fast : slow);
                const uint at = row_at[row] + column * column_step;
                if (row0 + row < rows && column < columns)
                    STORE(w, to + at, fma(scale, sums[s][f], x[base + at]));
            }
    }
}
