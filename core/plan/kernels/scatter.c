/* scatter: the gradient of a table whose rows lists name: each of its rows sums the rows of x that name it. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* A part's rows are walked through by one group. */
static void size(struct call *call, const struct sizes *s)
{
    uint32_t vectors = call_get(call, CONST_N, 1) / s->vector;
    size_row(call, s, vectors > 128 ? vectors : 128);
    if (call_get(call, CONST_COLUMN_SUMS, 0)) call_set(call, CONST_PART_ROWS, rows_of_part(s->limits, s->max_rows, 2));
}

static uint64_t scratch_bytes(const struct call *call, uint64_t max_rows)
{
    uint64_t table = (uint64_t)call_get(call, CONST_M, 1) * call_get(call, CONST_N, 1);
    return call_parts(call, max_rows) * table * sizeof(float);
}

static void candidates(const struct call *sized, const struct sizes *s, struct choices *list)
{
    struct call call = *sized;
    bool parts = call_get(sized, CONST_COLUMN_SUMS, 0);
    (void)s;
    for (int i = 0; i < (parts ? PART_COUNTS : 1); i++) {
        if (parts) call_set(&call, CONST_PART_ROWS, choices_part_rows(list, choices_parts(list, i), 1));
        choices_local_sizes(list, &call, 64, 256);
    }
}

/* ---- its traffic ---- */

/* Every row of the table looks at the whole list; a row of x is read by the one that the list names. */
static void count_traffic(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), m = get(c, CONST_M, 1),
             window = 16 * get(c, CONST_LOCAL_SIZE, 1);
    bool in_parts = get(c, CONST_COLUMN_SUMS, 0) != 0;
    uint64_t part_rows = in_parts ? get(c, CONST_PART_ROWS, 1) : rows ? rows : 1;
    uint64_t ids = m * (rows / part_rows * divide_up(part_rows, window) + divide_up(rows % part_rows, window)) * window;
    uint8_t list = get(c, CONST_WORD, 0) ? SLOT_IDS : get(c, CONST_POSITION, 0) ? SLOT_POSITIONS : SLOT_TYPES;
    reads(c, SLOT_X, rows * row_loads(c));
    reads(c, SLOT_RESIDUAL, rows ? m * row_loads(c) : 0);
    reads(c, list, ids);
    if (m) reads_again(c, list, (m - 1) * rows, rows * sizeof(uint32_t) + count_row_bytes(c));
    if (in_parts)
        writes_scratch(c, SLOT_SUM, divide_up(rows, part_rows) * m * n);
    else
        writes(c, SLOT_Y, m * n);
}

const struct variant variant_scatter = {
    .kernel = "scatter",
    .name = "scatter",
    .takes = {CONST_N, CONST_M, CONST_ROWS, CONST_WORD, CONST_POSITION, CONST_TYPE, CONST_COLUMN_SUMS, CONST_Y_OFFSET,
              CONST_RESIDUAL},
    .why = "128 ids at a time, a vector of the row a work-item",
    .size = size,
    .scratch_bytes = scratch_bytes,
    .count = count_traffic,
    .candidates = candidates,
};
