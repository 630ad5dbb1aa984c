/* The constants that a kernel needs for each kind of operator. */
#include "graph/kind_constants.h"

#include <math.h>
#include <string.h>

#include "graph/group.h"
#include "interface/interface.h"
#include "interface/random.h"

/* Whether an operator before o, in its group, has its constants from this function: of which kind it is. */
static bool is_after(const struct graph *g, const struct group *group, const struct op *o, CONSTANTS((*of)))
{
    for (int i = 0; i < group->count && &g->ops[group->ops[i]] != o; i++)
        if (g->ops[group->ops[i]].kind->constants == of) return true;
    return false;
}

/* N and ROWS, which every kernel that walks rows needs. Where those are rows of tokens, M of them. */
static void set_rows(const struct graph *g, const struct op *o, struct call *call)
{
    bool channel_major = dims_channel_major(g->tensors[o->out[0]].dims);
    call_set(call, channel_major ? CONST_M : CONST_N, tensor_row_length(g, o->out[0]));
    if (channel_major) {
        call_set(call, CONST_RUNTIME, RUNTIME_N);
        call_set(call, CONST_Y_STRIDE, g->channel_stride);
    }
    call_set(call, CONST_ROWS, dims_rows(g->tensors[o->out[0]].dims));
}

static void set_operand(const struct graph *g, struct call *call, uint8_t stride, uint8_t offset, int tensor)
{
    call_set(call, stride, tensor_row_stride(g, tensor));
    call_set(call, offset, tensor_row_offset(g, tensor));
}

/* Rows of the first operand and of the result that begin apart from one another. */
void call_set_pitches(const struct graph *g, struct call *call)
{
    for (int i = 0; i < call->n_arguments; i++) {
        int tensor = call->arguments[i].tensor;
        uint32_t pitch = tensor < 0 ? 0 : g->tensors[tensor].pitch;
        if (pitch && call->arguments[i].slot == SLOT_X) call_set(call, CONST_X_STRIDE, pitch);
        if (pitch && call->arguments[i].slot == SLOT_Y) call_set(call, CONST_Y_STRIDE, pitch);
    }
}

/* Where an argument lies, for the slots that may be slices of wider rows. */
static void set_operands(const struct graph *g, struct call *call)
{
    for (int i = 0; i < call->n_arguments; i++) {
        int tensor = call->arguments[i].tensor;
        if (tensor < 0) continue;
        if (call->arguments[i].slot == SLOT_X) set_operand(g, call, CONST_X_STRIDE, CONST_X_OFFSET, tensor);
        if (call->arguments[i].slot == SLOT_W) set_operand(g, call, CONST_W_STRIDE, CONST_W_OFFSET, tensor);
        if (call->arguments[i].slot == SLOT_V) set_operand(g, call, CONST_V_STRIDE, CONST_V_OFFSET, tensor);
        if (call->arguments[i].slot == SLOT_Y) set_operand(g, call, CONST_Y_STRIDE, CONST_Y_OFFSET, tensor);
    }
}

/* A letter of both operands that the result lacks: what is summed over. */
static char contracted(const char *einsum)
{
    char a[16], b[16], c[16];
    einsum_operand(einsum, 0, a);
    einsum_operand(einsum, 1, b);
    einsum_operand(einsum, 2, c);
    for (const char *l = a; *l; l++)
        if (strchr(b, *l) && !strchr(c, *l)) return *l;
    return 0;
}

/* Whether one of its tensors is a slice of heads whose Q, K and V lie side by side. */
static bool of_interleaved_qkv(const struct graph *g, const struct op *o)
{
    const int tensors[] = {o->in[0], o->in[1], o->out[0]};
    for (int i = 0; i < 3; i++)
        if (dims_qkv_interleaved(g->tensors[tensor_owner(g, tensors[i])].dims)) return true;
    return false;
}

/* The products of attention, told apart by what they sum over. */
static void set_batched(const struct graph *g, const struct op *o, struct call *call)
{
    char letter = contracted(o->einsum);
    set_operands(g, call);
    call_set(call, CONST_HEADS, g->dims.of['h']);
    call_set(call, CONST_HEAD_DIM, g->dims.of['p']);
    if (graph_key_heads(g)) call_set(call, CONST_KEY_HEADS, graph_key_heads(g));
    if (of_interleaved_qkv(g, o)) call_set(call, CONST_QKV_INTERLEAVED, 1);
    call_set(call, CONST_BATCHED,
             letter == 'p'   ? BATCHED_SCORES
             : letter == 'k' ? BATCHED_CONTEXT
                             : BATCHED_TRANSPOSED);
}

