/* The machine's OpenCL devices: their order, what they are, why one is not usable. */
#include "opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/quirks.h"
#include "base/text.h"
#include "plan/variants.h"

/* Queries of extensions, which older headers lack. */
enum {
    QUERY_UUID = 0x106A,     /* cl_khr_device_uuid */
    QUERY_PCI_KHR = 0x410F,  /* cl_khr_pci_bus_info: four uint: domain, bus, device, function */
    QUERY_SM_MAJOR = 0x4000, /* cl_nv_device_attribute_query */
    QUERY_SM_MINOR = 0x4001,
    QUERY_WARP = 0x4003,
    QUERY_PCI_BUS = 0x4008,
    QUERY_PCI_SLOT = 0x4009,
    QUERY_PCI_DOMAIN = 0x400A,
    QUERY_WAVEFRONT = 0x4043 /* cl_amd_device_attribute_query */
};

enum { MAX_PLATFORMS = 64, PLATFORM_NOT_FOUND = -1001 };

/* ---- queries that leave a harmless value where the driver refuses ---- */

/* The device that is asked, and its first answer that was neither a value nor that it knows none (CL_INVALID_VALUE). */
struct asked {
    cl_device_id id;
    cl_int failed;
};

static bool answered(struct asked *q, cl_int code)
{
    if (code && code != CL_INVALID_VALUE && !q->failed) q->failed = code;
    return !code;
}

static bool ask(struct asked *q, cl_device_info what, size_t size, void *value, size_t *length)
{
    return answered(q, clGetDeviceInfo(q->id, what, size, value, length));
}

static void ask_text(struct asked *q, cl_device_info what, char *text, size_t size)
{
    /* Longer texts are an error in OpenCL, so they are fetched whole; only names and versions are asked for. */
    char whole[1024];
    size_t length = 0;
    text[0] = 0;
    if (!ask(q, what, sizeof whole, whole, &length) || !length) return;
    whole[length < sizeof whole ? length : sizeof whole - 1] = 0;
    snprintf(text, size, "%s", whole);
}

static void ask_platform(struct asked *q, cl_platform_id platform, cl_platform_info what, char *text, size_t size)
{
    char whole[1024];
    size_t length = 0;
    text[0] = 0;
    if (!answered(q, clGetPlatformInfo(platform, what, sizeof whole, whole, &length)) || !length) return;
    whole[length < sizeof whole ? length : sizeof whole - 1] = 0;
    snprintf(text, size, "%s", whole);
}

static cl_platform_id platform_of(struct asked *q)
{
    cl_platform_id platform = NULL;
    if (!ask(q, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL)) return NULL;
    return platform;
}

static uint32_t ask_uint(struct asked *q, cl_device_info what, uint32_t otherwise)
{
    cl_uint value = 0;
    return ask(q, what, sizeof value, &value, NULL) ? value : otherwise;
}

static uint64_t ask_ulong(struct asked *q, cl_device_info what, uint64_t otherwise)
{
    cl_ulong value = 0;
    return ask(q, what, sizeof value, &value, NULL) ? value : otherwise;
}

static size_t ask_size(struct asked *q, cl_device_info what, size_t otherwise)
{
    size_t value = 0;
    return ask(q, what, sizeof value, &value, NULL) ? value : otherwise;
}

static bool ask_bool(struct asked *q, cl_device_info what) { return ask_uint(q, what, CL_FALSE) != CL_FALSE; }

static bool has_extension(struct asked *q, const char *name)
{
    char text[16384]; /* NVIDIA's and Intel's lists have about 1,500 characters */
    size_t size = 0;
    if (!ask(q, CL_DEVICE_EXTENSIONS, sizeof text - 1, text, &size)) return false;
    text[size < sizeof text ? size : sizeof text - 1] = 0;
    size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += length) {
        bool begins = at == text || at[-1] == ' ';
        if (begins && (at[length] == ' ' || at[length] == 0)) return true;
    }
    return false;
}

/* ---- what a device is ---- */

static cl_device_type type_of(struct asked *q)
{
    cl_device_type type = 0;
    return ask(q, CL_DEVICE_TYPE, sizeof type, &type, NULL) ? type : 0;
}

