/* The arena's plan, its memory, and copies to and from it. */
#include "train/arena.h"

#include <string.h>

#include "base/round.h"
#include "interface/interface.h"
#include "interface/optimizer.h"
#include "runtime/device_memory.h"
#include "runtime/train.h"

/* ---- segments ---- */

/* Elements that one buffer and one argument hold as floats, and that a kernel's 32-bit numbers reach. */
static uint64_t elements_most(const struct wherry_session *s)
{
    const struct device_limits *limits = s->device->backend->limits(s->device->handle);
    uint64_t bytes =
        limits->max_buffer_bytes < limits->max_binding_bytes ? limits->max_buffer_bytes : limits->max_binding_bytes;
    uint64_t most = bytes / sizeof(float) / OPTIMIZER_CHUNK * OPTIMIZER_CHUNK;
    return most < (uint64_t)1 << 31 ? most : (uint64_t)1 << 31;
}

static bool segment_add(const struct wherry_session *s, struct arena *a, size_t *room, const struct segment *segment,
                        struct error *e)
{
    void *grown = host_grow_one(&s->context->host, a->segments, (size_t)a->n_segments, room, sizeof *segment, e);
    if (!grown) return false;
    a->segments = grown;
    a->segments[a->n_segments++] = *segment;
    return true;
}

/* Elements of one part that lie together: what follows the letter of parts in the session's order; of heads a head's.
 */
static uint64_t part_run(const struct graph *g, int tensor)
{
    const char *letter = strpbrk(g->tensors[tensor].dims, "qQ");
    return letter ? letters_volume(g, letter + 1) : 1;
}

/* Which part run number `run` is of. */
static uint32_t part_of(const struct graph *g, int tensor, uint64_t run, uint32_t parts)
{
    const uint32_t heads = g->dims.of['h'], keys = g->dims.of['H'];
    if (!strchr(g->tensors[tensor].dims, 'Q') || parts != 3) return (uint32_t)(run % parts);
    const uint64_t head = run % (heads + 2 * keys);
    return head < heads ? 0 : head < heads + keys ? 1 : 2;
}

/* A tensor, cut where one of its blocks ends, where it is larger than a slab, and where another part begins. */
static bool tensor_cut(const struct wherry_session *s, struct arena *a, size_t *room, size_t n, uint32_t parts,
                       struct error *e)
{
    const struct graph *g = &s->graph;
    const int tensor = session_gradient(s, n), weight = g->tensors[tensor].gradient_of;
    const uint64_t size = session_storage(s), all = tensor_elements(g, &s->limits, tensor), most = elements_most(s);
    const uint64_t run = parts > 1 ? part_run(g, tensor) : all;
    struct segment segment = {.tensor = n};
    if (strcmp(g->tensors[tensor].dims, g->tensors[weight].dims) || g->tensors[tensor].f32 || g->tensors[weight].bf16 ||
        s->memory.of[tensor].block < 0 || s->memory.of[weight].block < 0)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: the weight and its gradient do not lie alike in this session",
                    g->tensors[weight].name);
    if (run < all && run % 4) /* kernels read four elements at once */
        return fail(
            e, WHERRY_STATUS_UNSUPPORTED,
            "%s: LAMB treats its %u parts apart, which begin at no multiple of 4 elements in the order %s: leave "
            "it in the model's order",
            g->tensors[weight].name, (unsigned)parts, g->tensors[weight].dims);
    for (segment.first = 0; segment.first < all; segment.first += segment.count) {
        const uint64_t at = segment.first * size, rest = run - segment.first % run;
        uint64_t left = placement_find(&s->memory.of[tensor], at, &segment.gradient_block, &segment.gradient_offset);
        uint64_t other = placement_find(&s->memory.of[weight], at, &segment.weight_block, &segment.weight_offset);
        segment.count = (left < other ? left : other) / size;
        if (segment.count > rest) segment.count = rest;
        if (segment.count > most) segment.count = most;
        segment.rates = a->n_rates + part_of(g, tensor, segment.first / run, parts);
        TRY(segment_add(s, a, room, &segment, e));
    }
    a->n_rates += parts;
    a->parameters += all;
    return true;
}

