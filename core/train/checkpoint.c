/* Where training stands, in two files of a folder beside the model's. */
#include "train/checkpoint.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/folder.h"
#include "model/safetensors_write.h"
#include "model/tensor_names.h"

static const char numbers_file[] = "training_state.json", tensors_file[] = "training_state.safetensors";
static const char data_name[] = "data";
static const char *const part_names[] = {[OPTIMIZER_FIRST] = "first", [OPTIMIZER_SECOND] = "second"};
enum { FORMAT = 1, PREFIXED = TENSOR_NAME + 16 };

static const char *const losses[] = {"",        "contrastive", "cosent",     "cosine", "vectors",        "margin",
                                     "classes", "binary",      "regression", "masked", "masked and next"};
static const char *const optimizers[] = {"adamw", "lamb", "sgd"};

/* ---- writing ---- */

/* A number of 64 bits is a text: readers of JSON have doubles. */
static json_t *number_text(uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return json_string(text);
}

static bool numbers_write(const struct wherry_trainer *t, const struct new_folder *folder, struct error *e)
{
    struct optimizer_state o = optimizer_state_get(t->optimizer);
    json_t *json = json_pack("{s:i, s:s, s:s, s:o, s:o, s:o, s:i, s:f}", "format", FORMAT, "loss", losses[t->loss_kind],
                             "optimizer", optimizers[t->optimizer_desc.kind], "seed", number_text(t->seed), "steps",
                             number_text(t->step), "changes", number_text(o.step), "clean_steps", (int)o.clean,
                             "loss_scale", o.scale);
    char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
    bool ok = text ? new_file_write(folder, numbers_file, text, strlen(text), e)
                   : fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "no memory for %s", numbers_file);
    free(text); /* jansson takes it from malloc */
    json_decref(json);
    return ok;
}

/* A moment of a gradient is one tensor, by the name of the first weight that it is of. */
static const struct trained_weight *first_of(const struct wherry_trainer *t, size_t gradient)
{
    size_t w = 0;
    while (t->weights.of[w].info.gradient != gradient) w++;
    return &t->weights.of[w];
}

static void moment_name(const struct wherry_trainer *t, enum optimizer_part part, size_t gradient, char name[PREFIXED])
{
    snprintf(name, PREFIXED, "%s/%s", part_names[part], first_of(t, gradient)->info.name);
}

/* Entry 0 is the caller's bytes; returns the number of entries. */
static size_t entries_list(const struct wherry_trainer *t, size_t bytes, struct safetensors_entry *entries,
                           char (*names)[PREFIXED])
{
    size_t n = 0;
    for (int part = OPTIMIZER_FIRST; part <= OPTIMIZER_SECOND; part++)
        for (size_t g = 0; g < t->weights.n_gradients; g++) {
            if (!optimizer_has(t->optimizer, (enum optimizer_part)part, g)) continue;
            moment_name(t, (enum optimizer_part)part, g, names[n]);
            entries[n] = (struct safetensors_entry){.name = names[n],
                                                    .dtype = "F32",
                                                    .rank = 1,
                                                    .shape = {t->weights.elements[g]},
                                                    .bytes = t->weights.elements[g] * sizeof(float)};
            n++;
        }
    entries[n] =
        (struct safetensors_entry){.name = data_name, .dtype = "U8", .rank = 1, .shape = {bytes}, .bytes = bytes};
    return n + 1;
}

static uint64_t most_elements(const struct wherry_trainer *t)
{
    uint64_t most = 1;
    for (size_t g = 0; g < t->weights.n_gradients; g++)
        if (t->weights.elements[g] > most) most = t->weights.elements[g];
    return most;
}

static bool moments_write(struct wherry_trainer *t, const struct new_file *file, struct error *e)
{
    float *values = host_alloc_unset(&t->context->host, (size_t)most_elements(t), sizeof *values, e);
    bool ok = values != NULL;
    for (int part = OPTIMIZER_FIRST; ok && part <= OPTIMIZER_SECOND; part++)
        for (size_t g = 0; ok && g < t->weights.n_gradients; g++) {
            size_t n = (size_t)t->weights.elements[g];
            if (!optimizer_has(t->optimizer, (enum optimizer_part)part, g)) continue;
            ok = optimizer_tensor_read(t->optimizer, (enum optimizer_part)part, g, values, n, e) &&
                 new_file_add(file, values, n * sizeof *values, e);
        }
    host_free(&t->context->host, values);
    return ok;
}

