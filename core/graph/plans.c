/* Fusion plans: which consecutive operators one kernel executes. */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* An operator per kernel. Also what a group becomes that a device can't run whole. */
static const struct plan_row unfused[] = {
    {"word", "embed", LAUNCH_ROWS, {EMBED_WORD}},
    {"position", "embed", LAUNCH_ROWS, {EMBED_POSITION}},
    {"type", "embed", LAUNCH_ROWS, {EMBED_TYPE}},
    {"embed_norm", "layernorm", LAUNCH_ROWS, {EMBED_NORM}},
    {"qkv", "gemm", LAUNCH_TILES, {QKV}},
    {"qkv_bias", "map", LAUNCH_ELEMENTS, {QKV_BIAS}},
    {"scores", "bgemm", LAUNCH_SCORES, {SCORES}},
    {"softmax", "softmax", LAUNCH_SCORE_ROWS, {SOFTMAX}},
    {"attention_dropout", "softmax", LAUNCH_SCORE_ROWS, {ATTENTION_DROPOUT}},
    {"context", "bgemm", LAUNCH_QUERIES, {CONTEXT}},
    {"out", "gemm", LAUNCH_TILES, {OUT}},
    {"out_bias", "map", LAUNCH_ELEMENTS, {OUT_BIAS}},
    {"out_dropout", "map", LAUNCH_ELEMENTS, {OUT_DROPOUT}},
    {"out_residual", "map", LAUNCH_ELEMENTS, {OUT_RESIDUAL}},
    {"norm1", "layernorm", LAUNCH_ROWS, {NORM1}},
    {"lin1", "gemm", LAUNCH_TILES, {LIN1}},
    {"lin1_bias", "map", LAUNCH_ELEMENTS, {LIN1_BIAS}},
    {"activation", "map", LAUNCH_ELEMENTS, {ACTIVATION}},
    {"activation_dropout", "map", LAUNCH_ELEMENTS, {ACTIVATION_DROPOUT}},
    {"lin2", "gemm", LAUNCH_TILES, {LIN2}},
    {"lin2_bias", "map", LAUNCH_ELEMENTS, {LIN2_BIAS}},
    {"lin2_dropout", "map", LAUNCH_ELEMENTS, {LIN2_DROPOUT}},
    {"lin2_residual", "map", LAUNCH_ELEMENTS, {LIN2_RESIDUAL}},
    {"norm2", "layernorm", LAUNCH_ROWS, {NORM2}},
    {"final_norm", "layernorm", LAUNCH_ROWS, {FINAL_NORM}},
    {"pool", "pool", LAUNCH_ROWS, {POOL}},
    {"pooler", "gemm", LAUNCH_TILES, {POOLER}},
    {"pooler_bias", "map", LAUNCH_ELEMENTS, {POOLER_BIAS}},
    {"pooler_tanh", "map", LAUNCH_ELEMENTS, {POOLER_TANH}},
    {"normalize", "pool", LAUNCH_ROWS, {NORMALIZE}},

    {"normalize_dx", "pool_backward", LAUNCH_ROWS, {NORMALIZE_DX}},
    {"pooler_tanh_dx", "map", LAUNCH_ELEMENTS, {POOLER_TANH_DX}},
    {"pooler_bias_dw", "columns", LAUNCH_PARTS, {POOLER_BIAS_DW}},
    {"pooler_dw", "gemm", LAUNCH_TILES, {POOLER_DW}},
    {"pooler_dx", "gemm", LAUNCH_TILES, {POOLER_DX}},
    {"pool_dx", "pool_backward", LAUNCH_ROWS, {POOL_DX}},
    {"final_norm_dw", "layernorm_backward", LAUNCH_PARTS, {FINAL_NORM_DW}},
    {"final_norm_dx", "layernorm_backward", LAUNCH_PARTS, {FINAL_NORM_DX}},
    {"norm2_dw", "layernorm_backward", LAUNCH_PARTS, {NORM2_DW}},
    {"norm2_dx", "layernorm_backward", LAUNCH_PARTS, {NORM2_DX}},
    {"lin2_dropout_dx", "map", LAUNCH_ELEMENTS, {LIN2_DROPOUT_DX}},
    {"lin2_dx", "gemm", LAUNCH_TILES, {LIN2_DX}},
    {"lin2_dw", "gemm", LAUNCH_TILES, {LIN2_DW}},
    {"lin2_bias_dw", "columns", LAUNCH_PARTS, {LIN2_BIAS_DW}},
    {"activation_dropout_dx", "map", LAUNCH_ELEMENTS, {ACTIVATION_DROPOUT_DX}},
    {"activation_dx", "map", LAUNCH_ELEMENTS, {ACTIVATION_DX}},
    {"lin1_bias_dw", "columns", LAUNCH_PARTS, {LIN1_BIAS_DW}},
    {"lin1_dx", "gemm", LAUNCH_TILES, {LIN1_DX}},
    {"lin1_dw", "gemm", LAUNCH_TILES, {LIN1_DW}},
    {"ff_residual_dx", "map", LAUNCH_ELEMENTS, {FF_RESIDUAL_DX}},
    {"norm1_dw", "layernorm_backward", LAUNCH_PARTS, {NORM1_DW}},
    {"norm1_dx", "layernorm_backward", LAUNCH_PARTS, {NORM1_DX}},
    {"out_dropout_dx", "map", LAUNCH_ELEMENTS, {OUT_DROPOUT_DX}},
    {"out_bias_dw", "columns", LAUNCH_PARTS, {OUT_BIAS_DW}},
    {"out_dx", "gemm", LAUNCH_TILES, {OUT_DX}},
    {"out_dw", "gemm", LAUNCH_TILES, {OUT_DW}},
    {"delta", "delta", LAUNCH_ROWS, {ATTENTION_DELTA}},
    {"scores_again", "bgemm", LAUNCH_SCORES, {SCORES_RECOMPUTE}},
    {"softmax_again", "softmax", LAUNCH_SCORE_ROWS, {SOFTMAX_RECOMPUTE}},
    {"attention_dropout_again", "softmax", LAUNCH_SCORE_ROWS, {ATTENTION_DROPOUT_RECOMPUTE}},
    {"context_dx1", "bgemm", LAUNCH_SCORES, {CONTEXT_DX1}},
    {"context_dx2", "bgemm", LAUNCH_QUERIES, {CONTEXT_DX2}},
    {"attention_dropout_dx", "softmax", LAUNCH_SCORE_ROWS, {ATTENTION_DROPOUT_DX}},
    {"softmax_dx", "softmax_backward", LAUNCH_SCORE_ROWS, {SOFTMAX_DX}},
    {"scores_dx1", "bgemm", LAUNCH_QUERIES, {SCORES_DX1}},
    {"scores_dx2", "bgemm", LAUNCH_QUERIES, {SCORES_DX2}},
    {"qkv_dx", "gemm", LAUNCH_TILES, {QKV_DX}},
    {"qkv_dx", "gemm", LAUNCH_TILES, {QKV_DX_FIRST}},
    {"qkv_add", "map", LAUNCH_ELEMENTS, {QKV_ADD}},
    {"qkv_dw", "gemm", LAUNCH_TILES, {QKV_DW}},
    {"qkv_bias_dw", "columns", LAUNCH_PARTS, {QKV_BIAS_DW}},
    {"residual_dx", "map", LAUNCH_ELEMENTS, {RESIDUAL_DX}},
    {"embed_norm_dw", "layernorm_backward", LAUNCH_PARTS, {EMBED_NORM_DW}},
    {"embed_norm_dx", "layernorm_backward", LAUNCH_PARTS, {EMBED_NORM_DX}},
    {"embed_type_dw", "scatter", LAUNCH_TABLE, {EMBED_TYPE_DW}},
    {"embed_position_dw", "scatter", LAUNCH_TABLE, {EMBED_POSITION_DW}},
    {"embed_word_dw", "scatter", LAUNCH_TABLE, {EMBED_WORD_DW}},

    {"embed_norm_again", "layernorm", LAUNCH_ROWS, {EMBED_NORM_RECOMPUTE}},
    {"norm1_again", "layernorm", LAUNCH_ROWS, {NORM1_RECOMPUTE}},
    {"norm2_again", "layernorm", LAUNCH_ROWS, {NORM2_RECOMPUTE}},
    {"activation_again", "map", LAUNCH_ELEMENTS, {ACTIVATION_RECOMPUTE}},
    {"activation_dropout_again", "map", LAUNCH_ELEMENTS, {ACTIVATION_DROPOUT_RECOMPUTE}},

    {"w_qkv_transpose", "transpose", LAUNCH_TILES, {QKV_TRANSPOSE}},
    {"w_out_transpose", "transpose", LAUNCH_TILES, {OUT_TRANSPOSE}},
    {"w_lin1_transpose", "transpose", LAUNCH_TILES, {LIN1_TRANSPOSE}},
    {"w_lin2_transpose", "transpose", LAUNCH_TILES, {LIN2_TRANSPOSE}},
    {"w_pooler_transpose", "transpose", LAUNCH_TILES, {POOLER_TRANSPOSE}},
};

