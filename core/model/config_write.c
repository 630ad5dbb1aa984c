/* config.json of a model that has none: one of random weights. */
#include "model/config_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "model/head.h"
#include "model/tensor_names.h"

/* Whether the architecture computes what the model does, apart from what config.json says. */
static bool check(const wherry_model_config *config, const struct architecture *a, const struct family *family,
                  struct error *e)
{
    const char *what = NULL;
    if (!a || !family) {
        what = "layernorms before the layers";
    } else {
        if (config->head == WHERRY_HEAD_SEQUENCE && config->head_activation != a->head.activation)
            what = "another dense layer before the classifier";
        if (config->head == WHERRY_HEAD_TOKENS && (config->head_activation != WHERRY_HEAD_PLAIN) != a->head.tokens)
            what = "another dense layer before the classifier of tokens";
        if (config->labels && config->head_norm != a->head.norm) what = "another norm before the classifier";
        if (!architecture_takes_types(a, config->token_types)) what = "no types of tokens";
        if (config->pooler && !a->modules[WEIGHT_POOLER][0]) what = "a pooler";
        if (config->embedding && !a->modules[WEIGHT_PROJECT][0]) what = "embeddings narrower than the layers";
    }
    return !what || fail(e, WHERRY_STATUS_UNSUPPORTED,
                         "this model of random weights has %s, which no model type that a config.json could name has: "
                         "begin with a model folder",
                         what);
}

static const char *class_ending(const wherry_model_config *config)
{
    switch (config->head) {
    case WHERRY_HEAD_SEQUENCE:
        return "ForSequenceClassification";
    case WHERRY_HEAD_TOKENS:
        return "ForTokenClassification";
    case WHERRY_HEAD_VOCABULARY:
        return config->next_sentence ? "ForPreTraining" : "ForMaskedLM";
    default:
        return "Model";
    }
}

static const char *activation_name(wherry_activation activation)
{
    return activation == WHERRY_ACTIVATION_RELU        ? "relu"
           : activation == WHERRY_ACTIVATION_SILU      ? "silu"
           : activation == WHERRY_ACTIVATION_GELU_TANH ? "gelu_pytorch_tanh"
                                                       : "gelu";
}

static void add(json_t *to, const char *key, json_t *value, bool *ok)
{
    *ok = !json_object_set_new(to, key, value) && *ok;
}

static void add_labels(const struct wherry_model *model, json_t *to, bool *ok)
{
    json_t *names = json_object(), *numbers = json_object();
    for (uint32_t i = 0; names && numbers && i < model->info.config.labels; i++) {
        char number[16];
        const char *name = model->labels->names[i];
        snprintf(number, sizeof number, "%u", (unsigned)i);
        add(names, number, json_string(name), ok);
        add(numbers, name, json_integer((json_int_t)i), ok);
    }
    add(to, "id2label", names, ok);
    add(to, "label2id", numbers, ok);
}

/* A double with few digits, where it is this float: 1e-12, not 9.999999960041972e-13. */
static double plain(float value)
{
    double few = number_read(NUMBER("%.6g", (double)value), NULL);
    return (float)few == value ? few : (double)value;
}

static json_t *config_make(const struct wherry_model *model, const struct architecture *a, const struct family *family)
{
    const wherry_model_config *config = &model->info.config;
    char class[64];
    json_t *json = json_object();
    bool ok = json != NULL;
    snprintf(class, sizeof class, "%s%s", family->classes, class_ending(config));
    add(json, "architectures", json_pack("[s]", class), &ok);
    add(json, "model_type", json_string(family->type), &ok);
    for (const struct size_key *size = a->sizes; size->keys[0]; size++) {
        uint32_t value;
        memcpy(&value, (const char *)config + size->field, sizeof value);
        /* Embeddings as wide as the layers are written as such. */
        if (!value && size->field == offsetof(wherry_model_config, embedding)) value = config->hidden;
        if (value || size->none) add(json, size->keys[0], json_integer((json_int_t)value), &ok);
    }
    if (a->activation) add(json, a->activation, json_string(activation_name(config->activation)), &ok);
    if (a->write) a->write(config, json, &ok);
    if (a->epsilon) add(json, a->epsilon, json_real(plain(config->epsilon)), &ok);
    if (a->padding) add(json, a->padding, json_integer((json_int_t)config->position_offset - 1), &ok);
    if (config->untied) add(json, "tie_word_embeddings", json_false(), &ok);
    if (config->labels) add_labels(model, json, &ok);
    add(json, "dtype", json_string("float32"), &ok);
    if (ok) return json;
    json_decref(json);
    return NULL;
}

bool config_write(const struct wherry_model *model, const struct new_folder *folder, struct error *e)
{
    const struct family *family = NULL;
    const struct architecture *a = model_architecture(model, &family);
    TRY(check(&model->info.config, a, family, e));
    if (!folder) return true;
    json_t *json = config_make(model, a, family);
    char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    bool ok = text ? new_file_write(folder, "config.json", text, strlen(text), e)
                   : fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "no memory for config.json");
    free(text); /* jansson takes it from malloc */
    json_decref(json);
    return ok;
}
