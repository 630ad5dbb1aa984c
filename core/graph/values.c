/* Loads what a group reads, in double, and frees it again. */
#include "graph/values.h"

#include <string.h>

#include "base/half.h"
#include "graph/kinds.h"

void doubles_from_storage(const void *storage, enum storage type, size_t count, double *out)
{
    if (type == STORAGE_F32)
        for (size_t i = 0; i < count; i++) out[i] = (double)((const float *)storage)[i];
    else
        for (size_t i = 0; i < count; i++) out[i] = (double)storage_float(type, storage, i);
}

void storage_from_doubles(const double *values, enum storage type, size_t count, void *out)
{
    for (size_t i = 0; i < count; i++) storage_put(type, (float)values[i], out, i);
}

/* Of lists that operators make: numbers, which doubles and floats of that size hold. */
static void numbers_load(const uint32_t *list, size_t n, double *out)
{
    for (size_t i = 0; i < n; i++) out[i] = list[i];
}

static void numbers_store(const double *values, size_t n, uint32_t *out)
{
    for (size_t i = 0; i < n; i++) out[i] = (uint32_t)values[i];
}

/* The element in memory of value number `index`, whose row begins apart from the one before, or is a column. */
static size_t element_at(const struct graph *g, int tensor, size_t length, size_t index)
{
    size_t pitch = g->tensors[tensor].pitch;
    return pitch ? index / length * pitch + index % length : index % length * g->channel_stride + index / length;
}

static bool is_contiguous(const struct graph *g, int tensor)
{
    return !g->tensors[tensor].pitch && !dims_channel_major(g->tensors[tensor].dims);
}

void tensor_load(const struct graph *g, const struct batch_shape *b, int tensor, enum storage type, const void *storage,
                 double *out)
{
    size_t n = (size_t)tensor_elements(g, b, tensor), length = tensor_row_length(g, tensor);
    if (g->tensors[tensor].u32) {
        numbers_load(storage, n, out);
        return;
    }
    if (g->tensors[tensor].f32) type = STORAGE_F32;
    if (g->tensors[tensor].bf16) type = STORAGE_BF16;
    if (g->tensors[tensor].int8) {
        const int8_t *rows = storage;
        const float *scales = (const float *)storage + tensor_scales_at(g, tensor);
        for (size_t i = 0; i < n; i++) out[i] = rows[i] * (double)scales[i / g->tensors[tensor].int8];
        return;
    }
    if (is_contiguous(g, tensor)) {
        doubles_from_storage(storage, type, n, out);
        return;
    }
    for (size_t i = 0; i < n; i++)
        doubles_from_storage((const char *)storage + element_at(g, tensor, length, i) * (type ? 2 : 4), type, 1,
                             &out[i]);
}

void tensor_store(const struct graph *g, const struct batch_shape *b, int tensor, enum storage type,
                  const double *values, void *out)
{
    size_t n = (size_t)tensor_elements(g, b, tensor), length = tensor_row_length(g, tensor);
    if (g->tensors[tensor].u32) {
        numbers_store(values, n, out);
        return;
    }
    if (g->tensors[tensor].f32) type = STORAGE_F32;
    if (is_contiguous(g, tensor)) {
        storage_from_doubles(values, type, n, out);
        return;
    }
    for (size_t i = 0; i < n; i++)
        storage_from_doubles(&values[i], type, 1, (char *)out + element_at(g, tensor, length, i) * (type ? 2 : 4));
}

bool values_create(const struct graph *g, struct values *out, struct error *e)
{
    out->of = host_alloc(g->host, (size_t)g->n_tensors, sizeof *out->of, e);
    out->ids = out->of ? host_alloc(g->host, (size_t)g->n_tensors, sizeof *out->ids, e) : NULL;
    return out->of && out->ids;
}

void values_clear(const struct graph *g, struct values *values)
{
    for (int t = 0; values->of && t < g->n_tensors; t++) {
        host_free(g->host, values->of[t]);
        values->of[t] = NULL;
    }
}

void values_destroy(const struct graph *g, struct values *values)
{
    values_clear(g, values);
    host_free(g->host, values->of);
    host_free(g->host, values->ids);
    memset(values, 0, sizeof *values);
}

bool values_load(const struct graph *g, const struct group *group, const struct batch_shape *b, enum storage type,
                 tensor_bytes bytes, void *user, struct values *values, struct error *e)
{
    values_clear(g, values);
    for (int i = 0; i < group->n_reads; i++) {
        int t = tensor_owner(g, group->reads[i]);
        const void *storage = bytes(t, user);
        if (!storage)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: %s has no memory", group->name, g->tensors[t].name);
        if (g->tensors[t].u32 && g->tensors[t].role == TENSOR_BATCH) {
            values->ids[t] = storage;
        } else if (!values->of[t]) {
            size_t count = (size_t)tensor_elements(g, b, t);
            if (!(values->of[t] = host_alloc(g->host, count, sizeof(double), e))) return false;
            tensor_load(g, b, t, type, storage, values->of[t]);
        }
    }
    for (int i = 0; i < group->count; i++)
        for (int k = 0; k < OP_MAX_OUT; k++) {
            int out = g->ops[group->ops[i]].out[k], t = out < 0 ? -1 : tensor_owner(g, out);
            if (t < 0 || values->of[t]) continue; /* of several slices the first makes room for all */
            if (!(values->of[t] = host_alloc(g->host, (size_t)tensor_elements(g, b, t), sizeof(double), e)))
                return false;
        }
    return true;
}

bool group_reference(const struct graph *g, const struct group *group, const struct batch_shape *b, struct values *v,
                     struct error *e)
{
    for (int i = 0; i < group->count; i++)
        TRY(g->ops[group->ops[i]].kind->reference(g, &g->ops[group->ops[i]], b, v, e));
    return true;
}
