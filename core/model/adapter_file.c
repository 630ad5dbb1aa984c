/* PEFT's adapter files, read: what the configuration may say, and where each tensor belongs in the model. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/folder.h"
#include "model/adapter.h"
#include "model/weights.h"

static const char config_name[] = "adapter_config.json", weights_name[] = "adapter_model.safetensors";
static const char before_all[] = "base_model.model.";

/* ---- the configuration ---- */

/* Nothing is said: absent, null, false, 0, empty. */
static bool says_nothing(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_object(value) && !json_object_size(value)) || (json_is_array(value) && !json_array_size(value)) ||
           (json_is_string(value) && !*json_string_value(value)) ||
           (json_is_number(value) && json_number_value(value) == 0);
}

/* What changes what an adapted layer computes, or what is stored beside A and B. */
static bool settings_check(const json_t *config, struct error *e)
{
    static const char *const unknown[] = {
        "use_dora",     "use_qalora",    "lora_bias",         "fan_in_fan_out",          "layer_replication",
        "rank_pattern", "alpha_pattern", "target_parameters", "trainable_token_indices", "alora_invocation_tokens",
        "use_bdlora",   "arrow_config",  "kasa_config",       "monteclora_config",       "velora_config"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (!says_nothing(json_object_get(config, unknown[i])))
            return fail(e, WHERRY_STATUS_UNSUPPORTED,
                        "\"%s\" is set, which is not supported: merge the adapter in PEFT", unknown[i]);
    const char *type = json_string_value(json_object_get(config, "peft_type"));
    if (!type || strcmp(type, "LORA") != 0)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"peft_type\" is %.40s: LORA is supported",
                    type ? type : "not a text");
    const char *bias = json_string_value(json_object_get(config, "bias"));
    if (bias && strcmp(bias, "none") != 0)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "\"bias\" is %.40s: none is supported", bias);
    /* These begin with other weights than the model's own. */
    const char *init = json_string_value(json_object_get(config, "init_lora_weights"));
    if (init && strcmp(init, "gaussian") != 0 && strcmp(init, "eva") != 0 && strcmp(init, "orthogonal") != 0)
        return fail(
            e, WHERRY_STATUS_UNSUPPORTED,
            "\"init_lora_weights\" is %.40s, which changes the model's own weights: convert the adapter to a plain "
            "one in PEFT (path_initial_model_for_weight_conversion)",
            init);
    return true;
}

static bool settings_read(const json_t *config, struct adapter_settings *out, struct error *e)
{
    const json_t *rank = json_object_get(config, "r"), *alpha = json_object_get(config, "lora_alpha");
    TRY(settings_check(config, e));
    if (!json_is_integer(rank) || json_integer_value(rank) < 1 || json_integer_value(rank) > 1 << 16)
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"r\" is no number from 1 to 65536");
    if (!json_is_number(alpha) || !(fabs(json_number_value(alpha)) <= 1e6))
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"lora_alpha\" is no number up to 1e6");
    *out = (struct adapter_settings){.rank = (uint32_t)json_integer_value(rank),
                                     .alpha = (float)json_number_value(alpha),
                                     .root = json_is_true(json_object_get(config, "use_rslora"))};
    return true;
}

/* ---- tensors ---- */

/* A place among the model's weights. */
struct place {
    enum weight weight;
    int layer, part;
    struct model_tensor tensor;
};

static const char *without(const char *text, const char *begin)
{
    const size_t n = strlen(begin);
    return strncmp(text, begin, n) ? text : text + n;
}

