/* The encoder's forward pass: tables of a layer's operators, and what comes before and after the layers. */
#include <stdio.h>
#include <string.h>

#include "base/round.h"
#include "graph/builder.h"
#include "graph/experts.h"
#include "graph/mask.h"
#include "interface/random.h"

/* ---- one layer ---- */

/* A row is an operator: what it makes of what it reads, the einsum of a contraction, and the rows of the table of
 * Ivanov et al. for it and for its gradients. Einsums have the letters of tensors.c, whatever order the tensors lie in.
 */

/* clang-format off */
/*   name                  role               kind             makes                reads                                    einsum               the paper's rows */
#define ATTENTION(input) \
    {"qkv",                QKV,               &kind_contract,  {QKV_RAW},           {input, W_QKV, NONE},                    "bji,qhpi->bjqhp",  .paper = {1, 43, 44}, .parts = 1, .grouped = "bji,Qpi->bjQp"}, \
    {"qk",                 QKV,               &kind_contract,  {QK_RAW},            {input, W_QK, NONE},                     "bji,rhpi->bjrhp",  .paper = {1, 43, 44}, .parts = 2}, \
    {"v",                  QKV,               &kind_contract,  {V_RAW},             {input, W_V, NONE},                      "bji,hpi->bjhp",    .paper = {1, 43, 44}, .parts = 2}, \
    {"q",                  QKV,               &kind_contract,  {Q_RAW},             {input, W_Q, NONE},                      "bji,hpi->bjhp",    .paper = {1, 43, 44}, .parts = 3}, \
    {"k",                  QKV,               &kind_contract,  {K_RAW},             {input, W_K, NONE},                      "bji,hpi->bjhp",    .paper = {1, 43, 44}, .parts = 3}, \
    {"v",                  QKV,               &kind_contract,  {V_RAW},             {input, W_V, NONE},                      "bji,hpi->bjhp",    .paper = {1, 43, 44}, .parts = 3}, \
    {"qkv_bias",           QKV_BIAS,          &kind_bias,      {QKV_ALL},           {QKV_RAW, B_QKV, NONE},                  NULL,               .paper = {2, 0, 45}}, \
    {"heads_norm",         HEADS_NORM,        &kind_heads_norm,{QKV_NORMED},        {QKV_ALL, G_HEADS, NONE},                NULL,               .paper = {0}}, \
    {"wide_norm",          HEADS_NORM,        &kind_wide_norm, {QKV_NORMED},        {QKV_ALL, G_WIDE, B_WIDE},               NULL,               .paper = {0}}, \
    {"rotary",             ROTARY,            &kind_rotary,    {QKV_ROTATED},       {QKV_NORMED, POSITIONS, ROTARY_TABLE},   NULL,               .paper = {0}}, \
    {"scores",             SCORES,            &kind_contract,  {ATTENTION_SCORES},  {Q, K, NONE},                            "bjhp,bkhp->bhjk",  .paper = {3, 41, 42}, .grouped = "bjHGp,bkHp->bHGjk"}, \
    {"scores_bias",        SCORES_BIAS,       &kind_scores_bias,{SCORES_BIASED},    {ATTENTION_SCORES, W_RELATIVE, NONE},    NULL,               .paper = {0}}, \
    {"softmax",            SOFTMAX,           &kind_softmax,   {PROBS},             {SCORES_BIASED, NONE, NONE},             NULL,               .paper = {4, 40}, .when = WHEN_STORED}, \
    {"softmax",            SOFTMAX,           &kind_softmax,   {PROBS, LSE},        {SCORES_BIASED, NONE, NONE},             NULL,               .paper = {4, 40}, .when = WHEN_FLASH}, \
    {"attention_dropout",  ATTENTION_DROPOUT, &kind_dropout,   {PROBS_DROPPED},     {PROBS, NONE, NONE},                     NULL,               .paper = {4, 40}, .site = DROPOUT_ATTENTION}, \
    {"context",            CONTEXT,           &kind_contract,  {ATTENTION_CONTEXT}, {PROBS_DROPPED, V, NONE},                "bhjk,bkhp->bjhp",  .paper = {5, 38, 39}, .grouped = "bHGjk,bkHp->bjHGp"}, \
    {"out",                OUT,               &kind_contract,  {OUT_RAW},           {ATTENTION_CONTEXT, W_OUT, NONE},        "bjhp,ihp->bji",    .paper = {6, 36, 37}, .grouped = "bjHGp,iHGp->bji"}, \
    {"out_bias",           OUT_BIAS,          &kind_bias,      {OUT_BIASED},        {OUT_RAW, B_OUT, NONE},                  NULL,               .paper = {7, 0, 35}}, \
    {"out_dropout",        OUT_DROPOUT,       &kind_dropout,   {OUT_DROPPED},       {OUT_BIASED, NONE, NONE},                NULL,               .paper = {8, 34}, .site = DROPOUT_OUT}, \
    {"out_inner",          OUT_INNER,         &kind_add,       {OUT_SUMMED},        {OUT_DROPPED, X, NONE},                  NULL,               .paper = {0}, .meeting = "inner_dx"}, \
    {"out_norm",           OUT_NORM,          &kind_layernorm, {OUT_NORMED},        {OUT_SUMMED, G_OUT, B_NORM_OUT},        NULL,               .paper = {0}}, \
    {"out_residual",       OUT_RESIDUAL,      &kind_add,       {SUM1},              {OUT_NORMED, X, NONE},                   NULL,               .paper = {9, 46}, .meeting = "residual_dx"}

