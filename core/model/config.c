/* What a model's JSON files say about it: its shape, how its token vectors become one, its longest sequence. */
#include "model/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/folder.h"
#include "base/number.h"
#include "base/utf8.h"
#include "graph/distances.h"
#include "model/model.h"

/* ---- shapes ---- */

bool model_config_check(const wherry_model_config *config, struct error *e)
{
    const struct {
        const char *name;
        uint32_t value, most;
    } sizes[] = {
        {"layers", config->layers, 1024},
        {"hidden size", config->hidden, 1 << 20},
        {"heads", config->heads, 1 << 20},
        {"feed-forward size", config->feed_forward, 1 << 24},
        {"vocabulary", config->vocabulary, INT32_MAX},
        {"positions", config->positions, 1 << 24},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value && sizes[i].value <= sizes[i].most) continue;
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s is %" PRIu32 "; it must be from 1 to %" PRIu32,
                    sizes[i].name, sizes[i].value, sizes[i].most);
    }
    if (config->hidden % config->heads) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "hidden size %" PRIu32 " is not a multiple of the number of heads, %" PRIu32, config->hidden,
                    config->heads);
    }
    const struct {
        const char *name;
        uint64_t rows;
    } matrices[] = {
        {"the word embeddings", config->vocabulary},
        {"the position embeddings", config->positions},
        {"the token type embeddings", config->token_types},
        {"the matrices of Q, K and V", (uint64_t)3 * config->hidden},
        {"a matrix of the feed-forward", config->feed_forward},
    };
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        uint64_t elements = matrices[i].rows * config->hidden;
        if (elements <= UINT32_MAX) continue;
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "%s would have %" PRIu64 " elements, more than 32 bits can count: take a smaller model",
                    matrices[i].name, elements);
    }
    if (config->activation > WHERRY_ACTIVATION_RELU) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%d is not a value of wherry_activation",
                    (int)config->activation);
    }
    if (!distances_check(config->relative_buckets, config->relative_distance, e)) return false;
    if (!(config->epsilon >= 0 && config->epsilon < 1)) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the layernorms' epsilon is %s; it must be at least 0 and less than 1",
                    NUMBER("%g", (double)config->epsilon));
    }
    return true;
}

bool model_config_named(const char *name, wherry_model_config *out, struct error *e)
{
    static const struct {
        const char *name;
        uint32_t layers, hidden, heads, feed_forward, vocabulary, token_types, relative_buckets, relative_distance;
    } shapes[] = {
        {"minilm-l6", 6, 384, 12, 1536, 30522, 2},
        {"bert-base", 12, 768, 12, 3072, 30522, 2},
        {"bert-large", 24, 1024, 16, 4096, 30522, 2},
        {"mpnet-base", 12, 768, 12, 3072, 30527, 0, 32, 128},
    };
    for (size_t i = 0; name && i < sizeof shapes / sizeof *shapes; i++) {
        if (strcmp(name, shapes[i].name)) continue;
        *out = (wherry_model_config){
            .struct_size = sizeof *out,
            .layers = shapes[i].layers,
            .hidden = shapes[i].hidden,
            .heads = shapes[i].heads,
            .feed_forward = shapes[i].feed_forward,
            .vocabulary = shapes[i].vocabulary,
            .positions = 512,
            .token_types = shapes[i].token_types,
            .activation = WHERRY_ACTIVATION_GELU,
            .pooler = true,
            .epsilon = 1e-12f,
            .relative_buckets = shapes[i].relative_buckets,
            .relative_distance = shapes[i].relative_distance,
        };
        return true;
    }
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "there is no model shape named \"%.100s\": the names are minilm-l6, bert-base, bert-large and "
                "mpnet-base",
                name ? name : "");
}

/* ---- config.json ---- */

static bool read_size(const json_t *config, const char *key, uint32_t otherwise, uint32_t *out, struct error *e)
{
    const json_t *value = json_object_get(config, key);
    if (!value && otherwise) {
        *out = otherwise;
        return true;
    }
    if (!value) return fail(e, WHERRY_STATUS_BAD_FORMAT, "there is no \"%s\": get the file again", key);
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > INT32_MAX) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "\"%s\" is not a whole number from 1 to %" PRId32 ": get the file "
                    "again",
                    key, INT32_MAX);
    }
    *out = (uint32_t)json_integer_value(value);
    return true;
}

