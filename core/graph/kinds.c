/* What each kind of operator costs, which constants its kernel needs, and its definition in double. */
#include "graph/kinds.h"

#include <math.h>
#include <string.h>

#include "kernel/interface.h"

static double *value(const struct graph *g, struct values *v, int tensor) { return v->of[tensor_owner(g, tensor)]; }

/* ---- constants ---- */

/* N and ROWS, which every kernel that walks rows needs. */
static void constants_rows(const struct graph *g, const struct op *o, struct call *call)
{
    call_set(call, CONST_N, tensor_row_length(g, o->out));
    call_set(call, CONST_ROWS, strchr(g->tensors[o->out].dims, 'j') ? HEADER_TOKENS : HEADER_SEQUENCES);
}

static void set_operand(const struct graph *g, struct call *call, uint8_t stride, uint8_t offset, int tensor)
{
    call_set(call, stride, tensor_row_stride(g, tensor));
    call_set(call, offset, tensor_row_offset(g, tensor));
}

static bool call_has_slot(const struct call *call, uint8_t slot)
{
    for (int i = 0; i < call->n_arguments; i++)
        if (call->arguments[i].slot == slot) return true;
    return false;
}

/* Products of tokens with weights, and the two products of attention, told apart by where the key position k stands. */
static void constants_contract(const struct graph *g, const struct op *o, struct call *call)
{
    const char *out = g->tensors[o->out].dims;
    if (strchr(out, 'k')) {
        call_set(call, CONST_BATCHED, BATCHED_SCORES);
        set_operand(g, call, CONST_X_STRIDE, CONST_X_OFFSET, o->in[0]);
        set_operand(g, call, CONST_W_STRIDE, CONST_W_OFFSET, o->in[1]);
    } else if (strchr(o->einsum, 'k')) {
        if (call_has_slot(call, SLOT_V)) {
            set_operand(g, call, CONST_V_STRIDE, CONST_V_OFFSET, o->in[1]);
        } else {
            call_set(call, CONST_BATCHED, BATCHED_CONTEXT);
            set_operand(g, call, CONST_W_STRIDE, CONST_W_OFFSET, o->in[1]);
        }
        set_operand(g, call, CONST_Y_STRIDE, CONST_Y_OFFSET, o->out);
    } else {
        constants_rows(g, o, call);
        call_set(call, CONST_K, tensor_row_length(g, o->in[0]));
        return;
    }
    call_set(call, CONST_HEADS, g->dims.of['h']);
    call_set(call, CONST_HEAD_DIM, g->dims.of['p']);
}

static void constants_softmax(const struct graph *g, const struct op *o, struct call *call)
{
    call_set(call, CONST_HEADS, g->dims.of['h']);
    call_set_float(call, CONST_SCALE, o->attribute);
}

static void constants_bias(const struct graph *g, const struct op *o, struct call *call)
{
    constants_rows(g, o, call);
    call_set(call, CONST_BIAS, 1);
}

static void constants_add(const struct graph *g, const struct op *o, struct call *call)
{
    constants_rows(g, o, call);
    call_set(call, CONST_RESIDUAL, 1);
}

static void constants_relu(const struct graph *g, const struct op *o, struct call *call)
{
    constants_rows(g, o, call);
    call_set(call, CONST_ACTIVATION, ACTIVATION_RELU);
}

static void constants_gelu(const struct graph *g, const struct op *o, struct call *call)
{
    constants_rows(g, o, call);
    call_set(call, CONST_ACTIVATION, ACTIVATION_GELU);
}

static void constants_gelu_tanh(const struct graph *g, const struct op *o, struct call *call)
{
    constants_rows(g, o, call);
    call_set(call, CONST_ACTIVATION, ACTIVATION_GELU_TANH);
}

static void constants_tanh(const struct graph *g, const struct op *o, struct call *call)
{
    constants_rows(g, o, call);
    call_set(call, CONST_ACTIVATION, ACTIVATION_TANH);
}

static void constants_layernorm(const struct graph *g, const struct op *o, struct call *call)
{
    constants_rows(g, o, call);
    call_set(call, CONST_NORM, 1);
    call_set_float(call, CONST_EPSILON, o->attribute);
    if (call_has_slot(call, SLOT_SUM)) call_set(call, CONST_SUM, 1);
}

static void constants_word(const struct graph *g, const struct op *o, struct call *call)
{
    constants_rows(g, o, call);
    call_set(call, CONST_WORD, 1);
}

