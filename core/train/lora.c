/* A trainer's low-rank adapters: layers, first values, merged weights. */
#include "train/lora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "model/weights.h"
#include "train/trainer.h"

enum { RANK_MOST = 1 << 16 };

/* ---- what is asked for ---- */

static bool names_check(const char *what, const char *const *names, size_t count, struct error *e)
{
    for (size_t i = 0; i < count; i++)
        if (!names || !names[i] || !*names[i])
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_lora_desc.%s: name %zu is NULL or empty", what, i);
    return true;
}

static bool desc_check(const struct wherry_trainer *t, const wherry_lora_desc *d, struct error *e)
{
    if (d->struct_size != sizeof *d)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_lora_desc.struct_size is not %zu", sizeof *d);
    if (t->optimizer_desc.n_frozen)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "with adapters all weights are frozen but theirs: name the layers that have one in "
                    "wherry_lora_desc.targets, and leave wherry_optimizer_desc.frozen out");
    if (d->adapter)
        return (!d->rank && d->alpha == 0 && !d->root && !d->n_targets && !d->n_saved) ||
               fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "wherry_lora_desc: an adapter to begin with has its own rank, alpha, targets and saved modules");
    if (!d->rank || d->rank > RANK_MOST)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_lora_desc.rank is not from 1 to %d", RANK_MOST);
    if (!(fabsf(d->alpha) <= 1e6f))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_lora_desc.alpha is no number up to 1e6");
    return names_check("targets", d->targets, d->n_targets, e) && names_check("saved", d->saved, d->n_saved, e);
}

/* ---- which weights ---- */

static bool of_classes(const struct wherry_trainer *t)
{
    return t->loss_kind >= WHERRY_LOSS_CLASSES && t->loss_kind <= WHERRY_LOSS_REGRESSION;
}

/* What PEFT's tasks of classes save by themselves. */
static const char *const heads[] = {"classifier", "score"};

static bool is_saved(const struct wherry_trainer *t, const wherry_lora_desc *d, const char *name)
{
    const char *const *saved = d->n_saved ? d->saved : heads;
    const size_t n = d->n_saved ? d->n_saved : of_classes(t) ? sizeof heads / sizeof *heads : 0;
    for (size_t i = 0; i < n; i++)
        if (module_has(name, saved[i])) return true;
    return false;
}

static bool all_linear(const wherry_lora_desc *d)
{
    return !d->n_targets || (d->n_targets == 1 && !strcmp(d->targets[0], "all-linear"));
}

static bool is_target(const struct wherry_trainer *t, const wherry_lora_desc *d, const struct trained_weight *w,
                      const struct linear_layer *layer)
{
    if (all_linear(d)) return w->weight != WEIGHT_CLASSIFIER && !is_saved(t, d, w->info.name);
    for (size_t i = 0; i < d->n_targets; i++)
        if (module_is(layer->module, d->targets[i])) return true;
    return false;
}

static void layer_add(struct lora *l, const struct trained_weight *w, const struct linear_layer *layer)
{
    struct lora_layer *to = &l->layers[l->count++];
    *to = (struct lora_layer){
        .weight = w->weight, .layer = w->layer, .part = w->part, .rows = layer->rows, .columns = layer->columns};
    memcpy(to->module, layer->module, sizeof to->module);
}

/* Experts' weights are all experts' in one, and no linear layers', in PEFT neither. */
static bool names_experts(const struct wherry_trainer *t, const char *target)
{
    for (size_t i = 0; i < t->weights.count; i++) {
        const struct trained_weight *w = &t->weights.of[i];
        bool of_experts = w->weight == WEIGHT_EXPERTS1 || w->weight == WEIGHT_EXPERTS2;
        if (of_experts && (module_is(w->info.name, target) || module_has(w->info.name, target))) return true;
    }
    return false;
}

