/* layernorm: rows with what comes before it, a bias, dropout, a residual. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

static void count_traffic(struct count *c)
{
    uint64_t rows = rows_of(c), walked = rows_walked(c), n = get(c, CONST_N, 1), loads = row_loads(c);
    reads(c, SLOT_X, walked * loads);
    reads_vector(c, SLOT_BIAS, walked, loads);
    reads(c, SLOT_RESIDUAL, walked * loads);
    reads_vector(c, SLOT_GAMMA, walked, loads);
    reads_vector(c, SLOT_BETA, walked, loads);
    writes(c, SLOT_Y, rows * n);
    writes(c, SLOT_SUM, rows * n);
}

const struct variant variant_layernorm = {
    .kernel = "layernorm",
    .name = "layernorm",
    .takes = {CONST_N, CONST_ROWS, CONST_BIAS, CONST_RESIDUAL, CONST_NORM, CONST_SUM, CONST_DROPOUT, CONST_KEPT,
              CONST_RMS, CONST_BETA},
    .why = "four 16-byte loads of a row in flight",
    .size = size_team,
    .count = count_traffic,
    .candidates = choices_teams,
};