/* Those of adapters lie alike in values and gradients. */
static bool adapter_add(const struct wherry_session *s, struct arena *a, size_t *room, size_t n, size_t tensor,
                        struct error *e)
{
    const struct range at = adapters_range(a->adapters, tensor);
    const struct segment segment = {.tensor = n,
                                    .rates = a->n_rates++,
                                    .count = (at.end - at.begin) / sizeof(float),
                                    .gradient_block = ARENA_ADAPTERS,
                                    .weight_block = ARENA_ADAPTERS,
                                    .gradient_offset = at.begin,
                                    .weight_offset = at.begin};
    a->parameters += segment.count;
    return segment_add(s, a, room, &segment, e);
}

static bool segments_make(const struct wherry_session *s, const uint32_t *parts, size_t count, struct arena *a,
                          struct error *e)
{
    const size_t gradients = count - adapters_tensors(a->adapters);
    size_t room = 0;
    for (size_t n = 0; n < count; n++)
        if (parts[n])
            TRY(n < gradients ? tensor_cut(s, a, &room, n, parts[n], e)
                              : adapter_add(s, a, &room, n, n - gradients, e));
    return true;
}

static uint64_t segment_storage(const struct wherry_session *s, const struct segment *segment)
{
    return segment_adapts(segment) ? sizeof(float) : session_storage(s);
}

struct buffer *segment_gradients(const struct wherry_session *s, const struct arena *a, const struct segment *segment)
{
    return segment_adapts(segment) ? adapters_gradients(a->adapters) : s->buffers[segment->gradient_block];
}

struct buffer *segment_weights(const struct wherry_session *s, const struct arena *a, const struct segment *segment)
{
    return segment_adapts(segment) ? adapters_values(a->adapters) : s->buffers[segment->weight_block];
}

static bool shards_make(const struct wherry_session *s, struct arena *a, struct error *e)
{
    const uint64_t most = elements_most(s);
    if (!(a->slabs = host_alloc(&s->context->host, (size_t)a->n_segments, sizeof *a->slabs, e))) return false;
    for (int i = 0; i < a->n_segments; i++) {
        struct segment *segment = &a->segments[i];
        if (!a->n_slabs || a->slabs[a->n_slabs - 1].elements + segment->count > most) a->n_slabs++;
        struct slab *slab = &a->slabs[a->n_slabs - 1];
        segment->slab = a->n_slabs - 1;
        segment->at = slab->elements;
        slab->elements = round_up(slab->elements + segment->count, SEGMENT_ROUND);
    }
    return true;
}

/* ---- launches ---- */

static struct range range_join(struct range a, uint64_t begin, uint64_t bytes)
{
    const uint64_t end = begin + round_up(bytes, MEMORY_ALIGNMENT);
    if (begin < a.begin) a.begin = begin;
    if (end > a.end) a.end = end;
    return a;
}

/* The launch with one segment more; false: it does not reach it. */
static bool launch_join(const struct wherry_session *s, const struct arena *a, struct launch_range *l, int index)
{
    const struct segment *first = &a->segments[l->first], *segment = &a->segments[index];
    const uint64_t size = segment_storage(s, segment),
                   most = s->device->backend->limits(s->device->handle)->max_binding_bytes;
    struct launch_range joined = *l;
    joined.end = index + 1;
    joined.chunks += (uint32_t)divide_up(segment->count, OPTIMIZER_CHUNK);
    joined.state = range_join(l->state, 4 * segment->at, 4 * segment->count);
    joined.gradients = range_join(l->gradients, segment->gradient_offset, size * segment->count);
    joined.weights = range_join(l->weights, segment->weight_offset, size * segment->count);
    if (segment->slab != first->slab || segment->gradient_block != first->gradient_block ||
        segment->weight_block != first->weight_block || joined.gradients.end - joined.gradients.begin > most ||
        joined.weights.end - joined.weights.begin > most || joined.state.end - joined.state.begin > most)
        return false;
    *l = joined;
    return true;
}

