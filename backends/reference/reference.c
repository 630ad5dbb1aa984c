/* The reference as a backend: every group by its operators' definitions in double. What runs where no driver is, and
 * what tests can always run. */
#include <stdio.h>
#include <string.h>

#include "alone.h"
#include "base/platform.h"
#include "graph/values.h"
#include "interface/interface.h"
#include "plan/variants.h"

struct buffer {
    uint64_t bytes;
    unsigned char *data;
};

struct backend_device {
    const struct host *host;
    struct device_limits limits;
    _Atomic uint64_t allocated;
};

struct program {
    const struct schedule *schedule;
    struct values values;
};

static void reference_describe(wherry_device_info *info)
{
    *info = (wherry_device_info){.type = WHERRY_DEVICE_CPU, .usable = true};
    snprintf(info->id, sizeof info->id, "reference");
    snprintf(info->name, sizeof info->name, "reference (double precision, host processor)");
    snprintf(info->driver, sizeof info->driver, "wherry %d.%d.%d", WHERRY_VERSION_MAJOR, WHERRY_VERSION_MINOR,
             WHERRY_VERSION_PATCH);
    snprintf(info->api, sizeof info->api, "C");
}

static bool reference_enumerate(const struct host *host, wherry_device_info **list, size_t *count, struct error *e)
{
    void *grown = host_grow(host, *list, *count, *count + 1, sizeof **list, e);
    if (!grown) return false;
    *list = grown;
    reference_describe(&(*list)[(*count)++]);
    return true;
}

static struct backend_device *reference_open(const struct host *host, size_t index, const void *external,
                                             wherry_device_info *info, struct error *e)
{
    (void)external;
    if (index) {
        fail(e, WHERRY_STATUS_NO_DEVICE, "there is one device \"reference\"");
        return NULL;
    }
    reference_describe(info);
    struct backend_device *device = host_alloc(host, 1, sizeof *device, e);
    if (!device) return NULL;
    device->host = host;
    device->limits = (struct device_limits){.class = CLASS_CPU,
                                            .f16 = true,
                                            .cpu = true,
                                            .subgroup_min = 1,
                                            .subgroup_max = 1,
                                            .shared_bytes = 1 << 20,
                                            .max_local_size = 1024,
                                            .rungs = RUNG_BIT(RUNG_TILED),
                                            .max_buffer_bytes = UINT64_MAX / 4,
                                            .max_binding_bytes = UINT64_MAX / 4};
    return device;
}

static void reference_close(struct backend_device *device)
{
    if (device) host_free(device->host, device);
}

static const struct device_limits *reference_limits(const struct backend_device *device) { return &device->limits; }

static struct buffer *reference_buffer_create(struct backend_device *device, uint64_t bytes, struct error *e)
{
    struct buffer *buffer = host_alloc(device->host, 1, sizeof *buffer, e);
    if (!buffer) return NULL;
    if (!(buffer->data = host_alloc(device->host, (size_t)bytes, 1, e))) {
        host_free(device->host, buffer);
        return NULL;
    }
    buffer->bytes = bytes;
    device->allocated += bytes;
    return buffer;
}

static void reference_buffer_destroy(struct backend_device *device, struct buffer *buffer)
{
    if (!buffer) return;
    device->allocated -= buffer->bytes;
    host_free(device->host, buffer->data);
    host_free(device->host, buffer);
}

static bool inside(const struct buffer *buffer, uint64_t offset, uint64_t bytes, struct error *e)
{
    if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return true;
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "bytes %llu to %llu of a buffer of %llu", (unsigned long long)offset,
                (unsigned long long)(offset + bytes), (unsigned long long)buffer->bytes);
}

static bool reference_buffer_write(struct backend_device *device, struct buffer *buffer, uint64_t offset,
                                   const void *data, uint64_t bytes, struct error *e)
{
    (void)device;
    TRY(inside(buffer, offset, bytes, e));
    memcpy(buffer->data + offset, data, (size_t)bytes);
    return true;
}

