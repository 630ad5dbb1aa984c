/* From the embedded text of a kernel and its constants to a program of the driver: compiled in parallel, or taken from
 * the cache on disk (cache.c). */
#include "opencl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/apart.h"
#include "backends/guard.h"
#include "backends/quirks.h"
#include "base/index.h"
#include "base/parts.h"
#include "base/platform.h"
#include "base/text.h"
#include "interface/interface.h"
#include "plan/constants.h"

/* ---- the compiler's options ---- */

static bool step_program(const struct backend_device *device, const struct step *step, bool one_buffer,
                         struct kernel_program *out, struct error *e)
{
    const struct opencl_form form = {.unoptimized =
                                         device->host->unoptimized && !(device->limits.quirks & QUIRK_OPTIMIZES_ONLY),
                                     .one_buffer = one_buffer};
    return opencl_program(&device->limits, &form, step, out, e);
}

bool opencl_program_text(const struct backend_device *device, const struct step *step, bool one_buffer,
                         struct kernel_program *out, struct error *e)
{
    return step_program(device, step, one_buffer && device->one_buffer && !step->call->n_maps, out, e);
}

/* ---- what a kernel takes of a multiprocessor ---- */

/* The number in front of `unit`, the last one there; `none` where there is none. */
static uint32_t number_before(const char *text, const char *unit, uint32_t none)
{
    uint32_t found = none;
    for (const char *at = text; (at = strstr(at, unit)); at += strlen(unit)) {
        const char *digit = at;
        while (digit > text && digit[-1] >= '0' && digit[-1] <= '9') digit--;
        if (digit < at) found = (uint32_t)strtoul(digit, NULL, 10);
    }
    return found;
}

static void read_usage(const struct backend_device *device, struct kernel_build *b)
{
    char log[8192];
    size_t size = 0;
    if (!device->limits.nvidia_sm) return;
    if (clGetProgramBuildInfo(b->program, device->id, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, &size)) return;
    log[size < sizeof log ? size : sizeof log - 1] = 0;
    b->registers = number_before(log, " registers", 0);
    b->spilled = number_before(log, " bytes spill stores", 0);
}

/* ---- one build; called from several threads, so it allocates nothing from the host ---- */

enum guarding { UNGUARDED, GUARDED, GUARDED_ALONE };

struct batch {
    struct backend_device *device;
    struct kernel_build **pending;
    size_t first; /* item 0 of the running parallel_for */
    enum guarding guarding;
};

/* Room after a binary for what a patch adds. */
enum { PTX_ROOM = 32 };

/* What the driver made of a marked kernel is text, which becomes another program, not built yet. */
static void patch(struct backend_device *device, struct kernel_build *b)
{
    struct error e;
    size_t size = 0;
    cl_int status = CL_SUCCESS;
    b->failed = "taking back the PTX";
    b->code = CL_INVALID_BINARY;
    unsigned char *data = opencl_binary_fetch(device, b->program, 0, PTX_ROOM, &size, &e);
    if (!data) return;
    const unsigned char *text = data;
    b->failed = "patching the PTX";
    if (opencl_patch_ptx((char *)data, &size)) {
        clReleaseProgram(b->program);
        b->failed = "clCreateProgramWithBinary of patched PTX";
        b->program = clCreateProgramWithBinary(device->context, 1, &device->id, &size, &text, &status, &b->code);
        if (b->program && !b->code && !status) {
            b->failed = NULL;
            b->patched = true;
        }
    }
    host_free(device->host, data);
}

static uint64_t guard_key(const struct kernel_build *b) { return b->key ? hash_text(HASH_START, b->key) : 0; }

static void build_from_source(struct backend_device *device, struct kernel_build *b, enum guarding guarding)
{
    const char *text = (const char *)b->source.data;
    size_t size = b->source.size;
    const uint64_t key = guarding ? guard_key(b) : 0;
    b->failed = "clCreateProgramWithSource";
    b->program = clCreateProgramWithSource(device->context, 1, &text, &size, &b->code);
    if (!b->program) return;
    b->failed = "clBuildProgram";
    if (key) guard_begin(device->host, b->kernel, key, guarding == GUARDED_ALONE);
    b->code = clBuildProgram(b->program, 1, &device->id, b->options, NULL, NULL);
    if (key) guard_end(device->host, key);
    if (b->code) return;
    b->failed = NULL;
    read_usage(device, b);
}

