/* Transfers by the queue that an application lends for them: their buffers, events and commands. */
#include <inttypes.h>
#include <string.h>

#include "program.h"

bool opencl_crosses(const struct backend_device *device, const struct run *run)
{
    return device->copy_queue && !run->waits && !run->near && !run->step_seconds && !run->before && !run->after &&
           !device->held;
}

static bool buffer_make(struct backend_device *device, uint64_t bytes, cl_mem *out, struct error *e)
{
    cl_int code = CL_SUCCESS;
    if (*out || !bytes) return true;
    *out = clCreateBuffer(device->context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
    return *out || opencl_fail(e, code, "clCreateBuffer of %" PRIu64 " bytes for transfers by the other queue", bytes);
}

bool opencl_crossing_make(struct backend_device *device, const struct schedule *schedule, struct crossing *crossing,
                          struct error *e)
{
    return buffer_make(device, schedule->max_upload, &crossing->upload, e) &&
           buffer_make(device, schedule->max_download, &crossing->download, e);
}

void opencl_crossing_destroy(struct crossing *crossing)
{
    if (crossing->upload) clReleaseMemObject(crossing->upload);
    if (crossing->download) clReleaseMemObject(crossing->download);
    *crossing = (struct crossing){0};
}

static bool fits(const struct transfer *t, uint64_t at, uint64_t most, const char *what, struct error *e)
{
    return opencl_range(t->buffer, t->offset, t->bytes, what, e) &&
           (t->bytes <= most - at ||
            fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                 "the transfers of a run are more than the %" PRIu64 " bytes of its schedule", most));
}

static uint64_t buffer_bytes(cl_mem memory)
{
    size_t bytes = 0;
    if (memory) clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    return bytes;
}

/* From the host's memory to the buffer between; *uploaded: its end. */
static bool uploads_write(cl_command_queue queue, struct slot *slot, const struct run *run, cl_event *uploaded,
                          struct error *e)
{
    const uint64_t most = buffer_bytes(slot->crossing.upload);
    uint64_t at = 0;
    slot->staging.used = 0;
    for (int i = 0; i < run->n_uploads; i++) {
        const struct transfer *t = &run->uploads[i];
        TRY(fits(t, at, most, "an upload", e));
        if (!t->bytes) continue;
        void *staged = opencl_staging_take(&slot->staging, t->bytes);
        if (staged) memcpy(staged, t->host, (size_t)t->bytes);
        cl_int code = clEnqueueWriteBuffer(queue, slot->crossing.upload, CL_FALSE, (size_t)at, (size_t)t->bytes,
                                           staged ? staged : t->host, 0, NULL, NULL);
        if (code) return opencl_fail_running(e, code, "clEnqueueWriteBuffer of %" PRIu64 " bytes", t->bytes);
        at += t->bytes;
    }
    cl_int code = at ? clEnqueueMarkerWithWaitList(queue, 0, NULL, uploaded) : CL_SUCCESS;
    if (!code && at) code = clFlush(queue);
    return !code || opencl_fail_running(e, code, "the end of a run's uploads");
}

bool opencl_crossing_uploads(struct backend_device *device, struct slot *slot, const struct run *run, struct error *e)
{
    cl_event uploaded = NULL;
    size_t at = 0;
    TRY(uploads_write(device->copy_queue, slot, run, &uploaded, e));
    if (!uploaded) return true;
    cl_int code = clEnqueueBarrierWithWaitList(device->queue, 1, &uploaded, NULL);
    clReleaseEvent(uploaded);
    for (int i = 0; !code && i < run->n_uploads; i++) {
        const struct transfer *t = &run->uploads[i];
        if (!t->bytes) continue;
        code = clEnqueueCopyBuffer(device->queue, slot->crossing.upload, t->buffer->memory, at,
                                   (size_t)(t->buffer->at + t->offset), (size_t)t->bytes, 0, NULL, NULL);
        at += (size_t)t->bytes;
    }
    return !code || opencl_fail_running(e, code, "copying a run's uploads from the other queue");
}

bool opencl_crossing_downloads(struct backend_device *device, struct slot *slot, const struct run *run, struct error *e)
{
    const uint64_t most = buffer_bytes(slot->crossing.download);
    uint64_t at = 0;
    cl_int code = CL_SUCCESS;
    for (int i = 0; !code && i < run->n_downloads; i++) {
        const struct transfer *t = &run->downloads[i];
        TRY(fits(t, at, most, "a download", e));
        if (!t->bytes) continue;
        code = clEnqueueCopyBuffer(device->queue, t->buffer->memory, slot->crossing.download,
                                   (size_t)(t->buffer->at + t->offset), (size_t)at, (size_t)t->bytes, 0, NULL, NULL);
        at += t->bytes;
    }
    if (!code) code = clEnqueueMarkerWithWaitList(device->queue, 0, NULL, at ? &slot->crossing.computed : &slot->done);
    if (!code) code = clFlush(device->queue);
    slot->crossing.pending = !code && at;
    return !code || opencl_fail_running(e, code, "the end of a run");
}

bool opencl_crossing_finish(struct backend_device *device, struct slot *slot, struct error *e)
{
    struct crossing *c = &slot->crossing;
    const struct run *run = slot->run;
    cl_command_queue queue = device->copy_queue;
    size_t at = 0;
    if (!c->pending) return true;
    memset(slot->staged, 0, sizeof slot->staged);
    cl_int code = clEnqueueBarrierWithWaitList(queue, 1, &c->computed, NULL);
    for (int i = 0; !code && i < run->n_downloads; i++) {
        const struct transfer *t = &run->downloads[i];
        if (!t->bytes) continue;
        void *staged = i < DOWNLOADS_STAGED ? opencl_staging_take(&slot->staging, t->bytes) : NULL;
        if (staged) slot->staged[i] = staged;
        code = clEnqueueReadBuffer(queue, c->download, CL_FALSE, at, (size_t)t->bytes, staged ? staged : t->host, 0,
                                   NULL, NULL);
        at += (size_t)t->bytes;
    }
    if (!code) code = clEnqueueMarkerWithWaitList(queue, 0, NULL, &slot->done);
    if (!code) code = clFlush(queue);
    c->pending = code != CL_SUCCESS;
    return !code || opencl_fail_running(e, code, "reading a run's downloads");
}
