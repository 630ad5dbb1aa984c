/* Which weights an encoder has: for each its shape, its kind, and the number of its parts in published files. */
#include "model/weights.h"

#include <string.h>

#include "model/head.h"
#include "model/safetensors.h"

const struct weight_rule weight_rules[] = {
    {WEIGHT_WORD, WEIGHT_MATRIX, WEIGHT_ONCE, "ve", 1},
    {WEIGHT_POSITION, WEIGHT_MATRIX, WEIGHT_TABLED, "me", 1},
    {WEIGHT_TYPE, WEIGHT_MATRIX, WEIGHT_TYPES, "te", 1},
    {WEIGHT_EMBED_GAMMA, WEIGHT_GAMMA, WEIGHT_ONCE, "e", 1},
    {WEIGHT_EMBED_BETA, WEIGHT_BETA, WEIGHT_ONCE, "e", 1},
    {WEIGHT_QKV, WEIGHT_MATRIX, WEIGHT_PER_LAYER, "ai", 3},
    {WEIGHT_QKV_BIAS, WEIGHT_BIAS, WEIGHT_PER_LAYER, "a", 3},
    {WEIGHT_OUT, WEIGHT_MATRIX, WEIGHT_PER_LAYER, "ia", 1},
    {WEIGHT_OUT_BIAS, WEIGHT_BIAS, WEIGHT_PER_LAYER, "i", 1},
    {WEIGHT_GAMMA1, WEIGHT_GAMMA, WEIGHT_PER_LAYER, "i", 1},
    {WEIGHT_BETA1, WEIGHT_BETA, WEIGHT_PER_LAYER, "i", 1},
    {WEIGHT_LIN1, WEIGHT_MATRIX, WEIGHT_PER_LAYER, "ui", 1},
    {WEIGHT_LIN1_BIAS, WEIGHT_BIAS, WEIGHT_PER_LAYER, "u", 1},
    {WEIGHT_LIN2, WEIGHT_MATRIX, WEIGHT_PER_LAYER, "iu", 1},
    {WEIGHT_LIN2_BIAS, WEIGHT_BIAS, WEIGHT_PER_LAYER, "i", 1},
    {WEIGHT_GAMMA2, WEIGHT_GAMMA, WEIGHT_PER_LAYER, "i", 1},
    {WEIGHT_BETA2, WEIGHT_BETA, WEIGHT_PER_LAYER, "i", 1},
    {WEIGHT_FINAL_GAMMA, WEIGHT_GAMMA, WEIGHT_PRE_NORM, "i", 1},
    {WEIGHT_FINAL_BETA, WEIGHT_BETA, WEIGHT_PRE_NORM, "i", 1},
    {WEIGHT_POOLER, WEIGHT_MATRIX, WEIGHT_OF_POOLER, "oi", 1},
    {WEIGHT_POOLER_BIAS, WEIGHT_BIAS, WEIGHT_OF_POOLER, "o", 1},
    {WEIGHT_CLASSIFIER, WEIGHT_MATRIX, WEIGHT_OF_CLASSIFIER, "ci", 1},
    {WEIGHT_CLASSIFIER_BIAS, WEIGHT_BIAS, WEIGHT_OF_CLASSIFIER, "c", 1},
    {WEIGHT_VOCABULARY_DENSE, WEIGHT_MATRIX, WEIGHT_OF_VOCABULARY, "ei", 1},
    {WEIGHT_VOCABULARY_DENSE_BIAS, WEIGHT_BIAS, WEIGHT_OF_VOCABULARY, "e", 1},
    {WEIGHT_VOCABULARY_GAMMA, WEIGHT_GAMMA, WEIGHT_OF_VOCABULARY, "e", 1},
    {WEIGHT_VOCABULARY_BETA, WEIGHT_BETA, WEIGHT_OF_VOCABULARY, "e", 1},
    {WEIGHT_VOCABULARY_BIAS, WEIGHT_BIAS, WEIGHT_OF_VOCABULARY, "v", 1},
    {WEIGHT_VOCABULARY_TABLE, WEIGHT_MATRIX, WEIGHT_OF_UNTIED, "ve", 1},
    {WEIGHT_NEXT, WEIGHT_MATRIX, WEIGHT_OF_NEXT, "zo", 1},
    {WEIGHT_NEXT_BIAS, WEIGHT_BIAS, WEIGHT_OF_NEXT, "z", 1},
    {WEIGHT_PROJECT, WEIGHT_MATRIX, WEIGHT_NARROW, "ie", 1},
    {WEIGHT_PROJECT_BIAS, WEIGHT_BIAS, WEIGHT_NARROW, "i", 1},
    {WEIGHT_RELATIVE, WEIGHT_MATRIX, WEIGHT_BY_DISTANCE, "dh", 1},
    {WEIGHT_HEADS_GAMMA, WEIGHT_GAMMA, WEIGHT_PER_LAYER, "p", 2},
    {WEIGHT_HEADS_BETA, WEIGHT_BETA, WEIGHT_PER_LAYER, "p", 2},
    {WEIGHT_OUT_GAMMA, WEIGHT_GAMMA, WEIGHT_PER_LAYER, "i", 1},
    {WEIGHT_OUT_BETA, WEIGHT_BETA, WEIGHT_PER_LAYER, "i", 1},
    {WEIGHT_LIN2_GAMMA, WEIGHT_GAMMA, WEIGHT_PER_LAYER, "i", 1},
    {WEIGHT_LIN2_BETA, WEIGHT_BETA, WEIGHT_PER_LAYER, "i", 1},
    {WEIGHT_ROUTER, WEIGHT_MATRIX, WEIGHT_PER_LAYER, "xi", 1},
    {WEIGHT_EXPERTS1, WEIGHT_MATRIX, WEIGHT_PER_LAYER, "yi", 1, .bare = true},
    {WEIGHT_EXPERTS2, WEIGHT_MATRIX, WEIGHT_PER_LAYER, "yi", 1, .bare = true},
    {WEIGHT_EXPERTS_BIAS, WEIGHT_BIAS, WEIGHT_PER_LAYER, "i", 1},
    {WEIGHT_HEAD_GAMMA, WEIGHT_GAMMA, WEIGHT_OF_HEAD_NORM, "o", 1},
    {WEIGHT_HEAD_BETA, WEIGHT_BETA, WEIGHT_OF_HEAD_NORM, "o", 1},
};
const size_t weight_rules_count = sizeof weight_rules / sizeof *weight_rules;

