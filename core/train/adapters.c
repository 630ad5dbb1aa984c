/* Adapters: where they and the matrices that they change lie, and copies to and from them. */
#include "train/adapters.h"

#include <string.h>

#include "base/round.h"
#include "interface/adapter.h"
#include "runtime/device_memory.h"
#include "runtime/train.h"
#include "train/adapters_state.h"

/* ---- the plan ---- */

/* Where a matrix lies in its weight, in the order in which the session keeps that. */
static bool geometry_fill(const struct graph *g, const struct adapter_target *target, int gradient,
                          struct adapted_matrix *m, struct error *e)
{
    struct matrix_order order = {.rows = target->all_rows, .columns = target->columns};
    if (tensor_reordered(g, gradient, &order) && order.heads && target->parts == 1)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "%s: an adapter of queries, keys and values as one matrix needs another order than %s: leave it in "
                    "the model's",
                    g->tensors[gradient].name, g->tensors[gradient].dims);
    if (order.paired && target->first_row < order.paired)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "%s: rotary positions have the rows of queries and keys in pairs, which no adapter follows: choose "
                    "values and other matrices",
                    g->tensors[gradient].name);
    const uint64_t row = order.transposed ? 1 : order.columns;
    const uint64_t block = order.heads ? order.channels : target->rows; /* rows that lie one after the other */
    m->words[MATRIX_ROWS] = (uint32_t)target->rows;
    m->words[MATRIX_COLUMNS] = (uint32_t)target->columns;
    m->words[MATRIX_BLOCK] = (uint32_t)block;
    m->words[MATRIX_BLOCK_STEP] = (uint32_t)(row * block * target->parts);
    m->words[MATRIX_ROW_STEP] = (uint32_t)row;
    m->words[MATRIX_COLUMN_STEP] = (uint32_t)(order.transposed ? order.rows : 1);
    m->first = order.heads ? target->part * block * row : target->first_row * row;
    return true;
}

static bool matrix_place(const struct wherry_session *s, int tensor, int *block, uint64_t *offset, struct error *e)
{
    const uint64_t bytes = tensor_elements(&s->graph, &s->limits, tensor) * session_storage(s);
    return (s->memory.of[tensor].block >= 0 && placement_find(&s->memory.of[tensor], 0, block, offset) >= bytes) ||
           fail(e, WHERRY_STATUS_UNSUPPORTED,
                "%s is too large for one buffer of this device, so it can't have an adapter here: choose others",
                s->graph.tensors[tensor].name);
}

static bool matrix_plan(struct adapters *a, const struct adapter_target *target, struct adapted_matrix *m,
                        struct error *e)
{
    const struct wherry_session *s = a->session;
    const struct graph *g = &s->graph;
    const int gradient = session_gradient(s, target->gradient), weight = g->tensors[gradient].gradient_of;
    const uint64_t rank = a->rank;
    *m = (struct adapted_matrix){.target = *target, .weight = weight};
    m->elements = tensor_elements(g, &s->limits, gradient);
    if (strcmp(g->tensors[gradient].dims, g->tensors[weight].dims) || g->tensors[gradient].f32 ||
        g->tensors[weight].bf16 || target->all_rows * target->columns != m->elements)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: the weight and its gradient do not lie alike in this session",
                    g->tensors[weight].name);
    TRY(geometry_fill(g, target, gradient, m, e) && matrix_place(s, weight, &m->weight_block, &m->weight_offset, e) &&
        matrix_place(s, gradient, &m->gradient_block, &m->gradient_offset, e));
    m->words[MATRIX_A] = (uint32_t)a->elements;
    a->elements = round_up(a->elements + rank * target->columns, PLACE_ROUND);
    m->words[MATRIX_B] = (uint32_t)a->elements;
    a->elements = round_up(a->elements + rank * target->rows, PLACE_ROUND);
    return a->elements <= UINT32_MAX || fail(e, WHERRY_STATUS_UNSUPPORTED, "the adapters are too large: a lower rank");
}

static struct range range_with(struct range range, uint64_t begin, uint64_t bytes)
{
    const uint64_t end = begin + round_up(bytes, MEMORY_ALIGNMENT);
    return (struct range){begin < range.begin ? begin : range.begin, end > range.end ? end : range.end};
}

