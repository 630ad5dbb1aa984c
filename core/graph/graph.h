/* The encoder as a table of operators on tensors. Each operator is described once; flop, bytes, kernel arguments,
 * references, tests and reports are read from here. Knows no device.
 *
 * Dimension letters (the paper's): b sequence, j query position, k key position, h head, p head channel, q stack of Q,
 * K, V, i embedding, u feed-forward; ours: o pooler output (= i), v vocabulary, m position rows, t token types.
 * Sequences of a batch have different lengths: "bj" together count the tokens and "bjk" the sum of length^2. */
#ifndef WHERRY_GRAPH_GRAPH_H
#define WHERRY_GRAPH_GRAPH_H

#include "base/host.h"

enum {
    OP_MAX_IN = 3,
    OP_MAX_OUT = 2,
    GROUP_MAX_OPS = 12,
    GROUP_MAX_TENSORS = 16,
    GROUP_MAX_CALLS = 2,
    GROUP_MAX_CONSTANTS = 40,
    CALL_MAX_MAPS = 6
};

/* ---- sizes ---- */

/* The sequences of one batch. */
struct batch_shape {
    uint32_t sequences;
    const uint32_t *offsets; /* [sequences + 1] */
    uint64_t tokens;
    uint64_t pairs; /* sum of length^2 */
    uint32_t longest;
};

/* Size of each letter but the ragged ones (b, j, k). */
struct dims {
    uint32_t of[128];
};

/* ---- tensors ---- */

enum tensor_role { TENSOR_BATCH, TENSOR_WEIGHT, TENSOR_VALUE };

/* What a TENSOR_BATCH tensor holds for every token. */
enum batch_data { BATCH_IDS, BATCH_POSITIONS, BATCH_TYPES, BATCH_DATA_COUNT };

/* Which weight of the encoder a tensor is; with the layer it names what the model stores. */
enum weight {
    WEIGHT_NONE,
    WEIGHT_WORD,        /* [v, i] */
    WEIGHT_POSITION,    /* [m, i] */
    WEIGHT_TYPE,        /* [t, i] */
    WEIGHT_EMBED_GAMMA, /* [i] */
    WEIGHT_EMBED_BETA,
    WEIGHT_QKV,      /* [q, h, p, i]: the three matrices stacked as Q, K, V */
    WEIGHT_QKV_BIAS, /* [q, h, p] */
    WEIGHT_OUT,      /* [i, h, p] */
    WEIGHT_OUT_BIAS, /* [i] */
    WEIGHT_GAMMA1,   /* the layernorm after (post-LN) or before (pre-LN) attention */
    WEIGHT_BETA1,
    WEIGHT_LIN1,      /* [u, i] */
    WEIGHT_LIN1_BIAS, /* [u] */
    WEIGHT_LIN2,      /* [i, u] */
    WEIGHT_LIN2_BIAS, /* [i] */
    WEIGHT_GAMMA2,    /* the layernorm after (post-LN) or before (pre-LN) the feed-forward */
    WEIGHT_BETA2,
    WEIGHT_FINAL_GAMMA, /* pre-LN: the layernorm after the last layer */
    WEIGHT_FINAL_BETA,
    WEIGHT_POOLER, /* [o, i] */
    WEIGHT_POOLER_BIAS,
    WEIGHT_COUNT
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
    bool u32;             /* token ids, positions, types */
    bool f32;             /* statistics; all others have the session's storage type */
    int parent;           /* >= 0: this is the slice number `slice` of the parent's letter q, and owns no memory */
    uint32_t slice;
    bool input;      /* the caller's: made by no operator */
    bool output;     /* a result of the graph: lives until the end */
    int gradient_of; /* >= 0: the weight that this is the gradient of */
};

/* ---- operators ---- */

/* The place of an operator in the encoder; fusion plans are lists of places. */
enum place {
    PLACE_END,
    EMBED_WORD,
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
    OUT_RESIDUAL,
    NORM1,
    LIN1,
    LIN1_BIAS,
    ACTIVATION,
    ACTIVATION_DROPOUT,
    LIN2,
    LIN2_BIAS,
    LIN2_DROPOUT,
    LIN2_RESIDUAL,
    NORM2,
    FINAL_NORM,
    POOL,
    POOLER,
    POOLER_BIAS,
    POOLER_TANH,
    NORMALIZE,
    ATTENTION_DROPOUT,
    FORWARD_PLACES,

