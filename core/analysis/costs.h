/* What an operator or a group computes and moves, as reports have it. */
#ifndef WHERRY_ANALYSIS_COSTS_H
#define WHERRY_ANALYSIS_COSTS_H

#include "graph/group.h"
#include "wherry/wherry_measure.h"

/* `storage`: bytes of an element. */
void cost_of_group(const struct graph *g, const struct batch_shape *b, const struct group *group, size_t storage,
                   wherry_cost *out);
void cost_of_operator(const struct graph *g, const struct batch_shape *b, int index, size_t storage, wherry_cost *out);

#endif
