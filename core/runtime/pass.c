/* Runs that nobody waits for at once. */
#include "runtime/pass.h"

#include <string.h>

bool pass_submit(struct wherry_device *device, struct program *program, int slot, struct pass *pass,
                 const struct run *run, struct error *e)
{
    TRY(pass_wait(device, program, slot, pass, e) && device_executes(device, e));
    pass->run = *run;
    if (run->n_downloads) memcpy(pass->downloads, run->downloads, (size_t)run->n_downloads * sizeof *run->downloads);
    pass->run.downloads = pass->downloads;
    if (run->batch) {
        pass->shape = *run->batch;
        pass->run.batch = &pass->shape;
    }
    pass->run.near = true;
    const bool timed = run->step_seconds != NULL; /* which runs that nobody waits for are not */
    const bool ok = timed ? device->backend->program_run(device->handle, program, &pass->run, e)
                          : device->backend->program_submit(device->handle, program, &pass->run, slot, e);
    pass->under_way = ok && !timed;
    pass->run.uploads = NULL;
    pass->run.n_uploads = 0;
    if (!ok) device_failed(device, e);
    return ok;
}

bool pass_wait(struct wherry_device *device, struct program *program, int slot, struct pass *pass, struct error *e)
{
    bool done;
    if (!pass->under_way) return true;
    pass->under_way = false;
    bool ok = device->backend->program_wait(device->handle, program, slot, UINT64_MAX, &done, e);
    if (!ok) device_failed(device, e);
    return ok;
}
