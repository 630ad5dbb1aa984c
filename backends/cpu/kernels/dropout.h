/* Dropout's factors (core/interface/random.h is the definition), many groups of eight columns at a time. */
#ifndef WHERRY_CPU_DROPOUT_H
#define WHERRY_CPU_DROPOUT_H

#include "backends/cpu/step.h"
#include "interface/random.h"
#include "vector.h"

#define PHILOX_WORD uint32_t
#define PHILOX_MUL(high, low, a, b)                                                                                    \
    {                                                                                                                  \
        uint64_t product_ = (uint64_t)(a) * (b);                                                                       \
        high = (uint32_t)(product_ >> 32);                                                                             \
        low = (uint32_t)product_;                                                                                      \
    }

enum { DROP_GROUPS = 16, DROP_COLUMNS = 8 * DROP_GROUPS };

struct dropout {
    uint32_t threshold, site, step, seed[2];
    float scale; /* of what is kept */
};

static inline struct dropout dropout_of(const struct cpu_step *s)
{
    uint32_t threshold = s->value[CONST_DROPOUT];
    return (struct dropout){.threshold = threshold,
                            .site = s->site,
                            .step = s->batch[HEADER_STEP],
                            .seed = {s->batch[HEADER_SEED], s->batch[HEADER_SEED + 1]},
                            .scale = 65536.0f / (65536.0f - (float)threshold)};
}

/* The random words of groups of eight: word w of group g is words[w][g]. Group g is that of `row + g * row_step` and
 * the columns from 8 * (group + g * group_step) on. */
static inline void dropout_words(const struct dropout *d, uint32_t row, uint32_t row_step, uint32_t group,
                                 uint32_t group_step, uint32_t words[4][DROP_GROUPS])
{
    for (uint32_t g = 0; g < DROP_GROUPS; g++) {
        uint32_t c0 = row + g * row_step, c1 = group + g * group_step, c2 = d->site, c3 = d->step, k0 = d->seed[0],
                 k1 = d->seed[1];
        PHILOX(c0, c1, c2, c3, k0, k1)
        words[0][g] = c0;
        words[1][g] = c1;
        words[2][g] = c2;
        words[3][g] = c3;
    }
}

/* values[0 ... n - 1] *= the factors of the columns from `column` on. */
static inline void row_drop(const struct dropout *d, float *values, size_t n, uint32_t row, uint32_t column)
{
    while (n) {
        uint32_t words[4][DROP_GROUPS], skipped = column % 8;
        float factors[DROP_COLUMNS];
        size_t left = n < DROP_COLUMNS - skipped ? n : DROP_COLUMNS - skipped;
        dropout_words(d, row, 0, column / 8, 1, words);
        for (uint32_t g = 0; g < DROP_GROUPS; g++)
            for (uint32_t c = 0; c < 8; c++) {
                uint32_t half = c % 2 ? words[c / 2][g] >> 16 : words[c / 2][g] & 0xffff;
                factors[8 * g + c] = half < d->threshold ? 0.0f : d->scale;
            }
        for (size_t c = 0; c < left; c++) values[c] *= factors[skipped + c];
        values += left;
        column += (uint32_t)left;
        n -= left;
    }
}

/* The same where rows of the tensor are columns here: element i is (row + i, column), one column for all. */
static inline void column_drop(const struct dropout *d, float *values, size_t n, uint32_t row, uint32_t row_step,
                               uint32_t column)
{
    for (size_t first = 0; first < n; first += DROP_GROUPS) {
        uint32_t words[4][DROP_GROUPS];
        dropout_words(d, row + (uint32_t)first * row_step, row_step, column / 8, 0, words);
        for (size_t c = 0; c < DROP_GROUPS && first + c < n; c++) {
            uint32_t word = words[column % 8 / 2][c], half = column % 2 ? word >> 16 : word & 0xffff;
            values[first + c] *= half < d->threshold ? 0.0f : d->scale;
        }
    }
}

/* The same for `count` columns from `column` on, a multiple of 8, `stride` apart: eight have their words in common. */
static inline void columns_drop(const struct dropout *d, float *values, size_t stride, size_t count, size_t n,
                                uint32_t row, uint32_t row_step, uint32_t column)
{
    for (size_t eight = 0; eight < count; eight += 8)
        for (size_t first = 0; first < n; first += DROP_GROUPS) {
            uint32_t words[4][DROP_GROUPS];
            size_t left = n - first < DROP_GROUPS ? n - first : DROP_GROUPS;
            dropout_words(d, row + (uint32_t)first * row_step, row_step, (column + (uint32_t)eight) / 8, 0, words);
            for (size_t c = eight; c < eight + 8 && c < count; c++) {
                const uint32_t *word = words[c % 8 / 2], shift = c % 2 ? 16 : 0;
                float *to = values + c * stride + first;
                for (size_t i = 0; i < left; i++) to[i] *= (word[i] >> shift & 0xffff) < d->threshold ? 0.0f : d->scale;
            }
        }
}

#endif
