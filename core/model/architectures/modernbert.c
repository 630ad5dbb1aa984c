/* ModernBERT: layers whose norms stand before their blocks and have no bias, the first one without one before its
 * attention; rotary positions; a gated feed-forward whose first half goes through the activation; no biases in
 * products. Most layers see a window of keys alone, and have a base of rotary positions of their own. Keys have two
 * dialects: numbers of windows and bases, and lists of the layers' types. */
#include <string.h>

#include "model/architectures/bert_names.h"
#include "model/config_values.h"

#define WITHOUT_BIASES                                                                                                 \
    (WHERRY_WITHOUT_QKV_BIAS | WHERRY_WITHOUT_OUT_BIAS | WHERRY_WITHOUT_LIN1_BIAS | WHERRY_WITHOUT_LIN2_BIAS)
#define WITHOUT (WITHOUT_BIASES | WHERRY_WITHOUT_NORM_BIAS | WHERRY_WITHOUT_FIRST_NORM | WHERRY_WITHOUT_HEAD_BIAS)

/* ---- biases and heads ---- */

static bool read_biases(const json_t *json, wherry_model_config *config, struct error *e)
{
    static const struct {
        const char *key;
        uint32_t without;
    } biases[] = {{"norm_bias", WHERRY_WITHOUT_NORM_BIAS},
                  {"attention_bias", WHERRY_WITHOUT_QKV_BIAS | WHERRY_WITHOUT_OUT_BIAS},
                  {"mlp_bias", WHERRY_WITHOUT_LIN1_BIAS | WHERRY_WITHOUT_LIN2_BIAS},
                  {"classifier_bias", WHERRY_WITHOUT_HEAD_BIAS}};
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++) {
        bool on;
        TRY(value_flag(json, biases[i].key, false, &on, e));
        if (on) config->without &= ~biases[i].without;
    }
    return true;
}

static bool read_head(const json_t *json, wherry_model_config *config, struct error *e)
{
    const char *class = json_string_value(json_array_get(json_object_get(json, "architectures"), 0)),
               *pooling = json_string_value(json_object_get(json, "classifier_pooling"));
    wherry_activation activation;
    bool bias;
    if (!class || !strstr(class, "For")) return true;
    TRY(value_activation(json, "classifier_activation", &activation, e));
    if (activation != WHERRY_ACTIVATION_GELU)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"classifier_activation\" is not gelu, the only one supported");
    TRY(value_flag(json, "decoder_bias", true, &bias, e));
    if (!bias)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"decoder_bias\" is false: scores of words are supported with one");
    if (!value_there(json, "classifier_pooling")) return true;
    config->head_mean = pooling && !strcmp(pooling, "mean");
    return config->head_mean || (pooling && !strcmp(pooling, "cls")) ||
           fail(e, WHERRY_STATUS_UNSUPPORTED,
                "the classifier_pooling \"%.100s\" is not supported: supported are cls and mean",
                pooling ? pooling : "");
}

/* ---- windows ---- */

/* Which layers see what. */
static bool read_window(const json_t *json, wherry_model_config *config, struct error *e)
{
    uint32_t local = 128;
    const json_t *types = json_object_get(json, "layer_types");
    config->global_every = 3;
    if (value_there(json, "local_attention"))
        TRY(value_whole(json_object_get(json, "local_attention"), "local_attention", 2, &local, e));
    if (value_there(json, "global_attn_every_n_layers"))
        TRY(value_whole(json_object_get(json, "global_attn_every_n_layers"), "global_attn_every_n_layers", 1,
                        &config->global_every, e));
    if (value_there(json, "layer_types")) TRY(value_layer_types(types, config, e));
    config->window = local / 2;
    if (config->global_every == 1) config->window = config->global_every = config->global_first = 0;
    return true;
}

/* ---- bases ---- */

static bool read_bases(const json_t *json, wherry_model_config *config, struct error *e)
{
    static const char *const global[] = {"global_rope_theta", NULL}, *const local[] = {"local_rope_theta", NULL};
    const json_t *parameters = json_object_get(json, "rope_parameters");
    if (value_there(json, "rope_scaling"))
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "\"rope_scaling\" is there: scaled rotary positions are not supported");
    config->rotary_base = 160000;
    config->rotary_base_local = 10000;
    TRY(value_rotary(json, global, json_object_get(parameters, LAYER_FULL), config, e) &&
        value_base(json, local, json_object_get(parameters, LAYER_SLIDING), &config->rotary_base_local, e));
    if (!config->window || config->rotary_base_local == config->rotary_base) config->rotary_base_local = 0;
    return true;
}

