/* What the kernels here move, each by a rule beside it (plan/traffic_model.h), from its loops as they are written.
 *
 * What an item asks of memory is every byte of its operands once and every byte of its results once: one core works on
 * it, whose own caches have scratch memory, and what the item reads again or wrote itself. A row of a table counts for
 * each token that names it. What another item had read before comes from the last cache, which the cores share, where
 * what lies between fits it. tests/test_traffic_cpu.c counts the bytes that each item touches. */
#ifndef WHERRY_CPU_TRAFFIC_H
#define WHERRY_CPU_TRAFFIC_H

#include "plan/traffic_model.h"

/* A vector that each of so many items reads. */
static inline void count_vector(struct count *c, uint8_t slot, uint64_t items, uint64_t elements)
{
    reads(c, slot, items * elements);
    if (items) reads_again(c, slot, (items - 1) * elements, count_row_bytes(c));
}

/* An operand of which `first` elements are new and the others were read `distance` bytes ago. */
static inline void count_again(struct count *c, uint8_t slot, uint64_t elements, uint64_t first, uint64_t distance)
{
    reads(c, slot, elements);
    reads_again(c, slot, elements - first, distance);
}

/* Of attention and stored scores, where each of a sequence's tiles reads all of `of_a_tile` elements, and between two
 * of them the heads' other tiles do, of so many bytes each. */
static inline void count_tiles(struct count *c, uint8_t slot, uint64_t tiles, uint64_t of_a_tile, uint64_t bytes)
{
    uint64_t heads = get(c, CONST_HEADS, 1);
    count_again(c, slot, heads * tiles * of_a_tile, heads * of_a_tile, heads * bytes);
}

#endif