static void constants_position(const struct graph *g, const struct op *o, struct call *call)
{
    constants_rows(g, o, call);
    call_set(call, CONST_POSITION, 1);
}

static void constants_type(const struct graph *g, const struct op *o, struct call *call)
{
    constants_rows(g, o, call);
    call_set(call, CONST_TYPE, 1);
}

static void constants_pool_mean(const struct graph *g, const struct op *o, struct call *call)
{
    constants_rows(g, o, call);
    call_set(call, CONST_POOL, POOL_MEAN);
}

static void constants_pool_cls(const struct graph *g, const struct op *o, struct call *call)
{
    constants_rows(g, o, call);
    call_set(call, CONST_POOL, POOL_CLS);
}

static void constants_pool_max(const struct graph *g, const struct op *o, struct call *call)
{
    constants_rows(g, o, call);
    call_set(call, CONST_POOL, POOL_MAX);
}

static void constants_normalize(const struct graph *g, const struct op *o, struct call *call)
{
    constants_rows(g, o, call);
    call_set(call, CONST_NORMALIZE, 1);
}

/* ---- definitions ---- */

#define REFERENCE(name)                                                                                                \
    static bool name(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v,         \
                     struct error *e)

/* Row `ids[r]` of the table at inputs[table], plus input 0 where `add`. */
static bool gather(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v, int ids_at,
                   bool add, struct error *e)
{
    size_t cols = tensor_row_length(g, o->out), rows = (size_t)tensor_elements(g, b, o->out) / cols;
    const uint32_t *ids = v->ids[o->in[ids_at]];
    int table = o->in[ids_at + 1];
    size_t limit = (size_t)tensor_elements(g, b, table) / cols;
    const double *entries = value(g, v, table), *x = add ? value(g, v, o->in[0]) : NULL;
    double *y = value(g, v, o->out);
    for (size_t r = 0; r < rows; r++) {
        if (ids[r] >= limit)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: row %u of a table of %zu", o->name, ids[r], limit);
        for (size_t c = 0; c < cols; c++) y[r * cols + c] = entries[ids[r] * cols + c] + (x ? x[r * cols + c] : 0);
    }
    return true;
}

REFERENCE(reference_gather) { return gather(g, o, b, v, 0, false, e); }

REFERENCE(reference_gather_add) { return gather(g, o, b, v, 1, true, e); }

/* y = x + in[1], repeated where it is shorter: a bias row, or a residual of the same shape. */
REFERENCE(reference_add)
{
    (void)e;
    size_t n = (size_t)tensor_elements(g, b, o->out), m = (size_t)tensor_elements(g, b, o->in[1]);
    const double *x = value(g, v, o->in[0]), *z = value(g, v, o->in[1]);
    double *y = value(g, v, o->out);
    for (size_t i = 0; i < n; i++) y[i] = x[i] + z[i % m];
    return true;
}

static double relu(double x) { return x > 0 ? x : 0; }

static double gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2.0))); }

static double gelu_tanh(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x))); }

static double identity(double x) { return x; }

static bool each(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v,
                 double (*function)(double))
{
    size_t n = (size_t)tensor_elements(g, b, o->out);
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out);
    for (size_t i = 0; i < n; i++) y[i] = function(x[i]);
    return true;
}

REFERENCE(reference_relu)
{
    (void)e;
    return each(g, o, b, v, relu);
}

REFERENCE(reference_gelu)
{
    (void)e;
    return each(g, o, b, v, gelu);
}

REFERENCE(reference_gelu_tanh)
{
    (void)e;
    return each(g, o, b, v, gelu_tanh);
}

REFERENCE(reference_tanh)
{
    (void)e;
    return each(g, o, b, v, tanh);
}

REFERENCE(reference_dropout)
{
    if (o->dropout > 0)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: dropout %g has no reference: this graph can be analyzed only",
                    o->name, (double)o->dropout);
    return each(g, o, b, v, identity);
}

REFERENCE(reference_softmax)
{
    if (o->dropout > 0)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: dropout %g has no reference: this graph can be analyzed only",
                    o->name, (double)o->dropout);
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out), scale = o->attribute;
    for (uint32_t s = 0; s < b->sequences; s++) {
        size_t len = b->offsets[s + 1] - b->offsets[s];
        for (size_t r = 0; r < g->dims.of['h'] * len; r++, x += len, y += len) {
            double max = x[0], sum = 0;
            for (size_t i = 1; i < len; i++) max = x[i] > max ? x[i] : max;
            for (size_t i = 0; i < len; i++) sum += y[i] = exp(scale * (x[i] - max));
            for (size_t i = 0; i < len; i++) y[i] /= sum;
        }
    }
    return true;
}