    /* What belongs to an operator of the forward pass in the backward pass stands so far after its place. */
    DX = 64,            /* the gradient of what it reads; of a product's first operand */
    DW = 2 * DX,        /* the gradient of its weights; of a product's second operand */
    DX_FIRST = 3 * DX,  /* of several products that make one tensor: the gradient by way of the first one, */
    SUM = 4 * DX,       /* and its sums with those of the others */
    DELTA = 5 * DX,     /* sums over a row of attention's weights times their gradient */
    RECOMPUTE = 6 * DX, /* it is computed again instead of being read */
    TRANSPOSE = 7 * DX, /* a copy of its weight in the other order, which the gradient of its input reads */
    PLACE_COUNT = 8 * DX,

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
    RESIDUAL_DX = OUT_RESIDUAL + DX, /* the two ways around attention meet */
    EMBED_NORM_DW = EMBED_NORM + DW,
    EMBED_NORM_DX = EMBED_NORM + DX,
    EMBED_WORD_DW = EMBED_WORD + DW,
    EMBED_POSITION_DW = EMBED_POSITION + DW,
    EMBED_TYPE_DW = EMBED_TYPE + DW,
    FINAL_NORM_DW = FINAL_NORM + DW,
    FINAL_NORM_DX = FINAL_NORM + DX,
    POOL_DX = POOL + DX,
    POOLER_TANH_DX = POOLER_TANH + DX,
    POOLER_BIAS_DW = POOLER_BIAS + DW,
    POOLER_DX = POOLER + DX,
    POOLER_DW = POOLER + DW,
    NORMALIZE_DX = NORMALIZE + DX,
    SCORES_RECOMPUTE = SCORES + RECOMPUTE,
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
    NEXT_LAYER = PLACE_COUNT /* in a plan's row: the places after it are those of the layer that is next */
};

struct graph;
struct op;
struct op_row;
struct values;
struct call;

/* How many work-groups a kernel wants. */
enum launch {
    LAUNCH_ELEMENTS,   /* one work-group per LOCAL_SIZE 16-byte vectors of the output (LOCAL_SIZE elements when not
                          ALIGNED) */
    LAUNCH_ROWS,       /* one work-group per row */
    LAUNCH_TILES,      /* ceil(rows / TILE_M) * ceil(columns / TILE_N), columns fastest; M rows where there is an M */
    LAUNCH_SCORE_ROWS, /* one work-group per token and head, heads fastest */
    LAUNCH_QUERIES,    /* query tiles * HEADS: tiles fastest */
    LAUNCH_SEQUENCES,  /* sequences * HEADS * PARTS: sequences fastest, parts slowest */
    LAUNCH_SCORES,     /* score tiles * HEADS: tiles fastest */
    LAUNCH_PARTS,      /* ceil(rows / PART_ROWS) * ceil(N / TILE_N), columns fastest; without TILE_N all are one */
    LAUNCH_COLUMNS,    /* ceil(SETS * N / TILE_N) */
    LAUNCH_TABLE       /* the M rows of a table, times ceil(rows / PART_ROWS) with COLUMN_SUMS; rows fastest */
};

/* What a kind of operator is. */
struct op_kind {
    const char *name;
    const char *kernel; /* that runs an operator alone (of products and of maps over pairs of tokens: group_single) */
    enum launch launch;
    wherry_class class_;
    double
        flops_per_element; /* of the output, or of input 0 where flops_on_input; contractions: 0, their einsum tells */
    bool flops_on_input;
    /* The definition, in double. */
    bool (*reference)(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v,
                      struct error *e);
    /* Adds the kind's constants to a kernel call. */
    void (*constants)(const struct graph *g, const struct op *o, struct call *call);
    uint8_t in_slot[OP_MAX_IN]; /* SLOT_* of each input when it comes from outside the group */
    uint8_t
        out_slot[OP_MAX_OUT]; /* SLOT_* of each output that leaves the group; 0: SUM for the first, Y for the last */
    bool sums_columns;        /* the outputs are sums over all rows: a second kernel adds what parts of the rows give */
    bool recomputable;        /* row by row, without a product: cheap enough to compute twice */
    int gathers;              /* > 0: of this input only the rows that the input before it names are read */
    bool reads_output_size;   /* of input 0 only as many elements are read as the output has */
};