static void build_one(struct backend_device *device, struct kernel_build *b, enum guarding guarding)
{
    if (!opencl_build_load(device, b)) build_from_source(device, b, guarding);
    apart_tell(device->host, b->kernel);
}

static void build_item(size_t item, void *user)
{
    struct batch *batch = user;
    struct kernel_build *b = batch->pending[batch->first + item];
    if (!b->tried) build_one(batch->device, b, batch->guarding);
}

/* What a process that ended was at, one after the other. False: it was at one alone, which is not compiled, nor are
 * others that whoever needs it needs, too. */
static bool build_suspects(struct batch *batch, size_t n)
{
    const struct host *host = batch->device->host;
    for (size_t i = 0; batch->guarding && i < n; i++) {
        struct kernel_build *b = batch->pending[batch->first + i];
        char path[800];
        struct error ignored;
        enum guard_state state = b->key ? guard_state(host, guard_key(b), path) : GUARD_FREE;
        if (state == GUARD_REFUSED) {
            b->failed = "the guard";
            b->crashed = host_strdup(host, path, &ignored);
            b->tried = true;
            return false;
        } else if (state == GUARD_SUSPECT || batch->guarding == GUARDED_ALONE) {
            b->tried = true;
            build_one(batch->device, b, GUARDED_ALONE);
        }
    }
    return true;
}

static void build_patched_item(size_t item, void *user)
{
    struct batch *batch = user;
    struct kernel_build *b = batch->pending[batch->first + item];
    if (!b->patched) return;
    b->code = clBuildProgram(b->program, 1, &batch->device->id, OPENCL_VERBOSE, NULL, NULL);
    if (b->code)
        b->failed = "clBuildProgram of patched PTX";
    else
        read_usage(batch->device, b);
}

/* ---- failures ---- */

/* The first lines of the compiler's log, where the cause stands. */
static bool fail_build(struct backend_device *device, const struct kernel_build *b, struct error *e)
{
    if (b->crashed) return guard_fail(b->kernel, b->crashed, e);
    opencl_fail(e, b->code, "%s of the kernel %s (%s)", b->failed, b->kernel, b->options);
    if (e->status != WHERRY_STATUS_COMPILE_FAILED) return false;
    size_t size = 0;
    struct error ignored;
    if (clGetProgramBuildInfo(b->program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) || size < 2) return false;
    char *log = host_alloc(device->host, size + 1, 1, &ignored);
    if (log && !clGetProgramBuildInfo(b->program, device->id, CL_PROGRAM_BUILD_LOG, size, log, NULL)) {
        host_log(device->host, WHERRY_LOG_ERROR, "%s: %.900s", b->kernel, log);
        fail_native(e, WHERRY_STATUS_COMPILE_FAILED, b->code,
                    "the driver's compiler refuses the kernel %s: %s (%d): %.700s", b->kernel,
                    opencl_error_name(b->code), (int)b->code, log);
    }
    host_free(device->host, log);
    return false;
}

static void build_destroy(struct backend_device *device, struct kernel_build *b)
{
    if (!b) return;
    if (b->program) clReleaseProgram(b->program);
    opencl_build_forget(device, b);
    host_free(device->host, b->options);
    host_free(device->host, b->crashed);
    host_free(device->host, b->key);
    host_free(device->host, b);
}

void opencl_builds_destroy(struct backend_device *device)
{
    for (size_t i = 0; i < device->n_builds; i++) build_destroy(device, device->builds[i]);
    host_free(device->host, device->builds);
    device->builds = NULL;
    device->n_builds = 0;
}

/* Forgets the builds from `first` on that have no usable program, so that a later attempt starts afresh. */
static void drop_failed(struct backend_device *device, size_t first)
{
    size_t kept = first;
    for (size_t i = first; i < device->n_builds; i++) {
        struct kernel_build *b = device->builds[i];
        if (b->program && !b->failed) {
            device->builds[kept++] = b;
        } else {
            build_destroy(device, b);
        }
    }
    device->n_builds = kept;
}

/* ---- all builds of a schedule ---- */

