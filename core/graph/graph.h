/* The encoder as a table of operators on tensors. Each operator is described once; flop, bytes, kernel arguments,
 * references, tests and reports are read from here. Knows no device.
 *
 * Dimension letters (the paper's): b sequence, j query position, k key position, h head, p head channel, q stack of Q,
 * K, V, where K and V have heads of their own: H those, G the heads of Q of one, and Q the stack of all heads, i
 * embedding, u feed-forward; ours: o pooler output (= i), v vocabulary, m position rows, t token types, e embedding
 * tables' width where that is not i, d rows of a bias by distance, z two: the distances (before and after) that a token
 * adds to its sequence's, a loss and how many are right, or the classes of pairs; c classes, n poolings side by side,
 * f, g, l, w outputs of modules after the pooling, s tokens that have a label, a what a row of scores comes to so far,
 * x, y, g strips of the vocabulary, r two: a stack of Q and K, or a gate's halves; S sequences that have a label; E
 * experts, T those that a token takes; M strips of the embedding, each with its moments (fold.h).
 * Sequences of a batch have different lengths: "bj" together count the tokens, "bs" those that have a label, "bS" the
 * sequences that have one, and "bjk" the sum of length^2. Losses have letters of their own (loss.h).
 */
#ifndef WHERRY_GRAPH_GRAPH_H
#define WHERRY_GRAPH_GRAPH_H

#include "base/host.h"
#include "graph/orders.h"
#include "graph/weight_names.h"

enum { OP_MAX_IN = 4, OP_ROW_IN = 3, OP_MAX_OUT = 2 }; /* OP_ROW_IN: of all but the gradients of losses */

/* ---- sizes ---- */

/* The sequences of one batch. */
struct batch_shape {
    uint32_t sequences;
    const uint32_t *offsets; /* [sequences + 1] */
    uint64_t tokens;
    uint64_t pairs; /* sum of length^2 */
    uint32_t longest;
    uint64_t labelled; /* tokens that have a label */
    uint64_t next;     /* sequences that have one */
};

/* Size of each letter but the ragged ones (DIMS_RAGGED). */
#define DIMS_RAGGED "bjksS"
struct dims {
    uint32_t of[128];
};

/* ---- tensors ---- */

enum tensor_role { TENSOR_BATCH, TENSOR_WEIGHT, TENSOR_VALUE };

/* What a TENSOR_BATCH tensor holds for every token; BATCH_ROWS for every sequence; of tokens with a label, which are
 * rows of the head, BATCH_LABELLED their numbers and BATCH_LABELS their labels; BATCH_LABEL_ROWS every token's row
 * among them, NO_ROW: it has none. Of sequences with a label (whether their second part is what comes next)
 * BATCH_NEXT_FIRST, BATCH_NEXT and BATCH_NEXT_ROWS are the same, by their first tokens. BATCH_LENGTHS is less by one
 * than the length of the token's sequence; BATCH_ANGLES the token whose angles are its own, too (graph/rotary.h). */
enum batch_data {
    BATCH_IDS,
    BATCH_POSITIONS,
    BATCH_TYPES,
    BATCH_ROWS,
    BATCH_LABELLED,
    BATCH_LABELS,
    BATCH_LABEL_ROWS,
    BATCH_NEXT_FIRST,
    BATCH_NEXT,
    BATCH_NEXT_ROWS,
    BATCH_LENGTHS,
    BATCH_ANGLES,
    BATCH_DATA_COUNT
};

/* ---- what follows a pooling ---- */

enum { POOLS_MOST = 6 };

/* A dense layer or a layernorm after the pooling. */
struct module {
    bool norm;      /* a layernorm, of epsilon 1e-5 */
    uint32_t width; /* of what it makes */
    bool bias;
    wherry_head_activation activation; /* PLAIN: none */
};

/* What makes one weight of each word (SPLADE) of its scores for all tokens of a sequence: log(1 + relu(score)), of
 * these the largest. */
struct word_weights {
    bool sum;   /* their sum instead */
    bool twice; /* log(1 + log(1 + relu(score))) */
};

