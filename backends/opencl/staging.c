/* Host memory that the driver pinned, through which a run's small transfers go: from any other memory a driver first
 * copies to such memory of its own, one piece after the other. */
#include "opencl.h"

#include <string.h>

#include "plan/schedule.h"

/* What is larger goes from where it is: measured were batches of ids and embeddings. */
enum { STAGED_MOST = 1 << 20 };

static cl_command_queue mapping_queue(const struct backend_device *device)
{
    return device->profiling_queue ? device->profiling_queue : device->queue;
}

bool opencl_staging_create(struct backend_device *device, const struct schedule *schedule, struct opencl_staging *s,
                           struct error *e)
{
    size_t least = schedule->max_upload < STAGED_MOST ? schedule->max_upload : STAGED_MOST,
           upload = schedule->staged > least ? schedule->staged : least,
           download = schedule->max_download < STAGED_MOST ? schedule->max_download : STAGED_MOST;
    cl_int code;
    if (!upload && !download) return true;
    s->bytes = upload + download;
    s->memory = clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, s->bytes, NULL, &code);
    if (!code) {
        /* Not in the queue of runs: one that is under way there may wait for the application. */
        s->host = clEnqueueMapBuffer(mapping_queue(device), s->memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, s->bytes,
                                     0, NULL, NULL, &code);
    }
    return !code || opencl_fail(e, code, "%zu bytes of pinned memory for transfers", s->bytes);
}

void opencl_staging_destroy(struct backend_device *device, struct opencl_staging *s)
{
    if (s->host) {
        clEnqueueUnmapMemObject(mapping_queue(device), s->memory, s->host, 0, NULL, NULL);
        clFinish(mapping_queue(device));
    }
    if (s->memory) clReleaseMemObject(s->memory);
    *s = (struct opencl_staging){0};
}

void *opencl_staging_take(struct opencl_staging *s, uint64_t bytes)
{
    if (bytes > s->bytes - s->used) return NULL;
    void *taken = s->host + s->used;
    s->used += (size_t)bytes;
    return taken;
}
