/* Makes a planned session runnable: device memory, weights, the recorded program. */
#include "runtime/prepare.h"

#include <string.h>

#include "base/platform.h"
#include "interface/interface.h"
#include "runtime/buffers.h"

/* Weights are converted and copied in pieces of this size; in another order in larger ones, so that most matrices are
 * read row after row, and not some columns of every row at a time. */
enum { UPLOAD_ELEMENTS = 1 << 20, REORDER_ELEMENTS = 1 << 22 };

/* What an upload works in. */
struct upload {
    struct wherry_session *s;
    void *raw;   /* WEIGHT_RAW_BYTES */
    void *piece; /* UPLOAD_ELEMENTS + 2 values */
    void *strip, *reordered;
    uint64_t strip_room, reordered_room; /* values */
};

/* Grows with what is asked for, so that it is made once for many tensors. */
static bool make_room(const struct upload *u, void **memory, uint64_t *room, uint64_t values, struct error *e)
{
    const struct host *host = &u->s->context->host;
    if (values <= *room) return true;
    host_free(host, *memory);
    *room = 0;
    if (!(*memory = host_alloc(host, (size_t)values, session_storage(u->s), e))) return false;
    *room = values;
    return true;
}

/* `count` values of a tensor from element `first` on. Device copies are multiples of 4 bytes, so values are even in
 * number but for a tensor's last ones; there `values` has room for one more. */
static bool upload_piece(struct wherry_session *s, int tensor, uint64_t first, uint64_t count, void *values,
                         struct error *e)
{
    const struct placement *at = &s->memory.of[tensor];
    uint64_t bytes = count * session_storage(s), whole = (bytes + 3) / 4 * 4;
    if (whole != bytes) memset((char *)values + bytes, 0, 2);
    return s->device->backend->buffer_write(s->device->handle, s->buffers[at->block],
                                            at->offset + first * session_storage(s), values, whole, e);
}

/* In another order than the parts are, some of the outer index at a time. */
static bool upload_reordered(struct upload *u, int tensor, const struct weight_part *parts,
                             const struct matrix_order *order, struct error *e)
{
    struct wherry_session *s = u->s;
    uint64_t outer = order->transposed ? order->columns : order->rows, inner = order->rows * order->columns / outer;
    uint64_t step = REORDER_ELEMENTS / inner / 2 * 2;
    if (step < 2) step = 2;
    if (step > outer) step = outer;
    TRY(make_room(u, &u->strip, &u->strip_room, ORDER_STRIP * step, e));
    TRY(make_room(u, &u->reordered, &u->reordered_room, step * inner + 2, e));
    for (uint64_t first = 0; first < outer; first += step) {
        uint64_t count = outer - first < step ? outer - first : step;
        TRY(weight_convert_order(parts, order, first, count, s->f16, u->raw, u->strip, u->reordered, e));
        TRY(upload_piece(s, tensor, first * inner, count * inner, u->reordered, e));
    }
    return true;
}

/* One tensor's parts, back to back, in the storage type. */
static bool upload_weight(struct upload *u, int tensor, struct error *e)
{
    struct wherry_session *s = u->s;
    const struct tensor *t = &s->graph.tensors[tensor];
    const struct weight_part *parts;
    int n = model_weight(s->model, t->weight, t->layer, &parts);
    uint64_t elements = 0, want = tensor_elements(&s->graph, &s->limits, tensor);
    struct matrix_order order;
    for (int i = 0; i < n; i++) elements += parts[i].elements;
    if (elements != want)
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "%s: the model has %llu values, the graph needs %llu", t->name,
                    (unsigned long long)elements, (unsigned long long)want);
    if (tensor_reordered(&s->graph, tensor, &order)) return upload_reordered(u, tensor, parts, &order, e);
    /* Pieces are filled across the ends of parts, so that they are even. */
    uint64_t written = 0, filled = 0, part_at = 0;
    for (int i = 0; i < n;) {
        uint64_t room = UPLOAD_ELEMENTS - filled, left = parts[i].elements - part_at, count = left < room ? left : room;
        char *to = (char *)u->piece + filled * session_storage(s);
        TRY(weight_convert(&parts[i], part_at, count, s->f16, u->raw, to, e));
        filled += count;
        part_at += count;
        if (part_at == parts[i].elements) i++, part_at = 0;
        if (filled < UPLOAD_ELEMENTS && i < n) continue;
        TRY(upload_piece(s, tensor, written, filled, u->piece, e));
        written += filled;
        filled = 0;
    }
    return true;
}

