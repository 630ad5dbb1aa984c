/* Copies beside runs, each way by a queue of its own: a device has an engine for each. */
#include <inttypes.h>
#include <string.h>

#include "opencl.h"

struct pinned {
    cl_mem memory; /* which drivers pin; a copy by its address is then the device's own */
    void *host;
    cl_command_queue queue;
};

static bool queues_make(struct backend_device *device, struct error *e)
{
    cl_command_queue *queues[] = {&device->up, &device->down};
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < 2 && !code; i++)
        if (!*queues[i]) *queues[i] = clCreateCommandQueue(device->context, device->id, 0, &code);
    return !code || opencl_fail(e, code, "clCreateCommandQueue for copies");
}

struct pinned *opencl_pin(struct backend_device *device, void *memory, uint64_t bytes, struct error *e)
{
    cl_int code;
    if (!queues_make(device, e)) return NULL;
    struct pinned *pinned = host_alloc(device->host, 1, sizeof *pinned, e);
    if (!pinned) return NULL;
    pinned->queue = device->up;
    pinned->memory =
        clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, (size_t)bytes, memory, &code);
    if (!code) {
        pinned->host = clEnqueueMapBuffer(device->up, pinned->memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                          (size_t)bytes, 0, NULL, NULL, &code);
    }
    if (!code) return pinned;
    opencl_fail(e, code, "%" PRIu64 " bytes of pinned memory for copies", bytes);
    opencl_unpin(device, pinned);
    return NULL;
}

void opencl_unpin(struct backend_device *device, struct pinned *pinned)
{
    if (!pinned) return;
    if (device->down) clFinish(device->down);
    if (pinned->host) clEnqueueUnmapMemObject(pinned->queue, pinned->memory, pinned->host, 0, NULL, NULL);
    clFinish(pinned->queue);
    if (pinned->memory) clReleaseMemObject(pinned->memory);
    host_free(device->host, pinned);
}

void opencl_copies_close(struct backend_device *device)
{
    if (device->down) clFinish(device->down);
    if (device->up) clFinish(device->up);
    for (int i = 0; i < COPY_TICKETS; i++)
        if (device->tickets[i]) clReleaseEvent(device->tickets[i]);
    if (device->down) clReleaseCommandQueue(device->down);
    if (device->up) clReleaseCommandQueue(device->up);
}

bool opencl_copies_up(struct backend_device *device, const struct transfer *list, int n, struct error *e)
{
    cl_event last = NULL;
    cl_int code = CL_SUCCESS;
    TRY(queues_make(device, e));
    for (int i = 0; i < n && !code; i++) {
        const struct transfer *t = &list[i];
        TRY(opencl_range(t->buffer, t->offset, t->bytes, "a copy to the device", e));
        code = clEnqueueWriteBuffer(device->up, t->buffer->memory, CL_FALSE, (size_t)(t->buffer->at + t->offset),
                                    (size_t)t->bytes, t->host, 0, NULL, i + 1 < n ? NULL : &last);
    }
    if (!code) code = clFlush(device->up);
    if (!code && last) code = clEnqueueBarrierWithWaitList(device->queue, 1, &last, NULL);
    if (last) clReleaseEvent(last);
    return !code || opencl_fail_running(e, code, "copying to the device");
}

bool opencl_copy_down(struct backend_device *device, const struct transfer *t, int ticket, struct error *e)
{
    cl_event computed = NULL;
    TRY(queues_make(device, e) && opencl_range(t->buffer, t->offset, t->bytes, "a copy from the device", e));
    cl_int code = clEnqueueMarkerWithWaitList(device->queue, 0, NULL, &computed);
    if (!code) code = clFlush(device->queue);
    if (!code) {
        code =
            clEnqueueReadBuffer(device->down, t->buffer->memory, CL_FALSE, (size_t)(t->buffer->at + t->offset),
                                (size_t)t->bytes, t->host, 1, &computed, ticket < 0 ? NULL : &device->tickets[ticket]);
    }
    if (!code) code = clFlush(device->down);
    if (computed) clReleaseEvent(computed);
    return !code || opencl_fail_running(e, code, "copying %" PRIu64 " bytes from the device", t->bytes);
}

bool opencl_copy_wait(struct backend_device *device, int ticket, struct error *e)
{
    cl_event *event = &device->tickets[ticket];
    cl_int state = CL_COMPLETE;
    if (!*event) return true;
    cl_int code = clWaitForEvents(1, event);
    if (!code) code = clGetEventInfo(*event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (!code && state < 0) code = state;
    clReleaseEvent(*event);
    *event = NULL;
    return !code || opencl_fail_running(e, code, "a copy from the device");
}
