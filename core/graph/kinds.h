/* The kinds of operators an encoder is made of. */
#ifndef WHERRY_GRAPH_KINDS_H
#define WHERRY_GRAPH_KINDS_H

#include "graph/call.h"
#include "graph/graph.h"

struct group;
struct values;

/* What a kind of operator is. */
struct op_kind {
    const char *name;
    const char *kernel; /* that runs an operator alone (of products and of maps over pairs of tokens: group_single) */
    enum launch launch;
    wherry_class class_;
    double flops_per_element; /* of the output, or of input 0 where flops_on_input; contractions: their einsum tells */
    /* The definition, in double. */
    bool (*reference)(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v,
                      struct error *e);
    /* Adds the constants of the group's operator o to the call of the group's kernel. A kind that is computed in
     * another way than those that stood in its role so far has a constant of its own: a kernel refuses a call with one
     * that it does not know (plan/variants.h), and so every row that it runs. */
    void (*constants)(const struct graph *g, const struct group *group, const struct op *o, struct call *call);
    uint8_t in_slot[OP_MAX_IN]; /* SLOT_* of each input when it comes from outside the group */
    uint8_t
        out_slot[OP_MAX_OUT]; /* SLOT_* of each output that leaves the group; 0: SUM for the first, Y for the last */
    bool flops_on_input;
    bool sums_columns;      /* the outputs are sums over all rows: a second kernel adds what parts of the rows give */
    bool recomputable;      /* row by row, without a product: cheap enough to compute twice */
    int gathers;            /* > 0: of this input only the rows that the input before it names are read */
    bool reads_output_size; /* of input 0 only as many elements are read as the output has */
};

extern const struct op_kind kind_gather, kind_gather_position, kind_gather_type; /* embeddings */
extern const struct op_kind kind_contract;                                       /* einsum of two operands */
extern const struct op_kind kind_bias, kind_add, kind_dropout;
extern const struct op_kind kind_scale; /* times attribute, which is the gradient's factor, too */
extern const struct op_kind kind_relu, kind_gelu, kind_gelu_tanh, kind_silu, kind_tanh;
extern const struct op_kind kind_gate;       /* of two neighbours, one through an activation, times the other */
extern const struct op_kind kind_heads_norm; /* of each head of Q and K, by its root mean square */
extern const struct op_kind kind_wide_norm;  /* a layernorm of all heads of Q at once, and of all of K */
extern const struct op_kind kind_angles;     /* of rotary positions, by a text's length */
extern const struct op_kind kind_rotary;     /* turns pairs of channels of Q and K by the token's position */
extern const struct op_kind kind_gelu_slope, kind_gelu_tanh_slope;  /* what their gradients multiply with */
extern const struct op_kind kind_gate_slopes;                       /* the same of a gate, for each of a pair */
extern const struct op_kind kind_log1p_relu, kind_log1p_log1p_relu; /* log(1 + relu(x)), and log(1 + that) */
extern const struct op_kind kind_softmax;                           /* scaled */
extern const struct op_kind kind_scores_bias;                       /* by the distance of key and query */
extern const struct op_kind kind_layernorm, kind_rmsnorm;           /* their third input, the bias, may be missing */
extern const struct op_kind kind_moments;                           /* of strips of rows (fold.h) */
extern const struct op_kind kind_moments_norm;                      /* a row times what such moments make of it */
extern const struct op_kind kind_pool_mean, kind_pool_cls, kind_pool_max;
extern const struct op_kind kind_pool_row, kind_pool_last, kind_pool_sum, kind_pool_sqrt, kind_pool_weighted;
extern const struct op_kind kind_normalize; /* L2 */

/* Of mixtures of experts (experts.c). */
extern const struct op_kind kind_route;    /* a token's experts and their weights, of the scores of all */
extern const struct op_kind kind_dispatch; /* each expert's rows, in the tokens' order */
extern const struct op_kind kind_experts;  /* products of rows with their expert's weight */
extern const struct op_kind kind_combine;  /* the sum of a token's rows, weighted or not */
extern const struct op_kind kind_route_dx, kind_experts_dw, kind_combine_dx, kind_combine_dw;

/* Of the backward pass: products are kind_contract, too, residuals kind_add, dropout's gradient is dropout. */
extern const struct op_kind kind_softmax_recompute; /* the weights from scores and LSE */
extern const struct op_kind kind_softmax_dx, kind_delta;
extern const struct op_kind kind_distance_sums, kind_distance_dw; /* of a bias by distance */
extern const struct op_kind kind_relu_dx, kind_gelu_dx, kind_gelu_tanh_dx, kind_silu_dx, kind_tanh_dx;
extern const struct op_kind kind_gate_dx, kind_rotary_dx;
extern const struct op_kind kind_given_dx;      /* times a slope */
extern const struct op_kind kind_gate_given_dx; /* times both slopes of a gate */
extern const struct op_kind kind_column_sum;    /* the gradient of a bias */
extern const struct op_kind kind_norm_dw, kind_norm_dx, kind_rmsnorm_dw, kind_rmsnorm_dx;
extern const struct op_kind kind_heads_norm_dw, kind_heads_norm_dx, kind_wide_norm_dw, kind_wide_norm_dx;
extern const struct op_kind kind_scatter_word, kind_scatter_position, kind_scatter_type; /* of embedding tables */
extern const struct op_kind kind_transpose; /* a weight in its other order */
extern const struct op_kind kind_pool_mean_dx, kind_pool_cls_dx, kind_pool_last_dx, kind_pool_max_dx, kind_normalize_dx;

/* Of losses (loss.c); each may be the last but for its sum. */
extern const struct op_kind kind_take, kind_take_dx;   /* some of each example's rows, cut; they go back beside zeros */
extern const struct op_kind kind_pairs, kind_pairs_dx; /* products of an example's rows */
extern const struct op_kind kind_cross_entropy, kind_squared, kind_binary, kind_cosent; /* a row's loss, weighted */
extern const struct op_kind kind_cross_entropy_dx, kind_squared_dx, kind_binary_dx, kind_cosent_dx;
extern const struct op_kind kind_loss_sum, kind_cosent_sum; /* of all rows, and of the losses before */

/* Of masked language models (entropy.c). */
extern const struct op_kind kind_pick, kind_pick_dx; /* the rows that a list names, 0 where it names none */
extern const struct op_kind kind_entropy, kind_entropy_sum, kind_entropy_dx;

/* Whether a weight's gradient is of a transposed weight, so that what the operator's second input gives are its rows:
 * it is computed with the operands exchanged. */
bool op_exchanged(const struct graph *g, const struct op *o);

/* Rows of the matrix that a transposition reads: of the letters that its result has last. */
uint32_t op_transposed_rows(const struct graph *g, const struct op *o);

/* Dropout's threshold of 65536 for a probability: at least 1, at most 65535. */
uint32_t dropout_threshold(float probability);

#endif
