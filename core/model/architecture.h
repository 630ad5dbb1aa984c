/* An architecture is a table: how its config.json spells the sizes, what its tensors are called, which shapes of it
 * have a name. Nothing else knows an architecture's name: what is computed follows from wherry_model_config alone.
 *
 * To add one: a file in architectures/ and its line in architecture.c. */
#ifndef WHERRY_MODEL_ARCHITECTURE_H
#define WHERRY_MODEL_ARCHITECTURE_H

#include <stddef.h>

#include <jansson.h>

#include "graph/graph.h"

/* A value of config.json that wherry_model_config has. */
struct size_key {
    size_t field;        /* offset of a uint32_t of it */
    const char *keys[3]; /* its spellings, NULL past the last. Where a file has several, they must agree */
    uint32_t otherwise;  /* where the file has none; 0: it must be there */
    bool none;           /* 0 is a size, too */
};

/* A family that has the architecture. */
struct family {
    const char *type;      /* model_type */
    const char *classes;   /* what its classes' names begin with: "Bert" of "BertForMaskedLM" */
    const char *tokenizer; /* its tokenizer's class, where tokenizer_config.json names none */
    /* A tokenizer's older files, by the one that has its tokens, which may stand for tokenizer.json; NULL past the
     * last. A family may have none: files of such a name make another tokenizer than its own there. */
    const char *files[3];
};

struct named_shape {
    const char *name;
    wherry_model_config config; /* struct_size is not set */
};

/* The heads of task models, whose tensors' names have no prefix. Classes of texts: a dense layer, a classifier. Tokens
 * have modules[WEIGHT_CLASSIFIER]. */
struct head_names {
    wherry_head_activation activation; /* of the dense layer */
    const char *dense;                 /* NULL: the encoder's pooler */
    const char *out;                   /* NULL: as for tokens */
    wherry_head_activation vocabulary; /* of the dense layer before the vocabulary; PLAIN: the feed-forward's */
    bool norm;                         /* a norm stands after the dense layer's activation */
    bool tokens;                       /* classes of tokens have the dense layer, too */
    const char *logits; /* of a causal language model: the matrix of words' logits, where it is not the word table;
                           NULL: it is no reranker */
};

struct architecture {
    const struct family *families; /* type NULL past the last */
    const struct size_key *sizes;  /* keys[0] NULL past the last */
    const char *activation;        /* the key of the feed-forward's activation, gelu where the file has none */
    const char *epsilon; /* the key of the layernorms' epsilon, the preset's, else 1e-12 where the file has none; NULL:
                            always */
    /* The key of the padding token's id: the first token has the position after it. NULL: the preset's. */
    const char *padding;
    uint32_t padding_otherwise; /* the id where the file has none */
    bool rotary;                /* positions are rotary */
    bool windows;               /* sliding_window is read */
    const char *position_types; /* a position_embedding_type beside "absolute", NULL: there is none */
    /* Reads what no size says, after the sizes; NULL: nothing. */
    bool (*read)(const json_t *json, wherry_model_config *config, struct error *e);
    /* Writes that; NULL: nothing. */
    void (*write)(const wherry_model_config *config, json_t *json, bool *ok);
    /* Ends of programs of their own that files name, whose computation this is, NULL past the last; others are
     * refused. */
    const char *programs[3];
    /* What its files' program, or the path that they came from, has in its name, where others have the same type and
     * class; NULL: these need not say where they came from. */
    const char *origin;
    const struct architecture *other; /* the same under the names that other files have; NULL: there are none */
    const char *fixed;                /* the key of a number that can't be another, NULL: none */
    uint32_t fixed_value;
    wherry_model_config preset; /* what no key says; struct_size is not set */
    /* Of tensors' names: what may stand before all of them, tried in turn, "" last; what stands before a layer's
     * number; and the module of each part of each weight, NULL: the architecture has no such weight. Of the
     * feed-forward's first product the third, where there is one, is its name without a gate. */
    const char *prefixes[3];
    const char *layer;
    const char *modules[WEIGHT_COUNT][3];
    struct head_names head;
    const struct named_shape *shapes; /* name NULL past the last */
};

/* The one of this model_type and class, of which one may be NULL, and, of several, of this origin, which may be NULL;
 * NULL: none. *family: which of its families. Without a model_type the class must be one that the family is known to
 * have. */
const struct architecture *architecture_find(const char *type, const char *name, const char *origin,
                                             const struct family **family);
/* Of a model of random weights: the first that has such a shape, NULL: none. *family: its first. */
const struct architecture *architecture_of_shape(const wherry_model_config *config, const struct family **family);
/* Whether its encoders may have so many types of tokens, which may be none. */
bool architecture_takes_types(const struct architecture *a, uint32_t token_types);
/* The model types that are supported, with commas between them. */
void architecture_types(char *text, size_t size);
/* The config of a named shape; false, with the list of names: there is none. */
bool architecture_shape(const char *name, wherry_model_config *out, struct error *e);

#endif
