/* A bias of scores by how far the key is from the query: which row of its table each distance has. */
#ifndef WHERRY_GRAPH_DISTANCES_H
#define WHERRY_GRAPH_DISTANCES_H

#include "base/error.h"

enum { DISTANCE_MOST = 128 }; /* that kernels keep apart: a row of the table has room for so many on either side */

/* Whether kernels run a table of so many rows; 0 and 0: none. */
bool distances_check(uint32_t buckets, uint32_t distance, struct error *e);
/* The row, of `buckets`, of a key that is `offset` tokens after its query (T5's rule): half of the rows are for keys
 * after the query; of a half, half of the rows have a distance each, the others stretches that grow by a constant
 * factor, the last one all from about `distance` on. */
uint32_t distance_bucket(uint32_t buckets, uint32_t distance, int32_t offset);

#endif