struct tensor {
    char name[48];
    const char *dims; /* letters in the order of memory, the last one contiguous */
    /* Of weights and their gradients: the letters in the order of the model's files, which is the caller's, where dims
     * are another. NULL: dims are in that order. */
    const char *model_dims;
    enum tensor_role role;
    enum weight weight;
    enum batch_data data; /* of TENSOR_BATCH */
    int layer;            /* -1 outside the layers */
    bool u32;             /* token ids, positions, types; of values numbers of experts and rows */
    bool f32;             /* statistics; all others have the session's storage type */
    bool bf16;            /* but these: weights of products in a session of bf16 */
    uint32_t int8;        /* > 0: a matrix of 8 bits an element with so many columns; after it come its rows' scales */
    int parent;           /* >= 0: this is the slice number `slice` of the parent's letter q, and owns no memory */
    uint32_t slice;
    bool paired;        /* channels c and c + half of a head of Q and K lie side by side */
    bool strip;         /* with a parent: this has the parent's rows from number `slice` on, and letters of its own */
    uint32_t pitch;     /* > 0: rows begin so many elements apart, which is more than they have */
    uint32_t before;    /* elements before its rows */
    enum weight folded; /* not NONE: the gamma that is in a product's weight, or in others' (graph/fold.h) */
    bool input, output; /* the caller's: made by no operator; a result of the graph: lives until the end */
    int gradient_of;    /* >= 0: the weight that this is the gradient of */
};

/* ---- operators ---- */

/* What an operator is for in the encoder. A row of a fusion plan is a list of roles; which kinds of operators stand in
 * them is the architecture's matter. */
enum role {
    ROLE_END,
    EMBED_WORD,
    EMBED_SCALE,
    EMBED_POSITION,
    EMBED_TYPE,
    EMBED_NORM,
    QKV,
    QKV_BIAS,
    SCORES,
    SOFTMAX,
    CONTEXT,
    OUT,
    OUT_BIAS,
    OUT_DROPOUT,
    OUT_NORM,
    OUT_RESIDUAL,
    NORM1,
    LIN1,
    LIN1_BIAS,
    ACTIVATION,
    ACTIVATION_DROPOUT,
    LIN2,
    LIN2_BIAS,
    LIN2_DROPOUT,
    LIN2_NORM,
    LIN2_RESIDUAL,
    NORM2,
    FINAL_NORM,
    POOL,
    POOLER,
    POOLER_BIAS,
    POOLER_TANH,
    NORMALIZE,
    ATTENTION_DROPOUT,
    EMBED_PROJECT,
    EMBED_PROJECT_BIAS,
    ROTARY,
    HEADS_NORM,
    SCORES_BIAS,
    CLASSIFIER,
    CLASSIFIER_BIAS,
    VOCABULARY_DENSE,
    VOCABULARY_DENSE_BIAS,
    VOCABULARY_ACTIVATION,
    VOCABULARY_NORM,
    VOCABULARY_SCORES,
    VOCABULARY_BIAS,
    VOCABULARY_WEIGHT,
    MODULE_NORM,
    MODULE_DENSE, /* of dense layer number k at + 3 * k: the product, its bias, its activation */
    MODULE_DENSE_LAST = MODULE_DENSE + 3 * MODULES_MOST - 1,
    LOSS,        /* every operator of a loss (loss.c) */
    LABELLED,    /* rows of tokens that have a label */
    ENTROPY,     /* what a strip's scores add to the cross-entropy */
    ENTROPY_SUM, /* of all rows */
    ACTIVATION_SLOPE,
    OUT_INNER, /* a residual before OUT_NORM, besides the one after it */
    ANGLES,    /* of rotary positions, where they depend on a text's length */
    ROUTER,    /* of a mixture of experts: the scores of all, */
    ROUTE,     /* those that a token takes, with their weights, */
    DISPATCH,  /* and each expert's rows */
    EXPERTS1,
    EXPERTS2,
    COMBINE,       /* the sum of what a token's experts make */
    NORM1_MOMENTS, /* of what NORM1 reads, where it is folded into a product (graph/fold.h) */
    NORM2_MOMENTS,
    FORWARD_ROLES,

