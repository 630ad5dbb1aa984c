/* Qwen3, as embedding models and rerankers have it: a causal encoder whose norms are by the root mean square and stand
 * before their blocks, those of each head of Q and K among them; several heads of Q share one of K and V; rotary
 * positions; a gated feed-forward whose first half goes through the activation. Its heads read a text's last token. */
#include <string.h>

#include "model/architectures/bert_names.h"
#include "model/config_values.h"

#define ATTENTION_BIASES (WHERRY_WITHOUT_QKV_BIAS | WHERRY_WITHOUT_OUT_BIAS)
#define WITHOUT                                                                                                        \
    (ATTENTION_BIASES | WHERRY_WITHOUT_LIN1_BIAS | WHERRY_WITHOUT_LIN2_BIAS | WHERRY_WITHOUT_EMBED_NORM |              \
     WHERRY_WITHOUT_CLASSIFIER_BIAS)
#define PRESET                                                                                                         \
    .activation = WHERRY_ACTIVATION_SILU, .gate = WHERRY_GATE_FIRST, .without = WITHOUT, .pre_layernorm = true,        \
    .norm = WHERRY_NORM_RMS, .epsilon = 1e-6f, .head_norms = true, .causal = true, .head_last = true

static const char full[] = "full_attention";

/* ---- config.json ---- */

/* All layers see all keys before them. */
static bool check_windows(const json_t *json, const wherry_model_config *config, struct error *e)
{
    const json_t *types = json_object_get(json, "layer_types");
    bool sliding;
    TRY(value_flag(json, "use_sliding_window", false, &sliding, e));
    if (sliding)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "\"use_sliding_window\" is true: attention in a window is not supported in such models");
    if (!value_there(json, "layer_types")) return true;
    if (!json_is_array(types) || json_array_size(types) != config->layers)
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "\"layer_types\" is not a list of one type for each layer: get the file again");
    for (uint32_t l = 0; l < config->layers; l++) {
        const char *type = json_string_value(json_array_get(types, l));
        if (!type || strcmp(type, full))
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"layer_types\" has another type than %s", full);
    }
    return true;
}

/* Heads of K and V, 32 of them and 128 channels a head where the file says nothing: transformers' own defaults. */
static bool read_heads(const json_t *json, wherry_model_config *config, struct error *e)
{
    uint32_t keys = 32, channels = 128;
    if (value_there(json, "num_key_value_heads"))
        TRY(value_whole(json_object_get(json, "num_key_value_heads"), "num_key_value_heads", 1, &keys, e));
    else if (json_object_get(json, "num_key_value_heads"))
        keys = config->heads; /* null */
    if (value_there(json, "head_dim")) TRY(value_whole(json_object_get(json, "head_dim"), "head_dim", 1, &channels, e));
    config->key_heads = keys == config->heads ? 0 : keys;
    config->head_channels = (uint64_t)channels * config->heads == config->hidden ? 0 : channels;
    return true;
}

static bool qwen3_read(const json_t *json, wherry_model_config *config, struct error *e)
{
    static const char *const keys[] = {"rope_theta", NULL};
    bool biases, both;
    TRY(check_windows(json, config, e) && read_heads(json, config, e));
    TRY(value_flag(json, "attention_bias", false, &biases, e) &&
        value_flag(json, "use_bidirectional_attention", false, &both, e));
    if (biases) config->without &= ~(uint32_t)ATTENTION_BIASES;
    config->causal = !both;
    config->rotary_base = 10000;
    return value_rotary(json, keys, json_object_get(json, "rope_parameters"), config, e);
}

static void add(json_t *json, const char *key, json_t *value, bool *ok)
{
    *ok = !json_object_set_new(json, key, value) && *ok;
}

static void qwen3_write(const wherry_model_config *config, json_t *json, bool *ok)
{
    add(json, "num_key_value_heads", json_integer((json_int_t)key_heads(config)), ok);
    add(json, "head_dim", json_integer((json_int_t)head_channels(config)), ok);
    if (!(config->without & WHERRY_WITHOUT_QKV_BIAS)) add(json, "attention_bias", json_true(), ok);
    if (!config->causal) add(json, "use_bidirectional_attention", json_true(), ok);
    add(json, "rope_parameters", rotary_parameters_make(config, json, ok), ok);
}

/* ---- the table ---- */

const struct architecture architecture_qwen3 = {
    .families = (const struct family[]){{"qwen3", "Qwen3", "Qwen2Tokenizer", {NULL}}, {NULL}},
    .sizes = (const struct size_key[]){SIZE(layers, 0, "num_hidden_layers"),
                                       SIZE(hidden, 0, "hidden_size"),
                                       SIZE(heads, 0, "num_attention_heads"),
                                       SIZE(feed_forward, 0, "intermediate_size"),
                                       SIZE(vocabulary, 151936, "vocab_size"),
                                       SIZE(positions, 32768, "max_position_embeddings"),
                                       {0}},
    .activation = "hidden_act",
    .epsilon = "rms_norm_eps",
    .rotary = true,
    .read = qwen3_read,
    .write = qwen3_write,
    .preset = {PRESET},
    .prefixes = {"model.", ""},
    .layer = "layers.",
    .modules = {[WEIGHT_WORD] = {"embed_tokens"},
                [WEIGHT_GAMMA1] = {"input_layernorm"},
                [WEIGHT_QKV] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                [WEIGHT_QKV_BIAS] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                [WEIGHT_HEADS_GAMMA] = {"self_attn.q_norm", "self_attn.k_norm"},
                [WEIGHT_OUT] = {"self_attn.o_proj"},
                [WEIGHT_OUT_BIAS] = {"self_attn.o_proj"},
                [WEIGHT_GAMMA2] = {"post_attention_layernorm"},
                [WEIGHT_LIN1] = {"mlp.gate_proj", "mlp.up_proj"},
                [WEIGHT_LIN2] = {"mlp.down_proj"},
                [WEIGHT_FINAL_GAMMA] = {"norm"},
                [WEIGHT_CLASSIFIER] = {"score"}},
    .head = {.logits = "lm_head"},
    .shapes = (const struct named_shape[]){{"qwen3-embedding-0.6b",
                                            {PRESET, .layers = 28, .hidden = 1024, .heads = 16, .key_heads = 8,
                                             .head_channels = 128, .feed_forward = 3072, .vocabulary = 151669,
                                             .positions = 32768, .rotary_base = 1000000}},
                                           {NULL}},
};