/* Of the paper and of flash: the backward pass outside the layers, what is computed again, and copies of weights. */
#define OUTSIDE_BACKWARD                                                                                               \
    {"normalize_dx", "pool_backward", LAUNCH_ROWS, {NORMALIZE_DX}},                                                    \
        {"pooler_tb", "columns", LAUNCH_PARTS, {POOLER_TANH_DX, POOLER_BIAS_DW}},                                      \
        {"pooler_dw", "gemm", LAUNCH_TILES, {POOLER_DW}}, {"pooler_dx", "gemm", LAUNCH_TILES, {POOLER_DX}},            \
        {"pool_dx", "pool_backward", LAUNCH_ROWS, {POOL_DX}},                                                          \
        {"final_norm_dxw", "layernorm_backward", LAUNCH_PARTS, {FINAL_NORM_DW, FINAL_NORM_DX}},                        \
        {"embed_norm_dxw", "layernorm_backward", LAUNCH_PARTS, {EMBED_NORM_DW, EMBED_NORM_DX}},                        \
        {"embed_type_dw", "scatter", LAUNCH_TABLE, {EMBED_TYPE_DW}},                                                   \
        {"embed_position_dw", "scatter", LAUNCH_TABLE, {EMBED_POSITION_DW}},                                           \
        {"embed_word_dw", "scatter", LAUNCH_TABLE, {EMBED_WORD_DW}},                                                   \
        {"w_qkv_transpose", "transpose", LAUNCH_TILES, {QKV_TRANSPOSE}},                                               \
        {"w_out_transpose", "transpose", LAUNCH_TILES, {OUT_TRANSPOSE}},                                               \
        {"w_lin1_transpose", "transpose", LAUNCH_TILES, {LIN1_TRANSPOSE}},                                             \
        {"w_lin2_transpose", "transpose", LAUNCH_TILES, {LIN2_TRANSPOSE}},                                             \
        {"w_pooler_transpose", "transpose", LAUNCH_TILES, {POOLER_TRANSPOSE}},                                         \
        {"embed_norm_again", "layernorm", LAUNCH_ROWS, {EMBED_NORM_RECOMPUTE}},                                        \
        {"norm1_again", "layernorm", LAUNCH_ROWS, {NORM1_RECOMPUTE}},                                                  \
        {"norm2_again", "layernorm", LAUNCH_ROWS, {NORM2_RECOMPUTE}},                                                  \
        {"activation_again", "map", LAUNCH_ELEMENTS, {ACTIVATION_RECOMPUTE, ACTIVATION_DROPOUT_RECOMPUTE}},            \
    {                                                                                                                  \
        "attention_dropout_again", "softmax", LAUNCH_SCORE_ROWS, { ATTENTION_DROPOUT_RECOMPUTE }                       \
    }

