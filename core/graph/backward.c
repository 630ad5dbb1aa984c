/* The encoder's backward pass as tables, and what of the forward pass it reads or computes again. */
#include <stdio.h>
#include <string.h>

#include "graph/builder.h"
#include "interface/random.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- one layer ---- */

/* From the gradient of the feed-forward's last sum (D_SUM2) to that of its input by way of lin1 (D_FF). */
#define FEED_FORWARD_BACKWARD(input)                                                                                   \
    {                                                                                                                  \
        "lin2_dropout_dx",   LIN2_DROPOUT_DX, &kind_dropout, {D_LIN2}, {D_SUM2, NONE, NONE}, NULL, 22,                 \
        .site = DROPOUT_LIN2},                                                                                         \
        {"w_lin2_transpose", LIN2_TRANSPOSE, &kind_transpose, {W_LIN2_COPY}, {W_LIN2, NONE, NONE}, NULL, 0},           \
        {"lin2_dx", LIN2_DX, &kind_contract, {D_ACTIVE_DROPPED}, {D_LIN2, W_LIN2_COPY, NONE}, "bji,iu->bju", 23},      \
        {"lin2_dw", LIN2_DW, &kind_contract, {DW_LIN2}, {D_LIN2, ACTIVE_DROPPED, NONE}, "bji,bju->iu", 24},            \
        {"lin2_bias_dw", LIN2_BIAS_DW, &kind_column_sum, {DB_LIN2}, {D_LIN2, NONE, NONE}, NULL, 25},                   \
        {"activation_dropout_dx",                                                                                      \
         ACTIVATION_DROPOUT_DX,                                                                                        \
         &kind_dropout,                                                                                                \
         {D_ACTIVE},                                                                                                   \
         {D_ACTIVE_DROPPED, NONE, NONE},                                                                               \
         NULL,                                                                                                         \
         26,                                                                                                           \
         .site = DROPOUT_ACTIVATION},                                                                                  \
        {"activation_dx", ACTIVATION_DX, NULL, {D_LIN1}, {D_ACTIVE, LIN1_BIASED, NONE}, NULL, 27},                     \
        {"lin1_bias_dw", LIN1_BIAS_DW, &kind_column_sum, {DB_LIN1}, {D_LIN1, NONE, NONE}, NULL, 28},                   \
        {"w_lin1_transpose", LIN1_TRANSPOSE, &kind_transpose, {W_LIN1_COPY}, {W_LIN1, NONE, NONE}, NULL, 0},           \
        {"lin1_dx", LIN1_DX, &kind_contract, {D_FF}, {D_LIN1, W_LIN1_COPY, NONE}, "bju,ui->bji", 29},                  \
    {                                                                                                                  \
        "lin1_dw", LIN1_DW, &kind_contract, {DW_LIN1}, {D_LIN1, input, NONE}, "bju,bji->ui", 30                        \
    }

/* From the gradient of attention's sum (D_SUM1) to that of its input by way of the product (D_ATT). Without stored
 * weights they are computed again, and the sum over a row of weights times their gradient is that of the output times
 * its gradient (delta). */