struct op {
    char name[48];
    const struct op_kind *kind;
    enum place place;
    int layer;                /* -1 outside the layers */
    int out[OP_MAX_OUT];      /* -1: none */
    int in[OP_MAX_IN];        /* -1: none */
    char einsum[24];          /* contractions: letters of in[0], in[1] -> out; else "" */
    float attribute;          /* layernorm: epsilon; softmax: scale */
    float dropout;            /* dropout: probability */
    int site;                 /* dropout: DROPOUT_* (kernel/random.h) */
    int paper_row;            /* row of Table III of Ivanov et al., 0: none. Two operators may share one */
    const struct op_row *row; /* that it was made of in a layer's forward pass (graph/builder.h), else NULL */
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
    uint32_t channel_stride; /* of tensors in channel-major order: from one to the next, 0: there are none */
    bool pre_layernorm;
    bool save_all; /* training: what the forward pass writes stays until the end */
};

struct graph_options {
    const wherry_model_config *config;
    wherry_pool pool; /* not DEFAULT */
    bool normalize;
    bool stack;           /* the layers alone, from x to y: no embeddings, no pooling */
    bool training;        /* with the backward pass */
    float dropout;        /* training: > 0: the four dropouts are there */
    bool flash;           /* training: attention's backward pass computes the weights again instead of reading them */
    wherry_save save;     /* training: what is kept for the backward pass, not DEFAULT */
    uint32_t qkv_parts;   /* 0 or 1: Q, K, V as one product; 2: Q and K as one; 3: three products */
    uint32_t transposed;  /* WEIGHT_BIT of weights that lie transposed, and their gradients with them */
    uint32_t copied;      /* training: of those with a copy in the other order, which the input's gradient reads */
    bool qkv_interleaved; /* Q, K and V of a head lie side by side, in the weight's rows and the bias, too */
    bool channel_major;   /* the feed-forward's hidden activations are channel-major: a row of tokens for each */
    uint32_t tokens;      /* then: that such a row has room for */
};

#define WEIGHT_BIT(weight) (1u << (weight))

bool graph_create(const struct host *host, const struct graph_options *options, struct graph *out, struct error *e);
void graph_destroy(struct graph *graph); /* accepts a zeroed one */

/* Orders of tensors as text, "w_lin1=iu,w_lin2=ui+iu", to graph_options.transposed, copied, qkv_interleaved and
 * channels; NULL and "": all as in the model's files. */
bool orders_read(const char *text, struct graph_options *options, struct error *e);
enum { ORDERS_TEXT = 160 };
enum { ORDERS_MOST = 12, ORDER_TEXT = 16 };
/* Tensor number `index`, from 0, whose order can be chosen, and its orders, the model's first; not each goes with each
 * of another tensor. Returns how many, 0 after the last. */
int orders_of(size_t index, char name[ORDER_TEXT], char orders[ORDERS_MOST][ORDER_TEXT]);
/* The other way round: those that are not the usual ones. */
void orders_text(uint32_t transposed, uint32_t copied, bool qkv_interleaved, bool channel_major,
                 char text[ORDERS_TEXT]);

/* ---- derived ---- */

/* Elements of a tensor with these letters. */
uint64_t dims_volume(const struct dims *d, const struct batch_shape *b, const char *letters);
uint64_t tensor_elements(const struct graph *g, const struct batch_shape *b, int tensor);
/* Elements of memory from its first to its last: in channel-major order, rows have room for more tokens. */
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
/* Elements of one row: the letters that are not b, j, k. */
uint32_t tensor_row_length(const struct graph *g, int tensor);
/* Of these, how many lie side by side, and elements from one such stretch to the next: other slices lie between a
 * slice's. */
