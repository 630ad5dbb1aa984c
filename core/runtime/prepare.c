/* Makes a planned session runnable: device memory, weights (weights.c), the recorded program. */
#include "runtime/prepare.h"

#include <string.h>

#include "base/parts.h"
#include "base/platform.h"
#include "interface/interface.h"
#include "runtime/backward.h"
#include "runtime/buffers.h"
#include "runtime/device_memory.h"
#include "runtime/encode.h"
#include "runtime/launches.h"
#include "runtime/portions.h"
#include "runtime/submit.h"
#include "runtime/weights.h"

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
                          .bf16 = s->bf16,
                          .call = call,
                          .group = group};
    step->flops = group_flops(&s->graph, &s->limits, &s->groups[group]) / (double)calls_of(s, group);
    step->items_most = call_items_most(call, s->f16, &s->tables, &s->limits);
    step->bindings[step->n_bindings++] =
        (struct binding){.slot = SLOT_BATCH, .words = true, .buffer = s->buffers[batch_block(s)], .bytes = tables};
    for (int i = 0; i < call->n_arguments; i++) {
        int tensor = call->arguments[i].tensor;
        bool scratch = tensor == TENSOR_SCRATCH;
        if (call->arguments[i].slot == SLOT_W && !scratch && s->graph.tensors[tensor].role == TENSOR_WEIGHT)
            step->bf16 &= s->f16 || s->graph.tensors[tensor_owner(&s->graph, tensor)].bf16;
        const struct placement *at = scratch ? &s->memory.scratch[group] : &s->memory.of[tensor];
        int block = at->block;
        uint64_t offset = at->offset, bytes = at->bytes;
        uint64_t skipped = call->arguments[i].skipped;
        if (!scratch && s->graph.tensors[tensor].strip)
            skipped += tensor_row_offset(&s->graph, tensor) *
                       (uint64_t)tensor_element_bytes(&s->graph, tensor, session_storage(s));
        if (block >= 0) bytes = placement_find(at, skipped, &block, &offset);
        step->bindings[step->n_bindings++] =
            (struct binding){.slot = call->arguments[i].slot,
                             .written = call->arguments[i].written,
                             .words = scratch || s->graph.tensors[tensor].u32 || s->graph.tensors[tensor].f32,
                             .bytes_each = !scratch && s->graph.tensors[tensor].int8,
                             .buffer = block < 0 ? NULL : s->buffers[block],
                             .offset = offset,
                             .bytes = bytes};
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
    size_t output = (size_t)s->memory.of[g->output].bytes + 1, input = 0, targets = 0;
    if (g->in_gradient >= 0 && s->memory.of[g->in_gradient].bytes > output)
        output = (size_t)s->memory.of[g->in_gradient].bytes;
    if (g->input >= 0) input = (size_t)s->memory.of[g->input].bytes;
    if (g->out_gradient >= 0 && s->memory.of[g->out_gradient].bytes > input)
        input = (size_t)s->memory.of[g->out_gradient].bytes;
    for (int t = 0; g->loss && t < g->n_tensors; t++) {
        if (g->tensors[t].input) input += (size_t)s->memory.of[t].bytes;
        if (g->tensors[t].input && t != g->input) targets += (size_t)s->memory.of[t].bytes;
        if (g->tensors[t].output) output += (size_t)s->memory.of[t].bytes;
    }
    s->schedule.max_download = output;
    /* Batches of floats are large, and waited for. */
    s->schedule.staged = 4 * (words + BATCH_DATA_COUNT * tokens) + targets;
    s->schedule.max_upload = 4 * (words + BATCH_DATA_COUNT * tokens) + input;
    s->output_storage = host_alloc(host, output, 1, e);
    if (input) s->input_storage = s->output_storage ? host_alloc(host, input, 1, e) : NULL;
    s->tickets = s->output_storage && (!input || s->input_storage) ? tickets_create(s, e) : NULL;
    return s->tickets != NULL;
}

/* All device memory of the session, and the host's that goes with it. Where there is no room for all of it nothing is
 * made: a driver may give some, and move others' memory away for it. */
static bool make_memory(struct wherry_session *s, struct error *e)
{
    int before = part_enter(&s->context->host, PART_MEMORY);
    bool ok = device_has_room(s, e) && session_make_buffers(s, false, e) && make_host_memory(s, e);
    part_leave(&s->context->host, before);
    return ok;
}

