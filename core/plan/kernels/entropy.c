/* pick, entropy, entropy_sum and entropy_backward: the loss of masked language models. */
#include "base/round.h"
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* Two vectors of a row a work-item, or more. */
static void size(struct call *call, const struct sizes *s)
{
    uint32_t items = call_get(call, CONST_N, 1) / (2 * s->vector);
    size_row(call, s, items < 256 ? items : 256);
}

static void size_sum(struct call *call, const struct sizes *s)
{
    size_row(call, s, s->max_rows < 256 ? (uint32_t)s->max_rows : 256);
}

/* ---- their traffic ---- */

static void count_pick(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), items = get(c, CONST_LOCAL_SIZE, 1);
    reads(c, SLOT_X, least(rows, c->words[get(c, CONST_K, HEADER_LABELLED)]) * n);
    reads(c, SLOT_IDS, rows * items);
    writes(c, SLOT_Y, rows * n);
}

static void count_forward(struct count *c)
{
    uint64_t rows = rows_of(c);
    reads(c, SLOT_X, rows * row_loads(c));
    reads(c, SLOT_IDS, rows * get(c, CONST_LOCAL_SIZE, 1));
    reads(c, SLOT_DELTA, rows * (get(c, CONST_LOCAL_SIZE, 1) + ENTROPY_STATE - 1));
    writes(c, SLOT_EXTRA, rows * ENTROPY_STATE);
}

static void count_sum(struct count *c)
{
    reads(c, SLOT_DELTA, rows_of(c) * ENTROPY_STATE);
    writes(c, SLOT_LSE, rows_of(c));
    writes(c, SLOT_EXTRA, 2);
}

static void count_backward(struct count *c)
{
    uint64_t rows = rows_of(c), items = get(c, CONST_LOCAL_SIZE, 1);
    reads(c, SLOT_X, rows * row_loads(c));
    reads(c, SLOT_IDS, rows * items);
    reads(c, SLOT_DELTA, rows * items);
    reads(c, SLOT_EXTRA, rows * items);
    writes(c, SLOT_Y, rows * round_up(get(c, CONST_N, 1), access_of(c)));
}

const struct variant variant_pick = {
    .kernel = "pick",
    .name = "pick",
    .takes = {CONST_N, CONST_ROWS, CONST_K},
    .why = "two 16-byte loads of a row a work-item",
    .size = size,
    .count = count_pick,
    .candidates = choices_elements,
};

const struct variant variant_entropy = {
    .kernel = "entropy",
    .name = "entropy",
    .takes = {CONST_N, CONST_ROWS, CONST_POSITION, CONST_RESIDUAL, CONST_X_STRIDE},
    .pitched = true,
    .why = "a row by two 16-byte loads a work-item or more",
    .size = size,
    .count = count_forward,
    .candidates = choices_rows,
};

const struct variant variant_entropy_sum = {
    .kernel = "entropy_sum",
    .name = "entropy_sum",
    .takes = {CONST_M, CONST_ROWS, CONST_Y_OFFSET, CONST_LSE},
    .why = "one work-group adds all rows",
    .size = size_sum,
    .count = count_sum,
    .candidates = choices_elements,
};

const struct variant variant_entropy_backward = {
    .kernel = "entropy_backward",
    .name = "entropy_backward",
    .takes = {CONST_N, CONST_ROWS, CONST_POSITION, CONST_X_STRIDE, CONST_Y_STRIDE, CONST_W_OFFSET},
    .pitched = true,
    .why = "a row by two 16-byte loads a work-item or more",
    .size = size,
    .count = count_backward,
    .candidates = choices_rows,
};