static bool reference_buffer_read(struct backend_device *device, struct buffer *buffer, uint64_t offset, void *data,
                                  uint64_t bytes, struct error *e)
{
    (void)device;
    TRY(inside(buffer, offset, bytes, e));
    memcpy(data, buffer->data + offset, (size_t)bytes);
    return true;
}

static uint64_t reference_allocated(const struct backend_device *device) { return device->allocated; }

static bool reference_supports(struct backend_device *device, const struct call *call, enum storage type, char *reason,
                               size_t reason_size)
{
    (void)device, (void)call, (void)type, (void)reason, (void)reason_size;
    return true;
}

static void reference_program_destroy(struct backend_device *device, struct program *program)
{
    if (!program) return;
    if (program->schedule->graph) values_destroy(program->schedule->graph, &program->values);
    host_free(device->host, program);
}

static struct program *reference_program_create(struct backend_device *device, const struct schedule *schedule,
                                                wherry_progress progress, void *user, struct program_info *info,
                                                struct error *e)
{
    (void)progress, (void)user;
    memset(info, 0, sizeof *info);
    struct program *program = host_alloc(device->host, 1, sizeof *program, e);
    if (!program) return NULL;
    program->schedule = schedule;
    for (int i = 0; !schedule->graph && i < schedule->n_steps; i++)
        if (!alone_find(schedule->steps[i].kernel)) {
            fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: the reference has no definition of the kernel %s",
                 schedule->steps[i].name, schedule->steps[i].kernel);
            host_free(device->host, program);
            return NULL;
        }
    if (!schedule->graph || values_create(schedule->graph, &program->values, e)) return program;
    reference_program_destroy(device, program);
    return NULL;
}

/* The steps of one group, which are run as one. */
struct step_tensors {
    const struct step *steps;
    int n_steps;
    const struct graph *graph;
};

/* Bytes of a tensor that one of the steps' arguments is, or is a slice of. */
static void *argument_bytes(const struct step_tensors *s, int tensor)
{
    for (int i = 0; i < s->n_steps; i++)
        for (int a = 0; a < s->steps[i].call->n_arguments; a++) {
            int argument = s->steps[i].call->arguments[a].tensor;
            if (argument < 0 || tensor_owner(s->graph, argument) != tensor) continue;
            const struct binding *b = &s->steps[i].bindings[a + 1]; /* binding 0 is the batch */
            size_t element = tensor_element_bytes(s->graph, argument, s->steps[i].f16 ? 2 : 4);
            size_t before = s->graph->tensors[argument].strip ? tensor_row_offset(s->graph, argument) * element : 0;
            return b->buffer->data + b->offset - before;
        }
    return NULL;
}

static const void *tensor_bytes_of(int tensor, void *user) { return argument_bytes(user, tensor); }

/* Rows of a slice go to their places among the others'. */
static void output_store(const struct graph *g, const struct batch_shape *batch, int tensor, enum storage type,
                         const double *values, unsigned char *bytes)
{
    if (g->tensors[tensor].parent < 0) {
        tensor_store(g, batch, tensor, type, values, bytes);
        return;
    }
    size_t length = tensor_slice_length(g, tensor), stride = tensor_slice_stride(g, tensor),
           offset = tensor_row_offset(g, tensor), n = (size_t)tensor_elements(g, batch, tensor),
           element = tensor_element_bytes(g, tensor, type ? 2 : 4);
    for (size_t r = 0; length && r < n / length; r++)
        storage_from_doubles(values + r * stride + offset, element == 2 ? type : STORAGE_F32, length,
                             bytes + (r * stride + offset) * element);
}

static bool group_run(struct program *program, const struct step *steps, int n_steps, const struct run *run,
                      struct error *e)
{
    const struct graph *g = program->schedule->graph;
    const struct group *group = &program->schedule->groups[steps->group];
    const struct binding *header = &steps->bindings[0];
    uint32_t words[HEADER_WORDS];
    memcpy(words, header->buffer->data + header->offset, sizeof words);
    program->values.seed = words[HEADER_SEED] | (uint64_t)words[HEADER_SEED + 1] << 32;
    program->values.step = words[HEADER_STEP];
    struct step_tensors tensors = {steps, n_steps, g};
    TRY(values_load(g, group, run->batch, step_type(steps), tensor_bytes_of, &tensors, &program->values, e));
    TRY(group_reference(g, group, run->batch, &program->values, e));
    for (int w = 0; w < group->n_writes; w++) {
        int t = group->writes[w], owner = tensor_owner(g, t);
        output_store(g, run->batch, t, step_type(steps), program->values.of[owner], argument_bytes(&tensors, owner));
    }
    values_clear(g, &program->values);
    return true;
}

