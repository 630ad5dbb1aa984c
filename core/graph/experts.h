/* Mixtures of experts: what a configuration may say of them. */
#ifndef WHERRY_GRAPH_EXPERTS_H
#define WHERRY_GRAPH_EXPERTS_H

#include "graph/graph.h"

enum { EXPERTS_MOST = 64 }; /* whose scores a work-item holds */

/* Fails for numbers that no mixture has, by name. */
bool experts_check(const wherry_model_config *config, struct error *e);

#endif
