/* Sets a kind's constants in a kernel call (struct op_kind). */
#ifndef WHERRY_GRAPH_KIND_CONSTANTS_H
#define WHERRY_GRAPH_KIND_CONSTANTS_H

#include "graph/kinds.h"

#define CONSTANTS(name)                                                                                                \
    void name(const struct graph *g, const struct group *group, const struct op *o, struct call *call)

CONSTANTS(constants_contract);
CONSTANTS(constants_softmax);
CONSTANTS(constants_softmax_recompute);
CONSTANTS(constants_scores_bias);
CONSTANTS(constants_distance_sums);
CONSTANTS(constants_distance_dw);
CONSTANTS(constants_softmax_dx);
CONSTANTS(constants_dropout);
CONSTANTS(constants_delta);
CONSTANTS(constants_bias);
CONSTANTS(constants_add);
CONSTANTS(constants_scale);
CONSTANTS(constants_relu_dx);
CONSTANTS(constants_silu);
CONSTANTS(constants_silu_dx);
CONSTANTS(constants_gate);
CONSTANTS(constants_gate_dx);
CONSTANTS(constants_angles);
CONSTANTS(constants_rotary);
CONSTANTS(constants_rotary_dx);
CONSTANTS(constants_heads_norm);
CONSTANTS(constants_heads_norm_dw);
CONSTANTS(constants_heads_norm_dx);
CONSTANTS(constants_layernorm);
CONSTANTS(constants_moments);
CONSTANTS(constants_moments_norm);
CONSTANTS(constants_columns);
CONSTANTS(constants_norm_dw);
CONSTANTS(constants_norm_dx);
CONSTANTS(constants_scatter_word);
CONSTANTS(constants_scatter_position);
CONSTANTS(constants_scatter_type);
CONSTANTS(constants_transpose);
CONSTANTS(constants_pool_max_dx);
CONSTANTS(constants_word);
CONSTANTS(constants_position);
CONSTANTS(constants_type);
CONSTANTS(constants_pool_mean);
CONSTANTS(constants_pool_cls);
CONSTANTS(constants_pool_row);
CONSTANTS(constants_pool_last);
CONSTANTS(constants_pool_sum);
CONSTANTS(constants_pool_sqrt);
CONSTANTS(constants_pool_weighted);
CONSTANTS(constants_pool_max);
CONSTANTS(constants_normalize);
CONSTANTS(constants_relu);
CONSTANTS(constants_gelu);
CONSTANTS(constants_gelu_tanh);
CONSTANTS(constants_tanh);
CONSTANTS(constants_log1p_relu);
CONSTANTS(constants_log1p_log1p_relu);
CONSTANTS(constants_relu_slope);
CONSTANTS(constants_gelu_dx);
CONSTANTS(constants_gelu_tanh_dx);
CONSTANTS(constants_tanh_dx);
CONSTANTS(constants_given_dx);
CONSTANTS(constants_gelu_slope);
CONSTANTS(constants_gelu_tanh_slope);
CONSTANTS(constants_gate_slopes);
CONSTANTS(constants_gate_given_dx);
/* Of losses (loss_constants.c). */
CONSTANTS(constants_take);
CONSTANTS(constants_take_dx);
CONSTANTS(constants_pairs);
CONSTANTS(constants_pairs_dx);
CONSTANTS(constants_cross_entropy);
CONSTANTS(constants_squared);
CONSTANTS(constants_binary);
CONSTANTS(constants_cosent);
CONSTANTS(constants_loss_sum);
CONSTANTS(constants_cosent_sum);
CONSTANTS(constants_cross_entropy_dx);
CONSTANTS(constants_squared_dx);
CONSTANTS(constants_binary_dx);
CONSTANTS(constants_cosent_dx);
/* Rows of the first operand and of the result that begin apart from one another. */
void call_set_pitches(const struct graph *g, struct call *call);
/* Of masked language models (entropy_references.c). */
CONSTANTS(constants_pick);
CONSTANTS(constants_entropy);
CONSTANTS(constants_entropy_sum);
CONSTANTS(constants_entropy_dx);
/* Of mixtures of experts (experts.c). */
CONSTANTS(constants_route);
CONSTANTS(constants_dispatch);
CONSTANTS(constants_experts);
CONSTANTS(constants_experts_dw);
CONSTANTS(constants_combine);
CONSTANTS(constants_combine_dx);
CONSTANTS(constants_combine_dw);

#endif
