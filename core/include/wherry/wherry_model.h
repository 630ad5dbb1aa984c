/* Models, their prompts and their tokenizers. Part of wherry.h, whose rules hold here.
 */
#ifndef WHERRY_WHERRY_H
#include <wherry/wherry.h> /* which includes this where it needs it */
#elif !defined(WHERRY_MODEL_H)
#define WHERRY_MODEL_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wherry_model wherry_model;

typedef enum wherry_pool {
    WHERRY_POOL_DEFAULT = 0, /* what the model's own files say; mean where they say nothing */
    WHERRY_POOL_MEAN,
    WHERRY_POOL_CLS,
    WHERRY_POOL_MAX,
    WHERRY_POOL_POOLER,        /* BERT's pooler: tanh(W * first token + b); needs its weights */
    WHERRY_POOL_NONE,          /* one vector per token */
    WHERRY_POOL_LAST,          /* the last token */
    WHERRY_POOL_MEAN_SQRT,     /* the sum, divided by the root of the number of tokens */
    WHERRY_POOL_WEIGHTED_MEAN, /* token t, from 0, counts t + 1 times */
    WHERRY_POOL_COMBINED       /* several side by side, as the model's files say */
} wherry_pool;

typedef enum wherry_activation {
    WHERRY_ACTIVATION_GELU = 0, /* by erf */
    WHERRY_ACTIVATION_GELU_TANH,
    WHERRY_ACTIVATION_RELU,
    WHERRY_ACTIVATION_SILU /* x times its sigmoid */
} wherry_activation;

/* Which half of what the feed-forward's first product makes goes through the activation; the other one is multiplied by
 * the result. */
typedef enum wherry_gate {
    WHERRY_GATE_NONE = 0, /* there are no halves: the product is feed_forward wide, and twice as wide with a gate */
    WHERRY_GATE_FIRST,
    WHERRY_GATE_SECOND
} wherry_gate;

/* How norms are computed. */
typedef enum wherry_norm {
    WHERRY_NORM_LAYER = 0, /* layernorm: (x - mean) / deviation, times w, plus b */
    WHERRY_NORM_RMS,       /* x over the root of its mean square, times w; without b */
    WHERRY_NORM_RMS_ONE    /* the same, times 1 + w */
} wherry_norm;

/* Products without a bias, and norms that are not there or have none. */
enum {
    WHERRY_WITHOUT_QKV_BIAS = 1,
    WHERRY_WITHOUT_OUT_BIAS = 2,  /* of the product after attention */
    WHERRY_WITHOUT_LIN1_BIAS = 4, /* of the feed-forward's first product, and of its second one */
    WHERRY_WITHOUT_LIN2_BIAS = 8,
    WHERRY_WITHOUT_NORM_BIAS = 16,  /* of every norm but those of modules after the pooling */
    WHERRY_WITHOUT_FIRST_NORM = 32, /* pre-LN: the norm before the first layer's attention */
    WHERRY_WITHOUT_EMBED_NORM = 64, /* the norm of the embeddings */
    WHERRY_WITHOUT_HEAD_BIAS = 128, /* of the dense layer before a classifier or the vocabulary */
    WHERRY_WITHOUT_CLASSIFIER_BIAS = 256
};

/* What stands on the layers. */
typedef enum wherry_head {
    WHERRY_HEAD_NONE = 0,
    WHERRY_HEAD_SEQUENCE, /* classes of a text or a pair, from its first token: a dense layer, then the classifier */
    WHERRY_HEAD_TOKENS,   /* classes of each token: the classifier, where head_activation says so after a dense layer */
    WHERRY_HEAD_VOCABULARY /* scores of the vocabulary for a token: a dense layer, a layernorm, the word table */
} wherry_head;

/* Of a head's dense layer. */
typedef enum wherry_head_activation {
    WHERRY_HEAD_PLAIN = 0, /* there is no dense layer: the classifier reads the token's row */
    WHERRY_HEAD_TANH,
    WHERRY_HEAD_RELU,
    WHERRY_HEAD_GELU, /* by erf */
    WHERRY_HEAD_GELU_TANH
} wherry_head_activation;