#define FEED_FORWARD(input, residual) \
    {"lin1",               LIN1,              &kind_contract,  {LIN1_RAW},          {input, W_LIN1, NONE},                   "bji,ui->bju",      .paper = {11, 29, 30}, .gate = UNGATED, .mixed = SINGLE}, \
    {"lin1",               LIN1,              &kind_contract,  {LIN1_RAW},          {input, W_LIN1, NONE},                   "bji,rui->bjru",    .paper = {11, 29, 30}, .gate = GATED, .mixed = SINGLE}, \
    {"lin1_bias",          LIN1_BIAS,         &kind_bias,      {LIN1_BIASED},       {LIN1_RAW, B_LIN1, NONE},                NULL,               .paper = {12, 0, 28}, .mixed = SINGLE}, \
    {"slope",              ACTIVATION_SLOPE,  NULL,            {SLOPE},             {LIN1_BIASED, NONE, NONE},               NULL,               .paper = {0}, .when = WHEN_SLOPES, .site = DROPOUT_ACTIVATION, .mixed = SINGLE}, \
    {"activation",         ACTIVATION,        NULL,            {ACTIVE},            {LIN1_BIASED, NONE, NONE},               NULL,               .paper = {13, 27}, .mixed = SINGLE}, \
    {"activation_dropout", ACTIVATION_DROPOUT,&kind_dropout,   {ACTIVE_DROPPED},    {ACTIVE, NONE, NONE},                    NULL,               .paper = {14, 26}, .site = DROPOUT_ACTIVATION, .mixed = SINGLE}, \
    {"lin2",               LIN2,              &kind_contract,  {LIN2_RAW},          {ACTIVE_DROPPED, W_LIN2, NONE},          "bju,iu->bji",      .paper = {15, 23, 24}, .mixed = SINGLE}, \
    {"router",             ROUTER,            &kind_contract,  {ROUTER_SCORES},     {input, W_ROUTER, NONE},                 "bji,Ei->bjE",      .paper = {0}, .mixed = MIXED}, \
    {"route",              ROUTE,             &kind_route,     {ROUTE_WEIGHTS, ROUTE_EXPERTS}, {ROUTER_SCORES, NONE, NONE},  NULL,               .paper = {0}, .mixed = MIXED}, \
    {"dispatch",           DISPATCH,          &kind_dispatch,  {EXPERT_ROWS},       {ROUTE_EXPERTS, NONE, NONE},             NULL,               .paper = {0}, .mixed = MIXED}, \
    {"experts1",           EXPERTS1,          &kind_experts,   {EXPERTS1_MADE},     {input, W_EXPERTS1, EXPERT_ROWS},        "bji,ui->bjTu",     .paper = {0}, .mixed = MIXED}, \
    {"activation",         ACTIVATION,        NULL,            {EXPERTS_ACTIVE},    {EXPERTS1_MADE, NONE, NONE},             NULL,               .paper = {0}, .mixed = MIXED}, \
    {"experts2",           EXPERTS2,          &kind_experts,   {EXPERTS2_MADE},     {EXPERTS_ACTIVE, W_EXPERTS2, EXPERT_ROWS}, "bjTu,ui->bjTi",  .paper = {0}, .mixed = MIXED}, \
    {"combine",            COMBINE,           &kind_combine,   {LIN2_RAW},          {EXPERTS2_MADE, ROUTE_WEIGHTS, NONE},    NULL,               .paper = {0}, .mixed = MIXED}, \
    {"lin2_bias",          LIN2_BIAS,         &kind_bias,      {LIN2_BIASED},       {LIN2_RAW, B_EXPERTS, NONE},             NULL,               .paper = {0}, .mixed = MIXED}, \
    {"lin2_bias",          LIN2_BIAS,         &kind_bias,      {LIN2_BIASED},       {LIN2_RAW, B_LIN2, NONE},                NULL,               .paper = {16, 0, 25}, .mixed = SINGLE}, \
    {"lin2_dropout",       LIN2_DROPOUT,      &kind_dropout,   {LIN2_DROPPED},      {LIN2_BIASED, NONE, NONE},               NULL,               .paper = {17, 22}, .site = DROPOUT_LIN2}, \
    {"lin2_norm",          LIN2_NORM,         &kind_layernorm, {LIN2_NORMED},       {LIN2_DROPPED, G_LIN2, B_NORM_LIN2},     NULL,               .paper = {0}}, \
    {"lin2_residual",      LIN2_RESIDUAL,     &kind_add,       {SUM2},              {LIN2_NORMED, residual, NONE},           NULL,               .paper = {18, 31}, .meeting = "ff_residual_dx"}

