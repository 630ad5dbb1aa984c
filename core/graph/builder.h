/* What builds a graph: tables of tensors and operators, and what appends them. */
#ifndef WHERRY_GRAPH_BUILDER_H
#define WHERRY_GRAPH_BUILDER_H

#include "graph/kinds.h"
#include "graph/orders.h"

/* A layer's tensors, by their row in the table (tensors.c). X is what the layer before made. */
enum {
    NONE = -1,
    X,
    W_QKV,
    B_QKV,
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
    G_HEADS,
    G_WIDE,
    B_WIDE,
    QKV_NORMED,
    POSITIONS,
    ROTARY_TABLE,
    QKV_ROTATED,
    Q,
    K,
    V,
    ATTENTION_SCORES,
    W_RELATIVE,
    SCORES_BIASED,
    PROBS,
    LSE,
    PROBS_DROPPED,
    ATTENTION_CONTEXT,
    W_OUT,
    B_OUT,
    OUT_RAW,
    OUT_BIASED,
    OUT_DROPPED,
    OUT_SUMMED,
    G_OUT,
    B_NORM_OUT,
    OUT_NORMED,
    SUM1,
    G1,
    B1,
    N1,
    W_LIN1,
    B_LIN1,
    LIN1_RAW,
    LIN1_BIASED,
    SLOPE,
    ACTIVE,
    ACTIVE_DROPPED,
    W_LIN2,
    B_LIN2,
    W_ROUTER,
    ROUTER_SCORES,
    ROUTE_WEIGHTS,
    ROUTE_EXPERTS,
    EXPERT_ROWS,
    W_EXPERTS1,
    EXPERTS1_MADE,
    EXPERTS_ACTIVE,
    W_EXPERTS2,
    EXPERTS2_MADE,
    B_EXPERTS,
    LIN2_RAW,
    LIN2_BIASED,
    LIN2_DROPPED,
    G_LIN2,
    B_NORM_LIN2,
    LIN2_NORMED,
    SUM2,
    G2,
    B2,
    N2,
    LAYER_TENSORS
};

struct tensor_row {
    const char *name, *dims;
    enum weight weight;
    int parent, slice; /* parent 0 (X): none, because nothing is a slice of X */
    bool f32;
    bool u32;
    const char *transposed;                           /* of matrices: dims of the transposition */
    const char *interleaved, *interleaved_transposed; /* dims where Q, K and V of a head lie side by side */
    const char *channel_major;                        /* dims in channel-major order */
    const char *gated, *gated_transposed;             /* dims with a gate: its two halves' neighbours side by side */
    const char *gated_model;                          /* of weights, the order of the model's files */
    const char *grouped, *grouped_transposed;         /* dims where K and V have heads of their own */
    bool paired;                                      /* with rotary positions, tensor.paired */
};

extern const struct tensor_row layer_tensors[LAYER_TENSORS];
extern const struct tensor_row tensor_pooler; /* outside the layers the only matrix of a product */

/* When a row of a table is there. */
enum when { ALWAYS, WHEN_FLASH, WHEN_STORED, WHEN_SLOPES };

struct op_row {
    const char *name;
    enum role role;
    const struct op_kind *kind; /* NULL: the model's activation, or its slope */
    int out[OP_MAX_OUT];        /* the second one NONE by being 0: nothing makes X a second output */
    int in[OP_ROW_IN];
    const char *einsum, *grouped; /* the second where K and V have heads of their own, and it is another */
    /* Rows of the paper's table: the operator, the gradient of what it reads first, that of what it reads second (a
     * weight, a bias, a product's other operand); of layernorm the second is that of its weights. 0: none. */
    int paper[3];
    enum when when;
    int site;  /* dropout's */
    int parts; /* > 0: there with so many products for Q, K and V only (graph_options.qkv_parts) */
    enum { GATE_ANY, GATED, UNGATED } gate;  /* for feed-forwards with a gate only, or without */
    enum { MIXED_ANY, MIXED, SINGLE } mixed; /* for mixtures of experts only, or for other layers */
    const char *meeting; /* of a residual: the operator of the backward pass that adds the gradients of its two ways */
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
/* An operator outside the layers; returns what it makes. Unused inputs are -1. */
int builder_plain(struct builder *b, const char *name, enum role role, const struct op_kind *kind, int out,
                  const int in[OP_ROW_IN], const char *einsum);
/* A norm of x, of the model's kind, with its gamma and, where the model's norms have one, its beta, whose weight is the
 * next one after gamma's; of these two are the names. */
int builder_norm(struct builder *b, const char *name, enum role role, int out, int x, const char *const names[2],
                 const char *dims, enum weight gamma);
/* Dims of a weight in the order of the options, or with `other` in the transposed one. */
const char *builder_weight_dims(const struct builder *b, enum weight weight, bool other);
/* The graph's tensor of this row of the layer's table, made when it is first asked for; -1 for NONE. */
int builder_layer_tensor(struct builder *b, int layer, int row);
/* Adds a table's operators. Dropouts and a bias of scores that are not there are passed over: their output is their
 * input. */
void builder_rows(struct builder *b, int layer, const struct op_row *rows, size_t count);

/* What stands on the layers, which made x: a pooling, or a head (head.c). Returns the graph's output. */
int builder_head(struct builder *b, int x);
/* The backward pass of everything that is there, after it (backward.c). */
void builder_backward(struct builder *b);
/* In layers that keep the least, recomputes what the backward pass reads and what follows, row by row, from the rest
 * (recompute.c). */
void builder_keep_least(struct builder *b);
/* A copy of a tensor for the operator that recomputes it; its name ends in "_again". */
int builder_recomputed(struct builder *b, int tensor);
/* The operator as the one that recomputes it as `out`, of another kind or of its own. */
struct op op_recomputed(const struct op *o, int out);

/* ---- orders of tensors (orders.c) ---- */

const char *row_order(const struct tensor_row *row, bool transposed, bool interleaved);
/* Fails for a choice of a weight that is not there: it has no order. */
bool orders_are_there(const struct graph *g, const struct layout_choice *layout, struct error *e);
/* Fails for a copy that nothing would read: it is for the gradient of an input that is one product. */
bool copies_are_read(const struct graph_options *options, struct error *e);

#endif
