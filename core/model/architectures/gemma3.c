/* Gemma 3's text model used both ways, as EmbeddingGemma is: embeddings times the root of their width; norms by the
 * root mean square, times 1 + w, before each block and after it, and of each head of Q and K; several heads of Q share
 * one of K and V; rotary positions of two bases; windows in all but one of so many layers; a gated feed-forward whose
 * first half goes through the activation. */
#include <math.h>
#include <string.h>

#include "model/architectures/bert_names.h"
#include "model/config_values.h"

#define WITHOUT                                                                                                        \
    (WHERRY_WITHOUT_QKV_BIAS | WHERRY_WITHOUT_OUT_BIAS | WHERRY_WITHOUT_LIN1_BIAS | WHERRY_WITHOUT_LIN2_BIAS |         \
     WHERRY_WITHOUT_EMBED_NORM)
#define PRESET                                                                                                         \
    .activation = WHERRY_ACTIVATION_GELU_TANH, .gate = WHERRY_GATE_FIRST, .without = WITHOUT, .pre_layernorm = true,   \
    .norm = WHERRY_NORM_RMS_ONE, .epsilon = 1e-6f, .head_norms = true, .block_norms = true, .beyond_f16 = true

/* ---- config.json ---- */

/* A decoder reads the same file; and what is in no published encoder. */
static bool check_switches(const json_t *json, const wherry_model_config *config, struct error *e)
{
    static const char *const caps[] = {"attn_logit_softcapping", "final_logit_softcapping", "rope_scaling"};
    bool both, biases;
    float scalar = 256;
    TRY(value_flag(json, "use_bidirectional_attention", false, &both, e) &&
        value_flag(json, "attention_bias", false, &biases, e));
    if (!both || biases)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"%s\" is %s: it is supported %s alone",
                    both ? "attention_bias" : "use_bidirectional_attention", both ? "true" : "false",
                    both ? "false" : "true");
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        if (value_there(json, caps[i]))
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"%s\" is there: it is not supported", caps[i]);
    TRY(value_positive(json, "query_pre_attn_scalar", &scalar, e));
    return scalar == (float)head_channels(config) ||
           fail(e, WHERRY_STATUS_UNSUPPORTED,
                "\"query_pre_attn_scalar\" is not the number of a head's channels: such scores are not supported");
}

static bool read_heads(const json_t *json, wherry_model_config *config, struct error *e)
{
    uint32_t keys = 4, channels = 256;
    if (value_there(json, "num_key_value_heads"))
        TRY(value_whole(json_object_get(json, "num_key_value_heads"), "num_key_value_heads", 1, &keys, e));
    if (value_there(json, "head_dim")) TRY(value_whole(json_object_get(json, "head_dim"), "head_dim", 1, &channels, e));
    config->key_heads = keys == config->heads ? 0 : keys;
    config->head_channels = (uint64_t)channels * config->heads == config->hidden ? 0 : channels;
    return true;
}