static const struct op_row post_layernorm[] = {
    ATTENTION(X),
    {"norm1",              NORM1,             &kind_layernorm, {N1},                {SUM1, G1, B1},                          NULL,               .paper = {10, 33, 32}},
    FEED_FORWARD(N1, N1),
    {"norm2",              NORM2,             &kind_layernorm, {N2},                {SUM2, G2, B2},                          NULL,               .paper = {19, 21, 20}},
};

static const struct op_row pre_layernorm[] = {
    {"norm1",              NORM1,             &kind_layernorm, {N1},                {X, G1, B1},                             NULL,               .paper = {10, 33, 32}},
    ATTENTION(N1),
    {"norm2",              NORM2,             &kind_layernorm, {N2},                {SUM1, G2, B2},                          NULL,               .paper = {19, 21, 20}},
    FEED_FORWARD(N2, SUM1),
};
/* clang-format on */

/* Appends a layer that reads x; returns what it makes. */
static int add_layer(struct builder *b, int layer, int x)
{
    bool pre = b->options->config->pre_layernorm;
    b->made[layer][X] = x;
    if (pre)
        builder_rows(b, layer, pre_layernorm, sizeof pre_layernorm / sizeof *pre_layernorm);
    else
        builder_rows(b, layer, post_layernorm, sizeof post_layernorm / sizeof *post_layernorm);
    return builder_layer_tensor(b, layer, pre ? SUM2 : N2);
}

/* ---- before and after the layers ---- */

static int add_batch(struct builder *b, const char *name, enum batch_data data)
{
    return builder_named(b, name, (struct tensor){.dims = "bj", .role = TENSOR_BATCH, .data = data, .u32 = true});
}

