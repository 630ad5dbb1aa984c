/* Devices: one list over all backends, and opening by id, UUID or name. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"
#include "runtime/context.h"
#include "wherry/wherry_opencl.h"
#include "wherry/wherry_vulkan.h"

/* The list of one backend, or of all. */
struct device_list {
    wherry_device_info *infos;
    size_t count;
    size_t first_of[8]; /* by backend: index of its first entry */
};

/* Texts of drivers, which are shown everywhere. */
static void show_texts(wherry_device_info *info)
{
    utf8_show_within(info->name, sizeof info->name);
    utf8_show_within(info->driver, sizeof info->driver);
    utf8_show_within(info->api, sizeof info->api);
    utf8_show_within(info->reason, sizeof info->reason);
}

static bool list_all(const struct host *host, struct device_list *list, struct error *e)
{
    for (size_t b = 0; b < backends_count; b++) {
        list->first_of[b] = list->count;
        TRY(backends[b]->enumerate(host, &list->infos, &list->count, e));
        for (size_t i = list->first_of[b]; i < list->count; i++) {
            show_texts(&list->infos[i]);
            if (!list->infos[i].id[0])
                snprintf(list->infos[i].id, sizeof list->infos[i].id, "%s:%zu", backends[b]->name,
                         i - list->first_of[b]);
        }
    }
    return true;
}

/* Opens and closes each device: a driver that describes itself well may still have nothing to run on. */
static void list_try(struct wherry_context *context, struct device_list *list)
{
    for (size_t b = 0; b < backends_count; b++) {
        size_t end = b + 1 < backends_count ? list->first_of[b + 1] : list->count;
        for (size_t i = list->first_of[b]; i < end; i++) {
            wherry_device_info *info = &list->infos[i], opened = *info;
            struct error e;
            if (!info->usable) continue;
            struct backend_device *handle = backends[b]->open(&context->host, i - list->first_of[b], NULL, &opened, &e);
            info->usable = handle != NULL;
            if (!handle) snprintf(info->reason, sizeof info->reason, "%.*s", (int)sizeof info->reason - 1, e.text);
            backends[b]->close(handle);
        }
    }
}

wherry_status wherry_device_list(wherry_context *context, wherry_device_info *infos, size_t *count)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!count) return context_invalid(context, "wherry_device_list: count is NULL");
    struct device_list list = {0};
    bool ok = list_all(&context->host, &list, &context->error);
    if (ok && infos) list_try(context, &list);
    if (ok) {
        size_t n = infos ? (*count < list.count ? *count : list.count) : 0;
        if (n) memcpy(infos, list.infos, n * sizeof *infos);
        *count = list.count;
    }
    host_free(&context->host, list.infos);
    return context_status(context, ok);
}

/* ---- choosing ---- */

static bool contains(const char *text, const char *part)
{
    for (; *text; text++) {
        size_t i = 0;
        while (part[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) i++;
        if (!part[i]) return true;
    }
    return !*part;
}

static bool same(const char *a, const char *b) { return strlen(a) == strlen(b) && contains(a, b); }

static void uuid_text(const uint8_t uuid[16], char text[33])
{
    struct text_writer t = text_begin(text, 33);
    text_hex(&t, uuid, 16);
}

static bool uuid_is(const wherry_device_info *info, const char *name)
{
    char want[33], have[33];
    size_t n = 0;
    for (const char *c = name; *c; c++) {
        if (*c == '-') continue;
        if (!isxdigit((unsigned char)*c) || n == 32) return false;
        want[n++] = *c;
    }
    want[n] = 0;
    uuid_text(info->uuid, have);
    static const uint8_t none[16];
    return n == 32 && memcmp(info->uuid, none, 16) && same(want, have);
}

/* Vulkan on a CPU is made to draw: wherry demo on two cores, 185 to 190 tokens/s through lavapipe, 777 to 1059 through
 * PoCL. */
static bool is_rasterizer(const wherry_device_info *info)
{
    static const char *const drivers[] = {"llvmpipe", "SwiftShader"};
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        if (contains(info->driver, drivers[i])) return true;
    return false;
}

/* Best device when nothing is asked for: GPUs, then the host's cores, CPU drivers, of which
 * rasterizers are last, and the reference; the list's order
 * decides among equals. */
static int preference(const wherry_device_info *info)
{
    if (!info->usable) return 0;
    if (!strcmp(info->id, "reference")) return 1;
    if (!strcmp(info->id, "cpu")) return 4;
    if (info->type == WHERRY_DEVICE_CPU) return is_rasterizer(info) ? 2 : 3;
    return info->type == WHERRY_DEVICE_OTHER ? 5 : 6;
}

static bool choose_default(const struct device_list *list, size_t *chosen, struct error *e)
{
    int best = 0;
    for (size_t i = 0; i < list->count; i++)
        if (preference(&list->infos[i]) > best) best = preference(&list->infos[i]), *chosen = i;
    return best || fail(e, WHERRY_STATUS_NO_DEVICE, "no usable device: `wherry devices` tells why");
}

static void list_ids(const struct device_list *list, char *text, size_t size)
{
    struct text_writer t = text_begin(text, size);
    for (size_t i = 0; i < list->count; i++)
        text_add(&t, "%s%s (%.60s)", i ? ", " : "", list->infos[i].id, list->infos[i].name);
}

static bool choose_named(const struct device_list *list, const char *name, size_t *chosen, struct error *e)
{
    char ids[600];
    size_t found = 0;
    const char *part = strchr(name, ':'); /* "opencl:h200": the API, then a part of the name */
    char api[16] = "";
    if (part && (size_t)(part - name) < sizeof api) memcpy(api, name, (size_t)(part - name));
    for (size_t i = 0; i < list->count; i++)
        if (same(list->infos[i].id, name) || uuid_is(&list->infos[i], name)) {
            *chosen = i;
            return true;
        }
    for (size_t i = 0; i < list->count; i++) {
        const wherry_device_info *info = &list->infos[i];
        bool match = contains(info->name, name) ||
                     (api[0] && part[1] && contains(info->id, api) && contains(info->name, part + 1)) ||
                     (!part && contains(info->id, name) && strchr(info->id, ':')); /* an API alone: "vulkan" */
        if (!match || !info->usable) continue;
        if (!found++) *chosen = i;
    }
    list_ids(list, ids, sizeof ids);
    if (!found) return fail(e, WHERRY_STATUS_NO_DEVICE, "no device \"%.80s\": there are %s", name, ids);
    bool api_alone = !part && found > 1 && !strncmp(list->infos[*chosen].id, name, strlen(name));
    if (found > 1 && !api_alone) /* an API alone means its first device */
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "\"%.80s\" fits %zu devices: name one of %s", name, found, ids);
    return true;
}

