/* Jina's BERT of the embeddings v2 for code ("jina-bert-v2-qk-post-norm"): its BERT of the v2, with Q and K of all
 * heads normed before scores, two norms after attention, each of a sum with what attention read, and a gate in the
 * feed-forward's second half. Its files name the same class as the other's: the program tells, or the path. */
#include "model/architectures/bert_names.h"
#include "model/config_values.h"

extern const struct architecture architecture_jina_bert;

static const char origin[] = "jina-bert-v2-qk-post-norm";

static bool code_read(const json_t *json, wherry_model_config *config, struct error *e)
{
    return architecture_jina_bert.read(json, config, e);
}

static void code_write(const wherry_model_config *config, json_t *json, bool *ok)
{
    architecture_jina_bert.write(config, json, ok);
    *ok = !json_object_set_new(json, "_name_or_path", json_sprintf("jinaai/%s", origin)) && *ok;
}

#define PRESET                                                                                                         \
    .gate = WHERRY_GATE_SECOND, .without = WHERRY_WITHOUT_LIN1_BIAS, .alibi = true, .wide_norms = true,                \
    .double_norms = true

const struct architecture architecture_jina_code = {
    .families = (const struct family[]){{"bert", "JinaBert", "RobertaTokenizer", {"vocab.json"}}, {NULL}},
    .sizes = (const struct size_key[]){BERT_SIZES, SIZE(token_types, 2, "type_vocab_size"), {0}},
    .origin = origin,
    .epsilon = "layer_norm_eps",
    .position_types = "alibi",
    .read = code_read,
    .write = code_write,
    .programs = {"modeling_bert.JinaBertModel"},
    .preset = {PRESET},
    .prefixes = {"bert.", ""},
    .layer = "encoder.layer.",
    .modules = {BERT_WORDS,
                BERT_SEGMENTS,
                [WEIGHT_QKV] = {"attention.self.query", "attention.self.key", "attention.self.value"},
                [WEIGHT_QKV_BIAS] = {"attention.self.query", "attention.self.key", "attention.self.value"},
                [WEIGHT_HEADS_GAMMA] = {"attention.self.layer_norm_q", "attention.self.layer_norm_k"},
                [WEIGHT_HEADS_BETA] = {"attention.self.layer_norm_q", "attention.self.layer_norm_k"},
                [WEIGHT_OUT] = {"attention.output.dense"},
                [WEIGHT_OUT_BIAS] = {"attention.output.dense"},
                [WEIGHT_OUT_GAMMA] = {"attention.output.LayerNorm"},
                [WEIGHT_OUT_BETA] = {"attention.output.LayerNorm"},
                [WEIGHT_GAMMA1] = {"layer_norm_1"},
                [WEIGHT_BETA1] = {"layer_norm_1"},
                [WEIGHT_LIN1] = {"mlp.up_gated_layer"},
                [WEIGHT_LIN2] = {"mlp.down_layer"},
                [WEIGHT_LIN2_BIAS] = {"mlp.down_layer"},
                [WEIGHT_GAMMA2] = {"layer_norm_2"},
                [WEIGHT_BETA2] = {"layer_norm_2"},
                BERT_POOLER,
                BERT_CLASSIFIER,
                BERT_VOCABULARY},
    .head = {.activation = WHERRY_HEAD_TANH, .vocabulary = WHERRY_HEAD_GELU},
    .shapes = (const struct named_shape[]){{"jina-code",
                                            {.layers = 12,
                                             .hidden = 768,
                                             .heads = 12,
                                             .feed_forward = 3072,
                                             .vocabulary = 61056,
                                             .positions = 8192,
                                             .token_types = 2,
                                             .pooler = true,
                                             .epsilon = 1e-12f,
                                             PRESET}},
                                           {NULL}},
};