/* False for the bias of a product or norm that has none, and for a norm that is not there. */
static bool is_there(const struct weight_rule *rule, const wherry_model_config *config)
{
    if (rule->kind == WEIGHT_BETA && !norms_have_beta(config)) return false;
    switch (rule->weight) {
    case WEIGHT_HEADS_GAMMA:
        return config->head_norms || config->wide_norms;
    case WEIGHT_HEADS_BETA:
        return config->wide_norms;
    case WEIGHT_OUT_GAMMA:
    case WEIGHT_OUT_BETA:
        return config->block_norms || config->double_norms;
    case WEIGHT_LIN2_GAMMA:
    case WEIGHT_LIN2_BETA:
        return config->block_norms;
    case WEIGHT_ROUTER:
    case WEIGHT_EXPERTS1:
    case WEIGHT_EXPERTS2:
    case WEIGHT_EXPERTS_BIAS:
        return config->experts > 0;
    case WEIGHT_EMBED_GAMMA:
    case WEIGHT_EMBED_BETA:
        return !(config->without & WHERRY_WITHOUT_EMBED_NORM);
    case WEIGHT_POOLER_BIAS:
    case WEIGHT_VOCABULARY_DENSE_BIAS:
        return !(config->without & WHERRY_WITHOUT_HEAD_BIAS);
    case WEIGHT_CLASSIFIER_BIAS:
        return !(config->without & WHERRY_WITHOUT_CLASSIFIER_BIAS);
    case WEIGHT_QKV_BIAS:
        return !(config->without & WHERRY_WITHOUT_QKV_BIAS);
    case WEIGHT_OUT_BIAS:
        return !(config->without & WHERRY_WITHOUT_OUT_BIAS);
    case WEIGHT_LIN1_BIAS:
        return !(config->without & WHERRY_WITHOUT_LIN1_BIAS);
    case WEIGHT_LIN2_BIAS:
        return !(config->without & WHERRY_WITHOUT_LIN2_BIAS);
    default:
        return true;
    }
}

int weight_rule_parts(const struct weight_rule *rule, const wherry_model_config *config)
{
    bool lin1 = rule->weight == WEIGHT_LIN1 || rule->weight == WEIGHT_LIN1_BIAS;
    return lin1 && config->gate ? 2 : rule->parts;
}

