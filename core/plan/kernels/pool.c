/* pool: a row for each sequence, of all its tokens or one, and its L2 norm. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

enum { ITEM_BYTES = 40 }; /* of shared memory: a vector of floats, and what reductions need */

/* Whether all tokens of a sequence are read. */
static bool of_tokens(uint32_t pool)
{
    return pool == POOL_MEAN || pool == POOL_MAX || pool == POOL_SUM || pool == POOL_SQRT || pool == POOL_WEIGHTED;
}

/* Work-items for half of a sequence's tokens, as far as all sequences' run at the same time on a large GPU. At most
 * 32 tokens at a time, because their sums are added one after the other. */
static void size(struct call *call, const struct sizes *s)
{
    uint32_t row = call_get(call, CONST_N, 1) / s->vector, pool = call_get(call, CONST_POOL, POOL_NONE);
    uint64_t longest = s->longest ? s->longest : 1, sequences = divide_up(s->max_rows ? s->max_rows : 1, longest);
    uint64_t most = device_units(s->limits) * 2048 / sequences, tokens = longest / 2 < 32 ? longest / 2 : 32;
    if (most > 1024) most = 1024;
    if (most > tokens * row) most = tokens * row;
    if (most > s->limits->max_local_size) most = s->limits->max_local_size;
    if (most > s->limits->shared_bytes / ITEM_BYTES) most = s->limits->shared_bytes / ITEM_BYTES;
    size_row(call, s, row);
    if (s->limits->cpu || !of_tokens(pool)) return;
    uint32_t items = call_get(call, CONST_LOCAL_SIZE, 1);
    while (items * 2 <= most) items *= 2;
    call_set(call, CONST_LOCAL_SIZE, items);
}

static size_t shared_bytes(const struct call *call) { return call_get(call, CONST_LOCAL_SIZE, 0) * ITEM_BYTES; }

/* ---- its traffic ---- */

/* Loads of a sequence's tokens: eight at a time (four of rows in several steps), or four that are left; some repeat. */
static uint64_t token_loads(uint64_t tokens, uint64_t walkers, uint64_t many)
{
    uint64_t loads = 0;
    for (uint64_t walker = 0; walker < least(walkers, tokens); walker++) {
        uint64_t own = divide_up(tokens - walker, walkers);
        loads += own / many * many + (own % many > 4 ? many : own % many ? 4 : 0);
    }
    return loads;
}

/* A row that the work-items have room for is loaded by as many as it takes. */
static void count_traffic(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), items = get(c, CONST_LOCAL_SIZE, 1), loads = 0;
    uint64_t row = divide_up(n, access_of(c)), pool = get(c, CONST_POOL, POOL_NONE);
    bool steps = row > items;
    if (of_tokens(pool))
        for (uint32_t s = 0; s < rows; s++)
            loads += token_loads(length_of(c, s), steps ? 1 : items / row, steps ? 4 : 8);
    else
        loads = rows;
    reads(c, SLOT_X, loads * (steps ? row_loads(c) : n));
    writes(c, SLOT_Y, rows * n);
    writes(c, SLOT_SUM, rows * n);
}

const struct variant variant_pool = {
    .kernel = "pool",
    .name = "pool",
    .takes = {CONST_N, CONST_ROWS, CONST_SUM, CONST_POOL, CONST_NORMALIZE, CONST_Y_STRIDE, CONST_Y_OFFSET},
    .why = "sequences are few: a vector of a token a work-item, several tokens at a time",
    .size = size,
    .shared_bytes = shared_bytes,
    .count = count_traffic,
    .candidates = choices_rows,
};
