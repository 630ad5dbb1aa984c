/* Runs of a prepared session that are waited for: all but encodes, which are tickets (tickets.h). */
#include "runtime/encode.h"

#include "runtime/submit.h"

bool session_run(struct wherry_session *s, const struct batch_shape *shape, wherry_phase phase, int upload,
                 int download, double *step_seconds, struct error *e)
{
    struct transfer uploads[SESSION_UPLOADS + 1], downloads[1];
    tickets_drain(s->tickets);
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