static wherry_device_type describe_type(struct asked *q)
{
    cl_device_type type = type_of(q);
    if (type & CL_DEVICE_TYPE_GPU) {
        return ask_bool(q, CL_DEVICE_HOST_UNIFIED_MEMORY) ? WHERRY_DEVICE_INTEGRATED_GPU : WHERRY_DEVICE_DISCRETE_GPU;
    }
    return type & CL_DEVICE_TYPE_CPU ? WHERRY_DEVICE_CPU : WHERRY_DEVICE_OTHER;
}

/* Why the device can't be used; an empty text when it can. */
static void find_reason(struct asked *q, char *reason, size_t size)
{
    char version[128], profile[64];
    ask_text(q, CL_DEVICE_VERSION, version, sizeof version);
    ask_text(q, CL_DEVICE_PROFILE, profile, sizeof profile);
    unsigned major = 0, minor = 0;
    reason[0] = 0;
    if (sscanf(version, "OpenCL %u.%u", &major, &minor) != 2) {
        snprintf(reason, size, "the driver does not tell its OpenCL version");
    } else if (major < 1 || (major == 1 && minor < 2)) {
        snprintf(reason, size, "OpenCL %u.%u: 1.2 is needed", major, minor);
    } else if (!ask_bool(q, CL_DEVICE_AVAILABLE)) {
        snprintf(reason, size, "the driver says that the device is not available");
    } else if (!ask_bool(q, CL_DEVICE_COMPILER_AVAILABLE)) {
        snprintf(reason, size, "the driver has no compiler for OpenCL C");
    } else if (!ask_bool(q, CL_DEVICE_ENDIAN_LITTLE)) {
        snprintf(reason, size, "the device is big-endian");
    } else if (!strcmp(profile, "EMBEDDED_PROFILE") && !has_extension(q, "cles_khr_int64")) {
        snprintf(reason, size, "an embedded profile without 64-bit integers (cles_khr_int64)");
    }
}

static bool find_uuid(struct asked *q, uint8_t uuid[16])
{
    memset(uuid, 0, 16);
    if (!has_extension(q, "cl_khr_device_uuid")) return false;
    if (!ask(q, QUERY_UUID, 16, uuid, NULL)) {
        memset(uuid, 0, 16);
        return false;
    }
    return true;
}

void opencl_device_describe(cl_device_id id, wherry_device_info *info)
{
    struct asked asked = {.id = id}, *q = &asked;
    char platform_name[128] = "", driver[120], version[128];
    cl_platform_id platform = platform_of(q);
    if (platform) ask_platform(q, platform, CL_PLATFORM_NAME, platform_name, sizeof platform_name);
    ask_text(q, CL_DEVICE_NAME, info->name, sizeof info->name);
    ask_text(q, CL_DRIVER_VERSION, driver, sizeof driver);
    ask_text(q, CL_DEVICE_VERSION, version, sizeof version);
    snprintf(info->driver, sizeof info->driver, "%s %s", platform_name, driver);
    unsigned major = 0, minor = 0;
    if (sscanf(version, "OpenCL %u.%u", &major, &minor) == 2) {
        snprintf(info->api, sizeof info->api, "OpenCL %u.%u", major, minor);
    } else {
        snprintf(info->api, sizeof info->api, "OpenCL");
    }
    find_uuid(q, info->uuid);
    info->type = describe_type(q);
    info->memory_bytes = ask_ulong(q, CL_DEVICE_GLOBAL_MEM_SIZE, 0);
    find_reason(q, info->reason, sizeof info->reason);
    /* By its type, say, results differ. */
    if (q->failed && !info->reason[0])
        snprintf(info->reason, sizeof info->reason, "the driver fails to describe the device: %s (%d)",
                 opencl_error_name(q->failed), (int)q->failed);
    info->usable = !info->reason[0];
    struct device_identity identity;
    opencl_device_identify(id, &identity);
    if (quirks_find(&identity, info->quirks, sizeof info->quirks) & QUIRK_NO_UUID)
        memset(info->uuid, 0, sizeof info->uuid);
}

