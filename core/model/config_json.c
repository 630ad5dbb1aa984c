/* What an encoder's config.json says: its architecture, its sizes, and nothing that isn't implemented. */
#include <inttypes.h>
#include <string.h>

#include "base/folder.h"
#include "base/number.h"
#include "base/utf8.h"
#include "model/architecture.h"
#include "model/config.h"
#include "model/config_values.h"
#include "model/head.h"

/* ---- values ---- */

static bool read_size(const json_t *config, const struct size_key *size, uint32_t *out, struct error *e)
{
    const char *found = NULL;
    for (size_t i = 0; i < sizeof size->keys / sizeof *size->keys && size->keys[i]; i++) {
        const json_t *value = json_object_get(config, size->keys[i]);
        uint32_t read = 0;
        if (!value) continue;
        TRY(value_whole(value, size->keys[i], size->none ? 0 : 1, &read, e));
        if (found && read != *out)
            return fail(e, WHERRY_STATUS_BAD_FORMAT,
                        "\"%s\" is %" PRIu32 " and \"%s\" is %" PRIu32 ", two names of one size: get the file again",
                        found, *out, size->keys[i], read);
        found = size->keys[i];
        *out = read;
    }
    if (found) return true;
    *out = size->otherwise;
    return size->otherwise ||
           fail(e, WHERRY_STATUS_BAD_FORMAT, "there is no \"%s\": get the file again", size->keys[0]);
}

static bool read_epsilon(const json_t *config, const char *key, const char *other, double otherwise, float *out,
                         struct error *e)
{
    const json_t *value = key ? json_object_get(config, key) : NULL;
    if (!value && other) value = json_object_get(config, key = other);
    double epsilon = value ? json_number_value(value) : otherwise;
    *out = (float)epsilon;
    return (epsilon >= 1e-30 && epsilon < 1) ||
           fail(e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is not a number between 1e-30 and 1: get the file again", key);
}

static bool read_offset(const json_t *config, const struct architecture *a, uint32_t *out, struct error *e)
{
    if (!a->padding) return true;
    const json_t *value = json_object_get(config, a->padding);
    uint32_t padding = a->padding_otherwise;
    if (value) TRY(value_whole(value, a->padding, 0, &padding, e));
    *out = padding + 1;
    return true;
}

/* ---- what is refused ---- */

enum condition { WHEN_TRUE, WHEN_FILLED, WHEN_THERE };

/* Keys whose values make an encoder compute something else, and when they do. */
static const struct refusal {
    const char *key;
    enum condition condition;
    const char *why;
    bool rotary; /* architectures with rotary positions read it */
} refusals[] = {
    {"is_decoder", WHEN_TRUE, "only encoders are supported"},
    {"add_cross_attention", WHEN_TRUE, "only encoders are supported"},
    {"is_encoder_decoder", WHEN_TRUE, "only encoders are supported"},
    {"pruned_heads", WHEN_FILLED, "models with pruned heads are not supported"},
    {"adapters", WHEN_FILLED, "adapters are not supported: merge them into the weights"},
    {"quantization_config", WHEN_FILLED, "quantized models are not supported: save the model in F32, F16 or BF16"},
    {"relative_attention", WHEN_TRUE, "attention by relative positions is not supported"},
    {"pos_att_type", WHEN_FILLED, "attention by relative positions is not supported"},
    {"rotary_value", WHEN_TRUE, "rotary positions are not supported"},
    {"rope_theta", WHEN_THERE, "rotary positions are not supported", .rotary = true},
    {"rope_scaling", WHEN_THERE, "rotary positions are not supported", .rotary = true},
    {"rope_parameters", WHEN_THERE, "rotary positions are not supported", .rotary = true},
    {"rotary_emb_base", WHEN_THERE, "rotary positions are not supported", .rotary = true},
    {"attention_window", WHEN_THERE, "attention in a window is not supported"},
    {"sliding_window", WHEN_THERE, "attention in a window is not supported"},
    {"use_task_id", WHEN_TRUE, "embeddings of tasks are not supported"},
};

static bool is_met(const json_t *value, enum condition condition)
{
    if (!value || json_is_null(value)) return false;
    switch (condition) {
    case WHEN_TRUE:
        return !json_is_false(value) && !(json_is_integer(value) && !json_integer_value(value));
    case WHEN_FILLED:
        return json_is_object(value)  ? json_object_size(value) > 0
               : json_is_array(value) ? json_array_size(value) > 0
                                      : true;
    default:
        return true;
    }
}

static bool check_refusals(const json_t *config, const struct architecture *a, struct error *e)
{
    const json_t *position = json_object_get(config, "position_embedding_type");
    const char *type = position && !json_is_null(position) ? json_string_value(position) : "absolute";
    bool own = type && a->position_types && !strcmp(type, a->position_types);
    if (!own && (!type || strcmp(type, "absolute"))) {
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "the position_embedding_type \"%.100s\" is not supported: supported is absolute", type ? type : "");
    }
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        if ((r->rotary && a->rotary) || !is_met(json_object_get(config, r->key), r->condition)) continue;
        if (!strcmp(r->key, "sliding_window") &&
            (a->windows || json_is_false(json_object_get(config, "use_sliding_window"))))
            continue;
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"%s\" is %s: %s", r->key,
                    r->condition == WHEN_TRUE ? "true" : "there", r->why);
    }
    return true;
}

