/* The Vulkan backend's entry: its function table, and which calls it runs. */
#include "vulkan.h"

#include <stdio.h>
#include <string.h>

#include "plan/variants.h"

static const struct device_limits *vulkan_limits(const struct backend_device *d) { return &d->physical.limits; }

static uint64_t vulkan_allocated(const struct backend_device *d) { return d->allocated; }

static bool vulkan_supports(struct backend_device *d, const struct call *call, enum storage type, char *reason,
                            size_t reason_size)
{
    const struct device_limits *limits = &d->physical.limits;
    size_t index;
    if (type != STORAGE_F32 && !limits->f16) {
        snprintf(reason, reason_size, "%s lacks 16-bit storage (storageBuffer16BitAccess)", d->physical.info.name);
        return false;
    }
    if (!vulkan_kernel_find(call->kernel, type, &index)) {
        snprintf(reason, reason_size, "this build has no Vulkan kernel \"%s\" for %s", call->kernel,
                 storage_name(type));
        return false;
    }
    struct embedded_kernel kernel;
    vulkan_kernel(index, &kernel);
    if (kernel.matrices && !limits->coopmat_m) {
        snprintf(reason, reason_size, "%s lacks cooperative matrices (VK_KHR_cooperative_matrix, f16 added in f32)",
                 d->physical.info.name);
        return false;
    }
    if (kernel.matrices && type == STORAGE_BF16 && !limits->coopmat_bf16) {
        snprintf(reason, reason_size, "%s lacks cooperative matrices of bf16 (VK_KHR_shader_bfloat16)",
                 d->physical.info.name);
        return false;
    }
    uint32_t local = call_get(call, CONST_LOCAL_SIZE, 1);
    if (kernel.matrices && local % limits->coopmat_subgroup) {
        snprintf(reason, reason_size, "work-groups of %u work-items; cooperative matrices need full sub-groups of %u",
                 (unsigned)local, (unsigned)limits->coopmat_subgroup);
        return false;
    }
    if (local > limits->max_local_size) {
        snprintf(reason, reason_size, "work-groups of %u work-items; %s runs at most %u", (unsigned)local,
                 d->physical.info.name, (unsigned)limits->max_local_size);
        return false;
    }
    const struct sizes sizes = {.limits = limits, .f16 = type != STORAGE_F32};
    const char *refused;
    if (!call_runs(call, &sizes, &refused)) {
        snprintf(reason, reason_size, "the kernel %s does not run this: %s", call->kernel, refused);
        return false;
    }
    return true;
}

/* Every step is one dispatch of its own kernel: there is nothing to add to its name. */
static const char *vulkan_program_note(const struct program *program, int step)
{
    (void)program, (void)step;
    return NULL;
}

const struct backend backend_vulkan = {
    .name = "vulkan",
    .enumerate = vulkan_enumerate,
    .open = vulkan_open,
    .close = vulkan_close,
    .limits = vulkan_limits,
    .kernels = vulkan_kernels,
    .buffer_create = vulkan_buffer_create,
    .buffer_destroy = vulkan_buffer_destroy,
    .buffer_write = vulkan_buffer_write,
    .buffer_read = vulkan_buffer_read,
    .pins = vulkan_pins,
    .buffer_copied = vulkan_buffer_copied,
    .pin = vulkan_pin,
    .unpin = vulkan_unpin,
    .copies_up = vulkan_copies_up,
    .copy_down = vulkan_copy_down,
    .copy_wait = vulkan_copy_wait,
    .allocated = vulkan_allocated,
    .budget = vulkan_budget,
    .supports = vulkan_supports,
    .program_create = vulkan_program_create,
    .program_destroy = vulkan_program_destroy,
    .program_submit = vulkan_program_submit,
    .program_wait = vulkan_program_wait,
    .outside = vulkan_outside,
    .program_run = vulkan_program_run,
    .program_note = vulkan_program_note,
    .program_usage = vulkan_program_usage,
    .program_text = vulkan_program_text,
    .compile = vulkan_compile,
};