/* What an encoder is, without its weights. */
typedef struct wherry_model_config {
    uint32_t struct_size;
    uint32_t layers, hidden, heads, feed_forward;
    uint32_t vocabulary, positions, token_types;
    wherry_activation activation;
    bool pre_layernorm; /* false: post-LN, as in BERT; true: there is one more norm after the last layer */
    bool pooler;        /* BERT's pooler is there */
    float epsilon;      /* of every layernorm; 0: 1e-12 */
    /* The row of the table of positions that the first token has. A token that is the padding token, whose id is one
     * less, has that row and counts for none. A sequence has at most positions - position_offset tokens. */
    uint32_t position_offset;
    uint32_t embedding; /* columns of the embeddings' tables and of their layernorm, which a product then makes `hidden`
                           of; 0: hidden, and no product */
    /* MPNet: scores get a bias by how far the key is from the query. Rows of its table, half of them for keys after the
     * query, and the distance from which on all keys share a row; 0: there is none. */
    uint32_t relative_buckets, relative_distance;
    wherry_head head;
    uint32_t labels; /* classes: of WHERRY_HEAD_SEQUENCE and WHERRY_HEAD_TOKENS at least 1, else 0 */
    wherry_head_activation head_activation;
    bool untied; /* WHERRY_HEAD_VOCABULARY: its scores are products with a matrix of its own, not with the word table */
    wherry_gate gate;
    uint32_t without; /* WHERRY_WITHOUT_*, added */
    /* Rotary positions: channels c and c + half of each head of Q and K are turned by position / rotary_base^(2c /
     * channels), and there is no table of positions. 0: there is one. */
    float rotary_base;
    /* Of layers with a window; 0: rotary_base. */
    float rotary_base_local;
    /* Rotary positions of a model made for shorter texts: bases are multiplied by it, and all angles divided by
     * rotary_factor^(2 / channels). 0 and 1: it is none. */
    float rotary_factor;
    bool head_norm;   /* a norm stands after a classifier's dense layer and its activation */
    bool head_mean;   /* WHERRY_HEAD_SEQUENCE: it reads the mean of a text's tokens, not the first one */
    wherry_norm norm; /* of all but the modules after the pooling */
    /* Grouped queries: heads of K and V, each of as many neighbouring heads of Q; 0: as many as there are of Q. */
    uint32_t key_heads;
    uint32_t head_channels; /* 0: hidden / heads */
    bool head_norms;        /* before rotary positions, Q and K of each head are normed: by their root mean square */
    /* Which keys a query sees, and what their scores get. No key after it: */
    bool causal;
    /* Only keys with |i - j| <= window; 0: all. Of layers with (layer % global_every) == global_first a query sees all
     * keys (but with `causal`); global_every 0: there are none. */
    uint32_t window, global_every, global_first;
    /* ALiBi: a score gets -slope(head) * |i - j| (slopes fall geometrically, the rule of Press et al.), and there is no
     * table of positions. */
    bool alibi;
    bool head_last;        /* WHERRY_HEAD_SEQUENCE: it reads a text's last token, not the first one */
    bool block_norms;      /* what attention makes, and the feed-forward, is normed before it is added */
    float embedding_scale; /* words' embeddings are multiplied by it; 0: they are not */
    /* WHERRY_HEAD_VOCABULARY: there are weights, a pooler's among them, that tell whether the second part of a pair
     * comes after the first in one text (BertForPreTraining). */
    bool next_sentence;
    /* Values go beyond the range of f16: sessions of it are refused, and by default they are of bf16. */
    bool beyond_f16;
    /* A mixture of experts: layers with (layer % experts_every) == 1 have so many feed-forwards without a gate or a
     * bias of the first product, of which each token takes the chosen_experts whose scores are highest (of equal ones
     * the first), by the softmax of all scores; experts_normalized: divided by the sum of those chosen. 0: none. */
    uint32_t experts, chosen_experts, experts_every;
    bool experts_normalized;
    /* Rotary positions that stretch (dynamic NTK): a text of more than rotary_trained tokens has the base rotary_base *
     * (rotary_dynamic * (its length / rotary_trained - 1) + 1)^(channels / (channels - 2)), by its own length, whatever
     * else is in the batch. Of layers of rotary_base alone. 0 and 0: bases are the same for all texts. */
    float rotary_dynamic;
    uint32_t rotary_trained;
    /* All heads of Q at once are normed before scores, and all of K: a layernorm of `hidden` channels. */
    bool wide_norms;
    bool double_norms; /* post-LN: what attention makes is added to what it read and normed, and then once more */
} wherry_model_config;

/* What makes scores of a classifier's logits. */
typedef enum wherry_scores {
    WHERRY_SCORES_IDENTITY = 0,
    WHERRY_SCORES_SIGMOID, /* each label for itself */
    WHERRY_SCORES_SOFTMAX  /* over a row's labels */
} wherry_scores;

