/* loss, loss_sum and loss_backward: losses of rows, their sum, and the gradient. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* Four columns of a row a work-item; of COSENT, whose row looks at all others, four of these. */
static void size(struct call *call, const struct sizes *s)
{
    bool others = call_get(call, CONST_FORM, FORM_CROSS_ENTROPY) == FORM_COSENT;
    uint64_t columns = others ? s->max_rows : call_get(call, CONST_N, 1);
    size_row(call, s, columns / 4 < 256 ? (uint32_t)(columns / 4) : 256);
}

static void size_sum(struct call *call, const struct sizes *s)
{
    size_row(call, s, s->max_rows < 256 ? (uint32_t)s->max_rows : 256);
}

/* ---- their traffic ---- */

static uint64_t columns_of(const struct count *c)
{
    bool of_rows = get(c, CONST_RUNTIME, RUNTIME_FORM) == RUNTIME_N;
    return of_rows ? get(c, CONST_SETS, 1) * rows_of(c) : get(c, CONST_N, 1);
}

/* Of a number that a row's targets begin or end with. */
static void reads_one(struct count *c, uint8_t slot, uint64_t times) { reads(c, slot, rows_of(c) * times); }

static void count_forward(struct count *c)
{
    uint64_t rows = rows_of(c), columns = columns_of(c), items = get(c, CONST_LOCAL_SIZE, 1);
    switch (get(c, CONST_FORM, FORM_CROSS_ENTROPY)) {
    case FORM_CROSS_ENTROPY:
        reads(c, SLOT_X, rows * (2 * columns + items + 1));
        reads_again(c, SLOT_X, rows * columns, groups_at_once(c) * columns * c->storage);
        reads_one(c, SLOT_EXTRA, 2);
        break;
    case FORM_COSENT:
        reads(c, SLOT_X, rows * (2 * rows + items));
        reads_again(c, SLOT_X, (2 * rows - 1) * rows, rows * 3 * c->storage);
        reads(c, SLOT_EXTRA, rows * (2 * rows + items));
        reads_again(c, SLOT_EXTRA, (2 * rows - 1) * rows, rows * 3 * c->storage);
        break;
    default:
        reads(c, SLOT_X, rows * columns);
        reads(c, SLOT_EXTRA, rows * (columns + 1));
    }
    writes(c, SLOT_LSE, rows);
    writes(c, SLOT_Y, rows);
}

static void count_sum(struct count *c)
{
    bool pairs = get(c, CONST_FORM, FORM_SQUARED) == FORM_COSENT;
    reads(c, SLOT_X, (pairs ? 2 : 1) * rows_of(c));
    if (pairs) reads_again(c, SLOT_X, rows_of(c), rows_of(c) * c->storage);
    reads(c, SLOT_RESIDUAL, get(c, CONST_LOCAL_SIZE, 1));
    reads(c, SLOT_EXTRA, 1);
    writes(c, SLOT_LSE, 1);
    writes(c, SLOT_Y, 1);
}

static void count_backward(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), items = get(c, CONST_LOCAL_SIZE, 1);
    reads(c, SLOT_X, rows * items);
    reads(c, SLOT_LSE, rows * items);
    switch (get(c, CONST_FORM, FORM_CROSS_ENTROPY)) {
    case FORM_CROSS_ENTROPY:
        reads(c, SLOT_SAVED, rows * columns_of(c));
        reads(c, SLOT_EXTRA, rows * 2 * items);
        break;
    case FORM_COSENT:
        reads(c, SLOT_SAVED, rows * (rows + items));
        reads_again(c, SLOT_SAVED, (rows - 1) * rows, rows * 3 * c->storage);
        reads(c, SLOT_EXTRA, rows * (rows + items + 1));
        reads_again(c, SLOT_EXTRA, (rows - 1) * rows, rows * 3 * c->storage);
        break;
    default:
        reads(c, SLOT_SAVED, rows * n);
        reads(c, SLOT_EXTRA, rows * (n + items));
    }
    writes(c, SLOT_Y, rows * n);
}

const struct variant variant_loss = {
    .kernel = "loss",
    .name = "loss",
    .takes = {CONST_N, CONST_ROWS, CONST_FORM, CONST_RUNTIME, CONST_SETS, CONST_LSE},
    .why = "four columns of a row a work-item",
    .size = size,
    .count = count_forward,
    .candidates = choices_elements,
};

const struct variant variant_loss_sum = {
    .kernel = "loss_sum",
    .name = "loss_sum",
    .takes = {CONST_M, CONST_ROWS, CONST_FORM, CONST_RESIDUAL, CONST_LSE},
    .why = "one work-group adds all rows",
    .size = size_sum,
    .count = count_sum,
    .candidates = choices_elements,
};

const struct variant variant_loss_backward = {
    .kernel = "loss_backward",
    .name = "loss_backward",
    .takes = {CONST_N, CONST_ROWS, CONST_FORM, CONST_RUNTIME, CONST_SETS},
    .why = "four columns of a row a work-item",
    .size = size,
    .count = count_backward,
    .candidates = choices_elements,
};