/* The weight of this name, with or without what stands before all of the encoder's. */
static bool place_find(const struct wherry_model *model, const char *name, struct place *out)
{
    const char *prefix = model_tensor_prefix(model);
    const struct family *family;
    const struct architecture *a = model_architecture(model, &family);
    name = without(name, *prefix || !a ? prefix : a->prefixes[0]);
    for (int layer = -1; layer < (int)model->info.config.layers; layer++)
        for (int weight = 0; weight < WEIGHT_COUNT; weight++)
            for (int part = 0; part < 3; part++) {
                if (!model->weights[layer + 1][weight][part].elements) continue;
                *out = (struct place){.weight = (enum weight)weight, .layer = layer, .part = part};
                model_tensor(model, out->weight, layer, part, &out->tensor);
                if (!strcmp(without(out->tensor.name, prefix), name)) return true;
            }
    return false;
}

static bool shape_fail(const struct safetensors *file, const struct safetensors_tensor *t, const char *needed,
                       struct error *e)
{
    char found[200];
    safetensors_shape_text(t->shape, t->rank, found, sizeof found);
    return fail(e, WHERRY_STATUS_BAD_FORMAT,
                "%.400s: tensor %.200s has shape %s, and the model needs %s: the adapter is of another model",
                file->path, t->name, found, needed);
}

static bool unknown_fail(const struct safetensors *file, const char *name, struct error *e)
{
    return fail(
        e, WHERRY_STATUS_BAD_FORMAT,
        "%.400s: the model has nothing that tensor %.200s could belong to: the adapter is of another model, or of "
        "one with another head",
        file->path, name);
}

/* One of A and B: [rank][columns], or [rows][rank]. */
static bool factor_check(const struct adapter_file *f, const struct safetensors_tensor *t, uint64_t rows,
                         uint64_t columns, struct weight_part *out, struct error *e)
{
    const uint64_t shape[2] = {rows, columns};
    char needed[64];
    safetensors_shape_text(shape, 2, needed, sizeof needed);
    if (t->rank != 2 || t->shape[0] != rows || t->shape[1] != columns) return shape_fail(&f->file, t, needed, e);
    return weight_part_check(&f->file, t, shape, 2, out, e);
}

static struct adapter_pair *pair_of(struct adapter_file *f, const struct place *p)
{
    for (size_t i = 0; i < f->n_pairs; i++)
        if (f->pairs[i].weight == p->weight && f->pairs[i].layer == p->layer && f->pairs[i].part == p->part)
            return &f->pairs[i];
    f->pairs[f->n_pairs] = (struct adapter_pair){.weight = p->weight, .layer = p->layer, .part = p->part};
    return &f->pairs[f->n_pairs++];
}

/* `of_b`: the tensor is that of B, of the module with `length` characters. */
static bool pair_take(const struct wherry_model *model, struct adapter_file *f, const struct safetensors_tensor *t,
                      const char *module, int length, bool of_b, struct error *e)
{
    char name[TENSOR_NAME];
    struct place place;
    struct linear_layer layer;
    snprintf(name, sizeof name, "%.*s.weight", length, module);
    if (!place_find(model, name, &place)) return unknown_fail(&f->file, t->name, e);
    if (!linear_layer_of(model, place.weight, place.layer, place.part, &layer))
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "%.400s: tensor %.200s is of a table or a vector: adapters are for linear layers", f->file.path,
                    t->name);
    struct adapter_pair *pair = pair_of(f, &place);
    const uint64_t rank = f->settings.rank;
    pair->rows = layer.rows;
    pair->columns = layer.columns;
    return of_b ? factor_check(f, t, layer.rows, rank, &pair->b, e)
                : factor_check(f, t, rank, layer.columns, &pair->a, e);
}

static bool whole_take(const struct wherry_model *model, struct adapter_file *f, const struct safetensors_tensor *t,
                       const char *name, struct error *e)
{
    struct place place;
    char needed[64];
    if (!place_find(model, name, &place)) return unknown_fail(&f->file, t->name, e);
    const struct model_tensor *m = &place.tensor;
    safetensors_shape_text(m->shape, m->rank, needed, sizeof needed);
    if (t->rank != m->rank || memcmp(t->shape, m->shape, (size_t)m->rank * sizeof *m->shape) != 0)
        return shape_fail(&f->file, t, needed, e);
    struct adapter_whole *whole = &f->wholes[f->n_wholes++];
    *whole = (struct adapter_whole){.weight = place.weight, .layer = place.layer, .part = place.part};
    return weight_part_check(&f->file, t, m->shape, m->rank, &whole->values, e);
}

