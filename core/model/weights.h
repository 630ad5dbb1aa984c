/* Which weights an encoder has: for each its shape, its kind, and the number of its parts in published files. */
#ifndef WHERRY_MODEL_WEIGHTS_H
#define WHERRY_MODEL_WEIGHTS_H

#include "model/model.h"

enum weight_kind { WEIGHT_MATRIX, WEIGHT_BIAS, WEIGHT_GAMMA, WEIGHT_BETA };
/* Where a weight is: once before the layers, in every layer, or once at the end of models that have it. */
enum weight_presence {
    WEIGHT_ONCE,
    WEIGHT_TABLED, /* models with a table of positions */
    WEIGHT_TYPES,
    WEIGHT_PER_LAYER,
    WEIGHT_PRE_NORM,
    WEIGHT_OF_POOLER, /* BERT's pooler, or a head's dense layer */
    WEIGHT_OF_CLASSIFIER,
    WEIGHT_OF_VOCABULARY,
    WEIGHT_OF_UNTIED,
    WEIGHT_OF_NEXT, /* models that tell next sentences */
    WEIGHT_NARROW,
    WEIGHT_BY_DISTANCE,
    WEIGHT_OF_HEAD_NORM
};

struct weight_rule {
    enum weight weight;
    enum weight_kind kind;
    enum weight_presence presence;
    const char *shape; /* letters of one part, as in graph.h */
    int parts;         /* of which it is made in published files, without a gate (weight_rule_parts) */
    bool bare;         /* its name in files ends with its module's */
};

extern const struct weight_rule weight_rules[];
extern const size_t weight_rules_count;

/* The rule's layers: from *first (-1 outside the layers) to, and without, *end; none where the model lacks it. */
void weight_rule_layers(const struct weight_rule *rule, const wherry_model_config *config, int *first, int *end);
/* Whether one of these layers has it: mixtures of experts have other feed-forwards. */
bool weight_rule_in_layer(const struct weight_rule *rule, const wherry_model_config *config, int layer);
/* Parts of this model's: with a gate its halves are two. */
int weight_rule_parts(const struct weight_rule *rule, const wherry_model_config *config);
/* Sizes of a part; returns their number. */
int weight_rule_shape(const struct weight_rule *rule, const wherry_model_config *config, int part, uint64_t shape[2]);

/* Fills in what a tensor of a file holds, where it has this shape and a type that is read. */
bool weight_part_check(const struct safetensors *file, const struct safetensors_tensor *t, const uint64_t *shape,
                       int rank, struct weight_part *out, struct error *e);

/* Gives all weights memory of the model's, and random values of the seed. range < 0: such that activations keep their
 * size from layer to layer; else as transformers begins, matrices and tables deviating by it. */
bool model_fill(struct wherry_model *model, uint64_t seed, float range, struct error *e);
/* `count` values from -bound to bound, each as likely: functions of seed, `place` and number. */
void random_uniform(uint64_t seed, uint64_t place, float bound, float *out, size_t count);
/* A model with room for its weights' parts and nothing else; to be given back by model_close. */
struct wherry_model *model_allocate(const struct host *host, const wherry_model_config *config, struct error *e);

#endif
