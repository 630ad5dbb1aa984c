/* A backend that plans and does nothing else: sessions are made for the limits of a target, and what they would compile
 * can be taken from them. */
#include "target.h"

#include <stdio.h>
#include <string.h>

#include "backends/kernel_program.h"
#include "base/index.h"
#include "interface/interface.h"
#include "plan/variants.h"

struct backend_device {
    const struct host *host;
    const struct target *target;
    struct device_limits limits;
    bool vulkan;
};

static bool enumerate(const struct host *host, wherry_device_info **list, size_t *count, struct error *e)
{
    (void)host, (void)list, (void)count, (void)e;
    return true;
}

static struct backend_device *device_open(const struct host *host, size_t index, const void *external,
                                          wherry_device_info *info, struct error *e)
{
    const struct target *target = external;
    struct backend_device *d = host_alloc(host, 1, sizeof *d, e);
    (void)index;
    if (!d) return NULL;
    d->host = host;
    d->target = target;
    d->limits = target->limits;
    d->limits.class = device_class_of(&d->limits);
    d->vulkan = !strcmp(target->public.api, "vulkan");
    *info = (wherry_device_info){.type = target->type, .memory_bytes = target->limits.memory_bytes};
    snprintf(info->name, sizeof info->name, "%s", target->public.description);
    snprintf(info->api, sizeof info->api, "%s", d->vulkan ? "Vulkan" : "OpenCL");
    snprintf(info->reason, sizeof info->reason, "it is not here: a target of compilers");
    return d;
}

static void device_close(struct backend_device *d)
{
    if (d) host_free(d->host, d);
}

static const struct device_limits *limits(const struct backend_device *d) { return &d->limits; }

static uint64_t kernels(const struct backend_device *d)
{
    uint64_t hash = hash_text(HASH_START, d->target->public.name);
    struct embedded_kernel kernel;
    for (size_t i = 0; embedded_kernel_at(d->vulkan, i, &kernel); i++)
        hash = hash_bytes(hash, &kernel.hash, sizeof kernel.hash);
    return hash | 1;
}

static bool fail_target(const struct backend_device *d, struct error *e)
{
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "%s is not here: sessions for it can be planned and their programs written, and nothing else",
                d->target->public.name);
}

static struct buffer *buffer_create(struct backend_device *d, uint64_t bytes, struct error *e)
{
    (void)bytes;
    fail_target(d, e);
    return NULL;
}

static void buffer_destroy(struct backend_device *d, struct buffer *buffer) { (void)d, (void)buffer; }

static bool buffer_write(struct backend_device *d, struct buffer *buffer, uint64_t offset, const void *data,
                         uint64_t bytes, struct error *e)
{
    (void)buffer, (void)offset, (void)data, (void)bytes;
    return fail_target(d, e);
}

static bool buffer_read(struct backend_device *d, struct buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                        struct error *e)
{
    (void)buffer, (void)offset, (void)data, (void)bytes;
    return fail_target(d, e);
}

static uint64_t allocated(const struct backend_device *d)
{
    (void)d;
    return 0;
}

/* As the backends of both APIs say it. */
static bool supports(struct backend_device *d, const struct call *call, enum storage type, char *reason,
                     size_t reason_size)
{
    const struct device_limits *l = &d->limits;
    const struct sizes sizes = {.limits = l, .f16 = type != STORAGE_F32};
    uint32_t local = call_get(call, CONST_LOCAL_SIZE, 1);
    const char *refused;
    struct embedded_kernel kernel = {0};
    size_t index;
    bool found = d->vulkan ? vulkan_kernel_find(call->kernel, type, &index) && embedded_kernel_at(true, index, &kernel)
                           : opencl_kernel_find(call->kernel, &kernel);
    if (!found)
        snprintf(reason, reason_size, "this build has no kernel \"%s\"", call->kernel);
    else if (kernel.matrices && !l->coopmat_m)
        snprintf(reason, reason_size, "%s has no cooperative matrices", d->target->public.name);
    else if (kernel.matrices && local % l->coopmat_subgroup)
        snprintf(reason, reason_size, "work-groups of %u work-items are no full sub-groups", (unsigned)local);
    else if (local > l->max_local_size)
        snprintf(reason, reason_size, "work-groups of %u: the device allows %u", (unsigned)local,
                 (unsigned)l->max_local_size);
    else if (!call_runs(call, &sizes, &refused))
        snprintf(reason, reason_size, "the kernel %s does not run this: %s", call->kernel, refused);
    else
        return true;
    return false;
}

static struct program *program_create(struct backend_device *d, const struct schedule *schedule,
                                      wherry_progress progress, void *user, struct program_info *info, struct error *e)
{
    (void)schedule, (void)progress, (void)user, (void)info;
    fail_target(d, e);
    return NULL;
}

static void program_destroy(struct backend_device *d, struct program *program) { (void)d, (void)program; }

static bool program_text(const struct backend_device *d, const struct step *step, bool one_buffer,
                         struct kernel_program *out, struct error *e)
{
    const struct device_limits *l = &d->limits;
    const struct opencl_form form = {.one_buffer = one_buffer};
    struct embedded_kernel kernel;
    size_t index;
    if (!d->vulkan) return opencl_program(l, &form, step, out, e);
    if (!vulkan_kernel_find(step->kernel, step_type(step), &index) || !embedded_kernel_at(true, index, &kernel))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: this build has no Vulkan kernel \"%s\"", step->name,
                    step->kernel);
    vulkan_program(l, d->target->size_chosen, &kernel, step->call->constants, step->call->n_constants, out);
    return true;
}

const struct backend backend_target = {
    .name = "target",
    .enumerate = enumerate,
    .open = device_open,
    .close = device_close,
    .limits = limits,
    .kernels = kernels,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .buffer_write = buffer_write,
    .buffer_read = buffer_read,
    .allocated = allocated,
    .supports = supports,
    .program_create = program_create,
    .program_destroy = program_destroy,
    .program_text = program_text,
};