    /* In the backward pass: the role of the operator of the forward pass, and what is made of it. */
    DX = 128,          /* the gradient of what it reads; of a product's first operand */
    DW = 2 * DX,       /* the gradient of its weights; of a product's second operand */
    DX_FIRST = 3 * DX, /* of several products that make one tensor: the gradient by way of the first one, */
    SUM = 4 * DX,      /* and its sums with those of the others */
    DELTA = 5 * DX, /* sums over a row of attention's weights times their gradient; of scores' gradients by distance */
    RECOMPUTE = 6 * DX, /* it is recomputed instead of being read */
    TRANSPOSE = 7 * DX, /* a copy of its weight in the other order, which the gradient of its input reads */
    ROLE_COUNT = 8 * DX,

    NORM2_DW = NORM2 + DW,
    NORM2_DX = NORM2 + DX,
    LIN2_DROPOUT_DX = LIN2_DROPOUT + DX,
    LIN2_DX = LIN2 + DX,
    LIN2_DW = LIN2 + DW,
    LIN2_BIAS_DW = LIN2_BIAS + DW,
    ACTIVATION_DROPOUT_DX = ACTIVATION_DROPOUT + DX,
    ACTIVATION_DX = ACTIVATION + DX,
    LIN1_BIAS_DW = LIN1_BIAS + DW,
    LIN1_DX = LIN1 + DX,
    LIN1_DW = LIN1 + DW,
    FF_RESIDUAL_DX = LIN2_RESIDUAL + DX, /* the two ways around the feed-forward meet */
    NORM1_DW = NORM1 + DW,
    NORM1_DX = NORM1 + DX,
    OUT_DROPOUT_DX = OUT_DROPOUT + DX,
    OUT_BIAS_DW = OUT_BIAS + DW,
    OUT_DX = OUT + DX,
    OUT_DW = OUT + DW,
    ATTENTION_DELTA = CONTEXT + DELTA,
    CONTEXT_DX1 = CONTEXT + DX,
    CONTEXT_DX2 = CONTEXT + DW,
    ATTENTION_DROPOUT_DX = ATTENTION_DROPOUT + DX,
    SOFTMAX_DX = SOFTMAX + DX,
    SCORES_DX1 = SCORES + DX,
    SCORES_DX2 = SCORES + DW,
    QKV_DX = QKV + DX,
    QKV_DX_FIRST = QKV + DX_FIRST,
    QKV_ADD = QKV + SUM,
    QKV_DW = QKV + DW,
    QKV_BIAS_DW = QKV_BIAS + DW,
    ROTARY_DX = ROTARY + DX,
    HEADS_NORM_DX = HEADS_NORM + DX,
    HEADS_NORM_DW = HEADS_NORM + DW,
    RESIDUAL_DX = OUT_RESIDUAL + DX, /* the two ways around attention meet */
    EMBED_NORM_DW = EMBED_NORM + DW,
    EMBED_NORM_DX = EMBED_NORM + DX,
    EMBED_WORD_DW = EMBED_WORD + DW,
    OUT_NORM_DW = OUT_NORM + DW,
    OUT_NORM_DX = OUT_NORM + DX,
    LIN2_NORM_DW = LIN2_NORM + DW,
    LIN2_NORM_DX = LIN2_NORM + DX,
    EMBED_POSITION_DW = EMBED_POSITION + DW,
    EMBED_TYPE_DW = EMBED_TYPE + DW,
    EMBED_PROJECT_DW = EMBED_PROJECT + DW,
    EMBED_PROJECT_BIAS_DW = EMBED_PROJECT_BIAS + DW,
    FINAL_NORM_DW = FINAL_NORM + DW,
    FINAL_NORM_DX = FINAL_NORM + DX,
    POOL_DX = POOL + DX,
    POOLER_TANH_DX = POOLER_TANH + DX,
    POOLER_BIAS_DW = POOLER_BIAS + DW,
    POOLER_DX = POOLER + DX,
    POOLER_DW = POOLER + DW,
    NORMALIZE_DX = NORMALIZE + DX,
    SCORES_BIAS_SUMS = SCORES_BIAS + DELTA,
    SCORES_BIAS_DW = SCORES_BIAS + DW,
    SCORES_RECOMPUTE = SCORES + RECOMPUTE,
    SCORES_BIAS_RECOMPUTE = SCORES_BIAS + RECOMPUTE,
    SOFTMAX_RECOMPUTE = SOFTMAX + RECOMPUTE,
    ATTENTION_DROPOUT_RECOMPUTE = ATTENTION_DROPOUT + RECOMPUTE,
    NORM1_RECOMPUTE = NORM1 + RECOMPUTE,
    NORM2_RECOMPUTE = NORM2 + RECOMPUTE,
    EMBED_NORM_RECOMPUTE = EMBED_NORM + RECOMPUTE,
    ACTIVATION_RECOMPUTE = ACTIVATION + RECOMPUTE,
    ACTIVATION_DROPOUT_RECOMPUTE = ACTIVATION_DROPOUT + RECOMPUTE,
    QKV_TRANSPOSE = QKV + TRANSPOSE,
    OUT_TRANSPOSE = OUT + TRANSPOSE,
    LIN1_TRANSPOSE = LIN1 + TRANSPOSE,
    LIN2_TRANSPOSE = LIN2 + TRANSPOSE,
    POOLER_TRANSPOSE = POOLER + TRANSPOSE,
    VOCABULARY_SCORES_RECOMPUTE = VOCABULARY_SCORES + RECOMPUTE,
    VOCABULARY_BIAS_RECOMPUTE = VOCABULARY_BIAS + RECOMPUTE,
    VOCABULARY_SCORES_DX = VOCABULARY_SCORES + DX,
    VOCABULARY_SCORES_DW = VOCABULARY_SCORES + DW,
    VOCABULARY_SCORES_SUM = VOCABULARY_SCORES + SUM,
    VOCABULARY_BIAS_DW = VOCABULARY_BIAS + DW,
    VOCABULARY_NORM_DX = VOCABULARY_NORM + DX,
    VOCABULARY_NORM_DW = VOCABULARY_NORM + DW,
    VOCABULARY_ACTIVATION_DX = VOCABULARY_ACTIVATION + DX,
    VOCABULARY_DENSE_BIAS_DW = VOCABULARY_DENSE_BIAS + DW,
    EXPERTS1_DX = EXPERTS1 + DX,
    EXPERTS2_DX = EXPERTS2 + DX,
    ROUTER_DX = ROUTER + DX,
    ROUTER_ADD = ROUTER + SUM,
    NEXT_LAYER = ROLE_COUNT /* in a plan's row: the roles after it are in the next layer */
};

