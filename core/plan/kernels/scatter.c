/* scatter: the gradient of a table whose rows lists name: each of its rows sums the rows of x that name it. */
#include "base/round.h"
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

enum {
    TILE_MOST = 8,
    TILE_MOST_CPU = 2, /* whose compilers take their time over many rows */
    TILE_VALUES = 64,  /* of a work-item, of all rows of the table that its group has */
    GROUPS_LEAST = 8   /* for each multiprocessor */
};

/* Rows of a table that a group has: they share the look at the ids, but of a table with few rows each is summed from so
 * many that there have to be many groups. */
static uint32_t tile_rows(const struct call *call, const struct sizes *s)
{
    uint64_t items = (uint64_t)s->access * call_get(call, CONST_LOCAL_SIZE, 1);
    uint64_t values = divide_up(call_get(call, CONST_N, 1), items) * s->access;
    uint32_t tile = s->limits->cpu ? TILE_MOST_CPU : TILE_MOST;
    while (tile > 1 &&
           (tile * values > TILE_VALUES || call_get(call, CONST_M, 1) / tile < GROUPS_LEAST * device_units(s->limits)))
        tile /= 2;
    return tile;
}

/* A part's rows are walked through by one group. */
static void size(struct call *call, const struct sizes *s)
{
    uint32_t vectors = call_get(call, CONST_N, 1) / s->vector;
    size_row(call, s, vectors > 128 ? vectors : 128);
    if (call_get(call, CONST_COLUMN_SUMS, 0))
        call_set(call, CONST_PART_ROWS, rows_of_part(s->limits, s->max_rows, 2));
    else
        call_set(call, CONST_TILE_M, tile_rows(call, s));
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
        /* With fewer work-items a row of the table takes more registers of each. */
        choices_local_sizes(list, &call, parts ? 64 : call_get(sized, CONST_LOCAL_SIZE, 64), 256);
    }
}

/* ---- its traffic ---- */

enum { LOOKS = 8 }; /* as in the kernel */

/* Ids that a group asks for in a stretch of `rows`: a work-item that has one asks for LOOKS, and repeats the last. */
static uint64_t looks(const struct count *c, uint64_t rows)
{
    uint64_t items = get(c, CONST_LOCAL_SIZE, 1), at_once = LOOKS * items;
    return rows / at_once * at_once + LOOKS * least(rows % at_once, items);
}

/* Every group looks at the whole list; a row of x is read by the one that the list names, which, where it has several
 * rows of the table, looks once more which one that is. */
static void count_traffic(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), m = get(c, CONST_M, 1), tile = get(c, CONST_TILE_M, 1);
    bool in_parts = get(c, CONST_COLUMN_SUMS, 0) != 0;
    uint64_t part_rows = in_parts ? get(c, CONST_PART_ROWS, 1) : rows ? rows : 1, groups = divide_up(m, tile);
    uint64_t ids = groups * (rows / part_rows * looks(c, part_rows) + looks(c, rows % part_rows));
    uint8_t list = get(c, CONST_WORD, 0) ? SLOT_IDS : get(c, CONST_POSITION, 0) ? SLOT_POSITIONS : SLOT_TYPES;
    if (tile > 1) ids += rows * get(c, CONST_LOCAL_SIZE, 1);
    reads(c, SLOT_X, rows * row_loads(c));
    reads(c, SLOT_RESIDUAL, rows ? m * row_loads(c) : 0);
    reads(c, list, ids);
    if (groups) reads_again(c, list, (groups - 1) * rows, rows * sizeof(uint32_t) + count_row_bytes(c));
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
    .why = "rows of the table that share the look at the ids, a vector of the row a work-item",
    .size = size,
    .scratch_bytes = scratch_bytes,
    .count = count_traffic,
    .candidates = candidates,
};
