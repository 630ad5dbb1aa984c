/* What a model's JSON files say about it: its shape, how its token vectors become one, its longest sequence. */
#include "model/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/folder.h"
#include "base/number.h"
#include "graph/distances.h"
#include "model/model.h"

/* ---- shapes ---- */

uint32_t model_usable_positions(const wherry_model_config *config)
{
    return config->positions - config->position_offset;
}

bool model_config_check(const wherry_model_config *config, struct error *e)
{
    uint32_t width = config->embedding ? config->embedding : config->hidden;
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
        {"embedding size", width, 1 << 20},
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
    if (config->position_offset >= config->positions) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the first token has position %" PRIu32 ", and the table of positions has %" PRIu32 " rows",
                    config->position_offset, config->positions);
    }
    const struct {
        const char *name;
        uint64_t rows, columns;
    } matrices[] = {
        {"the word embeddings", config->vocabulary, width},
        {"the position embeddings", config->positions, width},
        {"the token type embeddings", config->token_types, width},
        {"the matrix that widens the embeddings", config->hidden, config->embedding},
        {"the matrices of Q, K and V", (uint64_t)3 * config->hidden, config->hidden},
        {"a matrix of the feed-forward", config->feed_forward, config->hidden},
    };
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        uint64_t elements = matrices[i].rows * matrices[i].columns;
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
    if (ok) ok = json_file_end(host, module, "config.json", json, pooling_parse(json, out, e), e);
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
             json_file_end(host, folder, "modules.json", json, modules_parse(host, folder, json, &modules, e), e);
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
        TRY(json_file_end(host, folder, sentence, json, sentence_parse(json, &longest, lower_case, e), e));
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