static bool launches_make(const struct wherry_session *s, struct arena *a, struct error *e)
{
    if (!(a->launches = host_alloc(&s->context->host, (size_t)a->n_segments, sizeof *a->launches, e))) return false;
    for (int i = 0; i < a->n_segments; i++) {
        static const struct range none = {UINT64_MAX, 0};
        struct launch_range *l = &a->launches[a->n_launches];
        if (a->n_launches && launch_join(s, a, l - 1, i)) continue;
        *l = (struct launch_range){.first = i, .state = none, .gradients = none, .weights = none};
        if (!launch_join(s, a, l, i))
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "one kernel argument on this device is too small for a tensor");
        a->n_launches++;
    }
    for (int i = 0; i < a->n_launches; i++) {
        struct launch_range *l = &a->launches[i];
        const uint64_t table = 4 * (OPTIMIZER_TABLE + (uint64_t)l->chunks * CHUNK_WORDS);
        l->table = (struct range){a->tables_bytes, a->tables_bytes + round_up(table, MEMORY_ALIGNMENT)};
        l->partials =
            (struct range){a->partials_bytes, a->partials_bytes + round_up(8 * (uint64_t)l->chunks, MEMORY_ALIGNMENT)};
        a->tables_bytes = l->table.end;
        if (a->sums) l->joins = (struct range){a->tables_bytes, a->tables_bytes + round_up(table, MEMORY_ALIGNMENT)};
        if (a->sums) a->tables_bytes = l->joins.end;
        a->partials_bytes = l->partials.end;
    }
    const uint64_t flags = round_up(2 * 4 * HANDOVER_GROUPS, MEMORY_ALIGNMENT);
    a->flags = (struct range){a->partials_bytes, a->partials_bytes + flags};
    a->partials_bytes = a->flags.end;
    return true;
}

bool arena_plan(const struct wherry_session *s, struct adapters *adapters, const uint32_t *parts, size_t count,
                int sums, struct arena *out, struct error *e)
{
    *out = (struct arena){.adapters = adapters, .sums = sums};
    if (segments_make(s, parts, count, out, e) && shards_make(s, out, e) && launches_make(s, out, e)) return true;
    arena_free(s, out);
    return false;
}

/* ---- memory ---- */

/* The table of a launch: every chunk by its first elements, counted from where the launch's arguments begin. `joins`:
 * gradients lie as what they are added to. */
static void table_fill(const struct wherry_session *s, const struct arena *a, const struct launch_range *l, bool joins,
                       uint32_t *words)
{
    const uint64_t size = segment_storage(s, &a->segments[l->first]);
    uint32_t *entry = words + OPTIMIZER_TABLE;
    words[0] = l->chunks;
    for (int i = l->first; i < l->end; i++) {
        const struct segment *segment = &a->segments[i];
        for (uint64_t at = 0; at < segment->count; at += OPTIMIZER_CHUNK, entry += CHUNK_WORDS) {
            uint64_t left = segment->count - at;
            entry[CHUNK_AT] = (uint32_t)(segment->at + at - l->state.begin / 4);
            entry[CHUNK_GRADIENT] =
                joins ? entry[CHUNK_AT] : (uint32_t)((segment->gradient_offset - l->gradients.begin) / size + at);
            entry[CHUNK_WEIGHT] = (uint32_t)((segment->weight_offset - l->weights.begin) / size + at);
            entry[CHUNK_COUNT] = left < OPTIMIZER_CHUNK ? (uint32_t)left : OPTIMIZER_CHUNK;
            entry[CHUNK_TENSOR] = segment->rates;
        }
    }
}

