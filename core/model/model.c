/* Opening of a model folder: finds every weight in its safetensors files and checks it against the configuration. */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/folder.h"
#include "base/parts.h"
#include "base/source.h"
#include "model/architecture.h"
#include "model/config.h"
#include "model/head.h"
#include "model/late.h"
#include "model/logit_score.h"
#include "model/model_files.h"
#include "model/modules.h"
#include "model/rotary.h"
#include "model/safetensors.h"
#include "model/special_tokens.h"
#include "model/tensor_names.h"
#include "model/token_heads.h"
#include "model/weights.h"
#include "tokenizer/pair_frame.h"
#include "tokenizer/tokenizer.h"

/* ---- any model ---- */

struct wherry_model *model_allocate(const struct host *host, const wherry_model_config *config, struct error *e)
{
    struct wherry_model *model = host_alloc(host, 1, sizeof *model, e);
    if (!model) return NULL;
    model->host = *host;
    model->host.parts = NULL; /* the context's, of one thread; the model may be another's, too */
    model->info = (wherry_model_info){.struct_size = sizeof model->info,
                                      .config = *config,
                                      .mask_token = -1,
                                      .cls_token = -1,
                                      .eos_token = -1,
                                      .pad_token = -1,
                                      .unknown_token = -1};
    model->info.config.struct_size = sizeof *config;
    if (model->info.config.epsilon == 0) model->info.config.epsilon = 1e-12f;
    model->weights = host_alloc(host, (size_t)config->layers + 1, sizeof *model->weights, e);
    model->ranges = host_alloc(host, (size_t)config->layers + 1, sizeof *model->ranges, e);
    if (!model->weights || !model->ranges) {
        model_close(model);
        return NULL;
    }
    return model;
}

void model_close(struct wherry_model *model)
{
    if (!model) return;
    struct host host = model->host;
    tokenizer_close(model->tokenizer);
    labels_free(&host, model->labels);
    head_modules_free(&host, &model->modules);
    token_heads_free(&host, model->token_heads);
    late_free(&host, model->late);
    prompts_free(&host, &model->prompts);
    model_files_close(&host, model->files);
    host_free(&host, model->folder);
    file_source_destroy(&host, model->source);
    host_free(&host, model->memory);
    host_free(&host, model->adapted);
    host_free(&host, model->word_row);
    host_free(&host, model->rotary);
    host_free(&host, model->rotary_local);
    host_free(&host, model->weights);
    host_free(&host, (void *)model->ranges);
    host_free(&host, model);
}

int model_weight(const struct wherry_model *model, enum weight weight, int layer, const struct weight_part **parts)
{
    *parts = model->weights[layer + 1][weight];
    int n = 0;
    while (n < 3 && (*parts)[n].elements) n++;
    return n;
}

/* ---- weights ---- */

static bool part_find(struct wherry_model *model, const struct weight_rule *rule, int layer, int part, struct error *e)
{
    struct model_files *files = model->files;
    const struct architecture *a = model->architecture;
    const struct safetensors_tensor *tensor = NULL;
    const struct safetensors *file = NULL;
    char name[TENSOR_NAME];
    /* The bias beside a matrix of its own is that one's, where the file has it. */
    if (rule->weight == WEIGHT_VOCABULARY_BIAS && model->info.config.untied) {
        snprintf(name, sizeof name, "%s.bias", a->modules[WEIGHT_VOCABULARY_TABLE][0]);
        TRY(model_files_find(&model->host, files, name, &file, &tensor, e));
    }
    for (int old = 0; old < 2 && !tensor; old++) {
        weight_name(a, &model->info.config, files->prefix, rule, layer, part, old, name, sizeof name);
        TRY(model_files_find(&model->host, files, name, &file, &tensor, e));
    }
    if (!tensor) {
        weight_name(a, &model->info.config, files->prefix, rule, layer, part, false, name, sizeof name);
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "%.600s has no tensor %s, which config.json asks for: the files belong to different models or are "
                    "incomplete, get them again",
                    files->folder, name);
    }
    uint64_t shape[2];
    int rank = weight_shape(a, rule, &model->info.config, part, shape);
    struct weight_part *out = &model->weights[layer + 1][rule->weight][part];
    TRY(weight_part_check(file, tensor, shape, rank, out, e));
    model->info.parameters += out->elements;
    return true;
}

