/* A trainer's weights by their names: described, read, written. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "train/trainer.h"

size_t wherry_trainer_weight_count(const wherry_trainer *trainer) { return trainer ? trainer->weights.count : 0; }

wherry_status wherry_trainer_weight_describe(const wherry_trainer *trainer, size_t index, wherry_weight *out)
{
    if (!trainer || !out || out->struct_size != sizeof *out || index >= trainer->weights.count)
        return WHERRY_STATUS_INVALID_ARGUMENT;
    *out = trainer->weights.of[index].info;
    return WHERRY_STATUS_OK;
}

static bool index_check(const struct wherry_trainer *t, const char *call, size_t index, const void *values,
                        struct error *e)
{
    return (values && index < t->weights.count) ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: weight %zu of %zu, or no memory", call, index,
                t->weights.count);
}

static bool part_get(const struct wherry_trainer *t, const struct weight_part *part, float *values, struct error *e)
{
    void *raw = host_alloc_unset(&t->context->host, WEIGHT_RAW_BYTES, 1, e);
    bool ok = raw && weight_convert(part, 0, part->elements, WEIGHT_TYPE_F32, raw, values, e);
    host_free(&t->context->host, raw);
    return ok;
}

/* What is frozen is the model's. */
bool trainer_weight_get(struct wherry_trainer *t, size_t index, float *values, struct error *e)
{
    const struct trained_weight *w = &t->weights.of[index];
    if (w->adapts)
        return optimizer_tensor_read(t->optimizer, OPTIMIZER_MASTER, w->info.gradient, values, (size_t)w->info.elements,
                                     e);
    TRY(w->info.frozen || view_refresh(t, e));
    const struct wherry_model *model = w->info.frozen ? t->model : t->view.model;
    return part_get(t, &model->weights[w->layer + 1][w->weight][w->part], values, e);
}

static bool weight_read(struct wherry_trainer *t, size_t index, float *out, size_t floats, struct error *e)
{
    TRY(index_check(t, "wherry_trainer_weight_read", index, out, e));
    const struct trained_weight *w = &t->weights.of[index];
    if (floats < w->info.elements)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s has %" PRIu64 " values and there is room for %zu",
                    w->info.name, w->info.elements, floats);
    return trainer_weight_get(t, index, out, e);
}

wherry_status wherry_trainer_weight_read(wherry_trainer *trainer, size_t index, float *out, size_t floats)
{
    if (!trainer) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct error *e = context_error(trainer->context);
    return context_status(trainer->context, weight_read(trainer, index, out, floats, e));
}

/* The whole of what it is a part of goes to the device. */
bool trainer_weight_put(struct wherry_trainer *t, size_t index, const float *values, struct error *e)
{
    const struct trained_weight *w = &t->weights.of[index];
    const size_t n = (size_t)t->weights.elements[w->info.gradient];
    float *all = host_alloc_unset(&t->context->host, n, sizeof *all, e);
    bool ok = all && optimizer_tensor_read(t->optimizer, OPTIMIZER_MASTER, w->info.gradient, all, n, e);
    if (ok) memcpy(all + w->first, values, (size_t)w->info.elements * sizeof *all);
    ok = ok && optimizer_tensor_write(t->optimizer, OPTIMIZER_MASTER, w->info.gradient, all, n, e);
    host_free(&t->context->host, all);
    view_stale(t);
    return ok;
}

static bool weight_write(struct wherry_trainer *t, size_t index, const float *values, size_t floats, struct error *e)
{
    TRY(index_check(t, "wherry_trainer_weight_write", index, values, e));
    const struct trained_weight *w = &t->weights.of[index];
    if (floats != w->info.elements)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s has %" PRIu64 " values, and %zu are given", w->info.name,
                    w->info.elements, floats);
    if (w->info.frozen)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s is frozen: it keeps the model's values", w->info.name);
    for (size_t i = 0; i < floats; i++)
        if (!isfinite(values[i]) || fabsf(values[i]) >= storage_beyond(session_type(t->session)))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: value %zu is %s, which the session's type can't hold",
                        w->info.name, i, NUMBER("%g", (double)values[i]));
    return trainer_weight_put(t, index, values, e) && (!w->adapts || adapters_merge(t->lora->adapters, e));
}

wherry_status wherry_trainer_weight_write(wherry_trainer *trainer, size_t index, const float *values, size_t floats)
{
    if (!trainer) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct error *e = context_error(trainer->context);
    return context_status(trainer->context, weight_write(trainer, index, values, floats, e));
}
