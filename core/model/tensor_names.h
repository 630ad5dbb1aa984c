/* What a model's weights are called in its files. */
#ifndef WHERRY_MODEL_TENSOR_NAMES_H
#define WHERRY_MODEL_TENSOR_NAMES_H

#include "model/architecture.h"
#include "model/weights.h"

enum { TENSOR_NAME = 160 };

/* "bert.encoder.layer.3.output.LayerNorm.gamma"; `old` are the names of files converted from TensorFlow. */
void weight_name(const struct architecture *a, const wherry_model_config *config, const char *prefix,
                 const struct weight_rule *rule, int layer, int part, bool old, char *name, size_t size);

/* Parts of a weight in this architecture's files, which may have one for all, and the sizes of part `part`; returns
 * their number. a NULL: as many as there can be. */
int weight_parts(const struct architecture *a, const struct weight_rule *rule, const wherry_model_config *config);
int weight_shape(const struct architecture *a, const struct weight_rule *rule, const wherry_model_config *config,
                 int part, uint64_t shape[2]);

/* One part of a weight, as the model's files have it. */
struct model_tensor {
    char name[TENSOR_NAME]; /* of other files than the encoder's with the path: "2_Dense/linear.weight" */
    int rank;
    uint64_t shape[2];
    uint64_t elements;
    enum weight_kind kind;
};
/* The model has it (model_weight). Of random weights, which no file has: as transformers would call them. */
void model_tensor(const struct wherry_model *model, enum weight weight, int layer, int part, struct model_tensor *out);

/* What stands before the names of the encoder's tensors in this model's files: "bert.", or "". */
const char *model_tensor_prefix(const struct wherry_model *model);
/* The architecture of a model, of random weights the one that has such a shape; NULL: none has. */
const struct architecture *model_architecture(const struct wherry_model *model, const struct family **family);
/* The path of a module's folder in the model's. */
const char *module_path(const struct wherry_model *model, uint32_t module);

#endif