REFERENCE(reference_layernorm)
{
    (void)e;
    size_t cols = tensor_row_length(g, o->out), rows = (size_t)tensor_elements(g, b, o->out) / cols;
    const double *x = value(g, v, o->in[0]), *gamma = value(g, v, o->in[1]), *beta = value(g, v, o->in[2]);
    double *y = value(g, v, o->out);
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        double mean = 0, variance = 0;
        for (size_t c = 0; c < cols; c++) mean += x[c];
        mean /= (double)cols;
        for (size_t c = 0; c < cols; c++) variance += (x[c] - mean) * (x[c] - mean);
        double rstd = 1 / sqrt(variance / (double)cols + o->attribute);
        for (size_t c = 0; c < cols; c++) y[c] = (x[c] - mean) * rstd * gamma[c] + beta[c];
    }
    return true;
}

enum combine { COMBINE_FIRST, COMBINE_MEAN, COMBINE_MAX };

/* One row per sequence out of the rows of its tokens. */
static bool pool(const struct graph *g, const struct op *o, const struct batch_shape *b, struct values *v,
                 enum combine how)
{
    size_t cols = tensor_row_length(g, o->out);
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out);
    for (uint32_t s = 0; s < b->sequences; s++, y += cols) {
        size_t first = b->offsets[s], count = b->offsets[s + 1] - first;
        memcpy(y, x + first * cols, cols * sizeof *y);
        for (size_t r = 1; how != COMBINE_FIRST && r < count; r++) {
            const double *row = x + (first + r) * cols;
            for (size_t c = 0; c < cols; c++) y[c] = how == COMBINE_MEAN ? y[c] + row[c] : fmax(y[c], row[c]);
        }
        for (size_t c = 0; how == COMBINE_MEAN && c < cols; c++) y[c] /= (double)count;
    }
    return true;
}

REFERENCE(reference_pool_mean)
{
    (void)e;
    return pool(g, o, b, v, COMBINE_MEAN);
}

REFERENCE(reference_pool_cls)
{
    (void)e;
    return pool(g, o, b, v, COMBINE_FIRST);
}

REFERENCE(reference_pool_max)
{
    (void)e;
    return pool(g, o, b, v, COMBINE_MAX);
}

/* As torch.nn.functional.normalize: lengths below 1e-12 count as 1e-12. */
REFERENCE(reference_normalize)
{
    (void)e;
    size_t cols = tensor_row_length(g, o->out), rows = (size_t)tensor_elements(g, b, o->out) / cols;
    const double *x = value(g, v, o->in[0]);
    double *y = value(g, v, o->out);
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        double sum = 0;
        for (size_t c = 0; c < cols; c++) sum += x[c] * x[c];
        double length = sqrt(sum);
        for (size_t c = 0; c < cols; c++) y[c] = x[c] / (length > 1e-12 ? length : 1e-12);
    }
    return true;
}

/* ---- the kinds ----
 * Flop rules are the paper's (element-wise 1, ReLU 0, softmax 5 and 1 more with dropout, layernorm 7), GELU's 10 per
 * element the common estimate, and a tanh counted like it. */

const struct op_kind kind_gather = {.name = "gather",
                                    .class_ = WHERRY_CLASS_ELEMENTWISE,
                                    .reference = reference_gather,
                                    .constants = constants_word,
                                    .in_slot = {SLOT_IDS, SLOT_WORD},
                                    .gathers = 1};
const struct op_kind kind_gather_position = {.name = "gather+add",
                                             .class_ = WHERRY_CLASS_ELEMENTWISE,
                                             .flops_per_element = 1,
                                             .reference = reference_gather_add,
                                             .constants = constants_position,
                                             .in_slot = {SLOT_X, SLOT_POSITIONS, SLOT_POSITION},
                                             .gathers = 2};
const struct op_kind kind_gather_type = {.name = "gather+add",
                                         .class_ = WHERRY_CLASS_ELEMENTWISE,
                                         .flops_per_element = 1,
                                         .reference = reference_gather_add,
                                         .constants = constants_type,
                                         .in_slot = {SLOT_X, SLOT_TYPES, SLOT_TYPE},
                                         .gathers = 2};
