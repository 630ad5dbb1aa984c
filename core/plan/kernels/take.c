/* take: rows of a loss's examples, and back to their places. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

static void size(struct call *call, const struct sizes *s)
{
    size_row(call, s, call_get(call, CONST_N, 1) / (2 * s->vector));
}

static void count_traffic(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), stride = get(c, CONST_X_STRIDE, 1), m = get(c, CONST_M, 0);
    uint64_t sets = get(c, CONST_SETS, 0), made = rows > m ? rows : m;
    uint64_t taken = sets ? sets * c->words[HEADER_SEQUENCES] : c->words[HEADER_TOKENS];
    reads(c, SLOT_X, least(taken, made) * least(n, stride));
    reads(c, SLOT_RESIDUAL, made * n);
    writes(c, SLOT_Y, made * n);
}

const struct variant variant_take = {
    .kernel = "take",
    .name = "take",
    .takes = {CONST_N, CONST_M, CONST_ROWS, CONST_X_STRIDE, CONST_POSITION, CONST_SETS, CONST_FORM, CONST_RESIDUAL},
    .why = "two 16-byte loads of a row a work-item",
    .size = size,
    .count = count_traffic,
    .candidates = choices_elements,
};