typedef struct wherry_model_info {
    uint32_t struct_size; /* set by the caller */
    wherry_model_config config;
    char architecture[64];
    wherry_pool pool;    /* the model's own */
    bool normalize;      /* the model's own: embeddings have length 1 */
    uint32_t max_tokens; /* longest sequence, special tokens included */
    uint64_t parameters;
    uint64_t weight_file_bytes;
    bool has_tokenizer;
    wherry_scores scores; /* what the model's files want to be made of its logits: wherry_scores_apply */
    uint32_t prompts;     /* named texts that the files want before others: wherry_model_prompt_name */
    int32_t mask_token;   /* the id of what WHERRY_OUTPUT_VOCABULARY is asked about; -1: the tokenizer has none */
    uint32_t dimensions;  /* to which the files cut embeddings (truncate_dim); 0: none */
    char tokenizer[24];   /* what it is of: "WordPiece", "Unigram", "BPE"; "": there is none */
    /* Ids, as the files name them; -1: the tokenizer has none. */
    int32_t cls_token, eos_token, pad_token, unknown_token;
    /* The folder has a file for WHERRY_OUTPUT_SPARSE, for WHERRY_OUTPUT_TOKEN_VECTORS; whether it can be read, and why
     * not, a session for that output says. */
    bool token_weights, token_vectors;
    bool words; /* the files make WHERRY_OUTPUT_WORDS of texts: what a session gives that names no output and no pool */
    /* Pairs become one text by the chat template of the model's files, with an instruction before them where the
     * template has a place for one (wherry_texts_desc.instruction): rerankers that are language models. */
    bool pair_template;
} wherry_model_info;

/* Opens a Hugging Face folder: config.json, model.safetensors (or shards with their index), the
 * tokenizer's files, and sentence-transformers' modules.json where it exists. Files of weights stay open, and are read
 * by wherry_session_prepare. They may be replaced (renamed over) or deleted meanwhile; one that was shortened,
 * lengthened or written to is an error there (WHERRY_STATUS_IO): open the model again. */
WHERRY_API wherry_status wherry_model_open(wherry_context *context, const char *folder, wherry_model **out);
/* Opens a folder with config.json and a tokenizer, and gives it random weights of `seed`, to train from nothing: as
 * transformers begins, matrices and tables deviate by initializer_range (0.02), biases are 0 and layernorms 1 and 0.
 * The same seed gives the same weights on every machine. Weights that the folder has are not looked at. */
WHERRY_API wherry_status wherry_model_open_new(wherry_context *context, const char *folder, uint64_t seed,
                                               wherry_model **out);
/* Adds a low-rank adapter (LoRA) to a model, before there are sessions of it: a folder that PEFT or a trainer wrote,
 * with adapter_config.json and adapter_model.safetensors. Weights that it changes are merged, W + scale B A, and in
 * memory of the model's from then on, in f32; whole weights of the adapter (modules_to_save) take the model's place. An
 * adapter of another model is WHERRY_STATUS_BAD_FORMAT, one with settings that are not supported
 * WHERRY_STATUS_UNSUPPORTED; of both the message has the name. A model takes one adapter. */
WHERRY_API wherry_status wherry_model_adapt(wherry_context *context, wherry_model *model, const char *folder);
/* Writes a model as a folder of its own, as wherry_trainer_save does: its weights as they are, those that an adapter
 * has changed included, in f32. `folder` must not exist, or be empty. */
WHERRY_API wherry_status wherry_model_save(wherry_context *context, const wherry_model *model, const char *folder);
/* A file of a model, by its path in the folder: "config.json", "1_Pooling/config.json". */
typedef struct wherry_model_file {
    const char *name;
    const void *data;
    uint64_t bytes;
} wherry_model_file;
/* A model's files that are in no folder of the system: blocks of memory, as of a packed resource or a mapped asset, or
 * whatever callbacks read; where both are given a name is looked for among the blocks first. */
typedef struct wherry_model_files {
    uint32_t struct_size;
    const wherry_model_file *files; /* [count] */
    size_t count;
    /* Both or neither. find says whether there is a file of this name, and its size; read gives all of so many bytes
     * from `offset` on, which the file has, or returns false. Names are as above, with "/" between folders. */
    bool (*find)(const char *name, uint64_t *bytes, void *user);
    bool (*read)(const char *name, uint64_t offset, void *to, size_t bytes, void *user);
    void *user;
} wherry_model_files;
/* Opens a model of such files, as wherry_model_open does a folder. The names are copied. What `data` points to stays
 * where it is, unchanged, and the callbacks stay callable, until the model is closed: weights are read by
 * wherry_session_prepare, from blocks without a copy, by callbacks from several threads at once. Messages name files
 * as "memory/config.json". */
WHERRY_API wherry_status wherry_model_open_memory(wherry_context *context, const wherry_model_files *files,
                                                  wherry_model **out);
/* A model of that shape with random weights from `seed`: for benchmarks and tests. No tokenizer. */
WHERRY_API wherry_status wherry_model_create_random(wherry_context *context, const wherry_model_config *config,
                                                    uint64_t seed, wherry_model **out);
