/* Norms without a bias folded into the products that read them: gamma into the weights' columns, and the mean, which a
 * layernorm takes from x, into their rows, each less its mean. Then y W = (x W') / sqrt(variance of x + epsilon), and a
 * product can normalize its rows by what it sums of them on the way. */
#ifndef WHERRY_GRAPH_FOLD_H
#define WHERRY_GRAPH_FOLD_H

#include "graph/graph.h"

/* Whether the operator is a norm that can be folded: in a layer, without a bias, read by nothing but products with
 * weights in 16 bits that lie row by row and have no other use. Of a graph that trains none is. */
bool norm_folds(const struct graph *g, const struct op *o);
/* Marks gamma and these weights: gamma's tensor then holds one power of two, which all weights are divided by
 * (tensor.folded); a norm alone and any product after it give what they gave. */
void norm_fold(struct graph *g, const struct op *o);

#endif
