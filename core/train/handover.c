/* A program of two steps, each of which has a run of its own: one before the loss's, one after it. */
#include "train/handover.h"

#include <math.h>
#include <string.h>

#include "base/round.h"
#include "interface/interface.h"
#include "train/elements.h"
#include "train/state.h"

enum { TAKE, GIVE, KERNELS = HANDOVER_CALLS, HEADER_BYTES = MEMORY_ALIGNMENT };

struct handover {
    const struct wherry_session *session;
    const struct loss *loss;
    struct call calls[KERNELS];
    struct step steps[KERNELS];
    struct grid grids[KERNELS];
    struct schedule schedule;
    struct program *program;
    struct buffer *header;
    uint32_t words[HEADER_BYTES / 4];
    float flags[HANDOVER_GROUPS]; /* of the rows that were taken, as they were when gradients were last given */
    struct pass passes[KERNELS];  /* by slot */
    size_t row_floats;
};

/* ---- life ---- */

static bool call_make(struct handover *h, int kernel, const char *name, struct error *e)
{
    const struct wherry_session *s = h->session;
    const struct call *call = &h->calls[kernel];
    h->grids[kernel] = (struct grid){HANDOVER_GROUPS, 1, 1};
    h->steps[kernel] = (struct step){.name = name,
                                     .kernel = name,
                                     .launch = LAUNCH_ELEMENTS,
                                     .call = call,
                                     .group = kernel,
                                     .items_most = (uint64_t)HANDOVER_GROUPS * call_get(call, CONST_LOCAL_SIZE, 1)};
    step_store(&h->steps[kernel], session_type(s));
    return elements_runs(s, call, session_type(s), "can't give rows to the loss", e);
}

static void bind(struct handover *h, int kernel, uint8_t slot, bool words, bool written, struct buffer *buffer,
                 uint64_t offset, uint64_t bytes)
{
    struct step *step = &h->steps[kernel];
    step->flops += 10.0 * (double)bytes;
    elements_bind(step, slot, words, written, buffer, (struct range){offset, offset + bytes});
}

static void bind_tensor(struct handover *h, int kernel, uint8_t slot, bool written, const struct wherry_session *s,
                        int tensor)
{
    const struct placement *at = &s->memory.of[tensor];
    const bool words = s != h->session;
    bind(h, kernel, slot, words, written, s->buffers[at->block], at->offset, at->bytes);
}

/* Ascending slots. */
static void steps_fill(struct handover *h, const struct optimizer *o)
{
    const struct wherry_session *s = h->session, *loss = loss_session(h->loss);
    const struct range flags = o->arena.flags;
    const uint64_t half = (flags.end - flags.begin) / 2;
    for (int kernel = 0; kernel < KERNELS; kernel++)
        bind(h, kernel, SLOT_BATCH, true, false, h->header, 0, HEADER_BYTES);
    bind_tensor(h, TAKE, SLOT_X, false, s, s->graph.output);
    bind(h, TAKE, SLOT_PARTIALS, true, true, o->arena.partials, flags.begin, half);
    bind_tensor(h, TAKE, SLOT_Y, true, loss, loss_rows(h->loss));
    bind_tensor(h, GIVE, SLOT_X, false, loss, loss_gradients(h->loss));
    bind_tensor(h, GIVE, SLOT_BIAS, false, loss, loss_value(h->loss));
    bind(h, GIVE, SLOT_PARTIALS, true, true, o->arena.partials, flags.begin + half, half);
    bind_tensor(h, GIVE, SLOT_Y, true, s, s->graph.out_gradient);
}

static const char *const names[KERNELS] = {"handover_take", "handover_give"};

void handover_calls(const struct wherry_session *session, struct call out[HANDOVER_CALLS])
{
    for (int kernel = 0; kernel < KERNELS; kernel++) elements_call(session, names[kernel], &out[kernel]);
}

const struct schedule *handover_schedule(const struct handover *h, struct program **program)
{
    *program = h->program;
    return &h->schedule;
}

