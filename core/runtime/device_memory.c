/* How much of a device's memory there is for sessions: what the application allows, and what the driver gives. */
#include "runtime/device_memory.h"

static uint64_t used(const struct wherry_device *device) { return device->backend->allocated(device->handle); }

static bool budget(const struct wherry_device *device, uint64_t *most, uint64_t *in_use)
{
    *most = *in_use = 0;
    return device->backend->budget && device->backend->budget(device->handle, most, in_use);
}

static bool fits(uint64_t bytes, uint64_t in_use, uint64_t most) { return in_use <= most && bytes <= most - in_use; }

bool device_has_bytes(const struct wherry_device *device, uint64_t bytes, const char *what, struct error *e)
{
    const uint64_t has = used(device);
    uint64_t most, in_use;
    if (device->memory_limit && !fits(bytes, has, device->memory_limit))
        return fail(e, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY,
                    "%s: %s needs %llu bytes of device memory beside %llu in use, and the limit is %llu "
                    "(wherry_device_limit_memory): release other sessions (wherry_session_release), or use a smaller "
                    "batch",
                    device->info.id, what, (unsigned long long)bytes, (unsigned long long)has,
                    (unsigned long long)device->memory_limit);
    if (!budget(device, &most, &in_use) || fits(bytes, in_use, most)) return true;
    return fail(e, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY,
                "%s: %s needs %llu bytes of device memory, and of the %llu that the driver gives this process "
                "now %llu are in use, %llu of them by sessions: release some (wherry_session_release), or use a "
                "smaller batch",
                device->info.id, what, (unsigned long long)bytes, (unsigned long long)most, (unsigned long long)in_use,
                (unsigned long long)has);
}

bool device_has_room(const struct wherry_session *s, struct error *e)
{
    return device_has_bytes(s->device, shared_weights_missing(s) + s->memory.bytes - shared_weights_own(s),
                            "the session", e);
}

wherry_status wherry_device_memory(wherry_device *device, wherry_device_memory_info *out)
{
    if (!device || !out || out->struct_size != sizeof *out) return WHERRY_STATUS_INVALID_ARGUMENT;
    wherry_device_memory_info info = {.struct_size = sizeof info, .used_bytes = used(device)};
    budget(device, &info.budget_bytes, &info.process_bytes);
    mutex_enter(&device->weights.memory);
    info.limit_bytes = device->memory_limit;
    mutex_leave(&device->weights.memory);
    *out = info;
    return WHERRY_STATUS_OK;
}

wherry_status wherry_device_limit_memory(wherry_device *device, uint64_t bytes)
{
    if (!device) return WHERRY_STATUS_INVALID_ARGUMENT;
    mutex_enter(&device->weights.memory);
    device->memory_limit = bytes;
    mutex_leave(&device->weights.memory);
    return WHERRY_STATUS_OK;
}
