/* A schedule as a list of kernels with their arguments set. */
#include "program.h"

#include <inttypes.h>
#include <string.h>

#include "backends/occupancy.h"
#include "backends/quirks.h"
#include "base/parts.h"
#include "base/platform.h"
#include "interface/interface.h"

/* ---- making ---- */

static uint64_t element_bytes(const struct binding *b, bool f16)
{
    return b->bytes_each ? 1 : b->words || !f16 ? 4 : 2;
}

static bool bindings_check(const struct step *step, struct error *e)
{
    for (int i = 0; i < step->n_bindings; i++) {
        const struct binding *b = &step->bindings[i];
        TRY(opencl_range(b->buffer, b->offset, b->bytes, step->name, e));
        if (b->offset % 256) {
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "%s: the argument of slot %d begins at %" PRIu64 ", not at a multiple of 256", step->name,
                        b->slot, b->offset);
        }
    }
    return true;
}

/* A tensor: its buffer and where it begins; only that (`whole`) where all are of one buffer. */
static cl_int tensor_set(const struct step *step, cl_kernel kernel, cl_uint n, bool whole)
{
    const struct binding *b = &step->bindings[n];
    cl_ulong at = (b->buffer->at + b->offset) / element_bytes(b, step->f16);
    if (whole) return clSetKernelArg(kernel, n + 1, sizeof at, &at);
    cl_int code = clSetKernelArg(kernel, 2 * n, sizeof(cl_mem), &b->buffer->memory);
    return code ? code : clSetKernelArg(kernel, 2 * n + 1, sizeof at, &at);
}

/* What of the program's maps and counters a step has. */
struct firsts {
    cl_uint map, counter;
};

/* `whole`: NULL, or what ONE_BUFFER (cl/common.h) stands for. */
static bool arguments_set(const struct step *step, cl_kernel kernel, const struct buffer *whole,
                          const struct opencl_maps *maps, const struct firsts *own, struct error *e)
{
    bool dropout = call_get(step->call, CONST_DROPOUT, 0) > 0; /* then the site is the last argument */
    const cl_uint first = (whole ? 1 : 2) * (cl_uint)step->n_bindings + (whole ? 1 : 0);
    const cl_uint behind = first + (step->call->n_maps ? 2 : 0);
    cl_uint expected = 0, given = behind + (step->call->counters ? 2 : 0) + dropout;
    cl_int code = clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof expected, &expected, NULL);
    if (code) return opencl_fail(e, code, "clGetKernelInfo of %s", step->kernel);
    if (expected != given) {
        return fail(e, WHERRY_STATUS_COMPILE_FAILED,
                    "%s: the OpenCL kernel %s takes %u arguments and is called with %u (a buffer and an offset for "
                    "each slot, the tensor maps and the first one's number, the same of counters, and dropout's site)",
                    step->name, step->kernel, (unsigned)expected, (unsigned)given);
    }
    if (whole) code = clSetKernelArg(kernel, 0, sizeof(cl_mem), &whole->memory);
    for (int i = 0; i < step->n_bindings; i++) {
        if (!code) code = tensor_set(step, kernel, (cl_uint)i, whole != NULL);
        if (code)
            return opencl_fail(e, code, "%s: clSetKernelArg of %s, slot %d", step->name, step->kernel,
                               step->bindings[i].slot);
    }
    if (step->call->n_maps) {
        code = clSetKernelArg(kernel, first, sizeof(cl_mem), &maps->maps);
        if (!code) code = clSetKernelArg(kernel, first + 1, sizeof own->map, &own->map);
        if (code) return opencl_fail(e, code, "%s: clSetKernelArg of %s, the tensor maps", step->name, step->kernel);
    }
    if (step->call->counters) {
        code = clSetKernelArg(kernel, behind, sizeof(cl_mem), &maps->counters);
        if (!code) code = clSetKernelArg(kernel, behind + 1, sizeof own->counter, &own->counter);
        if (code) return opencl_fail(e, code, "%s: clSetKernelArg of %s, the counters", step->name, step->kernel);
    }
    if (dropout) {
        code = clSetKernelArg(kernel, given - 1, sizeof step->call->site, &step->call->site);
        if (code) return opencl_fail(e, code, "%s: clSetKernelArg of %s, the site", step->name, step->kernel);
    }
    return true;
}