static bool targets_fit(const struct wherry_trainer *t, const wherry_lora_desc *d, struct error *e)
{
    const struct lora *l = t->lora;
    for (size_t i = 0; !all_linear(d) && i < d->n_targets; i++) {
        bool fits = false;
        for (size_t n = 0; n < l->count; n++) fits |= module_is(l->layers[n].module, d->targets[i]);
        if (fits) continue;
        if (names_experts(t, d->targets[i]))
            return fail(
                e, WHERRY_STATUS_UNSUPPORTED,
                "the adapters' target \"%.100s\" is a mixture's experts, whose weights are no linear layers, so "
                "that they can have no adapter: name other layers, the mixture's router among them, or train "
                "the module experts as a whole (wherry_lora_desc.saved)",
                d->targets[i]);
        struct linear_layer other = {.rows = 0};
        for (size_t w = 0; w < t->weights.count && !other.rows; w++)
            linear_layer_of(t->model, t->weights.of[w].weight, t->weights.of[w].layer, t->weights.of[w].part, &other);
        return fail(
            e, WHERRY_STATUS_INVALID_ARGUMENT,
            "the adapters' target \"%.100s\" is the end of no linear layer's name that is computed with here: one "
            "is %.150s",
            d->targets[i], other.rows ? other.module : "not there");
    }
    for (size_t i = 0; i < d->n_saved; i++) {
        bool fits = false;
        for (size_t w = 0; w < t->weights.count; w++) fits |= module_has(t->weights.of[w].info.name, d->saved[i]);
        if (!fits)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "the module \"%.100s\", which is to be trained as a whole, has no weight that is computed with "
                        "here",
                        d->saved[i]);
    }
    return l->count || fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "no linear layer gets an adapter");
}

static bool layers_choose(struct wherry_trainer *t, const wherry_lora_desc *d, struct error *e)
{
    for (size_t i = 0; i < t->weights.count; i++) {
        struct trained_weight *w = &t->weights.of[i];
        struct linear_layer layer;
        w->info.frozen = !is_saved(t, d, w->info.name);
        if (!linear_layer_of(t->model, w->weight, w->layer, w->part, &layer) || !is_target(t, d, w, &layer)) continue;
        if (!w->info.frozen)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "%.150s would have an adapter, and be trained as a whole: choose one of both", layer.module);
        layer_add(t->lora, w, &layer);
    }
    return targets_fit(t, d, e);
}

/* Those of a file: `wholes` are trained, and the others frozen. */
static bool layers_of_file(struct wherry_trainer *t, const struct adapter_file *f, struct error *e)
{
    size_t wholes = 0;
    for (size_t i = 0; i < t->weights.count; i++) {
        struct trained_weight *w = &t->weights.of[i];
        struct linear_layer layer;
        bool saved = false, pair = false;
        for (size_t n = 0; n < f->n_wholes; n++)
            saved |= f->wholes[n].weight == w->weight && f->wholes[n].layer == w->layer && f->wholes[n].part == w->part;
        for (size_t n = 0; n < f->n_pairs; n++)
            pair |= f->pairs[n].weight == w->weight && f->pairs[n].layer == w->layer && f->pairs[n].part == w->part;
        w->info.frozen = !saved;
        wholes += saved;
        if (pair && linear_layer_of(t->model, w->weight, w->layer, w->part, &layer)) layer_add(t->lora, w, &layer);
    }
    return (wholes == f->n_wholes && t->lora->count == f->n_pairs) ||
           fail(
               e, WHERRY_STATUS_UNSUPPORTED,
               "%.400s has %zu adapters and %zu whole weights, of which %zu and %zu are computed with in this training "
               "(of embeddings no pooler is, and no head): make the adapter without the others",
               f->file.path, f->n_pairs, f->n_wholes, t->lora->count, wholes);
}

/* ---- what adapter_config.json has ---- */

static json_t *name_list(const char *const *names, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, json_string(names[i]))) return NULL;
    return list;
}

/* A module's path within its layer, or without what stands before all names. */
static const char *path_within(const struct wherry_model *model, const char *module)
{
    const char *prefix = model_tensor_prefix(model), *out = module;
    if (!strncmp(module, prefix, strlen(prefix))) out += strlen(prefix);
    for (const char *at = strchr(module, '.'); at; at = strchr(at + 1, '.')) {
        const char *end = at + 1 + strspn(at + 1, "0123456789");
        if (end > at + 1 && *end == '.') out = end + 1;
    }
    return out;
}

static json_t *layer_paths(const struct wherry_trainer *t)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < t->lora->count; i++) {
        const char *path = path_within(t->model, t->lora->layers[i].module);
        bool has = false;
        for (size_t n = 0; n < json_array_size(list); n++)
            has |= !strcmp(json_string_value(json_array_get(list, n)), path);
        if (!has && json_array_append_new(list, json_string(path))) return NULL;
    }
    return list;
}