struct op_kind; /* graph/kinds.h */
struct op_row;  /* graph/builder.h */

struct op {
    char name[48];
    const struct op_kind *kind;
    enum role role;
    int layer;                /* -1 outside the layers */
    int out[OP_MAX_OUT];      /* -1: none */
    int in[OP_MAX_IN];        /* -1: none */
    char einsum[24];          /* contractions: letters of in[0], in[1] -> out; else "" */
    float attribute;          /* scale: the factor; norms: epsilon; softmax, and a bias before it: scale */
    uint32_t norm;            /* norms: RMS_* (interface/interface.h) */
    uint32_t activation;      /* gates, their slopes: ACTIVATION_* of the half that gates (interface/interface.h), */
    uint32_t gate;            /* and which of two neighbours it is: GATE_* */
    bool normalized;          /* routes: weights are divided by the sum of those chosen */
    float dropout;            /* dropout: probability */
    uint32_t column, columns; /* losses: of an example's rows, the first one that is read, and how many are */
    int site;                 /* dropout: DROPOUT_* (kernel/random.h) */
    int paper_row;            /* row of Table III of Ivanov et al., 0: none. Two operators may share one */
    const struct op_row *row; /* that it was made of in a layer's forward pass (graph/builder.h), else NULL */
};

/* What the configuration says of keys that queries see (wherry_model.h); layers differ (graph/mask.h). */
struct masks {
    bool causal, alibi;
    uint32_t window, global_every, global_first;
};

