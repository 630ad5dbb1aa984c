/* Appends tensors and operators to a graph that is being built. */
#include "graph/builder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "interface/interface.h"

/* ---- tensors ---- */

int builder_tensor(struct builder *b, const struct tensor *t)
{
    struct graph *g = b->g;
    if (!b->ok) return 0;
    if (g->n_tensors == b->tensor_capacity) {
        int capacity = b->tensor_capacity ? 2 * b->tensor_capacity : 64;
        void *grown = host_grow(g->host, g->tensors, (size_t)g->n_tensors, (size_t)capacity, sizeof *t, b->e);
        if (!grown) return b->ok = false, 0;
        g->tensors = grown;
        b->tensor_capacity = capacity;
    }
    g->tensors[g->n_tensors] = *t;
    return g->n_tensors++;
}

int builder_named(struct builder *b, const char *name, struct tensor t)
{
    t.layer = t.parent = t.gradient_of = -1;
    snprintf(t.name, sizeof t.name, "%s", name);
    return builder_tensor(b, &t);
}

int builder_value(struct builder *b, const char *name, const char *dims)
{
    return builder_named(b, name, (struct tensor){.dims = dims, .role = TENSOR_VALUE});
}

/* The weight by which a tensor lies: slices of it lie as it does. */
static enum weight row_weight(const struct tensor_row *row)
{
    return row->weight ? row->weight : row_weight(&layer_tensors[row->parent]);
}

static bool is_gated(const struct builder *b) { return b->options->config->gate != WHERRY_GATE_NONE; }

const char *builder_weight_dims(const struct builder *b, enum weight weight, bool other)
{
    const struct tensor_row *row = &tensor_pooler;
    bool transposed = b->options->layout.transposed & WEIGHT_BIT(weight);
    for (int i = 0; i < LAYER_TENSORS; i++)
        if (layer_tensors[i].weight == weight && !layer_tensors[i].parent) row = &layer_tensors[i];
    if (row->gated && is_gated(b)) return transposed != other ? row->gated_transposed : row->gated;
    if (row->grouped && heads_grouped(b->options->config))
        return transposed != other ? row->grouped_transposed : row->grouped;
    return row_order(row, transposed != other, b->options->layout.qkv_interleaved);
}

static const char *row_dims(const struct builder *b, const struct tensor_row *row)
{
    bool grouped = row->grouped && heads_grouped(b->options->config);
    if (row->channel_major && b->options->layout.channel_major) return row->channel_major;
    bool transposed = row->transposed && b->options->layout.transposed & WEIGHT_BIT(row_weight(row));
    if (row->gated && is_gated(b)) return transposed ? row->gated_transposed : row->gated;
    if (grouped) return transposed ? row->grouped_transposed : row->grouped;
    return row_order(row, transposed, b->options->layout.qkv_interleaved);
}

/* The order of the model's files. */
static const char *row_model(const struct builder *b, const struct tensor_row *row)
{
    if (row->gated_model && is_gated(b)) return row->gated_model;
    return row->grouped && heads_grouped(b->options->config) ? row->grouped : row->dims;
}

/* Which slice of its parent's stack: of three, or of heads. */
static uint32_t row_slice(const struct builder *b, const struct tensor_row *row)
{
    const wherry_model_config *config = b->options->config;
    if (!row->slice || !heads_grouped(config)) return (uint32_t)row->slice;
    return config->heads + (uint32_t)(row->slice - 1) * key_heads(config);
}

int builder_layer_tensor(struct builder *b, int layer, int at)
{
    if (at == NONE) return -1;
    int *made = b->made[layer];
    if (made[at] >= 0) return made[at];
    const struct tensor_row *row = &layer_tensors[at];
    const char *dims = row_dims(b, row), *model = row_model(b, row);
    bool paired = row->paired && b->options->config->rotary_base > 0;
    struct tensor t = {.dims = dims,
                       .model_dims = row->weight && (dims != model || paired) ? model : NULL,
                       .role = row->weight ? TENSOR_WEIGHT : TENSOR_VALUE,
                       .weight = row->weight,
                       .layer = layer,
                       .f32 = row->f32,
                       .u32 = row->u32,
                       .before = at == EXPERT_ROWS ? b->options->config->experts : 0,
                       .parent = row->parent ? builder_layer_tensor(b, layer, row->parent) : -1,
                       .slice = row_slice(b, row),
                       .paired = paired,
                       .gradient_of = -1};
    snprintf(t.name, sizeof t.name, "layer.%d.%s", layer, row->name);
    return made[at] = builder_tensor(b, &t);
}