static bool tensor_take(const struct wherry_model *model, struct adapter_file *f, const struct safetensors_tensor *t,
                        struct error *e)
{
    static const char *const endings[] = {".lora_A.weight", ".lora_B.weight"};
    const size_t n = strlen(endings[0]);
    if (strncmp(t->name, before_all, sizeof before_all - 1) != 0) return unknown_fail(&f->file, t->name, e);
    const char *name = t->name + sizeof before_all - 1;
    const size_t length = strlen(name);
    for (int i = 0; i < 2; i++)
        if (length > n && length < TENSOR_NAME && !strcmp(name + length - n, endings[i]))
            return pair_take(model, f, t, name, (int)(length - n), i == 1, e);
    return whole_take(model, f, t, name, e);
}

static bool tensors_take(const struct wherry_model *model, struct adapter_file *f, struct error *e)
{
    if (!(f->pairs = host_alloc(&model->host, f->file.count + 1, sizeof *f->pairs, e)) ||
        !(f->wholes = host_alloc(&model->host, f->file.count + 1, sizeof *f->wholes, e)))
        return false;
    for (size_t i = 0; i < f->file.count; i++) TRY(tensor_take(model, f, &f->file.tensors[i], e));
    for (size_t i = 0; i < f->n_pairs; i++)
        if (!f->pairs[i].a.elements || !f->pairs[i].b.elements) {
            const struct safetensors_tensor *has = f->pairs[i].a.elements ? f->pairs[i].a.tensor : f->pairs[i].b.tensor;
            return fail(e, WHERRY_STATUS_BAD_FORMAT, "%.400s has %.200s and not the other one of A and B: get it again",
                        f->file.path, has->name);
        }
    return f->n_pairs || fail(e, WHERRY_STATUS_BAD_FORMAT, "%.400s has no adapter of a linear layer", f->file.path);
}

/* ---- a folder ---- */

bool adapter_is_in(const struct host *host, const char *folder, bool *has, struct error *e)
{
    return folder_has(host, folder, config_name, has, e);
}

static bool folder_open(const struct wherry_model *model, const char *folder, struct adapter_file *f, struct error *e)
{
    const struct host *host = &model->host;
    bool has;
    TRY(adapter_is_in(host, folder, &has, e));
    if (!has) return fail(e, WHERRY_STATUS_IO, "%.600s has no %s: it is no adapter's folder", folder, config_name);
    TRY(json_file_read(host, folder, config_name, &json_config, 0, &f->config, e));
    json_incref(f->config);
    TRY(json_file_end(host, folder, config_name, f->config, settings_read(f->config, &f->settings, e), e));
    TRY(folder_has(host, folder, weights_name, &has, e));
    if (!has)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "%.600s has no %s: save the adapter as safetensors (in PEFT: save_pretrained)", folder,
                    weights_name);
    char *path = path_join(host, folder, weights_name, e);
    bool ok = path && safetensors_open(host, path, &f->file, e);
    host_free(host, path);
    return ok && tensors_take(model, f, e);
}

bool adapter_open(const struct wherry_model *model, const char *folder, struct adapter_file *out, struct error *e)
{
    *out = (struct adapter_file){.settings = {0}}; /* parts know where its file is, so it stays there */
    if (folder_open(model, folder, out, e)) return true;
    adapter_close(&model->host, out);
    return false;
}

void adapter_close(const struct host *host, struct adapter_file *f)
{
    json_decref(f->config);
    safetensors_close(host, &f->file);
    host_free(host, f->pairs);
    host_free(host, f->wholes);
    *f = (struct adapter_file){.settings = {0}};
}
