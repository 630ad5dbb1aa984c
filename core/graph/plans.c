/* Fusion plans: which operators one kernel executes. */
#include <string.h>

#include "graph/group.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* A row is a fused kernel, or one with a name of its own: what it covers, in layers whose layernorms stand before
 * (NORM_PRE) or after (NORM_POST) their blocks, or in both. An operator that no row covers runs alone, by the kernel of
 * its kind (kinds.c). */

/* Of dense layer k after the pooling: its product, bias and activation. */
#define DENSE_LAYER(k, n) (MODULE_DENSE + 3 * (k) + (n))

/* clang-format off */
/*   name                kernel                launch             operators */

/* Both: the backward pass outside the layers, and what is recomputed. */
#define OUTSIDE_BACKWARD \
    {"vocabulary_norm_dxw", "layernorm_backward", LAUNCH_PARTS,   {VOCABULARY_NORM_DW, VOCABULARY_NORM_DX}}, \
    {"vocabulary_ab",    "columns",            LAUNCH_PARTS,      {VOCABULARY_ACTIVATION_DX, VOCABULARY_DENSE_BIAS_DW}}, \
    {"pooler_tb",        "columns",            LAUNCH_PARTS,      {POOLER_TANH_DX, POOLER_BIAS_DW}}, \
    {"final_norm_dxw",   "layernorm_backward", LAUNCH_PARTS,      {FINAL_NORM_DW, FINAL_NORM_DX}}, \
    {"embed_norm_dxw",   "layernorm_backward", LAUNCH_PARTS,      {EMBED_NORM_DW, EMBED_NORM_DX}}, \
    {"out_norm_dxw",     "layernorm_backward", LAUNCH_PARTS,      {OUT_NORM_DW, OUT_NORM_DX}}, \
    {"lin2_norm_dxw",    "layernorm_backward", LAUNCH_PARTS,      {LIN2_NORM_DW, LIN2_NORM_DX}}, \
    {"heads_norm_dxw",   "heads_norm_backward",LAUNCH_PARTS,      {HEADS_NORM_DW, HEADS_NORM_DX}}, \
    {"activation_again", "map",                LAUNCH_ELEMENTS,   {ACTIVATION_RECOMPUTE, ACTIVATION_DROPOUT_RECOMPUTE}}, \
    {"gate_again",       "gate",               LAUNCH_ELEMENTS,   {ACTIVATION_RECOMPUTE, ACTIVATION_DROPOUT_RECOMPUTE}}

/* The fused kernels of Ivanov et al. around plain products, with the scores stored. Names are theirs where they have
 * one. */