/* Of a schedule without a graph. */
static void step_run_alone(const struct step *step)
{
    struct alone_step s = {.step = step};
    for (int i = 0; i < step->n_bindings; i++)
        s.at[step->bindings[i].slot] = step->bindings[i].buffer->data + step->bindings[i].offset;
    alone_find(step->kernel)(&s);
}

static bool reference_program_run(struct backend_device *device, struct program *program, const struct run *run,
                                  struct error *e)
{
    for (int i = 0; i < run->n_uploads; i++)
        TRY(reference_buffer_write(device, run->uploads[i].buffer, run->uploads[i].offset, run->uploads[i].host,
                                   run->uploads[i].bytes, e));
    int end = run->end ? run->end : program->schedule->n_steps;
    for (int i = run->first; i < end; i++) {
        const struct step *steps = &program->schedule->steps[i];
        uint64_t start = clock_ns();
        int n = 1;
        while (program->schedule->graph && i + n < end && steps[n].group == steps->group) n++;
        if (program->schedule->graph)
            TRY(group_run(program, steps, n, run, e));
        else
            step_run_alone(steps);
        for (int k = 0; run->step_seconds && k < n; k++) run->step_seconds[i + k] = 0;
        if (run->step_seconds) run->step_seconds[i] = (double)(clock_ns() - start) * 1e-9;
        i += n - 1;
    }
    for (int i = 0; i < run->n_downloads; i++)
        TRY(reference_buffer_read(device, run->downloads[i].buffer, run->downloads[i].offset, run->downloads[i].host,
                                  run->downloads[i].bytes, e));
    return true;
}

static bool reference_program_submit(struct backend_device *device, struct program *program, const struct run *run,
                                     int slot, struct error *e)
{
    (void)slot;
    return reference_program_run(device, program, run, e);
}

static bool reference_program_wait(struct backend_device *device, struct program *program, int slot,
                                   uint64_t timeout_ns, bool *done, struct error *e)
{
    (void)device, (void)program, (void)slot, (void)timeout_ns, (void)e;
    *done = true;
    return true;
}

static const char *reference_program_note(const struct program *program, int step)
{
    (void)program, (void)step;
    return NULL;
}

static void reference_program_usage(struct backend_device *device, const struct program *program, int step,
                                    struct kernel_usage *out)
{
    (void)device, (void)program, (void)step;
    *out = (struct kernel_usage){0};
}

/* It has no kernels: what it moves is not what anybody counts. */
static bool reference_program_traffic(const struct backend_device *device, const struct program *program, int step,
                                      struct count *count)
{
    (void)device, (void)program, (void)step, (void)count;
    return false;
}

static uint64_t reference_kernels(const struct backend_device *device)
{
    (void)device;
    return 0;
}

const struct backend backend_reference = {
    .name = "reference",
    .enumerate = reference_enumerate,
    .open = reference_open,
    .close = reference_close,
    .limits = reference_limits,
    .kernels = reference_kernels,
    .buffer_create = reference_buffer_create,
    .buffer_destroy = reference_buffer_destroy,
    .buffer_write = reference_buffer_write,
    .buffer_read = reference_buffer_read,
    .allocated = reference_allocated,
    .supports = reference_supports,
    .program_create = reference_program_create,
    .program_destroy = reference_program_destroy,
    .program_submit = reference_program_submit,
    .program_wait = reference_program_wait,
    .submit_runs = true,
    .program_run = reference_program_run,
    .program_note = reference_program_note,
    .program_usage = reference_program_usage,
    .program_traffic = reference_program_traffic,
};
