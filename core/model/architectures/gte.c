/* GTE, whose first program calls its model "new": up to two segments, rotary positions, a gated feed-forward whose
 * second half is the gate's, and whose first product alone has no bias. Files have two dialects of names: that of the
 * program which came with the first files, and transformers' own. */
#include <string.h>

#include "model/architectures/bert_names.h"
#include "model/config_values.h"

/* ---- config.json ---- */

/* Settings of the first program, and how they stand in all published models. Those of padding and of the kernels that
 * it calls ("unpad_inputs", "use_memory_efficient_attention") change no vector. */
static bool check_settings(const json_t *json, struct error *e)
{
    static const struct {
        const char *key;
        bool value;
    } flags[] = {{"logn_attention_scale", false}, {"logn_attention_clip1", false}, {"pack_qkv", true}};
    static const char *const texts[][2] = {{"layer_norm_type", "layer_norm"}, {"position_embedding_type", "rope"}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        bool on;
        TRY(value_flag(json, flags[i].key, flags[i].value, &on, e));
        if (on != flags[i].value)
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"%s\" is %s: it is supported %s alone", flags[i].key,
                        on ? "true" : "false", on ? "false" : "true");
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *value = json_string_value(json_object_get(json, texts[i][0]));
        if (value_there(json, texts[i][0]) && (!value || strcmp(value, texts[i][1])))
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "the %s \"%.100s\" is not supported: supported is %s",
                        texts[i][0], value ? value : "", texts[i][1]);
    }
    return true;
}

/* A model made for shorter texts has its positions scaled, for all texts or for long ones; "mixed_b" would do it
 * differently for each channel. */
static bool read_rotary(const json_t *json, wherry_model_config *config, struct error *e)
{
    static const char *const keys[] = {"rope_theta", NULL};
    const json_t *scaling = json_object_get(json, "rope_scaling"),
                 *parameters = json_object_get(json, "rope_parameters");
    if (!scaling || json_is_null(scaling)) return value_rotary(json, keys, parameters, config, e);
    const json_t *value = json_object_get(scaling, "type");
    const char *type = json_string_value(value ? value : json_object_get(scaling, "rope_type"));
    if (type && !strcmp(type, "dynamic")) return value_rotary(json, keys, parameters, config, e);
    if (!type || strcmp(type, "ntk"))
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "the rope_scaling of type \"%.100s\" is not supported: supported are ntk and dynamic",
                    type ? type : "");
    if (value_there(scaling, "mixed_b"))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"rope_scaling\" has \"mixed_b\", which is not supported");
    TRY(value_positive(scaling, "factor", &config->rotary_factor, e));
    if (!(config->rotary_factor >= 1))
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "\"factor\" of \"rope_scaling\" is not a number of at least 1: get the file again");
    return value_base(json, keys, parameters, &config->rotary_base, e);
}

static bool gte_read(const json_t *json, wherry_model_config *config, struct error *e)
{
    const char *type = json_string_value(json_object_get(json, "model_type"));
    bool own = type && !strcmp(type, "gte") && !value_there(json, "auto_map");
    config->rotary_base = own ? 160000 : 10000; /* transformers' default, and that of the first program */
    return check_settings(json, e) && read_rotary(json, config, e);
}

static void gte_write(const wherry_model_config *config, json_t *json, bool *ok)
{
    double base = (double)config->rotary_base, factor = (double)config->rotary_factor;
    *ok = !json_object_set_new(json, "rope_theta", json_real(base)) && *ok;
    if (config->rotary_dynamic > 0)
        *ok = !json_object_set_new(json, "rope_parameters", rotary_parameters_make(config, json, ok)) && *ok;
    if (factor > 0)
        *ok =
            !json_object_set_new(json, "rope_scaling", json_pack("{s:s, s:f}", "type", "ntk", "factor", factor)) && *ok;
}

/* ---- the tables ---- */

