/* Rows of N elements in scratch memory, whole vectors that end with zeros: loads, statistics, and how kernels of rows
 * divide their work. */
#ifndef WHERRY_CPU_ROWS_H
#define WHERRY_CPU_ROWS_H

#include "backends/cpu/step.h"
#include "vector.h"

/* Rows of an item: some 32 KiB of one operand. */
static inline size_t rows_at_once(const struct cpu_step *s)
{
    size_t rows = 8192 / (s->value[CONST_N] + 1);
    return rows < 1 ? 1 : rows > 64 ? 64 : rows;
}

static inline size_t rows_items(const struct cpu_step *s) { return blocks_of(step_rows(s), rows_at_once(s)); }

static inline size_t row_scratch(const struct cpu_step *s) { return padded(s->value[CONST_N]); }

static inline void row_load(float *held, const float *row, size_t n)
{
    memcpy(held, row, n * sizeof *held);
    row_end(held, n);
}

static inline void row_add(float *held, const float *row, size_t n)
{
    FOR_VECTORS(i, n) v_store(held + i, v_load(held + i) + v_load_at(row, i, n));
}

static inline void row_store(float *row, const float *held, size_t n) { memcpy(row, held, n * sizeof *row); }

static inline float step_epsilon(const struct cpu_step *s)
{
    float epsilon;
    memcpy(&epsilon, &s->value[CONST_EPSILON], sizeof epsilon);
    return epsilon;
}

/* held - its mean; returns the mean. */
static inline float row_center(float *held, size_t n)
{
    float mean = row_sum(held, n) / (float)n;
    FOR_VECTORS(i, n) v_store(held + i, v_load(held + i) - v_set(mean));
    row_end(held, n);
    return mean;
}

/* held = (held - mean) / sqrt(variance + epsilon), the variance being the centred row's. */
static inline void row_standardize(float *held, size_t n, float epsilon)
{
    row_center(held, n);
    row_scale(held, n, 1.0f / sqrtf(row_dot(held, held, n) / (float)n + epsilon));
}

/* to = held * gamma + beta; `to` may be held, whose end then is no zeros. */
static inline void row_shift(float *to, const float *held, const float *gamma, const float *beta, size_t n)
{
    FOR_VECTORS(i, n)
    v_store_at(to, i, n, v_fma(v_load(held + i), v_load_at(gamma, i, n), v_load_at(beta, i, n)));
}

#endif
