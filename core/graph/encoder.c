/* The encoder's forward pass as tables: which tensors there are, and which operators connect them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/kinds.h"

/* ---- one layer ---- */

/* A layer's tensors, by their place in the tables below. X is what the layer before made. */
enum {
    NONE = -1,
    X,
    W_QKV,
    B_QKV,
    QKV_RAW,
    QKV_ALL,
    Q,
    K,
    V,
    BETA,
    ALPHA,
    GAMMA,
    W_OUT,
    B_OUT,
    OUT_RAW,
    OUT_BIASED,
    OUT_DROPPED,
    SUM1,
    G1,
    B1,
    N1,
    W_LIN1,
    B_LIN1,
    LIN1_RAW,
    LIN1_BIASED,
    ACTIVE,
    ACTIVE_DROPPED,
    W_LIN2,
    B_LIN2,
    LIN2_RAW,
    LIN2_BIASED,
    LIN2_DROPPED,
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
};

static const struct tensor_row layer_tensors[LAYER_TENSORS] = {
    [X] = {"x", "bji"},
    [W_QKV] = {"w_qkv", "qhpi", WEIGHT_QKV},
    [B_QKV] = {"b_qkv", "qhp", WEIGHT_QKV_BIAS},
    [QKV_RAW] = {"qkv_raw", "bjqhp"},
    [QKV_ALL] = {"qkv", "bjqhp"},
    [Q] = {"q", "bjhp", .parent = QKV_ALL, .slice = 0},
    [K] = {"k", "bkhp", .parent = QKV_ALL, .slice = 1},
    [V] = {"v", "bkhp", .parent = QKV_ALL, .slice = 2},
    [BETA] = {"beta", "bhjk"},
    [ALPHA] = {"alpha", "bhjk"},
    [GAMMA] = {"gamma", "bjhp"},
    [W_OUT] = {"w_out", "ihp", WEIGHT_OUT},
    [B_OUT] = {"b_out", "i", WEIGHT_OUT_BIAS},
    [OUT_RAW] = {"out", "bji"},
    [OUT_BIASED] = {"out_biased", "bji"},
    [OUT_DROPPED] = {"out_dropped", "bji"},
    [SUM1] = {"sum1", "bji"},
    [G1] = {"gamma1", "i", WEIGHT_GAMMA1},
    [B1] = {"beta1", "i", WEIGHT_BETA1},
    [N1] = {"norm1", "bji"},
    [W_LIN1] = {"w_lin1", "ui", WEIGHT_LIN1},
    [B_LIN1] = {"b_lin1", "u", WEIGHT_LIN1_BIAS},
    [LIN1_RAW] = {"lin1", "bju"},
    [LIN1_BIASED] = {"lin1_biased", "bju"},
    [ACTIVE] = {"active", "bju"},
    [ACTIVE_DROPPED] = {"active_dropped", "bju"},
    [W_LIN2] = {"w_lin2", "iu", WEIGHT_LIN2},
    [B_LIN2] = {"b_lin2", "i", WEIGHT_LIN2_BIAS},
    [LIN2_RAW] = {"lin2", "bji"},
    [LIN2_BIASED] = {"lin2_biased", "bji"},
    [LIN2_DROPPED] = {"lin2_dropped", "bji"},
    [SUM2] = {"sum2", "bji"},
    [G2] = {"gamma2", "i", WEIGHT_GAMMA2},
    [B2] = {"beta2", "i", WEIGHT_BETA2},
    [N2] = {"norm2", "bji"},
};

struct op_row {
    const char *name;
    enum place place;
    const struct op_kind *kind; /* NULL: the model's activation */
    int out;
    int in[OP_MAX_IN];
    const char *einsum;
    int paper_row;
};