/* "BertModel", "BertForMaskedLM", "BertLMHeadModel": not "BertweetModel", "JinaBertModel". */
static bool is_bert_class(const char *name) { return !strncmp(name, "Bert", 4) && name[4] >= 'A' && name[4] <= 'Z'; }

static bool read_architecture(const json_t *config, char (*architecture)[64], struct error *e)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const char *class = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
    if (!type && !class) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "it names neither \"model_type\" nor \"architectures\": give the "
                    "folder of a Hugging Face BERT model");
    }
    if ((type && strcmp(type, "bert")) || (class && !is_bert_class(class))) {
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "the architecture %.100s (model type %.100s) is not supported: supported are encoders of model "
                    "type bert, such as BertModel and BertForMaskedLM",
                    class ? class : "without a name", type ? type : "not given");
    }
    if (!class) class = "BertModel";
    utf8_show(class, strlen(class), *architecture, sizeof *architecture);
    return true;
}

static bool read_activation(const json_t *config, wherry_activation *out, struct error *e)
{
    static const struct {
        const char *name;
        wherry_activation activation;
    } names[] = {
        {"gelu", WHERRY_ACTIVATION_GELU},
        {"gelu_python", WHERRY_ACTIVATION_GELU},
        {"gelu_new", WHERRY_ACTIVATION_GELU_TANH},
        {"gelu_fast", WHERRY_ACTIVATION_GELU_TANH},
        {"gelu_pytorch_tanh", WHERRY_ACTIVATION_GELU_TANH},
        {"relu", WHERRY_ACTIVATION_RELU},
    };
    const json_t *value = json_object_get(config, "hidden_act");
    const char *name = value ? json_string_value(value) : "gelu";
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i].name)) continue;
        *out = names[i].activation;
        return true;
    }
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "the activation \"%.100s\" (hidden_act) is not supported: supported are gelu, gelu_new, gelu_fast, "
                "gelu_pytorch_tanh and relu",
                name ? name : "");
}

/* What would make the encoder compute something else than BERT's. */
static bool check_variants(const json_t *config, struct error *e)
{
    const json_t *position = json_object_get(config, "position_embedding_type");
    const char *type = position && !json_is_null(position) ? json_string_value(position) : "absolute";
    if (!type || strcmp(type, "absolute")) {
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "the position_embedding_type \"%.100s\" is not supported: supported is absolute", type ? type : "");
    }
    static const char *const flags[] = {"is_decoder", "add_cross_attention", "is_encoder_decoder"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (json_is_true(json_object_get(config, flags[i]))) {
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"%s\" is true: only encoders are supported", flags[i]);
        }
    }
    if (json_object_size(json_object_get(config, "pruned_heads"))) {
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "models with pruned_heads are not supported");
    }
    if (json_is_object(json_object_get(config, "quantization_config"))) {
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "quantized models (quantization_config) are not supported: save the model in F32, F16 or BF16");
    }
    return true;
}

static bool config_parse(const json_t *json, wherry_model_config *config, char (*architecture)[64], struct error *e)
{
    if (!json_is_object(json)) return fail(e, WHERRY_STATUS_BAD_FORMAT, "it is not an object: get the file again");
    *config = (wherry_model_config){.struct_size = sizeof *config};
    TRY(read_architecture(json, architecture, e));
    TRY(check_variants(json, e));
    TRY(read_activation(json, &config->activation, e));
    TRY(read_size(json, "num_hidden_layers", 0, &config->layers, e));
    TRY(read_size(json, "hidden_size", 0, &config->hidden, e));
    TRY(read_size(json, "num_attention_heads", 0, &config->heads, e));
    TRY(read_size(json, "intermediate_size", 0, &config->feed_forward, e));
    TRY(read_size(json, "vocab_size", 0, &config->vocabulary, e));
    TRY(read_size(json, "max_position_embeddings", 512, &config->positions, e));
    TRY(read_size(json, "type_vocab_size", 2, &config->token_types, e));
    const json_t *epsilon = json_object_get(json, "layer_norm_eps");
    double value = epsilon ? json_number_value(epsilon) : 1e-12;
    if (!(value >= 1e-30 && value < 1)) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "\"layer_norm_eps\" is not a number between 1e-30 and 1: get the "
                    "file again");
    }
    config->epsilon = (float)value;
    if (!model_config_check(config, e)) {
        e->status = WHERRY_STATUS_BAD_FORMAT;
        return false;
    }
    return true;
}

