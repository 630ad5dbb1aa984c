/* What an application hands in of its own with a batch: whether it fits the session and the batch; and 16-bit results
 * made floats on the device. */
#include "runtime/outside.h"

#include <string.h>

#include "interface/interface.h"
#include "runtime/results.h"

/* ---- what is asked for ---- */

static bool ids_fit(struct outside *o, uint64_t tokens, struct error *e)
{
    if (!o->ids.buffer) return true;
    o->ids.row = o->ids.step = 4 * tokens;
    o->ids.rows = 1;
    return o->ids_bytes >= o->ids.row ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "the buffer of ids has %llu bytes from its offset on: %llu tokens take %llu",
                (unsigned long long)o->ids_bytes, (unsigned long long)tokens, (unsigned long long)o->ids.row);
}

static bool type_fits(const struct wherry_session *s, struct outside *o, struct error *e)
{
    if (!o->result_type) o->result_type = WHERRY_DTYPE_F32;
    const char *name = storage_name(session_type(s));
    if ((unsigned)o->result_type > WHERRY_DTYPE_BF16)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "results in a buffer are f32, f16 or bf16, not type %d",
                    (int)o->result_type);
    if (o->result_type != WHERRY_DTYPE_F32 && o->result_type != session_dtype(s))
        return fail(
            e, WHERRY_STATUS_UNSUPPORTED,
            "this session stores %s, and its results in a buffer are f32%s%s: ask for that, or create the session "
            "with the type that you want",
            name, s->f16 ? " or " : "", s->f16 ? name : "");
    if (s->dimensions)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "embeddings are cut to %u dimensions by the host: give `out` for them, or "
                    "create a session that does not cut",
                    (unsigned)s->dimensions);
    if (o->result_type != WHERRY_DTYPE_F32 && session_row_floats(s) % 2)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "rows of %zu 16-bit floats are no whole words: ask for f32",
                    session_row_floats(s));
    return true;
}

/* Rows of the output, or of the gradient by it. */
static bool rows_fit(const struct wherry_session *s, struct outside *o, struct outside_rows *r, uint64_t bytes,
                     uint64_t rows, const char *what, struct error *e)
{
    if (!r->buffer) return true;
    TRY(type_fits(s, o, e));
    r->row = session_row_floats(s) * (o->result_type == WHERRY_DTYPE_F32 ? 4 : 2);
    r->rows = rows;
    if (!r->step) r->step = r->row;
    if (r->step < r->row || r->step % 4)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "a stride of %llu bytes: rows of %s have %llu, and begin at "
                    "multiples of 4",
                    (unsigned long long)r->step, what, (unsigned long long)r->row);
    if (r->row <= bytes && rows - 1 <= (bytes - r->row) / r->step) return true;
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "the buffer of %s has %llu bytes from its offset on: %llu rows of %llu bytes, %llu apart, do not fit",
                what, (unsigned long long)bytes, (unsigned long long)rows, (unsigned long long)r->row,
                (unsigned long long)r->step);
}

bool session_outside(const struct wherry_session *s, const wherry_submit_desc *desc, const wherry_batch *batch,
                     struct outside *out, struct error *e)
{
    const struct backend *backend = s->device->backend;
    const bool vulkan = !strcmp(backend->name, "vulkan");
    if (!backend->outside)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "the device %s has no buffers, semaphores or events of an application's", s->device->info.id);
    if (vulkan ? desc->opencl != NULL : desc->vulkan != NULL)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the session's device is %s: objects of %s can't be used there",
                    s->device->info.id, vulkan ? "OpenCL" : "Vulkan");
    TRY(backend->outside(s->device->handle, vulkan ? (const void *)desc->vulkan : desc->opencl, out, e));
    const struct share all = {.sequences = batch->sequences, .tokens = batch->offsets[batch->sequences]};
    const uint64_t rows = session_rows(s, &all);
    return ids_fit(out, all.tokens, e) && rows_fit(s, out, &out->result, out->result_bytes, rows, "results", e) &&
           rows_fit(s, out, &out->gradient, out->gradient_bytes, rows, "gradients", e);
}

bool outside_widens(const struct wherry_session *s, const struct outside *outside)
{
    return outside->result.buffer && s->f16 && outside->result_type == WHERRY_DTYPE_F32;
}

/* ---- what is run beside the session's program ---- */

enum { LOCAL = 128 };