static bool upload_weights(struct wherry_session *s, wherry_progress progress, void *user, struct error *e)
{
    const struct host *host = &s->context->host;
    struct upload u = {.s = s, .raw = host_alloc(host, WEIGHT_RAW_BYTES, 1, e)};
    if (u.raw) u.piece = host_alloc(host, UPLOAD_ELEMENTS + 2, session_storage(s), e);
    bool ok = u.piece != NULL;
    for (int t = 0; ok && t < s->graph.n_tensors; t++) {
        if (s->graph.tensors[t].role != TENSOR_WEIGHT || s->graph.tensors[t].parent >= 0) continue;
        if (s->memory.of[t].block < 0) continue; /* no group reads it */
        ok = upload_weight(&u, t, e);
        if (ok && progress && !progress("weights", (size_t)t + 1, (size_t)s->graph.n_tensors, user))
            ok = fail(e, WHERRY_STATUS_CANCELLED, "cancelled while copying weights");
    }
    void *memory[] = {u.raw, u.piece, u.strip, u.reordered};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) host_free(host, memory[i]);
    return ok;
}

/* The block that holds the batch header: the first of its kind. */
static int batch_block(const struct wherry_session *s)
{
    int block = 0;
    while (s->memory.blocks[block].kind != MEMORY_BATCH) block++;
    return block;
}

static int calls_of(const struct wherry_session *s, int group)
{
    int n = 0;
    for (int i = 0; i < s->n_calls; i++) n += s->call_groups[i] == group;
    return n;
}

void session_step(const struct wherry_session *s, const struct call *call, int group, struct step *step)
{
    uint64_t tables = 4 * batch_words_most(&s->tables, &s->limits);
    *step = (struct step){.name = s->groups[group].name,
                          .kernel = call->kernel,
                          .launch = call->launch,
                          .f16 = s->f16,
                          .call = call,
                          .group = group};
    step->flops = group_flops(&s->graph, &s->limits, &s->groups[group]) / (double)calls_of(s, group);
    step->items_most = call_items_most(call, s->f16, &s->tables, &s->limits);
    step->bindings[step->n_bindings++] =
        (struct binding){.slot = SLOT_BATCH, .words = true, .buffer = s->buffers[batch_block(s)], .bytes = tables};
    for (int i = 0; i < call->n_arguments; i++) {
        int tensor = call->arguments[i].tensor;
        bool scratch = tensor == TENSOR_SCRATCH;
        const struct placement *at = scratch ? &s->memory.scratch[group] : &s->memory.of[tensor];
        step->bindings[step->n_bindings++] =
            (struct binding){.slot = call->arguments[i].slot,
                             .written = call->arguments[i].written,
                             .words = scratch || s->graph.tensors[tensor].u32 || s->graph.tensors[tensor].f32,
                             .buffer = at->block < 0 ? NULL : s->buffers[at->block],
                             .offset = at->offset,
                             .bytes = at->bytes};
    }
}

