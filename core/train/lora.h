/* A trainer's low-rank adapters: which layers have one, what they begin with, and their files. */
#ifndef WHERRY_TRAIN_LORA_H
#define WHERRY_TRAIN_LORA_H

#include "model/adapter.h"
#include "train/adapters.h"

struct wherry_trainer;

/* A linear layer with an adapter. */
struct lora_layer {
    enum weight weight;
    int layer, part;
    uint64_t rows, columns;
    char module[TENSOR_NAME];
};

struct lora {
    struct adapter_settings settings;
    struct adapters *adapters;
    struct lora_layer *layers; /* [count], in the order of the adapters */
    size_t count;
    json_t *targets, *saved; /* as adapter_config.json has them */
};

/* Chooses layers, freezes the rest, and plans: behind trained_weights_create. The trainer's weights get those of the
 * adapters. desc NULL: there are none, and t->lora stays NULL. */
bool lora_plan(struct wherry_trainer *t, const wherry_lora_desc *desc, struct error *e);
/* Their first values, once the optimizer has made them. */
bool lora_begin(struct wherry_trainer *t, const wherry_lora_desc *desc, struct error *e);
void lora_destroy(struct wherry_trainer *t);

/* ---- lora_merged.c ---- */

/* The layer's matrix with its adapter, in the order of the model's files. */
bool lora_merged(struct wherry_trainer *t, size_t layer, float *out, struct error *e);

/* ---- lora_files.c ---- */

/* adapter_config.json and adapter_model.safetensors. */
bool lora_write(struct wherry_trainer *t, const struct new_folder *folder, struct error *e);
/* Takes the values of a folder's, which has the same layers and settings. */
bool lora_take(struct wherry_trainer *t, const char *folder, struct error *e);

#endif
