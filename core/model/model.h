/* A model read from its published files, or made of random numbers: configuration, weights, tokenizer. Immutable once
 * made. */
#ifndef WHERRY_MODEL_MODEL_H
#define WHERRY_MODEL_MODEL_H

#include "graph/graph.h"
#include "model/prompts.h"

struct architecture;
struct safetensors;
struct safetensors_tensor;
struct tokenizer;
struct labels;
struct token_heads;
struct late;

/* How a weight is stored in the file. */
enum weight_type { WEIGHT_TYPE_F32, WEIGHT_TYPE_F16, WEIGHT_TYPE_BF16 };

/* What is known of a weight's values: sessions look when they need it, from several threads. */
enum weight_range { RANGE_UNKNOWN, RANGE_F16 /* f16 holds them */ };

/* One stored matrix or vector, row-major: in memory, or in a file of weights. */
struct weight_part {
    const void *memory; /* any alignment; NULL: in a file */
    enum weight_type type;
    uint64_t elements; /* 0: the model has no such part */
    const struct safetensors *file;
    const struct safetensors_tensor *tensor;
};

/* What sentence-transformers' modules put after the encoder, but the normalization. */
struct head_modules {
    wherry_pool pools[POOLS_MOST]; /* of WHERRY_POOL_COMBINED */
    uint32_t n_pools;
    struct module list[MODULES_MOST];
    uint32_t count;
    char *paths[MODULES_MOST]; /* of their folders; owned */
    struct safetensors *files; /* [opened]: what their weights are read from; owned */
    uint32_t opened;
    struct word_weights words; /* of a SpladePooling */
};

struct wherry_model {
    struct host host; /* a copy: the model may outlive its context's thread */
    wherry_model_info info;
    const struct architecture *architecture; /* NULL: of random weights */
    struct tokenizer *tokenizer;             /* NULL: none */
    struct head_modules modules;
    struct token_heads *token_heads; /* owned, NULL: none was looked for */
    struct late *late;               /* owned, NULL: nothing was read */
    struct prompts prompts;
    struct labels *labels;      /* names of classes; owned, NULL: no names */
    struct file_source *source; /* that host.files is; owned, NULL: folders */
    char *folder;               /* that it was opened from; owned, NULL: random weights */
    struct model_files *files;  /* what the parts are read from; owned, NULL: no file */
    void *memory;               /* the same for random weights; owned */
    float *adapted;             /* the same for weights that an adapter has changed; owned, NULL: none has */
    float *word_row;            /* the head of a LogitScore; owned, NULL: it is none */
    float *rotary;              /* [positions][channels of a head]: the table that no file has; owned, NULL: none */
    float *rotary_local;        /* that of layers with a window; owned, NULL: none of its own */
    /* Parts of weight w of layer l at [l + 1][w][part] (layer -1 first): three parts for QKV and its bias where files
     * have them apart, two for the halves of a gate, one elsewhere, zeroed ones where the model has none. */
    struct weight_part (*weights)[WEIGHT_COUNT][3];
    _Atomic unsigned char (*ranges)[WEIGHT_COUNT]; /* weight_range of weight w of layer l at [l + 1][w] */
};

/* Number of parts (1 to 3), 0 where the model lacks this weight. */
int model_weight(const struct wherry_model *model, enum weight weight, int layer, const struct weight_part **parts);
/* `elements` values from element `first` on, in the type `as`, rounded to nearest even. What is not finite, and what
 * is too large for that type, is an error that names file, tensor, place and value. `raw`: WEIGHT_RAW_BYTES in which
 * bytes of the file wait. Several threads may read one part at once, each with its own memory. */
enum { WEIGHT_RAW_BYTES = 1 << 18 };
bool weight_convert(const struct weight_part *part, uint64_t first, uint64_t elements, enum weight_type as, void *raw,
                    void *out, struct error *e);
/* Reads them for what that would refuse, with no advice in the sentence. */
bool weight_check(const struct weight_part *part, uint64_t first, uint64_t elements, enum weight_type as, void *raw,
                  struct error *e);

/* Parts back to back, in another order: as it lies there, its outer index from `first` on, `count` of them.
 * `strip` has room for ORDER_STRIP * count values; it is for transposed ones. Errors and `raw` as above. */
enum { ORDER_STRIP = 32 };
bool weight_convert_order(const struct weight_part *parts, const struct matrix_order *order, uint64_t first,
                          uint64_t count, enum weight_type as, void *raw, void *strip, void *out, struct error *e);
/* The whole of it back, and there. */
void floats_from_order(const struct matrix_order *order, const float *from, float *to);
void floats_to_order(const struct matrix_order *order, const float *from, float *to);

/* See wherry_model_open and wherry_model_create_random. */
/* Of its config.json and tokenizer alone, with random weights. */
bool model_open_new(const struct host *host, const char *folder, uint64_t seed, struct wherry_model **out,
                    struct error *e);
bool model_open(const struct host *host, const char *folder, struct wherry_model **out, struct error *e);
bool model_open_memory(const struct host *host, const wherry_model_files *files, struct wherry_model **out,
                       struct error *e);
bool model_random(const struct host *host, const wherry_model_config *config, uint64_t seed, struct wherry_model **out,
                  struct error *e);
void model_close(struct wherry_model *model); /* accepts NULL and half-made ones */

#endif