static int add_weight(struct builder *b, const char *name, const char *dims, enum weight weight)
{
    return builder_named(b, name, (struct tensor){.dims = dims, .role = TENSOR_WEIGHT, .weight = weight});
}

static int add_plain(struct builder *b, const char *name, enum role role, const struct op_kind *kind, int out, int in0,
                     int in1, int in2, const char *einsum)
{
    return builder_plain(b, name, role, kind, out, (const int[]){in0, in1, in2}, einsum);
}

static int add_embeddings(struct builder *b)
{
    bool narrow = b->options->config->embedding;
    const char *row = narrow ? "bje" : "bji";
    int ids = add_batch(b, "ids", BATCH_IDS);
    int x = add_plain(b, "embed.word", EMBED_WORD, &kind_gather, builder_value(b, "embed.word", row), ids,
                      add_weight(b, "word", narrow ? "ve" : "vi", WEIGHT_WORD), -1, NULL);
    if (b->options->config->embedding_scale > 0) {
        x = add_plain(b, "embed.scale", EMBED_SCALE, &kind_scale, builder_value(b, "embed.scale", row), x, -1, -1,
                      NULL);
        if (b->ok) b->g->ops[b->g->n_ops - 1].attribute = b->options->config->embedding_scale;
    }
    if (!(b->options->config->rotary_base > 0) && !b->options->config->alibi)
        x = add_plain(b, "embed.position", EMBED_POSITION, &kind_gather_position,
                      builder_value(b, "embed.position", row), x, add_batch(b, "positions", BATCH_POSITIONS),
                      add_weight(b, "position", narrow ? "me" : "mi", WEIGHT_POSITION), NULL);
    if (b->options->config->token_types) {
        int types = add_batch(b, "types", BATCH_TYPES);
        x = add_plain(b, "embed.type", EMBED_TYPE, &kind_gather_type, builder_value(b, "embed.type", row), x, types,
                      add_weight(b, "type", narrow ? "te" : "ti", WEIGHT_TYPE), NULL);
    }
    if (!(b->options->config->without & WHERRY_WITHOUT_EMBED_NORM))
        x = builder_norm(b, "embed.norm", EMBED_NORM, builder_value(b, "embed.norm", row), x,
                         (const char *const[]){"embed.gamma", "embed.beta"}, narrow ? "e" : "i", WEIGHT_EMBED_GAMMA);
    if (!narrow) return x;
    x = add_plain(b, "embed.project", EMBED_PROJECT, &kind_contract, builder_value(b, "embed.project", "bji"), x,
                  add_weight(b, "w_project", "ie", WEIGHT_PROJECT), -1, "bje,ie->bji");
    return add_plain(b, "embed.project_bias", EMBED_PROJECT_BIAS, &kind_bias,
                     builder_value(b, "embed.projected", "bji"), x,
                     add_weight(b, "b_project", "i", WEIGHT_PROJECT_BIAS), -1, NULL);
}

/* One table for all layers. */
static void add_relative(struct builder *b)
{
    const wherry_model_config *c = b->options->config;
    if (!c->relative_buckets) return;
    const struct tensor_row *row = &layer_tensors[W_RELATIVE];
    int table = add_weight(b, row->name, row->dims, row->weight);
    for (uint32_t l = 0; l < c->layers; l++) b->made[l][W_RELATIVE] = table;
}

static int add_table(struct builder *b, const char *name, enum weight weight)
{
    return builder_named(
        b, name,
        (struct tensor){
            .dims = layer_tensors[ROTARY_TABLE].dims, .role = TENSOR_WEIGHT, .weight = weight, .f32 = true});
}

/* Every token's angles, of the frequencies of its text's length. */
static int add_angles(struct builder *b, int positions)
{
    int angles = builder_named(b, "angles", (struct tensor){.dims = "bjp", .role = TENSOR_VALUE, .f32 = true});
    return add_plain(b, "angles", ANGLES, &kind_angles, angles, positions, add_batch(b, "lengths", BATCH_LENGTHS),
                     add_table(b, "frequencies", WEIGHT_ROTARY), NULL);
}