/* The launch with one matrix more; false: it does not reach it. Matrices of one weight share its copy. */
static bool launch_join(const struct adapters *a, struct adapter_launch *l, int index)
{
    const struct wherry_session *s = a->session;
    const struct device_limits *limits = s->device->backend->limits(s->device->handle);
    const uint64_t most =
        limits->max_buffer_bytes < limits->max_binding_bytes ? limits->max_buffer_bytes : limits->max_binding_bytes;
    const struct adapted_matrix *first = &a->matrices[l->first];
    struct adapted_matrix *m = &a->matrices[index];
    const struct adapted_matrix *before = index > l->first ? m - 1 : NULL;
    const uint64_t bytes = m->elements * session_storage(s);
    struct adapter_launch joined = *l;
    const bool same = before && before->weight == m->weight;
    joined.end = index + 1;
    joined.weights = range_with(l->weights, m->weight_offset, bytes);
    joined.gradients = range_with(l->gradients, m->gradient_offset, bytes);
    m->base = same ? before->base : l->base_elements;
    if (!same) joined.base_elements = round_up(l->base_elements + m->elements, PLACE_ROUND);
    if (m->weight_block != first->weight_block || m->gradient_block != first->gradient_block ||
        joined.weights.end - joined.weights.begin > most || joined.gradients.end - joined.gradients.begin > most ||
        4 * joined.base_elements > most)
        return false;
    *l = joined;
    return true;
}

static bool launches_plan(struct adapters *a, struct error *e)
{
    static const struct range none = {UINT64_MAX, 0};
    for (int i = 0; i < a->count; i++) {
        struct adapter_launch *l = &a->launches[a->n_launches];
        if (a->n_launches && launch_join(a, l - 1, i)) continue;
        *l = (struct adapter_launch){.first = i, .weights = none, .gradients = none};
        if (!launch_join(a, l, i))
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "one kernel argument on this device is too small for a matrix");
        a->n_launches++;
    }
    const uint64_t size = session_storage(a->session);
    for (int n = 0; n < a->n_launches; n++)
        for (int i = a->launches[n].first; i < a->launches[n].end; i++) {
            struct adapted_matrix *m = &a->matrices[i];
            const struct adapter_launch *l = &a->launches[n];
            m->words[MATRIX_WEIGHT] = (uint32_t)((m->weight_offset - l->weights.begin) / size + m->first);
            m->words[MATRIX_GRADIENT] = (uint32_t)((m->gradient_offset - l->gradients.begin) / size + m->first);
            m->words[MATRIX_BASE] = (uint32_t)(m->base + m->first);
        }
    return true;
}

struct adapters *adapters_create(const struct wherry_session *session, const struct adapters_options *options,
                                 struct error *e)
{
    const struct host *host = &session->context->host;
    struct adapters *a = host_alloc(host, 1, sizeof *a, e);
    if (!a) return NULL;
    a->session = session;
    a->rank = options->rank;
    a->scale = options->scale;
    a->count = (int)options->count;
    bool ok = (a->matrices = host_alloc(host, options->count, sizeof *a->matrices, e)) &&
              (a->launches = host_alloc(host, options->count, sizeof *a->launches, e));
    for (size_t i = 0; ok && i < options->count; i++) ok = matrix_plan(a, &options->targets[i], &a->matrices[i], e);
    if (ok && launches_plan(a, e)) {
        adapters_tables_plan(a);
        return a;
    }
    adapters_destroy(a);
    return NULL;
}

void adapters_destroy(struct adapters *a)
{
    if (!a) return;
    const struct wherry_session *s = a->session;
    const struct host *host = &s->context->host;
    const struct backend *backend = s->device->backend;
    adapters_program_destroy(a);
    for (int i = 0; i < a->n_launches; i++) backend->buffer_destroy(s->device->handle, a->launches[i].base);
    backend->buffer_destroy(s->device->handle, a->values);
    backend->buffer_destroy(s->device->handle, a->gradients);
    host_free(host, a->matrices);
    host_free(host, a->launches);
    host_free(host, a);
}

/* ---- memory ---- */

/* A weight as the model's files have it, in the session's order. */
static bool base_write(struct adapters *a, const struct adapter_launch *l, const struct adapted_matrix *m, void *raw,
                       float *values, float *turned, struct error *e)
{
    const struct wherry_session *s = a->session;
    const struct tensor *weight = &s->graph.tensors[m->weight];
    const struct weight_part *parts;
    const int n = model_weight(s->model, weight->weight, weight->layer, &parts);
    struct matrix_order order;
    float *at = values;
    for (int i = 0; i < n; at += parts[i++].elements)
        TRY(weight_convert(&parts[i], 0, parts[i].elements, WEIGHT_TYPE_F32, raw, at, e));
    const bool reordered = tensor_reordered(&s->graph, m->weight, &order);
    if (reordered) floats_to_order(&order, values, turned);
    return s->device->backend->buffer_write(s->device->handle, l->base, 4 * m->base, reordered ? turned : values,
                                            4 * m->elements, e);
}

