/* A model read from its published files, or made of random numbers: configuration, weights, tokenizer. Immutable once
 * made. */
#ifndef WHERRY_MODEL_MODEL_H
#define WHERRY_MODEL_MODEL_H

#include "graph/graph.h"

struct tokenizer;

/* How a weight is stored in the file. */
enum weight_type { WEIGHT_TYPE_F32, WEIGHT_TYPE_F16, WEIGHT_TYPE_BF16 };

/* One stored matrix or vector, row-major. */
struct weight_part {
    const void *data; /* any alignment */
    enum weight_type type;
    uint64_t elements;
};

struct wherry_model {
    struct host host; /* a copy: the model may outlive its context's thread */
    wherry_model_info info;
    struct tokenizer *tokenizer; /* NULL: none */
    struct model_files *files;   /* what the parts point into; owned, NULL: nothing is mapped */
    void *memory;                /* the same for random weights; owned */
    /* Parts of weight w of layer l at [l + 1][w][part] (layer -1 first): three parts for QKV and its bias, one
     * elsewhere, data NULL where the model has none. */
    struct weight_part (*weights)[WEIGHT_COUNT][3];
};

/* Number of parts (1 or 3), 0 where the model lacks this weight. */
int model_weight(const struct wherry_model *model, enum weight weight, int layer, const struct weight_part **parts);
/* `elements` values from element `first` on, as f32 or, rounded to nearest even, as f16. False when a finite value is
 * too large for f16 (it became infinite): the caller, who knows the tensor's name, makes the error. */
bool weight_convert(const struct weight_part *part, uint64_t first, uint64_t elements, bool f16, void *out);

/* Parts one behind the other, in another order: as it lies there, its outer index from `first` on, `count` of them.
 * `strip` has room for ORDER_STRIP * count values; it is for transposed ones. False as above. */
enum { ORDER_STRIP = 32 };
bool weight_convert_order(const struct weight_part *parts, const struct matrix_order *order, uint64_t first,
                          uint64_t count, bool f16, void *strip, void *out);
/* The whole of it back. */
void floats_from_order(const struct matrix_order *order, const float *from, float *to);

/* See wherry_model_open and wherry_model_create_random. */
bool model_open(const struct host *host, const char *folder, struct wherry_model **out, struct error *e);
bool model_random(const struct host *host, const wherry_model_config *config, uint64_t seed, struct wherry_model **out,
                  struct error *e);
void model_close(struct wherry_model *model); /* accepts NULL and half-made ones */
bool model_config_named(const char *name, wherry_model_config *out, struct error *e);

#endif
