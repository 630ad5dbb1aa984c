/* Devices: one list over all backends, and opening by id, UUID or name. */
#include <stdio.h>
#include <string.h>

#include "runtime/choose.h"
#include "runtime/context.h"
#include "wherry/wherry_opencl.h"
#include "wherry/wherry_vulkan.h"

/* Opens and closes each device: a driver that describes itself well may still have nothing to run on. */
static void list_try(struct wherry_context *context, struct device_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        wherry_device_info *info = &list->infos[i];
        struct error e;
        if (!info->usable) continue;
        struct wherry_device *device = device_open_at(context, list, i, &e);
        info->usable = device && device->info.usable;
        info->compiles_only = device && device->info.compiles_only;
        if (!info->usable)
            snprintf(info->reason, sizeof info->reason, "%.*s", (int)sizeof info->reason - 1,
                     device ? device->info.reason : e.text);
        if (device) memcpy(info->device_class, device->info.device_class, sizeof info->device_class);
        if (device) memcpy(info->priority, device->info.priority, sizeof info->priority);
        wherry_device_close(device);
    }
}

wherry_status wherry_device_list(wherry_context *context, wherry_device_info *infos, size_t *count)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!count) return context_invalid(context, "wherry_device_list: count is NULL");
    struct device_list list = {0};
    bool ok = device_list_all(&context->host, &list, context_error(context));
    if (ok && infos) list_try(context, &list);
    if (ok) {
        size_t n = infos ? (*count < list.count ? *count : list.count) : 0;
        if (n) memcpy(infos, list.infos, n * sizeof *infos);
        *count = list.count;
    }
    host_free(&context->host, list.infos);
    return context_status(context, ok);
}

/* The device that a name means. */
static struct wherry_device *open_chosen(struct wherry_context *context, const char *name, struct error *e)
{
    struct device_list list = {0};
    size_t chosen = 0;
    struct wherry_device *device = NULL;
    bool ok = device_choose(context, &list, name, &chosen, e);
    if (ok && !list.infos[chosen].usable)
        ok = fail(e, WHERRY_STATUS_NO_DEVICE, "%s (%s) is not usable: %s", list.infos[chosen].id,
                  list.infos[chosen].name, list.infos[chosen].reason);
    if (ok) device = device_open_at(context, &list, chosen, e);
    host_free(&context->host, list.infos);
    return device;
}

/* The best device that executes. */
static struct wherry_device *open_best(struct wherry_context *context, struct error *e)
{
    struct device_list list = {0};
    size_t chosen = 0;
    struct wherry_device *device = NULL;
    while (!device && device_choose(context, &list, NULL, &chosen, e)) {
        device = device_open_at(context, &list, chosen, e);
        if (device ? device->info.usable : e->status != WHERRY_STATUS_VERIFY_FAILED) break;
        host_log(&context->host, WHERRY_LOG_WARNING, "%s is passed over: %s", list.infos[chosen].id,
                 device ? device->info.reason : e->text);
        list.infos[chosen].usable = false;
        wherry_device_close(device);
        device = NULL;
    }
    host_free(&context->host, list.infos);
    return device;
}

wherry_status wherry_device_open(wherry_context *context, const char *name, wherry_device **out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!out) return context_invalid(context, "wherry_device_open: out is NULL");
    struct error *e = context_error(context);
    struct wherry_device *device = NULL;
    size_t backend, index;
    bool numbered = device_numbered(name, &backend, &index), listed = !numbered;
    if (numbered) {
        device = device_open_number(context, backend, index, e);
        /* One that is not there, or not usable, as the list says it. */
        listed = !device && (e->status == WHERRY_STATUS_NO_DEVICE || e->status == WHERRY_STATUS_UNSUPPORTED);
    }
    if (listed) device = name && *name ? open_chosen(context, name, e) : open_best(context, e);
    if (device) device_priority_tell(*out = device);
    return context_status(context, device != NULL);
}

struct wherry_device *device_open_again(const struct wherry_device *device, struct error *e)
{
    struct wherry_device *again = device_new(device->context, device->backend, e);
    if (!again) return NULL;
    again->index = device->index;
    again->probed = device->probed;
    again->copies = device->copies;
    again->kernels_hash = device->kernels_hash;
    again->info = device->info;
    again->timer = device->timer;
    again->handle = device_open_handle(&device->context->host, device->backend, device->index, NULL, &again->info, e);
    if (again->handle) return again;
    wherry_device_close(again);
    return NULL;
}

/* Shared by wherry_device_wrap_vulkan and wherry_device_wrap_opencl. */
static wherry_status device_wrap(wherry_context *context, const char *api, const void *external, wherry_device **out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!external || !out) return context_invalid(context, "wrapping a device: the descriptor or out is NULL");
    struct error *e = context_error(context);
    for (size_t b = 0; b < backends_count; b++) {
        if (strcmp(backends[b]->name, api)) continue;
        struct wherry_device *device = device_new(context, backends[b], e);
        if (!device) return context_status(context, false);
        device->external = true;
        device->handle = device_open_handle(&context->host, backends[b], 0, external, &device->info, e);
        if (device->handle) {
            device->kernels_hash = backends[b]->kernels(device->handle);
            device_show_texts(&device->info);
            snprintf(device->info.id, sizeof device->info.id, "%s:external", api);
            device_priority_tell(*out = device);
            return WHERRY_STATUS_OK;
        }
        wherry_device_close(device);
        return context_status(context, false);
    }
    fail(e, WHERRY_STATUS_UNSUPPORTED, "this build has no %s backend: build with -DWHERRY_%s=ON", api,
         strcmp(api, "vulkan") ? "OPENCL" : "VULKAN");
    return context_status(context, false);
}

wherry_status wherry_device_wrap_vulkan(wherry_context *context, const wherry_vulkan_desc *desc, wherry_device **out)
{
    return device_wrap(context, "vulkan", desc, out);
}

wherry_status wherry_device_wrap_opencl(wherry_context *context, const wherry_opencl_device_desc *desc,
                                        wherry_device **out)
{
    return device_wrap(context, "opencl", desc, out);
}

wherry_status wherry_device_describe(const wherry_device *device, wherry_device_info *out)
{
    if (!device || !out) return WHERRY_STATUS_INVALID_ARGUMENT;
    *out = device->info;
    return WHERRY_STATUS_OK;
}

wherry_status wherry_device_query(const wherry_device *device, wherry_device_limits *out)
{
    if (!device || !out || out->struct_size != sizeof *out) return WHERRY_STATUS_INVALID_ARGUMENT;
    const struct device_limits *limits = device->backend->limits(device->handle);
    *out = (wherry_device_limits){
        .struct_size = sizeof *out,
        .subgroup_min = limits->subgroup_min,
        .subgroup_max = limits->subgroup_max,
        .max_local_size = limits->max_local_size,
        .shared_bytes = limits->shared_bytes,
        .max_buffer_bytes = limits->max_buffer_bytes == UINT64_MAX ? 0 : limits->max_buffer_bytes,
        .max_binding_bytes = limits->max_binding_bytes == UINT64_MAX ? 0 : limits->max_binding_bytes,
        .f16 = limits->f16,
        .bf16 = limits->bf16 || limits->f16};
    return WHERRY_STATUS_OK;
}
