/* The OpenCL backend's table: opening a device, and what it can run. */
#include "opencl.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/quirks.h"
#include "interface/interface.h"
#include "plan/variants.h"
#include "wherry/wherry_opencl.h"

/* ---- devices ---- */

/* PoCL 3.1 takes its devices down with the process's last context, without regard for another thread that makes a
 * context or lists devices at that moment. So these take turns, rare and short as they are. */
static atomic_flag drivers_busy = ATOMIC_FLAG_INIT;

static void drivers_lock(void)
{
    while (atomic_flag_test_and_set_explicit(&drivers_busy, memory_order_acquire)) {
    }
}

static void drivers_unlock(void) { atomic_flag_clear_explicit(&drivers_busy, memory_order_release); }

static bool enumerate(const struct host *host, wherry_device_info **list, size_t *count, struct error *e)
{
    drivers_lock();
    bool ok = opencl_enumerate(host, list, count, e);
    drivers_unlock();
    return ok;
}

static void device_free(struct backend_device *device)
{
    if (device->queue) clFinish(device->queue);
    opencl_copies_close(device);
    opencl_gemm_close(device);
    opencl_builds_destroy(device);
    if (device->profiling_queue) clReleaseCommandQueue(device->profiling_queue);
    if (device->copy_queue) clReleaseCommandQueue(device->copy_queue);
    if (device->queue) clReleaseCommandQueue(device->queue);
    if (device->context) clReleaseContext(device->context);
    mutex_free(&device->building);
    host_free(device->host, device);
}

static void device_close(struct backend_device *device)
{
    if (!device) return;
    drivers_lock();
    device_free(device);
    drivers_unlock();
}

/* A queue of the library's own: of low priority where that is wanted and to be had. */
static cl_command_queue queue_make(const struct backend_device *device, cl_command_queue_properties properties,
                                   bool *low, cl_int *code)
{
    enum { QUEUE_PRIORITY = 0x1096, PRIORITY_LOW = 1 << 2 }; /* of cl_khr_priority_hints, which older headers lack */
    const cl_ulong wanted[] = {CL_QUEUE_PROPERTIES, properties, QUEUE_PRIORITY, PRIORITY_LOW, 0};
    cl_command_queue queue = NULL;
    if (device->host->low_priority && opencl_functions.create_queue && opencl_device_has_priorities(device->id))
        queue = opencl_functions.create_queue(device->context, device->id, wanted, code);
    *low = queue != NULL;
    return queue ? queue : clCreateCommandQueue(device->context, device->id, properties, code);
}

static bool queue_create(struct backend_device *device, wherry_device_info *info, struct error *e)
{
    cl_int code;
    bool low;
    device->queue = queue_make(device, 0, &low, &code);
    if (!device->queue) return opencl_fail(e, code, "clCreateCommandQueue");
    if (device->host->low_priority)
        snprintf(info->priority, sizeof info->priority, "%s",
                 low ? "low (cl_khr_priority_hints)"
                 : opencl_device_has_priorities(device->id)
                     ? "the driver's usual one: it refuses low priority by cl_khr_priority_hints"
                     : "the driver's usual one: it does not list cl_khr_priority_hints");
    return true;
}

static bool open_listed(struct backend_device *device, size_t index, wherry_device_info *info, struct error *e)
{
    cl_int code;
    TRY(opencl_device_find(device->host, index, &device->id, info, e));
    device->context = clCreateContext(NULL, 1, &device->id, NULL, NULL, &code);
    if (!device->context) return opencl_fail(e, code, "clCreateContext for %s (%s)", info->id, info->name);
    return queue_create(device, info, e);
}

static bool context_has_device(cl_context context, cl_device_id id, bool *has, struct error *e)
{
    cl_device_id ids[64];
    size_t bytes = 0;
    cl_int code = clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof ids, ids, &bytes);
    if (code) return opencl_fail(e, code, "clGetContextInfo of the given context");
    *has = false;
    for (size_t i = 0; i < bytes / sizeof *ids; i++) *has = *has || ids[i] == id;
    return true;
}

