/* Runs of a prepared session: those that are waited for, but for encodes, which are tickets (tickets.h), and passes of
 * training that follow each other. */
#include "runtime/encode.h"

#include <string.h>

#include "runtime/submit.h"

bool session_run(struct wherry_session *s, const struct batch_shape *shape, wherry_phase phase, int upload,
                 int download, double *step_seconds, struct error *e)
{
    struct transfer uploads[SESSION_UPLOADS + 1], downloads[1];
    tickets_drain(s->tickets);
    TRY(session_passes_wait(s, e));
    int n = session_uploads(s, shape, uploads);
    for (int i = 0; i < s->n_calls; i++) s->grids[i] = call_grid(&s->calls[i], s->f16, s->words);
    if (upload >= 0) uploads[n++] = session_transfer(s, shape, upload, s->input_storage);
    if (download >= 0) downloads[0] = session_transfer(s, shape, download, s->output_storage);
    const struct run run = {.uploads = uploads,
                            .n_uploads = n,
                            .downloads = downloads,
                            .n_downloads = download >= 0,
                            .grids = s->grids,
                            .batch = shape,
                            .step_seconds = step_seconds ? step_seconds : s->timed,
                            .first = phase == WHERRY_PHASE_BACKWARD ? s->boundary : 0,
                            .end = phase == WHERRY_PHASE_FORWARD ? s->boundary : 0};
    bool ok = device_executes(s->device, e) && s->device->backend->program_run(s->device->handle, s->program, &run, e);
    if (!ok) device_failed(s->device, e);
    s->lengths_sent = s->types_sent = ok;
    return ok;
}

/* ---- passes that are not waited for ---- */

bool session_submit(struct wherry_session *s, int slot, const struct batch_shape *shape, const struct run *run,
                    struct error *e)
{
    const size_t offsets = (size_t)s->limits.sequences + 1;
    struct batch_shape kept = *shape;
    struct run own = *run;
    if (!s->pass_offsets[slot] && !(s->pass_offsets[slot] = host_alloc(&s->context->host, offsets, 4, e))) return false;
    TRY(pass_wait(s->device, s->program, slot, &s->passes[slot], e)); /* whose offsets these are */
    memcpy(s->pass_offsets[slot], shape->offsets, ((size_t)shape->sequences + 1) * sizeof *shape->offsets);
    kept.offsets = s->pass_offsets[slot];
    own.batch = &kept;
    own.grids = s->grids;
    own.step_seconds = s->timed;
    for (int i = 0; i < s->n_calls; i++) s->grids[i] = call_grid(&s->calls[i], s->f16, s->words);
    bool ok = pass_submit(s->device, s->program, slot, &s->passes[slot], &own, e);
    s->lengths_sent = s->types_sent = ok;
    return ok;
}

/* What is the application's, of one pass, until it was waited for. */
static const struct outside *outside_keep(struct wherry_session *s, int slot, const struct outside *outside)
{
    if (!outside) return NULL;
    s->pass_outside[slot] = *outside;
    return &s->pass_outside[slot];
}

static struct transfer outside_transfer(const struct wherry_session *s, int tensor, const struct outside_rows *rows)
{
    struct transfer t = session_transfer(s, &s->shape, tensor, NULL);
    t.bytes = rows->rows * rows->row;
    t.outside = rows;
    return t;
}

bool session_pass_part(struct wherry_session *s, const struct pass_part *part, struct error *e)
{
    struct transfer uploads[SESSION_UPLOADS + 2], download;
    const int slot = part->slot;
    tickets_drain(s->tickets);
    TRY(pass_wait(s->device, s->program, slot, &s->passes[slot], e)); /* whose objects these are */
    int n = part->listed ? session_uploads(s, &s->shape, uploads) : 0;
    const struct outside *kept = outside_keep(s, slot, part->outside);
    const bool gives = kept && kept->result.buffer;
    if (kept && kept->gradient.buffer) uploads[n++] = outside_transfer(s, s->graph.out_gradient, &kept->gradient);
    if (part->upload >= 0) uploads[n++] = session_transfer(s, &s->shape, part->upload, s->input_storage);
    if (gives) download = outside_transfer(s, s->graph.output, &kept->result);
    if (part->download >= 0) download = session_transfer(s, &s->shape, part->download, s->output_storage);
    const struct run run = {.uploads = uploads,
                            .n_uploads = n,
                            .downloads = &download,
                            .n_downloads = gives || part->download >= 0,
                            .before = kept,
                            .after = kept,
                            .first = part->first,
                            .end = part->end};
    return session_submit(s, slot, &s->shape, &run, e);
}

bool session_pass(struct wherry_session *s, wherry_phase phase, const struct outside *outside, struct error *e)
{
    const bool backward = phase == WHERRY_PHASE_BACKWARD;
    const struct pass_part part = {.outside = outside,
                                   .slot = backward,
                                   .first = backward ? s->boundary : 0,
                                   .end = backward ? s->n_calls : s->boundary,
                                   .upload = -1,
                                   .download = -1,
                                   .listed = true};
    return session_pass_part(s, &part, e);
}

bool session_passes_wait(struct wherry_session *s, struct error *e)
{
    struct error other;
    bool ok = true;
    for (int slot = 0; slot < PASS_SLOTS; slot++)
        ok = pass_wait(s->device, s->program, slot, &s->passes[slot], ok ? e : &other) && ok;
    if (!ok) s->lengths_sent = s->types_sent = false;
    return ok;
}

void session_passes_leave(struct wherry_session *s)
{
    struct error ignored;
    session_passes_wait(s, &ignored);
    for (int slot = 0; slot < PASS_SLOTS; slot++) {
        host_free(&s->context->host, s->pass_offsets[slot]);
        s->pass_offsets[slot] = NULL;
    }
}