static bool aside_make(const struct wherry_session *s, struct aside *a, const char *what, struct error *e)
{
    const struct backend *backend = s->device->backend;
    struct program_info info;
    char reason[256];
    if (!backend->supports(s->device->handle, &a->call, session_type(s), reason, sizeof reason))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s can't be done on the device: %s", what, reason);
    a->step.name = a->step.kernel = a->call.kernel;
    a->step.launch = a->call.launch;
    a->step.f16 = s->f16;
    a->step.bf16 = s->f16 && s->bf16;
    a->step.call = &a->call;
    a->schedule.steps = &a->step;
    a->schedule.n_steps = 1;
    a->program = backend->program_create(s->device->handle, &a->schedule, NULL, NULL, &info, e);
    return a->program != NULL;
}

static bool widen_fill(const struct wherry_session *s, struct aside *a, struct error *e)
{
    const struct placement *at = &s->memory.of[s->graph.output];
    const struct share limits = {.sequences = s->limits.sequences, .tokens = (uint32_t)s->limits.tokens};
    const uint64_t floats = (uint64_t)session_rows(s, &limits) * tensor_row_length(&s->graph, s->graph.output);
    a->call = (struct call){.kernel = "widen", .launch = LAUNCH_ELEMENTS};
    call_set(&a->call, CONST_LOCAL_SIZE, LOCAL);
    call_set(&a->call, CONST_N, tensor_row_length(&s->graph, s->graph.output));
    call_set(&a->call, CONST_ROWS, session_rows_are_tokens(s) ? HEADER_TOKENS : HEADER_SEQUENCES);
    if (!(a->buffer = s->device->backend->buffer_create(s->device->handle, 4 * floats, e))) return false;
    a->step = (struct step){
        .flops = (double)floats,
        .n_bindings = 3,
        .bindings = {s->steps[0].bindings[0],
                     {.slot = SLOT_X, .buffer = s->buffers[at->block], .offset = at->offset, .bytes = at->bytes},
                     {.slot = SLOT_Y, .written = true, .words = true, .buffer = a->buffer, .bytes = 4 * floats}}};
    return aside_make(s, a, "making results f32", e);
}

int session_ids(const struct wherry_session *s)
{
    int ids = 0;
    while (s->graph.tensors[ids].role != TENSOR_BATCH || s->graph.tensors[ids].data != BATCH_IDS) ids++;
    return ids;
}

static bool known_ids_fill(const struct wherry_session *s, struct aside *a, struct error *e)
{
    const struct placement *at = &s->memory.of[session_ids(s)];
    a->call = (struct call){.kernel = "known_ids", .launch = LAUNCH_ELEMENTS};
    call_set(&a->call, CONST_LOCAL_SIZE, LOCAL);
    call_set(&a->call, CONST_M, s->graph.dims.of['v']);
    call_set(&a->call, CONST_ROWS, HEADER_TOKENS);
    a->schedule = (struct schedule){.max_upload = s->schedule.max_upload, .staged = s->schedule.staged};
    a->step = (struct step){.flops = (double)s->limits.tokens,
                            .n_bindings = 2,
                            .bindings = {s->steps[0].bindings[0],
                                         {.slot = SLOT_Y,
                                          .written = true,
                                          .words = true,
                                          .buffer = s->buffers[at->block],
                                          .offset = at->offset,
                                          .bytes = at->bytes}}};
    return aside_make(s, a, "looking at the ids of a buffer", e);
}

static struct aside *aside_create(const struct wherry_session *s,
                                  bool (*fill)(const struct wherry_session *, struct aside *, struct error *),
                                  struct error *e)
{
    struct aside *a = host_alloc(&s->context->host, 1, sizeof *a, e);
    if (!a || fill(s, a, e)) return a;
    aside_destroy(s, a);
    return NULL;
}

struct aside *aside_widen(const struct wherry_session *s, struct error *e) { return aside_create(s, widen_fill, e); }

struct aside *aside_known_ids(const struct wherry_session *s, struct error *e)
{
    return aside_create(s, known_ids_fill, e);
}

void aside_destroy(const struct wherry_session *s, struct aside *a)
{
    if (!a) return;
    s->device->backend->program_destroy(s->device->handle, a->program);
    s->device->backend->buffer_destroy(s->device->handle, a->buffer);
    host_free(&s->context->host, a);
}