#define ATTENTION(input)                                                                                               \
    {"qkv", QKV, &kind_contract, QKV_RAW, {input, W_QKV, NONE}, "bji,qhpi->bjqhp", 1},                                 \
        {"qkv_bias", QKV_BIAS, &kind_bias, QKV_ALL, {QKV_RAW, B_QKV, NONE}, NULL, 2},                                  \
        {"scores", SCORES, &kind_contract, BETA, {Q, K, NONE}, "bjhp,bkhp->bhjk", 3},                                  \
        {"softmax", SOFTMAX, &kind_softmax, ALPHA, {BETA, NONE, NONE}, NULL, 4},                                       \
        {"context", CONTEXT, &kind_contract, GAMMA, {ALPHA, V, NONE}, "bhjk,bkhp->bjhp", 5},                           \
        {"out", OUT, &kind_contract, OUT_RAW, {GAMMA, W_OUT, NONE}, "bjhp,ihp->bji", 6},                               \
        {"out_bias", OUT_BIAS, &kind_bias, OUT_BIASED, {OUT_RAW, B_OUT, NONE}, NULL, 7},                               \
        {"out_dropout", OUT_DROPOUT, &kind_dropout, OUT_DROPPED, {OUT_BIASED, NONE, NONE}, NULL, 8},                   \
    {                                                                                                                  \
        "out_residual", OUT_RESIDUAL, &kind_add, SUM1, {OUT_DROPPED, X, NONE}, NULL, 9                                 \
    }

#define FEED_FORWARD(input, residual)                                                                                  \
    {"lin1", LIN1, &kind_contract, LIN1_RAW, {input, W_LIN1, NONE}, "bji,ui->bju", 11},                                \
        {"lin1_bias", LIN1_BIAS, &kind_bias, LIN1_BIASED, {LIN1_RAW, B_LIN1, NONE}, NULL, 12},                         \
        {"activation", ACTIVATION, NULL, ACTIVE, {LIN1_BIASED, NONE, NONE}, NULL, 13},                                 \
        {"activation_dropout", ACTIVATION_DROPOUT, &kind_dropout, ACTIVE_DROPPED, {ACTIVE, NONE, NONE}, NULL, 14},     \
        {"lin2", LIN2, &kind_contract, LIN2_RAW, {ACTIVE_DROPPED, W_LIN2, NONE}, "bju,iu->bji", 15},                   \
        {"lin2_bias", LIN2_BIAS, &kind_bias, LIN2_BIASED, {LIN2_RAW, B_LIN2, NONE}, NULL, 16},                         \
        {"lin2_dropout", LIN2_DROPOUT, &kind_dropout, LIN2_DROPPED, {LIN2_BIASED, NONE, NONE}, NULL, 17},              \
    {                                                                                                                  \
        "lin2_residual", LIN2_RESIDUAL, &kind_add, SUM2, {LIN2_DROPPED, residual, NONE}, NULL, 18                      \
    }

static const struct op_row post_layernorm[] = {
    ATTENTION(X),
    {"norm1", NORM1, &kind_layernorm, N1, {SUM1, G1, B1}, NULL, 10},
    FEED_FORWARD(N1, N1),
    {"norm2", NORM2, &kind_layernorm, N2, {SUM2, G2, B2}, NULL, 19},
};

static const struct op_row pre_layernorm[] = {
    {"norm1", NORM1, &kind_layernorm, N1, {X, G1, B1}, NULL, 10},
    ATTENTION(N1),
    {"norm2", NORM2, &kind_layernorm, N2, {SUM1, G2, B2}, NULL, 19},
    FEED_FORWARD(N2, SUM1),
};

/* ---- building ---- */

struct builder {
    struct graph *g;
    const struct graph_options *options;
    int tensor_capacity, op_capacity;
    struct error *e;
    bool ok;
};

static int add_tensor(struct builder *b, const struct tensor *t)
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

static void add_op(struct builder *b, const struct op *o)
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

static int add_named(struct builder *b, const char *name, struct tensor t)
{
    t.layer = t.parent = -1;
    snprintf(t.name, sizeof t.name, "%s", name);
    return add_tensor(b, &t);
}

static int add_batch(struct builder *b, const char *name, enum batch_data data)
{
    return add_named(b, name, (struct tensor){.dims = "bj", .role = TENSOR_BATCH, .data = data, .u32 = true});
}

static int add_value(struct builder *b, const char *name, const char *dims)
{
    return add_named(b, name, (struct tensor){.dims = dims, .role = TENSOR_VALUE});
}

static int add_weight(struct builder *b, const char *name, const char *dims, enum weight weight)
{
    return add_named(b, name, (struct tensor){.dims = dims, .role = TENSOR_WEIGHT, .weight = weight});
}

