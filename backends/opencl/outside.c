/* What an application hands in of its own with a batch: events and buffers. */
#include <inttypes.h>
#include <string.h>

#include "opencl.h"
#include "wherry/wherry_opencl.h"

static bool buffer_take(const struct backend_device *device, const wherry_opencl_buffer *b, const char *what,
                        struct outside_rows *out, uint64_t *bytes, struct error *e)
{
    cl_context context = NULL;
    cl_mem_object_type type = 0;
    size_t size = 0;
    if (!b->memory) return true;
    cl_int code = clGetMemObjectInfo(b->memory, CL_MEM_CONTEXT, sizeof context, &context, NULL);
    if (!code) code = clGetMemObjectInfo(b->memory, CL_MEM_SIZE, sizeof size, &size, NULL);
    if (!code) code = clGetMemObjectInfo(b->memory, CL_MEM_TYPE, sizeof type, &type, NULL);
    if (code)
        return fail_native(e, WHERRY_STATUS_INVALID_ARGUMENT, code, "clGetMemObjectInfo of the buffer %s: %s", what,
                           opencl_error_name(code));
    if (context != device->context)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the buffer %s is of another cl_context than the session's device: wrap that context "
                    "(wherry_device_wrap_opencl)",
                    what);
    if (type != CL_MEM_OBJECT_BUFFER)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the memory object %s is an image or a pipe, not a buffer",
                    what);
    if (b->offset % 4 || b->offset > size)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the buffer %s, of %zu bytes, is used from byte %" PRIu64
                    " on: that has to be in it, and a multiple "
                    "of 4",
                    what, size, b->offset);
    out->buffer = (uint64_t)(uintptr_t)b->memory;
    out->offset = b->offset;
    *bytes = size - b->offset;
    return true;
}

static bool events_take(const struct backend_device *device, const wherry_opencl_submit *s, struct outside *out,
                        struct error *e)
{
    if (s->wait_count > OUTSIDE_SYNCS || (s->wait_count && !s->waits))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%u events to be waited for: at most %d, and a list of them",
                    (unsigned)s->wait_count, OUTSIDE_SYNCS);
    for (uint32_t i = 0; i < s->wait_count; i++) {
        cl_context context = NULL;
        cl_int code = CL_INVALID_EVENT;
        if (s->waits[i]) code = clGetEventInfo(s->waits[i], CL_EVENT_CONTEXT, sizeof context, &context, NULL);
        if (code || context != device->context)
            return fail_native(e, WHERRY_STATUS_INVALID_ARGUMENT, code,
                               "event %u to be waited for is none of the device's context", (unsigned)i);
        out->before[i].handle = (uint64_t)(uintptr_t)s->waits[i];
    }
    out->n_before = (int)s->wait_count;
    return true;
}

bool opencl_outside(struct backend_device *device, const void *desc, struct outside *out, struct error *e)
{
    const wherry_opencl_submit *s = desc;
    *out = (struct outside){.event = s->event, .result_type = s->result_type};
    if (s->struct_size != sizeof *s)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_opencl_submit.struct_size is %u, this library's is %zu",
                    (unsigned)s->struct_size, sizeof *s);
    TRY(events_take(device, s, out, e));
    TRY(buffer_take(device, &s->ids, "of ids", &out->ids, &out->ids_bytes, e));
    TRY(buffer_take(device, &s->result, "of results", &out->result, &out->result_bytes, e));
    TRY(buffer_take(device, &s->gradient, "of gradients", &out->gradient, &out->gradient_bytes, e));
    out->result.step = out->gradient.step = s->result_stride;
    return true;
}

bool opencl_outside_wait(cl_command_queue queue, const struct outside *outside, struct error *e)
{
    cl_event events[OUTSIDE_SYNCS];
    if (!outside->n_before) return true;
    for (int i = 0; i < outside->n_before; i++) events[i] = (cl_event)(uintptr_t)outside->before[i].handle;
    cl_int code = clEnqueueBarrierWithWaitList(queue, (cl_uint)outside->n_before, events, NULL);
    return !code || opencl_fail_running(e, code, "clEnqueueBarrierWithWaitList for the application's events");
}

bool opencl_outside_copy(cl_command_queue queue, const struct transfer *t, bool upload, struct error *e)
{
    const struct outside_rows *o = t->outside;
    const size_t here = (size_t)(t->buffer->at + t->offset), row = (size_t)o->row;
    cl_mem other = (cl_mem)(uintptr_t)o->buffer, from = upload ? other : t->buffer->memory,
           to = upload ? t->buffer->memory : other;
    cl_int code = CL_SUCCESS;
    if (o->step == o->row) {
        code = clEnqueueCopyBuffer(queue, from, to, upload ? (size_t)o->offset : here,
                                   upload ? here : (size_t)o->offset, (size_t)t->bytes, 0, NULL, NULL);
    } else {
        /* Pitches need not divide offsets: each side begins at column `origin[0]` of its first row. */
        const size_t region[3] = {row, (size_t)o->rows, 1}, inner[3] = {here, 0, 0},
                     outer[3] = {(size_t)o->offset, 0, 0};
        code = clEnqueueCopyBufferRect(queue, from, to, upload ? outer : inner, upload ? inner : outer, region,
                                       upload ? (size_t)o->step : row, 0, upload ? row : (size_t)o->step, 0, 0, NULL,
                                       NULL);
    }
    return !code || opencl_fail_running(e, code, "copying %" PRIu64 " bytes %s a buffer of the application's", t->bytes,
                                        upload ? "from" : "to");
}