static struct kernel_build *build_add(struct backend_device *device, const char *options,
                                      const struct embedded_kernel *source, struct error *e)
{
    const struct host *host = device->host;
    struct kernel_build **grown =
        host_grow(host, device->builds, device->n_builds, device->n_builds + 1, sizeof *device->builds, e);
    if (!grown) return NULL;
    device->builds = grown;
    struct kernel_build *b = host_alloc(host, 1, sizeof *b, e);
    if (!b) return NULL;
    b->kernel = source->name;
    b->source = *source;
    b->options = host_strdup(host, options, e);
    if (!b->options || !opencl_build_key(device, b, e)) {
        build_destroy(device, b);
        return NULL;
    }
    device->builds[device->n_builds++] = b;
    return b;
}

static struct kernel_build *build_find(const struct backend_device *device, const char *kernel, const char *options)
{
    for (size_t i = 0; i < device->n_builds; i++) {
        struct kernel_build *b = device->builds[i];
        if (!strcmp(b->kernel, kernel) && !strcmp(b->options, options)) return b;
    }
    return NULL;
}

static bool builds_list(struct backend_device *device, const struct schedule *schedule, const bool *wanted,
                        struct kernel_build **builds, struct error *e)
{
    for (int i = 0; i < schedule->n_steps; i++) {
        const struct step *step = &schedule->steps[i];
        struct kernel_program program;
        builds[i] = NULL;
        if (!wanted[i]) continue;
        TRY(step_program(device, step, opencl_whole(device, step) != NULL, &program, e));
        builds[i] = build_find(device, program.kernel.name, program.options);
        if (!builds[i]) builds[i] = build_add(device, program.options, &program.kernel, e);
        if (!builds[i]) return false;
    }
    return true;
}

/* In chunks, so that the caller hears of progress and may cancel; most machines' cores all have work in each. For
 * another process one that fails is left out. */
static bool builds_run_chunks(struct backend_device *device, size_t first, enum guarding guarding,
                              wherry_progress progress, void *user, struct error *e)
{
    enum { CHUNK = 16 };
    size_t count = device->n_builds - first, threads = device->limits.quirks & QUIRK_ONE_COMPILER ? 1 : 0;
    for (size_t done = 0; done < count; done += CHUNK) {
        struct batch batch = {device, device->builds, first + done, guarding};
        size_t n = count - done < CHUNK ? count - done : CHUNK;
        if (progress && !progress(device->builds[first + done]->kernel, done, count, user)) {
            return fail(e, WHERRY_STATUS_CANCELLED, "cancelled while kernels were compiled");
        }
        for (size_t i = 0; i < n; i++) opencl_build_read(device, device->builds[first + done + i]);
        bool go_on = build_suspects(&batch, n);
        if (go_on) parallel_for(n, threads, build_item, &batch);
        for (size_t i = 0; i < n; i++) {
            struct kernel_build *b = device->builds[first + done + i];
            opencl_build_forget(device, b);
            if (b->uncached[0])
                host_log(device->host, WHERRY_LOG_WARNING, "the kernel %s is compiled again: %s", b->kernel,
                         b->uncached);
            if (!b->failed && !b->cached && opencl_is_marked(&b->source)) patch(device, b);
        }
        parallel_for(n, threads, build_patched_item, &batch);
        for (size_t i = 0; i < n; i++) {
            struct kernel_build *b = device->builds[first + done + i];
            if (b->failed && !device->host->teller) return fail_build(device, b, e);
            if (!b->failed && b->program && device->host->teller) opencl_build_store(device, b);
        }
        if (!go_on) return true;
    }
    if (progress && !progress("kernels", count, count, user)) {
        return fail(e, WHERRY_STATUS_CANCELLED, "cancelled after kernels were compiled");
    }
    return true;
}

/* Of device, driver and version. */
static uint64_t driver_hash(const struct backend_device *device) { return hash_text(HASH_START, device->identity); }

static struct apart apart_of(const struct backend_device *device)
{
    return (struct apart){.host = device->host,
                          .device = device->listed,
                          .driver = driver_hash(device),
                          .always = device->limits.quirks & QUIRK_COMPILE_GUARDED};
}