/* What is known of every driver by the standard, of NVIDIA's by its log, of Intel's by an extension. Memory of a
 * work-item's own is what spills, and arrays; where kernels run on the host's cores, it is all that they have. */
static void usage_read(const struct backend_device *device, const struct kernel_build *build, struct prepared *p)
{
    enum { KERNEL_SPILL_MEM_SIZE_INTEL = 0x4109 };
    cl_ulong shared = 0, own = 0, spilled = 0;
    clGetKernelWorkGroupInfo(p->kernel, device->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof shared, &shared, NULL);
    if (!device->limits.cpu && !device->limits.nvidia_sm) {
        if (!clGetKernelWorkGroupInfo(p->kernel, device->id, KERNEL_SPILL_MEM_SIZE_INTEL, sizeof spilled, &spilled,
                                      NULL))
            own = spilled;
        else
            clGetKernelWorkGroupInfo(p->kernel, device->id, CL_KERNEL_PRIVATE_MEM_SIZE, sizeof own, &own, NULL);
    }
    p->usage = (struct kernel_usage){.registers = build->registers,
                                     .spilled = build->spilled ? build->spilled : (uint32_t)own,
                                     .shared = (uint32_t)shared,
                                     .subgroup = device->limits.subgroup_max > 1 ? device->limits.subgroup_max : 0};
    p->usage.waves = nvidia_waves(device->limits.nvidia_sm, p->usage.registers, p->usage.shared, (uint32_t)p->local,
                                  &p->usage.waves_most);
}

static bool step_prepare(struct backend_device *device, const struct step *step, const struct kernel_build *build,
                         const struct opencl_maps *maps, const struct firsts *own, struct prepared *p, struct error *e)
{
    cl_int code;
    size_t most = 0, required[3] = {0};
    p->kernel = clCreateKernel(build->program, build->kernel, &code);
    if (!p->kernel) return opencl_fail(e, code, "%s: clCreateKernel of %s", step->name, build->kernel);
    TRY(arguments_set(step, p->kernel, opencl_whole(device, step), maps, own, e));
    p->local = call_get(step->call, CONST_LOCAL_SIZE, 0);
    if (!p->local) return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: the call gives no LOCAL_SIZE", step->name);
    code = clGetKernelWorkGroupInfo(p->kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL);
    if (!code) {
        code = clGetKernelWorkGroupInfo(p->kernel, device->id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof required,
                                        required, NULL);
    }
    if (code) return opencl_fail(e, code, "%s: clGetKernelWorkGroupInfo of %s", step->name, build->kernel);
    usage_read(device, build, p);
    /* NVIDIA says 256 of every kernel, also of one that was compiled for more. */
    if (p->local > most && p->local != required[0]) {
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "%s: the kernel %s wants work-groups of %zu and, as this driver compiles it, may have %zu",
                    step->name, build->kernel, p->local, most);
    }
    return true;
}

/* ---- the first launch ----
 * Drivers finish a kernel when it is first launched (NVIDIA loads its module, PoCL generates its code: once for grids
 * below 65,536 work-items and once for larger ones, which take seconds each, so that larger ones are left out where no
 * run has them). So that this happens here and not in a run, every new kernel is launched on a batch of no tokens, one
 * empty sequence and no tiles, for which kernels write nothing. No tile of it: a batch has none of an empty sequence,
 * and attention_wgmma would wait for its keys for ever. */

enum { EMPTY_WORDS = HEADER_WORDS + 8, LARGE_GRID = 65536 };