#define GTE_COMMON                                                                                                     \
    .families = (const struct family[]){{"new", "New", "BertTokenizer", {NULL}},                                       \
                                        {"gte", "Gte", "BertTokenizer", {NULL}},                                       \
                                        {NULL}},                                                                       \
    .sizes = (const struct size_key[]){SIZE(layers, 0, "num_hidden_layers"),                                           \
                                       SIZE(hidden, 0, "hidden_size"),                                                 \
                                       SIZE(heads, 0, "num_attention_heads"),                                          \
                                       SIZE(feed_forward, 0, "intermediate_size"),                                     \
                                       SIZE(vocabulary, 0, "vocab_size"),                                              \
                                       SIZE(positions, 0, "max_position_embeddings"),                                  \
                                       SIZE_OR_NONE(token_types, 1, "type_vocab_size"),                                \
                                       {0}},                                                                           \
    .activation = "hidden_act", .epsilon = "layer_norm_eps", .rotary = true, .position_types = "rope",                 \
    .read = gte_read, .write = gte_write, .programs = {"modeling.NewModel", "modeling_hf_alibaba_nlp_gte.GteModel"},   \
    .preset = {.gate = WHERRY_GATE_SECOND, .without = WHERRY_WITHOUT_LIN1_BIAS}, .prefixes = {"new.", "gte.", ""},     \
    .head = {.activation = WHERRY_HEAD_TANH}

#define GTE_SHARED                                                                                                     \
    BERT_WORDS, BERT_SEGMENTS, [WEIGHT_LIN2] = {"mlp.down_proj"}, [WEIGHT_LIN2_BIAS] = {"mlp.down_proj"}, BERT_POOLER, \
                               BERT_CLASSIFIER

#define GTE(name_, layers_, hidden_, heads_, feed_forward_, vocabulary_, types_, base_, factor_)                       \
    {                                                                                                                  \
        name_,                                                                                                         \
        {                                                                                                              \
            .layers = layers_, .hidden = hidden_, .heads = heads_, .feed_forward = feed_forward_,                      \
            .vocabulary = vocabulary_, .positions = 8192, .token_types = types_, .epsilon = 1e-12f,                    \
            .gate = WHERRY_GATE_SECOND, .without = WHERRY_WITHOUT_LIN1_BIAS, .rotary_base = base_,                     \
            .rotary_factor = factor_                                                                                   \
        }                                                                                                              \
    }

static const struct architecture own = {
    GTE_COMMON,
    .layer = "layers.",
    .modules = {GTE_SHARED, [WEIGHT_QKV] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                [WEIGHT_QKV_BIAS] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                [WEIGHT_OUT] = {"self_attn.o_proj"}, [WEIGHT_OUT_BIAS] = {"self_attn.o_proj"},
                [WEIGHT_GAMMA1] = {"post_attention_layernorm"}, [WEIGHT_BETA1] = {"post_attention_layernorm"},
                [WEIGHT_LIN1] = {"mlp.up_proj", "mlp.gate_proj"}, [WEIGHT_GAMMA2] = {"post_mlp_layernorm"},
                [WEIGHT_BETA2] = {"post_mlp_layernorm"},
                VOCABULARY("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.decoder")},
};

const struct architecture architecture_gte = {
    GTE_COMMON,
    .other = &own,
    .layer = "encoder.layer.",
    .modules = {GTE_SHARED, [WEIGHT_QKV] = {"attention.qkv_proj"}, [WEIGHT_QKV_BIAS] = {"attention.qkv_proj"},
                [WEIGHT_OUT] = {"attention.o_proj"}, [WEIGHT_OUT_BIAS] = {"attention.o_proj"},
                [WEIGHT_GAMMA1] = {"attn_ln"}, [WEIGHT_BETA1] = {"attn_ln"}, [WEIGHT_LIN1] = {"mlp.up_gate_proj"},
                [WEIGHT_GAMMA2] = {"mlp_ln"}, [WEIGHT_BETA2] = {"mlp_ln"},
                VOCABULARY("lm_head.dense", "lm_head.norm", "lm_head.decoder", "lm_head.decoder")},
    .shapes = (const struct named_shape[]){GTE("gte-base", 12, 768, 12, 3072, 30528, 0, 500000, 0),
                                           GTE("gte-large", 24, 1024, 16, 4096, 30528, 2, 160000, 2),
                                           GTE("gte-multilingual", 12, 768, 12, 3072, 250048, 1, 20000, 8),
                                           {NULL}},
};
