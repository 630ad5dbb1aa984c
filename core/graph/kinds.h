/* The kinds of operators an encoder is made of. */
#ifndef WHERRY_GRAPH_KINDS_H
#define WHERRY_GRAPH_KINDS_H

#include "graph/graph.h"

extern const struct op_kind kind_gather, kind_gather_position, kind_gather_type; /* embeddings */
extern const struct op_kind kind_contract;                                       /* einsum of two operands */
extern const struct op_kind kind_bias, kind_add, kind_dropout;
extern const struct op_kind kind_relu, kind_gelu, kind_gelu_tanh, kind_tanh;
extern const struct op_kind kind_softmax; /* scaled; with training's dropout, as in the paper's table */
extern const struct op_kind kind_layernorm;
extern const struct op_kind kind_pool_mean, kind_pool_cls, kind_pool_max;
extern const struct op_kind kind_normalize; /* L2 */

/* The double definition of a contraction (einsum.c). */
bool einsum_reference(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v,
                      struct error *e);

#endif
