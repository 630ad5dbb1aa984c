/* The devices of backends as one list. */
#include "runtime/device_list.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "runtime/context.h"

void device_show_texts(wherry_device_info *info)
{
    utf8_show_within(info->name, sizeof info->name);
    utf8_show_within(info->driver, sizeof info->driver);
    utf8_show_within(info->api, sizeof info->api);
    utf8_show_within(info->reason, sizeof info->reason);
}

bool device_list_add(const struct host *host, struct device_list *list, size_t b, struct error *e)
{
    list->first_of[b] = list->end_of[b] = list->count;
    int before = part_enter(host, PART_LIST + (int)b);
    bool ok = backends[b]->enumerate(host, &list->infos, &list->count, e);
    part_leave(host, before);
    if (!ok) return false;
    for (size_t i = list->first_of[b]; i < list->count; i++) {
        device_show_texts(&list->infos[i]);
        if (!list->infos[i].id[0])
            snprintf(list->infos[i].id, sizeof list->infos[i].id, "%s:%zu", backends[b]->name, i - list->first_of[b]);
    }
    list->end_of[b] = list->count;
    return true;
}

bool device_list_all(const struct host *host, struct device_list *list, struct error *e)
{
    for (size_t b = 0; b < backends_count; b++) TRY(device_list_add(host, list, b, e));
    return true;
}

struct backend_device *device_open_handle(const struct host *host, const struct backend *backend, size_t index,
                                          const void *external, wherry_device_info *info, struct error *e)
{
    int before = part_enter(host, PART_OPEN);
    struct backend_device *handle = backend->open(host, index, external, info, e);
    part_leave(host, before);
    if (handle && host->low_priority && !*info->priority)
        snprintf(info->priority, sizeof info->priority, "the process's own: its threads compute, in no queue");
    if (handle)
        snprintf(info->device_class, sizeof info->device_class, "%s",
                 device_class_name(backend->limits(handle)->class));
    return handle;
}

bool device_priority_note(const struct wherry_device *device, char *note, size_t size)
{
    const wherry_device_info *info = &device->info;
    if (!device->context->host.low_priority || !strncmp(info->priority, "low", 3)) return false;
    snprintf(note, size, "%s is not of low priority, as was asked for: its priority is %s", info->id, info->priority);
    return true;
}

void device_priority_tell(const struct wherry_device *device)
{
    char note[400];
    if (device_priority_note(device, note, sizeof note))
        host_log(&device->context->host, WHERRY_LOG_WARNING, "%s", note);
}

struct wherry_device *device_new(struct wherry_context *context, const struct backend *backend, struct error *e)
{
    struct wherry_device *device = host_alloc(&context->host, 1, sizeof *device, e);
    if (!device) return NULL;
    device->context = context;
    device->backend = backend;
    mutex_make(&device->lock);
    weight_store_make(&device->weights);
    return device;
}

/* `info`: what is known of it already. */
static struct wherry_device *device_make(struct wherry_context *context, size_t b, size_t index,
                                         const wherry_device_info *info, struct error *e)
{
    struct wherry_device *device = device_new(context, backends[b], e);
    if (!device) return NULL;
    device->info = *info;
    device->index = index;
    device->handle = device_open_handle(&context->host, backends[b], index, NULL, &device->info, e);
    if (!device->handle) {
        fail_in(e, info->id);
        wherry_device_close(device);
        return NULL;
    }
    device->kernels_hash = backends[b]->kernels(device->handle);
    device_show_texts(&device->info);
    if (device_try(device, e)) return device;
    wherry_device_close(device);
    return NULL;
}

struct wherry_device *device_open_at(struct wherry_context *context, const struct device_list *list, size_t index,
                                     struct error *e)
{
    size_t b = 0;
    while (index < list->first_of[b] || index >= list->end_of[b]) b++;
    return device_make(context, b, index - list->first_of[b], &list->infos[index], e);
}

struct wherry_device *device_open_number(struct wherry_context *context, size_t backend, size_t index, struct error *e)
{
    wherry_device_info info = {.type = WHERRY_DEVICE_OTHER};
    snprintf(info.id, sizeof info.id, "%s:%zu", backends[backend]->name, index);
    return device_make(context, backend, index, &info, e);
}

void wherry_device_close(wherry_device *device)
{
    if (!device) return;
    device->backend->close(device->handle);
    weight_store_free(&device->weights);
    mutex_free(&device->lock);
    host_free(&device->context->host, device);
}