wherry_status wherry_device_open(wherry_context *context, const char *name, wherry_device **out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!out) return context_invalid(context, "wherry_device_open: out is NULL");
    struct device_list list = {0};
    struct error *e = &context->error;
    size_t chosen = 0, b = 0;
    struct wherry_device *device = NULL;
    bool ok = list_all(&context->host, &list, e) &&
              (name && *name ? choose_named(&list, name, &chosen, e) : choose_default(&list, &chosen, e));
    if (ok && !list.infos[chosen].usable)
        ok = fail(e, WHERRY_STATUS_NO_DEVICE, "%s (%s) is not usable: %s", list.infos[chosen].id,
                  list.infos[chosen].name, list.infos[chosen].reason);
    if (ok) ok = (device = host_alloc(&context->host, 1, sizeof *device, e)) != NULL;
    if (ok) {
        while (b + 1 < backends_count && list.first_of[b + 1] <= chosen) b++;
        device->context = context;
        device->backend = backends[b];
        device->info = list.infos[chosen];
        device->index = chosen - list.first_of[b];
        device->handle = backends[b]->open(&context->host, device->index, NULL, &device->info, e);
        if (!(ok = device->handle != NULL))
            fail_in(e, list.infos[chosen].id);
        else
            device->kernels_hash = backends[b]->kernels(device->handle);
        show_texts(&device->info);
    }
    host_free(&context->host, list.infos);
    if (ok)
        *out = device;
    else
        host_free(&context->host, device);
    return context_status(context, ok);
}

struct wherry_device *device_open_again(const struct wherry_device *device, struct error *e)
{
    const struct host *host = &device->context->host;
    struct wherry_device *again = host_alloc(host, 1, sizeof *again, e);
    if (!again) return NULL;
    *again = *device;
    again->handle = device->backend->open(host, device->index, NULL, &again->info, e);
    if (again->handle) return again;
    host_free(host, again);
    return NULL;
}

/* Shared by wherry_device_wrap_vulkan and wherry_device_wrap_opencl. */
static wherry_status device_wrap(wherry_context *context, const char *api, const void *external, wherry_device **out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!external || !out) return context_invalid(context, "wrapping a device: the descriptor or out is NULL");
    struct error *e = &context->error;
    for (size_t b = 0; b < backends_count; b++) {
        if (strcmp(backends[b]->name, api)) continue;
        struct wherry_device *device = host_alloc(&context->host, 1, sizeof *device, e);
        if (!device) return context_status(context, false);
        device->context = context;
        device->backend = backends[b];
        device->external = true;
        device->handle = backends[b]->open(&context->host, 0, external, &device->info, e);
        if (device->handle) {
            device->kernels_hash = backends[b]->kernels(device->handle);
            show_texts(&device->info);
            snprintf(device->info.id, sizeof device->info.id, "%s:external", api);
            *out = device;
            return WHERRY_STATUS_OK;
        }
        host_free(&context->host, device);
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

void wherry_device_close(wherry_device *device)
{
    if (!device) return;
    device->backend->close(device->handle);
    host_free(&device->context->host, device);
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
        .f16 = limits->f16};
    return WHERRY_STATUS_OK;
}