static bool modernbert_read(const json_t *json, wherry_model_config *config, struct error *e)
{
    return read_biases(json, config, e) && read_head(json, config, e) && read_window(json, config, e) &&
           read_bases(json, config, e);
}

static void add(json_t *json, const char *key, json_t *value, bool *ok)
{
    *ok = !json_object_set_new(json, key, value) && *ok;
}

static void modernbert_write(const wherry_model_config *config, json_t *json, bool *ok)
{
    add(json, "layer_types", layer_types_make(config, ok), ok);
    if (config->window) add(json, "local_attention", json_integer((json_int_t)config->window * 2), ok);
    add(json, "rope_parameters", bases_make(config, json, ok), ok);
    if (config->head_mean) add(json, "classifier_pooling", json_string("mean"), ok);
}

/* ---- the table ---- */

#define MODERNBERT(name_, layers_, hidden_, heads_, feed_forward_)                                                     \
    {                                                                                                                  \
        name_,                                                                                                         \
        {                                                                                                              \
            .layers = layers_, .hidden = hidden_, .heads = heads_, .feed_forward = feed_forward_, .vocabulary = 50368, \
            .positions = 8192, .epsilon = 1e-5f, .gate = WHERRY_GATE_FIRST, .without = WITHOUT, .pre_layernorm = true, \
            .rotary_base = 160000, .rotary_base_local = 10000, .window = 64, .global_every = 3                         \
        }                                                                                                              \
    }

const struct architecture architecture_modernbert = {
    .families = (const struct family[]){{"modernbert", "ModernBert", "PreTrainedTokenizerFast", {NULL}}, {NULL}},
    .sizes = (const struct size_key[]){SIZE(layers, 22, "num_hidden_layers"),
                                       SIZE(hidden, 768, "hidden_size"),
                                       SIZE(heads, 12, "num_attention_heads"),
                                       SIZE(feed_forward, 1152, "intermediate_size"),
                                       SIZE(vocabulary, 50368, "vocab_size"),
                                       SIZE(positions, 8192, "max_position_embeddings"),
                                       {0}},
    .activation = "hidden_activation",
    .epsilon = "norm_eps",
    .rotary = true,
    .read = modernbert_read,
    .write = modernbert_write,
    .preset = {.gate = WHERRY_GATE_FIRST, .without = WITHOUT, .pre_layernorm = true, .epsilon = 1e-5f, .window = 64},
    .prefixes = {"model.", ""},
    .layer = "layers.",
    .modules = {[WEIGHT_WORD] = {"embeddings.tok_embeddings"},
                [WEIGHT_EMBED_GAMMA] = {"embeddings.norm"},
                [WEIGHT_EMBED_BETA] = {"embeddings.norm"},
                [WEIGHT_GAMMA1] = {"attn_norm"},
                [WEIGHT_BETA1] = {"attn_norm"},
                [WEIGHT_QKV] = {"attn.Wqkv"},
                [WEIGHT_QKV_BIAS] = {"attn.Wqkv"},
                [WEIGHT_OUT] = {"attn.Wo"},
                [WEIGHT_OUT_BIAS] = {"attn.Wo"},
                [WEIGHT_GAMMA2] = {"mlp_norm"},
                [WEIGHT_BETA2] = {"mlp_norm"},
                [WEIGHT_LIN1] = {"mlp.Wi"},
                [WEIGHT_LIN1_BIAS] = {"mlp.Wi"},
                [WEIGHT_LIN2] = {"mlp.Wo"},
                [WEIGHT_LIN2_BIAS] = {"mlp.Wo"},
                [WEIGHT_FINAL_GAMMA] = {"final_norm"},
                [WEIGHT_FINAL_BETA] = {"final_norm"},
                [WEIGHT_HEAD_GAMMA] = {"head.norm"},
                [WEIGHT_HEAD_BETA] = {"head.norm"},
                BERT_CLASSIFIER,
                VOCABULARY("head.dense", "head.norm", "decoder", "decoder")},
    .head = {WHERRY_HEAD_GELU, "head.dense", .vocabulary = WHERRY_HEAD_GELU, .norm = true, .tokens = true},
    .shapes = (const struct named_shape[]){MODERNBERT("modernbert-base", 22, 768, 12, 1152),
                                           MODERNBERT("modernbert-large", 28, 1024, 16, 2624),
                                           {NULL}},
};