#define ATTENTION_BACKWARD(input)                                                                                        \
    {"out_dropout_dx", OUT_DROPOUT_DX, &kind_dropout, {D_OUT}, {D_SUM1, NONE, NONE}, NULL, 34, .site = DROPOUT_OUT},     \
        {"out_bias_dw", OUT_BIAS_DW, &kind_column_sum, {DB_OUT}, {D_OUT, NONE, NONE}, NULL, 35},                         \
        {"w_out_transpose", OUT_TRANSPOSE, &kind_transpose, {W_OUT_COPY}, {W_OUT, NONE, NONE}, NULL, 0},                 \
        {"out_dx", OUT_DX, &kind_contract, {D_GAMMA}, {D_OUT, W_OUT_COPY, NONE}, "bji,ihp->bjhp", 36},                   \
        {"out_dw", OUT_DW, &kind_contract, {DW_OUT}, {D_OUT, GAMMA, NONE}, "bji,bjhp->ihp", 37},                         \
        {"delta", ATTENTION_DELTA, &kind_delta, {DELTA}, {D_GAMMA, GAMMA, NONE}, NULL, 0, WHEN_FLASH},                   \
        {"scores_again", SCORES_RECOMPUTE, &kind_contract, {BETA_RECOMPUTE}, {Q, K, NONE}, "bjhp,bkhp->bhjk", 0,         \
         WHEN_FLASH},                                                                                                    \
        {"softmax_again",                                                                                                \
         SOFTMAX_RECOMPUTE,                                                                                              \
         &kind_softmax_recompute,                                                                                        \
         {ALPHA_RECOMPUTE},                                                                                              \
         {BETA_RECOMPUTE, LSE, NONE},                                                                                    \
         NULL,                                                                                                           \
         0,                                                                                                              \
         WHEN_FLASH},                                                                                                    \
        {"attention_dropout_again",                                                                                      \
         ATTENTION_DROPOUT_RECOMPUTE,                                                                                    \
         &kind_dropout,                                                                                                  \
         {ALPHA_DROPPED_RECOMPUTE},                                                                                      \
         {ALPHA_RECOMPUTE, NONE, NONE},                                                                                  \
         NULL,                                                                                                           \
         0,                                                                                                              \
         WHEN_FLASH,                                                                                                     \
         DROPOUT_ATTENTION},                                                                                             \
        {"context_dx1", CONTEXT_DX1, &kind_contract, {D_ALPHA_DROPPED}, {D_GAMMA, V, NONE}, "bjhp,bkhp->bhjk", 38},      \
        {"context_dx2",     CONTEXT_DX2, &kind_contract, {D_V}, {ALPHA_DROPPED_RECOMPUTE, D_GAMMA, NONE},                \
         "bhjk,bjhp->bkhp", 39},                                                                                         \
        {"attention_dropout_dx",                                                                                         \
         ATTENTION_DROPOUT_DX,                                                                                           \
         &kind_dropout,                                                                                                  \
         {D_ALPHA},                                                                                                      \
         {D_ALPHA_DROPPED, NONE, NONE},                                                                                  \
         NULL,                                                                                                           \
         40,                                                                                                             \
         .site = DROPOUT_ATTENTION},                                                                                     \
        {"softmax_dx", SOFTMAX_DX, &kind_softmax_dx, {D_BETA}, {D_ALPHA, ALPHA_RECOMPUTE, NONE}, NULL, 40, WHEN_STORED}, \
        {"softmax_dx", SOFTMAX_DX, &kind_softmax_dx, {D_BETA}, {D_ALPHA, ALPHA_RECOMPUTE, DELTA}, NULL, 40, WHEN_FLASH}, \
        {"scores_dx1", SCORES_DX1, &kind_contract, {D_Q}, {D_BETA, K, NONE}, "bhjk,bkhp->bjhp", 41},                     \
        {"scores_dx2", SCORES_DX2, &kind_contract, {D_K}, {D_BETA, Q, NONE}, "bhjk,bjhp->bkhp", 42},                     \
        {"w_qkv_transpose", QKV_TRANSPOSE, &kind_transpose, {W_QKV_COPY}, {W_QKV, NONE, NONE}, NULL, 0, .parts = 1},     \
        {"qkv_dx", QKV_DX, &kind_contract, {D_ATT}, {D_QKV, W_QKV_COPY, NONE}, "bjqhp,qhpi->bji", 43, .parts = 1},       \
        {"qk_dx",           QKV_DX_FIRST, &kind_contract, {D_ATT_FIRST}, {D_QK_ROWS, W_QK, NONE},                        \
         "bjrhp,rhpi->bji", 43,           .parts = 2},                                                                   \
        {"q_dx", QKV_DX_FIRST, &kind_contract, {D_ATT_FIRST}, {D_Q_ROWS, W_Q, NONE}, "bjhp,hpi->bji", 43, .parts = 3},   \
        {"k_dx", QKV_DX, &kind_contract, {D_ATT_SECOND}, {D_K_ROWS, W_K, NONE}, "bjhp,hpi->bji", 43, .parts = 3},        \
        {"k_add", QKV_ADD, &kind_add, {D_ATT_SECOND_SUM}, {D_ATT_SECOND, D_ATT_FIRST, NONE}, NULL, 0, .parts = 3},       \
        {"v_dx", QKV_DX, &kind_contract, {D_ATT_LAST}, {D_V_ROWS, W_V, NONE}, "bjhp,hpi->bji", 43, .parts = 2},          \
        {"v_add", QKV_ADD, &kind_add, {D_ATT}, {D_ATT_LAST, D_ATT_FIRST, NONE}, NULL, 0, .parts = 2},                    \
        {"v_dx", QKV_DX, &kind_contract, {D_ATT_LAST}, {D_V_ROWS, W_V, NONE}, "bjhp,hpi->bji", 43, .parts = 3},          \
        {"v_add", QKV_ADD, &kind_add, {D_ATT}, {D_ATT_LAST, D_ATT_SECOND_SUM, NONE}, NULL, 0, .parts = 3},               \
        {"qkv_dw", QKV_DW, &kind_contract, {DW_QKV}, {D_QKV, input, NONE}, "bjqhp,bji->qhpi", 44, .parts = 1},           \
        {"qk_dw", QKV_DW, &kind_contract, {DW_QK}, {D_QK_ROWS, input, NONE}, "bjrhp,bji->rhpi", 44, .parts = 2},         \
        {"q_dw", QKV_DW, &kind_contract, {DW_Q}, {D_Q_ROWS, input, NONE}, "bjhp,bji->hpi", 44, .parts = 3},              \
        {"k_dw", QKV_DW, &kind_contract, {DW_K}, {D_K_ROWS, input, NONE}, "bjhp,bji->hpi", 44, .parts = 3},              \
        {"v_dw", QKV_DW, &kind_contract, {DW_V}, {D_V_ROWS, input, NONE}, "bjhp,bji->hpi", 44, .parts = 2},              \
        {"v_dw", QKV_DW, &kind_contract, {DW_V}, {D_V_ROWS, input, NONE}, "bjhp,bji->hpi", 44, .parts = 3},              \
    {                                                                                                                    \
        "qkv_bias_dw", QKV_BIAS_DW, &kind_column_sum, {DB_QKV}, {D_QKV, NONE, NONE}, NULL, 45                            \
    }