static bool check_queue(cl_command_queue queue, cl_context context, cl_device_id id, struct error *e)
{
    cl_context its_context = NULL;
    cl_device_id its_device = NULL;
    cl_command_queue_properties properties = 0;
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof its_context, &its_context, NULL);
    if (!code) code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof its_device, &its_device, NULL);
    if (!code) code = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (code) return opencl_fail(e, code, "clGetCommandQueueInfo of the given queue");
    if (its_context != context || its_device != id) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the given OpenCL queue is of another context or device");
    }
    if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the given OpenCL queue is out-of-order: give an in-order one, or none");
    }
    return true;
}

static bool queue_retain(cl_command_queue queue, cl_command_queue *out, struct error *e)
{
    cl_int code = clRetainCommandQueue(queue);
    if (code) return opencl_fail(e, code, "clRetainCommandQueue");
    *out = queue;
    return true;
}

static bool open_external(struct backend_device *device, const wherry_opencl_device_desc *given,
                          wherry_device_info *info, struct error *e)
{
    bool has = false;
    const size_t least = offsetof(wherry_opencl_device_desc, copy_queue), size = given->struct_size;
    wherry_opencl_device_desc taken = {0}, *desc = &taken; /* members that the application does not know are 0 */
    if (size >= least) memcpy(desc, given, size < sizeof *desc ? size : sizeof *desc);
    if (!desc->context || !desc->device) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "an OpenCL device is wrapped by its context and its device, with struct_size set");
    }
    TRY(opencl_functions_load(e));
    TRY(context_has_device(desc->context, desc->device, &has, e));
    if (!has) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the given OpenCL device is not of the given context");
    }
    if (desc->queue) TRY(check_queue(desc->queue, desc->context, desc->device, e));
    if (desc->copy_queue) TRY(check_queue(desc->copy_queue, desc->context, desc->device, e));
    memset(info, 0, sizeof *info);
    snprintf(info->id, sizeof info->id, "opencl:external");
    opencl_device_describe(desc->device, info);
    if (!info->usable) return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: %s", info->name, info->reason);
    device->id = desc->device;
    cl_int code = clRetainContext(desc->context);
    if (code) return opencl_fail(e, code, "clRetainContext");
    device->context = desc->context;
    if (desc->copy_queue) TRY(queue_retain(desc->copy_queue, &device->copy_queue, e));
    if (!desc->queue) return queue_create(device, info, e);
    TRY(queue_retain(desc->queue, &device->queue, e));
    if (device->host->low_priority)
        snprintf(info->priority, sizeof info->priority, "the application's: it made the queue");
    return true;
}

/* A marker: what a driver without a device behind it, or with one that is lost, fails first. */
static bool queue_try(struct backend_device *device, struct error *e)
{
    cl_int code = clEnqueueMarkerWithWaitList(device->queue, 0, NULL, NULL);
    if (!code) code = clFinish(device->queue);
    return !code || opencl_fail_running(e, code, "it fails an empty submission");
}

static void find_quirks(struct backend_device *device)
{
    char names[256];
    const char *cache = getenv("POCL_KERNEL_CACHE");
    opencl_device_identify(device->id, &device->described);
    device->limits.identity = &device->described;
    device->limits.quirks = quirks_find(&device->described, names, sizeof names);
    if (device->limits.quirks & QUIRK_NO_16_BIT) device->limits.f16 = device->limits.f16_arithmetic = false;
    device->keeps_kernels = device->limits.quirks & QUIRK_KEEPS_KERNELS && !(cache && !strcmp(cache, "0"));
    device->one_buffer = device->limits.nvidia_sm;
    if (device->limits.quirks & QUIRK_COMPILE_GUARDED) {
        device->clblast = CLBLAST_REFUSED;
        snprintf(device->clblast_note, sizeof device->clblast_note,
                 "the driver's compiler may end the process, and nothing guards CLBlast's kernels");
    }
}