void opencl_device_identify(cl_device_id id, struct device_identity *identity)
{
    struct asked asked = {.id = id}, *q = &asked;
    char platform_name[100] = "", driver[150];
    cl_platform_id platform = platform_of(q);
    if (platform) ask_platform(q, platform, CL_PLATFORM_NAME, platform_name, sizeof platform_name);
    ask_text(q, CL_DRIVER_VERSION, driver, sizeof driver);
    *identity = (struct device_identity){.api = DEVICE_API_OPENCL, .vendor_id = ask_uint(q, CL_DEVICE_VENDOR_ID, 0)};
    ask_text(q, CL_DEVICE_NAME, identity->name, sizeof identity->name);
    /* Qualcomm's devices are all called QUALCOMM Adreno(TM); the version has the number behind it. */
    char version[128];
    ask_text(q, CL_DEVICE_VERSION, version, sizeof version);
    const char *adreno = strstr(version, "Adreno");
    if (adreno) snprintf(identity->name, sizeof identity->name, "%s", adreno);
    snprintf(identity->driver_text, sizeof identity->driver_text, "%s %s", platform_name, driver);
    identity_versions(identity, driver, 0);
}

bool opencl_device_limits(cl_device_id id, struct device_limits *limits, struct error *e)
{
    struct asked asked = {.id = id}, *q = &asked;
    size_t items[16] = {0}; /* three dimensions at least */
    size_t local = ask_size(q, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1);
    if (ask(q, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof items, items, NULL) && items[0] && items[0] < local)
        local = items[0];
    bool nvidia = has_extension(q, "cl_nv_device_attribute_query");
    uint32_t width = nvidia ? ask_uint(q, QUERY_WARP, 0) : 0;
    if (has_extension(q, "cl_amd_device_attribute_query")) width = ask_uint(q, QUERY_WAVEFRONT, 0);
    *limits = (struct device_limits){
        .f16 = true, /* vload_half and vstore_half are in every OpenCL */
        .cpu = type_of(q) & CL_DEVICE_TYPE_CPU,
        .subgroup_min = width ? width : 1,
        .subgroup_max = width ? width : 1,
        .shared_bytes = (size_t)ask_ulong(q, CL_DEVICE_LOCAL_MEM_SIZE, 0),
        .max_local_size = local < UINT32_MAX ? (uint32_t)local : UINT32_MAX,
        .max_buffer_bytes = ask_ulong(q, CL_DEVICE_MAX_MEM_ALLOC_SIZE, 0),
        .max_binding_bytes = ask_ulong(q, CL_DEVICE_MAX_MEM_ALLOC_SIZE, 0),
        .memory_bytes = ask_ulong(q, CL_DEVICE_GLOBAL_MEM_SIZE, 0),
        .timer_seconds = 1e-9 * (double)ask_size(q, CL_DEVICE_PROFILING_TIMER_RESOLUTION, 1),
        .timer_bits = 64,
    };
    if (nvidia) limits->nvidia_sm = ask_uint(q, QUERY_SM_MAJOR, 0) * 10 + ask_uint(q, QUERY_SM_MINOR, 0);
    limits->compute_units = ask_uint(q, CL_DEVICE_MAX_COMPUTE_UNITS, 0);
    limits->rungs = RUNG_BIT(RUNG_TILED);
    if (limits->nvidia_sm >= 80) {
        limits->rungs |= RUNG_BIT(RUNG_MMA) | RUNG_BIT(RUNG_SMALL_BATCH);
        /* Where a run is short, the host's part in it is what there is to gain, and one buffer as the argument of all
         * costs NVIDIA's driver less than many. */
        limits->one_buffer_rungs = RUNG_BIT(RUNG_SMALL_BATCH);
        limits->one_buffer_rows = SMALL_BATCH_ROWS;
    }
    if (limits->nvidia_sm == 90) limits->rungs |= RUNG_BIT(RUNG_WGMMA);
    /* NVIDIA computes in 16 bits from Pascal's second generation on, and does not say so. */
    limits->f16_arithmetic = has_extension(q, "cl_khr_fp16") || limits->nvidia_sm >= 60;
    return !q->failed || opencl_fail(e, q->failed, "clGetDeviceInfo for the device's limits");
}

bool opencl_device_has_priorities(cl_device_id id)
{
    struct asked asked = {.id = id}, *q = &asked;
    unsigned major = 0;
    char version[128];
    ask_text(q, CL_DEVICE_VERSION, version, sizeof version);
    return sscanf(version, "OpenCL %u.", &major) == 1 && major >= 2 && has_extension(q, "cl_khr_priority_hints");
}