/* The fused kernels of Ivanov et al. around plain products, with the scores stored. Names are theirs where they have
 * one. */
static const struct plan_row paper[] = {
    {"embed", "embed", LAUNCH_ROWS, {EMBED_WORD, EMBED_POSITION, EMBED_TYPE, EMBED_NORM}},
    {"qkv", "gemm", LAUNCH_TILES, {QKV}},
    {"aib", "map", LAUNCH_ELEMENTS, {QKV_BIAS}},
    {"qkt", "bgemm", LAUNCH_SCORES, {SCORES}},
    {"sm", "softmax", LAUNCH_SCORE_ROWS, {SOFTMAX, ATTENTION_DROPOUT}},
    {"gamma", "bgemm", LAUNCH_QUERIES, {CONTEXT}},
    {"out", "gemm", LAUNCH_TILES, {OUT}},
    {"bdrln1", "layernorm", LAUNCH_ROWS, {OUT_BIAS, OUT_DROPOUT, OUT_RESIDUAL, NORM1}, NORM_POST}, /* post-LN */
    {"bdrln1", "layernorm", LAUNCH_ROWS, {OUT_BIAS, OUT_DROPOUT, OUT_RESIDUAL, NORM2}, NORM_PRE},  /* pre-LN */
    {"lin1", "gemm", LAUNCH_TILES, {LIN1}},
    {"brd", "map", LAUNCH_ELEMENTS, {LIN1_BIAS, ACTIVATION, ACTIVATION_DROPOUT}},
    {"lin2", "gemm", LAUNCH_TILES, {LIN2}},
    {"bdrln2", "layernorm", LAUNCH_ROWS, {LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL, NORM2}, NORM_POST}, /* post-LN */
    {"bdrln2",
     "layernorm",
     LAUNCH_ROWS,
     {LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL, NEXT_LAYER, NORM1},
     NORM_PRE}, /* pre-LN */
    {"bdrln2", "layernorm", LAUNCH_ROWS, {LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL, NEXT_LAYER, FINAL_NORM}, NORM_PRE},
    {"bdr2", "map", LAUNCH_ELEMENTS, {LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL}, NORM_PRE}, /* pre-LN: a layer alone */
    {"norm1", "layernorm", LAUNCH_ROWS, {NORM1}, NORM_PRE}, /* pre-LN: the first layer's */
    {"pool", "pool", LAUNCH_ROWS, {POOL, NORMALIZE}},
    {"pool", "pool", LAUNCH_ROWS, {POOL}},
    {"pooler", "gemm", LAUNCH_TILES, {POOLER}},
    {"pooler_bt", "map", LAUNCH_ELEMENTS, {POOLER_BIAS, POOLER_TANH}},
    {"normalize", "pool", LAUNCH_ROWS, {NORMALIZE}},

    OUTSIDE_BACKWARD,
    {"bsb", "layernorm_backward", LAUNCH_PARTS, {NORM2_DW}},
    {"blnrd2", "layernorm_backward", LAUNCH_PARTS, {NORM2_DX, LIN2_DROPOUT_DX}, NORM_POST},               /* post-LN */
    {"blnrd2", "layernorm_backward", LAUNCH_PARTS, {NORM2_DX, FF_RESIDUAL_DX, OUT_DROPOUT_DX}, NORM_PRE}, /* pre-LN */
    {"bd2", "map", LAUNCH_ELEMENTS, {LIN2_DROPOUT_DX}, NORM_PRE}, /* pre-LN: the last layer */
    {"lin2_dx", "gemm", LAUNCH_TILES, {LIN2_DX}},
    {"lin2_dw", "gemm", LAUNCH_TILES, {LIN2_DW}},
    {"bb2", "columns", LAUNCH_PARTS, {LIN2_BIAS_DW}, NORM_PRE}, /* pre-LN */
    /* The authors' table has the second bias' gradient in BDRB, their code in EBSB; the iteration space is EBSB's. */
    {"bdrb", "columns", LAUNCH_PARTS, {ACTIVATION_DROPOUT_DX, ACTIVATION_DX, LIN1_BIAS_DW}},
    {"lin1_dx", "gemm", LAUNCH_TILES, {LIN1_DX}},
    {"lin1_dw", "gemm", LAUNCH_TILES, {LIN1_DW}},
    {"ebsb", "layernorm_backward", LAUNCH_PARTS, {LIN2_BIAS_DW, FF_RESIDUAL_DX, NORM1_DW}, NORM_POST}, /* post-LN */
    {"norm1_dw", "layernorm_backward", LAUNCH_PARTS, {NORM1_DW}, NORM_PRE},                            /* pre-LN */
    {"blnrd1", "layernorm_backward", LAUNCH_PARTS, {NORM1_DX, OUT_DROPOUT_DX}, NORM_POST},             /* post-LN */
    {"blnrd1",
     "layernorm_backward",
     LAUNCH_PARTS,
     {NORM1_DX, RESIDUAL_DX, NEXT_LAYER, LIN2_DROPOUT_DX},
     NORM_PRE},                                                                        /* pre-LN */
    {"blnrd1", "layernorm_backward", LAUNCH_PARTS, {NORM1_DX, RESIDUAL_DX}, NORM_PRE}, /* the first layer */
    {"baob", "columns", LAUNCH_PARTS, {OUT_BIAS_DW}},
    {"out_dx", "gemm", LAUNCH_TILES, {OUT_DX}},
    {"out_dw", "gemm", LAUNCH_TILES, {OUT_DW}},
    {"gamma_dx1", "bgemm", LAUNCH_SCORES, {CONTEXT_DX1}},
    {"gamma_dx2", "bgemm", LAUNCH_QUERIES, {CONTEXT_DX2}},
    {"bs", "softmax_backward", LAUNCH_SCORE_ROWS, {ATTENTION_DROPOUT_DX, SOFTMAX_DX}},
    {"qkt_dx1", "bgemm", LAUNCH_QUERIES, {SCORES_DX1}},
    {"qkt_dx2", "bgemm", LAUNCH_QUERIES, {SCORES_DX2}},
    {"qkv_dx", "gemm", LAUNCH_TILES, {QKV_DX}},
    {"qkv_dx", "gemm", LAUNCH_TILES, {QKV_DX_FIRST}}, /* Q, K and V apart */
    {"qkv_add", "map", LAUNCH_ELEMENTS, {QKV_ADD}},
    {"qkv_dw", "gemm", LAUNCH_TILES, {QKV_DW}},
    {"baib", "columns", LAUNCH_PARTS, {QKV_BIAS_DW}},
    {"bei", "map", LAUNCH_ELEMENTS, {RESIDUAL_DX}, NORM_POST}, /* post-LN */
};

