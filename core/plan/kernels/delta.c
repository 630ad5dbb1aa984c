/* delta: of each token and head the sum of the context times its gradient, which attention's backward pass reads. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* Eight work-items share a head. */
static void size(struct call *call, const struct sizes *s) { size_row(call, s, 8 * call_get(call, CONST_HEADS, 1)); }

static size_t shared_bytes(const struct call *call) { return call_get(call, CONST_LOCAL_SIZE, 0) * sizeof(float); }

static void count_traffic(struct count *c)
{
    uint64_t rows = rows_of(c), heads = get(c, CONST_HEADS, 1), row = heads * get(c, CONST_HEAD_DIM, 32);
    reads(c, SLOT_X, rows * row);
    reads(c, SLOT_SAVED, rows * row);
    writes(c, SLOT_DELTA, rows * heads);
}

const struct variant variant_delta = {
    .kernel = "delta",
    .name = "delta",
    .takes = {CONST_N, CONST_ROWS, CONST_HEADS, CONST_HEAD_DIM},
    .why = "eight work-items share a head",
    .size = size,
    .shared_bytes = shared_bytes,
    .count = count_traffic,
    .candidates = choices_elements,
};
