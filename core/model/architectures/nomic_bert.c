/* NomicBERT: two segments, rotary positions, a gated feed-forward whose second half is the gate's, no biases in
 * products; in its second version one without a gate, which in every second layer is a mixture of experts. Files have
 * two dialects of names and of keys: transformers' own, and that of the program which came with the first files
 * ("n_embd", "encoder.layers.0.attn.Wqkv.weight"). */
#include <string.h>

#include "model/architectures/bert_names.h"
#include "model/config_values.h"

#define WITHOUT_BIASES                                                                                                 \
    (WHERRY_WITHOUT_QKV_BIAS | WHERRY_WITHOUT_OUT_BIAS | WHERRY_WITHOUT_LIN1_BIAS | WHERRY_WITHOUT_LIN2_BIAS)

/* ---- config.json ---- */

/* Switches that the first program has, and where they stand. */
static bool check_switches(const json_t *json, struct error *e)
{
    static const char *const switches[] = {"prenorm", "parallel_block",         "use_rms_norm",
                                           "causal",  "rotary_emb_interleaved", "scale_attn_by_inverse_layer_idx"};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        bool on;
        TRY(value_flag(json, switches[i], false, &on, e));
        if (on) return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"%s\" is true: it is supported false alone", switches[i]);
    }
    if (value_there(json, "rotary_emb_scale_base"))
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "\"rotary_emb_scale_base\" is there: rotary positions with a scale are not supported");
    if (value_there(json, "rotary_emb_fraction") &&
        json_number_value(json_object_get(json, "rotary_emb_fraction")) != 1)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "\"rotary_emb_fraction\" is not 1: rotary positions are of whole heads alone");
    return true;
}

/* With a factor the base grows with texts longer than those of training. */
static bool read_dynamic(const json_t *json, wherry_model_config *config, struct error *e)
{
    uint32_t trained = 2048;
    float factor = 0;
    TRY(value_positive(json, "rotary_scaling_factor", &factor, e));
    if (!(factor > 0)) return true;
    if (value_there(json, "max_trained_positions"))
        TRY(value_whole(json_object_get(json, "max_trained_positions"), "max_trained_positions", 1, &trained, e));
    if (value_there(json, "n_positions"))
        TRY(value_whole(json_object_get(json, "n_positions"), "n_positions", 1, &config->positions, e));
    bool longer = config->positions > trained;
    config->rotary_dynamic = longer ? factor : 0;
    config->rotary_trained = longer ? trained : 0;
    return true;
}

/* Mixtures of experts: layers whose number divided by moe_every_n_layers leaves 1, where that is over 0. */
static bool read_experts(const json_t *json, wherry_model_config *config, struct error *e)
{
    static const struct {
        const char *key;
        uint32_t value; /* the only one that is supported */
    } others[] = {{"num_shared_experts", 0}, {"expert_choice_router", 0}, {"ffn_div", 1}};
    uint32_t every = 0;
    if (value_there(json, "moe_every_n_layers"))
        TRY(value_whole(json_object_get(json, "moe_every_n_layers"), "moe_every_n_layers", 0, &every, e));
    if (!every) return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const json_t *value = json_object_get(json, others[i].key);
        uint32_t found = json_is_boolean(value) ? json_is_true(value) : others[i].value;
        if (value && !json_is_null(value) && !json_is_boolean(value))
            TRY(value_whole(value, others[i].key, 0, &found, e));
        if (found != others[i].value)
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"%s\" is %u: such mixtures of experts are not supported",
                        others[i].key, (unsigned)found);
    }
    if (config->gate)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "\"moe_every_n_layers\" is over 0 and the feed-forward has a gate: experts are supported without");
    config->experts_every = every;
    return value_whole(json_object_get(json, "num_experts"), "num_experts", 1, &config->experts, e) &&
           value_whole(json_object_get(json, "moe_top_k"), "moe_top_k", 1, &config->chosen_experts, e) &&
           value_flag(json, "moe_normalize_expert_weights", false, &config->experts_normalized, e);
}

static bool read_published(const json_t *json, wherry_model_config *config, struct error *e)
{
    const json_t *value = json_object_get(json, "activation_function");
    const char *name = json_string_value(value);
    bool qkv, first, second;
    config->rotary_base = 10000;
    if (!name || (strcmp(name, "swiglu") && strcmp(name, "geglu") && strncmp(name, "gelu", 4)))
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "the activation_function \"%.100s\" is not supported: supported are swiglu, geglu and gelu",
                    name ? name : "");
    if (!strncmp(name, "gelu", 4)) {
        config->gate = WHERRY_GATE_NONE;
        TRY(value_activation(json, "activation_function", &config->activation, e));
    } else {
        config->activation = strcmp(name, "geglu") ? WHERRY_ACTIVATION_SILU : WHERRY_ACTIVATION_GELU;
    }
    TRY(value_flag(json, "qkv_proj_bias", true, &qkv, e) && value_flag(json, "mlp_fc1_bias", true, &first, e) &&
        value_flag(json, "mlp_fc2_bias", true, &second, e));
    config->without = (qkv ? 0 : WHERRY_WITHOUT_QKV_BIAS | WHERRY_WITHOUT_OUT_BIAS) |
                      (first ? 0 : WHERRY_WITHOUT_LIN1_BIAS) | (second ? 0 : WHERRY_WITHOUT_LIN2_BIAS);
    return true;
}