/* Whether the files have this module's weight. */
static bool has_module(const struct host *host, struct model_files *files, const char *prefix, const char *module,
                       bool *has, struct error *e)
{
    const struct safetensors_tensor *tensor;
    const struct safetensors *file;
    char name[160];
    snprintf(name, sizeof name, "%s%s.weight", prefix, module);
    TRY(model_files_find(host, files, name, &file, &tensor, e));
    *has = tensor != NULL;
    return true;
}

/* Which prefix the names have, and whether there are a pooler and a head for the vocabulary. */
static bool find_names(struct wherry_model *model, struct error *e)
{
    const struct architecture *a = model->architecture;
    struct model_files *files = model->files;
    bool has = false;
    for (const char *const *prefix = a->prefixes; !has && (*prefix)[0]; prefix++) {
        TRY(has_module(&model->host, files, *prefix, a->modules[WEIGHT_WORD][0], &has, e));
        files->prefix = has ? *prefix : "";
    }
    if (a->other) {
        char layer[TENSOR_NAME];
        snprintf(layer, sizeof layer, "%s0.%s", a->layer, a->modules[WEIGHT_QKV][0]);
        TRY(has_module(&model->host, files, files->prefix, layer, &has, e));
        if (!has) model->architecture = a = a->other;
    }
    wherry_model_config *config = &model->info.config;
    const char *pooler = a->modules[WEIGHT_POOLER][0];
    if (config->head == WHERRY_HEAD_VOCABULARY) {
        TRY(has_module(&model->host, files, "", a->modules[WEIGHT_VOCABULARY_DENSE][0], &has, e));
        if (!has) config->head = WHERRY_HEAD_NONE, config->head_activation = WHERRY_HEAD_PLAIN, config->untied = false;
    }
    config->next_sentence = false;
    /* A head's own dense layer is in the pooler's place. */
    if (!pooler || (model_has_dense(config) && a->head.dense)) return true;
    TRY(has_module(&model->host, files, files->prefix, pooler, &config->pooler, e));
    const char *next = a->modules[WEIGHT_NEXT][0];
    if (!next || !config->pooler || config->head != WHERRY_HEAD_VOCABULARY) return true;
    return has_module(&model->host, files, "", next, &config->next_sentence, e);
}

static bool weights_find(struct wherry_model *model, struct error *e)
{
    struct model_files *files = model->files;
    wherry_model_config *config = &model->info.config;
    TRY(model_files_begin(&model->host, files, e));
    TRY(find_names(model, e));
    for (size_t r = 0; r < weight_rules_count; r++) {
        int layer, end;
        for (weight_rule_layers(&weight_rules[r], config, &layer, &end); layer < end; layer++) {
            if (!weight_rule_in_layer(&weight_rules[r], config, layer)) continue;
            for (int part = 0; part < weight_parts(model->architecture, &weight_rules[r], config); part++) {
                TRY(part_find(model, &weight_rules[r], layer, part, e));
            }
        }
    }
    for (size_t i = 0; i < files->count; i++) model->info.weight_file_bytes += files->shards[i]->file.file.bytes;
    return true;
}

/* How far weights deviate at first, by config.json. */
static bool range_read(const struct wherry_model *model, float *out, struct error *e)
{
    json_t *json;
    TRY(json_file_read(&model->host, model->files->folder, "config.json", &json_config, 0, &json, e));
    const json_t *range = json_object_get(json, "initializer_range");
    double value = range && !json_is_null(range) ? json_number_value(range) : 0.02;
    json_decref(json);
    *out = (float)value;
    return (value > 0 && value <= 1) ||
           fail(e, WHERRY_STATUS_BAD_FORMAT,
                "%.600s/config.json: \"initializer_range\" is not a number over 0 and up to 1: 0.02 is usual",
                model->files->folder);
}