static bool bases_write(struct adapters *a, struct error *e)
{
    const struct host *host = &a->session->context->host;
    uint64_t most = 0;
    for (int i = 0; i < a->count; i++)
        if (a->matrices[i].elements > most) most = a->matrices[i].elements;
    void *raw = host_alloc_unset(host, WEIGHT_RAW_BYTES, 1, e);
    float *values = raw ? host_alloc_unset(host, (size_t)most, 2 * sizeof *values, e) : NULL;
    bool ok = values != NULL;
    for (int n = 0; n < a->n_launches; n++)
        for (int i = a->launches[n].first; ok && i < a->launches[n].end; i++)
            if (i == a->launches[n].first || a->matrices[i].weight != a->matrices[i - 1].weight)
                ok = base_write(a, &a->launches[n], &a->matrices[i], raw, values, values + most, e);
    host_free(host, values);
    host_free(host, raw);
    return ok;
}

static bool buffers_make(struct adapters *a, struct error *e)
{
    const struct wherry_device *device = a->session->device;
    const struct backend *backend = device->backend;
    const struct adapters_bytes bytes = adapters_bytes(a);
    TRY(device_has_bytes(a->session->device, 2 * bytes.values + bytes.base + bytes.tables, "adapters", e));
    if (!(a->values = backend->buffer_create(device->handle, bytes.values, e)) ||
        !(a->gradients = backend->buffer_create(device->handle, bytes.values, e)))
        return false;
    for (int i = 0; i < a->n_launches; i++) {
        struct adapter_launch *l = &a->launches[i];
        if (!(l->base = backend->buffer_create(device->handle, 4 * l->base_elements, e))) return false;
    }
    return true;
}

/* Gradients between tensors are read where a launch's chunks are, and count for nothing. */
static bool zeros_write(struct adapters *a, struct error *e)
{
    const struct wherry_device *device = a->session->device;
    const uint64_t bytes = adapters_bytes(a).values;
    void *zeros = host_alloc(&a->session->context->host, (size_t)bytes, 1, e);
    bool ok = zeros && device->backend->buffer_write(device->handle, a->values, 0, zeros, bytes, e) &&
              device->backend->buffer_write(device->handle, a->gradients, 0, zeros, bytes, e);
    host_free(&a->session->context->host, zeros);
    return ok;
}

bool adapters_make(struct adapters *a, struct error *e)
{
    if (!a) return true;
    mutex_enter(&a->session->device->weights.memory);
    bool ok = buffers_make(a, e);
    mutex_leave(&a->session->device->weights.memory);
    return ok && zeros_write(a, e) && bases_write(a, e) && adapters_program_create(a, e);
}

/* ---- tensors ---- */

size_t adapters_tensors(const struct adapters *a) { return a ? 2 * (size_t)a->count : 0; }
struct buffer *adapters_values(const struct adapters *a) { return a->values; }
struct buffer *adapters_gradients(const struct adapters *a) { return a->gradients; }

struct range adapters_range(const struct adapters *a, size_t tensor)
{
    const struct adapted_matrix *m = &a->matrices[tensor / 2];
    const bool of_b = tensor % 2;
    const uint64_t begin = 4 * (uint64_t)m->words[of_b ? MATRIX_B : MATRIX_A];
    return (struct range){begin, begin + 4 * (of_b ? m->target.rows : m->target.columns) * a->rank};
}

bool adapters_read(const struct adapters *a, size_t tensor, float *values, struct error *e)
{
    const struct range at = adapters_range(a, tensor);
    const struct wherry_device *device = a->session->device;
    return device->backend->buffer_read(device->handle, a->values, at.begin, values, at.end - at.begin, e);
}

bool adapters_write(const struct adapters *a, size_t tensor, const float *values, struct error *e)
{
    const struct range at = adapters_range(a, tensor);
    const struct wherry_device *device = a->session->device;
    return device->backend->buffer_write(device->handle, a->values, at.begin, values, at.end - at.begin, e);
}
