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

/* held = (held - mean) / sqrt(variance + epsilon), the variance being the centred row's; with RMS the mean counts as 0.
 * Returns what it was multiplied with. */
static inline float row_standardize(const struct cpu_step *s, float *held, size_t n)
{
    if (!s->value[CONST_RMS]) row_center(held, n);
    float rstd = 1.0f / sqrtf(row_dot(held, held, n) / (float)n + step_epsilon(s));
    row_scale(held, n, rstd);
    return rstd;
}

/* What is added to gamma before a row is scaled by it. */
static inline vec row_one(const struct cpu_step *s)
{
    return v_set(s->value[CONST_RMS] == RMS_ONE_GAMMA ? 1.0f : 0.0f);
}

/* Rows that are about to be read or written, whose lines are asked for while nothing else waits for memory. */
struct ahead {
    const float *rows[4];
    int count;
};

static inline void ahead_add(struct ahead *a, const float *row)
{
    if (row) a->rows[a->count++] = row;
}

INLINE float squares_of(const float *held, size_t n, float mean, const struct ahead *ahead, const int count)
{
    vec sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()}, m = v_set(mean), d;
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) UNROLL for (int c = 0; c < 4; c++)
        {
            d = v_load(held + i + c * LANES) - m;
            sum[c] = v_fma(d, d, sum[c]);
            UNROLL for (int a = 0; a < count; a++) v_prefetch(ahead->rows[a] + i + c * LANES);
        }
    for (; i < n; i += LANES) {
        d = v_load(held + i) - m;
        if (i + LANES > n) d = v_first(d, n - i);
        sum[0] = v_fma(d, d, sum[0]);
    }
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* The sum of a row's squared differences from the mean, in row_dot's order. */
static inline float row_squares(const float *held, size_t n, float mean, const struct ahead *ahead)
{
    switch (ahead->count) {
    case 0:
        return squares_of(held, n, mean, ahead, 0);
    case 1:
        return squares_of(held, n, mean, ahead, 1);
    case 2:
        return squares_of(held, n, mean, ahead, 2);
    case 3:
        return squares_of(held, n, mean, ahead, 3);
    default:
        return squares_of(held, n, mean, ahead, 4);
    }
}

INLINE float gather_of(float *held, const float *x, const float *bias, const float *residual, size_t n)
{
    vec sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) UNROLL for (int c = 0; c < 4; c++)
        {
            vec v = v_load(x + i + c * LANES);
            if (bias) v += v_load(bias + i + c * LANES);
            if (residual) v += v_load(residual + i + c * LANES);
            v_store(held + i + c * LANES, v);
            sum[c] += v;
        }
    for (; i < n; i += LANES) {
        vec v = v_load_at(x, i, n);
        if (bias) v += v_load_at(bias, i, n);
        if (residual) v += v_load_at(residual, i, n);
        v_store(held + i, v);
        sum[0] += v;
    }
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* held = x + bias + residual, of which both may be NULL; returns its sum in row_sum's order. */
static inline float row_gather(float *held, const float *x, const float *bias, const float *residual, size_t n)
{
    if (bias && residual) return gather_of(held, x, bias, residual, n);
    if (bias) return gather_of(held, x, bias, NULL, n);
    if (residual) return gather_of(held, x, NULL, residual, n);
    return gather_of(held, x, NULL, NULL, n);
}

/* to = held * gamma + beta, where there is a beta; `to` may be held, whose end then is no zeros. */
static inline void row_shift(const struct cpu_step *s, float *to, const float *held, size_t n)
{
    const float *gamma = s->at[SLOT_GAMMA], *beta = s->at[SLOT_BETA];
    if (s->value[CONST_BETA]) {
        FOR_VECTORS(i, n)
        v_store_at(to, i, n, v_fma(v_load(held + i), v_load_at(gamma, i, n), v_load_at(beta, i, n)));
    } else {
        FOR_VECTORS(i, n) v_store_at(to, i, n, v_load(held + i) * (v_load_at(gamma, i, n) + row_one(s)));
    }
}

#endif
