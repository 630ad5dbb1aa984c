/* Buffers, whole and in parts, and copies to and from them outside any program. */
#include "opencl.h"

#include <inttypes.h>

bool opencl_range(const struct buffer *buffer, uint64_t offset, uint64_t bytes, const char *what, struct error *e)
{
    if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return true;
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "%s: %" PRIu64 " bytes at %" PRIu64 " are outside the buffer of %" PRIu64, what, bytes, offset,
                buffer->bytes);
}

const struct buffer *opencl_whole(const struct backend_device *device, const struct step *step)
{
    if (!device->one_buffer || step->call->n_maps) return NULL;
    const struct buffer *whole = step->bindings[0].buffer->whole;
    for (int i = 1; i < step->n_bindings; i++)
        if (step->bindings[i].buffer->whole != whole) return NULL;
    return whole;
}

void opencl_buffer_destroy(struct backend_device *device, struct buffer *buffer)
{
    if (!buffer) return;
    if (buffer->memory && !buffer->whole) {
        clReleaseMemObject(buffer->memory);
        device->allocated -= buffer->bytes;
    }
    host_free(device->host, buffer);
}

/* Drivers allocate a buffer, as a whole, when it is first used. So it is used here, at both ends: memory that isn't
 * there shows now, with its size, and not in the middle of a run. It is read and not written, so that checkers still
 * see reads of memory that nobody wrote. */
static cl_int touch(struct backend_device *device, cl_mem memory, uint64_t bytes)
{
    unsigned char ends[2];
    cl_command_queue queue = device->queue;
    cl_int code = clEnqueueReadBuffer(queue, memory, CL_FALSE, 0, 1, &ends[0], 0, NULL, NULL);
    if (!code) code = clEnqueueReadBuffer(queue, memory, CL_FALSE, (size_t)bytes - 1, 1, &ends[1], 0, NULL, NULL);
    cl_int finished = clFinish(queue);
    return code ? code : finished;
}

struct buffer *opencl_buffer_create(struct backend_device *device, uint64_t bytes, struct error *e)
{
    const struct device_limits *l = &device->limits;
    if (!bytes || bytes > l->max_buffer_bytes || bytes > SIZE_MAX) {
        fail(e, bytes ? WHERRY_STATUS_OUT_OF_DEVICE_MEMORY : WHERRY_STATUS_INVALID_ARGUMENT,
             "a buffer of %" PRIu64 " bytes: this device allows 1 to %" PRIu64 " in one; use a smaller batch", bytes,
             l->max_buffer_bytes);
        return NULL;
    }
    if (l->memory_bytes &&
        bytes > l->memory_bytes - (device->allocated < l->memory_bytes ? device->allocated : l->memory_bytes)) {
        fail(e, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY,
             "a buffer of %" PRIu64 " bytes does not fit beside the %" PRIu64 " in use: the device has %" PRIu64
             "; use a smaller batch",
             bytes, device->allocated, l->memory_bytes);
        return NULL;
    }
    struct buffer *buffer = host_alloc(device->host, 1, sizeof *buffer, e);
    if (!buffer) return NULL;
    cl_int code;
    buffer->memory = clCreateBuffer(device->context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
    if (buffer->memory) {
        buffer->bytes = bytes;
        device->allocated += bytes;
        code = touch(device, buffer->memory, bytes);
    }
    if (!code) return buffer;
    opencl_fail(e, code, "a buffer of %" PRIu64 " bytes beside %" PRIu64 " in use", bytes,
                device->allocated - buffer->bytes);
    opencl_buffer_destroy(device, buffer);
    return NULL;
}

struct buffer *opencl_buffer_part(struct backend_device *device, struct buffer *whole, uint64_t offset, uint64_t bytes,
                                  struct error *e)
{
    struct buffer *buffer = host_alloc(device->host, 1, sizeof *buffer, e);
    if (!buffer) return NULL;
    /* No sub-buffer of the driver's: NVIDIA's may fault when one that begins after the start is released. */
    *buffer = (struct buffer){.memory = whole->memory, .bytes = bytes, .whole = whole, .at = offset};
    return buffer;
}

bool opencl_buffer_write(struct backend_device *device, struct buffer *buffer, uint64_t offset, const void *data,
                         uint64_t bytes, struct error *e)
{
    TRY(opencl_range(buffer, offset, bytes, "writing a buffer", e));
    if (!bytes) return true;
    cl_int code = clEnqueueWriteBuffer(device->queue, buffer->memory, CL_TRUE, (size_t)(buffer->at + offset),
                                       (size_t)bytes, data, 0, NULL, NULL);
    if (!code) return true;
    return opencl_fail_running(e, code, "clEnqueueWriteBuffer of %" PRIu64 " bytes at %" PRIu64 " of %" PRIu64, bytes,
                               offset, buffer->bytes);
}

bool opencl_buffer_read(struct backend_device *device, struct buffer *buffer, uint64_t offset, void *data,
                        uint64_t bytes, struct error *e)
{
    TRY(opencl_range(buffer, offset, bytes, "reading a buffer", e));
    if (!bytes) return true;
    cl_int code = clEnqueueReadBuffer(device->queue, buffer->memory, CL_TRUE, (size_t)(buffer->at + offset),
                                      (size_t)bytes, data, 0, NULL, NULL);
    if (!code) return true;
    return opencl_fail_running(e, code, "clEnqueueReadBuffer of %" PRIu64 " bytes at %" PRIu64 " of %" PRIu64, bytes,
                               offset, buffer->bytes);
}