/* Epilogues in the products, no score matrix anywhere, every row-wise chain one kernel. */
static const struct plan_row flash[] = {
    {"embed", "embed", LAUNCH_ROWS, {EMBED_WORD, EMBED_POSITION, EMBED_TYPE, EMBED_NORM}},
    {"qkv", "gemm", LAUNCH_TILES, {QKV, QKV_BIAS}},
    {"qkv", "gemm", LAUNCH_TILES, {QKV}}, /* Q, K and V apart */
    {"attention", "attention", LAUNCH_QUERIES, {SCORES, SOFTMAX, ATTENTION_DROPOUT, CONTEXT}},
    {"out", "gemm", LAUNCH_TILES, {OUT, OUT_BIAS, OUT_DROPOUT, OUT_RESIDUAL}},
    {"norm1", "layernorm", LAUNCH_ROWS, {NORM1}},
    {"lin1", "gemm", LAUNCH_TILES, {LIN1, LIN1_BIAS, ACTIVATION, ACTIVATION_DROPOUT}},
    {"lin2", "gemm", LAUNCH_TILES, {LIN2, LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL}},
    {"norm2", "layernorm", LAUNCH_ROWS, {NORM2}},
    /* Few rows: a product's work-groups read all of their rows, and normalize them on the way. */
    {"norm1_lin1",
     "gemm",
     LAUNCH_TILES,
     {NORM1, LIN1, LIN1_BIAS, ACTIVATION, ACTIVATION_DROPOUT},
     NORM_POST,
     .optional = true},
    {"attention_out",
     "attention",
     LAUNCH_QUERIES,
     {SCORES, SOFTMAX, ATTENTION_DROPOUT, CONTEXT, OUT, OUT_BIAS, OUT_DROPOUT, OUT_RESIDUAL},
     .optional = true},
    {"norm2_qkv", "gemm", LAUNCH_TILES, {NORM2, NEXT_LAYER, QKV, QKV_BIAS}, NORM_POST, .optional = true},
    {"norm1_qkv", "gemm", LAUNCH_TILES, {NORM1, QKV, QKV_BIAS}, NORM_PRE, .optional = true},
    {"norm2_lin1",
     "gemm",
     LAUNCH_TILES,
     {NORM2, LIN1, LIN1_BIAS, ACTIVATION, ACTIVATION_DROPOUT},
     NORM_PRE,
     .optional = true},
    /* Many rows: where a product's tiles hold whole rows, their makers normalize them. */
    {"out_norm1", "gemm", LAUNCH_TILES, {OUT, OUT_BIAS, OUT_DROPOUT, OUT_RESIDUAL, NORM1}, NORM_POST, .optional = true},
    {"lin2_norm2",
     "gemm",
     LAUNCH_TILES,
     {LIN2, LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL, NORM2},
     NORM_POST,
     .optional = true},
    {"norm2_pool", "layernorm_pool", LAUNCH_ROWS, {NORM2, NEXT_LAYER, POOL, NORMALIZE}, NORM_POST, .optional = true},
    {"final_norm", "layernorm", LAUNCH_ROWS, {FINAL_NORM}},
    {"pool", "pool", LAUNCH_ROWS, {POOL, NORMALIZE}},
    {"pool", "pool", LAUNCH_ROWS, {POOL}},
    {"pooler", "gemm", LAUNCH_TILES, {POOLER, POOLER_BIAS, POOLER_TANH}},
    {"normalize", "pool", LAUNCH_ROWS, {NORMALIZE}},

    OUTSIDE_BACKWARD,
    {"lnb2",
     "layernorm_backward",
     LAUNCH_PARTS,
     {NORM2_DW, NORM2_DX, LIN2_DROPOUT_DX, LIN2_BIAS_DW},
     NORM_POST}, /* post-LN */
    {"lnb2",
     "layernorm_backward",
     LAUNCH_PARTS,
     {NORM2_DW, NORM2_DX, FF_RESIDUAL_DX, OUT_DROPOUT_DX, OUT_BIAS_DW},
     NORM_PRE},                                                                  /* pre-LN */
    {"db2", "columns", LAUNCH_PARTS, {LIN2_DROPOUT_DX, LIN2_BIAS_DW}, NORM_PRE}, /* pre-LN: the last layer */
    {"lin2_dx", "gemm", LAUNCH_TILES, {LIN2_DX, ACTIVATION_DROPOUT_DX, ACTIVATION_DX, LIN1_BIAS_DW}},
    /* The gradient of the bias comes with that of the weight. */
    {"lin2_dx", "gemm", LAUNCH_TILES, {LIN2_DX, ACTIVATION_DROPOUT_DX, ACTIVATION_DX}},
    {"lin2_dw", "gemm", LAUNCH_TILES, {LIN2_DW}},
    {"lin1_dx", "gemm", LAUNCH_TILES, {LIN1_DX, FF_RESIDUAL_DX}, NORM_POST}, /* post-LN */
    {"lin1_dx", "gemm", LAUNCH_TILES, {LIN1_DX}, NORM_PRE},                  /* pre-LN */
    {"lin1_dw", "gemm", LAUNCH_TILES, {LIN1_DW}},
    {"lin1_dw", "gemm", LAUNCH_TILES, {LIN1_BIAS_DW, LIN1_DW}, .optional = true}, /* the same operand, read once */
    {"lnb1",
     "layernorm_backward",
     LAUNCH_PARTS,
     {NORM1_DW, NORM1_DX, OUT_DROPOUT_DX, OUT_BIAS_DW},
     NORM_POST}, /* post-LN */
    {"lnb1",
     "layernorm_backward",
     LAUNCH_PARTS,
     {NORM1_DW, NORM1_DX, RESIDUAL_DX, NEXT_LAYER, LIN2_DROPOUT_DX, LIN2_BIAS_DW},
     NORM_PRE}, /* pre-LN */
    {"lnb1",
     "layernorm_backward",
     LAUNCH_PARTS,
     {NORM1_DW, NORM1_DX, RESIDUAL_DX},
     NORM_PRE}, /* pre-LN: the first layer */
    {"out_dx", "gemm", LAUNCH_TILES, {OUT_DX}},
    {"out_dw", "gemm", LAUNCH_TILES, {OUT_DW}},
    {"delta", "delta", LAUNCH_ROWS, {ATTENTION_DELTA}},
    {"attention_dx",
     "attention_backward",
     LAUNCH_SEQUENCES,
     {SCORES_RECOMPUTE, SOFTMAX_RECOMPUTE, ATTENTION_DROPOUT_RECOMPUTE, CONTEXT_DX1, CONTEXT_DX2, ATTENTION_DROPOUT_DX,
      SOFTMAX_DX, SCORES_DX1, SCORES_DX2}},
    {"qkv_dx", "gemm", LAUNCH_TILES, {QKV_DX, RESIDUAL_DX}, NORM_POST}, /* post-LN */
    {"qkv_dx", "gemm", LAUNCH_TILES, {QKV_DX}, NORM_PRE},               /* pre-LN */
    {"qkv_dx", "gemm", LAUNCH_TILES, {QKV_DX_FIRST}},                   /* Q, K and V apart */
    {"qkv_dx", "gemm", LAUNCH_TILES, {QKV_DX, QKV_ADD}},                /* Q, K and V apart */
    {"qkv_bias", "map", LAUNCH_ELEMENTS, {QKV_BIAS}},
    {"residual_dx", "map", LAUNCH_ELEMENTS, {RESIDUAL_DX}},
    {"qkv_dw", "gemm", LAUNCH_TILES, {QKV_DW}},
    {"qkv_dw", "gemm", LAUNCH_TILES, {QKV_DW, QKV_BIAS_DW}, .optional = true}, /* the same operand, read once */
    {"qkv_bias_dw", "columns", LAUNCH_PARTS, {QKV_BIAS_DW}},
};

