/* The kinds' definitions in double: what every kernel is compared with. */
#ifndef WHERRY_GRAPH_REFERENCES_H
#define WHERRY_GRAPH_REFERENCES_H

#include "graph/values.h"

/* Every read of the operator has values, its outputs have memory. */
#define REFERENCE(name)                                                                                                \
    bool name(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v, struct error *e)

REFERENCE(reference_gather);
REFERENCE(reference_gather_add);
REFERENCE(reference_add);
REFERENCE(reference_scale);
REFERENCE(reference_relu);
REFERENCE(reference_gelu);
REFERENCE(reference_gelu_tanh);
REFERENCE(reference_silu);
REFERENCE(reference_gate);
REFERENCE(reference_angles);
REFERENCE(reference_rotary);
REFERENCE(reference_heads_norm);
REFERENCE(reference_tanh);
REFERENCE(reference_log1p_relu);
REFERENCE(reference_log1p_log1p_relu);
REFERENCE(reference_dropout);
REFERENCE(reference_softmax);
REFERENCE(reference_softmax_recompute);
REFERENCE(reference_scores_bias);
REFERENCE(reference_distance_sums);
REFERENCE(reference_distance_dw);
REFERENCE(reference_softmax_dx);
REFERENCE(reference_delta);
REFERENCE(reference_relu_dx);
REFERENCE(reference_silu_dx);
REFERENCE(reference_gate_dx);
REFERENCE(reference_rotary_dx);
REFERENCE(reference_heads_norm_dw);
REFERENCE(reference_heads_norm_dx);
REFERENCE(reference_gelu_dx);
REFERENCE(reference_gelu_tanh_dx);
REFERENCE(reference_tanh_dx);
REFERENCE(reference_given_dx);
REFERENCE(reference_gelu_slope);
REFERENCE(reference_gelu_tanh_slope);
REFERENCE(reference_gate_slopes);
REFERENCE(reference_gate_given_dx);
REFERENCE(reference_column_sum);
REFERENCE(reference_norm_dw);
REFERENCE(reference_norm_dx);
REFERENCE(reference_scatter);
REFERENCE(reference_transpose);
REFERENCE(reference_pool_mean_dx);
REFERENCE(reference_pool_row_dx);
REFERENCE(reference_pool_last_dx);
REFERENCE(reference_normalize_dx);
REFERENCE(reference_layernorm);
REFERENCE(reference_moments);
REFERENCE(reference_moments_norm);
REFERENCE(reference_pool_mean);
REFERENCE(reference_pool_cls);
REFERENCE(reference_pool_row);
REFERENCE(reference_pool_last);
REFERENCE(reference_pool_sum);
REFERENCE(reference_pool_sqrt);
REFERENCE(reference_pool_weighted);
REFERENCE(reference_pool_max);
REFERENCE(reference_normalize);
/* Of losses (loss_references.c). */
REFERENCE(reference_take);
REFERENCE(reference_take_dx);
REFERENCE(reference_pairs);
REFERENCE(reference_pairs_dx);
REFERENCE(reference_cross_entropy);
REFERENCE(reference_squared);
REFERENCE(reference_binary);
REFERENCE(reference_cosent);
REFERENCE(reference_loss_sum);
REFERENCE(reference_cosent_sum);
REFERENCE(reference_cross_entropy_dx);
REFERENCE(reference_squared_dx);
REFERENCE(reference_binary_dx);
REFERENCE(reference_cosent_dx);
/* Of masked language models (entropy_references.c). */
REFERENCE(reference_pick);
REFERENCE(reference_entropy);
REFERENCE(reference_entropy_sum);
REFERENCE(reference_entropy_dx);
/* Of mixtures of experts (experts.c). */
REFERENCE(reference_route);
REFERENCE(reference_route_dx);
REFERENCE(reference_dispatch);
REFERENCE(reference_experts);
REFERENCE(reference_experts_dw);
REFERENCE(reference_combine);
REFERENCE(reference_combine_dx);
REFERENCE(reference_combine_dw);
REFERENCE(einsum_reference); /* any einsum of two operands (einsum.c) */

/* Multiplies a row by its factors of dropout. */
void reference_drop_row(const struct op *o, const struct values *v, uint32_t row, size_t columns, const double *x,
                        double *y);

#endif
