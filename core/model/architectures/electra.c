/* ELECTRA: BERT's graph without a pooler; where the embeddings are narrower than the layers, a product widens them. */
#include "model/architectures/bert_names.h"

#define ELECTRA(name_, hidden_, heads_, feed_forward_, embedding_)                                                     \
    {                                                                                                                  \
        name_,                                                                                                         \
        {                                                                                                              \
            .layers = 12, .hidden = hidden_, .heads = heads_, .feed_forward = feed_forward_, .vocabulary = 30522,      \
            .positions = 512, .token_types = 2, .epsilon = 1e-12f, .embedding = embedding_                             \
        }                                                                                                              \
    }

const struct architecture architecture_electra = {
    .families = (const struct family[]){{"electra", "Electra", "ElectraTokenizer", {"vocab.txt"}}, {NULL}},
    .sizes =
        (const struct size_key[]){
            BERT_SIZES, SIZE(token_types, 2, "type_vocab_size"), SIZE(embedding, 128, "embedding_size"), {0}},
    .activation = "hidden_act",
    .epsilon = "layer_norm_eps",
    .prefixes = {"electra.", ""},
    .layer = "encoder.layer.",
    .modules =
        {BERT_EMBEDDINGS, BERT_SEGMENTS, BERT_ATTENTION, BERT_FEED_FORWARD,
         BERT_CLASSIFIER, [WEIGHT_PROJECT] = {"embeddings_project"}, [WEIGHT_PROJECT_BIAS] = {"embeddings_project"},
         VOCABULARY("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head",
                    "generator_lm_head")},
    .head = {WHERRY_HEAD_GELU, "classifier.dense", "classifier.out_proj", WHERRY_HEAD_GELU},
    .shapes = (const struct named_shape[]){ELECTRA("electra-small", 256, 4, 1024, 128),
                                           ELECTRA("electra-base", 768, 12, 3072, 0),
                                           {NULL}},
};