/* The offset is where group_number() (cl/common.h) reads it; launches without one are as all drivers see most often. */
bool opencl_launch(cl_command_queue queue, const struct prepared *p, const char *kernel,
                   const struct launch_part *range, cl_event *event, struct error *e)
{
    const struct grid *grid = &range->grid;
    const size_t local[3] = {p->local, 1, 1}, global[3] = {grid->x * p->local, grid->y, grid->z},
                 offset[3] = {0, 0, range->first};
    cl_int code =
        clEnqueueNDRangeKernel(queue, p->kernel, 3, range->first ? offset : NULL, global, local, 0, NULL, event);
    return !code || opencl_fail_running(e, code, "clEnqueueNDRangeKernel of %s", kernel);
}

static bool wants_large(const struct backend_device *device, const struct step *step)
{
    return device->limits.quirks & QUIRK_COMPILES_TWICE && (!step->items_most || step->items_most >= LARGE_GRID);
}

static bool launch_first(struct backend_device *device, const struct step *step, const struct prepared *p,
                         struct kernel_build *b, struct opencl_maps *maps, struct error *e)
{
    const struct binding *batch = &step->bindings[0];
    if (batch->slot != SLOT_BATCH || batch->bytes < EMPTY_WORDS * 4) return true;
    uint32_t saved[EMPTY_WORDS], empty[EMPTY_WORDS] = {0};
    for (int i = HEADER_AT_OFFSETS; i <= HEADER_AT_SCORE_TILES; i++) empty[i] = HEADER_WORDS;
    empty[HEADER_AT_ORDER] = HEADER_WORDS;
    cl_command_queue queue = device->queue;
    cl_mem memory = batch->buffer->memory;
    size_t at = (size_t)(batch->buffer->at + batch->offset);
    cl_int code = clEnqueueReadBuffer(queue, memory, CL_TRUE, at, sizeof saved, saved, 0, NULL, NULL);
    if (!code) code = clEnqueueWriteBuffer(queue, memory, CL_TRUE, at, sizeof empty, empty, 0, NULL, NULL);
    if (code) return opencl_fail_running(e, code, "writing the empty batch");
    const struct launch_part small = {.grid = {1, 1, 1}},
                             large = {.grid = {(uint32_t)(LARGE_GRID / p->local + 1), 1, 1}};
    bool is_large = wants_large(device, step);
    bool ok = (!step->call->n_maps || opencl_maps_make(maps, queue, e)) &&
              (b->ready || opencl_launch(queue, p, step->kernel, &small, NULL, e)) &&
              (!is_large || opencl_launch(queue, p, step->kernel, &large, NULL, e));
    code = clFinish(queue);
    if (ok && code) ok = opencl_fail_running(e, code, "clFinish after the first launch of %s", step->kernel);
    code = clEnqueueWriteBuffer(queue, memory, CL_TRUE, at, sizeof saved, saved, 0, NULL, NULL);
    if (ok && code) ok = opencl_fail_running(e, code, "clEnqueueWriteBuffer");
    b->ready_large = b->ready_large || (ok && is_large);
    return ok;
}

static bool steps_prepare(struct backend_device *device, struct program *program, struct kernel_build **builds,
                          struct error *e)
{
    const struct schedule *s = program->schedule;
    struct firsts next = {0, 0};
    TRY(opencl_maps_create(device, s, &program->maps, e));
    for (int i = 0; i < s->n_steps; i++) {
        struct kernel_build *b = builds[i];
        const struct firsts own = next;
        next.map += (cl_uint)s->steps[i].call->n_maps;
        next.counter += s->steps[i].call->counters;
        if (!b) continue;
        TRY(step_prepare(device, &s->steps[i], b, &program->maps, &own, &program->steps[i], e));
        if (b->ready && (b->ready_large || !wants_large(device, &s->steps[i]))) continue;
        if (device->host->compile_only) continue; /* a device that does not execute may fail launches */
        int before = part_enter(device->host, PART_LAUNCH);
        bool launched = launch_first(device, &s->steps[i], &program->steps[i], b, &program->maps, e);
        part_leave(device->host, before);
        if (!launched) return false;
        b->ready = true;
        opencl_build_store(device, b); /* after the launch: what a driver generated by then goes in too */
    }
    return true;
}

