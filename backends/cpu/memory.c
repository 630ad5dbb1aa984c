/* Buffers in the host's memory. */
#include <string.h>

#include "cpu.h"

void *cpu_alloc(const struct host *host, uint64_t bytes, void **memory, struct error *e)
{
    *memory = bytes <= SIZE_MAX - CPU_ALIGNMENT ? host->alloc((size_t)bytes + CPU_ALIGNMENT, host->user) : NULL;
    if (!*memory) {
        fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "out of memory: %llu bytes for the device cpu",
             (unsigned long long)bytes);
        return NULL;
    }
    return (unsigned char *)*memory + (CPU_ALIGNMENT - (uintptr_t)*memory % CPU_ALIGNMENT) % CPU_ALIGNMENT;
}

struct buffer *cpu_buffer_create(struct backend_device *device, uint64_t bytes, struct error *e)
{
    struct buffer *buffer = host_alloc(device->host, 1, sizeof *buffer, e);
    if (!buffer) return NULL;
    if (!(buffer->data = cpu_alloc(device->host, bytes, &buffer->memory, e))) {
        host_free(device->host, buffer);
        return NULL;
    }
    buffer->bytes = bytes;
    device->allocated += bytes;
    return buffer;
}

void cpu_buffer_destroy(struct backend_device *device, struct buffer *buffer)
{
    if (!buffer) return;
    device->allocated -= buffer->bytes;
    host_free(device->host, buffer->memory);
    host_free(device->host, buffer);
}

bool cpu_buffer_holds(const struct buffer *buffer, uint64_t offset, uint64_t bytes, struct error *e)
{
    if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return true;
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "bytes %llu to %llu of a buffer of %llu", (unsigned long long)offset,
                (unsigned long long)(offset + bytes), (unsigned long long)buffer->bytes);
}

bool cpu_buffer_write(struct backend_device *device, struct buffer *buffer, uint64_t offset, const void *data,
                      uint64_t bytes, struct error *e)
{
    (void)device;
    TRY(cpu_buffer_holds(buffer, offset, bytes, e));
    if (bytes) memcpy(buffer->data + offset, data, (size_t)bytes);
    buffer->written++;
    return true;
}

/* Large pages (MADV_HUGEPAGE) are not asked for: all-MiniLM-L6-v2's weights took 36 to 43 ms of processor time with
 * them and 63 to 76 without, but 110 to 290 where memory was fragmented, and a model of 2.2 GB 4.2 s instead of 1.8. */
void *cpu_buffer_bytes(struct backend_device *device, struct buffer *buffer)
{
    (void)device;
    buffer->written++;
    return buffer->data;
}

bool cpu_buffer_read(struct backend_device *device, struct buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                     struct error *e)
{
    (void)device;
    TRY(cpu_buffer_holds(buffer, offset, bytes, e));
    if (bytes) memcpy(data, buffer->data + offset, (size_t)bytes);
    return true;
}
