/* The spellings and names that BERT's descendants share. */
#ifndef WHERRY_MODEL_ARCHITECTURES_BERT_NAMES_H
#define WHERRY_MODEL_ARCHITECTURES_BERT_NAMES_H

#include "model/architecture.h"

/* One row of sizes: a field of wherry_model_config, its value where the file has none, its spellings. */
#define SIZE(field_, otherwise_, ...)                                                                                  \
    {                                                                                                                  \
        .field = offsetof(wherry_model_config, field_), .keys = {__VA_ARGS__}, .otherwise = (otherwise_)               \
    }

/* The same of a size that may be 0. */
#define SIZE_OR_NONE(field_, otherwise_, ...)                                                                          \
    {                                                                                                                  \
        .field = offsetof(wherry_model_config, field_), .keys = {__VA_ARGS__}, .otherwise = (otherwise_), .none = true \
    }

#define BERT_SIZES                                                                                                     \
    SIZE(layers, 0, "num_hidden_layers"), SIZE(hidden, 0, "hidden_size"), SIZE(heads, 0, "num_attention_heads"),       \
        SIZE(feed_forward, 0, "intermediate_size"), SIZE(vocabulary, 0, "vocab_size"),                                 \
        SIZE(positions, 512, "max_position_embeddings")

#define BERT_WORDS                                                                                                     \
    [WEIGHT_WORD] = {"embeddings.word_embeddings"}, [WEIGHT_EMBED_GAMMA] = {"embeddings.LayerNorm"},                   \
    [WEIGHT_EMBED_BETA] = {"embeddings.LayerNorm"}

#define BERT_EMBEDDINGS BERT_WORDS, [WEIGHT_POSITION] = {"embeddings.position_embeddings"}

#define BERT_SEGMENTS [WEIGHT_TYPE] = {"embeddings.token_type_embeddings"}

#define BERT_ATTENTION                                                                                                 \
    [WEIGHT_QKV] = {"attention.self.query", "attention.self.key", "attention.self.value"},                             \
    [WEIGHT_QKV_BIAS] = {"attention.self.query", "attention.self.key", "attention.self.value"},                        \
    [WEIGHT_OUT] = {"attention.output.dense"}, [WEIGHT_OUT_BIAS] = {"attention.output.dense"},                         \
    [WEIGHT_GAMMA1] = {"attention.output.LayerNorm"}, [WEIGHT_BETA1] = {"attention.output.LayerNorm"}

#define BERT_FEED_FORWARD                                                                                              \
    [WEIGHT_LIN1] = {"intermediate.dense"}, [WEIGHT_LIN1_BIAS] = {"intermediate.dense"},                               \
    [WEIGHT_LIN2] = {"output.dense"}, [WEIGHT_LIN2_BIAS] = {"output.dense"}, [WEIGHT_GAMMA2] = {"output.LayerNorm"},   \
    [WEIGHT_BETA2] = {"output.LayerNorm"}

#define BERT_CLASSIFIER [WEIGHT_CLASSIFIER] = {"classifier"}, [WEIGHT_CLASSIFIER_BIAS] = {"classifier"}

/* dense, layernorm, what the bias is of, and the matrix that stands for the word table where they are not tied. */
#define VOCABULARY(dense_, norm_, bias_, table_)                                                                       \
    [WEIGHT_VOCABULARY_DENSE] = {dense_}, [WEIGHT_VOCABULARY_DENSE_BIAS] = {dense_},                                   \
    [WEIGHT_VOCABULARY_GAMMA] = {norm_}, [WEIGHT_VOCABULARY_BETA] = {norm_}, [WEIGHT_VOCABULARY_BIAS] = {bias_},       \
    [WEIGHT_VOCABULARY_TABLE] = {table_}

#define BERT_VOCABULARY                                                                                                \
    VOCABULARY("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions",            \
               "cls.predictions.decoder")

#define BERT_NEXT [WEIGHT_NEXT] = {"cls.seq_relationship"}, [WEIGHT_NEXT_BIAS] = {"cls.seq_relationship"}

#define BERT_POOLER [WEIGHT_POOLER] = {"pooler.dense"}, [WEIGHT_POOLER_BIAS] = {"pooler.dense"}

#endif