bool opencl_device_identity(cl_device_id id, char *text, size_t size, struct error *e)
{
    struct asked asked = {.id = id}, *q = &asked;
    char name[256], driver[128], version[128], platform_name[128] = "", platform_version[256] = "";
    uint8_t uuid[16];
    cl_platform_id platform = platform_of(q);
    if (platform) {
        ask_platform(q, platform, CL_PLATFORM_NAME, platform_name, sizeof platform_name);
        ask_platform(q, platform, CL_PLATFORM_VERSION, platform_version, sizeof platform_version);
    }
    ask_text(q, CL_DEVICE_NAME, name, sizeof name);
    ask_text(q, CL_DRIVER_VERSION, driver, sizeof driver);
    ask_text(q, CL_DEVICE_VERSION, version, sizeof version);
    find_uuid(q, uuid);
    struct text_writer t = text_begin(text, size);
    text_add(&t, "%s\n%s\n%s\n", platform_name, platform_version, name);
    text_hex(&t, uuid, sizeof uuid);
    text_add(&t, "\n%s\n%s\n", driver, version);
    return !q->failed || opencl_fail(e, q->failed, "clGetDeviceInfo for the device's names");
}

/* ---- the list ---- */

struct listed {
    cl_device_id id; /* NULL: a platform that failed */
    wherry_device_info info;
    uint8_t key[18]; /* compared as bytes: type, kind of address, address */
    size_t order;
};

struct listing {
    struct listed *devices;
    size_t count;
};

static void make_key(struct listed *d)
{
    static const uint8_t ranks[] = {[WHERRY_DEVICE_DISCRETE_GPU] = 0,
                                    [WHERRY_DEVICE_INTEGRATED_GPU] = 1,
                                    [WHERRY_DEVICE_VIRTUAL_GPU] = 2,
                                    [WHERRY_DEVICE_OTHER] = 3,
                                    [WHERRY_DEVICE_CPU] = 4};
    memset(d->key, 0, sizeof d->key);
    d->key[0] = ranks[d->info.type];
    d->key[1] = 2; /* no address: as the driver lists them */
    struct asked asked = {.id = d->id}, *q = &asked;
    if (!d->id) return;
    uint8_t uuid[16];
    if (find_uuid(q, uuid)) {
        d->key[1] = 0;
        memcpy(d->key + 2, uuid, 16);
        return;
    }
    cl_uint pci[4] = {0};
    bool known = false;
    if (has_extension(q, "cl_khr_pci_bus_info")) {
        known = ask(q, QUERY_PCI_KHR, sizeof pci, pci, NULL);
    } else if (has_extension(q, "cl_nv_device_attribute_query")) {
        pci[0] = ask_uint(q, QUERY_PCI_DOMAIN, 0);
        pci[1] = ask_uint(q, QUERY_PCI_BUS, UINT32_MAX);
        pci[2] = ask_uint(q, QUERY_PCI_SLOT, 0);
        known = pci[1] != UINT32_MAX;
    }
    if (!known) return;
    d->key[1] = 1;
    for (int i = 0; i < 16; i++) d->key[2 + i] = (uint8_t)(pci[i / 4] >> (24 - 8 * (i % 4)));
}

static int compare(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    int order = memcmp(x->key, y->key, sizeof x->key);
    if (order) return order;
    return x->order < y->order ? -1 : x->order > y->order;
}

static struct listed *append(const struct host *host, struct listing *list, struct error *e)
{
    struct listed *grown = host_grow(host, list->devices, list->count, list->count + 1, sizeof *grown, e);
    if (!grown) return NULL;
    list->devices = grown;
    struct listed *d = &grown[list->count];
    d->order = list->count++;
    return d;
}