/* Where one of Q, K and V lies in the stack of all: rows are wider than the slice; in weights, unless they are
 * transposed, it is a piece. */
static void set_slices(const struct graph *g, struct call *call)
{
    static const uint8_t at[][3] = {{SLOT_X, CONST_X_STRIDE, CONST_X_OFFSET},
                                    {SLOT_W, CONST_W_STRIDE, CONST_W_OFFSET},
                                    {SLOT_Y, CONST_Y_STRIDE, CONST_Y_OFFSET}};
    for (int i = 0; i < call->n_arguments; i++)
        for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
            int tensor = call->arguments[i].tensor;
            if (call->arguments[i].slot != at[k][0] || tensor < 0 || g->tensors[tensor].parent < 0) continue;
            if (g->tensors[tensor].strip) continue; /* an argument of its own */
            call_set(call, at[k][2], tensor_row_offset(g, tensor));
            bool rows = !strchr("qQ", g->tensors[tensor_owner(g, tensor)].dims[0]);
            if (rows) call_set(call, at[k][1], tensor_row_stride(g, tensor));
        }
}

/* Products of which an operand or the result is channel-major. What is summed over is the last letter of an
 * operand that lies along it; the first operand is the one that has the result's rows. */
static void set_channels(const struct graph *g, const struct op *o, struct call *call)
{
    bool exchanged = op_exchanged(g, o);
    int x = o->in[exchanged], w = o->in[!exchanged];
    const char *out = g->tensors[o->out[0]].dims, *x_dims = g->tensors[x].dims, *w_dims = g->tensors[w].dims;
    bool x_along = !strchr(out, x_dims[strlen(x_dims) - 1]), w_along = !strchr(out, w_dims[strlen(w_dims) - 1]);
    call_set(call, CONST_FORM, !x_along ? GEMM_TN : w_along ? GEMM_NT : GEMM_NN);
    call_set(call, CONST_ROWS, HEADER_TOKENS);
    if (dims_channel_major(x_dims)) call_set(call, CONST_X_STRIDE, g->channel_stride);
    if (dims_channel_major(out)) {
        set_rows(g, o, call);
        call_set(call, CONST_K, tensor_row_length(g, w));
        return;
    }
    bool dw = !strchr(out, 'j');
    call_set(call, CONST_RUNTIME, dw ? RUNTIME_K : RUNTIME_M);
    call_set(call, dw ? CONST_M : CONST_K, tensor_row_length(g, x));
    call_set(call, CONST_N, tensor_row_length(g, dw ? w : o->out[0]));
}

static bool of_channels(const struct graph *g, const struct op *o)
{
    const int tensors[] = {o->in[0], o->in[1], o->out[0]};
    for (int i = 0; i < 3; i++)
        if (dims_channel_major(g->tensors[tensors[i]].dims)) return true;
    return false;
}

/* Products of rows: forward with weights [n][k]; backward with the same weights, summed over their first letters (the
 * gradient of the rows), or of rows with rows, summed over the tokens (the gradient of the weights). Turned weights are
 * [k][n] forward and [n][k] backward, and their gradient exchanges what is multiplied. */
CONSTANTS(constants_contract)
{
    (void)group;
    char letters[16];
    einsum_letters(o->einsum, letters);
    if (strchr(letters, 'k')) {
        set_batched(g, o, call);
        return;
    }
    if (of_channels(g, o)) {
        set_channels(g, o, call);
        return;
    }
    set_slices(g, call);
    call_set_pitches(g, call);
    const char *out = g->tensors[o->out[0]].dims;
    bool dw = !strchr(out, 'b');
    /* The weight's outer index is what is summed over, where the rows have it, too. */
    einsum_operand(o->einsum, 0, letters);
    bool outer = strchr(letters, g->tensors[o->in[1]].dims[0]);
    call_set(call, CONST_FORM, dw ? GEMM_TN : outer ? GEMM_NN : GEMM_NT);
    call_set(call, CONST_ROWS, dims_rows(g->tensors[o->in[0]].dims));
    if (dw) {
        bool exchanged = op_exchanged(g, o);
        call_set(call, CONST_M, tensor_row_length(g, o->in[exchanged ? 1 : 0]));
        call_set(call, CONST_N, tensor_row_length(g, o->in[exchanged ? 0 : 1]));
    } else {
        call_set(call, CONST_N, tensor_row_length(g, o->out[0]));
        call_set(call, CONST_K, tensor_row_length(g, o->in[0]));
        if (g->tensors[o->in[1]].int8) call_set(call, CONST_SCALES, tensor_scales_at(g, o->in[1]));
    }
}