uint32_t tensor_slice_length(const struct graph *g, int tensor);
uint32_t tensor_slice_stride(const struct graph *g, int tensor);

/* Whether Q, K and V of a head lie side by side in the stack that has these letters; false: it is none. */
bool dims_qkv_interleaved(const char *dims);
/* How a weight or its gradient lies, seen from the model's files and the caller: there it is [rows][columns]. */
struct matrix_order {
    uint64_t rows, columns;
    bool transposed;          /* it lies [columns][rows] */
    uint64_t heads, channels; /* rows are [q][h][p] there and [h][q][p] here; heads 0: in the same order */
};
/* False: it lies as it does there. */
bool tensor_reordered(const struct graph *g, int tensor, struct matrix_order *out);
/* The row that is number `row` here, by its number there. */
uint64_t matrix_order_row(const struct matrix_order *order, uint64_t row);
double op_flops(const struct graph *g, const struct batch_shape *b, const struct op *o);
/* Bytes of an element of this tensor, `storage` being those of the session's type. */
size_t tensor_element_bytes(const struct graph *g, int tensor, size_t storage);
/* The operator that makes this tensor (of a slice: the tensor itself), -1: none. */
int tensor_maker(const struct graph *g, int tensor);
/* Elements that operator o reads of its input n. */
uint64_t op_reads(const struct graph *g, const struct batch_shape *b, const struct op *o, int n);

/* ---- fusion plans ---- */

/* One row of a plan: the kernel `kernel` runs the operators at these places, in this order, where the graph has them.
 * An operator that no row covers runs alone. */
struct plan_row {
    const char *name;   /* the paper's name where it has one */
    const char *kernel; /* cl/<kernel>.cl, shaders/<kernel>.comp */
    enum launch launch;
    uint16_t places[GROUP_MAX_OPS + 2];          /* enum place, ended by PLACE_END */
    enum { NORM_ANY, NORM_POST, NORM_PRE } norm; /* for encoders whose layernorms stand there only */
    bool optional; /* in inference and in the backward pass, where the device has a kernel for all of it, before any
                      other row; elsewhere the others do it */
};

struct plan {
    const char *name;
    const struct plan_row *rows;
    size_t n_rows;
};

extern const struct plan plans[];
extern const size_t plans_count;
const struct plan *plan_find(const char *name, struct error *e);

/* Operators that one kernel executes, the sums over rows among them with a second one's help. */
struct group {
    char name[64];      /* "layer.0.qkv" */
    const char *kernel; /* cl/<kernel>.cl, shaders/<kernel>.comp; NULL: none runs it, it is there to be counted */
    enum launch launch;
    bool optional;                 /* of a row that is */
    int ops[GROUP_MAX_OPS], count; /* ascending */
    int layer;
    int reads[GROUP_MAX_TENSORS], n_reads;   /* tensors made outside and used inside, in the order of use */
    int writes[GROUP_MAX_TENSORS], n_writes; /* made inside and used outside */
    bool backward;
};

/* Whether a device runs this group; when not, `reason` says why. NULL as a whole: every group runs. */
struct group_filter {
    bool (*runs)(const struct graph *g, const struct group *group, char *reason, size_t reason_size, void *user);
    void (*split)(const struct graph *g, const struct group *group, const char *reason,
                  void *user); /* told about every split */
    void *user;
    bool optional; /* also rows that are optional, where they run */
};

/* Covers the graph's operators by groups of the plan, in an order in which everything is made before it is used; a
 * group that the filter refuses becomes single operators. Fails when a single operator is refused. */
bool groups_create(const struct graph *g, const struct plan *plan, const struct group_filter *filter,
                   struct group **out, int *count, struct error *e);
/* Everything about a group but its name and row, from its operators. */
void group_complete(const struct graph *g, struct group *out);
/* Whether the tensor is made inside and used outside. */
bool group_writes(const struct group *group, int tensor);
/* The group of one operator, which runs alone. */
void group_single(const struct graph *g, int op, struct group *out);
/* The group's name without its layer: "qkv". */
const char *group_short_name(const struct group *group);
/* Groups as they are found stand by their first operator; one that needs what a later one makes moves after it. Fails
 * when groups wait for each other; `plan` is a name for the message. */
