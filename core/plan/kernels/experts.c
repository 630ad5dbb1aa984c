/* route, route_backward, dispatch, combine and combine_weights: what a mixture of experts does besides its products. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* A token is one work-item's. */
static void size_route(struct call *call, const struct sizes *s)
{
    size_row(call, s, 64);
    call_set(call, CONST_TEAM, 1);
}

/* Few work-groups look at all tokens: as many work-items as there may be. */
static void size_dispatch(struct call *call, const struct sizes *s)
{
    uint64_t rows = s->max_rows * call_get(call, CONST_CHOSEN, 1);
    size_row(call, s, rows < 256 ? (uint32_t)rows : 256);
}

static void size_elements(struct call *call, const struct sizes *s) { size_row(call, s, 256); }

/* Two loads of 16 bytes a work-item. */
static void size_weights(struct call *call, const struct sizes *s)
{
    size_row(call, s, call_get(call, CONST_N, 1) / (2 * s->vector));
}

static size_t shared_bytes(const struct call *call)
{
    return 2 * call_get(call, CONST_LOCAL_SIZE, 0) * sizeof(uint32_t);
}

/* ---- their traffic ---- */

/* A token's scores are read for the largest, for each that is chosen, and for the sum; again from the cache. */
static void count_route(struct count *c)
{
    uint64_t rows = rows_of(c), experts = get(c, CONST_EXPERTS, 1), chosen = get(c, CONST_CHOSEN, 1);
    uint64_t times = 1 + chosen + (get(c, CONST_NORMALIZED, 0) ? 0 : 1);
    reads(c, SLOT_X, rows * experts * times);
    reads_again(c, SLOT_X, rows * experts * (times - 1), experts * c->storage);
    writes(c, SLOT_DELTA, rows * chosen);
    writes(c, SLOT_IDS, rows * chosen);
}

static void count_route_backward(struct count *c)
{
    uint64_t rows = rows_of(c), experts = get(c, CONST_EXPERTS, 1), chosen = get(c, CONST_CHOSEN, 1);
    bool normalized = get(c, CONST_NORMALIZED, 0);
    uint64_t of_chosen = normalized ? 2 : 1, of_all = normalized ? 2 : 3; /* the sum is over those chosen, or all */
    reads(c, SLOT_SAVED, rows * (experts * of_all + chosen * of_chosen));
    reads_again(c, SLOT_SAVED, rows * (experts * (of_all - 1) + chosen * of_chosen), experts * c->storage);
    reads(c, SLOT_IDS, rows * chosen * (of_chosen + experts));
    reads_again(c, SLOT_IDS, rows * chosen * (of_chosen + experts - 1), chosen * sizeof(uint32_t));
    reads(c, SLOT_DELTA, 2 * rows * chosen);
    reads_again(c, SLOT_DELTA, rows * chosen, chosen * sizeof(float));
    writes(c, SLOT_Y, rows * experts);
}

static void count_dispatch(struct count *c)
{
    uint64_t experts = get(c, CONST_EXPERTS, 1), rows = rows_of(c) * get(c, CONST_CHOSEN, 1);
    reads(c, SLOT_IDS, 2 * experts * rows);
    reads_again(c, SLOT_IDS, (2 * experts - 1) * rows, rows * sizeof(uint32_t));
    writes(c, SLOT_POSITIONS, rows + experts);
}

static void count_combine(struct count *c)
{
    bool backward = get(c, CONST_FORM, OF_FORWARD) == OF_BACKWARD;
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), chosen = get(c, CONST_CHOSEN, 1);
    uint64_t loads = rows * chosen * divide_up(n, access_of(c));
    reads(c, SLOT_X, rows * n * (backward ? 1 : chosen));
    reads(c, SLOT_DELTA, loads);
    reads_again(c, SLOT_DELTA, loads - rows * chosen, count_row_bytes(c));
    writes(c, SLOT_Y, rows * n * (backward ? chosen : 1));
}

static void count_weights(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), chosen = get(c, CONST_CHOSEN, 1);
    reads(c, SLOT_X, rows * chosen * n);
    reads_again(c, SLOT_X, rows * (chosen - 1) * n, 2 * n * c->storage);
    reads(c, SLOT_SAVED, rows * chosen * n);
    writes(c, SLOT_DELTA, rows * chosen);
}

const struct variant variant_route = {
    .kernel = "route",
    .name = "route",
    .takes = {CONST_ROWS, CONST_EXPERTS, CONST_CHOSEN, CONST_NORMALIZED},
    .why = "a token a work-item",
    .size = size_route,
    .count = count_route,
};

const struct variant variant_route_backward = {
    .kernel = "route_backward",
    .name = "route_backward",
    .takes = {CONST_ROWS, CONST_EXPERTS, CONST_CHOSEN, CONST_NORMALIZED},
    .why = "a token a work-item",
    .size = size_route,
    .count = count_route_backward,
};

const struct variant variant_dispatch = {
    .kernel = "dispatch",
    .name = "dispatch",
    .takes = {CONST_M, CONST_ROWS, CONST_EXPERTS, CONST_CHOSEN},
    .why = "a stretch of the tokens a work-item",
    .size = size_dispatch,
    .shared_bytes = shared_bytes,
    .count = count_dispatch,
};

const struct variant variant_combine = {
    .kernel = "combine",
    .name = "combine",
    .takes = {CONST_N, CONST_ROWS, CONST_CHOSEN, CONST_FORM, CONST_WEIGHTED},
    .why = "work-items hide the latency",
    .size = size_elements,
    .count = count_combine,
    .candidates = choices_elements,
};

const struct variant variant_combine_weights = {
    .kernel = "combine_weights",
    .name = "combine_weights",
    .takes = {CONST_N, CONST_ROWS, CONST_CHOSEN, CONST_HEADS},
    .why = "two 16-byte loads of a row a work-item",
    .size = size_weights,
    .count = count_weights,
    .candidates = choices_elements,
};