const struct plan plans[] = {
    {"flash", flash, COUNT(flash)},
    {"paper", paper, COUNT(paper)},
    {"unfused", unfused, COUNT(unfused)},
};
const size_t plans_count = COUNT(plans);

const struct plan *plan_find(const char *name, struct error *e)
{
    for (size_t i = 0; i < plans_count; i++)
        if (!strcmp(plans[i].name, name)) return &plans[i];
    fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "unknown plan \"%.40s\": the plans are flash, paper and unfused", name);
    return NULL;
}

/* ---- groups ---- */

static bool group_makes(const struct graph *g, const struct group *group, int owner)
{
    for (int i = 0; i < group->count; i++)
        for (int k = 0; k < OP_MAX_OUT; k++) {
            int out = g->ops[group->ops[i]].out[k];
            if (out >= 0 && tensor_owner(g, out) == owner) return true;
        }
    return false;
}

static bool group_has(const struct group *group, int op)
{
    for (int i = 0; i < group->count; i++)
        if (group->ops[i] == op) return true;
    return false;
}

static bool used_outside(const struct graph *g, const struct group *group, int tensor)
{
    int owner = tensor_owner(g, tensor);
    if (g->tensors[tensor].output || g->tensors[owner].output) return true;
    for (int o = 0; o < g->n_ops; o++) {
        if (group_has(group, o)) continue;
        for (int i = 0; i < OP_MAX_IN; i++)
            if (g->ops[o].in[i] >= 0 && tensor_owner(g, g->ops[o].in[i]) == owner) return true;
    }
    return false;
}