static bool lists_make(struct wherry_trainer *t, const wherry_lora_desc *d, const struct adapter_file *f,
                       struct error *e)
{
    struct lora *l = t->lora;
    if (f) {
        json_t *targets = json_object_get(f->config, "target_modules"),
               *saved = json_object_get(f->config, "modules_to_save");
        l->targets = targets ? json_incref(targets) : layer_paths(t);
        l->saved = saved ? json_incref(saved) : json_null();
    } else {
        l->targets = all_linear(d) ? layer_paths(t) : name_list(d->targets, d->n_targets);
        l->saved = d->n_saved      ? name_list(d->saved, d->n_saved)
                   : of_classes(t) ? name_list(heads, sizeof heads / sizeof *heads)
                                   : json_null();
    }
    return (l->targets && l->saved) || fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "no memory for names of modules");
}

/* ---- the trainer's weights ---- */

static size_t gradient_of(const struct wherry_trainer *t, const struct lora_layer *layer,
                          const struct trained_weight **w)
{
    size_t i = 0;
    while (t->weights.of[i].weight != layer->weight || t->weights.of[i].layer != layer->layer ||
           t->weights.of[i].part != layer->part)
        i++;
    *w = &t->weights.of[i];
    return t->weights.of[i].info.gradient;
}

static bool gradients_freeze(struct wherry_trainer *t, struct error *e)
{
    for (size_t i = 0; i < t->weights.count; i++) {
        const wherry_weight *w = &t->weights.of[i].info;
        if (t->weights.of[i].part && t->weights.gradients[w->gradient].frozen != w->frozen)
            return fail(
                e, WHERRY_STATUS_UNSUPPORTED,
                "some of the query, key and value of %.150s are to be trained as a whole and not all: these are "
                "one weight here, so name all three or none",
                w->name);
        t->weights.gradients[w->gradient].frozen = w->frozen;
    }
    return true;
}

static void weight_add(struct wherry_trainer *t, const struct lora_layer *layer, const struct trained_weight *of,
                       bool of_b)
{
    struct trained_weights *weights = &t->weights;
    struct trained_weight *w = &weights->of[weights->count++];
    const uint64_t rank = t->lora->settings.rank;
    const size_t number = weights->n_gradients++;
    *w = (struct trained_weight){.weight = layer->weight, .layer = layer->layer, .part = layer->part, .adapts = true};
    w->info = (wherry_weight){.struct_size = sizeof w->info,
                              .layer = layer->layer,
                              .shape = {of_b ? layer->rows : rank, of_b ? rank : layer->columns},
                              .elements = rank * (of_b ? layer->rows : layer->columns),
                              .gradient = number,
                              .decays = true,
                              .rate = of->info.rate};
    adapter_name(t->model, t->session_desc.output == WHERRY_OUTPUT_EMBEDDING, layer->module,
                 of_b ? ".lora_B.weight" : ".lora_A.weight", w->info.name, sizeof w->info.name);
    weights->elements[number] = w->info.elements;
    weights->gradients[number] = (struct optimizer_tensor){.decays = true, .rate_factor = w->info.rate};
}

static bool weights_grow(struct wherry_trainer *t, struct error *e)
{
    const struct host *host = &t->context->host;
    struct trained_weights *w = &t->weights;
    const size_t more = 2 * t->lora->count;
    void *grown[3];
    if (!(grown[0] = host_grow(host, w->of, w->count, w->count + more, sizeof *w->of, e))) return false;
    w->of = grown[0];
    if (!(grown[1] = host_grow(host, w->gradients, w->n_gradients, w->n_gradients + more, sizeof *w->gradients, e)))
        return false;
    w->gradients = grown[1];
    if (!(grown[2] = host_grow(host, w->elements, w->n_gradients, w->n_gradients + more, sizeof *w->elements, e)))
        return false;
    w->elements = grown[2];
    return true;
}

