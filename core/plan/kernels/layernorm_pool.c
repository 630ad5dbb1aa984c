/* layernorm_pool: the last layernorm with the pooling after it, a sequence a work-group, which goes through its tokens
 * one by one: cl/layernorm_pool.cl. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* Mesa's llvmpipe ends a work-item's loops after 65535 rounds, whatever is left of them, and a token takes up to 18:
 * its own, and those of two sums by a work-group of 256. */
enum { LONGEST = 65535 / 18 };

/* On a GPU sequences are too few to be normalized by a work-group each, but for one token; on a CPU work-groups take
 * turns anyway, and what is not stored is saved. */
static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    uint32_t pool = call_get(call, CONST_POOL, POOL_NONE);
    if (pool == POOL_NONE) return variant_refuse(reason, "it makes a row for each sequence");
    if (pool > POOL_MAX) return variant_refuse(reason, "it pools by the mean, the first token or the largest alone");
    if (pool != POOL_CLS && !s->limits->cpu) return variant_refuse(reason, "a GPU normalizes tokens side by side");
    if (pool != POOL_CLS && s->longest > LONGEST)
        return variant_refuse(reason, "a long sequence has more tokens than a work-group may go through");
    return true;
}

static void size(struct call *call, const struct sizes *s)
{
    size_row(call, s, call_get(call, CONST_N, 1) / (4 * s->vector));
}

/* ---- its traffic ---- */

static void count_traffic(struct count *c)
{
    uint32_t pool = get(c, CONST_POOL, POOL_NONE);
    uint64_t rows = rows_of(c), tokens = pool == POOL_CLS ? rows : c->words[HEADER_TOKENS];
    reads(c, SLOT_X, tokens * row_loads(c));
    reads_vector(c, SLOT_GAMMA, pool == POOL_MAX ? tokens : rows, row_loads(c));
    reads_vector(c, SLOT_BETA, pool == POOL_MAX ? tokens : rows, row_loads(c));
    writes(c, SLOT_Y, rows * get(c, CONST_N, 1));
}

const struct variant variant_layernorm_pool = {
    .kernel = "layernorm_pool",
    .name = "layernorm_pool",
    .takes = {CONST_N, CONST_ROWS, CONST_NORM, CONST_POOL, CONST_NORMALIZE, CONST_RMS, CONST_BETA},
    .why = "four 16-byte loads of a row in flight, and no normalized row is stored",
    .fits = fits,
    .size = size,
    .count = count_traffic,
    .candidates = choices_rows,
};