/* An operator outside the layers; returns its output. */
static int add_plain(struct builder *b, const char *name, enum place place, const struct op_kind *kind, int out,
                     int in0, int in1, int in2, const char *einsum)
{
    struct op o = {.kind = kind, .place = place, .layer = -1, .out = out, .in = {in0, in1, in2}, .einsum = einsum};
    snprintf(o.name, sizeof o.name, "%s", name);
    if (kind == &kind_layernorm) o.attribute = b->options->config->epsilon;
    add_op(b, &o);
    return out;
}

static const struct op_kind *activation_kind(wherry_activation activation)
{
    switch (activation) {
    case WHERRY_ACTIVATION_GELU_TANH:
        return &kind_gelu_tanh;
    case WHERRY_ACTIVATION_RELU:
        return &kind_relu;
    default:
        return &kind_gelu;
    }
}

/* Adds the tensors on demand, so that those of absent operators don't exist. */
static int layer_tensor(struct builder *b, int *made, int layer, int at)
{
    if (at == NONE) return -1;
    if (made[at] >= 0) return made[at];
    const struct tensor_row *row = &layer_tensors[at];
    struct tensor t = {.dims = row->dims,
                       .role = row->weight ? TENSOR_WEIGHT : TENSOR_VALUE,
                       .weight = row->weight,
                       .layer = layer,
                       .parent = row->parent ? layer_tensor(b, made, layer, row->parent) : -1,
                       .slice = (uint32_t)row->slice};
    snprintf(t.name, sizeof t.name, "layer.%d.%s", layer, row->name);
    return made[at] = add_tensor(b, &t);
}

/* Appends a layer that reads x; returns what it makes. */
static int add_layer(struct builder *b, int layer, int x)
{
    const wherry_model_config *config = b->options->config;
    const struct op_row *rows = config->pre_layernorm ? pre_layernorm : post_layernorm;
    size_t n = config->pre_layernorm ? sizeof pre_layernorm / sizeof *rows : sizeof post_layernorm / sizeof *rows;
    int made[LAYER_TENSORS], last = x;
    for (int i = 0; i < LAYER_TENSORS; i++) made[i] = -1;
    made[X] = x;
    for (size_t i = 0; i < n && b->ok; i++) {
        const struct op_row *row = &rows[i];
        if (row->kind == &kind_dropout && !(b->options->dropout > 0)) { /* not there: its output is its input */
            made[row->out] = made[row->in[0]];
            continue;
        }
        struct op o = {.kind = row->kind ? row->kind : activation_kind(config->activation),
                       .place = row->place,
                       .layer = layer,
                       .einsum = row->einsum,
                       .paper_row = row->paper_row};
        snprintf(o.name, sizeof o.name, "layer.%d.%s", layer, row->name);
        for (int k = 0; k < OP_MAX_IN; k++) o.in[k] = layer_tensor(b, made, layer, row->in[k]);
        last = o.out = layer_tensor(b, made, layer, row->out);
        if (o.kind == &kind_layernorm) o.attribute = config->epsilon;
        if (o.kind == &kind_softmax) o.attribute = (float)(1 / sqrt((double)b->g->dims.of['p']));
        if (o.kind == &kind_softmax || o.kind == &kind_dropout) o.dropout = b->options->dropout;
        add_op(b, &o);
    }
    return last;
}

static int add_embeddings(struct builder *b)
{
    int ids = add_batch(b, "ids", BATCH_IDS);
    int positions = add_batch(b, "positions", BATCH_POSITIONS);
    int x = add_plain(b, "embed.word", EMBED_WORD, &kind_gather, add_value(b, "embed.word", "bji"), ids,
                      add_weight(b, "word", "vi", WEIGHT_WORD), -1, NULL);
    x = add_plain(b, "embed.position", EMBED_POSITION, &kind_gather_position, add_value(b, "embed.position", "bji"), x,
                  positions, add_weight(b, "position", "mi", WEIGHT_POSITION), NULL);
    if (b->options->config->token_types) {
        int types = add_batch(b, "types", BATCH_TYPES);
        x = add_plain(b, "embed.type", EMBED_TYPE, &kind_gather_type, add_value(b, "embed.type", "bji"), x, types,
                      add_weight(b, "type", "ti", WEIGHT_TYPE), NULL);
    }
    return add_plain(b, "embed.norm", EMBED_NORM, &kind_layernorm, add_value(b, "embed.norm", "bji"), x,
                     add_weight(b, "embed.gamma", "i", WEIGHT_EMBED_GAMMA),
                     add_weight(b, "embed.beta", "i", WEIGHT_EMBED_BETA), NULL);
}

