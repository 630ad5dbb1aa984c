/* Which keys a query sees, and what their scores get by distance alone (ALiBi): of queries and keys by their number in
 * the sequence. */
#ifndef WHERRY_GRAPH_MASK_H
#define WHERRY_GRAPH_MASK_H

#include "base/error.h"
#include "graph/graph.h"

/* As CONST_BEFORE, CONST_AFTER and CONST_ALIBI (interface/interface.h). */
struct mask {
    uint32_t before, after; /* query i sees keys j with i - j < before and j - i < after; 0: no limit */
    bool alibi;
};

/* Whether such masks are understood. */
bool masks_check(const wherry_model_config *config, struct error *e);
/* A layer's. */
struct mask graph_mask(const struct graph *g, int layer);
bool mask_sees(const struct mask *mask, int64_t query, int64_t key);
/* What ALiBi takes from the scores of this head, of `heads`, per token of distance. */
double mask_slope(uint32_t heads, uint32_t head);
/* Pairs of a query and a key that it sees: of a sequence of this length, of a batch (one that does not name its
 * sequences has them all of one length). */
uint64_t mask_pairs_of(const struct mask *mask, uint64_t length);
uint64_t mask_pairs(const struct mask *mask, const struct batch_shape *b);

#endif
