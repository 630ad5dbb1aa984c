/* The tiny models of tests/golden/make_architectures.py, for tests that compare with them: opened as folders, their
 * batches, and what came out. Include model_files.h first. */
#ifndef WHERRY_TESTS_GOLDEN_MODELS_H
#define WHERRY_TESTS_GOLDEN_MODELS_H

#include "support.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "model/safetensors.h"

#include <cmocka.h>

static wherry_context *context;
static json_t *models;
static struct safetensors golden;

#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        if (call) fail_msg("%s: %s", #call, wherry_last_error(context));                                               \
    } while (0)

/* ---- the golden files ---- */

/* NULL: there is none of that name. */
static inline void *golden_values(const char *name, const char *what, size_t *count)
{
    char full[128];
    struct error e = {0};
    snprintf(full, sizeof full, "%s/%s", name, what);
    const struct safetensors_tensor *t = safetensors_find(&golden, full);
    if (!t) return NULL;
    void *values = malloc(t->bytes + 1);
    if (!safetensors_read(&golden, t, 0, t->bytes, values, &e)) fail_msg("%s", e.text);
    *count = t->bytes / 4;
    return values;
}

static inline const char *text_of(const json_t *model, const char *key)
{
    return json_string_value(json_object_get(model, key));
}

static inline bool is_trained(const json_t *model) { return !strncmp(text_of(model, "name"), "train-", 6); }

/* The first of its architecture, whose shape all first ones have. */
static inline bool is_first(const json_t *model)
{
    return strcspn(text_of(model, "name"), "-") == strlen(text_of(model, "name"));
}

static inline void write_shard(struct tensor_writer *w, const char *folder, const char *file, char **map)
{
    *map = tiny_map(*map, w, file);
    tensors_write(w, folder, file);
}

static inline void write_model(const char *folder, const json_t *model)
{
    static const char one[] = "model.safetensors", first[] = "model-00001-of-00002.safetensors",
                      second[] = "model-00002-of-00002.safetensors";
    const json_t *tensors = json_object_get(model, "tensors");
    bool sharded = json_is_true(json_object_get(model, "sharded"));
    char *config = json_dumps(json_object_get(model, "config"), 0), *map = NULL;
    struct tensor_writer w = {0};
    files_write_text(folder, "config.json", config);
    free(config);
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *tensor = json_array_get(tensors, i), *sizes = json_array_get(tensor, 1);
        const char *name = json_string_value(json_array_get(tensor, 0));
        uint32_t shape[2] = {0};
        for (size_t k = 0; k < json_array_size(sizes); k++)
            shape[k] = (uint32_t)json_integer_value(json_array_get(sizes, k));
        if (sharded && i == json_array_size(tensors) / 2) write_shard(&w, folder, first, &map);
        char valued[160], *norm;
        snprintf(valued, sizeof valued, "%s", name);
        /* Norms that multiply by 1 + w. */
        if (json_is_true(json_object_get(model, "around_zero")) && (norm = strstr(valued, "norm.weight")))
            memcpy(norm, "none", 4);
        tensor_add(&w, name, valued, text_of(model, "dtype"), shape, (int)json_array_size(sizes));
    }
    write_shard(&w, folder, sharded ? second : one, &map);
    char *index = files_format("{\"metadata\": {}, \"weight_map\": {%s}}", map);
    if (sharded) files_write_text(folder, "model.safetensors.index.json", index);
    free(index);
    free(map);
}

static inline wherry_model *open_model(const json_t *model)
{
    char *folder = files_folder();
    wherry_model *made;
    write_model(folder, model);
    if (wherry_model_open(context, folder, &made))
        fail_msg("%s: %s", text_of(model, "name"), wherry_last_error(context));
    files_remove(folder); /* its files stay open */
    return made;
}

static inline wherry_batch golden_batch(const json_t *model)
{
    const char *name = text_of(model, "name");
    size_t count;
    wherry_batch batch = {.struct_size = sizeof batch,
                          .offsets = golden_values(name, "offsets", &count),
                          .ids = golden_values(name, "ids", &count),
                          .types = golden_values(name, "types", &count)};
    assert_non_null(batch.offsets);
    while (batch.offsets[batch.sequences] < count) batch.sequences++;
    return batch;
}

static inline void batch_free(wherry_batch *batch)
{
    free((void *)batch->offsets);
    free((void *)batch->ids);
    free((void *)batch->types);
}

/* ---- comparing ---- */

static inline double cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Of a token's vector. What bf16 costs depends on the model: what it costs transformers is in its description, and
 * twice that is taken, and three times in the plans that store more tensors, each rounded. Kept at 0.9995 but for
 * blocks whose results are normed (Gemma's), which make more of every rounding. */
static inline double least_cosine_of(wherry_dtype dtype, const json_t *description, const wherry_model_config *config,
                                     const char *plan)
{
    if (dtype != WHERRY_DTYPE_BF16) return dtype == WHERRY_DTYPE_F32 ? 0.99999 : 0.9999;
    const json_t *theirs = json_object_get(description, "bf16");
    if (!json_is_real(theirs)) fail_msg("%s: no \"bf16\" (make_architectures.py)", text_of(description, "name"));
    double least = 1 - (strcmp(plan, "flash") ? 3 : 2) * (1 - json_real_value(theirs));
    return fmin(0.9999, config->block_norms ? least : fmax(least, 0.9995));
}

/* Rows of vectors and their values, of which 16 bits err by their size. */
static inline void expect_rows(const char *what, const float *got, const float *want, size_t rows, size_t size,
                               wherry_dtype dtype, double least)
{
    for (size_t r = 0; r < rows; r++) {
        double c = cosine(got + r * size, want + r * size, size), worst = 0, largest = 1;
        for (size_t i = r * size; i < (r + 1) * size; i++) {
            worst = fmax(worst, fabs((double)got[i] - want[i]));
            largest = fmax(largest, fabs((double)want[i]));
        }
        double most = dtype == WHERRY_DTYPE_F32 ? 1e-4 : dtype == WHERRY_DTYPE_F16 ? 2e-2 * largest : 0.3 * largest;
        if (!(c >= least) || !(worst <= most))
            fail_msg("%s: row %zu has cosine %.7f, largest difference %.3g", what, r, c, worst);
    }
}

static inline const json_t *find_model(const char *name)
{
    for (size_t m = 0; m < json_array_size(models); m++)
        if (!strcmp(text_of(json_array_get(models, m), "name"), name)) return json_array_get(models, m);
    fail_msg("there is no model %s", name);
    return NULL;
}

static inline void golden_open(void)
{
    struct error e = {0};
    const char *path = TEST_DATA "/../golden/architectures.safetensors";
    models = json_load_file(TEST_DATA "/../golden/architectures.json", 0, NULL);
    if (!safetensors_open(&support_host, path, &golden, &e)) fail_msg("%s", e.text);
    assert_true(json_array_size(models) > 0);
}

static inline void golden_close(void)
{
    json_decref(models);
    safetensors_close(&support_host, &golden);
}

#endif