bool checkpoint_write(struct wherry_trainer *t, const struct new_folder *folder, const void *data, size_t bytes,
                      struct error *e)
{
    const struct host *host = &t->context->host;
    size_t most = 2 * t->weights.n_gradients + 1;
    struct safetensors_entry *entries = host_alloc(host, most, sizeof *entries, e);
    char(*names)[PREFIXED] = entries ? host_alloc(host, most, sizeof *names, e) : NULL;
    struct new_file file;
    bool ok = names && numbers_write(t, folder, e) &&
              safetensors_begin(folder, tensors_file, entries, entries_list(t, bytes, entries, names), &file, e);
    if (ok) ok = new_file_end(folder, &file, moments_write(t, &file, e) && new_file_add(&file, data, bytes, e), e);
    host_free(host, names);
    host_free(host, entries);
    return ok;
}

/* ---- numbers ---- */

static bool number_get(const json_t *json, const char *key, uint64_t *out, struct error *e)
{
    const char *text = json_string_value(json_object_get(json, key));
    char *end = NULL;
    if (text && *text >= '0' && *text <= '9') *out = strtoull(text, &end, 10);
    return (end && !*end) ||
           fail(e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is no number in a text: the file is damaged", key);
}

static bool same_text(const json_t *json, const char *key, const char *want, struct error *e)
{
    const char *have = json_string_value(json_object_get(json, key));
    return (have && !strcmp(have, want)) ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "it was written with the %s %.40s, and this trainer has %s: make the trainer as it was then, or begin "
                "anew from the folder as a model",
                key, have ? have : "of no name", want);
}

static bool numbers_parse(const struct wherry_trainer *t, const json_t *json, struct checkpoint *out, struct error *e)
{
    char seed[24];
    const json_t *format = json_object_get(json, "format"), *clean = json_object_get(json, "clean_steps"),
                 *scale = json_object_get(json, "loss_scale");
    if (json_integer_value(format) != FORMAT)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "its format is not %d: another version of the library wrote it",
                    FORMAT);
    snprintf(seed, sizeof seed, "%" PRIu64, t->seed);
    TRY(same_text(json, "loss", losses[t->loss_kind], e) &&
        same_text(json, "optimizer", optimizers[t->optimizer_desc.kind], e) && same_text(json, "seed", seed, e));
    TRY(number_get(json, "steps", &out->step, e) && number_get(json, "changes", &out->optimizer.step, e));
    out->optimizer.clean = (uint32_t)json_integer_value(clean);
    out->optimizer.scale = json_number_value(scale);
    return out->optimizer.scale > 0 ||
           fail(e, WHERRY_STATUS_BAD_FORMAT, "\"loss_scale\" is not over 0: the file is damaged");
}

bool checkpoint_open(const struct wherry_trainer *t, const char *folder, struct checkpoint *out, struct error *e)
{
    const struct host *host = &t->context->host;
    struct checkpoint state = {0};
    json_t *json = NULL;
    bool has = false;
    TRY(adapter_is_in(host, folder, &has, e));
    if (has != (t->lora != NULL))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    has ? "%.600s is of a training of adapters, and this trainer has none"
                        : "%.600s is no training of adapters, which this trainer has",
                    folder);
    TRY(folder_has(host, folder, numbers_file, &has, e));
    if (!has)
        return fail(e, WHERRY_STATUS_IO,
                    "%.600s has no %s: it is no folder that training can go on from, but maybe a model to begin with",
                    folder, numbers_file);
    TRY(json_file_read(host, folder, numbers_file, &json_config, 0, &json, e) &&
        json_file_end(host, folder, numbers_file, json, numbers_parse(t, json, &state, e), e));
    char *path = path_join(host, folder, tensors_file, e);
    bool ok = path && safetensors_open(host, path, &state.file, e);
    host_free(host, path);
    if (ok && !safetensors_find(&state.file, data_name)) {
        ok = fail(e, WHERRY_STATUS_BAD_FORMAT, "%.600s/%s has no tensor %s: the file is damaged", folder, tensors_file,
                  data_name);
        safetensors_close(host, &state.file);
    }
    if (ok) *out = state;
    return ok;
}

void checkpoint_close(const struct wherry_trainer *t, struct checkpoint *state)
{
    safetensors_close(&t->context->host, &state->file);
}

size_t checkpoint_data_bytes(const struct checkpoint *state)
{
    return (size_t)safetensors_find(&state->file, data_name)->bytes;
}

/* ---- weights and moments ---- */