int builder_recomputed(struct builder *b, int tensor)
{
    if (!b->ok) return 0;
    struct tensor t = b->g->tensors[tensor];
    char name[sizeof t.name];
    snprintf(name, sizeof name, "%.40s_again", t.name);
    memcpy(t.name, name, sizeof name);
    t.output = false;
    return builder_tensor(b, &t);
}

/* ---- operators ---- */

void builder_op(struct builder *b, const struct op *o)
{
    struct graph *g = b->g;
    if (!b->ok) return;
    if (g->n_ops == b->op_capacity) {
        int capacity = b->op_capacity ? 2 * b->op_capacity : 64;
        void *grown = host_grow(g->host, g->ops, (size_t)g->n_ops, (size_t)capacity, sizeof *o, b->e);
        if (!grown) {
            b->ok = false;
            return;
        }
        g->ops = grown;
        b->op_capacity = capacity;
    }
    g->ops[g->n_ops++] = *o;
}

struct op op_recomputed(const struct op *o, int out)
{
    struct op copy = *o;
    snprintf(copy.name, sizeof copy.name, "%.40s_again", o->name);
    copy.out[0] = out;
    copy.out[1] = -1;
    copy.role = o->role + RECOMPUTE;
    copy.paper_row = 0;
    return copy;
}

int builder_plain(struct builder *b, const char *name, enum role role, const struct op_kind *kind, int out,
                  const int in[OP_ROW_IN], const char *einsum)
{
    struct op o = {.kind = kind, .role = role, .layer = -1, .out = {out, -1}, .in = {in[0], in[1], in[2], -1}};
    snprintf(o.name, sizeof o.name, "%s", name);
    snprintf(o.einsum, sizeof o.einsum, "%s", einsum ? einsum : "");
    if (kind == &kind_layernorm) o.attribute = b->options->config->epsilon;
    builder_op(b, &o);
    return out;
}

/* Makes the model's kind of norm of a layernorm. */
static void set_norm(const struct builder *b, struct op *o)
{
    static const uint32_t norms[] = {RMS_NONE, RMS_GAMMA, RMS_ONE_GAMMA};
    const wherry_model_config *config = b->options->config;
    if (o->kind == &kind_heads_norm) {
        o->attribute = config->epsilon;
        o->norm = config->norm == WHERRY_NORM_RMS_ONE ? RMS_ONE_GAMMA : RMS_GAMMA;
    }
    if (o->kind == &kind_wide_norm) o->attribute = config->epsilon;
    if (o->kind != &kind_layernorm) return;
    o->attribute = config->epsilon;
    o->norm = norms[config->norm];
    if (o->norm) o->kind = &kind_rmsnorm;
}

int builder_norm(struct builder *b, const char *name, enum role role, int out, int x, const char *const names[2],
                 const char *dims, enum weight gamma)
{
    int made[2] = {-1, -1};
    for (int i = 0; i < (norms_have_beta(b->options->config) ? 2 : 1); i++)
        made[i] = builder_named(
            b, names[i], (struct tensor){.dims = dims, .role = TENSOR_WEIGHT, .weight = (enum weight)(gamma + i)});
    builder_plain(b, name, role, &kind_layernorm, out, (const int[]){x, made[0], made[1]}, NULL);
    if (b->ok) set_norm(b, &b->g->ops[b->g->n_ops - 1]);
    return out;
}

static const struct op_kind *activation_kind(const wherry_model_config *config)
{
    if (config->gate) return &kind_gate;
    switch (config->activation) {
    case WHERRY_ACTIVATION_SILU:
        return &kind_silu;
    case WHERRY_ACTIVATION_GELU_TANH:
        return &kind_gelu_tanh;
    case WHERRY_ACTIVATION_RELU:
        return &kind_relu;
    default:
        return &kind_gelu;
    }
}

static uint32_t activation_number(wherry_activation activation)
{
    switch (activation) {
    case WHERRY_ACTIVATION_GELU_TANH:
        return ACTIVATION_GELU_TANH;
    case WHERRY_ACTIVATION_RELU:
        return ACTIVATION_RELU;
    case WHERRY_ACTIVATION_SILU:
        return ACTIVATION_SILU;
    default:
        return ACTIVATION_GELU;
    }
}

/* A ReLU's follows from what it makes, and a SiLU keeps what goes into it; a gate of any activation has slopes. NULL:
 * there is none. */
static const struct op_kind *slope_kind(const wherry_model_config *config)
{
    if (config->gate) return &kind_gate_slopes;
    return config->activation == WHERRY_ACTIVATION_GELU        ? &kind_gelu_slope
           : config->activation == WHERRY_ACTIVATION_GELU_TANH ? &kind_gelu_tanh_slope
                                                               : NULL;
}

