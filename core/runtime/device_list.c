/* The devices of all backends as one list. */
#include "runtime/device_list.h"

#include <stdio.h>

#include "base/utf8.h"
#include "runtime/context.h"

void device_show_texts(wherry_device_info *info)
{
    utf8_show_within(info->name, sizeof info->name);
    utf8_show_within(info->driver, sizeof info->driver);
    utf8_show_within(info->api, sizeof info->api);
    utf8_show_within(info->reason, sizeof info->reason);
}

bool device_list_all(const struct host *host, struct device_list *list, struct error *e)
{
    for (size_t b = 0; b < backends_count; b++) {
        list->first_of[b] = list->count;
        TRY(backends[b]->enumerate(host, &list->infos, &list->count, e));
        for (size_t i = list->first_of[b]; i < list->count; i++) {
            device_show_texts(&list->infos[i]);
            if (!list->infos[i].id[0])
                snprintf(list->infos[i].id, sizeof list->infos[i].id, "%s:%zu", backends[b]->name,
                         i - list->first_of[b]);
        }
    }
    return true;
}

struct wherry_device *device_open_at(struct wherry_context *context, const struct device_list *list, size_t index,
                                     struct error *e)
{
    size_t b = 0;
    struct wherry_device *device = host_alloc(&context->host, 1, sizeof *device, e);
    if (!device) return NULL;
    while (b + 1 < backends_count && list->first_of[b + 1] <= index) b++;
    device->context = context;
    device->backend = backends[b];
    device->info = list->infos[index];
    device->index = index - list->first_of[b];
    device->handle = backends[b]->open(&context->host, device->index, NULL, &device->info, e);
    if (!device->handle) {
        fail_in(e, list->infos[index].id);
        host_free(&context->host, device);
        return NULL;
    }
    device->kernels_hash = backends[b]->kernels(device->handle);
    device_show_texts(&device->info);
    return device;
}

void wherry_device_close(wherry_device *device)
{
    if (!device) return;
    device->backend->close(device->handle);
    host_free(&device->context->host, device);
}
