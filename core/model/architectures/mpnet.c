/* MPNet: RoBERTa's positions, no segments, and a bias of scores by distance that all layers share. */
#include "model/architectures/bert_names.h"

/* The reference has 32 rows and a distance of 128 whatever the config says; and its padding token is always 1. */
#define MPNET_PRESET .position_offset = 2, .relative_buckets = 32, .relative_distance = 128

const struct architecture architecture_mpnet = {
    .families = (const struct family[]){{"mpnet", "MPNet", "MPNetTokenizer", {NULL}}, {NULL}},
    .sizes = (const struct size_key[]){BERT_SIZES, {0}},
    .activation = "hidden_act",
    .epsilon = "layer_norm_eps",
    .fixed = "relative_attention_num_buckets",
    .fixed_value = 32,
    .preset = {MPNET_PRESET},
    .prefixes = {"mpnet.", ""},
    .layer = "encoder.layer.",
    .modules = {BERT_EMBEDDINGS, BERT_FEED_FORWARD,
                BERT_POOLER, [WEIGHT_QKV] = {"attention.attn.q", "attention.attn.k", "attention.attn.v"},
                [WEIGHT_QKV_BIAS] = {"attention.attn.q", "attention.attn.k", "attention.attn.v"},
                [WEIGHT_OUT] = {"attention.attn.o"}, [WEIGHT_OUT_BIAS] = {"attention.attn.o"},
                [WEIGHT_GAMMA1] = {"attention.LayerNorm"}, [WEIGHT_BETA1] = {"attention.LayerNorm"},
                [WEIGHT_RELATIVE] = {"encoder.relative_attention_bias"}, BERT_CLASSIFIER,
                VOCABULARY("lm_head.dense", "lm_head.layer_norm", "lm_head", "lm_head.decoder")},
    .head = {WHERRY_HEAD_TANH, "classifier.dense", "classifier.out_proj", WHERRY_HEAD_GELU},
    .shapes = (const struct named_shape[]){{"mpnet-base",
                                            {.layers = 12,
                                             .hidden = 768,
                                             .heads = 12,
                                             .feed_forward = 3072,
                                             .vocabulary = 30527,
                                             .positions = 514,
                                             .pooler = true,
                                             .epsilon = 1e-5f,
                                             MPNET_PRESET}},
                                           {NULL}},
};
