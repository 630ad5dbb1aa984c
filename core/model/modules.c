/* What sentence-transformers puts around an encoder: modules.json and the folders that it names. */
#include "model/modules.h"

#include <inttypes.h>
#include <string.h>

#include "base/folder.h"
#include "base/source.h"
#include "model/safetensors.h"
#include "model/weights.h"

enum { WIDTH_MOST = 1 << 20 };

/* ---- pooling ---- */

static bool pool_named(const char *name, wherry_pool *out, struct error *e)
{
    static const struct {
        const char *name;
        wherry_pool pool;
    } names[] = {{"mean", WHERRY_POOL_MEAN},
                 {"cls", WHERRY_POOL_CLS},
                 {"max", WHERRY_POOL_MAX},
                 {"mean_sqrt_len_tokens", WHERRY_POOL_MEAN_SQRT},
                 {"weightedmean", WHERRY_POOL_WEIGHTED_MEAN},
                 {"lasttoken", WHERRY_POOL_LAST}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i].name)) continue;
        *out = names[i].pool;
        return true;
    }
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "the pooling \"%.100s\" is not supported: supported are mean, cls, max, mean_sqrt_len_tokens, "
                "weightedmean and lasttoken",
                name);
}

static bool pool_add(struct modules *out, const char *name, struct error *e)
{
    if (!name) return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"pooling_mode\" has no name: get the file again");
    if (out->after.n_pools == POOLS_MOST)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "more than %d poolings side by side are not supported", POOLS_MOST);
    return pool_named(name, &out->after.pools[out->after.n_pools++], e);
}

/* The older spelling: a flag for each. */
static bool pools_flagged(const json_t *json, struct modules *out, struct error *e)
{
    static const char *const flags[][2] = {
        {"pooling_mode_cls_token", "cls"},
        {"pooling_mode_max_tokens", "max"},
        {"pooling_mode_mean_tokens", "mean"},
        {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
        {"pooling_mode_weightedmean_tokens", "weightedmean"},
        {"pooling_mode_lasttoken", "lasttoken"},
    };
    bool any = false;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const json_t *value = json_object_get(json, flags[i][0]);
        any |= value != NULL;
        if (value && !json_is_boolean(value))
            return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is neither true nor false: get the file again",
                        flags[i][0]);
        if (json_is_true(value)) TRY(pool_add(out, flags[i][1], e));
    }
    if (out->after.n_pools) return true;
    return any ? fail(e, WHERRY_STATUS_BAD_FORMAT, "no pooling mode is true: get the file again")
               : pool_add(out, "mean", e);
}

static bool pooling_parse(const json_t *json, struct modules *out, struct error *e)
{
    if (!json_is_object(json)) return fail(e, WHERRY_STATUS_BAD_FORMAT, "it is not an object: get the file again");
    const json_t *mode = json_object_get(json, "pooling_mode");
    out->excludes_prompt = json_is_false(json_object_get(json, "include_prompt"));
    if (!mode) TRY(pools_flagged(json, out, e));
    if (mode && !json_is_array(mode)) TRY(pool_add(out, json_string_value(mode), e));
    for (size_t i = 0; i < json_array_size(mode); i++)
        TRY(pool_add(out, json_string_value(json_array_get(mode, i)), e));
    if (!out->after.n_pools) return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"pooling_mode\" is empty: get the file again");
    out->pool = out->after.n_pools > 1 ? WHERRY_POOL_COMBINED : out->after.pools[0];
    return true;
}

/* What makes weights of words: of scores for tokens the largest or the sum. */
static bool words_parse(const json_t *json, struct modules *out, struct error *e)
{
    if (!json_is_object(json)) return fail(e, WHERRY_STATUS_BAD_FORMAT, "it is not an object: get the file again");
    const json_t *pool = json_object_get(json, "pooling_strategy"), *how = json_object_get(json, "activation_function");
    const char *strategy = pool ? json_string_value(pool) : "max", *activation = how ? json_string_value(how) : "relu";
    struct word_weights *words = &out->after.words;
    words->sum = strategy && !strcmp(strategy, "sum");
    words->twice = activation && !strcmp(activation, "log1p_relu");
    if (!words->sum && (!strategy || strcmp(strategy, "max")))
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "the pooling_strategy %.100s is not supported: supported are max and sum",
                    strategy ? strategy : "that is no string");
    if (!words->twice && (!activation || strcmp(activation, "relu")))
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "the activation_function %.100s of a SpladePooling module is not supported: supported are relu and "
                    "log1p_relu",
                    activation ? activation : "that is no string");
    return out->words = true;
}

/* ---- layers after it ---- */

static bool read_width(const json_t *json, const char *key, uint32_t *out, struct error *e)
{
    const json_t *value = json_object_get(json, key);
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > WIDTH_MOST)
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is not a whole number from 1 to %d: get the file again", key,
                    WIDTH_MOST);
    *out = (uint32_t)json_integer_value(value);
    return true;
}

