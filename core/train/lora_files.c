/* Adapters' files, written from a trainer and taken into one. */
#include <stdio.h>
#include <string.h>

#include "train/trainer.h"

static bool bare(const struct wherry_trainer *t) { return t->session_desc.output == WHERRY_OUTPUT_EMBEDDING; }

static const char *task_of(const struct wherry_trainer *t)
{
    switch (t->session_desc.output) {
    case WHERRY_OUTPUT_EMBEDDING:
        return "FEATURE_EXTRACTION";
    case WHERRY_OUTPUT_CLASSES:
        return "SEQ_CLS";
    case WHERRY_OUTPUT_TOKEN_CLASSES:
        return "TOKEN_CLS";
    default:
        return NULL;
    }
}

/* ---- writing ---- */

/* What is trained: A and B by their own names, whole weights by the model's. */
static size_t entries_list(const struct wherry_trainer *t, struct adapter_entry *entries)
{
    size_t n = 0;
    for (size_t i = 0; i < t->weights.count; i++) {
        const wherry_weight *w = &t->weights.of[i].info;
        struct adapter_entry *entry = &entries[n];
        if (w->frozen) continue;
        *entry = (struct adapter_entry){.rank = w->shape[1] ? 2 : 1, .shape = {w->shape[0], w->shape[1]}};
        if (t->weights.of[i].adapts)
            snprintf(entry->name, sizeof entry->name, "%s", w->name);
        else
            adapter_name(t->model, bare(t), w->name, "", entry->name, sizeof entry->name);
        n++;
    }
    return n;
}

static bool values_write(struct wherry_trainer *t, const struct new_file *file, struct error *e)
{
    bool ok = true;
    for (size_t i = 0; ok && i < t->weights.count; i++) {
        const size_t n = (size_t)t->weights.of[i].info.elements;
        if (t->weights.of[i].info.frozen) continue;
        float *values = host_alloc_unset(&t->context->host, n, sizeof *values, e);
        ok = values && trainer_weight_get(t, i, values, e) && new_file_add(file, values, n * sizeof *values, e);
        host_free(&t->context->host, values);
    }
    return ok;
}

bool lora_write(struct wherry_trainer *t, const struct new_folder *folder, struct error *e)
{
    const struct host *host = &t->context->host;
    struct adapter_entry *entries = host_alloc(host, t->weights.count, sizeof *entries, e);
    struct new_file file;
    bool ok = entries && adapter_config_write(t->model, &t->lora->settings, t->lora->targets, t->lora->saved,
                                              task_of(t), folder, e);
    ok = ok && adapter_weights_begin(folder, entries, entries_list(t, entries), host, &file, e);
    if (ok) ok = new_file_end(folder, &file, values_write(t, &file, e), e);
    host_free(host, entries);
    return ok;
}

/* ---- reading ---- */

static bool other_fail(const char *folder, const char *what, struct error *e)
{
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "%.500s is of a training with other adapters: %.150s differs; make the trainer as it was then", folder,
                what);
}

/* The number of a weight among the trainer's; whole weights, and A's with a further 1 for B's. */
static bool weight_find(const struct wherry_trainer *t, enum weight weight, int layer, int part, bool adapts,
                        size_t *out)
{
    for (size_t i = 0; i < t->weights.count; i++) {
        const struct trained_weight *w = &t->weights.of[i];
        *out = i;
        if (w->weight == weight && w->layer == layer && w->part == part && w->adapts == adapts && !w->info.frozen)
            return true;
    }
    return false;
}

static bool part_take(struct wherry_trainer *t, size_t weight, const struct weight_part *part, void *raw,
                      struct error *e)
{
    float *values = host_alloc_unset(&t->context->host, (size_t)part->elements, sizeof *values, e);
    bool ok = values && weight_convert(part, 0, part->elements, WEIGHT_TYPE_F32, raw, values, e) &&
              trainer_weight_put(t, weight, values, e);
    host_free(&t->context->host, values);
    return ok;
}

static bool all_there(const struct wherry_trainer *t, const struct adapter_file *f, const char *folder, struct error *e)
{
    const struct adapter_settings *a = &f->settings, *b = &t->lora->settings;
    size_t weight, trained = 0;
    if (a->rank != b->rank || a->alpha != b->alpha || a->root != b->root)
        return other_fail(folder, "rank, alpha or what the scale is made of", e);
    for (size_t i = 0; i < f->n_pairs; i++)
        if (!weight_find(t, f->pairs[i].weight, f->pairs[i].layer, f->pairs[i].part, true, &weight))
            return other_fail(folder, f->pairs[i].a.tensor->name, e);
    for (size_t i = 0; i < f->n_wholes; i++)
        if (!weight_find(t, f->wholes[i].weight, f->wholes[i].layer, f->wholes[i].part, false, &weight))
            return other_fail(folder, f->wholes[i].values.tensor->name, e);
    for (size_t i = 0; i < t->weights.count; i++) trained += !t->weights.of[i].info.frozen;
    return trained == 2 * f->n_pairs + f->n_wholes || other_fail(folder, "the list of layers", e);
}

static bool take(struct wherry_trainer *t, const struct adapter_file *f, void *raw, struct error *e)
{
    size_t weight;
    for (size_t i = 0; i < f->n_pairs; i++) {
        const struct adapter_pair *p = &f->pairs[i];
        TRY(weight_find(t, p->weight, p->layer, p->part, true, &weight) && part_take(t, weight, &p->a, raw, e) &&
            part_take(t, weight + 1, &p->b, raw, e));
    }
    for (size_t i = 0; i < f->n_wholes; i++) {
        const struct adapter_whole *w = &f->wholes[i];
        TRY(weight_find(t, w->weight, w->layer, w->part, false, &weight) && part_take(t, weight, &w->values, raw, e));
    }
    return adapters_merge(t->lora->adapters, e);
}

bool lora_take(struct wherry_trainer *t, const char *folder, struct error *e)
{
    struct adapter_file file;
    TRY(adapter_open(t->model, folder, &file, e));
    void *raw = host_alloc_unset(&t->context->host, WEIGHT_RAW_BYTES, 1, e);
    view_stale(t);
    bool ok = raw && all_there(t, &file, folder, e) && take(t, &file, raw, e);
    host_free(&t->context->host, raw);
    adapter_close(&t->model->host, &file);
    return ok;
}
