/* Targets of compilers as devices. */
#include "backends/target/target.h"

#include <stdio.h>
#include <string.h>

#include "runtime/context.h"
#include "runtime/device_list.h"

const wherry_target *wherry_target_at(size_t index)
{
    const struct target *target = target_at(index);
    return target ? &target->public : NULL;
}

static const struct target *find(const char *name)
{
    const struct target *target;
    for (size_t i = 0; (target = target_at(i)); i++)
        if (!strcmp(target->public.name, name)) return target;
    return NULL;
}

wherry_status wherry_device_open_target(wherry_context *context, const char *name, wherry_device **out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!name || !out) return context_invalid(context, "wherry_device_open_target: name or out is NULL");
    struct error *e = context_error(context);
    const struct target *target = find(name);
    if (!target) {
        fail(e, WHERRY_STATUS_NO_DEVICE, "this build has no target \"%.40s\"", name);
        return context_status(context, false);
    }
    struct wherry_device *device = device_new(context, &backend_target, e);
    if (!device) return context_status(context, false);
    device->external = true;
    device->handle = device_open_handle(&context->host, &backend_target, 0, target, &device->info, e);
    if (!device->handle) {
        wherry_device_close(device);
        return context_status(context, false);
    }
    device->kernels_hash = backend_target.kernels(device->handle);
    device->info.compiles_only = true;
    snprintf(device->info.id, sizeof device->info.id, "target:%.20s", name);
    *out = device;
    return WHERRY_STATUS_OK;
}