uint32_t dropout_threshold(float probability)
{
    double threshold = floor((double)probability * 65536 + 0.5);
    return threshold < 1 ? 1 : threshold > 65535 ? 65535 : (uint32_t)threshold;
}

/* Scores' rows are as many as the sequence's keys, which is why their kernels know no N. */
CONSTANTS(constants_dropout)
{
    call_set(call, CONST_DROPOUT, dropout_threshold(o->dropout));
    call->site = (uint32_t)(4 * o->layer + o->site);
    if (o->site != DROPOUT_ATTENTION) {
        /* A product whose neighbours are gated keeps its own width. */
        if (!is_after(g, group, o, constants_gate) || !is_after(g, group, o, constants_contract)) set_rows(g, o, call);
        return;
    }
    call_set(call, CONST_HEADS, g->dims.of['h']);
    bool softmax = is_after(g, group, o, constants_softmax) || is_after(g, group, o, constants_softmax_recompute);
    if (!softmax) call_set(call, CONST_SOFTMAX, 0);
}

/* A product that makes the gradient has sizes of its own, and sums over the heads of its result. */
CONSTANTS(constants_delta)
{
    call_set(call, CONST_HEAD_DIM, g->dims.of['p']);
    if (is_after(g, group, o, constants_contract)) {
        call_set(call, CONST_DELTA, 1);
        return;
    }
    call_set(call, CONST_N, tensor_row_length(g, o->in[0]));
    call_set(call, CONST_ROWS, HEADER_TOKENS);
    call_set(call, CONST_HEADS, g->dims.of['h']);
}

CONSTANTS(constants_bias)
{
    (void)group;
    set_rows(g, o, call);
    call_set(call, CONST_BIAS, 1);
}

CONSTANTS(constants_scale)
{
    (void)group;
    set_rows(g, o, call);
    call_set_float(call, CONST_SCALE, o->attribute);
}

CONSTANTS(constants_add)
{
    (void)group;
    set_rows(g, o, call);
    call_set(call, CONST_RESIDUAL, 1);
}

/* Products of experts' rows have sizes of their own. */
static void set_activation(const struct graph *g, const struct group *group, const struct op *o, struct call *call,
                           uint8_t id, uint32_t which)
{
    if (!is_after(g, group, o, constants_experts)) set_rows(g, o, call);
    call_set(call, id, which);
}

