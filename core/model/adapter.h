/* Low-rank adapters as files: folders that PEFT reads and writes, adapter_config.json with adapter_model.safetensors.
 * An adapter changes linear layers of a model, W = W0 + scale B A, and may bring other weights as a whole
 * (modules_to_save). */
#ifndef WHERRY_MODEL_ADAPTER_H
#define WHERRY_MODEL_ADAPTER_H

#include <jansson.h>

#include "base/new_folder.h"
#include "model/safetensors.h"
#include "model/tensor_names.h"

struct adapter_settings {
    uint32_t rank;
    float alpha;
    bool root; /* scale is alpha / sqrt(rank) ("rank-stabilized"), else alpha / rank */
};
float adapter_scale(const struct adapter_settings *settings);

/* ---- a model's linear layers ---- */

struct linear_layer {
    char module[TENSOR_NAME]; /* as the model's files have it: "bert.encoder.layer.0.attention.self.query" */
    uint64_t rows, columns;
};
/* False: that part of that weight is no linear layer's matrix, or has no name in the model's files. */
bool linear_layer_of(const struct wherry_model *model, enum weight weight, int layer, int part,
                     struct linear_layer *out);
/* Whether PEFT's target, "query" or "attention.output.dense", names a module: it is that, or what a path ends with. */
bool module_is(const char *module, const char *target);
/* Whether a weight's name, "classifier.dense.weight", is of a module that is saved as a whole, "classifier". */
bool module_has(const char *weight, const char *module);

/* ---- files ---- */

/* A linear layer's. */
struct adapter_pair {
    enum weight weight;
    int layer, part;
    uint64_t rows, columns;
    struct weight_part a, b; /* [rank][columns], [rows][rank] */
};
struct adapter_whole {
    enum weight weight;
    int layer, part;
    struct weight_part values;
};

struct adapter_file {
    struct adapter_settings settings;
    json_t *config;
    struct safetensors file;
    struct adapter_pair *pairs; /* [n_pairs] */
    size_t n_pairs;
    struct adapter_whole *wholes; /* [n_wholes] */
    size_t n_wholes;
};

/* Opens a folder's adapter, and finds what it has in the model: every tensor of it, with the shapes that it needs. What
 * would be computed otherwise here is an error that names the setting. `out` stays where it is. */
bool adapter_open(const struct wherry_model *model, const char *folder, struct adapter_file *out, struct error *e);
void adapter_close(const struct host *host, struct adapter_file *file); /* accepts a zeroed one */
/* Whether a folder has an adapter. */
bool adapter_is_in(const struct host *host, const char *folder, bool *has, struct error *e);

/* ---- merging ---- */

/* W += scale B A, all of them as the model's files have them. */
void adapter_add(const float *a, const float *b, uint32_t rank, uint64_t rows, uint64_t columns, float scale, float *w);
/* See wherry_model_adapt. */
bool model_adapt(struct wherry_model *model, const char *folder, struct error *e);

/* ---- writing ---- */

struct adapter_entry {
    char name[TENSOR_NAME + 40];
    int rank;
    uint64_t shape[2];
};
/* "base_model.model." and the module as PEFT knows it: it has no prefix in the bare encoder, which is what models of
 * embeddings are there. `ending`: ".lora_A.weight", or "". */
void adapter_name(const struct wherry_model *model, bool bare, const char *module, const char *ending, char *out,
                  size_t size);
/* Writes the configuration. targets, saved: arrays of names, or a text; kept. `task`: PEFT's, "SEQ_CLS"; NULL: none. */
bool adapter_config_write(const struct wherry_model *model, const struct adapter_settings *settings,
                          const json_t *targets, const json_t *saved, const char *task, const struct new_folder *folder,
                          struct error *e);
/* Begins the file of weights, as safetensors_begin. */
bool adapter_weights_begin(const struct new_folder *folder, const struct adapter_entry *entries, size_t count,
                           const struct host *host, struct new_file *out, struct error *e);

#endif
