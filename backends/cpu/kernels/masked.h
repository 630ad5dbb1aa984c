/* Which keys a query sees and ALiBi's bias (core/interface/mask.h), of a step. */
#ifndef WHERRY_CPU_MASKED_H
#define WHERRY_CPU_MASKED_H

#include <math.h>

#include "backends/cpu/step.h"
#include "tile.h"

#define HIDDEN_SCORE (-1e30f) /* in the place of one that is not seen: below all that are */

/* Keys from the first to the one before the end. */
struct key_range {
    size_t first, end;
};

static inline bool is_masked(const struct cpu_step *s) { return s->value[CONST_BEFORE] || s->value[CONST_AFTER]; }

/* Those that one of the queries from `query` to `last_query` sees, of `count`. */
static inline struct key_range keys_seen(const struct cpu_step *s, size_t query, size_t last_query, size_t count)
{
    size_t before = s->value[CONST_BEFORE], after = s->value[CONST_AFTER];
    return (struct key_range){!before || query < before ? 0 : query - before + 1,
                              !after || last_query + after > count ? count : last_query + after};
}

/* What ALiBi takes from a head's scores per token of distance, 0: nothing. */
static inline float alibi_slope(const struct cpu_step *s, size_t head)
{
    uint32_t heads = s->value[CONST_HEADS], power = 1;
    if (!s->value[CONST_ALIBI]) return 0;
    while (power <= heads / 2) power *= 2;
    return head < power ? exp2f(-8.0f * (float)(head + 1) / (float)power)
                        : exp2f(-4.0f * (float)(2 * (head - power) + 1) / (float)power);
}

/* Keys that a tile of queries walks over: from a multiple of `unit` on. */
static inline struct key_range tile_keys(const struct cpu_step *s, size_t query, size_t queries, size_t length,
                                         size_t unit)
{
    struct key_range seen = keys_seen(s, query, query + queries - 1, length);
    seen.first -= seen.first % unit;
    return seen;
}

/* Scores of keys from `key` on by queries from `query` on, [key][query]: less what ALiBi takes, `slope` a token, and
 * those that are not seen hidden. */
static inline void mask_add(const struct cpu_step *s, float slope, size_t key, size_t keys, size_t query,
                            size_t queries, float *scores)
{
    ptrdiff_t before = s->value[CONST_BEFORE], after = s->value[CONST_AFTER], count = (ptrdiff_t)queries;
    for (size_t k = 0; (slope > 0 || is_masked(s)) && k < keys; k++, scores += TILE_COLUMNS) {
        ptrdiff_t at = (ptrdiff_t)(key + k) - (ptrdiff_t)query; /* the key's place among the queries */
        for (ptrdiff_t q = 0; slope > 0 && q < count; q++)
            scores[q] = fmaf(-slope, (float)(q < at ? at - q : q - at), scores[q]);
        for (ptrdiff_t q = 0; after && q <= at - after && q < count; q++) scores[q] = HIDDEN_SCORE;
        for (ptrdiff_t q = at + before < 0 ? 0 : at + before; before && q < count; q++) scores[q] = HIDDEN_SCORE;
    }
}

/* What the exponential of a score becomes. */
INLINE vec mask_weight(bool masked, vec score, vec weight)
{
    return masked ? v_choose(v_above(score, v_set(0.5f * HIDDEN_SCORE)), weight, v_zero()) : weight;
}

#endif