bool groups_sort(const struct graph *g, const char *plan, struct group *groups, int count, struct error *e);
double group_flops(const struct graph *g, const struct batch_shape *b, const struct group *group);
/* Bytes of all reads and of all writes, each distinct tensor once, with `storage` bytes an element. */
void group_bytes(const struct graph *g, const struct batch_shape *b, const struct group *group, size_t storage,
                 uint64_t *read, uint64_t *written);
/* Both: bytes, and flop by what computes them. */
void group_work(const struct graph *g, const struct batch_shape *b, const struct group *group, size_t storage,
                wherry_work *out);

/* Groups of the forward pass: they come first. */
int groups_forward(const struct group *groups, int count);
/* Bytes of the tensors that the forward groups write and the backward groups read; x and what slices share counted
 * once. 0 without a backward pass. */
uint64_t groups_saved_bytes(const struct graph *g, const struct batch_shape *b, const struct group *groups, int count,
                            size_t storage);

/* ---- kernel calls ---- */

/* In the place of a tensor: the group's own memory, for what its first kernel tells its second. */
enum { TENSOR_SCRATCH = -1 };

/* What a group's kernel is called with: derived from the group's operators, one kind after the other. */
struct call {
    const char *kernel;
    enum launch launch;
    struct call_argument {
        uint8_t slot;
        bool written;
        int tensor;
    } arguments[GROUP_MAX_TENSORS];
    int n_arguments; /* ascending slots, slot 0 not among them */
    struct call_constant {
        uint8_t id;
        uint32_t value;
    } constants[GROUP_MAX_CONSTANTS];
    int n_constants; /* ascending ids */
    /* Views of arguments as matrices, in the order in which a kernel that loads tiles by the hardware's copy engine
     * expects them (cl/tensor_maps.cl). */
    struct call_map {
        uint8_t slot;
        uint8_t rows_of; /* index in the batch header of what stands for `rows` or `columns` where that is 0 */
        uint32_t rows, columns;
        uint32_t stride, offset; /* elements from one row to the next, and before the first one */
        uint32_t box_rows, box_columns;
    } maps[CALL_MAX_MAPS];
    int n_maps;
    uint32_t site; /* dropout's (kernel/random.h): no constant, so that layers share their kernels */
};

/* Sets or replaces a constant. */
void call_set(struct call *call, uint8_t id, uint32_t value);
void call_set_float(struct call *call, uint8_t id, float value);
/* The constant's value, or `otherwise` where the call does not give it. */
uint32_t call_get(const struct call *call, uint8_t id, uint32_t otherwise);
/* Which size of a product is the batch's number of rows: RUNTIME_* but RUNTIME_FORM. */
uint32_t call_runtime(const struct call *call);
/* The calls of a group, one after the other. Everything but the tile sizes, PART_ROWS and ALIGNED, which depend on the
 * device (plan/tiles.h). */
bool group_calls(const struct graph *g, const struct group *group, struct call out[GROUP_MAX_CALLS], int *count,
                 struct error *e);
bool call_has_slot(const struct call *call, uint8_t slot);

/* ---- references in double ---- */

/* Values by tensor index; a slice's are its parent's. */
struct values {
    double **of;          /* [n_tensors], NULL where absent */
    const uint32_t **ids; /* [n_tensors]: u32 tensors */
    uint64_t seed;        /* dropout's */
    uint32_t step;
};

/* Runs the operators of a group in order. Every read must have values; the outputs of all its operators must have
 * memory. */
bool group_reference(const struct graph *g, const struct group *group, const struct batch_shape *b, struct values *v,
                     struct error *e);

/* Distinct letters of an einsum such as "bji,ui->bju", in order of appearance. Returns their number. */
int einsum_letters(const char *einsum, char letters[16]);
/* The letters of operand 0, 1 or of the result (2). */
void einsum_operand(const char *einsum, int operand, char letters[16]);

#endif