/* Random ones, under the names that files have of models of this class. */
static bool weights_draw(struct wherry_model *model, uint64_t seed, struct error *e)
{
    wherry_model_config *config = &model->info.config;
    const struct architecture *a = model->architecture;
    float range;
    model->files->prefix = config->head ? a->prefixes[0] : "";
    config->next_sentence = config->next_sentence && a->modules[WEIGHT_NEXT][0];
    config->pooler = (!config->head || config->next_sentence) && a->modules[WEIGHT_POOLER][0];
    return range_read(model, &range, e) && model_fill(model, seed, range, e);
}

/* ---- tokenizer ---- */

/* sentence-transformers can lower the text's case before the tokenizer sees it. A tokenizer that does so itself makes
 * no difference between "A" and "a". */
static bool check_lower_case(const struct wherry_model *model, const char *folder, struct error *e)
{
    int32_t upper[8] = {0}, lower[8] = {0};
    size_t n_upper = 8, n_lower = 8;
    const struct host *host = &model->host;
    TRY(tokenizer_encode(host, model->tokenizer, "A", 1, NULL, 0, 0, upper, NULL, &n_upper, e));
    TRY(tokenizer_encode(host, model->tokenizer, "a", 1, NULL, 0, 0, lower, NULL, &n_lower, e));
    if (n_upper == n_lower && !memcmp(upper, lower, sizeof upper)) return true;
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "%.600s/sentence_bert_config.json asks for text in lower case (do_lower_case) and the tokenizer keeps "
                "capitals: this combination is not supported",
                folder);
}

/* An older file says how texts are split, and not how they are framed: that is the family's. */
static bool check_tokenizer_file(const struct family *family, const char *folder, const char *name, struct error *e)
{
    bool known = !strcmp(name, "tokenizer.json");
    for (size_t i = 0; i < sizeof family->files / sizeof *family->files && family->files[i]; i++)
        known |= !strcmp(name, family->files[i]);
    return known ||
           fail(e, WHERRY_STATUS_UNSUPPORTED,
                "%.600s has %s and no tokenizer.json: for models of the type %s the tokenizer is not read from "
                "such a file: get tokenizer.json (in Python: AutoTokenizer.from_pretrained(folder)"
                ".save_pretrained(folder))",
                folder, name, family->type);
}

static bool tokenizer_find(struct wherry_model *model, const struct family *family, const char *folder, bool lower_case,
                           struct error *e)
{
    const char *name;
    TRY(tokenizer_file(&model->host, folder, &name, e));
    if (!name) return true;
    TRY(check_tokenizer_file(family, folder, name, e));
    model->tokenizer = tokenizer_open(&model->host, folder, family->tokenizer, model->info.config.vocabulary, e);
    if (!model->tokenizer) return false;
    model->info.has_tokenizer = true;
    snprintf(model->info.tokenizer, sizeof model->info.tokenizer, "%s", tokenizer_type(model->tokenizer));
    TRY(special_tokens_find(model, folder, e));
    return !lower_case || check_lower_case(model, folder, e);
}

/* ---- opening ---- */