static const struct op_row post_layernorm[] = {
    {"norm2_dw", NORM2_DW, &kind_norm_dw, {DG2, DB2}, {DY, SUM2, NONE}, NULL, 20},
    {"norm2_dx", NORM2_DX, &kind_norm_dx, {D_SUM2}, {DY, SUM2, G2}, NULL, 21},
    FEED_FORWARD_BACKWARD(N1),
    {"ff_residual_dx", FF_RESIDUAL_DX, &kind_add, {D_N1}, {D_FF, D_SUM2, NONE}, NULL, 31},
    {"norm1_dw", NORM1_DW, &kind_norm_dw, {DG1, DB1}, {D_N1, SUM1, NONE}, NULL, 32},
    {"norm1_dx", NORM1_DX, &kind_norm_dx, {D_SUM1}, {D_N1, SUM1, G1}, NULL, 33},
    ATTENTION_BACKWARD(X),
    {"residual_dx", RESIDUAL_DX, &kind_add, {DX}, {D_ATT, D_SUM1, NONE}, NULL, 46},
};

/* DY is D_SUM2 itself. */
static const struct op_row pre_layernorm[] = {
    FEED_FORWARD_BACKWARD(N2),
    {"norm2_dw", NORM2_DW, &kind_norm_dw, {DG2, DB2}, {D_FF, SUM1, NONE}, NULL, 20},
    {"norm2_dx", NORM2_DX, &kind_norm_dx, {D_FFN}, {D_FF, SUM1, G2}, NULL, 21},
    {"ff_residual_dx", FF_RESIDUAL_DX, &kind_add, {D_SUM1}, {D_FFN, D_SUM2, NONE}, NULL, 31},
    ATTENTION_BACKWARD(N1),
    {"norm1_dw", NORM1_DW, &kind_norm_dw, {DG1, DB1}, {D_ATT, X, NONE}, NULL, 32},
    {"norm1_dx", NORM1_DX, &kind_norm_dx, {D_ATTN}, {D_ATT, X, G1}, NULL, 33},
    {"residual_dx", RESIDUAL_DX, &kind_add, {DX}, {D_ATTN, D_SUM1, NONE}, NULL, 46},
};