static bool other_model(const char *folder, const char *name, struct error *e)
{
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "%.500s is of another model, or of one of which other weights were trained: %.150s differs", folder,
                name);
}

static const struct weight_part *part_of(const struct wherry_model *model, const struct trained_weight *w)
{
    if (w->layer >= (int)model->info.config.layers) return NULL;
    const struct weight_part *part = &model->weights[w->layer + 1][w->weight][w->part];
    return part->elements == w->info.elements ? part : NULL;
}

static bool weights_there(const struct wherry_trainer *t, const char *folder, const struct wherry_model *model,
                          struct error *e)
{
    for (size_t i = 0; i < t->weights.count; i++) {
        const struct trained_weight *w = &t->weights.of[i];
        struct model_tensor its;
        if (!part_of(model, w)) return other_model(folder, w->info.name, e);
        model_tensor(model, w->weight, w->layer, w->part, &its);
        if (strcmp(its.name, w->info.name) || its.shape[0] != w->info.shape[0])
            return other_model(folder, w->info.name, e);
    }
    return true;
}

static bool moments_there(const struct wherry_trainer *t, const struct checkpoint *state, const char *folder,
                          struct error *e)
{
    size_t moments = 0;
    for (int part = OPTIMIZER_FIRST; part <= OPTIMIZER_SECOND; part++)
        for (size_t g = 0; g < t->weights.n_gradients; g++) {
            char name[PREFIXED];
            if (!optimizer_has(t->optimizer, (enum optimizer_part)part, g)) continue;
            moment_name(t, (enum optimizer_part)part, g, name);
            const struct safetensors_tensor *tensor = safetensors_find(&state->file, name);
            if (!tensor || strcmp(tensor->dtype, "F32") || tensor->bytes != t->weights.elements[g] * sizeof(float))
                return other_model(folder, name, e);
            moments++;
        }
    return moments + 1 == state->file.count || other_model(folder, "the list of weights that are not frozen", e);
}

static bool weights_take(struct wherry_trainer *t, const struct wherry_model *model, float *values, struct error *e)
{
    void *raw = host_alloc_unset(&t->context->host, WEIGHT_RAW_BYTES, 1, e);
    bool ok = raw != NULL;
    for (size_t i = 0; ok && i < t->weights.count; i++) {
        const struct trained_weight *w = &t->weights.of[i];
        size_t n = (size_t)t->weights.elements[w->info.gradient];
        if (w->info.frozen) continue;
        ok = weight_convert(part_of(model, w), 0, w->info.elements, WEIGHT_TYPE_F32, raw, values + w->first, e);
        if (ok && w->first + w->info.elements == n)
            ok = optimizer_tensor_write(t->optimizer, OPTIMIZER_MASTER, w->info.gradient, values, n, e);
    }
    host_free(&t->context->host, raw);
    return ok;
}

static bool moments_take(struct wherry_trainer *t, const struct checkpoint *state, float *values, struct error *e)
{
    for (int part = OPTIMIZER_FIRST; part <= OPTIMIZER_SECOND; part++)
        for (size_t g = 0; g < t->weights.n_gradients; g++) {
            char name[PREFIXED];
            size_t n = (size_t)t->weights.elements[g];
            if (!optimizer_has(t->optimizer, (enum optimizer_part)part, g)) continue;
            moment_name(t, (enum optimizer_part)part, g, name);
            TRY(safetensors_read(&state->file, safetensors_find(&state->file, name), 0, n * sizeof *values, values, e));
            TRY(optimizer_tensor_write(t->optimizer, (enum optimizer_part)part, g, values, n, e));
        }
    return true;
}

bool checkpoint_read(struct wherry_trainer *t, const struct checkpoint *state, const char *folder,
                     const struct wherry_model *model, void *data, struct error *e)
{
    const struct safetensors_tensor *bytes = safetensors_find(&state->file, data_name);
    TRY((t->lora || weights_there(t, folder, model, e)) && moments_there(t, state, folder, e));
    float *values = host_alloc_unset(&t->context->host, (size_t)most_elements(t), sizeof *values, e);
    view_stale(t);
    bool ok = values && safetensors_read(&state->file, bytes, 0, (size_t)bytes->bytes, data, e) &&
              (t->lora ? lora_take(t, folder, e) : weights_take(t, model, values, e)) &&
              moments_take(t, state, values, e);
    host_free(&t->context->host, values);
    if (!ok) return false;
    optimizer_state_set(t->optimizer, &state->optimizer);
    t->step = state->step;
    return true;
}