static const struct plan_row paper[] = {
    {"embed",            "embed",              LAUNCH_ROWS,       {EMBED_WORD, EMBED_POSITION, EMBED_TYPE, EMBED_NORM}},
    {"embed_project_b",  "map",                LAUNCH_ELEMENTS,   {EMBED_PROJECT_BIAS}},
    {"aib",              "map",                LAUNCH_ELEMENTS,   {QKV_BIAS}},
    {"aib",              "rotary",             LAUNCH_ELEMENTS,   {QKV_BIAS, ROTARY}},
    {"heads_norm",       "heads_norm",         LAUNCH_SCORE_ROWS, {HEADS_NORM, ROTARY}},
    {"qkt",              "bgemm",              LAUNCH_SCORES,     {SCORES}},
    {"sm",               "softmax",            LAUNCH_SCORE_ROWS, {SCORES_BIAS, SOFTMAX, ATTENTION_DROPOUT}},
    {"gamma",            "bgemm",              LAUNCH_QUERIES,    {CONTEXT}},
    {"bdrln1",           "layernorm",          LAUNCH_ROWS,       {OUT_BIAS, OUT_DROPOUT, OUT_RESIDUAL, NORM1}, NORM_POST},
    {"bdrln1",           "layernorm",          LAUNCH_ROWS,       {OUT_BIAS, OUT_DROPOUT, OUT_RESIDUAL, NORM2}, NORM_PRE},
    {"brd",              "map",                LAUNCH_ELEMENTS,   {LIN1_BIAS, ACTIVATION, ACTIVATION_DROPOUT}},
    {"brd",              "gate",               LAUNCH_ELEMENTS,   {LIN1_BIAS, ACTIVATION, ACTIVATION_DROPOUT}},
    {"bdrln2",           "layernorm",          LAUNCH_ROWS,       {LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL, NORM2}, NORM_POST},
    {"bdrln2",           "layernorm",          LAUNCH_ROWS,       {LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL, NEXT_LAYER, NORM1}, NORM_PRE},
    {"bdrln2",           "layernorm",          LAUNCH_ROWS,       {LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL, NEXT_LAYER, FINAL_NORM}, NORM_PRE},
    {"bdr2",             "map",                LAUNCH_ELEMENTS,   {LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL}, NORM_PRE}, /* a layer alone */
    {"pool",             "pool",               LAUNCH_ROWS,       {POOL, NORMALIZE}},
    {"pooler_bt",        "map",                LAUNCH_ELEMENTS,   {POOLER_BIAS, POOLER_TANH}},
    {"classifier_b",     "map",                LAUNCH_ELEMENTS,   {CLASSIFIER_BIAS}},
    {"vocabulary_ba",    "map",                LAUNCH_ELEMENTS,   {VOCABULARY_DENSE_BIAS, VOCABULARY_ACTIVATION}},
    {"vocabulary_b",     "map",                LAUNCH_ELEMENTS,   {VOCABULARY_BIAS, VOCABULARY_WEIGHT}},
    {"dense_1_ba",       "map",                LAUNCH_ELEMENTS,   {DENSE_LAYER(0, 1), DENSE_LAYER(0, 2)}},
    {"dense_2_ba",       "map",                LAUNCH_ELEMENTS,   {DENSE_LAYER(1, 1), DENSE_LAYER(1, 2)}},
    {"dense_3_ba",       "map",                LAUNCH_ELEMENTS,   {DENSE_LAYER(2, 1), DENSE_LAYER(2, 2)}},
    {"dense_4_ba",       "map",                LAUNCH_ELEMENTS,   {DENSE_LAYER(3, 1), DENSE_LAYER(3, 2)}},
    OUTSIDE_BACKWARD,
    {"bsb",              "layernorm_backward", LAUNCH_PARTS,      {NORM2_DW}},
    {"blnrd2",           "layernorm_backward", LAUNCH_PARTS,      {NORM2_DX, LIN2_DROPOUT_DX}, NORM_POST},
    {"blnrd2",           "layernorm_backward", LAUNCH_PARTS,      {NORM2_DX, FF_RESIDUAL_DX, OUT_DROPOUT_DX}, NORM_PRE},
    {"bd2",              "map",                LAUNCH_ELEMENTS,   {LIN2_DROPOUT_DX}, NORM_PRE}, /* the last layer */
    {"bb2",              "columns",            LAUNCH_PARTS,      {LIN2_BIAS_DW}, NORM_PRE},
    /* The authors' table has the second bias' gradient in BDRB, their code in EBSB; the iteration space is EBSB's. */
    {"bdrb",             "columns",            LAUNCH_PARTS,      {ACTIVATION_DROPOUT_DX, ACTIVATION_DX, LIN1_BIAS_DW}},
    {"ebsb",             "layernorm_backward", LAUNCH_PARTS,      {LIN2_BIAS_DW, FF_RESIDUAL_DX, NORM1_DW}, NORM_POST},
    {"blnrd1",           "layernorm_backward", LAUNCH_PARTS,      {NORM1_DX, OUT_DROPOUT_DX}, NORM_POST},
    {"blnrd1",           "layernorm_backward", LAUNCH_PARTS,      {NORM1_DX, RESIDUAL_DX, NEXT_LAYER, LIN2_DROPOUT_DX}, NORM_PRE},
    {"blnrd1",           "layernorm_backward", LAUNCH_PARTS,      {NORM1_DX, RESIDUAL_DX}, NORM_PRE}, /* the first layer */
    {"baob",             "columns",            LAUNCH_PARTS,      {OUT_BIAS_DW}},
    {"gamma_dx1",        "bgemm",              LAUNCH_SCORES,     {CONTEXT_DX1}},
    {"gamma_dx2",        "bgemm",              LAUNCH_QUERIES,    {CONTEXT_DX2}},
    {"bs",               "softmax_backward",   LAUNCH_SCORE_ROWS, {ATTENTION_DROPOUT_DX, SOFTMAX_DX}},
    {"qkt_dx1",          "bgemm",              LAUNCH_QUERIES,    {SCORES_DX1}},
    {"qkt_dx2",          "bgemm",              LAUNCH_QUERIES,    {SCORES_DX2}},
    {"bdr",              "map",                LAUNCH_ELEMENTS,   {ACTIVATION_DROPOUT_DX, ACTIVATION_DX}}, /* without a bias */
    {"bdr",              "gate",               LAUNCH_ELEMENTS,   {ACTIVATION_DROPOUT_DX, ACTIVATION_DX}},
    {"baib",             "columns",            LAUNCH_PARTS,      {QKV_BIAS_DW}},
    {"bei",              "map",                LAUNCH_ELEMENTS,   {RESIDUAL_DX}, NORM_POST},
};

