/* Mixtures of experts: what a configuration may say of them. */
#ifndef WHERRY_GRAPH_EXPERTS_H
#define WHERRY_GRAPH_EXPERTS_H

#include "graph/graph.h"

enum { EXPERTS_MOST = 64 }; /* whose scores a work-item holds */

/* Fails for numbers that no mixture has, by name. */
bool experts_check(const wherry_model_config *config, struct error *e);

/* Numbers for a tensor of numbers (u32) of a layer, as route and dispatch might make them of some batch of this shape,
 * the same in each layer: experts have different numbers of rows, and where there are over three some have none. */
void experts_numbers(const struct graph *g, const struct batch_shape *b, int tensor, uint32_t *to);

#endif