const struct op_kind kind_contract = {.name = "contract",
                                      .class_ = WHERRY_CLASS_CONTRACTION,
                                      .reference = einsum_reference,
                                      .constants = constants_contract,
                                      .in_slot = {SLOT_X, SLOT_W}};
const struct op_kind kind_bias = {.name = "bias",
                                  .class_ = WHERRY_CLASS_ELEMENTWISE,
                                  .flops_per_element = 1,
                                  .reference = reference_add,
                                  .constants = constants_bias,
                                  .in_slot = {SLOT_X, SLOT_BIAS}};
const struct op_kind kind_add = {.name = "add",
                                 .class_ = WHERRY_CLASS_ELEMENTWISE,
                                 .flops_per_element = 1,
                                 .reference = reference_add,
                                 .constants = constants_add,
                                 .in_slot = {SLOT_X, SLOT_RESIDUAL}};
const struct op_kind kind_dropout = {.name = "dropout",
                                     .class_ = WHERRY_CLASS_ELEMENTWISE,
                                     .flops_per_element = 1,
                                     .reference = reference_dropout,
                                     .constants = constants_rows,
                                     .in_slot = {SLOT_X}};
const struct op_kind kind_relu = {.name = "relu",
                                  .class_ = WHERRY_CLASS_ELEMENTWISE,
                                  .reference = reference_relu,
                                  .constants = constants_relu,
                                  .in_slot = {SLOT_X}};
const struct op_kind kind_gelu = {.name = "gelu",
                                  .class_ = WHERRY_CLASS_ELEMENTWISE,
                                  .flops_per_element = 10,
                                  .reference = reference_gelu,
                                  .constants = constants_gelu,
                                  .in_slot = {SLOT_X}};
const struct op_kind kind_gelu_tanh = {.name = "gelu_tanh",
                                       .class_ = WHERRY_CLASS_ELEMENTWISE,
                                       .flops_per_element = 10,
                                       .reference = reference_gelu_tanh,
                                       .constants = constants_gelu_tanh,
                                       .in_slot = {SLOT_X}};
const struct op_kind kind_tanh = {.name = "tanh",
                                  .class_ = WHERRY_CLASS_ELEMENTWISE,
                                  .flops_per_element = 10,
                                  .reference = reference_tanh,
                                  .constants = constants_tanh,
                                  .in_slot = {SLOT_X}};
const struct op_kind kind_softmax = {.name = "softmax",
                                     .class_ = WHERRY_CLASS_NORMALIZATION,
                                     .flops_per_element = 5,
                                     .reference = reference_softmax,
                                     .constants = constants_softmax,
                                     .in_slot = {SLOT_X}};
const struct op_kind kind_layernorm = {.name = "layernorm",
                                       .class_ = WHERRY_CLASS_NORMALIZATION,
                                       .flops_per_element = 7,
                                       .reference = reference_layernorm,
                                       .constants = constants_layernorm,
                                       .in_slot = {SLOT_X, SLOT_GAMMA, SLOT_BETA}};
const struct op_kind kind_pool_mean = {.name = "pool_mean",
                                       .class_ = WHERRY_CLASS_NORMALIZATION,
                                       .flops_per_element = 1,
                                       .flops_on_input = true,
                                       .reference = reference_pool_mean,
                                       .constants = constants_pool_mean,
                                       .in_slot = {SLOT_X}};
const struct op_kind kind_pool_cls = {.name = "pool_cls",
                                      .class_ = WHERRY_CLASS_ELEMENTWISE,
                                      .reference = reference_pool_cls,
                                      .constants = constants_pool_cls,
                                      .in_slot = {SLOT_X},
                                      .reads_output_size = true};
const struct op_kind kind_pool_max = {.name = "pool_max",
                                      .class_ = WHERRY_CLASS_NORMALIZATION,
                                      .flops_per_element = 1,
                                      .flops_on_input = true,
                                      .reference = reference_pool_max,
                                      .constants = constants_pool_max,
                                      .in_slot = {SLOT_X}};
const struct op_kind kind_normalize = {.name = "normalize",
                                       .class_ = WHERRY_CLASS_NORMALIZATION,
                                       .flops_per_element = 3,
                                       .reference = reference_normalize,
                                       .constants = constants_normalize,
                                       .in_slot = {SLOT_X}};
