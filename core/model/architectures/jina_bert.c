/* Jina's BERT of the embeddings and rerankers v2 ("jina-bert-implementation"): BERT without a table of positions, with
 * scores less a slope times the distance, and a gated feed-forward whose first half goes through the activation and
 * whose first product has no bias. Its files say that they are of BERT; the class and the program tell. */
#include <string.h>

#include "model/architectures/bert_names.h"
#include "model/config_values.h"

static bool jina_read(const json_t *json, wherry_model_config *config, struct error *e)
{
    const char *type = json_string_value(json_object_get(json, "feed_forward_type")),
               *positions = json_string_value(json_object_get(json, "position_embedding_type"));
    if (!positions || strcmp(positions, "alibi"))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"position_embedding_type\" is not alibi, the only one supported");
    if (!type || (strcmp(type, "geglu") && strcmp(type, "reglu")))
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "the feed_forward_type \"%.100s\" is not supported: supported are geglu and reglu",
                    type ? type : "");
    config->activation = strcmp(type, "geglu") ? WHERRY_ACTIVATION_RELU : WHERRY_ACTIVATION_GELU;
    return true;
}

static void jina_write(const wherry_model_config *config, json_t *json, bool *ok)
{
    const char *type = config->activation == WHERRY_ACTIVATION_RELU ? "reglu" : "geglu";
    *ok = !json_object_set_new(json, "feed_forward_type", json_string(type)) && *ok;
    *ok = !json_object_set_new(json, "position_embedding_type", json_string("alibi")) && *ok;
}

#define PRESET .gate = WHERRY_GATE_FIRST, .without = WHERRY_WITHOUT_LIN1_BIAS, .alibi = true

#define JINA(name_, layers_, hidden_, heads_, feed_forward_)                                                           \
    {                                                                                                                  \
        name_,                                                                                                         \
        {                                                                                                              \
            .layers = layers_, .hidden = hidden_, .heads = heads_, .feed_forward = feed_forward_, .vocabulary = 30528, \
            .positions = 8192, .token_types = 2, .pooler = true, .epsilon = 1e-12f, PRESET                             \
        }                                                                                                              \
    }

const struct architecture architecture_jina_bert = {
    .families = (const struct family[]){{"bert", "JinaBert", "BertTokenizer", {"vocab.txt"}}, {NULL}},
    .sizes = (const struct size_key[]){BERT_SIZES, SIZE(token_types, 2, "type_vocab_size"), {0}},
    .epsilon = "layer_norm_eps",
    .position_types = "alibi",
    .read = jina_read,
    .write = jina_write,
    .programs = {"modeling_bert.JinaBertModel"},
    .preset = {PRESET},
    .prefixes = {"bert.", ""},
    .layer = "encoder.layer.",
    .modules =
        {BERT_WORDS, BERT_SEGMENTS, BERT_ATTENTION, [WEIGHT_LIN1] = {"mlp.gated_layers"}, [WEIGHT_LIN2] = {"mlp.wo"},
         [WEIGHT_LIN2_BIAS] = {"mlp.wo"}, [WEIGHT_GAMMA2] = {"mlp.layernorm"}, [WEIGHT_BETA2] = {"mlp.layernorm"},
         BERT_POOLER, BERT_CLASSIFIER, BERT_VOCABULARY},
    .head = {.activation = WHERRY_HEAD_TANH, .vocabulary = WHERRY_HEAD_GELU},
    .shapes =
        (const struct named_shape[]){JINA("jina-small", 4, 512, 8, 2048), JINA("jina-base", 12, 768, 12, 3072), {NULL}},
};