static bool device_fill(struct backend_device *device, size_t index, const void *external, wherry_device_info *info,
                        struct error *e)
{
    TRY(external ? open_external(device, external, info, e) : open_listed(device, index, info, e));
    cl_int code;
    bool low;
    device->profiling_queue = queue_make(device, CL_QUEUE_PROFILING_ENABLE, &low, &code);
    if (!device->profiling_queue) {
        host_log(device->host, WHERRY_LOG_WARNING, "%s: no queue with timestamps: %s", info->name,
                 opencl_error_name(code));
    }
    TRY(queue_try(device, e));
    TRY(opencl_device_limits(device->id, &device->limits, e));
    if (device->profiling_queue) device->limits.timer = "event";
    TRY(opencl_device_identity(device->id, device->identity, sizeof device->identity, e));
    find_quirks(device);
    device->limits.class = device_class_of(&device->limits);
    return true;
}

static struct backend_device *device_open(const struct host *host, size_t index, const void *external,
                                          wherry_device_info *info, struct error *e)
{
    wherry_device_info found;
    struct backend_device *device = host_alloc(host, 1, sizeof *device, e);
    if (!device) return NULL;
    device->host = host;
    mutex_make(&device->building);
    if (!external) snprintf(device->listed, sizeof device->listed, "opencl:%zu", index);
    drivers_lock();
    bool ok = device_fill(device, index, external, &found, e);
    if (!ok) device_free(device);
    drivers_unlock();
    if (!ok) return NULL;
    if (info) *info = found;
    return device;
}

static const struct device_limits *device_limits_get(const struct backend_device *device) { return &device->limits; }

static uint64_t device_allocated(const struct backend_device *device) { return device->allocated; }

/* ---- what runs here ---- */

static bool supports(struct backend_device *device, const struct call *call, enum storage type, char *reason,
                     size_t reason_size)
{
    struct embedded_kernel ignored;
    uint32_t local = call_get(call, CONST_LOCAL_SIZE, 1);
    const struct sizes sizes = {.limits = &device->limits,
                                .f16 = type != STORAGE_F32}; /* 16-bit storage needs no extension */
    const char *refused;
    if (!opencl_kernel_find(call->kernel, &ignored)) {
        snprintf(reason, reason_size, "this build has no OpenCL kernel \"%s\"", call->kernel);
    } else if (!call_runs(call, &sizes, &refused)) {
        snprintf(reason, reason_size, "the kernel %s does not run this: %s", call->kernel, refused);
    } else if (local > device->limits.max_local_size) {
        snprintf(reason, reason_size, "work-groups of %u: the device allows %u", (unsigned)local,
                 (unsigned)device->limits.max_local_size);
    } else {
        return true;
    }
    return false;
}

const struct backend backend_opencl = {
    .name = "opencl",
    .enumerate = enumerate,
    .open = device_open,
    .close = device_close,
    .limits = device_limits_get,
    .kernels = opencl_kernels,
    .buffer_create = opencl_buffer_create,
    .buffer_destroy = opencl_buffer_destroy,
    .buffer_part = opencl_buffer_part,
    .buffer_write = opencl_buffer_write,
    .buffer_read = opencl_buffer_read,
    .pin = opencl_pin,
    .unpin = opencl_unpin,
    .copies_up = opencl_copies_up,
    .copy_down = opencl_copy_down,
    .copy_wait = opencl_copy_wait,
    .allocated = device_allocated,
    .supports = supports,
    .program_create = opencl_program_create,
    .program_destroy = opencl_program_destroy,
    .program_submit = opencl_program_submit,
    .program_wait = opencl_program_wait,
    .outside = opencl_outside,
    .program_run = opencl_program_run,
    .program_note = opencl_program_note,
    .program_usage = opencl_program_usage,
    .program_text = opencl_program_text,
    .compile = opencl_compile,
};