struct graph {
    const struct host *host;
    struct dims dims;
    struct tensor *tensors;
    int n_tensors;
    struct op *ops;
    int n_ops;
    int n_forward;    /* operators of the forward pass; those after them are the backward pass, where there is one */
    int input;        /* the stack's input x, -1: token ids */
    int output;       /* the tensor that encode returns */
    int out_gradient; /* training: the loss gradient of `output`, given by the caller; else -1 */
    int in_gradient;  /* training: the gradient of `input`, -1: there is none */
    uint32_t relative_distance; /* of a bias by distance: that of its last row */
    uint32_t rotary_trained;    /* > 0: longer sequences have angles of their own (rotary.h) */
    struct masks masks;         /* which keys a query sees, and its scores' bias from distance alone */
    uint32_t channel_stride;    /* of tensors in channel-major order: from one to the next, 0: there are none */
    bool pre_layernorm;
    bool save_all; /* training: what the forward pass writes stays until the end */
    bool loss;     /* a loss: all inputs are copied before a run, the gradient of the output, too, and its value and the
                      gradient of its input after it */
};

struct graph_options {
    const wherry_model_config *config;
    wherry_output output;
    wherry_pool pool;              /* not DEFAULT */
    wherry_pool pools[POOLS_MOST]; /* of COMBINED, side by side */
    uint32_t n_pools;
    const struct module *modules; /* [n_modules]: after the pooling, before the normalization */
    uint32_t n_modules;
    enum weight first_weight;  /* of these modules; NONE: WEIGHT_MODULE */
    struct word_weights words; /* of WHERRY_OUTPUT_WORDS */
    bool strips;               /* of losses of masked words: scores of the vocabulary by strips */
    bool scores_kept;          /* these are kept for the backward pass, instead of being made again there */
    bool pitched; /* rows of scores begin on 16 bytes whatever the vocabulary is: products take rows that lie so */
    bool normalize;
    bool slopes;        /* training: the forward pass keeps the activation's or gate's slopes, not what it reads */
    bool stack;         /* the layers alone, from x to y: no embeddings, no pooling */
    bool training;      /* with the backward pass */
    float dropout;      /* training: > 0: the four dropouts are there */
    bool flash;         /* training: attention's backward pass recomputes the weights instead of reading them */
    wherry_save save;   /* training: what is kept for the backward pass */
    int least_layers;   /* training, DEFAULT: the first so many layers keep the least */
    uint32_t qkv_parts; /* 0 or 1: Q, K, V as one product; 2: Q and K as one; 3: three products */
    struct layout_choice layout;
    bool bf16;       /* weights of products are stored so */
    bool int8;       /* the same in 8 bits with a scale for each row */
    uint32_t tokens; /* where activations are channel-major: that a channel's row has room for */
};

bool graph_create(const struct host *host, const struct graph_options *options, struct graph *out, struct error *e);
void graph_destroy(struct graph *graph); /* accepts a zeroed one */

/* Channels of a head, and heads of K and V. */
uint32_t head_channels(const wherry_model_config *config);
uint32_t key_heads(const wherry_model_config *config);
/* Whether several heads of Q share one of K and V. */
bool heads_grouped(const wherry_model_config *config);
/* Whether the layer's feed-forward is a mixture of experts. */
bool layer_mixed(const wherry_model_config *config, int layer);
/* Whether the encoder's norms add a bias. */
bool norms_have_beta(const wherry_model_config *config);

/* ---- derived ---- */