static bool adapters_plan(struct wherry_trainer *t, struct error *e)
{
    struct lora *l = t->lora;
    struct adapter_target *targets = host_alloc(&t->context->host, l->count, sizeof *targets, e);
    if (!targets) return false;
    for (size_t i = 0; i < l->count; i++) {
        const struct lora_layer *layer = &l->layers[i];
        const struct trained_weight *of;
        const struct weight_part *parts;
        targets[i].gradient = gradient_of(t, layer, &of);
        targets[i].part = (uint32_t)layer->part;
        targets[i].parts = (uint32_t)model_weight(t->model, layer->weight, layer->layer, &parts);
        for (uint32_t p = 0; p < targets[i].parts; p++) {
            const uint64_t rows = parts[p].elements / layer->columns;
            if (p < targets[i].part) targets[i].first_row += rows;
            targets[i].all_rows += rows;
        }
        targets[i].rows = layer->rows;
        targets[i].columns = layer->columns;
    }
    const struct adapters_options options = {
        .targets = targets, .count = l->count, .rank = l->settings.rank, .scale = adapter_scale(&l->settings)};
    l->adapters = adapters_create(t->session, &options, e);
    host_free(&t->context->host, targets);
    return l->adapters != NULL;
}

static bool plan(struct wherry_trainer *t, const wherry_lora_desc *desc, const struct adapter_file *f, struct error *e)
{
    struct lora *l = t->lora;
    if (!(l->layers = host_alloc(&t->context->host, t->weights.count, sizeof *l->layers, e))) return false;
    if (f)
        l->settings = f->settings;
    else
        l->settings = (struct adapter_settings){
            .rank = desc->rank, .alpha = desc->alpha != 0 ? desc->alpha : 2 * (float)desc->rank, .root = desc->root};
    TRY((f ? layers_of_file(t, f, e) : layers_choose(t, desc, e)) && gradients_freeze(t, e) &&
        lists_make(t, desc, f, e) && weights_grow(t, e) && adapters_plan(t, e));
    for (size_t i = 0; i < l->count; i++) {
        const struct trained_weight *of;
        gradient_of(t, &l->layers[i], &of);
        const struct trained_weight copy = *of;
        weight_add(t, &l->layers[i], &copy, false);
        weight_add(t, &l->layers[i], &copy, true);
    }
    return true;
}

/* What is given to a text's vector does not depend on it; how training goes on does. */
static bool dropout_check(const struct adapter_file *file, const char *folder, struct error *e)
{
    const double dropout = json_number_value(json_object_get(file->config, "lora_dropout"));
    return !(dropout > 0) ||
           fail(e, WHERRY_STATUS_UNSUPPORTED,
                "the adapter %.300s was trained with \"lora_dropout\" %s, which is not supported: set it to 0 in its "
                "adapter_config.json to go on without",
                folder, NUMBER("%g", dropout));
}

bool lora_plan(struct wherry_trainer *t, const wherry_lora_desc *desc, struct error *e)
{
    struct adapter_file file;
    if (!desc) return true;
    TRY(desc_check(t, desc, e));
    if (!(t->lora = host_alloc(&t->context->host, 1, sizeof *t->lora, e))) return false;
    if (!desc->adapter) return plan(t, desc, NULL, e);
    TRY(adapter_open(t->model, desc->adapter, &file, e));
    bool ok = dropout_check(&file, desc->adapter, e) && plan(t, desc, &file, e);
    adapter_close(&t->model->host, &file);
    return ok;
}

void lora_destroy(struct wherry_trainer *t)
{
    struct lora *l = t->lora;
    if (!l) return;
    adapters_destroy(l->adapters);
    json_decref(l->targets);
    json_decref(l->saved);
    host_free(&t->context->host, l->layers);
    host_free(&t->context->host, l);
}

/* ---- values ---- */

/* As torch.nn.Linear's weights begin: kaiming_uniform with a = sqrt(5). B is 0. */
static bool values_draw(struct wherry_trainer *t, struct error *e)
{
    bool ok = true;
    for (size_t i = 0; ok && i < t->lora->count; i++) {
        const size_t n = (size_t)(t->lora->settings.rank * t->lora->layers[i].columns);
        float *values = host_alloc_unset(&t->context->host, n, sizeof *values, e);
        if (values) random_uniform(t->seed, i, (float)(1 / sqrt((double)t->lora->layers[i].columns)), values, n);
        ok = values && adapters_write(t->lora->adapters, 2 * i, values, e);
        host_free(&t->context->host, values);
    }
    return ok;
}

bool lora_begin(struct wherry_trainer *t, const wherry_lora_desc *desc, struct error *e)
{
    if (!t->lora || t->planned) return true;
    return desc->adapter ? lora_take(t, desc->adapter, e) : values_draw(t, e);
}