/* Appends what takes the gradient of a layer's output to that of its input, which it returns. */
static int add_layer(struct builder *b, int layer, int dy)
{
    int *made = b->made[layer];
    bool pre = b->options->config->pre_layernorm;
    made[pre ? D_SUM2 : DY] = dy;
    if (!b->options->flash) { /* stored weights are read, not computed again */
        made[ALPHA_RECOMPUTE] = made[ALPHA];
        made[ALPHA_DROPPED_RECOMPUTE] = made[ALPHA_DROPPED];
    }
    if (pre)
        builder_rows(b, layer, pre_layernorm, COUNT(pre_layernorm));
    else
        builder_rows(b, layer, post_layernorm, COUNT(post_layernorm));
    return builder_layer_tensor(b, layer, DX);
}

/* ---- outside the layers ---- */

static int add_plain(struct builder *b, const char *name, enum place place, const struct op_kind *kind, int out,
                     int in0, int in1, int in2, const char *einsum)
{
    return builder_plain(b, name, place, kind, out, -1, (const int[]){in0, in1, in2}, einsum);
}

static int add_norm(struct builder *b, const char *name, enum place dw, enum place dx, const struct op *norm, int d)
{
    char text[48];
    int x = norm->in[0], gamma = norm->in[1], beta = norm->in[2];
    int d_gamma = builder_gradient(b, gamma), d_beta = builder_gradient(b, beta);
    snprintf(text, sizeof text, "%s_dw", name);
    builder_plain(b, text, dw, &kind_norm_dw, d_gamma, d_beta, (const int[]){d, x, -1}, NULL);
    snprintf(text, sizeof text, "%s_dx", name);
    return add_plain(b, text, dx, &kind_norm_dx, builder_value(b, text, "bji"), d, x, gamma, NULL);
}

static const struct op_kind *pool_dx(const struct op_kind *kind)
{
    return kind == &kind_pool_mean  ? &kind_pool_mean_dx
           : kind == &kind_pool_max ? &kind_pool_max_dx
                                    : &kind_pool_cls_dx;
}

static int add_pooler_dx(struct builder *b, int weight, int d)
{
    if (b->options->copied & WEIGHT_BIT(WEIGHT_POOLER))
        weight = add_plain(b, "w_pooler_transpose", POOLER_TRANSPOSE, &kind_transpose, builder_pooler_copy(b), weight,
                           -1, -1, NULL);
    return add_plain(b, "pooler_dx", POOLER_DX, &kind_contract, builder_value(b, "d_pooler", "bi"), d, weight, -1,
                     "bo,oi->bi");
}

