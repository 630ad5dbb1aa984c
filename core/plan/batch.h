/* The batch buffer: header and tables that tell kernels where sequences lie, and how many work-groups each step gets.
 */
#ifndef WHERRY_PLAN_BATCH_H
#define WHERRY_PLAN_BATCH_H

#include "graph/call.h"
#include "graph/graph.h"
#include "plan/device.h"

/* What the tables need to know about the kernels that read them. */
struct batch_tables {
    uint32_t query_tile, score_tile;              /* rows per tile, 0: no kernel reads this table */
    uint32_t relative_buckets, relative_distance; /* of a bias by distance (graph/distances.h), 0: there is none */
};

/* Words that the header and tables take at most for batches within these limits. */
uint64_t batch_words_most(const struct batch_tables *tables, const struct batch_shape *limits);
/* Writes header and tables; returns the number of words. */
size_t batch_fill(const struct batch_tables *tables, const struct batch_shape *batch, uint32_t *words);
/* How many rows a number of the header (CONST_ROWS) counts. */
uint64_t batch_rows(const struct batch_shape *batch, uint32_t header);
/* Parts that a kernel with PART_ROWS deals `rows` to, or a product of them its sums. */
uint64_t call_parts(const struct call *call, uint64_t rows);
/* Work-items of a call at most for batches within these limits. */
uint64_t call_items_most(const struct call *call, bool f16, const struct batch_tables *tables,
                         const struct batch_shape *limits);
/* Work-groups of a call for the batch that `words` describes. */
struct grid call_grid(const struct call *call, bool f16, const uint32_t *words);

#endif
