/* distance_sums and distance_dw: the gradient of a bias by distance, from stored scores' and from their sums. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

static void size(struct call *call, const struct sizes *s) { size_row(call, s, 128); }

static void count_sums(struct count *c)
{
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++)
        reads(c, SLOT_X, length_of(c, s) * length_of(c, s) * get(c, CONST_HEADS, 1));
    writes(c, SLOT_DISTANCES, 2 * (uint64_t)c->words[HEADER_TOKENS] * get(c, CONST_HEADS, 1));
}

/* Every distance has one row of the table. */
static void count_dw(struct count *c)
{
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++)
        reads(c, SLOT_DISTANCES, distance_sums_of(c, s) * get(c, CONST_HEADS, 1));
    reads(c, SLOT_RESIDUAL, get(c, CONST_M, 1));
    writes(c, SLOT_Y, get(c, CONST_M, 1));
}

const struct variant variant_distance_sums = {
    .kernel = "distance_sums",
    .name = "distance_sums",
    .takes = {CONST_HEADS, CONST_RELATIVE},
    .why = "neighbouring work-items add neighbouring diagonals",
    .size = size,
    .count = count_sums,
};

const struct variant variant_distance_dw = {
    .kernel = "distance_dw",
    .name = "distance_dw",
    .takes = {CONST_M, CONST_HEADS, CONST_RELATIVE, CONST_RESIDUAL},
    .why = "a work-group adds the sequences' sums for one element",
    .size = size,
    .count = count_dw,
};