static bool tables_write(const struct wherry_session *s, const struct arena *a, struct error *e)
{
    uint32_t *words = host_alloc(&s->context->host, (size_t)a->tables_bytes, 1, e);
    if (!words) return false;
    for (int i = 0; i < a->n_launches; i++) {
        const struct launch_range *l = &a->launches[i];
        table_fill(s, a, l, false, words + l->table.begin / 4);
        if (a->sums) table_fill(s, a, l, true, words + l->joins.begin / 4);
    }
    bool ok = s->device->backend->buffer_write(s->device->handle, a->tables, 0, words, a->tables_bytes, e);
    host_free(&s->context->host, words);
    return ok;
}

uint64_t arena_bytes(const struct arena *a, uint32_t parts)
{
    uint64_t elements = 0, n = (uint64_t)a->sums;
    for (int i = 0; i < a->n_slabs; i++) elements += a->slabs[i].elements;
    for (int part = 0; part < ARENA_PARTS; part++) n += parts >> part & 1;
    return 4 * elements * n + a->tables_bytes + a->partials_bytes;
}

static bool parts_make(const struct wherry_session *s, uint32_t parts, struct arena *a, struct error *e)
{
    const struct backend *backend = s->device->backend;
    for (int i = 0; i < a->n_slabs; i++)
        for (int part = 0; part < ARENA_PARTS; part++) {
            struct slab *slab = &a->slabs[i];
            if (!(parts >> part & 1) || slab->parts[part]) continue;
            TRY((slab->parts[part] = backend->buffer_create(s->device->handle, 4 * slab->elements, e)) != NULL);
        }
    return true;
}

static bool buffers_make(const struct wherry_session *s, uint32_t parts, struct arena *a, struct error *e)
{
    const struct backend *backend = s->device->backend;
    struct backend_device *device = s->device->handle;
    TRY(device_has_bytes(s->device, arena_bytes(a, parts), "the optimizer", e) && parts_make(s, parts, a, e));
    for (int i = 0; i < a->n_slabs && a->sums; i++) {
        struct slab *slab = &a->slabs[i];
        TRY((slab->sums = host_alloc(&s->context->host, (size_t)a->sums, sizeof *slab->sums, e)) != NULL);
        for (int n = 0; n < a->sums; n++)
            TRY((slab->sums[n] = backend->buffer_create(device, 4 * slab->elements, e)) != NULL);
    }
    TRY((a->tables = backend->buffer_create(device, a->tables_bytes, e)) != NULL);
    TRY((a->partials = backend->buffer_create(device, a->partials_bytes, e)) != NULL);
    return true;
}

static bool zeros_write(const struct wherry_session *s, struct buffer *buffer, uint64_t bytes, struct error *e)
{
    enum { PIECE = 1 << 20 };
    void *zeros = host_alloc(&s->context->host, PIECE, 1, e);
    bool ok = zeros != NULL;
    for (uint64_t at = 0; ok && at < bytes; at += PIECE)
        ok = s->device->backend->buffer_write(s->device->handle, buffer, at, zeros,
                                              bytes - at < PIECE ? bytes - at : PIECE, e);
    host_free(&s->context->host, zeros);
    return ok;
}

bool arena_make(const struct wherry_session *s, uint32_t parts, struct arena *a, struct error *e)
{
    mutex_enter(&s->device->weights.memory);
    bool ok = buffers_make(s, parts, a, e);
    mutex_leave(&s->device->weights.memory);
    return ok && tables_write(s, a, e) && zeros_write(s, a->partials, a->partials_bytes, e) &&
           arena_clear(s, a, ARENA_FIRST, e) && arena_clear(s, a, ARENA_SECOND, e);
}

bool arena_add(const struct wherry_session *s, enum arena_part part, struct arena *a, struct error *e)
{
    uint64_t elements = 0;
    for (int i = 0; i < a->n_slabs; i++) elements += a->slabs[i].elements;
    mutex_enter(&s->device->weights.memory);
    bool ok = device_has_bytes(s->device, 4 * elements, "the optimizer's accumulated gradients", e) &&
              parts_make(s, 1u << part, a, e);
    mutex_leave(&s->device->weights.memory);
    return ok;
}

