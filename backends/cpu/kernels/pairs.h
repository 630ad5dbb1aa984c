/* What is done with pairs of neighbours of a row: gates, whose halves lie apart in scratch memory meanwhile, and rotary
 * positions. */
#ifndef WHERRY_CPU_PAIRS_H
#define WHERRY_CPU_PAIRS_H

#include "dropout.h"
#include "formulas.h"
#include "rows.h"

/* Whole vectors each. */
struct halves {
    float *gated, *other, *held;
};

/* `bias` may be NULL. */
static inline void halves_load(const struct cpu_step *s, const float *pairs, const float *bias, size_t n,
                               const struct halves *to)
{
    size_t gated = s->value[CONST_GATE] == GATE_ODD, other = !gated;
    for (size_t i = 0; i < n; i++) {
        to->gated[i] = pairs[2 * i + gated] + (bias ? bias[2 * i + gated] : 0.0f);
        to->other[i] = pairs[2 * i + other] + (bias ? bias[2 * i + other] : 0.0f);
    }
    row_end(to->gated, n);
    row_end(to->other, n);
}

static inline void halves_store(const struct cpu_step *s, const struct halves *from, size_t n, float *pairs)
{
    size_t gated = s->value[CONST_GATE] == GATE_ODD, other = !gated;
    for (size_t i = 0; i < n; i++) {
        pairs[2 * i + gated] = from->gated[i];
        pairs[2 * i + other] = from->other[i];
    }
}

static inline void row_times(float *row, const float *factors, size_t n)
{
    FOR_VECTORS(i, n) v_store(row + i, v_load(row + i) * v_load(factors + i));
}

/* h->gated = what n pairs make, which are those of the result's columns from `column` on. */
static inline void halves_gate(const struct cpu_step *s, const struct dropout *drop, size_t row, size_t column,
                               size_t n, const struct halves *h)
{
    row_activate(h->gated, n, s->value[CONST_ACTIVATION]);
    row_times(h->gated, h->other, n);
    if (drop->threshold) row_drop(drop, h->gated, n, (uint32_t)row, (uint32_t)column);
}

/* The pairs at `to` = their gradients, where h->held has those of what they made. */
static inline void halves_differentiate(const struct cpu_step *s, size_t n, const struct halves *h, float *to)
{
    row_times(h->other, h->held, n);
    row_derive(h->other, n, s->value[CONST_DERIVATIVE], h->gated);
    row_activate(h->gated, n, s->value[CONST_DERIVATIVE]);
    row_times(h->held, h->gated, n);
    const struct halves made = {h->other, h->held, NULL};
    halves_store(s, &made, n, to);
}

/* Whether a column of Q, K and V is of Q or K. */
static inline bool turns(const struct cpu_step *s, size_t column)
{
    if (s->value[CONST_QKV_INTERLEAVED]) return column / s->value[CONST_HEAD_DIM] % 3 != 2;
    size_t n = s->value[CONST_N], keys = s->value[CONST_KEY_HEADS];
    return column < (keys ? n - keys * s->value[CONST_HEAD_DIM] : n / 3 * 2);
}

/* Pairs of Q and K of a token, of n columns of a row from `column` on, an even one; `angles` has its cosines and sines.
 */
static inline void turn_columns(const struct cpu_step *s, const float *angles, size_t column, size_t n, float *values)
{
    size_t dim = s->value[CONST_HEAD_DIM];
    float sense = s->value[CONST_ROTARY] == ROTARY_BACKWARD ? -1.0f : 1.0f;
    for (size_t end; n; column += end, values += end, n -= end) {
        size_t first = column % dim;
        end = dim - first < n ? dim - first : n;
        if (!turns(s, column)) continue;
        for (size_t c = 0; c < end; c += 2) {
            float cosine = angles[first + c], sine = sense * angles[first + c + 1], x = values[c], y = values[c + 1];
            values[c] = x * cosine - y * sine;
            values[c + 1] = y * cosine + x * sine;
        }
    }
}

#endif