/* seed NULL: with the weights of its files. */
static bool open_encoder(const struct host *host, struct modules *modules, const uint64_t *seed,
                         struct wherry_model **out, struct error *e)
{
    wherry_model_config config;
    struct config_kind kind;
    bool lower_case = false;
    TRY(config_read(host, modules->encoder, &config, &kind, e));
    struct wherry_model *model = model_allocate(host, &config, e);
    if (!model) return false;
    *out = model; /* from here on the caller closes it */
    model->architecture = kind.architecture;
    memcpy(model->info.architecture, kind.name, sizeof kind.name);
    model->info.pool = modules->pool;
    model->info.normalize = modules->normalize;
    model->info.words = modules->words;
    TRY(limits_read(host, modules->encoder, model_usable_positions(&config), &model->info.max_tokens, &lower_case, e));
    TRY(modules_check(modules, config.hidden, e));
    model->modules = modules->after;
    modules->after = (struct head_modules){0}; /* the model's now */
    TRY(labels_read(host, modules->encoder, &config, &model->labels, &model->info.scores, e));
    model->files = host_alloc(host, 1, sizeof *model->files, e);
    if (!model->files) return false;
    model->files->folder = host_strdup(host, modules->encoder, e);
    if (!model->files->folder) return false;
    TRY(seed ? weights_draw(model, *seed, e) : weights_find(model, e));
    TRY(rotary_make(model, e));
    TRY(modules_weights(model, e) && token_heads_read(model, modules->encoder, e));
    int before = part_enter(host, PART_TOKENIZER);
    bool ok = tokenizer_find(model, kind.family, modules->encoder, lower_case, e) &&
              (seed || logit_score_find(model, modules, e)) &&
              (model->word_row || pair_messages_find(model, modules->encoder, e));
    part_leave(host, before);
    return ok;
}

/* The prompt that is used where none is asked for is the instruction of pairs that have one. */
static bool prompt_instruct(struct wherry_model *model, struct error *e)
{
    const struct prompts *prompts = &model->prompts;
    if (prompts->used == prompts->count || !model->tokenizer || !tokenizer_takes_instruction(model->tokenizer))
        return true;
    return tokenizer_instruct(model->tokenizer, prompts->texts[prompts->used], e);
}

static bool open_folder(const struct host *host, const char *folder, const uint64_t *seed, struct wherry_model **out,
                        struct error *e)
{
    struct modules modules;
    struct wherry_model *model = NULL;
    if (!*folder) return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the model's folder is an empty path: give a folder");
    TRY(modules_read(host, folder, &modules, e));
    bool ok = open_encoder(host, &modules, seed, &model, e) && (model->folder = host_strdup(host, folder, e)) &&
              late_read(model, folder, modules.encoder, modules.mask, e) &&
              prompts_read(host, folder, (const char *const *)model->late->marks, &model->prompts, e);
    if (ok) {
        model->prompts.excluded = modules.excludes_prompt;
        model->info.prompts = model->prompts.count;
        ok = prompt_instruct(model, e);
        model->info.dimensions = model->prompts.dimensions;
    }
    modules_free(host, &modules);
    if (!ok) {
        model_close(model);
        return false;
    }
    *out = model;
    return true;
}

bool model_open(const struct host *host, const char *folder, struct wherry_model **out, struct error *e)
{
    return open_folder(host, folder, NULL, out, e);
}

bool model_open_new(const struct host *host, const char *folder, uint64_t seed, struct wherry_model **out,
                    struct error *e)
{
    return open_folder(host, folder, &seed, out, e);
}

bool model_random(const struct host *host, const wherry_model_config *config, uint64_t seed, struct wherry_model **out,
                  struct error *e)
{
    TRY(model_config_check(config, e));
    struct wherry_model *model = model_allocate(host, config, e);
    if (!model) return false;
    if (!model_fill(model, seed, -1, e) || !rotary_make(model, e) ||
        !labels_numbered(host, config->labels, &model->labels, e)) {
        model_close(model);
        return false;
    }
    snprintf(model->info.architecture, sizeof model->info.architecture, "random");
    model->info.pool = WHERRY_POOL_MEAN;
    model->info.scores = config->labels == 1 ? WHERRY_SCORES_SIGMOID : WHERRY_SCORES_SOFTMAX;
    model->info.max_tokens = model_usable_positions(config);
    *out = model;
    return true;
}

bool model_open_memory(const struct host *host, const wherry_model_files *files, struct wherry_model **out,
                       struct error *e)
{
    struct host from = *host;
    struct file_source *source = file_source_create(host, files, e);
    from.files = source;
    if (source && model_open(&from, SOURCE_ROOT, out, e)) {
        (*out)->source = source;
        return true;
    }
    file_source_destroy(host, source);
    return false;
}