static bool make(struct handover *h, const struct optimizer *o, struct error *e)
{
    const struct wherry_session *s = h->session;
    const struct backend *backend = s->device->backend;
    struct program_info info;
    handover_calls(s, h->calls);
    TRY(call_make(h, TAKE, names[TAKE], e) && call_make(h, GIVE, names[GIVE], e));
    if (!(h->header = backend->buffer_create(s->device->handle, HEADER_BYTES, e))) return false;
    TRY(backend->buffer_write(s->device->handle, h->header, 0, h->words, HEADER_BYTES, e)); /* not active */
    steps_fill(h, o);
    h->schedule = (struct schedule){.steps = h->steps,
                                    .n_steps = KERNELS,
                                    .max_upload = HEADER_BYTES,
                                    .staged = HEADER_BYTES,
                                    .max_download = sizeof h->flags,
                                    .divided = true};
    return (h->program = backend->program_create(s->device->handle, &h->schedule, NULL, NULL, &info, e)) != NULL;
}

struct handover *handover_create(const struct wherry_session *session, const struct loss *loss,
                                 const struct optimizer *optimizer, struct error *e)
{
    struct handover *h = host_alloc(&session->context->host, 1, sizeof *h, e);
    if (!h) return NULL;
    h->session = session;
    h->loss = loss;
    h->row_floats = tensor_row_length(&session->graph, session->graph.output);
    if (make(h, optimizer, e)) return h;
    handover_destroy(h);
    return NULL;
}

void handover_destroy(struct handover *h)
{
    struct error ignored;
    if (!h) return;
    const struct wherry_device *device = h->session->device;
    handover_wait(h, &ignored);
    device->backend->program_destroy(device->handle, h->program);
    device->backend->buffer_destroy(device->handle, h->header);
    host_free(&h->session->context->host, h);
}

/* ---- runs ---- */

static bool submit(struct handover *h, int kernel, size_t rows, size_t at, bool first, const struct transfer *download,
                   struct error *e)
{
    const struct transfer upload = {.buffer = h->header, .bytes = HEADER_BYTES, .host = h->words};
    const struct run run = {.uploads = &upload,
                            .n_uploads = 1,
                            .downloads = download,
                            .n_downloads = download != NULL,
                            .grids = h->grids,
                            .first = kernel,
                            .end = kernel + 1};
    h->words[HANDOVER_ACTIVE] = 1;
    h->words[HANDOVER_COUNT] = (uint32_t)(rows * h->row_floats);
    h->words[HANDOVER_AT] = (uint32_t)(at * h->row_floats);
    h->words[HANDOVER_KEEPS] = !first;
    return pass_submit(h->session->device, h->program, kernel, &h->passes[kernel], &run, e);
}

bool handover_take(struct handover *h, size_t rows, size_t at, bool first, struct error *e)
{
    return submit(h, TAKE, rows, at, first, NULL, e);
}

bool handover_give(struct handover *h, size_t rows, size_t at, bool first, struct error *e)
{
    const struct binding *flags = &h->steps[TAKE].bindings[2];
    const struct transfer download = {
        .buffer = flags->buffer, .offset = flags->offset, .bytes = sizeof h->flags, .host = h->flags};
    return submit(h, GIVE, rows, at, first, &download, e);
}

bool handover_clear(struct handover *h, struct error *e)
{
    if (!h) return true;
    static const float zeros[HANDOVER_GROUPS];
    const struct wherry_device *device = h->session->device;
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int i = 0; i < h->steps[kernel].n_bindings; i++) {
            const struct binding *b = &h->steps[kernel].bindings[i];
            if (b->slot != SLOT_PARTIALS) continue;
            TRY(device->backend->buffer_write(device->handle, b->buffer, b->offset, zeros, sizeof zeros, e));
        }
    memset(h->flags, 0, sizeof h->flags);
    return true;
}

bool handover_wait(struct handover *h, struct error *e)
{
    if (!h) return true;
    for (int kernel = 0; kernel < KERNELS; kernel++)
        TRY(pass_wait(h->session->device, h->program, kernel, &h->passes[kernel], e));
    for (int i = 0; i < HANDOVER_GROUPS; i++)
        if (!isfinite(h->flags[i]))
            return fail(e, WHERRY_STATUS_VERIFY_FAILED, "the output is not finite: %s",
                        session_type(h->session) == STORAGE_F16
                            ? "16-bit storage may have overflowed, so scale the loss down or try f32"
                            : "`wherry verify` names the kernel that is wrong on this device");
    return true;
}