static void add_distinct(int *list, int *n, int tensor)
{
    for (int i = 0; i < *n; i++)
        if (list[i] == tensor) return;
    if (*n < GROUP_MAX_TENSORS) list[(*n)++] = tensor;
}

void group_complete(const struct graph *g, struct group *out)
{
    out->layer = g->ops[out->ops[0]].layer;
    out->backward = out->ops[0] >= g->n_forward;
    out->n_reads = out->n_writes = 0;
    for (int i = 0; i < out->count; i++) {
        const struct op *o = &g->ops[out->ops[i]];
        for (int k = 0; k < OP_MAX_IN; k++)
            if (o->in[k] >= 0 && !group_makes(g, out, tensor_owner(g, o->in[k])))
                add_distinct(out->reads, &out->n_reads, o->in[k]);
        for (int k = 0; k < OP_MAX_OUT; k++)
            if (o->out[k] >= 0 && used_outside(g, out, o->out[k])) add_distinct(out->writes, &out->n_writes, o->out[k]);
    }
}

/* Of the operators in out->ops. */
static void group_make(const struct graph *g, const struct plan_row *row, struct group *out)
{
    out->row = row;
    group_complete(g, out);
    if (out->layer < 0)
        snprintf(out->name, sizeof out->name, "%s", row->name);
    else
        snprintf(out->name, sizeof out->name, "layer.%d.%s", out->layer, row->name);
}