void arena_free(const struct wherry_session *s, struct arena *a)
{
    const struct backend *backend = s->device->backend;
    const struct host *host = &s->context->host;
    for (int i = 0; i < a->n_slabs; i++) {
        for (int part = 0; part < ARENA_PARTS; part++)
            backend->buffer_destroy(s->device->handle, a->slabs[i].parts[part]);
        for (int n = 0; a->slabs[i].sums && n < a->sums; n++)
            backend->buffer_destroy(s->device->handle, a->slabs[i].sums[n]);
        host_free(host, a->slabs[i].sums);
    }
    backend->buffer_destroy(s->device->handle, a->tables);
    backend->buffer_destroy(s->device->handle, a->partials);
    host_free(host, a->segments);
    host_free(host, a->slabs);
    host_free(host, a->launches);
    *a = (struct arena){0};
}

/* ---- copies ---- */

static bool segments_copy(const struct wherry_session *s, const struct arena *a, enum arena_part part, size_t tensor,
                          bool write, float *values, struct error *e)
{
    const struct backend *backend = s->device->backend;
    for (int i = 0; i < a->n_segments; i++) {
        const struct segment *segment = &a->segments[i];
        if (segment->tensor != tensor) continue;
        struct buffer *buffer = a->slabs[segment->slab].parts[part];
        float *at = values + segment->first;
        if (write)
            TRY(backend->buffer_write(s->device->handle, buffer, 4 * segment->at, at, 4 * segment->count, e));
        else
            TRY(backend->buffer_read(s->device->handle, buffer, 4 * segment->at, at, 4 * segment->count, e));
    }
    return true;
}

/* In the order in which the session keeps the tensor, where that is another: NULL in *turned, it is the model's. */
static bool turned_make(const struct wherry_session *s, size_t tensor, struct matrix_order *order, float **turned,
                        struct error *e)
{
    const int t = session_gradient(s, tensor); /* below 0: of adapters, which have one order */
    *turned = NULL;
    if (t < 0 || !tensor_reordered(&s->graph, t, order)) return true;
    *turned = host_alloc(&s->context->host, (size_t)tensor_elements(&s->graph, &s->limits, t), sizeof **turned, e);
    return *turned != NULL;
}

bool arena_read(const struct wherry_session *s, const struct arena *a, enum arena_part part, size_t tensor,
                float *values, struct error *e)
{
    struct matrix_order order;
    float *turned;
    TRY(turned_make(s, tensor, &order, &turned, e));
    bool ok = segments_copy(s, a, part, tensor, false, turned ? turned : values, e);
    if (ok && turned) floats_from_order(&order, turned, values);
    host_free(&s->context->host, turned);
    return ok;
}

bool arena_write(const struct wherry_session *s, const struct arena *a, enum arena_part part, size_t tensor,
                 const float *values, struct error *e)
{
    struct matrix_order order;
    float *turned;
    TRY(turned_make(s, tensor, &order, &turned, e));
    if (turned) floats_to_order(&order, values, turned);
    bool ok = segments_copy(s, a, part, tensor, true, turned ? turned : (float *)values, e);
    host_free(&s->context->host, turned);
    return ok;
}

bool arena_clear(const struct wherry_session *s, const struct arena *a, enum arena_part part, struct error *e)
{
    for (int i = 0; i < a->n_slabs; i++) {
        const struct slab *slab = &a->slabs[i];
        if (slab->parts[part]) TRY(zeros_write(s, slab->parts[part], 4 * slab->elements, e));
        for (int n = 0; part == ARENA_GRADIENT && n < a->sums; n++)
            TRY(zeros_write(s, slab->sums[n], 4 * slab->elements, e));
    }
    return true;
}
