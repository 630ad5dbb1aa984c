/* Which device a name means, and which one it is when nothing is asked for. */
#include "runtime/choose.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/platform.h"
#include "base/text.h"
#include "runtime/context.h"
#include "runtime/tuned.h"

/* ---- by name ---- */

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

/* ---- by what is known of its driver, and by what was measured ---- */

/* Vulkan on a CPU is made to draw: wherry demo on two cores, 185 to 190 tokens/s through lavapipe, 777 to 1059 through
 * PoCL. */
static bool is_rasterizer(const wherry_device_info *info)
{
    static const char *const drivers[] = {"llvmpipe", "SwiftShader"};
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        if (contains(info->driver, drivers[i])) return true;
    return false;
}

/* Best device when nothing is asked for: GPUs, then the host's cores, CPU drivers, rasterizers last, then the
 * reference; the list's order decides among equals. */
enum { PREFERENCE_GPU = 6 };

static int preference(const wherry_device_info *info)
{
    if (!info->usable) return 0;
    if (!strcmp(info->id, "reference")) return 1;
    if (!strcmp(info->id, "cpu")) return 4;
    if (info->type == WHERRY_DEVICE_CPU) return is_rasterizer(info) ? 2 : 3;
    return info->type == WHERRY_DEVICE_OTHER ? 5 : PREFERENCE_GPU;
}

/* What was tuned on this device, by its driver of today and this library; false: nothing that can be used. What stands
 * in the way is no error here. */
static bool tuning_of(struct wherry_context *context, const struct device_list *list, size_t index, struct tuning *out)
{
    const struct host *host = &context->host;
    const wherry_device_info *info = &list->infos[index];
    struct error e;
    struct tuning_file file;
    struct tuning_key key = {.kernels = 0};
    char api[16], path[TUNING_PATH];
    bool there = false;
    snprintf(api, sizeof api, "%.*s", (int)strcspn(info->id, ":"), info->id);
    key = tuning_key(api, info->uuid, info->name, info->driver, 0, host->unoptimized);
    tuning_path(host->cache_dir, "tuned", &key, path);
    if (!file_exists(path, &there, &e) || !there) return false; /* so that most starts open one device */
    struct wherry_device *device = device_open_at(context, list, index, &e);
    if (!device) return false;
    key = device_tuning_key(device);
    wherry_device_close(device);
    bool loaded = tuning_load(host, path, false, &key, out, &file, &e);
    if (!loaded) tuning_free(host, out);
    return loaded;
}

/* Whether the calls that were measured on both take less time on b. */
static bool tuned_faster(const struct tuning *a, const struct tuning *b)
{
    double sum_a = 0, sum_b = 0;
    for (size_t i = 0; i < a->count; i++)
        for (size_t k = 0; k < b->count; k++) {
            if (strcmp(a->entries[i].work, b->entries[k].work) != 0) continue;
            sum_a += a->entries[i].best;
            sum_b += b->entries[k].best;
        }
    return sum_b < sum_a;
}

/* Of CPU devices that were tuned for the same calls, the one that was fastest. */
static void prefer_tuned(struct wherry_context *context, const struct device_list *list, size_t *chosen)
{
    struct tuning best = {0}, other = {0};
    if (!context->host.cache_dir[0] || !tuning_of(context, list, *chosen, &best)) return;
    for (size_t i = 0, first = *chosen; i < list->count; i++) {
        const wherry_device_info *info = &list->infos[i];
        if (i == first || !info->usable || info->type != WHERRY_DEVICE_CPU || preference(info) < 2) continue;
        if (!tuning_of(context, list, i, &other)) continue;
        if (tuned_faster(&best, &other)) {
            struct tuning slower = best;
            best = other;
            other = slower;
            *chosen = i;
        }
        tuning_free(&context->host, &other);
    }
    tuning_free(&context->host, &best);
}

static bool choose_default(struct wherry_context *context, struct device_list *list, size_t *chosen, struct error *e)
{
    int best = 0;
    for (size_t b = 0; b < backends_count && best < PREFERENCE_GPU; b++) {
        if (b >= list->listed) TRY(device_list_add(&context->host, list, b, e));
        if (b >= list->listed) list->listed = b + 1;
        for (size_t i = list->first_of[b]; i < list->end_of[b]; i++)
            if (preference(&list->infos[i]) > best) best = preference(&list->infos[i]), *chosen = i;
    }
    if (!best) return fail(e, WHERRY_STATUS_NO_DEVICE, "no usable device: `wherry devices` tells why");
    if (list->infos[*chosen].type == WHERRY_DEVICE_CPU) prefer_tuned(context, list, chosen);
    return true;
}

/* The backend whose name the device's begins with, up to a ':' or its end; backends_count: none. */
static size_t backend_of(const char *name)
{
    char api[16];
    size_t length = strcspn(name, ":"), b = 0;
    if (length >= sizeof api) return backends_count;
    snprintf(api, sizeof api, "%.*s", (int)length, name);
    while (b < backends_count && !same(backends[b]->name, api)) b++;
    return b;
}

bool device_numbered(const char *name, size_t *backend, size_t *index)
{
    if (!name || (*backend = backend_of(name)) == backends_count) return false;
    const char *digit = strchr(name, ':');
    if (!digit || !digit[1] || strlen(digit) > 5) return false;
    for (*index = 0; *++digit; *index = 10 * *index + (size_t)(*digit - '0'))
        if (*digit < '0' || *digit > '9') return false;
    return true;
}

bool device_choose(struct wherry_context *context, struct device_list *list, const char *name, size_t *chosen,
                   struct error *e)
{
    const struct host *host = &context->host;
    struct error alone;
    if (!name || !*name) return choose_default(context, list, chosen, e);
    size_t b = backend_of(name);
    if (b < backends_count) {
        TRY(device_list_add(host, list, b, e));
        if (choose_named(list, name, chosen, &alone)) return true;
        host_free(host, list->infos); /* what there is besides, for a device of another API or the error's sentence */
        *list = (struct device_list){0};
    }
    return device_list_all(host, list, e) && choose_named(list, name, chosen, e);
}