static bool read_window(const json_t *json, wherry_model_config *config, struct error *e)
{
    uint32_t sliding = 4096;
    const char *pattern =
        value_there(json, "sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
    config->global_every = 6;
    if (value_there(json, "sliding_window"))
        TRY(value_whole(json_object_get(json, "sliding_window"), "sliding_window", 2, &sliding, e));
    if (value_there(json, pattern))
        TRY(value_whole(json_object_get(json, pattern), pattern, 1, &config->global_every, e));
    config->global_first = config->global_every - 1;
    if (value_there(json, "layer_types")) TRY(value_layer_types(json_object_get(json, "layer_types"), config, e));
    config->window = sliding / 2;
    if (config->global_every == 1) config->window = config->global_every = config->global_first = 0;
    if (config->global_every > config->layers) config->global_every = config->global_first = 0;
    return true;
}

static bool gemma_read(const json_t *json, wherry_model_config *config, struct error *e)
{
    static const char *const global[] = {"rope_theta", NULL}, *const local[] = {"rope_local_base_freq", NULL};
    const json_t *parameters = json_object_get(json, "rope_parameters");
    TRY(read_heads(json, config, e) && check_switches(json, config, e) && read_window(json, config, e));
    config->rotary_base = 1000000;
    config->rotary_base_local = 10000;
    TRY(value_rotary(json, global, json_object_get(parameters, LAYER_FULL), config, e) &&
        value_base(json, local, json_object_get(parameters, LAYER_SLIDING), &config->rotary_base_local, e));
    if (!config->window || config->rotary_base_local == config->rotary_base) config->rotary_base_local = 0;
    config->embedding_scale = (float)sqrt((double)config->hidden);
    return true;
}

static void add(json_t *json, const char *key, json_t *value, bool *ok)
{
    *ok = !json_object_set_new(json, key, value) && *ok;
}

static void gemma_write(const wherry_model_config *config, json_t *json, bool *ok)
{
    add(json, "num_key_value_heads", json_integer((json_int_t)key_heads(config)), ok);
    add(json, "head_dim", json_integer((json_int_t)head_channels(config)), ok);
    add(json, "query_pre_attn_scalar", json_integer((json_int_t)head_channels(config)), ok);
    add(json, "use_bidirectional_attention", json_true(), ok);
    add(json, "layer_types", layer_types_make(config, ok), ok);
    if (config->window) add(json, "sliding_window", json_integer((json_int_t)config->window * 2), ok);
    add(json, "rope_parameters", bases_make(config, json, ok), ok);
}

/* ---- the table ---- */

const struct architecture architecture_gemma3 = {
    .families = (const struct family[]){{"gemma3_text", "Gemma3", "GemmaTokenizer", {NULL}}, {NULL}},
    .sizes = (const struct size_key[]){SIZE(layers, 0, "num_hidden_layers"),
                                       SIZE(hidden, 0, "hidden_size"),
                                       SIZE(heads, 0, "num_attention_heads"),
                                       SIZE(feed_forward, 0, "intermediate_size"),
                                       SIZE(vocabulary, 262208, "vocab_size"),
                                       SIZE(positions, 131072, "max_position_embeddings"),
                                       {0}},
    .activation = "hidden_activation",
    .epsilon = "rms_norm_eps",
    .rotary = true,
    .windows = true,
    .read = gemma_read,
    .write = gemma_write,
    .preset = {PRESET, .window = 256, .embedding_scale = 1},
    .prefixes = {"model.", ""},
    .layer = "layers.",
    .modules = {[WEIGHT_WORD] = {"embed_tokens"},
                [WEIGHT_GAMMA1] = {"input_layernorm"},
                [WEIGHT_QKV] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                [WEIGHT_HEADS_GAMMA] = {"self_attn.q_norm", "self_attn.k_norm"},
                [WEIGHT_OUT] = {"self_attn.o_proj"},
                [WEIGHT_OUT_GAMMA] = {"post_attention_layernorm"},
                [WEIGHT_GAMMA2] = {"pre_feedforward_layernorm"},
                [WEIGHT_LIN1] = {"mlp.gate_proj", "mlp.up_proj"},
                [WEIGHT_LIN2] = {"mlp.down_proj"},
                [WEIGHT_LIN2_GAMMA] = {"post_feedforward_layernorm"},
                [WEIGHT_FINAL_GAMMA] = {"norm"}},
    .shapes = (const struct named_shape[]){{"embedding-gemma-300m",
                                            {PRESET, .layers = 24, .hidden = 768, .heads = 3, .key_heads = 1,
                                             .head_channels = 256, .feed_forward = 1152, .vocabulary = 262144,
                                             .positions = 2048, .rotary_base = 1000000, .rotary_base_local = 10000,
                                             .window = 256, .global_every = 6, .global_first = 5,
                                             .embedding_scale = 27.712812921102035f}},
                                           {NULL}},
};