/* Which row of which table of angles a token has: one table for all layers, or one for those with a window and one for
 * the others. */
static void add_rotary(struct builder *b)
{
    const wherry_model_config *c = b->options->config;
    int positions, rows[2], tables[2] = {-1, -1};
    if (!(c->rotary_base > 0)) return;
    positions = rows[0] = rows[1] = add_batch(b, layer_tensors[POSITIONS].name, BATCH_POSITIONS);
    if (c->rotary_dynamic > 0) rows[0] = add_batch(b, "angle_rows", BATCH_ANGLES);
    for (uint32_t l = 0; l < c->layers; l++) {
        bool local = c->rotary_base_local > 0 && graph_mask(b->g, (int)l).before;
        if (tables[local] < 0)
            tables[local] = local                   ? add_table(b, "rotary_local", WEIGHT_ROTARY_LOCAL)
                            : c->rotary_dynamic > 0 ? add_angles(b, positions)
                                                    : add_table(b, layer_tensors[ROTARY_TABLE].name, WEIGHT_ROTARY);
        b->made[l][POSITIONS] = rows[local];
        b->made[l][ROTARY_TABLE] = tables[local];
    }
}

/* Weights of products; of slices, what they are slices of. The vocabulary's scores are products of f32: words are
 * embedded by the same table. */
static void store_bf16(struct graph *g)
{
    for (int o = 0; o < g->n_ops; o++)
        for (int i = 0; i < OP_MAX_IN; i++) {
            int t = g->ops[o].in[i];
            if (t < 0 || g->tensors[t].role != TENSOR_WEIGHT || g->ops[o].kind->class_ != WHERRY_CLASS_CONTRACTION ||
                g->ops[o].role == VOCABULARY_SCORES || g->ops[o].kind == &kind_experts)
                continue;
            g->tensors[t].bf16 = g->tensors[tensor_owner(g, t)].bf16 = true;
        }
}

/* The same in 8 bits: each with rows of what is summed, one for each column of the result. */
static bool store_int8(struct graph *g, struct error *e)
{
    for (int o = 0; o < g->n_ops; o++) {
        const struct op *op = &g->ops[o];
        int t = op->in[1];
        if (op->kind == &kind_experts)
            return fail(e, WHERRY_STATUS_UNSUPPORTED,
                        "weights of 8 bits are not of mixtures of experts, which this model has: choose weights "
                        "\"default\"");
        if (op->kind->class_ != WHERRY_CLASS_CONTRACTION || t < 0 || g->tensors[t].role != TENSOR_WEIGHT ||
            op->role == VOCABULARY_SCORES)
            continue;
        const char *out = g->tensors[op->out[0]].dims, *columns = g->tensors[t].dims;
        while (*columns && strchr(out, *columns)) columns++;
        if (columns == g->tensors[t].dims || g->tensors[t].parent >= 0)
            return fail(e, WHERRY_STATUS_UNSUPPORTED,
                        "layouts: %s lies in another order than in the model's files, int8 weights do not",
                        g->tensors[t].name);
        g->tensors[t].int8 = letters_volume(g, columns);
    }
    return true;
}