static bool program_fill(struct backend_device *device, struct program *program, bool *wanted,
                         struct kernel_build **builds, wherry_progress progress, void *user, struct program_info *info,
                         struct error *e)
{
    const struct schedule *s = program->schedule;
    uint32_t clblast_compiled = 0, clblast_steps = 0;
    for (int i = 0; i < s->n_steps; i++) {
        struct prepared *p = &program->steps[i];
        uint32_t compiled = 0;
        TRY(bindings_check(&s->steps[i], e));
        wanted[i] = !opencl_gemm_prepare(device, &s->steps[i], s->library, &p->gemm, &p->note, &compiled);
        clblast_compiled += compiled;
        clblast_steps += !wanted[i];
    }
    TRY(opencl_builds_create(device, s, wanted, builds, progress, user, &info->kernels, &info->compiled, e));
    info->kernels += clblast_steps > 0;
    info->compiled += clblast_compiled;
    return steps_prepare(device, program, builds, e);
}

bool opencl_slot_make(struct backend_device *device, struct program *program, struct slot *slot, struct error *e)
{
    if (slot->made) return true;
    slot->made = opencl_staging_create(device, program->schedule, &slot->staging, e);
    if (!slot->made) opencl_staging_destroy(device, &slot->staging);
    return slot->made;
}

struct program *opencl_program_create(struct backend_device *device, const struct schedule *schedule,
                                      wherry_progress progress, void *user, struct program_info *info, struct error *e)
{
    const struct host *host = device->host;
    size_t n = (size_t)schedule->n_steps;
    struct program *program = host_alloc(host, 1, sizeof *program, e);
    if (!program) return NULL;
    program->schedule = schedule;
    *info = (struct program_info){0};
    program->steps = host_alloc(host, n, sizeof *program->steps, e);
    if (program->steps) program->events = host_alloc(host, 2 * n, sizeof *program->events, e);
    if (program->events) program->begins = program->events + n;
    bool *wanted = program->events ? host_alloc(host, n, sizeof *wanted, e) : NULL;
    struct kernel_build **builds = wanted ? host_alloc(host, n, sizeof *builds, e) : NULL;
    mutex_enter(&device->building);
    bool ok = builds && program_fill(device, program, wanted, builds, progress, user, info, e);
    mutex_leave(&device->building);
    ok = ok && opencl_slot_make(device, program, &program->slots[0], e);
    info->host_bytes = program->slots[0].staging.bytes;
    host_free(host, builds);
    host_free(host, wanted);
    if (ok) return program;
    opencl_program_destroy(device, program);
    return NULL;
}

void opencl_program_destroy(struct backend_device *device, struct program *program)
{
    if (!program) return;
    for (int i = 0; program->steps && i < program->schedule->n_steps; i++) {
        if (program->steps[i].kernel) clReleaseKernel(program->steps[i].kernel);
    }
    opencl_maps_destroy(&program->maps);
    for (int i = 0; i < RUN_SLOTS_MOST; i++) {
        if (program->slots[i].done) clReleaseEvent(program->slots[i].done);
        opencl_staging_destroy(device, &program->slots[i].staging);
        opencl_crossing_destroy(&program->slots[i].crossing);
    }
    host_free(device->host, program->steps);
    host_free(device->host, program->events);
    host_free(device->host, program);
}

const char *opencl_program_note(const struct program *program, int step) { return program->steps[step].note; }

void opencl_program_usage(struct backend_device *device, const struct program *program, int step,
                          struct kernel_usage *out)
{
    (void)device;
    *out = program->steps[step].usage;
}
