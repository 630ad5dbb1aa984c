/* map: elementwise work, one access of 16 bytes a work-item. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* What fills a compute unit. */
static void size(struct call *call, const struct sizes *s) { size_row(call, s, 256); }

static void count_traffic(struct count *c)
{
    bool channels = call_runtime(c->call) == RUNTIME_N;
    uint64_t rows = rows_of(c), n = get(c, channels ? CONST_M : CONST_N, 1);
    reads(c, SLOT_X, rows * n);
    if (channels)
        reads(c, SLOT_BIAS, divide_up(rows, access_of(c)) * n);
    else
        reads_vector(c, SLOT_BIAS, rows, n);
    reads(c, SLOT_RESIDUAL, rows * n);
    reads(c, SLOT_SAVED, rows * n);
    writes(c, SLOT_Y, rows * n);
    writes(c, SLOT_SUM, rows * n);
}

const struct variant variant_map = {
    .kernel = "map",
    .name = "map",
    .takes = {CONST_N, CONST_ROWS, CONST_BIAS, CONST_ACTIVATION, CONST_RESIDUAL, CONST_SUM, CONST_Y_STRIDE, CONST_M,
              CONST_DROPOUT, CONST_KEPT, CONST_DERIVATIVE, CONST_RUNTIME, CONST_SCALE},
    .slopes = true,
    .why = "work-items hide the latency",
    .size = size,
    .count = count_traffic,
    .candidates = choices_elements,
};