/* Names the file in an error and frees what was read. */
static bool finish(const struct host *host, const char *folder, const char *name, json_t *json, bool ok,
                   struct error *e)
{
    json_decref(json);
    if (ok) return true;
    struct error other;
    char *path = path_join(host, folder, name, &other);
    fail_in(e, path ? path : name);
    host_free(host, path);
    return false;
}

bool config_read(const struct host *host, const char *folder, wherry_model_config *config, char (*architecture)[64],
                 struct error *e)
{
    bool has = false;
    json_t *json;
    TRY(folder_has(host, folder, "config.json", &has, e));
    if (!has) {
        return fail(e, WHERRY_STATUS_IO,
                    "%.600s has no config.json: give the folder of a Hugging Face model, with config.json and "
                    "model.safetensors in it",
                    folder);
    }
    TRY(json_file_read(host, folder, "config.json", &json_config, 0, &json, e));
    return finish(host, folder, "config.json", json, config_parse(json, config, architecture, e), e);
}

/* ---- sentence-transformers ---- */

static bool pool_named(const char *name, wherry_pool *out, struct error *e)
{
    static const struct {
        const char *name;
        wherry_pool pool;
    } names[] = {{"mean", WHERRY_POOL_MEAN}, {"cls", WHERRY_POOL_CLS}, {"max", WHERRY_POOL_MAX}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i].name)) continue;
        *out = names[i].pool;
        return true;
    }
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "the pooling \"%.100s\" is not supported: supported are mean, cls and max", name);
}

static bool pooling_parse(const json_t *json, wherry_pool *out, struct error *e)
{
    static const struct {
        const char *key, *name;
        bool otherwise;
    } modes[] = {
        {"pooling_mode_cls_token", "cls", false},
        {"pooling_mode_mean_tokens", "mean", true},
        {"pooling_mode_max_tokens", "max", false},
        {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len", false},
        {"pooling_mode_weightedmean_tokens", "weightedmean", false},
        {"pooling_mode_lasttoken", "lasttoken", false},
    };
    if (!json_is_object(json)) return fail(e, WHERRY_STATUS_BAD_FORMAT, "it is not an object: get the file again");
    const char *name = json_string_value(json_object_get(json, "pooling_mode"));
    if (name) return pool_named(name, out, e);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        const json_t *value = json_object_get(json, modes[i].key);
        if (value && !json_is_boolean(value)) {
            return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is neither true nor false: get the file again",
                        modes[i].key);
        }
        if (!(value ? json_is_true(value) : modes[i].otherwise)) continue;
        if (name) {
            return fail(e, WHERRY_STATUS_UNSUPPORTED,
                        "the combined pooling %s+%s is not supported: supported are mean, cls and max, one at a time",
                        name, modes[i].name);
        }
        name = modes[i].name;
    }
    if (!name) return fail(e, WHERRY_STATUS_BAD_FORMAT, "no pooling mode is true: get the file again");
    return pool_named(name, out, e);
}

/* `path`: of the pooling module inside `folder`. */
static bool pooling_read(const struct host *host, const char *folder, const char *path, wherry_pool *out,
                         struct error *e)
{
    char *module = path_join(host, folder, path, e);
    json_t *json;
    bool ok = module && json_file_read(host, module, "config.json", &json_config, 0, &json, e);
    if (ok) ok = finish(host, module, "config.json", json, pooling_parse(json, out, e), e);
    host_free(host, module);
    return ok;
}

enum stage { STAGE_START, STAGE_ENCODER, STAGE_POOLED, STAGE_NORMALIZED };