static bool check_fixed(const json_t *config, const struct architecture *a, struct error *e)
{
    const json_t *value = a->fixed ? json_object_get(config, a->fixed) : NULL;
    if (!value || (json_is_integer(value) && json_integer_value(value) == (json_int_t)a->fixed_value)) return true;
    return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"%s\" is not %" PRIu32 ", the only value that is supported", a->fixed,
                a->fixed_value);
}

/* ---- the architecture ---- */

static bool text_ends(const char *text, const char *end)
{
    size_t n = strlen(text), length = strlen(end);
    return n >= length && !strcmp(text + n - length, end);
}

static bool has_program(const struct architecture *a, const char *code)
{
    for (size_t i = 0; i < sizeof a->programs / sizeof *a->programs && a->programs[i]; i++)
        if (text_ends(code, a->programs[i])) return true;
    return false;
}

/* Model types that are asked for, and can't be had. */
static bool refuse_type(const char *type, const char *types, struct error *e)
{
    bool deberta = type && (!strcmp(type, "deberta") || !strcmp(type, "deberta-v2"));
    return !deberta ||
           fail(e, WHERRY_STATUS_UNSUPPORTED,
                "models of the type %s are not supported: their scores are also products of a token's query with the "
                "key of a distance, and of a distance's query with a token's key (disentangled attention), and here "
                "what scores get by distance is the same for all tokens. Take a model of one of the types %s",
                type, types);
}

static bool find_architecture(const json_t *config, struct config_kind *kind, struct error *e)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const char *class = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
    const char *code = json_string_value(json_object_get(json_object_get(config, "auto_map"), "AutoModel"));
    const char *path = json_string_value(json_object_get(config, "_name_or_path"));
    char types[200];
    architecture_types(types, sizeof types);
    if (!type && !class) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "it names neither \"model_type\" nor \"architectures\": give the folder of a Hugging Face model of "
                    "one of the types %s",
                    types);
    }
    TRY(refuse_type(type, types, e));
    kind->architecture = architecture_find(type, class, code ? code : path, &kind->family);
    if (!kind->architecture) {
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "the architecture %.100s (model type %.100s) is not supported: supported are encoders of the model "
                    "types %s",
                    class ? class : "without a name", type ? type : "not given", types);
    }
    if (code && !has_program(kind->architecture, code)) {
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "\"auto_map\" has the encoder's own program, %.100s, which is not run: what it computes may be "
                    "something else than %s does",
                    code, kind->family->type);
    }
    if (class)
        utf8_show(class, strlen(class), kind->name, sizeof kind->name);
    else
        snprintf(kind->name, sizeof kind->name, "%sModel", kind->family->classes);
    return true;
}

static bool config_parse(const json_t *json, wherry_model_config *config, struct config_kind *kind, struct error *e)
{
    if (!json_is_object(json)) return fail(e, WHERRY_STATUS_BAD_FORMAT, "it is not an object: get the file again");
    TRY(find_architecture(json, kind, e));
    const struct architecture *a = kind->architecture;
    *config = a->preset;
    config->struct_size = sizeof *config;
    TRY(check_refusals(json, a, e) && check_fixed(json, a, e));
    if (a->activation) TRY(value_activation(json, a->activation, &config->activation, e));
    for (const struct size_key *size = a->sizes; size->keys[0]; size++)
        TRY(read_size(json, size, (uint32_t *)((char *)config + size->field), e));
    if (config->embedding == config->hidden) config->embedding = 0;
    TRY(read_offset(json, a, &config->position_offset, e));
    TRY(read_epsilon(json, a->epsilon, a->other ? a->other->epsilon : NULL,
                     a->preset.epsilon > 0 ? (double)a->preset.epsilon : 1e-12, &config->epsilon, e));
    if (a->read) TRY(a->read(json, config, e));
    TRY(head_read(json, kind->name, &a->head, config, e));
    if (!model_config_check(config, e)) {
        e->status = WHERRY_STATUS_BAD_FORMAT;
        return false;
    }
    return true;
}

bool config_read(const struct host *host, const char *folder, wherry_model_config *config, struct config_kind *kind,
                 struct error *e)
{
    bool has = false, adapter = false;
    json_t *json;
    TRY(folder_has(host, folder, "config.json", &has, e) &&
        folder_has(host, folder, "adapter_config.json", &adapter, e));
    if (adapter) {
        return fail(
            e, WHERRY_STATUS_UNSUPPORTED,
            "%.600s has adapter_config.json: it is an adapter and no model: open the model that it is of, and add it "
            "to that (wherry_model_adapt, --adapter)",
            folder);
    }
    if (!has) {
        return fail(e, WHERRY_STATUS_IO,
                    "%.600s has no config.json: give the folder of a Hugging Face model, with config.json and "
                    "model.safetensors in it",
                    folder);
    }
    TRY(json_file_read(host, folder, "config.json", &json_config, 0, &json, e));
    return json_file_end(host, folder, "config.json", json, config_parse(json, config, kind, e), e);
}
