/* reduce: adds the partial sums that a group's first kernel made of parts of the rows. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* 32 bytes of a part's sums, 32 parts at the same time. On a CPU a vector's width and few parts. */
static void size(struct call *call, const struct sizes *s)
{
    if (s->before) {
        call_set(call, CONST_PART_ROWS, call_get(s->before, CONST_PART_ROWS, 1));
        call_set(call, CONST_PARTS, call_get(s->before, CONST_PARTS, UINT32_MAX));
    }
    size_row(call, s, s->limits->cpu ? 64 : 256);
    call_set(call, CONST_TILE_N, s->limits->cpu ? 16 : 8);
}

static void candidates(const struct call *sized, const struct sizes *s, struct choices *list)
{
    struct call call = *sized;
    (void)s;
    for (uint32_t local = 64; local <= 256; local *= 2)
        for (uint32_t columns = 4; columns <= local; columns *= 2) {
            call_set(&call, CONST_LOCAL_SIZE, local);
            call_set(&call, CONST_TILE_N, columns);
            choices_add(list, &call);
        }
}

static void count_traffic(struct count *c)
{
    uint64_t n = get(c, CONST_N, 1), sets = get(c, CONST_SETS, 1), columns = get(c, CONST_TILE_N, 8);
    reads(c, SLOT_PARTIALS, divide_up(sets * n, columns) * columns * call_parts(c->call, rows_of(c)));
    writes(c, SLOT_Y, n);
    writes(c, SLOT_SUM, n);
    writes(c, SLOT_EXTRA, n);
}

const struct variant variant_reduce = {
    .kernel = "reduce",
    .name = "reduce",
    .takes = {CONST_N, CONST_ROWS, CONST_SETS},
    .why = "32 bytes of a part's sums, 17 parts of each work-item on their way",
    .size = size,
    .count = count_traffic,
    .candidates = candidates,
};