/* By the last part of an import path; without one it is Tanh. */
static bool read_activation(const json_t *json, wherry_head_activation *out, struct error *e)
{
    static const struct {
        const char *name;
        wherry_head_activation activation;
    } names[] = {{"Identity", WHERRY_HEAD_PLAIN},
                 {"Tanh", WHERRY_HEAD_TANH},
                 {"ReLU", WHERRY_HEAD_RELU},
                 {"GELU", WHERRY_HEAD_GELU}};
    const json_t *value = json_object_get(json, "activation_function");
    const char *path = value ? json_string_value(value) : "Tanh", *dot = path ? strrchr(path, '.') : NULL;
    if (json_is_null(value)) path = "Identity", dot = NULL;
    for (size_t i = 0; path && i < sizeof names / sizeof *names; i++) {
        if (strcmp(dot ? dot + 1 : path, names[i].name)) continue;
        *out = names[i].activation;
        return true;
    }
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "the activation_function %.200s of a Dense module is not supported: supported are Tanh, ReLU, GELU and "
                "Identity",
                path ? path : "that is no string");
}

/* `of`: what it is to read, and write: "sentence_embedding" or "token_embeddings". */
static bool check_names(const json_t *json, const char *of, struct error *e)
{
    static const char *const keys[] = {"module_input_name", "module_output_name"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(json, keys[i]);
        const char *name = json_string_value(value);
        if (!value || json_is_null(value) || (name && !strcmp(name, of))) continue;
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"%s\" is %.100s: at this place only %s is supported", keys[i],
                    name ? name : "no string", of);
    }
    return true;
}

static bool layer_parse(const json_t *json, bool norm, const char *of, struct modules *out, struct error *e)
{
    struct head_modules *after = &out->after;
    struct module *m = &after->list[after->count];
    if (!json_is_object(json)) return fail(e, WHERRY_STATUS_BAD_FORMAT, "it is not an object: get the file again");
    TRY(check_names(json, of, e));
    m->norm = norm;
    if (norm) {
        TRY(read_width(json, "dimension", &m->width, e));
        out->in[after->count] = m->width;
    } else {
        const json_t *bias = json_object_get(json, "bias");
        if (json_is_true(json_object_get(json, "use_residual")))
            return fail(e, WHERRY_STATUS_UNSUPPORTED,
                        "\"use_residual\" is true: Dense modules with a residual are not "
                        "supported");
        TRY(read_width(json, "in_features", &out->in[after->count], e));
        TRY(read_width(json, "out_features", &m->width, e));
        TRY(read_activation(json, &m->activation, e));
        m->bias = !json_is_false(bias);
    }
    return true;
}

static bool layer_read(const struct host *host, const char *folder, const char *path, bool norm, struct modules *out,
                       struct error *e)
{
    struct head_modules *after = &out->after;
    const char *of = out->after.n_pools ? "sentence_embedding" : "token_embeddings";
    json_t *json;
    if (after->count == MODULES_MOST)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "more than %d layers after the encoder are not supported",
                    MODULES_MOST);
    char *module = path_join(host, folder, path, e);
    bool ok = module && json_file_read(host, module, "config.json", &json_config, 0, &json, e) &&
              json_file_end(host, module, "config.json", json, layer_parse(json, norm, of, out, e), e);
    if (!ok) {
        host_free(host, module);
        return false;
    }
    after->paths[after->count++] = module;
    return true;
}

/* ---- modules.json ---- */

enum stage { STAGE_START, STAGE_ENCODER, STAGE_POOLED, STAGE_NORMALIZED };

static bool pooling_read(const struct host *host, const char *folder, const char *path, bool words, struct modules *out,
                         struct error *e)
{
    char *module = path_join(host, folder, path, e);
    json_t *json;
    bool ok = module && json_file_read(host, module, "config.json", &json_config, 0, &json, e) &&
              json_file_end(host, module, "config.json", json,
                            words ? words_parse(json, out, e) : pooling_parse(json, out, e), e);
    host_free(host, module);
    return ok;
}

/* One module of the chain encoder, pooling, layers, normalize; of vectors for tokens without the pooling. */
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
    bool norm = !strcmp(name, "LayerNorm"), between = *stage == STAGE_ENCODER || *stage == STAGE_POOLED;
    if ((!strcmp(name, "Transformer") || !strcmp(name, "MLMTransformer")) && *stage == STAGE_START) {
        *stage = STAGE_ENCODER;
        host_free(host, out->encoder);
        out->encoder = path_join(host, folder, path, e);
        return out->encoder != NULL;
    }
    bool words = !strcmp(name, "SpladePooling");
    if ((words || !strcmp(name, "Pooling")) && *stage == STAGE_ENCODER && !out->after.count) {
        *stage = words ? STAGE_NORMALIZED : STAGE_POOLED;
        return pooling_read(host, folder, path, words, out, e);
    }
    if (!strcmp(name, "LogitScore") && *stage == STAGE_ENCODER && !out->after.count && !out->mask) {
        *stage = STAGE_NORMALIZED;
        return (out->logit_score = path_join(host, folder, path, e)) != NULL;
    }
    if (!strcmp(name, "MultiVectorMask") && !out->after.n_pools && *stage != STAGE_START && !out->mask)
        return (out->mask = path_join(host, folder, path, e)) != NULL;
    if ((norm || !strcmp(name, "Dense")) && between) return layer_read(host, folder, path, norm, out, e);
    if (!strcmp(name, "Normalize") && between) {
        *stage = STAGE_NORMALIZED;
        out->normalize = true;
        return true;
    }
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "the module %.200s is not supported at its place: supported are a Transformer, then a Pooling, then "
                "Dense and LayerNorm, then a Normalize, or a Transformer (MLMTransformer) and a SpladePooling, or a "
                "Transformer and a LogitScore",
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
    if (!out->after.n_pools && !out->words) out->pool = WHERRY_POOL_NONE;
    return true;
}