/* A driver that can't even list its devices is shown, not hidden. */
static bool append_failure(const struct host *host, struct listing *list, cl_platform_id platform, const char *call,
                           cl_int code, struct error *e)
{
    struct listed *d = append(host, list, e);
    if (!d) return false;
    struct asked asked = {0};
    if (platform) ask_platform(&asked, platform, CL_PLATFORM_NAME, d->info.name, sizeof d->info.name);
    if (!d->info.name[0]) snprintf(d->info.name, sizeof d->info.name, "OpenCL");
    snprintf(d->info.driver, sizeof d->info.driver, "%s", d->info.name);
    snprintf(d->info.api, sizeof d->info.api, "OpenCL");
    snprintf(d->info.reason, sizeof d->info.reason, "%s: %s (%d)", call, opencl_error_name(code), (int)code);
    make_key(d);
    return true;
}

/* So is that there is no OpenCL here. */
static bool append_missing(const struct host *host, struct listing *list, const char *text, struct error *e)
{
    struct listed *d = append(host, list, e);
    if (!d) return false;
    d->info = (wherry_device_info){.id = "opencl:0", .name = "OpenCL", .api = "OpenCL"};
    snprintf(d->info.reason, sizeof d->info.reason, "%.*s", (int)sizeof d->info.reason - 1, text);
    return true;
}

static bool append_platform(const struct host *host, struct listing *list, cl_platform_id platform, struct error *e)
{
    cl_uint count = 0;
    cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count);
    if (code == CL_DEVICE_NOT_FOUND || (!code && !count)) return true;
    if (code) return append_failure(host, list, platform, "clGetDeviceIDs", code, e);
    cl_device_id *ids = host_alloc(host, count, sizeof *ids, e);
    if (!ids) return false;
    bool ok = true;
    code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids, NULL);
    if (code) ok = append_failure(host, list, platform, "clGetDeviceIDs", code, e);
    for (cl_uint i = 0; ok && !code && i < count; i++) {
        struct listed *d = append(host, list, e);
        if (!d) {
            ok = false;
            break;
        }
        d->id = ids[i];
        opencl_device_describe(d->id, &d->info);
        make_key(d);
    }
    host_free(host, ids);
    return ok;
}

static bool list_create(const struct host *host, struct listing *list, struct error *e)
{
    *list = (struct listing){0};
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint count = 0;
    struct error missing = {0};
    if (!opencl_functions_load(&missing)) {
        if (append_missing(host, list, missing.text, e)) return true;
        host_free(host, list->devices);
        return false;
    }
    cl_int code = clGetPlatformIDs(MAX_PLATFORMS, platforms, &count);
    bool ok = true;
    if (code == PLATFORM_NOT_FOUND) return true;
    if (code) {
        ok = append_failure(host, list, NULL, "clGetPlatformIDs", code, e);
        count = 0;
    }
    for (cl_uint i = 0; ok && i < count && i < MAX_PLATFORMS; i++) ok = append_platform(host, list, platforms[i], e);
    if (!ok) {
        host_free(host, list->devices);
        return false;
    }
    if (list->count) qsort(list->devices, list->count, sizeof *list->devices, compare);
    for (size_t i = 0; i < list->count; i++) {
        snprintf(list->devices[i].info.id, sizeof list->devices[i].info.id, "opencl:%zu", i);
    }
    return true;
}

bool opencl_enumerate(const struct host *host, wherry_device_info **list, size_t *count, struct error *e)
{
    struct listing found;
    TRY(list_create(host, &found, e));
    bool ok = true;
    if (found.count) {
        wherry_device_info *grown = host_grow(host, *list, *count, *count + found.count, sizeof *grown, e);
        ok = grown;
        if (grown) {
            for (size_t i = 0; i < found.count; i++) grown[*count + i] = found.devices[i].info;
            *list = grown;
            *count += found.count;
        }
    }
    host_free(host, found.devices);
    return ok;
}

bool opencl_device_find(const struct host *host, size_t index, cl_device_id *out, wherry_device_info *info,
                        struct error *e)
{
    struct listing found;
    TRY(opencl_functions_load(e));
    TRY(list_create(host, &found, e));
    bool ok = true;
    if (index >= found.count) {
        ok = fail(e, WHERRY_STATUS_NO_DEVICE, "there is no opencl:%zu: OpenCL lists %zu devices", index, found.count);
    } else {
        *out = found.devices[index].id;
        *info = found.devices[index].info;
        if (!info->usable) ok = fail(e, WHERRY_STATUS_UNSUPPORTED, "%s (%s): %s", info->id, info->name, info->reason);
    }
    host_free(host, found.devices);
    return ok;
}
