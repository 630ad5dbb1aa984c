/* What the tables of the forward and of the backward pass share while a graph is built. */
#ifndef WHERRY_GRAPH_BUILDER_H
#define WHERRY_GRAPH_BUILDER_H

#include "graph/kinds.h"

/* A layer's tensors, by their place in the tables. X is what the layer before made, DY the gradient of what this layer
 * makes; D_ are gradients, DW_ those of weights. */
enum {
    NONE = -1,
    X,
    W_QKV,
    B_QKV,
    W_QKV_COPY, /* in the other order, like the other copies; where there is none, the weight */
    W_QK,
    W_Q,
    W_K,
    W_V,
    QKV_RAW,
    QK_RAW,
    Q_RAW,
    K_RAW,
    V_RAW,
    QKV_ALL,
    Q,
    K,
    V,
    BETA,
    ALPHA,
    LSE,
    ALPHA_DROPPED,
    GAMMA,
    W_OUT,
    W_OUT_COPY,
    B_OUT,
    OUT_RAW,
    OUT_BIASED,
    OUT_DROPPED,
    SUM1,
    G1,
    B1,
    N1,
    W_LIN1,
    W_LIN1_COPY,
    B_LIN1,
    LIN1_RAW,
    LIN1_BIASED,
    ACTIVE,
    ACTIVE_DROPPED,
    W_LIN2,
    W_LIN2_COPY,
    B_LIN2,
    LIN2_RAW,
    LIN2_BIASED,
    LIN2_DROPPED,
    SUM2,
    G2,
    B2,
    N2,
    /* backward */
    DY,
    D_SUM2,
    D_LIN2,
    D_ACTIVE_DROPPED,
    D_ACTIVE,
    D_LIN1,
    D_FF,  /* of the feed-forward's input, by way of lin1 */
    D_FFN, /* pre-LN: that through the layernorm before */
    D_N1,
    D_SUM1,
    D_OUT,
    D_GAMMA,
    DELTA,
    BETA_RECOMPUTE,
    ALPHA_RECOMPUTE,
    ALPHA_DROPPED_RECOMPUTE,
    D_ALPHA_DROPPED,
    D_ALPHA,
    D_BETA,
    D_QKV,
    D_Q,
    D_K,
    D_V,
    D_QK_ROWS, /* the same as rows of tokens */
    D_Q_ROWS,
    D_K_ROWS,
    D_V_ROWS,
    D_ATT_FIRST, /* the products of Q, K and V apart, and their sums so far */
    D_ATT_SECOND,
    D_ATT_SECOND_SUM,
    D_ATT_LAST,
    D_ATT, /* of attention's input, by way of the product */
    D_ATTN,
    DX,
    DW_QKV,
    DW_QK,
    DW_Q,
    DW_K,
    DW_V,
    DB_QKV,
    DW_OUT,
    DB_OUT,
    DG1,
    DB1,
    DW_LIN1,
    DB_LIN1,
    DW_LIN2,
    DB_LIN2,
    DG2,
    DB2,
    LAYER_TENSORS
};

/* When a row of a table is there. */
enum when { ALWAYS, WHEN_FLASH, WHEN_STORED };

struct op_row {
    const char *name;
    enum place place;
    const struct op_kind *kind; /* NULL: the model's activation, or its derivative */
    int out[OP_MAX_OUT];        /* the second one NONE by being 0: nothing makes X a second output */
    int in[OP_MAX_IN];
    const char *einsum;
    int paper_row;
    enum when when;
    int site;  /* dropout's */
    int parts; /* > 0: there with so many products for Q, K and V only (graph_options.qkv_parts) */
};

struct builder {
    struct graph *g;
    const struct graph_options *options;
    int tensor_capacity, op_capacity;
    int (*made)[LAYER_TENSORS]; /* [layers]: the graph's tensors */
    struct error *e;
    bool ok;
};

int builder_tensor(struct builder *b, const struct tensor *t); /* returns its index */
void builder_op(struct builder *b, const struct op *o);
/* A tensor outside the layers. */
int builder_named(struct builder *b, const char *name, struct tensor t);
int builder_value(struct builder *b, const char *name, const char *dims);
/* The pooler's weight in the other order, for whoever copies it there. */
int builder_pooler_copy(struct builder *b);
/* The gradient of a weight. */
int builder_gradient(struct builder *b, int weight);
/* An operator outside the layers; returns its first output. out1 and unused inputs are -1. */
int builder_plain(struct builder *b, const char *name, enum place place, const struct op_kind *kind, int out0, int out1,
                  const int in[OP_MAX_IN], const char *einsum);
/* The graph's tensor at this place of the layer's tables, made when it is first asked for; -1 for NONE. */
int builder_layer_tensor(struct builder *b, int layer, int at);
/* Adds a table's operators. Dropouts and transpositions that are not there are passed over: their output is their
 * input. */
void builder_rows(struct builder *b, int layer, const struct op_row *rows, size_t count);

/* The backward pass of everything that is there, after it (backward.c). */
void builder_backward(struct builder *b);

#endif