/* One module of the chain encoder, pooling, normalize. */
static bool module_read(const struct host *host, const char *folder, const json_t *module, enum stage *stage,
                        struct modules *out, struct error *e)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *path = json_string_value(json_object_get(module, "path"));
    if (!type || !path) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "a module has no \"type\" or no \"path\": get the file again");
    }
    if (!path_is_inside(path)) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "the path \"%.200s\" leads out of the model's folder: a hostile file, do not use this model", path);
    }
    const char *dot = strrchr(type, '.'), *name = dot ? dot + 1 : type;
    if (!strcmp(name, "Transformer") && *stage == STAGE_START) {
        *stage = STAGE_ENCODER;
        host_free(host, out->encoder);
        out->encoder = path_join(host, folder, path, e);
        return out->encoder != NULL;
    }
    if (!strcmp(name, "Pooling") && *stage == STAGE_ENCODER) {
        *stage = STAGE_POOLED;
        return pooling_read(host, folder, path, &out->pool, e);
    }
    if (!strcmp(name, "Normalize") && *stage == STAGE_POOLED) {
        *stage = STAGE_NORMALIZED;
        out->normalize = true;
        return true;
    }
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "the module %.200s is not supported at its place: supported are a Transformer, then a Pooling, then a "
                "Normalize",
                type);
}

static bool modules_parse(const struct host *host, const char *folder, const json_t *json, struct modules *out,
                          struct error *e)
{
    if (!json_array_size(json)) return fail(e, WHERRY_STATUS_BAD_FORMAT, "it lists no modules: get the file again");
    enum stage stage = STAGE_START;
    for (size_t i = 0; i < json_array_size(json); i++) {
        TRY(module_read(host, folder, json_array_get(json, i), &stage, out, e));
    }
    /* Nothing pools: the model's result is a vector per token. */
    if (stage == STAGE_ENCODER) out->pool = WHERRY_POOL_NONE;
    return true;
}

bool modules_read(const struct host *host, const char *folder, struct modules *out, struct error *e)
{
    bool has = false;
    json_t *json;
    TRY(folder_has(host, folder, "modules.json", &has, e));
    struct modules modules = {path_join(host, folder, "", e), WHERRY_POOL_MEAN, false};
    bool ok = modules.encoder != NULL;
    if (ok && has) {
        ok = json_file_read(host, folder, "modules.json", &json_config, 0, &json, e) &&
             finish(host, folder, "modules.json", json, modules_parse(host, folder, json, &modules, e), e);
    }
    if (!ok) {
        host_free(host, modules.encoder);
        return false;
    }
    *out = modules;
    return true;
}

static bool sentence_parse(const json_t *json, double *longest, bool *lower_case, struct error *e)
{
    const json_t *length = json_object_get(json, "max_seq_length");
    *lower_case = json_is_true(json_object_get(json, "do_lower_case"));
    if (!length || json_is_null(length)) return true;
    if (!json_is_integer(length) || json_integer_value(length) < 1) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "\"max_seq_length\" is not a whole number of at least 1: get the file "
                    "again");
    }
    *longest = (double)json_integer_value(length);
    return true;
}

bool limits_read(const struct host *host, const char *folder, uint32_t positions, uint32_t *max_tokens,
                 bool *lower_case, struct error *e)
{
    static const char sentence[] = "sentence_bert_config.json", tokenizer[] = "tokenizer_config.json";
    bool has = false;
    double longest = 0;
    json_t *json;
    *lower_case = false;
    TRY(folder_has(host, folder, sentence, &has, e));
    if (has) {
        TRY(json_file_read(host, folder, sentence, &json_config, 0, &json, e));
        TRY(finish(host, folder, sentence, json, sentence_parse(json, &longest, lower_case, e), e));
    }
    TRY(folder_has(host, folder, tokenizer, &has, e));
    if (has && longest == 0) {
        /* Hugging Face writes "no limit" as 10^30, which is too large for an integer. */
        TRY(json_file_read(host, folder, tokenizer, &json_tokenizer_config, JSON_DECODE_INT_AS_REAL, &json, e));
        longest = json_number_value(json_object_get(json, "model_max_length"));
        json_decref(json);
    }
    *max_tokens = longest >= 1 && longest < positions ? (uint32_t)longest : positions;
    return true;
}