/* The gradient after one operator outside the layers becomes that before it. */
static int add_outside(struct builder *b, const struct op *o, int d)
{
    struct graph *g = b->g;
    switch (o->place) {
    case NORMALIZE:
        return add_plain(b, "normalize_dx", NORMALIZE_DX, &kind_normalize_dx,
                         builder_value(b, "d_normalize", g->tensors[o->in[0]].dims), d, o->in[0], -1, NULL);
    case POOLER_TANH:
        return add_plain(b, "pooler_tanh_dx", POOLER_TANH_DX, &kind_tanh_dx, builder_value(b, "d_pooler_tanh", "bo"), d,
                         o->out[0], -1, NULL);
    case POOLER_BIAS:
        add_plain(b, "pooler_bias_dw", POOLER_BIAS_DW, &kind_column_sum, builder_gradient(b, o->in[1]), d, -1, -1,
                  NULL);
        return d;
    case POOLER:
        add_plain(b, "pooler_dw", POOLER_DW, &kind_contract, builder_gradient(b, o->in[1]), d, o->in[0], -1,
                  "bo,bi->oi");
        return add_pooler_dx(b, o->in[1], d);
    case POOL:
        return add_plain(b, "pool_dx", POOL_DX, pool_dx(o->kind), builder_value(b, "d_pool", "bji"), d,
                         o->kind == &kind_pool_max ? o->in[0] : -1, -1, NULL);
    case FINAL_NORM:
        return add_norm(b, "final_norm", FINAL_NORM_DW, FINAL_NORM_DX, o, d);
    case EMBED_NORM:
        return add_norm(b, "embed_norm", EMBED_NORM_DW, EMBED_NORM_DX, o, d);
    case EMBED_TYPE:
        add_plain(b, "embed_type_dw", EMBED_TYPE_DW, &kind_scatter_type, builder_gradient(b, o->in[2]), d, o->in[1], -1,
                  NULL);
        return d;
    case EMBED_POSITION:
        add_plain(b, "embed_position_dw", EMBED_POSITION_DW, &kind_scatter_position, builder_gradient(b, o->in[2]), d,
                  o->in[1], -1, NULL);
        return d;
    case EMBED_WORD:
        add_plain(b, "embed_word_dw", EMBED_WORD_DW, &kind_scatter_word, builder_gradient(b, o->in[1]), d, o->in[0], -1,
                  NULL);
        return d;
    default:
        b->ok = fail(b->e, WHERRY_STATUS_UNSUPPORTED, "%s has no backward pass", o->name);
        return d;
    }
}

/* ---- save or compute again ---- */

static enum place place_recompute(enum place place)
{
    switch (place) {
    case NORM1:
        return NORM1_RECOMPUTE;
    case NORM2:
        return NORM2_RECOMPUTE;
    case EMBED_NORM:
        return EMBED_NORM_RECOMPUTE;
    case ACTIVATION:
        return ACTIVATION_RECOMPUTE;
    case ACTIVATION_DROPOUT:
        return ACTIVATION_DROPOUT_RECOMPUTE;
    case ATTENTION_DROPOUT:
        return ATTENTION_DROPOUT_RECOMPUTE;
    default:
        return PLACE_END;
    }
}

static int maker_of(const struct graph *g, int tensor)
{
    for (int o = 0; o < g->n_forward; o++)
        if (g->ops[o].out[0] == tensor || g->ops[o].out[1] == tensor) return o;
    return -1;
}

/* The first operator of the backward pass that reads the tensor or a slice of it, -1: none does. */
static int first_reader(const struct graph *g, int tensor)
{
    for (int o = g->n_forward; o < g->n_ops; o++)
        for (int i = 0; i < OP_MAX_IN; i++)
            if (g->ops[o].in[i] >= 0 && tensor_owner(g, g->ops[o].in[i]) == tensor) return o;
    return -1;
}

/* Whether the tensor follows, row by row, from others that the backward pass has anyway. */
static bool follows(const struct graph *g, int tensor)
{
    int maker = maker_of(g, tensor);
    if (maker < 0 || !g->ops[maker].kind->recomputable || !place_recompute(g->ops[maker].place)) return false;
    for (int i = 0; i < OP_MAX_IN; i++) {
        int in = g->ops[maker].in[i];
        if (in < 0 || g->tensors[in].role != TENSOR_VALUE || first_reader(g, in) >= 0) continue;
        if (!follows(g, in)) return false;
    }
    return true;
}