static const struct op_kind *row_kind(const struct builder *b, const struct op_row *row)
{
    const wherry_model_config *config = b->options->config;
    return row->kind ? row->kind : row->role == ACTIVATION_SLOPE ? slope_kind(config) : activation_kind(config);
}

static bool row_there(const struct builder *b, const struct op_row *row, int layer)
{
    if (row->mixed == (layer_mixed(b->options->config, layer) ? SINGLE : MIXED)) return false;
    if (row->when == WHEN_SLOPES)
        return b->options->training && b->options->slopes && layer >= b->options->least_layers && row_kind(b, row);
    bool flash = b->options->training && b->options->flash;
    int parts = b->options->qkv_parts > 1 ? (int)b->options->qkv_parts : 1;
    if (row->role == HEADS_NORM && (row->kind == &kind_wide_norm) != b->options->config->wide_norms) return false;
    return (!row->parts || row->parts == parts) && row->when != (flash ? WHEN_STORED : WHEN_FLASH) &&
           row->gate != (is_gated(b) ? UNGATED : GATED);
}

/* What is left out of some encoders, between what makes its input and what reads its output. */
static bool row_passes(const struct builder *b, const struct op_row *row, int layer)
{
    static const struct {
        int bias;
        uint32_t without;
    } biases[] = {{B_QKV, WHERRY_WITHOUT_QKV_BIAS},
                  {B_OUT, WHERRY_WITHOUT_OUT_BIAS},
                  {B_LIN1, WHERRY_WITHOUT_LIN1_BIAS},
                  {B_LIN2, WHERRY_WITHOUT_LIN2_BIAS}};
    for (size_t i = 0; row->kind == &kind_bias && i < sizeof biases / sizeof *biases; i++)
        if (row->in[1] == biases[i].bias && b->options->config->without & biases[i].without) return true;
    bool first = row->role == NORM1 && !layer && b->options->config->without & WHERRY_WITHOUT_FIRST_NORM;
    bool inner = b->options->config->double_norms, blocks = b->options->config->block_norms;
    bool block = (row->role == OUT_INNER && !inner) || (row->role == OUT_NORM && !inner && !blocks) ||
                 (row->role == LIN2_NORM && !blocks);
    return first || block || (row->kind == &kind_heads_norm && !b->options->config->head_norms) ||
           (row->kind == &kind_rotary && !(b->options->config->rotary_base > 0)) ||
           (row->kind == &kind_dropout && !(b->options->dropout > 0)) ||
           (row->kind == &kind_scores_bias && !b->options->config->relative_buckets);
}

void builder_rows(struct builder *b, int layer, const struct op_row *rows, size_t count)
{
    const wherry_model_config *config = b->options->config;
    for (const struct op_row *row = rows; row < rows + count && b->ok; row++) {
        if (!row_there(b, row, layer)) continue;
        if (row_passes(b, row, layer)) { /* its output is its input */
            b->made[layer][row->out[0]] = builder_layer_tensor(b, layer, row->in[0]);
            continue;
        }
        struct op o = {.kind = row_kind(b, row),
                       .row = row,
                       .role = row->role,
                       .layer = layer,
                       .out = {builder_layer_tensor(b, layer, row->out[0]),
                               row->out[1] ? builder_layer_tensor(b, layer, row->out[1]) : -1},
                       .site = row->site,
                       .paper_row = row->paper[0]};
        snprintf(o.name, sizeof o.name, "layer.%d.%s", layer, row->name);
        const char *einsum = row->grouped && heads_grouped(config) ? row->grouped : row->einsum;
        snprintf(o.einsum, sizeof o.einsum, "%s", einsum ? einsum : "");
        bool beta = o.kind != &kind_layernorm || norms_have_beta(config);
        for (int k = 0; k < OP_MAX_IN; k++)
            o.in[k] = k < (beta ? OP_ROW_IN : 2) ? builder_layer_tensor(b, layer, row->in[k]) : -1;
        set_norm(b, &o);
        if (o.kind == &kind_softmax || o.kind == &kind_scores_bias)
            o.attribute = (float)(1 / sqrt((double)b->g->dims.of['p']));
        if (o.kind == &kind_dropout || o.role == ACTIVATION_SLOPE) o.dropout = b->options->dropout;
        o.normalized = o.kind == &kind_route && config->experts_normalized;
        if (o.kind == &kind_gate || o.kind == &kind_gate_slopes) {
            o.activation = activation_number(config->activation);
            o.gate = config->gate == WHERRY_GATE_FIRST ? GATE_EVEN : GATE_ODD;
        }
        builder_op(b, &o);
    }
}