void weight_rule_layers(const struct weight_rule *rule, const wherry_model_config *config, int *first, int *end)
{
    bool own = is_there(rule, config), there = own;
    bool later = (rule->weight == WEIGHT_GAMMA1 || rule->weight == WEIGHT_BETA1) &&
                 config->without & WHERRY_WITHOUT_FIRST_NORM; /* from the second layer on */
    if (rule->presence == WEIGHT_TABLED) there = !(config->rotary_base > 0) && !config->alibi;
    if (rule->presence == WEIGHT_TYPES) there = config->token_types > 0;
    if (rule->presence == WEIGHT_PRE_NORM) there = own && config->pre_layernorm;
    if (rule->presence == WEIGHT_OF_POOLER)
        there = own && (config->pooler || config->next_sentence || model_has_dense(config));
    if (rule->presence == WEIGHT_OF_CLASSIFIER) there = own && config->labels > 0;
    if (rule->presence == WEIGHT_OF_VOCABULARY) there = own && config->head == WHERRY_HEAD_VOCABULARY;
    if (rule->presence == WEIGHT_OF_UNTIED) there = config->head == WHERRY_HEAD_VOCABULARY && config->untied;
    if (rule->presence == WEIGHT_OF_NEXT) there = config->next_sentence;
    if (rule->presence == WEIGHT_NARROW) there = config->embedding > 0;
    if (rule->presence == WEIGHT_OF_HEAD_NORM) there = own && config->head_norm;
    if (rule->presence == WEIGHT_BY_DISTANCE) there = config->relative_buckets > 0;
    *first = rule->presence == WEIGHT_PER_LAYER ? later : -1;
    *end = rule->presence == WEIGHT_PER_LAYER ? (own ? (int)config->layers : 0) : there ? 0 : -1;
}

bool weight_rule_in_layer(const struct weight_rule *rule, const wherry_model_config *config, int layer)
{
    switch (rule->weight) {
    case WEIGHT_LIN1:
    case WEIGHT_LIN1_BIAS:
    case WEIGHT_LIN2:
    case WEIGHT_LIN2_BIAS:
        return !layer_mixed(config, layer);
    case WEIGHT_ROUTER:
    case WEIGHT_EXPERTS1:
    case WEIGHT_EXPERTS2:
    case WEIGHT_EXPERTS_BIAS:
        return layer_mixed(config, layer);
    default:
        return true;
    }
}

/* Of part `part`: V's and K's of Q, K and V are the later ones. */
static uint64_t letter_size(char letter, const wherry_model_config *config, int part)
{
    switch (letter) {
    case 'v':
        return config->vocabulary;
    case 'm':
        return config->positions;
    case 't':
        return config->token_types;
    case 'e':
        return config->embedding ? config->embedding : config->hidden;
    case 'u':
        return config->feed_forward;
    case 'd':
        return config->relative_buckets;
    case 'a':
        return (uint64_t)(part ? key_heads(config) : config->heads) * head_channels(config);
    case 'p':
        return (uint64_t)(config->wide_norms ? config->heads : 1) * head_channels(config);
    case 'h':
        return config->heads;
    case 'c':
        return config->labels;
    case 'z':
        return 2;
    case 'x':
        return config->experts;
    case 'y':
        return (uint64_t)config->experts * config->feed_forward;
    default:
        return config->hidden; /* i and o */
    }
}

int weight_rule_shape(const struct weight_rule *rule, const wherry_model_config *config, int part, uint64_t shape[2])
{
    int rank = 0;
    for (const char *letter = rule->shape; *letter; letter++) shape[rank++] = letter_size(*letter, config, part);
    return rank;
}

static bool weight_type_of(const char *dtype, enum weight_type *out)
{
    static const char *const names[] = {
        [WEIGHT_TYPE_F32] = "F32", [WEIGHT_TYPE_F16] = "F16", [WEIGHT_TYPE_BF16] = "BF16"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(dtype, names[i])) continue;
        *out = (enum weight_type)i;
        return true;
    }
    return false;
}

bool weight_part_check(const struct safetensors *file, const struct safetensors_tensor *t, const uint64_t *shape,
                       int rank, struct weight_part *out, struct error *e)
{
    if (!weight_type_of(t->dtype, &out->type)) {
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "%.600s: tensor %s has the dtype %s: save the model in F32, F16 or BF16", file->path, t->name,
                    t->dtype);
    }
    if (t->rank != rank || memcmp(t->shape, shape, (size_t)rank * sizeof *shape)) {
        char found[200], expected[64];
        safetensors_shape_text(t->shape, t->rank, found, sizeof found);
        safetensors_shape_text(shape, rank, expected, sizeof expected);
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "%.400s: tensor %s has shape %s, and config.json asks for %s: the files belong to different "
                    "models, get both again",
                    file->path, t->name, found, expected);
    }
    out->file = file;
    out->tensor = t;
    out->memory = safetensors_in_memory(file, t);
    out->elements = 1;
    for (int i = 0; i < rank; i++) out->elements *= shape[i];
    return true;
}