/* Those that the cache lacks. */
static bool missing_list(const struct backend_device *device, size_t first, struct apart_program **list, size_t *count,
                         struct error *e)
{
    *count = 0;
    *list = host_alloc(device->host, device->n_builds - first, sizeof **list, e);
    if (!*list) return false;
    for (size_t i = first; i < device->n_builds; i++) {
        struct kernel_build *b = device->builds[i];
        b->apart = !opencl_build_is_kept(b);
        if (!b->apart) continue;
        struct apart_program *out = &(*list)[(*count)++];
        snprintf(out->kernel, sizeof out->kernel, "%s", b->kernel);
        out->code = b->source.hash;
        out->form = b->options;
    }
    return true;
}

static bool builds_run_all(struct backend_device *device, size_t first, wherry_progress progress, void *user,
                           struct error *e)
{
    struct apart_program *missing = NULL;
    size_t count;
    const struct apart apart = apart_of(device);
    TRY(missing_list(device, first, &missing, &count, e));
    bool ok = !count || !progress || progress("compile", 0, count, user) ||
              fail(e, WHERRY_STATUS_CANCELLED, "cancelled before kernels were compiled");
    int before = part_enter(device->host, count ? PART_BUILD : PART_LOAD);
    enum apart_way way = ok ? apart_compile(&apart, missing, count, progress, user, e) : APART_FAILED;
    for (size_t i = first; i < device->n_builds; i++) device->builds[i]->apart &= way == APART_COMPILED;
    enum guarding guarding = way == APART_PLAIN ? UNGUARDED : apart.always ? GUARDED_ALONE : GUARDED;
    ok = way != APART_FAILED && builds_run_chunks(device, first, guarding, progress, user, e);
    if (ok && guarding && !device->host->teller) apart_learn(&apart, missing, count);
    part_leave(device->host, before);
    host_free(device->host, missing);
    return ok;
}

static bool builds_run(struct backend_device *device, size_t first, wherry_progress progress, void *user,
                       struct error *e)
{
    return first == device->n_builds || builds_run_all(device, first, progress, user, e);
}

bool opencl_compile(struct backend_device *device, uint64_t driver, const struct apart_program *programs, size_t count,
                    struct error *e)
{
    size_t first = device->n_builds;
    if (driver != driver_hash(device))
        return fail(e, WHERRY_STATUS_NO_DEVICE, "%s is not the device that kernels are to be compiled for: %s",
                    device->listed, device->described.name);
    for (size_t i = 0; i < count; i++) {
        struct embedded_kernel source;
        if (opencl_kernel_find(programs[i].kernel, &source) && !build_find(device, source.name, programs[i].form) &&
            !build_add(device, programs[i].form, &source, e))
            return false;
    }
    bool ok = builds_run(device, first, NULL, NULL, e);
    drop_failed(device, first);
    return ok;
}

struct kernel_build *opencl_build_named(struct backend_device *device, const char *kernel, struct error *e)
{
    static const char options[] = "-cl-std=CL1.2 -w";
    struct embedded_kernel source;
    struct kernel_build *b = build_find(device, kernel, options);
    if (b) return b;
    if (!opencl_kernel_find(kernel, &source)) {
        fail(e, WHERRY_STATUS_UNSUPPORTED, "this build has no OpenCL kernel \"%s\"", kernel);
        return NULL;
    }
    size_t first = device->n_builds;
    b = build_add(device, options, &source, e);
    if (b && builds_run(device, first, NULL, NULL, e)) {
        b->ready = true;
        opencl_build_store(device, b);
        return b;
    }
    drop_failed(device, first);
    return NULL;
}

bool opencl_builds_create(struct backend_device *device, const struct schedule *schedule, const bool *wanted,
                          struct kernel_build **builds, wherry_progress progress, void *user, uint32_t *kernels,
                          uint32_t *compiled, struct error *e)
{
    size_t first = device->n_builds;
    *kernels = *compiled = 0;
    if (!builds_list(device, schedule, wanted, builds, e) || !builds_run(device, first, progress, user, e)) {
        drop_failed(device, first);
        return false;
    }
    for (int i = 0; i < schedule->n_steps; i++) {
        bool seen = !builds[i];
        for (int j = 0; j < i && !seen; j++) seen = builds[j] == builds[i];
        *kernels += !seen;
    }
    for (size_t i = first; i < device->n_builds; i++)
        *compiled += !device->builds[i]->cached || device->builds[i]->apart;
    return true;
}