static bool make_host_memory(struct wherry_session *s, struct error *e)
{
    const struct host *host = &s->context->host;
    size_t tokens = (size_t)s->limits.tokens;
    s->grids = host_alloc(host, (size_t)s->n_calls, sizeof *s->grids, e);
    size_t words = s->whole ? (size_t)s->memory.blocks[batch_block(s)].bytes / 4
                            : (size_t)batch_words_most(&s->tables, &s->limits);
    s->words = s->grids ? host_alloc(host, words, 4, e) : NULL;
    s->batch_u32 = s->words ? host_alloc(host, BATCH_DATA_COUNT * tokens, 4, e) : NULL;
    s->offsets = s->batch_u32 ? host_alloc(host, (size_t)s->limits.sequences + 1, 4, e) : NULL;
    if (!s->offsets) return false;
    const struct graph *g = &s->graph;
    /* A part of a plan may have neither: 1 */
    size_t output = (size_t)s->memory.of[g->output].bytes + 1, input = 0;
    if (g->in_gradient >= 0 && s->memory.of[g->in_gradient].bytes > output)
        output = (size_t)s->memory.of[g->in_gradient].bytes;
    if (g->input >= 0) input = (size_t)s->memory.of[g->input].bytes;
    if (g->out_gradient >= 0 && s->memory.of[g->out_gradient].bytes > input)
        input = (size_t)s->memory.of[g->out_gradient].bytes;
    s->schedule.max_download = output;
    s->schedule.max_upload = 4 * (words + BATCH_DATA_COUNT * tokens) + input;
    s->output_storage = host_alloc(host, output, 1, e);
    if (input) s->input_storage = s->output_storage ? host_alloc(host, input, 1, e) : NULL;
    return s->output_storage && (!input || s->input_storage);
}

bool session_prepare(struct wherry_session *s, wherry_progress progress, void *user, wherry_prepare_info *info,
                     struct error *e)
{
    uint64_t start = clock_ns();
    struct program_info made = {0};
    if (!s->prepared) {
        if (!s->device->probed) TRY(device_probe(s->device, false, e));
        TRY(session_make_buffers(s, false, e));
        TRY(upload_weights(s, progress, user, e));
        TRY(make_host_memory(s, e));
        if (!(s->steps = host_alloc(&s->context->host, (size_t)s->n_calls, sizeof *s->steps, e))) return false;
        for (int i = 0; i < s->n_calls; i++) session_step(s, &s->calls[i], s->call_groups[i], &s->steps[i]);
        s->schedule.steps = s->steps;
        s->schedule.n_steps = s->n_calls;
        s->schedule.boundary = s->boundary < s->n_calls ? s->boundary : 0;
        s->schedule.library = s->library;
        s->schedule.graph = &s->graph;
        s->schedule.groups = s->groups;
        s->program = s->device->backend->program_create(s->device->handle, &s->schedule, progress, user, &made, e);
        if (!s->program) return false;
        /* After all that is compiled: a driver that does no more than that is useful for what it says about it. */
        if (!s->device->probed) TRY(device_probe(s->device, true, e));
        for (int i = 0; i < s->n_calls; i++) {
            const char *note = s->device->backend->program_note(s->program, i);
            if (note) TRY(session_note(s, e, "%s: %s", group_short_name(&s->groups[s->call_groups[i]]), note));
        }
        s->prepared = true;
    }
    if (info) {
        info->kernels = made.kernels;
        info->kernels_compiled = made.compiled;
        info->seconds = (double)(clock_ns() - start) * 1e-9;
    }
    return true;
}

/* A failed prepare leaves the session as it was, planned only. */
static void prepare_undo(struct wherry_session *s)
{
    const struct host *host = &s->context->host;
    s->device->backend->program_destroy(s->device->handle, s->program);
    session_free_buffers(s);
    void **memory[] = {(void **)&s->steps,        (void **)&s->grids,   (void **)&s->words,
                       (void **)&s->batch_u32,    (void **)&s->offsets, (void **)&s->output_storage,
                       (void **)&s->input_storage};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        host_free(host, *memory[i]);
        *memory[i] = NULL;
    }
    s->program = NULL;
    s->sequences = 0;
    s->lengths_sent = s->types_sent = false;
}

wherry_status wherry_session_prepare(wherry_session *session, wherry_progress progress, void *user,
                                     wherry_prepare_info *info)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (info && info->struct_size != sizeof *info)
        return context_invalid(session->context, "wherry_prepare_info.struct_size is %u, this library's is %zu",
                               info->struct_size, sizeof *info);
    bool ok = session_prepare(session, progress, user, info, &session->context->error);
    if (!ok) prepare_undo(session);
    return context_status(session->context, ok);
}