bool graph_create(const struct host *host, const struct graph_options *options, struct graph *out, struct error *e)
{
    const wherry_model_config *c = options->config;
    memset(out, 0, sizeof *out);
    out->host = host;
    if (!c->layers || !c->hidden || !c->heads || !c->feed_forward || (!c->head_channels && c->hidden % c->heads))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "an encoder of %u layers, %u channels, %u heads, %u feed-forward channels: each must be positive, "
                    "and the heads must divide the channels",
                    c->layers, c->hidden, c->heads, c->feed_forward);
    if (options->layout.qkv_interleaved && options->qkv_parts > 1)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "layouts: qkv=bjhqp is for Q, K and V as one product, not for %u", options->qkv_parts);
    if (heads_grouped(c) && (options->layout.qkv_interleaved || options->qkv_parts > 1 || c->heads % key_heads(c)))
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "%u heads of Q and %u of K and V: the latter must divide the former, and Q, K and V be one product "
                    "that lies as all of Q, then K, then V (layouts without qkv=bjhqp)",
                    c->heads, key_heads(c));
    if ((c->head_norms || c->wide_norms) && options->layout.qkv_interleaved)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "layouts: qkv=bjhqp is for Q and K without norms of their heads");
    if (options->layout.channel_major && c->gate)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "layouts: active=ubj is for a feed-forward without a gate: a gate's halves lie side by side");
    TRY(experts_check(c, e) && copies_are_read(options, e));
    if (c->experts && options->layout.channel_major)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "layouts: active=ubj is for a feed-forward without experts: their rows are tokens'");
    out->dims.of['q'] = 3;
    out->dims.of['r'] = 2;
    out->dims.of['h'] = c->heads;
    out->dims.of['p'] = head_channels(c);
    out->dims.of['H'] = key_heads(c);
    out->dims.of['G'] = c->heads / key_heads(c);
    out->dims.of['Q'] = c->heads + 2 * key_heads(c);
    out->dims.of['i'] = out->dims.of['o'] = c->hidden;
    out->dims.of['e'] = c->embedding ? c->embedding : c->hidden;
    out->dims.of['u'] = c->feed_forward;
    out->dims.of['v'] = c->vocabulary;
    out->dims.of['m'] = c->positions;
    out->dims.of['t'] = c->token_types;
    out->dims.of['d'] = c->relative_buckets;
    out->dims.of['z'] = 2;
    out->relative_distance = c->relative_distance;
    out->rotary_trained = c->rotary_trained;
    out->masks = (struct masks){c->causal, c->alibi, c->window, c->global_every, c->global_first};
    out->dims.of['c'] = c->labels;
    out->dims.of['E'] = c->experts;
    out->dims.of['T'] = c->chosen_experts;
    out->input = out->out_gradient = out->in_gradient = -1;
    out->pre_layernorm = c->pre_layernorm;
    if (options->layout.channel_major) out->channel_stride = (uint32_t)round_up(options->tokens, CHANNEL_ROUND);
    out->save_all = options->training && options->save == WHERRY_SAVE_ALL;
    struct builder b = {.g = out, .options = options, .e = e};
    b.made = host_alloc(host, c->layers, sizeof *b.made, e);
    if (!b.made) return false;
    memset(b.made, 0xff, c->layers * sizeof *b.made); /* -1: nothing is made yet */
    b.ok = true;
    int x;
    if (options->stack) {
        x = out->input = builder_named(&b, "x", (struct tensor){.dims = "bji", .role = TENSOR_VALUE, .input = true});
    } else {
        x = add_embeddings(&b);
    }
    add_relative(&b);
    add_rotary(&b);
    for (uint32_t l = 0; l < c->layers; l++) x = add_layer(&b, (int)l, x);
    if (!options->stack) x = builder_head(&b, x);
    out->n_forward = out->n_ops;
    out->output = x;
    if (b.ok) out->tensors[x].output = true;
    if (options->training) builder_backward(&b);
    host_free(host, b.made);
    b.ok = b.ok && orders_are_there(out, &options->layout, e);
    if (b.ok && options->bf16) store_bf16(out);
    if (b.ok && options->int8) b.ok = store_int8(out, e);
    if (!b.ok) graph_destroy(out);
    return b.ok;
}

uint32_t head_channels(const wherry_model_config *config)
{
    return config->head_channels ? config->head_channels : config->hidden / config->heads;
}

void graph_destroy(struct graph *graph)
{
    if (!graph->host) return;
    host_free(graph->host, graph->tensors);
    host_free(graph->host, graph->ops);
    memset(graph, 0, sizeof *graph);
}