/* What counts the rows of a tensor with these letters: HEADER_* (interface/interface.h). */
uint32_t dims_rows(const char *dims);
/* Elements of a tensor with these letters. */
uint64_t dims_volume(const struct dims *d, const struct batch_shape *b, const char *letters);
uint64_t tensor_elements(const struct graph *g, const struct batch_shape *b, int tensor);
/* Elements of memory from its first to its last: in channel-major order, rows have room for more tokens; those with a
 * pitch for more elements. */
uint64_t tensor_extent(const struct graph *g, const struct batch_shape *b, int tensor);
/* Whether a tensor with these letters has rows of tokens. */
bool dims_channel_major(const char *dims);
enum { CHANNEL_ROUND = 64 }; /* such rows have room for a multiple of so many tokens */
/* The tensor that owns the memory: itself, or the parent of a slice. */
int tensor_owner(const struct graph *g, int tensor);
/* Elements from one row (of the leading b, j or k letters) to the next, and before the first one: for slices and whole
 * tensors. Rows of a slice of a weight are of the letters before the stack's. */
uint32_t tensor_row_stride(const struct graph *g, int tensor);
uint32_t tensor_row_offset(const struct graph *g, int tensor);
/* The product of the letters' sizes, none of them ragged. */
uint32_t letters_volume(const struct graph *g, const char *letters);
/* Elements of one row: the letters that are not ragged. */
uint32_t tensor_row_length(const struct graph *g, int tensor);
/* Elements of memory from one row of a tensor without a parent to the next. */
uint32_t tensor_row_pitch(const struct graph *g, int tensor);
/* Of these, how many lie side by side, and elements from one such stretch to the next: other slices lie between a
 * slice's. */
uint32_t tensor_slice_length(const struct graph *g, int tensor);
uint32_t tensor_slice_stride(const struct graph *g, int tensor);

/* Of a row of Q, K and V, or of the heads' weights, the columns that are Q's and K's; without interleaving the first.
 */
uint32_t tensor_turned(const struct graph *g, int tensor);
/* Heads of K and V where they are fewer than those of Q; 0: there are as many. */
uint32_t graph_key_heads(const struct graph *g);
/* Whether Q, K and V of a head lie side by side in the stack that has these letters; false: it is none. */
bool dims_qkv_interleaved(const char *dims);
/* How a weight or its gradient lies, seen from the model's files and the caller: there it is [rows][columns]. */
struct matrix_order {
    uint64_t rows, columns;
    bool transposed;          /* it lies [columns][rows] */
    uint64_t heads, channels; /* rows are [q][h][p] there and [h][q][p] here; heads 0: in the same order */
    /* Of the first `paired` rows there, every 2 * half: row c + half lies after row c here. 0: as they are there */
    uint64_t paired, half;
};
/* False: it lies as it does there. */
bool tensor_reordered(const struct graph *g, int tensor, struct matrix_order *out);
/* The row that is number `row` here, by its number there. */
uint64_t matrix_order_row(const struct matrix_order *order, uint64_t row);
double op_flops(const struct graph *g, const struct batch_shape *b, const struct op *o);
/* Bytes of an element of this tensor, `storage` being those of the session's type. */
size_t tensor_element_bytes(const struct graph *g, int tensor, size_t storage);
/* Of a matrix of 8 bits an element: floats from its beginning to its rows' scales, how many rows there are, and the
 * bytes that it takes besides its elements (0 of other tensors). */
uint32_t tensor_scales_at(const struct graph *g, int tensor);
uint32_t tensor_scales(const struct graph *g, int tensor);
uint64_t tensor_scale_bytes(const struct graph *g, int tensor);
/* The operator that makes this tensor (of a slice: the tensor itself), -1: none. */
int tensor_maker(const struct graph *g, int tensor);
/* Elements that operator o reads of its input n. */
uint64_t op_reads(const struct graph *g, const struct batch_shape *b, const struct op *o, int n);

/* ---- einsums ---- */

/* Distinct letters of an einsum such as "bji,ui->bju", in order of appearance. Returns their number. */
int einsum_letters(const char *einsum, char letters[16]);
/* The letters of operand 0, 1 or of the result (2). */
void einsum_operand(const char *einsum, int operand, char letters[16]);

#endif
