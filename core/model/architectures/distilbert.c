/* DistilBERT: BERT's graph without segments and pooler, under other names. Its positions lie in the file whether they
 * were learned or are sines (sinusoidal_pos_embds). */
#include "model/architectures/bert_names.h"

const struct architecture architecture_distilbert = {
    .families = (const struct family[]){{"distilbert", "DistilBert", "DistilBertTokenizer", {"vocab.txt"}}, {NULL}},
    .sizes = (const struct size_key[]){SIZE(layers, 0, "n_layers", "num_hidden_layers"),
                                       SIZE(hidden, 0, "dim", "hidden_size"),
                                       SIZE(heads, 0, "n_heads", "num_attention_heads"),
                                       SIZE(feed_forward, 0, "hidden_dim"),
                                       SIZE(vocabulary, 0, "vocab_size"),
                                       SIZE(positions, 512, "max_position_embeddings"),
                                       {0}},
    .activation = "activation",
    .prefixes = {"distilbert.", ""},
    .layer = "transformer.layer.",
    .modules = {BERT_EMBEDDINGS, [WEIGHT_QKV] = {"attention.q_lin", "attention.k_lin", "attention.v_lin"},
                [WEIGHT_QKV_BIAS] = {"attention.q_lin", "attention.k_lin", "attention.v_lin"},
                [WEIGHT_OUT] = {"attention.out_lin"}, [WEIGHT_OUT_BIAS] = {"attention.out_lin"},
                [WEIGHT_GAMMA1] = {"sa_layer_norm"}, [WEIGHT_BETA1] = {"sa_layer_norm"}, [WEIGHT_LIN1] = {"ffn.lin1"},
                [WEIGHT_LIN1_BIAS] = {"ffn.lin1"}, [WEIGHT_LIN2] = {"ffn.lin2"}, [WEIGHT_LIN2_BIAS] = {"ffn.lin2"},
                [WEIGHT_GAMMA2] = {"output_layer_norm"}, [WEIGHT_BETA2] = {"output_layer_norm"}, BERT_CLASSIFIER,
                VOCABULARY("vocab_transform", "vocab_layer_norm", "vocab_projector", "vocab_projector")},
    .head = {WHERRY_HEAD_RELU, "pre_classifier"},
    .shapes = (const struct named_shape[]){{"distilbert-base",
                                            {.layers = 6,
                                             .hidden = 768,
                                             .heads = 12,
                                             .feed_forward = 3072,
                                             .vocabulary = 30522,
                                             .positions = 512,
                                             .epsilon = 1e-12f}},
                                           {NULL}},
};
