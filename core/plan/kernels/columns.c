/* columns: sums over rows, of what dropout and an activation's derivative leave of a gradient. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

enum { ROWS_AT_ONCE = 8, ROWS_AT_ONCE_DERIVATIVE = 4 }; /* whose loads the kernel has in flight */

/* Of the sizes from 256 down to 64 the one that leaves the fewest work-items after a row's end. */
static uint32_t items(const struct device_limits *limits, uint32_t vectors)
{
    uint32_t size = row_size(limits, vectors), best = size;
    for (; size >= 64; size /= 2)
        if (divide_up(vectors, size) * size < divide_up(vectors, best) * best) best = size;
    return best;
}

static void size(struct call *call, const struct sizes *s)
{
    uint32_t n = call_get(call, CONST_N, 1), local = items(s->limits, (uint32_t)divide_up(n, s->access));
    uint32_t rows = rows_of_part(s->limits, s->max_rows, (uint32_t)divide_up(n, local * s->access));
    call_set(call, CONST_LOCAL_SIZE, local);
    call_set(call, CONST_TILE_N, local * s->access);
    call_set(call, CONST_PART_ROWS, (uint32_t)round_up(rows, ROWS_AT_ONCE));
}

/* Without sums it is map's work: the bias has no gradient where there is none. */
static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    (void)s;
    return call_has_slot(call, SLOT_PARTIALS) || variant_refuse(reason, "there is nothing to sum");
}

static void candidates(const struct call *sized, const struct sizes *s, struct choices *list)
{
    struct call call = *sized;
    for (int i = 0; i < PART_COUNTS; i++)
        for (uint32_t local = LOCAL_LEAST; local <= 256; local *= 2) {
            call_set(&call, CONST_LOCAL_SIZE, local);
            call_set(&call, CONST_TILE_N, local * s->access);
            call_set(&call, CONST_PART_ROWS, choices_part_rows(list, choices_parts(list, i), ROWS_AT_ONCE));
            choices_add(list, &call);
        }
}

/* ---- its traffic ---- */

/* Rows of a part are loaded `at_once`: at the end of the part some again. */
static uint64_t part_loads(uint64_t rows, uint64_t part_rows, uint64_t at_once)
{
    uint64_t last = rows % part_rows;
    return (rows / part_rows * divide_up(part_rows, at_once) + divide_up(last, at_once)) * at_once;
}

static void count_traffic(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), part_rows = get(c, CONST_PART_ROWS, 1);
    uint64_t loads =
        part_loads(rows, part_rows, get(c, CONST_DERIVATIVE, ACTIVATION_NONE) ? ROWS_AT_ONCE_DERIVATIVE : ROWS_AT_ONCE);
    reads(c, SLOT_X, loads * n);
    reads(c, SLOT_SAVED, loads * n);
    writes_scratch(c, SLOT_PARTIALS, divide_up(rows, part_rows) * n);
    writes(c, SLOT_Y, rows * n);
}

const struct variant variant_columns = {
    .kernel = "columns",
    .name = "columns",
    .takes = {CONST_N, CONST_ROWS, CONST_DROPOUT, CONST_KEPT, CONST_DERIVATIVE, CONST_COLUMN_SUMS, CONST_X_STRIDE},
    .why = "a work-item owns 16 bytes of columns; parts fill four work-groups a multiprocessor",
    .fits = fits,
    .size = size,
    .count = count_traffic,
    .candidates = candidates,
};
