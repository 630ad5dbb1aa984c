/* Copies beside what the device computes. */
#include "runtime/copies.h"

static bool beside(const struct wherry_device *device)
{
    const struct backend *backend = device->backend;
    return backend->pin && (!backend->pins || backend->pins(device->handle));
}

struct buffer *device_buffer_copied(struct wherry_device *device, uint64_t bytes, struct error *e)
{
    const struct backend *backend = device->backend;
    if (backend->buffer_copied && beside(device)) return backend->buffer_copied(device->handle, bytes, e);
    return backend->buffer_create(device->handle, bytes, e);
}

bool device_pin(struct wherry_device *device, void *memory, uint64_t bytes, struct pinned **out, struct error *e)
{
    *out = beside(device) ? device->backend->pin(device->handle, memory, bytes, e) : NULL;
    if (*out || !beside(device)) return true;
    return false;
}

void device_unpin(struct wherry_device *device, struct pinned *pinned)
{
    if (pinned) device->backend->unpin(device->handle, pinned);
}

static bool ended(struct wherry_device *device, bool ok, const struct error *e)
{
    if (!ok) device_failed(device, e);
    return ok;
}

bool device_copies_up(struct wherry_device *device, const struct transfer *list, int n, struct error *e)
{
    const struct backend *backend = device->backend;
    TRY(device_executes(device, e));
    if (beside(device)) return ended(device, backend->copies_up(device->handle, list, n, e), e);
    for (int i = 0; i < n; i++)
        if (!ended(
                device,
                backend->buffer_write(device->handle, list[i].buffer, list[i].offset, list[i].host, list[i].bytes, e),
                e))
            return false;
    return true;
}

bool device_copy_down(struct wherry_device *device, const struct transfer *copy, int ticket, struct error *e)
{
    const struct backend *backend = device->backend;
    TRY(device_executes(device, e));
    if (beside(device)) return ended(device, backend->copy_down(device->handle, copy, ticket, e), e);
    return ended(device, backend->buffer_read(device->handle, copy->buffer, copy->offset, copy->host, copy->bytes, e),
                 e);
}

bool device_copy_wait(struct wherry_device *device, int ticket, struct error *e)
{
    const struct backend *backend = device->backend;
    return !beside(device) || ended(device, backend->copy_wait(device->handle, ticket, e), e);
}
