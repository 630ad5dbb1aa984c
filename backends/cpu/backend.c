/* The host's cores as a device: the fusion groups by kernels of this library, compiled with it, which need no driver.
 */
#include <stdio.h>

#include "cpu.h"
#include "plan/variants.h"

static void cpu_describe(const struct host *host, wherry_device_info *info)
{
    *info = (wherry_device_info){.type = WHERRY_DEVICE_CPU, .usable = true};
    snprintf(info->id, sizeof info->id, "cpu");
    size_t threads = workers_wanted(host->threads);
    snprintf(info->name, sizeof info->name, "host processor (%s, %zu thread%s)", cpu_kernels_choose()->isa, threads,
             threads == 1 ? "" : "s");
    snprintf(info->driver, sizeof info->driver, "wherry %d.%d.%d", WHERRY_VERSION_MAJOR, WHERRY_VERSION_MINOR,
             WHERRY_VERSION_PATCH);
    snprintf(info->api, sizeof info->api, "C");
}

static bool cpu_enumerate(const struct host *host, wherry_device_info **list, size_t *count, struct error *e)
{
    void *grown = host_grow(host, *list, *count, *count + 1, sizeof **list, e);
    if (!grown) return false;
    *list = grown;
    cpu_describe(host, &(*list)[(*count)++]);
    return true;
}

static void cpu_close(struct backend_device *device)
{
    if (!device) return;
    workers_destroy(device->workers);
    cpu_onednn_close(device);
    mutex_free(&device->computing);
    host_free(device->host, device);
}

static struct backend_device *cpu_open(const struct host *host, size_t index, const void *external,
                                       wherry_device_info *info, struct error *e)
{
    if (external) {
        fail(e, WHERRY_STATUS_UNSUPPORTED, "the host's cores can't be wrapped: open the device \"cpu\"");
        return NULL;
    }
    if (index) {
        fail(e, WHERRY_STATUS_NO_DEVICE, "there is one device \"cpu\"");
        return NULL;
    }
    cpu_describe(host, info);
    struct backend_device *device = host_alloc(host, 1, sizeof *device, e);
    if (!device) return NULL;
    device->host = host;
    mutex_make(&device->computing);
    device->kernels = cpu_kernels_choose();
    device->bf16 = cpu_bf16_choose();
    device->cache_bytes = last_cache_bytes();
    device->workers = workers_create(host, host->threads, e);
    if (!device->workers) {
        cpu_close(device);
        return NULL;
    }
    /* What of these sizes is a work-group's is nothing here, and says that no kernel is too large. Its number of cores
     * is not told, so that no result depends on it. */
    device->limits = (struct device_limits){.class = CLASS_CPU,
                                            .cpu = true,
                                            .bf16 = device->bf16 != NULL,
                                            .subgroup_min = 1,
                                            .subgroup_max = 1,
                                            .shared_bytes = 1 << 20,
                                            .max_local_size = 1024,
                                            .rungs = RUNG_BIT(RUNG_TILED),
                                            .max_buffer_bytes = SIZE_MAX / 4,
                                            .max_binding_bytes = SIZE_MAX / 4,
                                            .timer = "host",
                                            .timer_seconds = 1e-9,
                                            .timer_bits = 64};
    return device;
}

static const struct device_limits *cpu_limits(const struct backend_device *device) { return &device->limits; }

/* They were compiled with the library, and choose their sizes by themselves. */
static uint64_t cpu_kernels_hash(const struct backend_device *device)
{
    (void)device;
    return 0;
}

static uint64_t cpu_allocated(const struct backend_device *device) { return device->allocated; }

static void cpu_program_usage(struct backend_device *device, const struct program *program, int step,
                              struct kernel_usage *out)
{
    (void)device, (void)program, (void)step;
    *out = (struct kernel_usage){0};
}

const struct backend backend_cpu = {
    .name = "cpu",
    .enumerate = cpu_enumerate,
    .open = cpu_open,
    .close = cpu_close,
    .limits = cpu_limits,
    .kernels = cpu_kernels_hash,
    .buffer_create = cpu_buffer_create,
    .buffer_destroy = cpu_buffer_destroy,
    .buffer_write = cpu_buffer_write,
    .buffer_read = cpu_buffer_read,
    .buffer_bytes = cpu_buffer_bytes,
    .allocated = cpu_allocated,
    .supports = cpu_supports,
    .program_create = cpu_program_create,
    .program_destroy = cpu_program_destroy,
    .program_submit = cpu_program_submit,
    .program_wait = cpu_program_wait,
    .submit_runs = true,
    .program_run = cpu_program_run,
    .program_note = cpu_program_note,
    .program_usage = cpu_program_usage,
    .program_traffic = cpu_program_traffic,
};
