/* RoBERTa, and with other vocabularies XLM-RoBERTa and CamemBERT: BERT's graph with one segment and with positions that
 * begin after the padding token's id. */
#include "model/architectures/bert_names.h"

#define ROBERTA(name_, layers_, hidden_, heads_, feed_forward_, vocabulary_, positions_)                               \
    {                                                                                                                  \
        name_,                                                                                                         \
        {                                                                                                              \
            .layers = layers_, .hidden = hidden_, .heads = heads_, .feed_forward = feed_forward_,                      \
            .vocabulary = vocabulary_, .positions = positions_, .token_types = 1, .pooler = true, .epsilon = 1e-5f,    \
            .position_offset = 2                                                                                       \
        }                                                                                                              \
    }

const struct architecture architecture_roberta = {
    .families =
        (const struct family[]){{"roberta", "Roberta", "RobertaTokenizer", {"vocab.json"}},
                                {"xlm-roberta", "XLMRoberta", "XLMRobertaTokenizer", {"sentencepiece.bpe.model"}},
                                {"camembert", "Camembert", "CamembertTokenizer", {"sentencepiece.bpe.model"}},
                                {NULL}},
    .sizes = (const struct size_key[]){BERT_SIZES, SIZE(token_types, 2, "type_vocab_size"), {0}},
    .activation = "hidden_act",
    .epsilon = "layer_norm_eps",
    .padding = "pad_token_id",
    .padding_otherwise = 1,
    .prefixes = {"roberta.", ""},
    .layer = "encoder.layer.",
    .modules = {BERT_EMBEDDINGS, BERT_SEGMENTS, BERT_ATTENTION, BERT_FEED_FORWARD, BERT_POOLER, BERT_CLASSIFIER,
                VOCABULARY("lm_head.dense", "lm_head.layer_norm", "lm_head", "lm_head.decoder")},
    .head = {WHERRY_HEAD_TANH, "classifier.dense", "classifier.out_proj", WHERRY_HEAD_GELU},
    .shapes = (const struct named_shape[]){ROBERTA("roberta-base", 12, 768, 12, 3072, 50265, 514),
                                           ROBERTA("roberta-large", 24, 1024, 16, 4096, 50265, 514),
                                           ROBERTA("xlmr-base", 12, 768, 12, 3072, 250002, 514),
                                           ROBERTA("xlmr-large", 24, 1024, 16, 4096, 250002, 8194),
                                           {NULL}},
};