static bool nomic_read(const json_t *json, wherry_model_config *config, struct error *e)
{
    TRY(check_switches(json, e));
    config->rotary_base = 1000;
    config->activation = WHERRY_ACTIVATION_SILU;
    if (value_there(json, "activation_function"))
        TRY(read_published(json, config, e));
    else if (value_there(json, "hidden_act"))
        TRY(value_activation(json, "hidden_act", &config->activation, e));
    if (value_there(json, "head_dim")) {
        uint32_t channels = 0;
        TRY(value_whole(json_object_get(json, "head_dim"), "head_dim", 1, &channels, e));
        if ((uint64_t)channels * config->heads != config->hidden)
            return fail(e, WHERRY_STATUS_UNSUPPORTED,
                        "\"head_dim\" times the number of heads is not the hidden size: such heads are not supported");
    }
    static const char *const keys[] = {"rotary_emb_base", "rope_theta", NULL};
    return value_rotary(json, keys, json_object_get(json, "rope_parameters"), config, e) &&
           read_dynamic(json, config, e) && read_experts(json, config, e);
}

/* All of `values`, which goes. */
static void set_all(json_t *json, json_t *values, bool *ok)
{
    *ok = values && !json_object_update(json, values) && *ok;
    json_decref(values);
}

static void nomic_write(const wherry_model_config *config, json_t *json, bool *ok)
{
    const char *activation = config->activation == WHERRY_ACTIVATION_SILU        ? "silu"
                             : config->activation == WHERRY_ACTIVATION_RELU      ? "relu"
                             : config->activation == WHERRY_ACTIVATION_GELU_TANH ? "gelu_pytorch_tanh"
                                                                                 : "gelu";
    if (config->gate)
        *ok = !json_object_set_new(json, "hidden_act", json_string(activation)) && *ok;
    else /* as the first program spells it */
        set_all(json,
                json_pack("{s:s, s:b, s:b, s:b}", "activation_function", activation, "qkv_proj_bias",
                          !(config->without & WHERRY_WITHOUT_QKV_BIAS), "mlp_fc1_bias",
                          !(config->without & WHERRY_WITHOUT_LIN1_BIAS), "mlp_fc2_bias",
                          !(config->without & WHERRY_WITHOUT_LIN2_BIAS)),
                ok);
    if (config->experts)
        set_all(json,
                json_pack("{s:i, s:i, s:i, s:b}", "num_experts", (int)config->experts, "moe_top_k",
                          (int)config->chosen_experts, "moe_every_n_layers", (int)config->experts_every,
                          "moe_normalize_expert_weights", config->experts_normalized),
                ok);
    *ok = !json_object_set_new(json, "rope_parameters", rotary_parameters_make(config, json, ok)) && *ok;
    if (!(config->rotary_dynamic > 0)) return;
    /* The first program's keys, which say how long texts may be, too. */
    *ok = !json_object_set_new(json, "n_positions", json_integer((json_int_t)config->positions)) && *ok;
    *ok = !json_object_set_new(json, "rotary_scaling_factor", json_real((double)config->rotary_dynamic)) && *ok;
    *ok = !json_object_set_new(json, "max_trained_positions", json_integer((json_int_t)config->rotary_trained)) && *ok;
}

/* ---- the tables ---- */

#define NOMIC_COMMON                                                                                                   \
    .families = (const struct family[]){{"nomic_bert", "NomicBert", "BertTokenizer", {"vocab.txt"}}, {NULL}},          \
    .sizes = (const struct size_key[]){SIZE(layers, 0, "num_hidden_layers", "n_layer"),                                \
                                       SIZE(hidden, 0, "hidden_size", "n_embd"),                                       \
                                       SIZE(heads, 0, "num_attention_heads", "n_head"),                                \
                                       SIZE(feed_forward, 0, "intermediate_size", "n_inner"),                          \
                                       SIZE(vocabulary, 30528, "vocab_size"),                                          \
                                       SIZE(positions, 2048, "max_position_embeddings", "n_positions"),                \
                                       SIZE(token_types, 2, "type_vocab_size"),                                        \
                                       {0}},                                                                           \
    .rotary = true, .read = nomic_read, .write = nomic_write, .programs = {"modeling_hf_nomic_bert.NomicBertModel"},   \
    .preset = {.gate = WHERRY_GATE_SECOND, .without = WITHOUT_BIASES}, .prefixes = {"nomic_bert.", "bert.", ""},       \
    .head = {.activation = WHERRY_HEAD_TANH}

