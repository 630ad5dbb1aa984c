/* pool_backward: gradients of pooling and of the L2 norm, a row for each token or sequence. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

static void size(struct call *call, const struct sizes *s)
{
    bool most = call_get(call, CONST_POOL, POOL_NONE) == POOL_MAX;
    size_row(call, s, call_get(call, CONST_N, 1) / (most ? s->vector : 4 * s->vector));
}

/* ---- its traffic ---- */

/* Of a mean every token's work-group reads its sequence's row. */
static void count_traffic(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), tokens = c->words[HEADER_TOKENS];
    bool largest = get(c, CONST_POOL, POOL_NONE) == POOL_MAX;
    reads(c, SLOT_X, rows * row_loads(c));
    if (get(c, CONST_POOL, POOL_NONE) != POOL_NONE && !largest)
        reads_again(c, SLOT_X, (rows - c->words[HEADER_SEQUENCES]) * n, count_row_bytes(c));
    reads(c, SLOT_SAVED, (largest ? tokens : rows) * row_loads(c));
    writes(c, SLOT_Y, (largest ? tokens : rows) * n);
}

const struct variant variant_pool_backward = {
    .kernel = "pool_backward",
    .name = "pool_backward",
    .takes = {CONST_N, CONST_ROWS, CONST_POOL, CONST_NORMALIZE},
    .why = "four 16-byte stores of a row in flight",
    .size = size,
    .count = count_traffic,
    .candidates = choices_rows,
};
