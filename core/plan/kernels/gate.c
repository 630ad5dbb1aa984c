/* gate: of two neighbours, one through an activation, times the other; its gradient, and what that multiplies with. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* What fills a compute unit. */
static void size(struct call *call, const struct sizes *s) { size_row(call, s, 256); }

static void count_traffic(struct count *c)
{
    bool backward = get(c, CONST_DERIVATIVE, ACTIVATION_NONE) != ACTIVATION_NONE;
    bool slopes = get(c, CONST_ACTIVATION, ACTIVATION_NONE) >= SLOPES_OF;
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1);
    reads(c, SLOT_X, rows * n * (backward ? 1 : 2));
    reads(c, SLOT_SAVED, 2 * rows * n);
    reads(c, SLOT_BIAS, 2 * rows * n);
    if (rows) reads_again(c, SLOT_BIAS, 2 * (rows - 1) * n, count_row_bytes(c));
    writes(c, SLOT_Y, rows * n * (backward || slopes ? 2 : 1));
    writes(c, SLOT_SUM, 2 * rows * n);
}

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    (void)s;
    return call_get(call, CONST_SUM, 0) != SUM_SLOPE || variant_refuse(reason, "it makes a gate's slopes alone");
}

const struct variant variant_gate = {
    .kernel = "gate",
    .name = "gate",
    .takes = {CONST_N, CONST_ROWS, CONST_BIAS, CONST_SUM, CONST_ACTIVATION, CONST_DROPOUT, CONST_DERIVATIVE,
              CONST_GATE},
    .slopes = true,
    .why = "work-items hide the latency",
    .fits = fits,
    .size = size,
    .count = count_traffic,
    .candidates = choices_elements,
};
