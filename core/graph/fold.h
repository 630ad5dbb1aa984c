/* Norms without a bias folded into the products that read them: gamma into the weights' columns, and the mean, which a
 * layernorm takes from x, into their rows, each less its mean. Then y W = (x W') / sqrt(variance of x + epsilon): a
 * factor for each row of what the product gives. The variance is of the moments of x by strips of its rows, which what
 * makes x writes with it. So one operator becomes two: kind_moments, and kind_moments_norm, which reads them. */
#ifndef WHERRY_GRAPH_FOLD_H
#define WHERRY_GRAPH_FOLD_H

#include "graph/group.h"

/* Whether the operator is a norm that can be folded: in a layer, without a bias, of whole strips, read by nothing but
 * one product with a weight in 16 bits that lies row by row and has no other use. Of a graph that trains none is. */
bool norm_folds(const struct graph *g, const struct op *o);
/* Splits every norm that can be folded, where the plan has groups of products that the filter (NULL: of none) runs both
 * for what makes x with its moments and for what reads them; all others are one operator, whatever they were. Marks
 * gammas and weights of those that are split (tensor.folded). Such products are wgmma's and those on cooperative
 * matrices (cl/gemm_wgmma_moments.h, shaders/moments.glsl). */
bool norms_split(struct graph *g, const struct plan *plan, const struct group_filter *filter, struct error *e);

#endif