/* One of the named shapes, such as "minilm-l6", "bert-base" or "xlmr-large"; fails on another name, listing them. */
WHERRY_API wherry_status wherry_model_config_named(wherry_context *context, const char *name, wherry_model_config *out);
WHERRY_API wherry_status wherry_model_describe(const wherry_model *model, wherry_model_info *out);
WHERRY_API void wherry_model_close(wherry_model *model);

/* The name of label `index`, as the model's files have it ("LABEL_0" where they have none); NULL past the last. Valid
 * until the model is closed. */
WHERRY_API const char *wherry_model_label(const wherry_model *model, uint32_t index);
/* Called with a token of the vocabulary, as UTF-8 with the tokenizer's own marks ("##ing"); one that spells bytes, as
 * RoBERTa's do, as the text that they are, with U+FFFD for half a character. `text` has no NUL after it, and may have
 * one in it. Returning false ends it. */
typedef bool (*wherry_token_callback)(int32_t id, const char *text, size_t bytes, void *user);
/* All tokens of the model's tokenizer but added ones, in no order. */
WHERRY_API wherry_status wherry_model_tokens(wherry_context *context, const wherry_model *model,
                                             wherry_token_callback callback, void *user);
/* Makes scores of `rows` rows of `labels` logits, in place. */
WHERRY_API void wherry_scores_apply(wherry_scores scores, float *logits, size_t rows, size_t labels);
/* The name of prompt `index`; NULL past the last. */
WHERRY_API const char *wherry_model_prompt_name(const wherry_model *model, uint32_t index);
/* The text that is put in front of others before they are tokenized. `name` NULL: the one that the files use where
 * none is asked for, "" where there is none such. WHERRY_STATUS_INVALID_ARGUMENT for another name than the files have:
 * the message lists these. WHERRY_STATUS_UNSUPPORTED where the model's pooling leaves the prompt's tokens out
 * (include_prompt false). */
WHERRY_API wherry_status wherry_model_prompt(wherry_context *context, const wherry_model *model, const char *name,
                                             const char **out);

/* How a text is taken that has a prompt: what late interaction (ColBERT) makes of queries and documents. */
typedef struct wherry_text_form {
    uint32_t struct_size;  /* set by the caller */
    uint32_t max_tokens;   /* it is cut to, with its special tokens and the prompt; 0: the model's limit */
    uint32_t least_tokens; /* it has, by added_token after its last one; 0: none is added */
    int32_t added_token;
    const int32_t *left_out; /* ids whose vectors do not count; valid until the model is closed */
    size_t left_out_count;
} wherry_text_form;
/* By the prompt's name: "query" and "document" mean something to models of token vectors, all others (and NULL) are
 * documents without a length. WHERRY_STATUS_UNSUPPORTED where a model's queries are expanded with tokens that no other
 * sees, and where the mark in front of texts is no token of its tokenizer's. */
WHERRY_API wherry_status wherry_model_text_form(wherry_context *context, const wherry_model *model, const char *name,
                                                wherry_text_form *out);

/* Token ids of a text, special tokens included, as the model's tokenizer files say. `pair` may be NULL; `types`, which
 * may be NULL, tell the two apart where the model does (they are 0 where it has no types). max_tokens > 0 cuts the
 * sequence as Hugging Face's "longest_first" does, on the side that the files name, special tokens kept; 0 cuts
 * nothing. Writes at most *count tokens and sets *count to the number there is: call with ids NULL to learn it. Lengths
 * are in bytes. Invalid UTF-8 is replaced by U+FFFD. Fails with WHERRY_STATUS_UNSUPPORTED for a model without a
 * tokenizer. */
WHERRY_API wherry_status wherry_tokenize(wherry_context *context, const wherry_model *model, const char *text,
                                         size_t text_bytes, const char *pair, size_t pair_bytes, size_t max_tokens,
                                         int32_t *ids, int32_t *types, size_t *count);

/* Where a token comes from. */
typedef struct wherry_token_place {
    int32_t text;                          /* 0: the text, 1: its pair, -1: a special token, which comes from neither */
    size_t first, end;                     /* bytes of that text: [first, end) */
    size_t first_character, end_character; /* the same in characters (Unicode scalar values), as Hugging Face counts */
    int32_t
        continues; /* 1: it continues a word ("##" of WordPiece), 0: it begins one, -1: the model has no such tokens */
} wherry_token_place;

/* The same with the place of each token; `types` and `places` may be NULL. A token that a normalizer made of nothing
 * has the place of what is next to it; white space before a word belongs to a token's place where the reference says
 * so. */
WHERRY_API wherry_status wherry_tokenize_places(wherry_context *context, const wherry_model *model, const char *text,
                                                size_t text_bytes, const char *pair, size_t pair_bytes,
                                                size_t max_tokens, int32_t *ids, int32_t *types,
                                                wherry_token_place *places, size_t *count);

#ifdef __cplusplus
}
#endif

#endif