/* Epilogues in the products, no score matrix anywhere, every row-wise chain one kernel. */
static const struct plan_row flash[] = {
    {"embed",            "embed",              LAUNCH_ROWS,       {EMBED_WORD, EMBED_POSITION, EMBED_TYPE, EMBED_NORM}},
    {"embed_project",    "gemm",               LAUNCH_TILES,      {EMBED_PROJECT, EMBED_PROJECT_BIAS}},
    {"qkv",              "gemm",               LAUNCH_TILES,      {QKV, QKV_BIAS, ROTARY}},
    {"qkv",              "gemm",               LAUNCH_TILES,      {QKV, QKV_BIAS}},
    {"heads_norm",       "heads_norm",         LAUNCH_SCORE_ROWS, {HEADS_NORM, ROTARY}},
    {"attention",        "attention",          LAUNCH_QUERIES,    {SCORES, SCORES_BIAS, SOFTMAX, ATTENTION_DROPOUT, CONTEXT}},
    {"out",              "gemm",               LAUNCH_TILES,      {OUT, OUT_BIAS, OUT_DROPOUT, OUT_RESIDUAL}},
    {"out",              "gemm",               LAUNCH_TILES,      {OUT, OUT_BIAS, OUT_DROPOUT, OUT_RESIDUAL, NORM2_MOMENTS}, NORM_PRE},
    /* Where attention's result is normed twice, each time with what was read. */
    {"out",              "gemm",               LAUNCH_TILES,      {OUT, OUT_BIAS, OUT_DROPOUT, OUT_INNER}},
    {"out_norm1",        "layernorm",          LAUNCH_ROWS,       {OUT_RESIDUAL, NORM1}, NORM_POST},
    {"lin1",             "gemm",               LAUNCH_TILES,      {LIN1, LIN1_BIAS, ACTIVATION_SLOPE, ACTIVATION, ACTIVATION_DROPOUT}},
    {"lin1",             "gemm",               LAUNCH_TILES,      {LIN1, LIN1_BIAS, ACTIVATION, ACTIVATION_DROPOUT}}, /* where slopes come alone */
    /* Where a product's epilogue does not gate. */
    {"lin1",             "gemm",               LAUNCH_TILES,      {LIN1, LIN1_BIAS}},
    {"gate",             "gate",               LAUNCH_ELEMENTS,   {ACTIVATION, ACTIVATION_DROPOUT}},
    {"lin2",             "gemm",               LAUNCH_TILES,      {LIN2, LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL}},
    {"lin2",             "gemm",               LAUNCH_TILES,      {LIN2, LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL, NEXT_LAYER, NORM1_MOMENTS}, NORM_PRE},
    /* A mixture of experts. */
    {"experts1",         "gemm_experts",       LAUNCH_EXPERTS,    {EXPERTS1, ACTIVATION}},
    {"experts_norm2",    "layernorm",          LAUNCH_ROWS,       {LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL, NORM2}, NORM_POST},
    {"experts_bdr",      "map",                LAUNCH_ELEMENTS,   {LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL}},
    /* Few rows: a product's work-groups read all of their rows, and normalize them on the way. Of many rows the norm is
       folded into the product (fold.h). */
    {"norm1_lin1",       "gemm",               LAUNCH_TILES,      {NORM1, LIN1, LIN1_BIAS, ACTIVATION, ACTIVATION_DROPOUT}, NORM_POST, .optional = true},
    {"attention_out",    "attention",          LAUNCH_QUERIES,    {SCORES, SCORES_BIAS, SOFTMAX, ATTENTION_DROPOUT, CONTEXT, OUT, OUT_BIAS, OUT_DROPOUT, OUT_RESIDUAL}, .optional = true},
    {"norm2_qkv",        "gemm",               LAUNCH_TILES,      {NORM2, NEXT_LAYER, QKV, QKV_BIAS, ROTARY}, NORM_POST, .optional = true},
    {"norm1_qkv",        "gemm",               LAUNCH_TILES,      {NORM1, QKV, QKV_BIAS, ROTARY}, NORM_PRE, .optional = true},
    {"norm1_qkv",        "gemm",               LAUNCH_TILES,      {NORM1, QKV, QKV_BIAS}, NORM_PRE, .optional = true}, /* before norms of heads */
    {"norm2_lin1",       "gemm",               LAUNCH_TILES,      {NORM2, LIN1, LIN1_BIAS, ACTIVATION, ACTIVATION_DROPOUT}, NORM_PRE, .optional = true},
    /* Many rows: where a product's tiles hold whole rows, their makers normalize them. */
    {"out_norm1",        "gemm",               LAUNCH_TILES,      {OUT, OUT_BIAS, OUT_DROPOUT, OUT_RESIDUAL, NORM1}, NORM_POST, .optional = true},
    {"lin2_norm2",       "gemm",               LAUNCH_TILES,      {LIN2, LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL, NORM2}, NORM_POST, .optional = true},
    {"norm2_pool",       "layernorm_pool",     LAUNCH_ROWS,       {NORM2, NEXT_LAYER, POOL, NORMALIZE}, NORM_POST, .optional = true},
    {"pool",             "pool",               LAUNCH_ROWS,       {POOL, NORMALIZE}},
    {"pooler",           "gemm",               LAUNCH_TILES,      {POOLER, POOLER_BIAS, POOLER_TANH}},
    {"classifier",       "gemm",               LAUNCH_TILES,      {CLASSIFIER, CLASSIFIER_BIAS}},
    {"vocabulary_dense", "gemm",               LAUNCH_TILES,      {VOCABULARY_DENSE, VOCABULARY_DENSE_BIAS, VOCABULARY_ACTIVATION}},
    {"vocabulary",       "gemm",               LAUNCH_TILES,      {VOCABULARY_SCORES, VOCABULARY_BIAS}},
    {"vocabulary_again", "gemm",               LAUNCH_TILES,      {VOCABULARY_SCORES_RECOMPUTE, VOCABULARY_BIAS_RECOMPUTE}},
    {"vocabulary_dx",    "gemm",               LAUNCH_TILES,      {VOCABULARY_SCORES_DX, VOCABULARY_SCORES_SUM}},
    {"vocabulary_dw",    "gemm",               LAUNCH_TILES,      {VOCABULARY_BIAS_DW, VOCABULARY_SCORES_DW}, .optional = true}, /* the same operand, read once */
    {"words",            "gemm_pool",          LAUNCH_WORDS,      {VOCABULARY_SCORES, VOCABULARY_BIAS, VOCABULARY_WEIGHT, POOL}},
    {"dense_1",          "gemm",               LAUNCH_TILES,      {DENSE_LAYER(0, 0), DENSE_LAYER(0, 1), DENSE_LAYER(0, 2)}},
    {"dense_2",          "gemm",               LAUNCH_TILES,      {DENSE_LAYER(1, 0), DENSE_LAYER(1, 1), DENSE_LAYER(1, 2)}},
    {"dense_3",          "gemm",               LAUNCH_TILES,      {DENSE_LAYER(2, 0), DENSE_LAYER(2, 1), DENSE_LAYER(2, 2)}},
    {"dense_4",          "gemm",               LAUNCH_TILES,      {DENSE_LAYER(3, 0), DENSE_LAYER(3, 1), DENSE_LAYER(3, 2)}},
    OUTSIDE_BACKWARD,
    {"lnb2",             "layernorm_backward", LAUNCH_PARTS,      {NORM2_DW, NORM2_DX, LIN2_DROPOUT_DX, LIN2_BIAS_DW}, NORM_POST},
    {"lnb2",             "layernorm_backward", LAUNCH_PARTS,      {NORM2_DW, NORM2_DX, FF_RESIDUAL_DX, OUT_DROPOUT_DX, OUT_BIAS_DW}, NORM_PRE},
    {"db2",              "columns",            LAUNCH_PARTS,      {LIN2_DROPOUT_DX, LIN2_BIAS_DW}, NORM_PRE}, /* the last layer */
    {"lin2_dx",          "gemm",               LAUNCH_TILES,      {LIN2_DX, ACTIVATION_DROPOUT_DX, ACTIVATION_DX, LIN1_BIAS_DW}},
    /* The gradient of the bias comes with that of the weight. */
    {"lin2_dx",          "gemm",               LAUNCH_TILES,      {LIN2_DX, ACTIVATION_DROPOUT_DX, ACTIVATION_DX}},
    {"activation_dx",    "map",                LAUNCH_ELEMENTS,   {ACTIVATION_DROPOUT_DX, ACTIVATION_DX}},
    {"gate_dx",          "gate",               LAUNCH_ELEMENTS,   {ACTIVATION_DROPOUT_DX, ACTIVATION_DX}},
    {"lin1_dx",          "gemm",               LAUNCH_TILES,      {LIN1_DX, FF_RESIDUAL_DX}, NORM_POST},
    {"experts2_dx",      "gemm_experts",       LAUNCH_EXPERTS,    {EXPERTS2_DX, ACTIVATION_DX}},
    {"router_dx",        "gemm",               LAUNCH_TILES,      {ROUTER_DX, ROUTER_ADD}},
    {"lin1_dw",          "gemm",               LAUNCH_TILES,      {LIN1_BIAS_DW, LIN1_DW}, .optional = true}, /* the same operand, read once */
    {"lnb1",             "layernorm_backward", LAUNCH_PARTS,      {NORM1_DW, NORM1_DX, OUT_DROPOUT_DX, OUT_BIAS_DW}, NORM_POST},
    {"lnb1",             "layernorm_backward", LAUNCH_PARTS,      {NORM1_DW, NORM1_DX, RESIDUAL_DX, NEXT_LAYER, LIN2_DROPOUT_DX, LIN2_BIAS_DW}, NORM_PRE},
    {"lnb1",             "layernorm_backward", LAUNCH_PARTS,      {NORM1_DW, NORM1_DX, RESIDUAL_DX}, NORM_PRE}, /* the first layer */
    {"out_dx",           "gemm",               LAUNCH_TILES,      {OUT_DX, ATTENTION_DELTA}, .optional = true}, /* where its tiles have whole heads */
    {"attention_dx",     "attention_backward", LAUNCH_SEQUENCES,  {SCORES_RECOMPUTE, SCORES_BIAS_RECOMPUTE, SOFTMAX_RECOMPUTE, ATTENTION_DROPOUT_RECOMPUTE, CONTEXT_DX1, CONTEXT_DX2, ATTENTION_DROPOUT_DX, SOFTMAX_DX, SCORES_BIAS_SUMS, SCORES_DX1, SCORES_DX2}},
    {"attention_dx",     "attention_backward", LAUNCH_SEQUENCES,  {SCORES_RECOMPUTE, SCORES_BIAS_RECOMPUTE, SOFTMAX_RECOMPUTE, ATTENTION_DROPOUT_RECOMPUTE, CONTEXT_DX1, CONTEXT_DX2, ATTENTION_DROPOUT_DX, SOFTMAX_DX, SCORES_BIAS_SUMS, SCORES_DX1, SCORES_DX2, ROTARY_DX}, .optional = true}, /* where it turns them back */
    {"qkv_dx",           "gemm",               LAUNCH_TILES,      {QKV_DX, RESIDUAL_DX}, NORM_POST},
    {"qkv_dx",           "gemm",               LAUNCH_TILES,      {QKV_DX, QKV_ADD}},
    {"qkv_dw",           "gemm",               LAUNCH_TILES,      {QKV_DW, QKV_BIAS_DW}, .optional = true}, /* the same operand, read once */
    {"embed_project_dw", "gemm",               LAUNCH_TILES,      {EMBED_PROJECT_DW, EMBED_PROJECT_BIAS_DW}, .optional = true},
};
/* clang-format on */

const struct plan plans[] = {
    {"flash", flash, COUNT(flash)},
    {"paper", paper, COUNT(paper)},
    {"unfused", NULL, 0},
};
const size_t plans_count = COUNT(plans);

const struct plan *plan_find(const char *name, struct error *e)
{
    for (size_t i = 0; i < plans_count; i++)
        if (!strcmp(plans[i].name, name)) return &plans[i];
    fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "unknown plan \"%.40s\": the plans are flash, paper and unfused", name);
    return NULL;
}