bool group_single(const struct graph *g, int op, struct group *out)
{
    memset(out, 0, sizeof *out);
    out->ops[0] = op;
    out->count = 1;
    for (size_t r = 0; r < COUNT(unfused); r++)
        if (unfused[r].places[0] == (int)g->ops[op].place) return group_make(g, &unfused[r], out), true;
    return false;
}

int groups_forward(const struct group *groups, int count)
{
    int n = 0;
    while (n < count && !groups[n].backward) n++;
    return n;
}

/* ---- covering the graph ---- */

/* The operator at this place of the layer, from `at` on and before `end`, -1: there is none. */
static int place_find(const struct graph *g, int place, int at, int end, int layer)
{
    for (int o = at; o < end; o++)
        if (g->ops[o].layer == layer && (int)g->ops[o].place == place) return o;
    return -1;
}

/* The layer that is met next after operator `at`; false: none is. */
static bool layer_next(const struct graph *g, int at, int end, int *layer)
{
    for (int o = at + 1; o < end; o++)
        if (g->ops[o].layer != g->ops[at].layer) return *layer = g->ops[o].layer, true;
    return false;
}

/* Whether operator o reads a tensor that operator `maker` makes. */
static bool op_reads_of(const struct graph *g, int o, int maker)
{
    for (int i = 0; i < OP_MAX_IN; i++)
        for (int k = 0; k < OP_MAX_OUT; k++) {
            int in = g->ops[o].in[i], out = g->ops[maker].out[k];
            if (in >= 0 && out >= 0 && tensor_owner(g, in) == tensor_owner(g, out)) return true;
        }
    return false;
}

/* Whether an operator reads a tensor of which the group makes slices: others may make the rest. */
static bool reads_slices(const struct graph *g, int o, const struct group *group)
{
    for (int i = 0; i < OP_MAX_IN; i++)
        for (int m = 0; m < group->count; m++)
            for (int k = 0; k < OP_MAX_OUT; k++) {
                int in = g->ops[o].in[i], out = g->ops[group->ops[m]].out[k];
                if (in >= 0 && out >= 0 && in != out && tensor_owner(g, out) == in) return true;
            }
    return false;
}

/* Whether no operator outside stands between two inside, needing the one and needed by the other. */
static bool group_closed(const struct graph *g, const struct group *group)
{
    enum { MOST = 256 };
    bool waits[MOST] = {false}; /* by its distance from the first: needs one inside */
    int first = group->ops[0], last = group->ops[group->count - 1];
    if (last - first >= MOST) return false;
    for (int o = first + 1; o <= last; o++) {
        bool inside = group_has(group, o);
        for (int maker = first; maker < o; maker++) {
            bool maker_inside = group_has(group, maker);
            if (!op_reads_of(g, o, maker)) continue;
            if (inside && !maker_inside && waits[maker - first]) return false;
            if (!inside) waits[o - first] |= maker_inside || waits[maker - first];
        }
        if (inside && reads_slices(g, o, group)) return false;
    }
    return true;
}

/* Fills in the operators that the row covers, the first being `at`; false: it does not fit. Places that the layer lacks
 * are passed over (no dropout, no types), but of a next layer one must be there. */
static bool row_covers(const struct graph *g, const struct plan_row *row, int at, const bool *covered,
                       struct group *out)
{
    int layer = g->ops[at].layer, end = at < g->n_forward ? g->n_forward : g->n_ops, before = 0;
    out->count = 0;
    if (row->norm == (g->pre_layernorm ? NORM_POST : NORM_PRE)) return false;
    for (const uint8_t *place = row->places; *place; place++) {
        if (*place == NEXT_LAYER) {
            before = out->count;
            if (!before || !layer_next(g, at, end, &layer)) return false;
            continue;
        }
        int o = out->count ? place_find(g, *place, at + 1, end, layer) : (int)g->ops[at].place == *place ? at : -1;
        if (o < 0) {
            if (!out->count && place_find(g, *place, 0, g->n_ops, layer) >= 0) return false;
            continue;
        }
        if (covered[o]) return false;
        int i = out->count++; /* ascending */
        for (; i > 0 && out->ops[i - 1] > o; i--) out->ops[i] = out->ops[i - 1];
        out->ops[i] = o;
    }
    return out->count > before && group_closed(g, out);
}

static bool filter_runs(const struct graph *g, const struct group_filter *filter, const struct group *group,
                        char *reason, size_t size)
{
    return !filter || filter->runs(g, group, reason, size, filter->user);
}

/* Whether an optional row is taken: not in a forward pass that keeps what its kernels make. */
static bool row_taken(const struct graph *g, const struct group_filter *filter, const struct group *group)
{
    char ignored[256];
    if (!group->row->optional) return true;
    return (group->backward || g->n_forward == g->n_ops) && filter_runs(g, filter, group, ignored, sizeof ignored);
}

