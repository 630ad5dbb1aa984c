/* An optimizer's tensors, to and from the host. */
#include "model/model.h"
#include "runtime/train.h"
#include "train/state.h"

static const enum arena_part arena_parts[OPTIMIZER_PARTS] = {
    [OPTIMIZER_MASTER] = ARENA_MASTER,
    [OPTIMIZER_FIRST] = ARENA_FIRST,
    [OPTIMIZER_SECOND] = ARENA_SECOND,
    [OPTIMIZER_GRADIENT] = ARENA_GRADIENT,
};

static int weight_of(const struct optimizer *o, size_t index)
{
    return o->session->graph.tensors[session_gradient(o->session, index)].gradient_of;
}

/* Whether it is a tensor of adapters, and which. */
static bool adapts(const struct optimizer *o, size_t index, size_t *tensor)
{
    *tensor = index - (o->options.count - adapters_tensors(o->options.adapters));
    return *tensor < adapters_tensors(o->options.adapters);
}

/* A weight as the model's files have it. */
static bool model_floats(const struct optimizer *o, size_t index, float *values, struct error *e)
{
    const struct tensor *weight = &o->session->graph.tensors[weight_of(o, index)];
    const struct weight_part *parts;
    const int n = model_weight(o->session->model, weight->weight, weight->layer, &parts);
    void *raw = host_alloc_unset(&o->session->context->host, WEIGHT_RAW_BYTES, 1, e);
    bool ok = raw != NULL;
    for (int i = 0; ok && i < n; values += parts[i++].elements)
        ok = weight_convert(&parts[i], 0, parts[i].elements, WEIGHT_TYPE_F32, raw, values, e);
    host_free(&o->session->context->host, raw);
    return ok;
}

static size_t elements_of(const struct optimizer *o, size_t index)
{
    size_t tensor;
    if (adapts(o, index, &tensor)) {
        const struct range at = adapters_range(o->options.adapters, tensor);
        return (size_t)(at.end - at.begin) / sizeof(float);
    }
    return (size_t)tensor_elements(&o->session->graph, &o->session->limits, session_gradient(o->session, index));
}

bool optimizer_masters(struct optimizer *o, struct error *e)
{
    const struct host *host = &o->session->context->host;
    const size_t count = o->options.count - adapters_tensors(o->options.adapters);
    size_t most = 0;
    if (!(o->parts >> ARENA_MASTER & 1)) return true;
    for (size_t n = 0; n < count; n++)
        if (elements_of(o, n) > most) most = elements_of(o, n);
    float *values = host_alloc_unset(host, most, sizeof *values, e);
    bool ok = values != NULL;
    for (size_t n = 0; ok && n < count; n++)
        ok = o->tensors[n].frozen ||
             (model_floats(o, n, values, e) && arena_write(o->session, &o->arena, ARENA_MASTER, n, values, e));
    host_free(host, values);
    return ok;
}

bool optimizer_has(const struct optimizer *o, enum optimizer_part part, size_t index)
{
    if (index >= o->options.count) return false;
    if (part == OPTIMIZER_MASTER) return true;
    if (o->tensors[index].frozen) return false;
    return part == OPTIMIZER_GRADIENT ? o->accumulated : o->parts >> arena_parts[part] & 1;
}

static bool check(const struct optimizer *o, const char *what, bool has, enum optimizer_part part, size_t index,
                  size_t count, struct error *e)
{
    static const char *const names[OPTIMIZER_PARTS] = {"weight", "first moment", "second moment", "gradient"};
    if (index >= o->options.count)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: there is no tensor number %zu", index);
    size_t number;
    const char *tensor = adapts(o, index, &number) ? "an adapter" : o->session->graph.tensors[weight_of(o, index)].name;
    if (!has)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: %s has no %s to be %s%s", tensor, names[part], what,
                    o->tensors[index].frozen ? ": it is frozen" : "");
    if (count == elements_of(o, index)) return true;
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "optimizer: %s has %zu values, %zu are given", tensor,
                elements_of(o, index), count);
}

bool optimizer_tensor_read(struct optimizer *o, enum optimizer_part part, size_t index, float *values, size_t count,
                           struct error *e)
{
    TRY(check(o, "read", optimizer_has(o, part, index), part, index, count, e));
    size_t tensor;
    if (part == OPTIMIZER_MASTER && adapts(o, index, &tensor))
        return adapters_read(o->options.adapters, tensor, values, e);
    if (part != OPTIMIZER_MASTER || (o->parts >> ARENA_MASTER & 1 && !o->tensors[index].frozen))
        return arena_read(o->session, &o->arena, arena_parts[part], index, values, e);
    if (o->tensors[index].frozen) return model_floats(o, index, values, e);
    return session_tensor_read(o->session, weight_of(o, index), values, count, e);
}

/* What is written before anything was accumulated is added to nothing. */
static bool gradient_begin(struct optimizer *o, struct error *e)
{
    TRY(optimizer_accumulator(o, e));
    if (!o->accumulated) TRY(arena_clear(o->session, &o->arena, ARENA_GRADIENT, e));
    o->accumulated = true;
    o->summed = false;
    return true;
}

bool optimizer_tensor_write(struct optimizer *o, enum optimizer_part part, size_t index, const float *values,
                            size_t count, struct error *e)
{
    const bool trained = index < o->options.count && !o->tensors[index].frozen;
    const bool has = trained && (part == OPTIMIZER_GRADIENT || optimizer_has(o, part, index));
    TRY(check(o, "written", has, part, index, count, e));
    size_t tensor;
    if (part == OPTIMIZER_MASTER && adapts(o, index, &tensor))
        return adapters_write(o->options.adapters, tensor, values, e);
    if (part == OPTIMIZER_MASTER) TRY(session_tensor_write(o->session, weight_of(o, index), values, e));
    if (part == OPTIMIZER_GRADIENT) TRY(gradient_begin(o, e));
    if (!(o->parts >> arena_parts[part] & 1)) return true; /* the session has it */
    return arena_write(o->session, &o->arena, arena_parts[part], index, values, e);
}

/* ---- sums as they lie ---- */

const struct arena *optimizer_arena(const struct optimizer *o) { return &o->arena; }

bool optimizer_sums_clear(struct optimizer *o, struct error *e)
{
    return arena_clear(o->session, &o->arena, ARENA_GRADIENT, e);
}

bool optimizer_sums_written(struct optimizer *o, struct error *e)
{
    TRY(optimizer_accumulator(o, e));
    o->accumulated = true;
    o->summed = false;
    return true;
}
