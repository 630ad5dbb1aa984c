/* Jina's embeddings v3 as transformers has them: XLM-RoBERTa's graph with rotary positions. Files have two dialects of
 * names: transformers' own, and that of the program which came with the first files; its adapters for tasks are PEFT's
 * folders. */
#include "model/architectures/bert_names.h"
#include "model/config_values.h"

static bool jina_read(const json_t *json, wherry_model_config *config, struct error *e)
{
    static const char *const keys[] = {"rope_theta", NULL};
    config->rotary_base = 20000;
    return value_rotary(json, keys, json_object_get(json, "rope_parameters"), config, e);
}

static void jina_write(const wherry_model_config *config, json_t *json, bool *ok)
{
    json_t *parameters = rotary_parameters_make(config, json, ok);
    *ok = !json_object_set_new(json, "rope_parameters", parameters) && *ok;
}

#define COMMON                                                                                                         \
    .families =                                                                                                        \
        (const struct family[]){{"jina_embeddings_v3", "JinaEmbeddingsV3", "XLMRobertaTokenizer", {NULL}}, {NULL}},    \
    .sizes = (const struct size_key[]){BERT_SIZES, SIZE(token_types, 1, "type_vocab_size"), {0}},                      \
    .activation = "hidden_act", .epsilon = "layer_norm_eps", .rotary = true, .read = jina_read, .write = jina_write,   \
    .preset = {.epsilon = 1e-5f}, .prefixes = {"roberta.", ""},                                                        \
    .head = {WHERRY_HEAD_TANH, "classifier.dense", "classifier.out_proj", WHERRY_HEAD_GELU}

#define SHARED                                                                                                         \
    [WEIGHT_WORD] = {"embeddings.word_embeddings"}, [WEIGHT_LIN1] = {"mlp.fc1"}, [WEIGHT_LIN1_BIAS] = {"mlp.fc1"},     \
    [WEIGHT_LIN2] = {"mlp.fc2"}, [WEIGHT_LIN2_BIAS] = {"mlp.fc2"}, BERT_SEGMENTS, BERT_POOLER, BERT_CLASSIFIER,        \
    VOCABULARY("lm_head.dense", "lm_head.layer_norm", "lm_head", "lm_head.decoder")

static const struct architecture first_files = {
    COMMON,
    .layer = "encoder.layers.",
    .modules = {SHARED, [WEIGHT_EMBED_GAMMA] = {"emb_ln"}, [WEIGHT_EMBED_BETA] = {"emb_ln"},
                [WEIGHT_QKV] = {"mixer.Wqkv"}, [WEIGHT_QKV_BIAS] = {"mixer.Wqkv"}, [WEIGHT_OUT] = {"mixer.out_proj"},
                [WEIGHT_OUT_BIAS] = {"mixer.out_proj"}, [WEIGHT_GAMMA1] = {"norm1"}, [WEIGHT_BETA1] = {"norm1"},
                [WEIGHT_GAMMA2] = {"norm2"}, [WEIGHT_BETA2] = {"norm2"}},
};

const struct architecture architecture_jina_v3 = {
    COMMON,
    .other = &first_files,
    .layer = "layers.",
    .modules = {SHARED, [WEIGHT_EMBED_GAMMA] = {"embeddings.LayerNorm"}, [WEIGHT_EMBED_BETA] = {"embeddings.LayerNorm"},
                [WEIGHT_QKV] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                [WEIGHT_QKV_BIAS] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                [WEIGHT_OUT] = {"self_attn.o_proj"}, [WEIGHT_OUT_BIAS] = {"self_attn.o_proj"},
                [WEIGHT_GAMMA1] = {"post_attention_layernorm"}, [WEIGHT_BETA1] = {"post_attention_layernorm"},
                [WEIGHT_GAMMA2] = {"post_mlp_layernorm"}, [WEIGHT_BETA2] = {"post_mlp_layernorm"}},
    .shapes = (const struct named_shape[]){{"jina-v3",
                                            {.layers = 24,
                                             .hidden = 1024,
                                             .heads = 16,
                                             .feed_forward = 4096,
                                             .vocabulary = 250002,
                                             .positions = 8194,
                                             .token_types = 1,
                                             .epsilon = 1e-5f,
                                             .rotary_base = 20000}},
                                           {NULL}},
};