void head_modules_free(const struct host *host, struct head_modules *after)
{
    for (uint32_t i = 0; i < after->count; i++) {
        if (i < after->opened) safetensors_close(host, &after->files[i]);
        host_free(host, after->paths[i]);
    }
    host_free(host, after->files);
    memset(after, 0, sizeof *after);
}

void modules_free(const struct host *host, struct modules *modules)
{
    head_modules_free(host, &modules->after);
    host_free(host, modules->encoder);
    host_free(host, modules->mask);
    host_free(host, modules->logit_score);
    modules->encoder = modules->mask = modules->logit_score = NULL;
}

bool modules_read(const struct host *host, const char *folder, struct modules *out, struct error *e)
{
    bool has = false;
    json_t *json;
    TRY(folder_has(host, folder, "modules.json", &has, e));
    struct modules modules = {.encoder = path_join(host, folder, "", e), .pool = WHERRY_POOL_MEAN, .listed = has};
    bool ok = modules.encoder != NULL;
    if (ok && has) {
        ok = json_file_read(host, folder, "modules.json", &json_config, 0, &json, e) &&
             json_file_end(host, folder, "modules.json", json, modules_parse(host, folder, json, &modules, e), e);
    }
    if (!ok) {
        modules_free(host, &modules);
        return false;
    }
    *out = modules;
    return true;
}

bool modules_check(struct modules *modules, uint32_t hidden, struct error *e)
{
    uint64_t width = (uint64_t)hidden * (modules->after.n_pools > 1 ? modules->after.n_pools : 1);
    for (uint32_t i = 0; i < modules->after.count; i++) {
        const struct module *m = &modules->after.list[i];
        if (modules->in[i] != width)
            return fail(e, WHERRY_STATUS_BAD_FORMAT,
                        "%.600s/config.json: the layer takes %" PRIu32 " values and gets %" PRIu64
                        ": the files belong to different models, get them again",
                        modules->after.paths[i], modules->in[i], width);
        if (width * m->width > UINT32_MAX)
            return fail(e, WHERRY_STATUS_UNSUPPORTED,
                        "%.600s/config.json: the layer's matrix has more elements than 32 bits can count",
                        modules->after.paths[i]);
        width = m->width;
    }
    return true;
}

/* ---- weights ---- */

static bool part_read(struct wherry_model *model, uint32_t at, const char *name, enum weight weight,
                      const uint64_t *shape, int rank, struct error *e)
{
    const struct safetensors *file = &model->modules.files[at];
    const struct safetensors_tensor *tensor = safetensors_find(file, name);
    if (!tensor)
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "%.600s has no tensor %s, which config.json beside it asks for: get both again", file->path, name);
    TRY(weight_part_check(file, tensor, shape, rank, &model->weights[0][weight][0], e));
    model->info.parameters += model->weights[0][weight][0].elements;
    return true;
}

static bool layer_weights(struct wherry_model *model, uint32_t at, uint32_t in, struct error *e)
{
    const struct module *m = &model->modules.list[at];
    enum weight weight = (enum weight)(WEIGHT_MODULE + 2 * at);
    const uint64_t matrix[] = {m->width, in}, vector[] = {m->width};
    char *path = path_join(&model->host, model->modules.paths[at], "model.safetensors", e);
    bool ok = path && safetensors_open(&model->host, path, &model->modules.files[at], e);
    host_free(&model->host, path);
    if (!ok) return false;
    model->modules.opened++;
    if (m->norm) {
        TRY(part_read(model, at, "norm.weight", weight, vector, 1, e));
        return part_read(model, at, "norm.bias", weight + 1, vector, 1, e);
    }
    TRY(part_read(model, at, "linear.weight", weight, matrix, 2, e));
    return !m->bias || part_read(model, at, "linear.bias", weight + 1, vector, 1, e);
}

bool modules_weights(struct wherry_model *model, struct error *e)
{
    struct head_modules *after = &model->modules;
    uint32_t width = model->info.config.hidden * (after->n_pools > 1 ? after->n_pools : 1);
    if (!after->count) return true;
    if (!(after->files = host_alloc(&model->host, MODULES_MOST, sizeof *after->files, e))) return false;
    for (uint32_t i = 0; i < after->count; i++) {
        TRY(layer_weights(model, i, width, e));
        model->info.weight_file_bytes += after->files[i].file.bytes;
        width = after->list[i].width;
    }
    return true;
}