static int add_head(struct builder *b, int x)
{
    const struct graph_options *options = b->options;
    if (options->config->pre_layernorm)
        x = add_plain(b, "final.norm", FINAL_NORM, &kind_layernorm, add_value(b, "final.norm", "bji"), x,
                      add_weight(b, "final.gamma", "i", WEIGHT_FINAL_GAMMA),
                      add_weight(b, "final.beta", "i", WEIGHT_FINAL_BETA), NULL);
    if (options->pool != WHERRY_POOL_NONE) {
        const struct op_kind *kind = options->pool == WHERRY_POOL_MEAN  ? &kind_pool_mean
                                     : options->pool == WHERRY_POOL_MAX ? &kind_pool_max
                                                                        : &kind_pool_cls;
        x = add_plain(b, "pool", POOL, kind, add_value(b, "pool", "bi"), x, -1, -1, NULL);
    }
    if (options->pool == WHERRY_POOL_POOLER) {
        x = add_plain(b, "pooler", POOLER, &kind_contract, add_value(b, "pooler", "bo"), x,
                      add_weight(b, "w_pooler", "oi", WEIGHT_POOLER), -1, "bi,oi->bo");
        x = add_plain(b, "pooler_bias", POOLER_BIAS, &kind_bias, add_value(b, "pooler_biased", "bo"), x,
                      add_weight(b, "b_pooler", "o", WEIGHT_POOLER_BIAS), -1, NULL);
        x = add_plain(b, "pooler_tanh", POOLER_TANH, &kind_tanh, add_value(b, "pooler_tanh", "bo"), x, -1, -1, NULL);
    }
    if (options->normalize) {
        const char *dims = options->pool == WHERRY_POOL_NONE     ? "bji"
                           : options->pool == WHERRY_POOL_POOLER ? "bo"
                                                                 : "bi";
        x = add_plain(b, "normalize", NORMALIZE, &kind_normalize, add_value(b, "normalized", dims), x, -1, -1, NULL);
    }
    return x;
}

bool graph_create(const struct host *host, const struct graph_options *options, struct graph *out, struct error *e)
{
    const wherry_model_config *c = options->config;
    memset(out, 0, sizeof *out);
    out->host = host;
    if (!c->layers || !c->hidden || !c->heads || !c->feed_forward || c->hidden % c->heads)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "an encoder of %u layers, %u channels, %u heads, %u feed-forward channels: each must be positive, "
                    "and the heads must divide the channels",
                    c->layers, c->hidden, c->heads, c->feed_forward);
    out->dims.of['q'] = 3;
    out->dims.of['h'] = c->heads;
    out->dims.of['p'] = c->hidden / c->heads;
    out->dims.of['i'] = out->dims.of['o'] = c->hidden;
    out->dims.of['u'] = c->feed_forward;
    out->dims.of['v'] = c->vocabulary;
    out->dims.of['m'] = c->positions;
    out->dims.of['t'] = c->token_types;
    struct builder b = {.g = out, .options = options, .e = e, .ok = true};
    int x = options->layer_only ? add_value(&b, "x", "bji") : add_embeddings(&b);
    uint32_t layers = options->layer_only ? 1 : c->layers;
    for (uint32_t l = 0; l < layers; l++) x = add_layer(&b, (int)l, x);
    if (!options->layer_only) x = add_head(&b, x);
    if (!b.ok) {
        graph_destroy(out);
        return false;
    }
    out->tensors[x].output = true;
    out->output = x;
    return true;
}

void graph_destroy(struct graph *graph)
{
    if (!graph->host) return;
    host_free(graph->host, graph->tensors);
    host_free(graph->host, graph->ops);
    memset(graph, 0, sizeof *graph);
}
