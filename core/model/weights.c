/* Which weights an encoder has: for each its shape, its kind, and the names of its parts in published files. */
#include "model/weights.h"

#include "model/head.h"

#define ATTENTION "attention.self."

const struct weight_rule weight_rules[] = {
    {WEIGHT_WORD, WEIGHT_MATRIX, WEIGHT_ONCE, "vi", {"embeddings.word_embeddings"}},
    {WEIGHT_POSITION, WEIGHT_MATRIX, WEIGHT_ONCE, "mi", {"embeddings.position_embeddings"}},
    {WEIGHT_TYPE, WEIGHT_MATRIX, WEIGHT_TYPES, "ti", {"embeddings.token_type_embeddings"}},
    {WEIGHT_EMBED_GAMMA, WEIGHT_GAMMA, WEIGHT_ONCE, "i", {"embeddings.LayerNorm"}},
    {WEIGHT_EMBED_BETA, WEIGHT_BETA, WEIGHT_ONCE, "i", {"embeddings.LayerNorm"}},
    {WEIGHT_QKV, WEIGHT_MATRIX, WEIGHT_PER_LAYER, "ii", {ATTENTION "query", ATTENTION "key", ATTENTION "value"}},
    {WEIGHT_QKV_BIAS, WEIGHT_BIAS, WEIGHT_PER_LAYER, "i", {ATTENTION "query", ATTENTION "key", ATTENTION "value"}},
    {WEIGHT_OUT, WEIGHT_MATRIX, WEIGHT_PER_LAYER, "ii", {"attention.output.dense"}},
    {WEIGHT_OUT_BIAS, WEIGHT_BIAS, WEIGHT_PER_LAYER, "i", {"attention.output.dense"}},
    {WEIGHT_GAMMA1, WEIGHT_GAMMA, WEIGHT_PER_LAYER, "i", {"attention.output.LayerNorm"}},
    {WEIGHT_BETA1, WEIGHT_BETA, WEIGHT_PER_LAYER, "i", {"attention.output.LayerNorm"}},
    {WEIGHT_LIN1, WEIGHT_MATRIX, WEIGHT_PER_LAYER, "ui", {"intermediate.dense"}},
    {WEIGHT_LIN1_BIAS, WEIGHT_BIAS, WEIGHT_PER_LAYER, "u", {"intermediate.dense"}},
    {WEIGHT_LIN2, WEIGHT_MATRIX, WEIGHT_PER_LAYER, "iu", {"output.dense"}},
    {WEIGHT_LIN2_BIAS, WEIGHT_BIAS, WEIGHT_PER_LAYER, "i", {"output.dense"}},
    {WEIGHT_GAMMA2, WEIGHT_GAMMA, WEIGHT_PER_LAYER, "i", {"output.LayerNorm"}},
    {WEIGHT_BETA2, WEIGHT_BETA, WEIGHT_PER_LAYER, "i", {"output.LayerNorm"}},
    {WEIGHT_FINAL_GAMMA, WEIGHT_GAMMA, WEIGHT_PRE_NORM, "i", {"encoder.LayerNorm"}},
    {WEIGHT_FINAL_BETA, WEIGHT_BETA, WEIGHT_PRE_NORM, "i", {"encoder.LayerNorm"}},
    {WEIGHT_POOLER, WEIGHT_MATRIX, WEIGHT_OF_POOLER, "oi", {"pooler.dense"}},
    {WEIGHT_POOLER_BIAS, WEIGHT_BIAS, WEIGHT_OF_POOLER, "o", {"pooler.dense"}},
    {WEIGHT_CLASSIFIER, WEIGHT_MATRIX, WEIGHT_OF_CLASSIFIER, "ci", {"classifier"}},
    {WEIGHT_CLASSIFIER_BIAS, WEIGHT_BIAS, WEIGHT_OF_CLASSIFIER, "c", {"classifier"}},
};
const size_t weight_rules_count = sizeof weight_rules / sizeof *weight_rules;

void weight_rule_layers(const struct weight_rule *rule, const wherry_model_config *config, int *first, int *end)
{
    bool there = true;
    if (rule->presence == WEIGHT_TYPES) there = config->token_types > 0;
    if (rule->presence == WEIGHT_PRE_NORM) there = config->pre_layernorm;
    if (rule->presence == WEIGHT_OF_POOLER) there = config->pooler || model_has_dense(config);
    if (rule->presence == WEIGHT_OF_CLASSIFIER) there = config->labels > 0;
    *first = rule->presence == WEIGHT_PER_LAYER ? 0 : -1;
    *end = rule->presence == WEIGHT_PER_LAYER ? (int)config->layers : there ? 0 : -1;
}

static uint64_t letter_size(char letter, const wherry_model_config *config)
{
    switch (letter) {
    case 'v':
        return config->vocabulary;
    case 'm':
        return config->positions;
    case 't':
        return config->token_types;
    case 'u':
        return config->feed_forward;
    case 'c':
        return config->labels;
    default:
        return config->hidden; /* i and o */
    }
}

int weight_rule_shape(const struct weight_rule *rule, const wherry_model_config *config, uint64_t shape[2])
{
    int rank = 0;
    for (const char *letter = rule->shape; *letter; letter++) shape[rank++] = letter_size(*letter, config);
    return rank;
}
