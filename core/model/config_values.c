/* Single values of config.json, checked. */
#include "model/config_values.h"

#include <inttypes.h>
#include <string.h>

bool value_whole(const json_t *value, const char *key, int64_t least, uint32_t *out, struct error *e)
{
    if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > INT32_MAX) {
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "\"%s\" is not a whole number from %" PRId64 " to %" PRId32 ": get the file again", key, least,
                    INT32_MAX);
    }
    *out = (uint32_t)json_integer_value(value);
    return true;
}

bool value_flag(const json_t *object, const char *key, bool otherwise, bool *out, struct error *e)
{
    const json_t *value = json_object_get(object, key);
    *out = value && !json_is_null(value) ? json_is_true(value) : otherwise;
    return !value || json_is_null(value) || json_is_boolean(value) ||
           fail(e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is neither true nor false: get the file again", key);
}

bool value_positive(const json_t *object, const char *key, float *out, struct error *e)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value)) return true;
    double number = json_number_value(value);
    if (!(number > 0 && number < 1e30))
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is not a number over 0: get the file again", key);
    *out = (float)number;
    return true;
}

bool value_there(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value);
}

static bool base_next(const json_t *in, const char *key, const char **found, float *base, struct error *e)
{
    float other = 0;
    TRY(value_positive(in, key, &other, e));
    if (other == 0) return true;
    if (*found && other != *base)
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "\"%s\" and \"%s\" give rotary positions two bases: get the file again", *found, key);
    *found = key;
    *base = other;
    return true;
}

/* Positions that stretch for texts longer than those of training, by the text's own length. */
static bool read_dynamic(const json_t *parameters, const char *key, wherry_model_config *config, struct error *e)
{
    float factor = 0;
    TRY(value_positive(parameters, "factor", &factor, e));
    double longest = (double)factor * config->positions;
    if (!(factor >= 1 && longest <= INT32_MAX))
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "\"factor\" of \"%s\" is not a number from 1 on, or gives more positions than 32 bits can count: "
                    "get the file again",
                    key);
    if (longest < config->positions + 1.0) return true; /* no text is longer than those of training */
    config->rotary_dynamic = factor;
    config->rotary_trained = config->positions;
    config->positions = (uint32_t)longest;
    return true;
}

/* `config`: NULL where positions must not stretch. */
static bool check_type(const json_t *parameters, const char *key, wherry_model_config *config, struct error *e)
{
    const json_t *value = json_object_get(parameters, "rope_type");
    if (!value) value = json_object_get(parameters, "type");
    const char *type = json_string_value(value);
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" are not an object: get the file again", key);
    if (!value || (type && !strcmp(type, "default"))) return true;
    if (config && type && !strcmp(type, "dynamic"))
        return config->rotary_trained
                   ? fail(e, WHERRY_STATUS_BAD_FORMAT, "rotary positions are dynamic twice: get the file again")
                   : read_dynamic(parameters, key, config, e);
    return fail(e, WHERRY_STATUS_UNSUPPORTED, "the rope_type \"%.100s\" is not supported: supported %s (\"%s\")",
                type ? type : "", config ? "are default and dynamic" : "is default", key);
}

static bool read_base(const json_t *json, const char *const *keys, const json_t *parameters, float *base,
                      wherry_model_config *config, struct error *e)
{
    const char *found = NULL;
    TRY(check_type(parameters, "rope_parameters", config, e));
    for (; *keys; keys++) TRY(base_next(json, *keys, &found, base, e));
    return base_next(parameters, "rope_theta", &found, base, e);
}

bool value_base(const json_t *json, const char *const *keys, const json_t *parameters, float *base, struct error *e)
{
    return read_base(json, keys, parameters, base, NULL, e);
}

bool value_rotary(const json_t *json, const char *const *keys, const json_t *parameters, wherry_model_config *config,
                  struct error *e)
{
    const json_t *scaling = json_object_get(json, "rope_scaling");
    return check_type(scaling, "rope_scaling", config, e) &&
           read_base(json, keys, parameters, &config->rotary_base, config, e);
}

bool value_activation(const json_t *object, const char *key, wherry_activation *out, struct error *e)
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
        {"silu", WHERRY_ACTIVATION_SILU},
        {"swish", WHERRY_ACTIVATION_SILU},
    };
    const json_t *value = json_object_get(object, key);
    const char *name = value ? json_string_value(value) : "gelu";
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i].name)) continue;
        *out = names[i].activation;
        return true;
    }
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "the activation \"%.100s\" (%s) is not supported: supported are gelu, gelu_new, gelu_fast, "
                "gelu_pytorch_tanh, relu and silu",
                name ? name : "", key);
}

static const char *layer_type(const json_t *types, uint32_t layer)
{
    const char *type = json_string_value(json_array_get(types, layer));
    return type && (!strcmp(type, LAYER_FULL) || !strcmp(type, LAYER_SLIDING)) ? type : NULL;
}

bool value_layer_types(const json_t *types, wherry_model_config *config, struct error *e)
{
    uint32_t first = config->layers, next = config->layers;
    if (!json_is_array(types) || json_array_size(types) != config->layers)
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "\"layer_types\" is not a list of one type for each layer: get the file again");
    for (uint32_t l = config->layers; l-- > 0;) {
        const char *type = layer_type(types, l);
        if (!type)
            return fail(e, WHERRY_STATUS_UNSUPPORTED,
                        "\"layer_types\" has another type than " LAYER_FULL " and " LAYER_SLIDING);
        if (!strcmp(type, LAYER_FULL)) next = first, first = l;
    }
    config->global_first = first < config->layers ? first : 0;
    config->global_every = first == config->layers ? 0 : next - first;
    if (config->global_every && config->global_every <= first) config->global_every = config->layers;
    for (uint32_t l = 0; l < config->layers; l++) {
        bool sees_all = config->global_every && l % config->global_every == config->global_first;
        if (sees_all != !strcmp(layer_type(types, l), LAYER_FULL))
            return fail(e, WHERRY_STATUS_UNSUPPORTED,
                        "\"layer_types\" has \"" LAYER_FULL "\" in no order: supported is one in so many layers");
    }
    return true;
}

json_t *layer_types_make(const wherry_model_config *config, bool *ok)
{
    json_t *types = json_array();
    for (uint32_t l = 0; l < config->layers; l++) {
        bool all = !config->window || (config->global_every && l % config->global_every == config->global_first);
        *ok = !json_array_append_new(types, json_string(all ? LAYER_FULL : LAYER_SLIDING)) && *ok;
    }
    return types;
}

json_t *rotary_parameters_make(const wherry_model_config *config, json_t *json, bool *ok)
{
    double base = (double)config->rotary_base;
    if (!(config->rotary_dynamic > 0)) return json_pack("{s:s, s:f}", "rope_type", "default", "rope_theta", base);
    json_t *trained = json_integer((json_int_t)config->rotary_trained);
    *ok = !json_object_set_new(json, "max_position_embeddings", trained) && *ok;
    return json_pack("{s:s, s:f, s:f}", "rope_type", "dynamic", "rope_theta", base, "factor",
                     (double)config->rotary_dynamic);
}

json_t *bases_make(const wherry_model_config *config, json_t *json, bool *ok)
{
    double base = (double)config->rotary_base,
           local = config->rotary_base_local > 0 ? (double)config->rotary_base_local : base;
    return json_pack("{s:o, s:{s:s, s:f}}", LAYER_FULL, rotary_parameters_make(config, json, ok), LAYER_SLIDING,
                     "rope_type", "default", "rope_theta", local);
}
