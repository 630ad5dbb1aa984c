/* What stands on the layers: a pooling, or a head's dense layer and classifier. */
#include <stdio.h>

#include "graph/builder.h"

/* An operator and the tensor that it makes. */
static int add(struct builder *b, const char *name, enum role role, const struct op_kind *kind, const char *made,
               const char *dims, const int in[OP_MAX_IN], const char *einsum)
{
    return builder_plain(b, name, role, kind, builder_value(b, made, dims), in, einsum);
}

static int add_weight(struct builder *b, const char *name, const char *dims, enum weight weight)
{
    return builder_named(b, name, (struct tensor){.dims = dims, .role = TENSOR_WEIGHT, .weight = weight});
}

static int add_pooler(struct builder *b)
{
    const struct tensor_row *row = &tensor_pooler;
    const char *dims = builder_weight_dims(b, WEIGHT_POOLER, false);
    return builder_named(b, row->name,
                         (struct tensor){.dims = dims,
                                         .model_dims = dims != row->dims ? row->dims : NULL,
                                         .role = TENSOR_WEIGHT,
                                         .weight = row->weight});
}

/* The layernorm after the last layer of pre-LN encoders. */
static int add_final_norm(struct builder *b, int x)
{
    if (!b->options->config->pre_layernorm) return x;
    int gamma = add_weight(b, "final.gamma", "i", WEIGHT_FINAL_GAMMA),
        beta = add_weight(b, "final.beta", "i", WEIGHT_FINAL_BETA);
    return add(b, "final.norm", FINAL_NORM, &kind_layernorm, "final.norm", "bji", (const int[]){x, gamma, beta}, NULL);
}

/* ---- embeddings ---- */

static const struct op_kind *pool_kind(wherry_pool pool)
{
    switch (pool) {
    case WHERRY_POOL_MEAN:
        return &kind_pool_mean;
    case WHERRY_POOL_MAX:
        return &kind_pool_max;
    default:
        return &kind_pool_cls;
    }
}

static int add_pool(struct builder *b, wherry_pool pool, int x)
{
    return add(b, "pool", POOL, pool_kind(pool), "pool", "bi", (const int[]){x, -1, -1}, NULL);
}

/* A dense layer on the first token's row: BERT's pooler, and what stands before a classifier. */
static int add_dense(struct builder *b, int x, const struct op_kind *activation)
{
    char name[32];
    x = add(b, "pooler", POOLER, &kind_contract, "pooler", "bo", (const int[]){x, add_pooler(b), -1}, "bi,oi->bo");
    int bias = add_weight(b, "b_pooler", "o", WEIGHT_POOLER_BIAS);
    x = add(b, "pooler_bias", POOLER_BIAS, &kind_bias, "pooler_biased", "bo", (const int[]){x, bias, -1}, NULL);
    snprintf(name, sizeof name, "pooler_%s", activation->name);
    return add(b, name, POOLER_TANH, activation, name, "bo", (const int[]){x, -1, -1}, NULL);
}

static int add_embedding(struct builder *b, int x)
{
    const struct graph_options *options = b->options;
    if (options->pool != WHERRY_POOL_NONE) x = add_pool(b, options->pool, x);
    if (options->pool == WHERRY_POOL_POOLER) x = add_dense(b, x, &kind_tanh);
    if (!options->normalize) return x;
    const char *dims = options->pool == WHERRY_POOL_NONE ? "bji" : options->pool == WHERRY_POOL_POOLER ? "bo" : "bi";
    return add(b, "normalize", NORMALIZE, &kind_normalize, "normalized", dims, (const int[]){x, -1, -1}, NULL);
}

/* ---- classes ---- */

static const struct op_kind *head_kind(wherry_head_activation activation)
{
    static const struct op_kind *const kinds[] = {[WHERRY_HEAD_TANH] = &kind_tanh,
                                                  [WHERRY_HEAD_RELU] = &kind_relu,
                                                  [WHERRY_HEAD_GELU] = &kind_gelu,
                                                  [WHERRY_HEAD_GELU_TANH] = &kind_gelu_tanh};
    return kinds[activation];
}

/* A classifier on rows of the letters `of`: "bj" of tokens, "b" of sequences; `letter` is that of a row's channels. */
static int add_classifier(struct builder *b, int x, const char *of, char letter)
{
    char einsum[24];
    bool tokens = of[1], dense = letter == 'o';
    const char *made = tokens ? "bjc" : "bc";
    snprintf(einsum, sizeof einsum, "%s%c,c%c->%s", of, letter, letter, made);
    int w = add_weight(b, "w_classifier", dense ? "co" : "ci", WEIGHT_CLASSIFIER),
        bias = add_weight(b, "b_classifier", "c", WEIGHT_CLASSIFIER_BIAS);
    x = add(b, "classifier", CLASSIFIER, &kind_contract, "classes", made, (const int[]){x, w, -1}, einsum);
    return add(b, "classifier_bias", CLASSIFIER_BIAS, &kind_bias, "logits", made, (const int[]){x, bias, -1}, NULL);
}

static int add_classes(struct builder *b, int x)
{
    wherry_head_activation activation = b->options->config->head_activation;
    x = add_pool(b, WHERRY_POOL_CLS, x);
    if (activation == WHERRY_HEAD_PLAIN) return add_classifier(b, x, "b", 'i');
    return add_classifier(b, add_dense(b, x, head_kind(activation)), "b", 'o');
}

int builder_head(struct builder *b, int x)
{
    x = add_final_norm(b, x);
    switch (b->options->output) {
    case WHERRY_OUTPUT_CLASSES:
        return add_classes(b, x);
    case WHERRY_OUTPUT_TOKEN_CLASSES:
        return add_classifier(b, x, "bj", 'i');
    default:
        return add_embedding(b, x);
    }
}
