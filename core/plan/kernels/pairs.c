/* pairs: products of an example's rows, and their gradient. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

static void size(struct call *call, const struct sizes *s)
{
    size_row(call, s, call_get(call, CONST_N, 1) / (2 * s->vector));
}

/* Of the gradient each row reads the others, but only the first all of them, and all an example's one number. */
static void count_traffic(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), sets = get(c, CONST_SETS, 2);
    if (get(c, CONST_FORM, OF_FORWARD) == OF_FORWARD) {
        reads(c, SLOT_X, sets * rows * n);
        writes(c, SLOT_Y, rows);
        return;
    }
    uint64_t examples = c->words[HEADER_SEQUENCES], others = 2 * (sets - 1) * examples;
    reads(c, SLOT_X, rows * get(c, CONST_LOCAL_SIZE, 1));
    reads_again(c, SLOT_X, rows - examples, examples * n * c->storage);
    reads(c, SLOT_SAVED, others * n);
    reads_again(c, SLOT_SAVED, (others - sets * examples) * n, examples * n * c->storage);
    writes(c, SLOT_Y, rows * n);
}

const struct variant variant_pairs = {
    .kernel = "pairs",
    .name = "pairs",
    .takes = {CONST_N, CONST_ROWS, CONST_SETS, CONST_FORM},
    .why = "two 16-byte loads of a row a work-item",
    .size = size,
    .count = count_traffic,
    .candidates = choices_elements,
};
