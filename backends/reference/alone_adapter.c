/* The kernels of low-rank adapters (the files of their names in cl/), element by element in double. */
#include <string.h>

#include "alone.h"
#include "base/half.h"
#include "interface/adapter.h"

struct matrix {
    const uint32_t *words;
    uint32_t rank;
    double scale;
};

static struct matrix matrix_of(const struct alone_step *s, const uint32_t *group)
{
    const uint32_t *table = s->at[SLOT_IDS], *batch = s->at[SLOT_BATCH];
    float scale;
    memcpy(&scale, batch + ADAPTER_SCALE, sizeof scale);
    return (struct matrix){.words = table + table[ADAPTER_MATRICES] + group[GROUP_MATRIX],
                           .rank = batch[ADAPTER_RANK],
                           .scale = (double)scale};
}

static uint32_t groups(const struct alone_step *s)
{
    return ((const uint32_t *)s->at[SLOT_BATCH])[ADAPTER_ACTIVE] ? ((const uint32_t *)s->at[SLOT_IDS])[ADAPTER_GROUPS]
                                                                 : 0;
}

static uint64_t element_at(const struct matrix *m, uint32_t row, uint32_t column)
{
    const uint32_t *w = m->words;
    return (uint64_t)row / w[MATRIX_BLOCK] * w[MATRIX_BLOCK_STEP] + row % w[MATRIX_BLOCK] * w[MATRIX_ROW_STEP] +
           (uint64_t)column * w[MATRIX_COLUMN_STEP];
}

static double gradient_of(const struct alone_step *s, const struct matrix *m, uint32_t row, uint32_t column)
{
    const uint64_t at = m->words[MATRIX_GRADIENT] + element_at(m, row, column);
    return (double)storage_float(step_type(s->step), s->at[SLOT_X], at);
}

static void sum_run(const struct alone_step *s, const struct matrix *m, bool of_b, uint32_t t, uint32_t k)
{
    const uint32_t rows = m->words[MATRIX_ROWS], columns = m->words[MATRIX_COLUMNS];
    const float *a = (const float *)s->at[SLOT_W] + m->words[MATRIX_A],
                *b = (const float *)s->at[SLOT_W] + m->words[MATRIX_B];
    double sum = 0;
    for (uint32_t column = 0; of_b && column < columns; column++)
        sum += gradient_of(s, m, t, column) * (double)a[(size_t)k * columns + column];
    for (uint32_t row = 0; !of_b && row < rows; row++)
        sum += gradient_of(s, m, row, t) * (double)b[(size_t)row * m->rank + k];
    const size_t to =
        of_b ? m->words[MATRIX_B] + (size_t)t * m->rank + k : m->words[MATRIX_A] + (size_t)k * columns + t;
    ((float *)s->at[SLOT_Y])[to] = (float)(m->scale * sum);
}

void alone_adapter_gradient(const struct alone_step *s)
{
    for (uint32_t g = 0; g < groups(s); g++) {
        const uint32_t *group = (const uint32_t *)s->at[SLOT_IDS] + ADAPTER_TABLE + g * GROUP_WORDS;
        const struct matrix m = matrix_of(s, group);
        const bool of_b = group[GROUP_OF] == GROUP_OF_B;
        const uint32_t end = m.words[of_b ? MATRIX_ROWS : MATRIX_COLUMNS];
        for (uint32_t t = group[GROUP_FIRST]; t < end && t < group[GROUP_FIRST] + ADAPTER_SPAN; t++)
            for (uint32_t k = group[GROUP_SECOND]; k < m.rank && k < group[GROUP_SECOND] + ADAPTER_RANKS; k++)
                sum_run(s, &m, of_b, t, k);
    }
}

static void element_merge(const struct alone_step *s, const struct matrix *m, uint32_t row, uint32_t column)
{
    const float *factors = s->at[SLOT_GRADIENT];
    const uint64_t at = element_at(m, row, column), to = m->words[MATRIX_WEIGHT] + at;
    double sum = 0;
    for (uint32_t k = 0; k < m->rank; k++)
        sum += (double)factors[m->words[MATRIX_B] + (size_t)row * m->rank + k] *
               (double)factors[m->words[MATRIX_A] + (size_t)k * m->words[MATRIX_COLUMNS] + column];
    const float value = (float)((double)((const float *)s->at[SLOT_X])[m->words[MATRIX_BASE] + at] + m->scale * sum);
    storage_put(step_type(s->step), value, s->at[SLOT_W], to);
}

void alone_adapter_merge(const struct alone_step *s)
{
    for (uint32_t g = 0; g < groups(s); g++) {
        const uint32_t *group = (const uint32_t *)s->at[SLOT_IDS] + ADAPTER_TABLE + g * GROUP_WORDS;
        const struct matrix m = matrix_of(s, group);
        const uint32_t row0 = group[GROUP_FIRST], column0 = group[GROUP_SECOND];
        for (uint32_t row = row0; row < m.words[MATRIX_ROWS] && row < row0 + ADAPTER_TILE; row++)
            for (uint32_t c = column0; c < m.words[MATRIX_COLUMNS] && c < column0 + ADAPTER_TILE; c++)
                element_merge(s, &m, row, c);
    }
}