#define ACTIVATION_CONSTANTS(name, id, which)                                                                          \
    CONSTANTS(constants_##name) { set_activation(g, group, o, call, id, which); }
ACTIVATION_CONSTANTS(relu, CONST_ACTIVATION, ACTIVATION_RELU)
ACTIVATION_CONSTANTS(gelu, CONST_ACTIVATION, ACTIVATION_GELU)
ACTIVATION_CONSTANTS(gelu_tanh, CONST_ACTIVATION, ACTIVATION_GELU_TANH)
ACTIVATION_CONSTANTS(silu, CONST_ACTIVATION, ACTIVATION_SILU)
ACTIVATION_CONSTANTS(tanh, CONST_ACTIVATION, ACTIVATION_TANH)
ACTIVATION_CONSTANTS(log1p_relu, CONST_ACTIVATION, ACTIVATION_LOG1P_RELU)
ACTIVATION_CONSTANTS(log1p_log1p_relu, CONST_ACTIVATION, ACTIVATION_LOG1P_LOG1P_RELU)
ACTIVATION_CONSTANTS(relu_slope, CONST_DERIVATIVE, ACTIVATION_RELU)
ACTIVATION_CONSTANTS(gelu_dx, CONST_DERIVATIVE, ACTIVATION_GELU)
ACTIVATION_CONSTANTS(gelu_tanh_dx, CONST_DERIVATIVE, ACTIVATION_GELU_TANH)
ACTIVATION_CONSTANTS(silu_dx, CONST_DERIVATIVE, ACTIVATION_SILU)
ACTIVATION_CONSTANTS(tanh_dx, CONST_DERIVATIVE, ACTIVATION_TANH)
ACTIVATION_CONSTANTS(given_dx, CONST_DERIVATIVE, ACTIVATION_GIVEN)

static void set_slope_dropout(const struct op *o, struct call *call)
{
    if (o->dropout > 0) call_set(call, CONST_DROPOUT, dropout_threshold(o->dropout));
    call->site = (uint32_t)(4 * o->layer + o->site);
}

/* In a group with its activation it is a second result, SUM_SLOPE; the activation comes after it. */
static void set_slope(const struct graph *g, const struct group *group, const struct op *o, struct call *call,
                      uint32_t which)
{
    set_activation(g, group, o, call, CONST_ACTIVATION, which);
    set_slope_dropout(o, call);
}

CONSTANTS(constants_gelu_slope) { set_slope(g, group, o, call, SLOPE_GELU); }

CONSTANTS(constants_gelu_tanh_slope) { set_slope(g, group, o, call, SLOPE_TANH_GELU); }

/* N is the number of pairs; of a product, which makes them, that of its columns. */
CONSTANTS(constants_gate)
{
    if (!is_after(g, group, o, constants_contract)) set_rows(g, o, call);
    call_set(call, CONST_ACTIVATION, o->activation);
    call_set(call, CONST_GATE, o->gate);
}

/* As slopes of activations come. */
CONSTANTS(constants_gate_slopes)
{
    if (!is_after(g, group, o, constants_contract)) {
        call_set(call, CONST_N, tensor_row_length(g, o->in[0]) / 2);
        call_set(call, CONST_ROWS, dims_rows(g->tensors[o->in[0]].dims));
    }
    call_set(call, CONST_ACTIVATION, SLOPES_OF + o->activation);
    call_set(call, CONST_GATE, o->gate);
    set_slope_dropout(o, call);
}

static void set_gate_dx(const struct graph *g, const struct op *o, struct call *call, uint32_t derivative)
{
    call_set(call, CONST_N, tensor_row_length(g, o->in[0]));
    call_set(call, CONST_ROWS, dims_rows(g->tensors[o->in[0]].dims));
    call_set(call, CONST_DERIVATIVE, derivative);
    call_set(call, CONST_GATE, o->gate);
}

CONSTANTS(constants_gate_dx)
{
    (void)group;
    set_gate_dx(g, o, call, o->activation);
}

CONSTANTS(constants_gate_given_dx)
{
    (void)group;
    set_gate_dx(g, o, call, ACTIVATION_GIVEN);
}

/* What came out of the dropout after the ReLU is zero wherever the gradient becomes zero, dropped or not. */
CONSTANTS(constants_relu_dx)
{
    int maker = tensor_maker(g, o->in[1]);
    constants_relu_slope(g, group, o, call);
    if (maker >= 0 && g->ops[maker].dropout > 0 && is_after(g, group, o, constants_dropout))
        call_set(call, CONST_KEPT, 1);
}

/* How a norm or its gradient is computed, where it is no layernorm with a beta. */
static void set_norm(const struct op *o, int beta, struct call *call)
{
    call_set_float(call, CONST_EPSILON, o->attribute);
    if (o->norm) call_set(call, CONST_RMS, o->norm);
    if (beta < 0) call_set(call, CONST_BETA, 0);
}

CONSTANTS(constants_layernorm)
{
    bool result = is_after(g, group, o, constants_contract);
    set_rows(g, o, call);
    call_set(call, result ? CONST_NORM_Y : CONST_NORM, 1);
    set_norm(o, o->in[2], call);
}

/* What a product writes with its result, or multiplies it by. */
CONSTANTS(constants_moments)
{
    (void)g, (void)group;
    call_set(call, CONST_MOMENTS, MOMENTS_WRITTEN);
    if (o->norm) call_set(call, CONST_RMS, RMS_GAMMA);
}

CONSTANTS(constants_moments_norm)
{
    (void)g, (void)group;
    call_set(call, CONST_MOMENTS, MOMENTS_READ);
    call_set_float(call, CONST_EPSILON, o->attribute);
    if (o->norm) call_set(call, CONST_RMS, RMS_GAMMA); /* 1 + gamma, too, is in the weight */
}

/* N and ROWS of what is summed over its rows. */
static void set_columns(const struct graph *g, const struct op *o, struct call *call)
{
    call_set(call, CONST_N, tensor_row_length(g, o->in[0]));
    call_set(call, CONST_ROWS, dims_rows(g->tensors[o->in[0]].dims));
}

/* A product whose operand or result is summed has sizes of its own. */
CONSTANTS(constants_columns)
{
    for (int i = 0; i < group->count; i++)
        if (g->ops[group->ops[i]].kind->class_ == WHERRY_CLASS_CONTRACTION) return;
    set_columns(g, o, call);
    call_set_pitches(g, call);
}

CONSTANTS(constants_norm_dw)
{
    (void)group;
    set_columns(g, o, call);
    call_set(call, CONST_NORM_DW, 1);
    set_norm(o, o->out[1], call);
}

CONSTANTS(constants_norm_dx)
{
    (void)group;
    set_rows(g, o, call);
    call_set(call, CONST_NORM_DX, 1);
    set_norm(o, o->in[2], call);
}

/* The gradient of a table: its rows, and the list that names one for every token. */
static void set_scatter(const struct graph *g, const struct op *o, struct call *call, uint8_t list)
{
    uint32_t n = tensor_row_length(g, o->in[0]);
    call_set(call, CONST_N, n);
    call_set(call, CONST_M, tensor_row_length(g, o->out[0]) / n);
    call_set(call, CONST_ROWS, HEADER_TOKENS);
    call_set(call, list, 1);
    if (o->in[2] >= 0) call_set(call, CONST_RESIDUAL, 1);
}

CONSTANTS(constants_scatter_word)
{
    (void)group;
    set_scatter(g, o, call, CONST_WORD);
}

CONSTANTS(constants_scatter_position)
{
    (void)group;
    set_scatter(g, o, call, CONST_POSITION);
}

CONSTANTS(constants_scatter_type)
{
    (void)group;
    set_scatter(g, o, call, CONST_TYPE);
    call_set(call, CONST_COLUMN_SUMS, 1); /* few rows that many tokens share: parts of the tokens apart */
}

/* Both sizes are the model's. */
CONSTANTS(constants_transpose)
{
    (void)group;
    uint32_t rows = op_transposed_rows(g, o);
    call_set(call, CONST_M, tensor_row_length(g, o->in[0]) / rows);
    call_set(call, CONST_N, rows);
    call_set(call, CONST_RUNTIME, RUNTIME_NONE);
}

CONSTANTS(constants_pool_max_dx)
{
    (void)group;
    set_rows(g, o, call);
    call_set(call, CONST_ROWS, HEADER_SEQUENCES); /* a column's largest is looked for once a sequence */
    call_set(call, CONST_POOL, POOL_MAX);
}

CONSTANTS(constants_word)
{
    (void)group;
    set_rows(g, o, call);
    call_set(call, CONST_WORD, 1);
}

CONSTANTS(constants_position)
{
    (void)group;
    set_rows(g, o, call);
    call_set(call, CONST_POSITION, 1);
}

CONSTANTS(constants_type)
{
    (void)group;
    set_rows(g, o, call);
    call_set(call, CONST_TYPE, 1);
}

/* A pooling's row may be a piece of a wider one: poolings side by side. */
static void set_pool(const struct graph *g, const struct op *o, struct call *call, uint32_t pool)
{
    set_rows(g, o, call);
    call_set(call, CONST_POOL, pool);
    if (g->tensors[o->out[0]].parent >= 0) set_operand(g, call, CONST_Y_STRIDE, CONST_Y_OFFSET, o->out[0]);
}

#define POOL_CONSTANTS(name, which)                                                                                    \
    CONSTANTS(constants_pool_##name)                                                                                   \
    {                                                                                                                  \
        (void)group;                                                                                                   \
        set_pool(g, o, call, which);                                                                                   \
    }
POOL_CONSTANTS(mean, POOL_MEAN)
POOL_CONSTANTS(cls, POOL_CLS)
POOL_CONSTANTS(max, POOL_MAX)
POOL_CONSTANTS(row, POOL_ROW)
POOL_CONSTANTS(last, POOL_LAST)
POOL_CONSTANTS(sum, POOL_SUM)
POOL_CONSTANTS(sqrt, POOL_SQRT)
POOL_CONSTANTS(weighted, POOL_WEIGHTED)

CONSTANTS(constants_normalize)
{
    (void)group;
    set_rows(g, o, call);
    call_set(call, CONST_NORMALIZE, 1);
}
