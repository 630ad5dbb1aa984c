/* What a model's weights are called in its files. */
#include "model/tensor_names.h"

#include <stdio.h>
#include <string.h>

#include "model/head.h"
#include "model/model_files.h"

/* ---- an architecture's names ---- */

/* A head's module, which has no prefix; NULL: it is the encoder's. */
static const char *head_module(const struct architecture *a, const wherry_model_config *config, enum weight weight)
{
    bool texts = config->head == WHERRY_HEAD_SEQUENCE, tokens = config->head == WHERRY_HEAD_TOKENS;
    switch (weight) {
    case WEIGHT_POOLER:
    case WEIGHT_POOLER_BIAS:
        return texts || (tokens && a->head.tokens) ? a->head.dense : NULL;
    case WEIGHT_HEAD_GAMMA:
    case WEIGHT_HEAD_BETA:
        return a->modules[weight][0];
    case WEIGHT_CLASSIFIER:
    case WEIGHT_CLASSIFIER_BIAS:
        return texts && a->head.out ? a->head.out : a->modules[weight][0];
    default:
        return weight >= WEIGHT_VOCABULARY_DENSE && weight <= WEIGHT_NEXT_BIAS ? a->modules[weight][0] : NULL;
    }
}

/* Without a gate the feed-forward's first product may have another name. */
static const char *module_name(const struct architecture *a, const wherry_model_config *config,
                               const struct weight_rule *rule, int part)
{
    const char *const *names = a->modules[rule->weight];
    return weight_rule_parts(rule, config) == 1 && names[2] ? names[2] : names[part];
}

void weight_name(const struct architecture *a, const wherry_model_config *config, const char *prefix,
                 const struct weight_rule *rule, int layer, int part, bool old, char *name, size_t size)
{
    static const char *const suffixes[2][4] = {
        {[WEIGHT_MATRIX] = "weight", [WEIGHT_BIAS] = "bias", [WEIGHT_GAMMA] = "weight", [WEIGHT_BETA] = "bias"},
        {[WEIGHT_MATRIX] = "weight", [WEIGHT_BIAS] = "bias", [WEIGHT_GAMMA] = "gamma", [WEIGHT_BETA] = "beta"},
    };
    const char *suffix = suffixes[old][rule->kind], *head = head_module(a, config, rule->weight);
    char within[40] = "";
    if (layer >= 0) snprintf(within, sizeof within, "%s%d.", a->layer, layer);
    if (head)
        snprintf(name, size, "%s.%s", head, suffix);
    else if (rule->bare)
        snprintf(name, size, "%s%s%s", prefix, within, module_name(a, config, rule, part));
    else
        snprintf(name, size, "%s%s%s.%s", prefix, within, module_name(a, config, rule, part), suffix);
}

/* ---- models ---- */

const struct architecture *model_architecture(const struct wherry_model *model, const struct family **family)
{
    if (!model->architecture) return architecture_of_shape(&model->info.config, family);
    if (!architecture_find(NULL, model->info.architecture, model->architecture->origin, family))
        *family = model->architecture->families;
    return model->architecture;
}

const char *model_tensor_prefix(const struct wherry_model *model)
{
    const struct family *family;
    if (model->files) return model->files->prefix;
    const struct architecture *a = model->info.config.head ? model_architecture(model, &family) : NULL;
    return a ? a->prefixes[0] : "";
}

const char *module_path(const struct wherry_model *model, uint32_t module)
{
    const char *path = model->modules.paths[module];
    size_t root = model->folder ? strlen(model->folder) : 0;
    if (root && !strncmp(path, model->folder, root)) path += root;
    while (*path == '/') path++;
    return path;
}

int weight_parts(const struct architecture *a, const struct weight_rule *rule, const wherry_model_config *config)
{
    int most = weight_rule_parts(rule, config), n = 1;
    while (n < most && (!a || a->modules[rule->weight][n])) n++;
    return n;
}

int weight_shape(const struct architecture *a, const struct weight_rule *rule, const wherry_model_config *config,
                 int part, uint64_t shape[2])
{
    int all = weight_rule_parts(rule, config), each = all / weight_parts(a, rule, config), rank = 0;
    uint64_t rows = 0;
    for (int i = 0; i < each; i++, rows += shape[0]) rank = weight_rule_shape(rule, config, part * each + i, shape);
    shape[0] = rows;
    return rank;
}

static const struct weight_rule *rule_find(enum weight weight)
{
    for (size_t r = 0; r < weight_rules_count; r++)
        if (weight_rules[r].weight == weight) return &weight_rules[r];
    return NULL;
}

/* Weights of modules and of heads on tokens' vectors come in pairs, a matrix or gamma and its bias or beta. */
static void beside_encoder(const struct wherry_model *model, enum weight weight, struct model_tensor *out)
{
    bool module = weight >= WEIGHT_MODULE && weight <= WEIGHT_MODULE_LAST;
    bool second = module ? (weight - WEIGHT_MODULE) % 2 : weight == WEIGHT_SPARSE_BIAS || weight == WEIGHT_COLBERT_BIAS;
    if (module) {
        uint32_t m = (uint32_t)(weight - WEIGHT_MODULE) / 2;
        bool norm = model->modules.list[m].norm;
        out->kind = norm ? second ? WEIGHT_BETA : WEIGHT_GAMMA : second ? WEIGHT_BIAS : WEIGHT_MATRIX;
        out->shape[0] = model->modules.list[m].width;
        snprintf(out->name, sizeof out->name, "%.100s/%s.%s", module_path(model, m), norm ? "norm" : "linear",
                 second ? "bias" : "weight");
    } else {
        bool sparse = weight == WEIGHT_SPARSE || weight == WEIGHT_SPARSE_BIAS;
        out->kind = second ? WEIGHT_BIAS : WEIGHT_MATRIX;
        out->shape[0] = second || sparse ? out->elements : out->elements / model->info.config.hidden;
        if (sparse) out->shape[0] = 1;
        snprintf(out->name, sizeof out->name, "%s/%s", sparse ? "sparse_linear" : "colbert_linear",
                 second ? "bias" : "weight");
    }
    out->rank = out->kind == WEIGHT_MATRIX ? 2 : 1;
    if (out->rank == 2) out->shape[1] = out->elements / out->shape[0];
}

void model_tensor(const struct wherry_model *model, enum weight weight, int layer, int part, struct model_tensor *out)
{
    const struct weight_part *stored = &model->weights[layer + 1][weight][part];
    const struct weight_rule *rule = rule_find(weight);
    const struct family *family;
    *out = (struct model_tensor){.elements = stored->elements};
    if (!rule) {
        beside_encoder(model, weight, out);
        return;
    }
    const struct architecture *a = model_architecture(model, &family);
    out->kind = rule->kind;
    out->rank = weight_shape(a, rule, &model->info.config, part, out->shape);
    if (stored->tensor)
        snprintf(out->name, sizeof out->name, "%s", stored->tensor->name);
    else if (a && (a->modules[weight][part] || head_module(a, &model->info.config, weight)))
        weight_name(a, &model->info.config, model_tensor_prefix(model), rule, layer, part, false, out->name,
                    sizeof out->name);
    else /* no architecture has it: a name that is none of transformers' */
        snprintf(out->name, sizeof out->name, "layer.%d.weight.%d.%d", layer, (int)weight, part);
}