/* Of the optional rows or of the others. */
static bool longest_row(const struct graph *g, const struct plan *plan, const struct group_filter *filter,
                        bool optional, int at, bool *covered, struct group *out)
{
    struct group one = {0};
    out->count = 0;
    for (size_t r = 0; r < plan->n_rows; r++) {
        if (plan->rows[r].optional != optional) continue;
        if (!row_covers(g, &plan->rows[r], at, covered, &one) || one.count <= out->count) continue;
        group_make(g, &plan->rows[r], &one);
        if (row_taken(g, filter, &one)) *out = one;
    }
    for (int i = 0; i < out->count; i++) covered[out->ops[i]] = true;
    return out->count > 0;
}

/* Adds the group, or its operators one by one where the filter refuses it. */
static bool group_add(const struct graph *g, const struct group *group, const struct group_filter *filter,
                      struct group *groups, int *n, struct error *e)
{
    char reason[256] = "";
    if (filter_runs(g, filter, group, reason, sizeof reason)) {
        groups[(*n)++] = *group;
        return true;
    }
    if (group->count > 1 && filter->split) filter->split(g, group, reason, filter->user);
    for (int i = 0; i < group->count; i++) {
        if (!group_single(g, group->ops[i], &groups[*n]) || !filter_runs(g, filter, &groups[*n], reason, sizeof reason))
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "this device can't run the operator %s: %s",
                        g->ops[group->ops[i]].name, reason);
        ++*n;
    }
    return true;
}

/* Optional rows come before all others: what one takes may stand after operators that another row would take with it
 * (the gradient of a bias, after that of an activation). None is taken where nobody says what the device runs. Returns
 * their number. */
static int cover_optional(const struct graph *g, const struct plan *plan, const struct group_filter *filter,
                          bool *covered, struct group *groups)
{
    int n = 0;
    for (int at = 0; filter && filter->optional && at < g->n_ops; at++)
        n += !covered[at] && longest_row(g, plan, filter, true, at, covered, &groups[n]);
    return n;
}

/* By their first operators; `optional`: those groups that are there already, in that order. */
static bool cover(const struct graph *g, const struct plan *plan, const struct group_filter *filter, bool *covered,
                  const struct group *optional, int n_optional, struct group *groups, int *n, struct error *e)
{
    struct group group;
    for (int at = 0; at < g->n_ops; at++) {
        if (n_optional && optional->ops[0] == at) {
            groups[(*n)++] = *optional++;
            n_optional--;
        }
        if (covered[at]) continue;
        if (!longest_row(g, plan, filter, false, at, covered, &group))
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "the plan \"%s\" has no kernel for the operator %s", plan->name,
                        g->ops[at].name);
        TRY(group_add(g, &group, filter, groups, n, e));
    }
    return true;
}

/* ---- order ---- */

static bool group_reads(const struct graph *g, const struct group *group, int owner)
{
    for (int i = 0; i < group->n_reads; i++)
        if (tensor_owner(g, group->reads[i]) == owner) return true;
    return false;
}

/* Whether `group` needs what `other` makes. */
static bool group_needs(const struct graph *g, const struct group *group, const struct group *other)
{
    for (int i = 0; i < other->n_writes; i++)
        if (group_reads(g, group, tensor_owner(g, other->writes[i]))) return true;
    return false;
}

bool groups_sort(const struct graph *g, const char *plan, struct group *groups, int count, struct error *e)
{
    for (int at = 0; at < count; at++) {
        int ready = at;
        for (bool waits = true; waits && ready < count; ready += waits) {
            waits = false;
            for (int other = at; other < count && !waits; other++)
                waits = other != ready && group_needs(g, &groups[ready], &groups[other]);
        }
        if (ready == count)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "the plan \"%s\" has groups that wait for each other, %s among them", plan, groups[at].name);
        struct group first = groups[ready];
        memmove(&groups[at + 1], &groups[at], (size_t)(ready - at) * sizeof *groups);
        groups[at] = first;
    }
    return true;
}

bool groups_create(const struct graph *g, const struct plan *plan, const struct group_filter *filter,
                   struct group **out, int *count, struct error *e)
{
    struct group *groups = host_alloc(g->host, (size_t)g->n_ops, sizeof *groups, e); /* never more than operators */
    struct group *optional = groups ? host_alloc(g->host, (size_t)g->n_ops, sizeof *optional, e) : NULL;
    bool *covered = optional ? host_alloc(g->host, (size_t)g->n_ops, sizeof *covered, e) : NULL;
    int n = 0, n_optional = covered ? cover_optional(g, plan, filter, covered, optional) : 0;
    bool ok = covered && cover(g, plan, filter, covered, optional, n_optional, groups, &n, e) &&
              groups_sort(g, plan->name, groups, n, e);
    host_free(g->host, optional);
    host_free(g->host, covered);
    if (!ok) {
        host_free(g->host, groups);
        return false;
    }
    *out = groups;
    *count = n;
    return true;
}