/* One session of a device at a time: whoever makes weights' memory first fills it, and others wait. */
static bool make_filled_memory(struct wherry_session *s, bool executes, wherry_progress progress, void *user,
                               struct error *e)
{
    mutex_enter(&s->device->weights.memory);
    bool ok = make_memory(s, e) && (!executes || session_weights(s, progress, user, e));
    if (ok && executes) shared_weights_set_ready(s);
    mutex_leave(&s->device->weights.memory);
    return ok;
}

/* `divided`: its runs may begin and end at any call. */
static bool record(struct wherry_session *s, bool divided, wherry_progress progress, void *user,
                   struct program_info *made, struct error *e)
{
    int before = part_enter(&s->context->host, PART_RECORD);
    s->schedule.divided = divided;
    s->program = s->device->backend->program_create(s->device->handle, &s->schedule, progress, user, made, e);
    part_leave(&s->context->host, before);
    return s->program != NULL;
}

static bool make_program(struct wherry_session *s, bool executes, wherry_progress progress, void *user,
                         struct program_info *made, struct error *e)
{
    const struct host *host = &s->context->host;
    if (!(s->steps = host_alloc(host, (size_t)s->n_calls, sizeof *s->steps, e))) return false;
    for (int i = 0; i < s->n_calls; i++) session_step(s, &s->calls[i], s->call_groups[i], &s->steps[i]);
    s->schedule.steps = s->steps;
    s->schedule.n_steps = s->n_calls;
    s->schedule.boundary = s->boundary < s->n_calls ? s->boundary : 0;
    s->schedule.library = s->library;
    if (s->divides) TRY(backward_divide(s, e));
    s->schedule.ends = s->ends;
    s->schedule.graph = &s->graph;
    s->schedule.groups = s->groups;
    /* Long kernels are measured by runs of single calls, in a program for that; the one that is kept divides them. */
    const bool portions = s->max_submit_seconds > 0, measured = executes && launches_doubtful(s);
    bool divided = false;
    TRY(record(s, portions || measured, progress, user, made, e));
    if (!measured) return true;
    TRY(launches_divide(s, &divided, e));
    if (portions && !divided) return true;
    const uint32_t compiled = made->compiled;
    s->device->backend->program_destroy(s->device->handle, s->program);
    TRY(record(s, portions, NULL, NULL, made, e));
    made->compiled += compiled; /* those of divided steps anew, for an API that has another form of them */
    return true;
}

bool session_prepare(struct wherry_session *s, wherry_progress progress, void *user, wherry_prepare_info *info,
                     struct error *e)
{
    uint64_t start = clock_ns();
    struct program_info made = {0};
    if (!s->prepared) {
        const bool executes = !s->device->info.compiles_only;
        if (executes) TRY(device_executes(s->device, e) && device_probe_first(s->device, false, e));
        TRY(make_filled_memory(s, executes, progress, user, e));
        TRY(make_program(s, executes, progress, user, &made, e));
        /* After all that is compiled, which is in the cache then. */
        if (executes) TRY(device_probe_first(s->device, true, e));
        for (int i = 0; i < s->n_calls; i++) {
            const char *note = s->device->backend->program_note(s->program, i);
            if (note) TRY(session_note(s, e, "%s: %s", group_short_name(&s->groups[s->call_groups[i]]), note));
        }
        if (executes) TRY(portions_create(s, e));
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
    session_passes_leave(s);
    tickets_close(s->tickets);
    portions_destroy(s);
    s->tickets = NULL;
    s->device->backend->program_destroy(s->device->handle, s->program);
    session_free_buffers(s);
    void **memory[] = {(void **)&s->steps,         (void **)&s->grids,   (void **)&s->words,
                       (void **)&s->batch_u32,     (void **)&s->offsets, (void **)&s->output_storage,
                       (void **)&s->input_storage, (void **)&s->ends,    (void **)&s->pieces};
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
    bool ok = session_prepare(session, progress, user, info, context_error(session->context));
    if (!ok) prepare_undo(session);
    return context_status(session->context, ok);
}

wherry_status wherry_session_release(wherry_session *session)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (session->tickets && session->tickets->calling)
        return context_invalid(session->context, "wherry_session_release is called from a callback of the session's");
    prepare_undo(session);
    session->prepared = session->forward_done = session->backward_done = false;
    return WHERRY_STATUS_OK;
}
