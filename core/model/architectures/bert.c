/* BERT: two segments, positions from 0, a pooler. */
#include "model/architectures/bert_names.h"

#define BERT(name_, layers_, hidden_, heads_, feed_forward_)                                                           \
    {                                                                                                                  \
        name_,                                                                                                         \
        {                                                                                                              \
            .layers = layers_, .hidden = hidden_, .heads = heads_, .feed_forward = feed_forward_, .vocabulary = 30522, \
            .positions = 512, .token_types = 2, .pooler = true, .epsilon = 1e-12f                                      \
        }                                                                                                              \
    }

const struct architecture architecture_bert = {
    .families =
        (const struct family[]){{"bert", "Bert", "BertTokenizer", {"vocab.txt", "sentencepiece.bpe.model"}}, {NULL}},
    .sizes = (const struct size_key[]){BERT_SIZES, SIZE(token_types, 2, "type_vocab_size"), {0}},
    .activation = "hidden_act",
    .epsilon = "layer_norm_eps",
    .prefixes = {"bert.", ""},
    .layer = "encoder.layer.",
    .modules = {BERT_EMBEDDINGS, BERT_SEGMENTS, BERT_ATTENTION, BERT_FEED_FORWARD, BERT_POOLER, BERT_CLASSIFIER,
                BERT_VOCABULARY, BERT_NEXT},
    .head = {.activation = WHERRY_HEAD_TANH},
    .shapes = (const struct named_shape[]){BERT("minilm-l6", 6, 384, 12, 1536),
                                           BERT("bert-base", 12, 768, 12, 3072),
                                           BERT("bert-large", 24, 1024, 16, 4096),
                                           {NULL}},
};