static void insert_op(struct builder *b, int at, const struct op *o)
{
    struct graph *g = b->g;
    builder_op(b, o);
    if (!b->ok) return;
    memmove(&g->ops[at + 1], &g->ops[at], (size_t)(g->n_ops - 1 - at) * sizeof *o);
    g->ops[at] = *o;
}

/* Inserts the operators that make the tensor again before operator *at, which they push after; returns the copy. */
static int make_again(struct builder *b, int tensor, int *at)
{
    struct op o = b->g->ops[maker_of(b->g, tensor)];
    struct tensor t = b->g->tensors[tensor];
    char name[sizeof o.name];
    snprintf(name, sizeof name, "%.40s_again", t.name);
    memcpy(t.name, name, sizeof name);
    t.output = false;
    snprintf(name, sizeof name, "%.40s_again", o.name);
    memcpy(o.name, name, sizeof name);
    for (int i = 0; i < OP_MAX_IN && b->ok; i++) {
        int in = o.in[i];
        if (in >= 0 && b->g->tensors[in].role == TENSOR_VALUE && first_reader(b->g, in) < 0)
            o.in[i] = make_again(b, in, at);
    }
    int copy = builder_tensor(b, &t);
    o.out[0] = copy;
    o.place = place_recompute(o.place);
    o.paper_row = 0;
    insert_op(b, *at, &o);
    ++*at;
    return copy;
}

/* Fewest bytes kept: what follows from the rest is not kept. The last made first, so that what it follows from is still
 * counted as kept. */
static void keep_least(struct builder *b)
{
    struct graph *g = b->g;
    for (int o = g->n_forward - 1; o >= 0 && b->ok; o--) {
        int tensor = g->ops[o].out[0], at = first_reader(g, tensor);
        if (at < 0 || g->tensors[tensor].output || !follows(g, tensor)) continue;
        int copy = make_again(b, tensor, &at);
        for (int reader = at; reader < g->n_ops; reader++)
            for (int i = 0; i < OP_MAX_IN; i++)
                if (g->ops[reader].in[i] == tensor) g->ops[reader].in[i] = copy;
    }
}

/* A ReLU's derivative follows from what it made as well as from what it read, and the former is kept anyway. */
static void keep_relu_output(struct builder *b, int layer)
{
    int *made = b->made[layer];
    for (int o = b->g->n_forward; o < b->g->n_ops; o++)
        if (b->g->ops[o].layer == layer && b->g->ops[o].kind == &kind_relu_dx)
            b->g->ops[o].in[1] = made[ACTIVE_DROPPED];
}

/* ---- all of it ---- */

void builder_backward(struct builder *b)
{
    struct graph *g = b->g;
    if (!b->ok) return;
    int d = g->out_gradient = builder_named(
        b, "d_output", (struct tensor){.dims = g->tensors[g->output].dims, .role = TENSOR_VALUE, .input = true});
    int layers = (int)b->options->config->layers, last = g->n_forward - 1;
    for (; last >= 0 && g->ops[last].layer < 0 && b->ok; last--) {
        struct op o = g->ops[last]; /* the list moves while it grows */
        d = add_outside(b, &o, d);
    }
    bool outputs = b->options->save == WHERRY_SAVE_DEFAULT || b->options->save == WHERRY_SAVE_LEAST;
    for (int layer = layers - 1; layer >= 0 && b->ok; layer--) {
        d = add_layer(b, layer, d);
        if (b->ok && outputs) keep_relu_output(b, layer);
    }
    if (!b->ok) return;
    if (b->options->stack) {
        g->in_gradient = d;
        g->tensors[d].output = true;
    }
    while (last >= 0 && g->ops[last].layer >= 0) last--;
    for (; last >= 0 && b->ok; last--) {
        struct op o = g->ops[last];
        d = add_outside(b, &o, d);
    }
    if (b->ok && b->options->save == WHERRY_SAVE_LEAST) keep_least(b);
}