#define NOMIC_SHARED                                                                                                   \
    [WEIGHT_WORD] = {"embeddings.word_embeddings"}, [WEIGHT_ROUTER] = {"mlp.router.layer"},                            \
    [WEIGHT_EXPERTS1] = {"mlp.experts.mlp.w1"}, [WEIGHT_EXPERTS2] = {"mlp.experts.mlp.w2"},                            \
    [WEIGHT_EXPERTS_BIAS] = {"mlp.experts"}, BERT_SEGMENTS, BERT_POOLER, BERT_CLASSIFIER,                              \
    VOCABULARY("cls.predictions.transform.dense", "cls.predictions.transform.layer_norm", "cls.predictions",           \
               "cls.predictions.decoder")

static const struct architecture published = {
    NOMIC_COMMON,
    .epsilon = "layer_norm_epsilon",
    .layer = "encoder.layers.",
    .modules = {NOMIC_SHARED, [WEIGHT_EMBED_GAMMA] = {"emb_ln"}, [WEIGHT_EMBED_BETA] = {"emb_ln"},
                [WEIGHT_QKV] = {"attn.Wqkv"}, [WEIGHT_QKV_BIAS] = {"attn.Wqkv"}, [WEIGHT_OUT] = {"attn.out_proj"},
                [WEIGHT_OUT_BIAS] = {"attn.out_proj"}, [WEIGHT_GAMMA1] = {"norm1"}, [WEIGHT_BETA1] = {"norm1"},
                [WEIGHT_LIN1] = {"mlp.fc11", "mlp.fc12", "mlp.fc1"},
                [WEIGHT_LIN1_BIAS] = {"mlp.fc11", "mlp.fc12", "mlp.fc1"}, [WEIGHT_LIN2] = {"mlp.fc2"},
                [WEIGHT_LIN2_BIAS] = {"mlp.fc2"}, [WEIGHT_GAMMA2] = {"norm2"}, [WEIGHT_BETA2] = {"norm2"}},
};

const struct architecture architecture_nomic_bert = {
    NOMIC_COMMON,
    .epsilon = "layer_norm_eps",
    .other = &published,
    .layer = "layers.",
    .modules =
        {NOMIC_SHARED, [WEIGHT_EMBED_GAMMA] = {"embeddings.LayerNorm"}, [WEIGHT_EMBED_BETA] = {"embeddings.LayerNorm"},
         [WEIGHT_QKV] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
         [WEIGHT_QKV_BIAS] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
         [WEIGHT_OUT] = {"self_attn.o_proj"}, [WEIGHT_OUT_BIAS] = {"self_attn.o_proj"},
         [WEIGHT_GAMMA1] = {"post_attention_layernorm"}, [WEIGHT_BETA1] = {"post_attention_layernorm"},
         [WEIGHT_LIN1] = {"mlp.up_proj", "mlp.gate_proj", "mlp.fc1"},
         [WEIGHT_LIN1_BIAS] = {"mlp.up_proj", "mlp.gate_proj", "mlp.fc1"}, [WEIGHT_LIN2] = {"mlp.down_proj"},
         [WEIGHT_LIN2_BIAS] = {"mlp.down_proj"}, [WEIGHT_GAMMA2] = {"post_mlp_layernorm"},
         [WEIGHT_BETA2] = {"post_mlp_layernorm"}},
    .shapes = (const struct named_shape[]){{"nomic-bert-base",
                                            {.layers = 12,
                                             .hidden = 768,
                                             .heads = 12,
                                             .feed_forward = 3072,
                                             .vocabulary = 30528,
                                             .positions = 8192,
                                             .token_types = 2,
                                             .epsilon = 1e-12f,
                                             .activation = WHERRY_ACTIVATION_SILU,
                                             .gate = WHERRY_GATE_SECOND,
                                             .without = WITHOUT_BIASES,
                                             .rotary_base = 1000}},
                                           {"nomic-moe-base",
                                            {.layers = 12,
                                             .hidden = 768,
                                             .heads = 12,
                                             .feed_forward = 3072,
                                             .vocabulary = 250048,
                                             .positions = 2048,
                                             .token_types = 1,
                                             .epsilon = 1e-5f,
                                             .activation = WHERRY_ACTIVATION_GELU,
                                             .rotary_base = 10000,
                                             .experts = 8,
                                             .chosen_experts = 2,
                                             .experts_every = 2}},
                                           {NULL}},
};
