/* Runs configurations of a kernel or contraction on a device: compiled together, each checked and timed. */
#include "measure/layout_bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/index.h"
#include "base/number.h"
#include "measure/statistics.h"
#include "runtime/context.h"

enum {
    AT_ONCE = 64, /* configurations of one program */
    STEPS = 5,    /* of a configuration: SPOIL, FIRST, GATHER, LEAD, TIMED */
    LIVES = 32,   /* programs, after which the device is opened again: backends keep what they compiled */
    REPEATS = 5,
    CHUNK = 1 << 20,   /* elements of an input that are made at a time */
    ALIGNMENT = 64,    /* elements */
    SAMPLES_LOCAL = 64 /* work-items that gather */
};
enum { SPOIL, FIRST, GATHER, LEAD, TIMED };

/* A configuration stops being measured after so long. */
static const double enough_seconds = 0.05;

/* One configuration of the running program. */
struct trial {
    struct layout_config config;
    struct call call;
    struct grid grid;
    uint32_t coordinates[LAYOUT_SAMPLES][LAYOUT_LETTERS];
    uint32_t positions[LAYOUT_SLOT_WORDS];
    float found[LAYOUT_SLOT_WORDS];
    size_t result; /* whose results it writes */
    double samples[64];
    uint32_t n, wanted;
};

struct wherry_layout_bench {
    struct wherry_context *context;
    const struct backend *backend;
    size_t index;
    struct host host; /* the context's, without a folder for compiled kernels */
    struct backend_device *handle;
    wherry_device_info info;
    const struct device_limits *limits;
    struct layout_work work;
    bool f16;
    uint32_t repeats, n_samples, programs;
    uint64_t input_at[LAYOUT_TENSORS], output_at[LAYOUT_TENSORS]; /* elements */
    uint64_t input_elements, output_elements;
    struct buffer *header, *inputs, *outputs, *positions, *found;
    struct call spoil, gather;
    struct trial *trials; /* [AT_ONCE] */
    struct step *steps;   /* [AT_ONCE * STEPS] */
    struct grid *grids;
    double *seconds;
};

/* ---- memory ---- */

static uint64_t rounded(uint64_t elements) { return (elements + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void place(struct wherry_layout_bench *b)
{
    const struct layout_work *w = &b->work;
    for (int n = 0; n < w->n_inputs; n++) {
        b->input_at[n] = b->input_elements;
        b->input_elements += rounded(layout_tensor_elements(w, &w->inputs[n]));
    }
    for (int n = 0; n < w->n_outputs; n++) {
        b->output_at[n] = b->output_elements;
        b->output_elements += rounded(layout_tensor_elements(w, &w->outputs[n]));
    }
    b->n_samples = (uint32_t)w->n_outputs * LAYOUT_SAMPLES;
}

static uint64_t element_bytes(const struct wherry_layout_bench *b) { return b->f16 ? 2 : 4; }

static bool memory_fits(const struct wherry_layout_bench *b, struct error *e)
{
    const uint64_t most = b->input_elements > b->output_elements ? b->input_elements : b->output_elements;
    const uint64_t bytes = most * element_bytes(b);
    const uint64_t room = b->limits->max_buffer_bytes < b->limits->max_binding_bytes ? b->limits->max_buffer_bytes
                                                                                     : b->limits->max_binding_bytes;
    if (bytes <= room && most <= UINT32_MAX) return true;
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "%s: the tensors of %s take %llu bytes, and one argument may have %llu here: give a smaller --batch or "
                "--seq",
                b->info.id, b->work.name, (unsigned long long)bytes, (unsigned long long)room);
}

/* Element after element as it lies there, whatever the orders: what changes with them is which element it is. */
static bool input_fill(struct wherry_layout_bench *b, int n, unsigned char *chunk, struct error *e)
{
    const struct layout_tensor *t = &b->work.inputs[n];
    const uint64_t count = rounded(layout_tensor_elements(&b->work, t)), size = element_bytes(b);
    for (uint64_t at = 0; at < count; at += CHUNK) {
        uint64_t some = count - at < CHUNK ? count - at : CHUNK;
        for (uint64_t i = 0; i < some; i++) {
            float value = (float)layout_made(t->values, n, at + i);
            uint16_t half = half_from_float(value);
            if (b->f16)
                memcpy(chunk + 2 * i, &half, sizeof half);
            else
                memcpy(chunk + 4 * i, &value, sizeof value);
        }
        TRY(b->backend->buffer_write(b->handle, b->inputs, (b->input_at[n] + at) * size, chunk, some * size, e));
    }
    return true;
}

static bool memory_make(struct wherry_layout_bench *b, struct error *e)
{
    uint32_t header[LAYOUT_WORDS] = {[LAYOUT_LIVE] = 1, [LAYOUT_COUNT] = b->n_samples};
    const struct backend *backend = b->backend;
    for (int n = 0; n < b->work.n_inputs; n++) header[LAYOUT_INPUTS + n] = (uint32_t)b->input_at[n];
    for (int n = 0; n < b->work.n_outputs; n++) header[LAYOUT_OUTPUTS + n] = (uint32_t)b->output_at[n];
    TRY((b->header = backend->buffer_create(b->handle, sizeof header, e)) != NULL);
    TRY((b->inputs = backend->buffer_create(b->handle, b->input_elements * element_bytes(b), e)) != NULL);
    TRY((b->outputs = backend->buffer_create(b->handle, b->output_elements * element_bytes(b), e)) != NULL);
    TRY((b->positions = backend->buffer_create(b->handle, AT_ONCE * LAYOUT_SLOT_WORDS * 4, e)) != NULL);
    TRY((b->found = backend->buffer_create(b->handle, AT_ONCE * LAYOUT_SLOT_WORDS * 4, e)) != NULL);
    TRY(backend->buffer_write(b->handle, b->header, 0, header, sizeof header, e));
    unsigned char *chunk = host_alloc_unset(&b->host, CHUNK, 4, e);
    bool ok = chunk != NULL;
    for (int n = 0; ok && n < b->work.n_inputs; n++) ok = input_fill(b, n, chunk, e);
    host_free(&b->host, chunk);
    return ok;
}

static void device_leave(struct wherry_layout_bench *b)
{
    struct buffer **buffers[] = {&b->header, &b->inputs, &b->outputs, &b->positions, &b->found};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        if (*buffers[i]) b->backend->buffer_destroy(b->handle, *buffers[i]);
        *buffers[i] = NULL;
    }
    if (b->handle) b->backend->close(b->handle);
    b->handle = NULL;
}

static bool device_enter(struct wherry_layout_bench *b, struct error *e)
{
    b->programs = 0;
    if (!(b->handle = b->backend->open(&b->host, b->index, NULL, &b->info, e))) return false;
    b->limits = b->backend->limits(b->handle);
    return memory_fits(b, e) && memory_make(b, e);
}

/* ---- trials ---- */

/* Elements all over the outputs, the first and the last among them; others for each configuration. */
static void samples_choose(const struct wherry_layout_bench *b, uint64_t index, struct trial *t)
{
    const struct layout_work *w = &b->work;
    uint64_t random = hash_bytes(HASH_START, &index, sizeof index);
    for (uint32_t s = 0; s < LAYOUT_SAMPLES; s++)
        for (int l = 0; l < LAYOUT_LETTERS; l++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            t->coordinates[s][l] = !s ? 0 : s == 1 ? w->sizes[l] - 1 : (uint32_t)((random >> 33) % w->sizes[l]);
        }
    for (int n = 0; n < w->n_outputs; n++)
        for (uint32_t s = 0; s < LAYOUT_SAMPLES; s++)
            t->positions[(uint32_t)n * LAYOUT_SAMPLES + s] =
                (uint32_t)(b->output_at[n] + layout_position(w, &t->config, &w->outputs[n], t->coordinates[s]));
}

static struct binding bound(uint8_t slot, bool written, struct buffer *buffer, uint64_t offset, uint64_t bytes,
                            bool words)
{
    return (struct binding){
        .slot = slot, .written = written, .buffer = buffer, .offset = offset, .bytes = bytes, .words = words};
}

static void samples_step(const struct wherry_layout_bench *b, size_t n, bool gather, struct step *step)
{
    const uint64_t slot = LAYOUT_SLOT_WORDS * 4, outputs = b->output_elements * element_bytes(b);
    struct binding *to = step->bindings;
    *step = (struct step){.name = "samples", .kernel = "layout_samples", .launch = LAUNCH_ELEMENTS, .f16 = b->f16};
    step->call = gather ? &b->gather : &b->spoil;
    step->items_most = LAYOUT_SLOT_WORDS;
    *to++ = bound(SLOT_BATCH, false, b->header, 0, LAYOUT_WORDS * 4, true);
    if (gather) *to++ = bound(SLOT_X, false, b->outputs, 0, outputs, false);
    *to++ = bound(SLOT_IDS, false, b->positions, n * slot, slot, true);
    *to++ = gather ? bound(SLOT_Y, true, b->found, n * slot, slot, true)
                   : bound(SLOT_Y, true, b->outputs, 0, outputs, false);
    step->n_bindings = (int)(to - step->bindings);
}

static void work_step(const struct wherry_layout_bench *b, const struct trial *t, struct step *step)
{
    const uint64_t size = element_bytes(b);
    *step = (struct step){.name = b->work.name, .kernel = t->call.kernel, .launch = LAUNCH_ELEMENTS, .f16 = b->f16};
    step->call = &t->call;
    step->items_most = (uint64_t)t->grid.x * t->grid.y * call_get(&t->call, CONST_LOCAL_SIZE, 1);
    /* Slow ones take a hundred times what their bytes would: a submission of its own keeps watchdogs quiet. */
    step->flops = 4000 * (double)((b->input_elements + b->output_elements) * size);
    step->bindings[0] = bound(SLOT_BATCH, false, b->header, 0, LAYOUT_WORDS * 4, true);
    step->bindings[1] = bound(SLOT_X, false, b->inputs, 0, b->input_elements * size, false);
    step->bindings[2] = bound(SLOT_Y, true, b->outputs, 0, b->output_elements * size, false);
    step->n_bindings = 3;
}

static bool trial_make(struct wherry_layout_bench *b, size_t n, uint64_t index, size_t result, struct error *e)
{
    struct trial *t = &b->trials[n];
    char reason[256] = "";
    layout_config_at(&b->work, index, &t->config);
    t->result = result;
    t->n = 0;
    uint32_t groups = layout_call_make(&b->work, &t->config, b->f16, &t->call);
    t->grid = (struct grid){groups < GRID_WIDTH ? groups : GRID_WIDTH, (groups + GRID_WIDTH - 1) / GRID_WIDTH, 1};
    samples_choose(b, index, t);
    if (!b->backend->supports(b->handle, &t->call, b->f16, reason, sizeof reason))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s can't run the kernel \"%s\": %s", b->info.id, t->call.kernel,
                    reason);
    for (int s = 0; s < STEPS; s++) {
        struct step *step = &b->steps[n * STEPS + (size_t)s];
        if (s == SPOIL || s == GATHER)
            samples_step(b, n, s == GATHER, step);
        else
            work_step(b, t, step);
    }
    return b->backend->buffer_write(b->handle, b->positions, n * LAYOUT_SLOT_WORDS * 4, t->positions,
                                    sizeof t->positions, e);
}

/* ---- checking ---- */

/* Against the largest of the output's samples: sums of many values of either sign may be next to nothing. */
static void trial_check(const struct wherry_layout_bench *b, const struct trial *t, wherry_layout_result *out)
{
    const struct layout_work *w = &b->work;
    double wanted[LAYOUT_SAMPLES][LAYOUT_TENSORS] = {{0}}, tolerance = b->f16 ? 2e-3 : 1e-4;
    for (uint32_t s = 0; s < LAYOUT_SAMPLES; s++)
        layout_reference(w, &t->config, b->f16 ? 8 : 4, t->coordinates[s], wanted[s]);
    for (int n = 0; n < w->n_outputs; n++) {
        double most = 1e-6;
        for (uint32_t s = 0; s < LAYOUT_SAMPLES; s++) most = fmax(most, fabs(wanted[s][n]));
        for (uint32_t s = 0; s < LAYOUT_SAMPLES; s++) {
            double found = (double)t->found[(uint32_t)n * LAYOUT_SAMPLES + s];
            if (fabs(found - wanted[s][n]) <= tolerance * most) continue;
            out->verdict = WHERRY_LAYOUT_WRONG;
            snprintf(out->text, sizeof out->text, "output %d, sample %u: %s instead of %s", n, (unsigned)s,
                     NUMBER("%.6g", found), NUMBER("%.6g", wanted[s][n]));
            return;
        }
    }
}

/* ---- running ---- */

static bool run_once(struct wherry_layout_bench *b, struct program *program, size_t n, bool check, struct error *e)
{
    const struct grid samples = {(b->n_samples + SAMPLES_LOCAL - 1) / SAMPLES_LOCAL, 1, 1};
    const struct run run = {.grids = b->grids, .step_seconds = b->seconds};
    for (size_t i = 0; i < n; i++) {
        const struct trial *t = &b->trials[i];
        struct grid *grids = b->grids + i * STEPS;
        memset(grids, 0, STEPS * sizeof *grids);
        if (check) {
            grids[SPOIL] = grids[GATHER] = samples;
            grids[FIRST] = t->grid;
        } else if (t->n < t->wanted) {
            grids[LEAD] = grids[TIMED] = t->grid;
        }
    }
    return b->backend->program_run(b->handle, program, &run, e);
}

/* Every configuration once, with its results looked at; then in rounds, each right after itself. */
static bool trials_run(struct wherry_layout_bench *b, struct program *program, size_t n, wherry_layout_result *results,
                       struct error *e)
{
    bool more = true;
    TRY(run_once(b, program, n, true, e));
    for (size_t i = 0; i < n; i++) {
        struct trial *t = &b->trials[i];
        wherry_layout_result *out = &results[t->result];
        double first = b->seconds[i * STEPS + FIRST];
        TRY(b->backend->buffer_read(b->handle, b->found, i * LAYOUT_SLOT_WORDS * 4, t->found, sizeof t->found, e));
        *out = (wherry_layout_result){.time = {.first = first}};
        trial_check(b, t, out);
        double wanted = first > 0 ? ceil(enough_seconds / first) : b->repeats;
        t->wanted = out->verdict ? 0 : wanted < b->repeats ? (uint32_t)wanted : b->repeats;
    }
    while (more) {
        more = false;
        for (size_t i = 0; i < n; i++) more = more || b->trials[i].n < b->trials[i].wanted;
        if (!more) break;
        TRY(run_once(b, program, n, false, e));
        for (size_t i = 0; i < n; i++) {
            struct trial *t = &b->trials[i];
            double seconds = b->seconds[i * STEPS + TIMED];
            if (t->n < t->wanted) t->samples[t->n++] = seconds > 0 ? seconds : b->limits->timer_seconds;
        }
    }
    for (size_t i = 0; i < n; i++) {
        struct trial *t = &b->trials[i];
        wherry_layout_result *out = &results[t->result];
        if (t->n) out->time = time_summary(t->samples, t->n, out->time.first);
    }
    return true;
}

static bool batch_measure(struct wherry_layout_bench *b, size_t n, wherry_progress progress, void *user,
                          wherry_layout_result *results, struct error *e)
{
    struct program_info info;
    struct schedule schedule = {.steps = b->steps, .n_steps = (int)(n * STEPS), .ordered = true};
    schedule.library = LIBRARY_REFUSED;
    struct program *program = b->backend->program_create(b->handle, &schedule, progress, user, &info, e);
    bool ok = program && trials_run(b, program, n, results, e);
    b->backend->program_destroy(b->handle, program);
    b->programs++;
    return ok;
}

static bool measure(struct wherry_layout_bench *b, const uint64_t *configurations, size_t count,
                    wherry_progress progress, void *user, wherry_layout_result *results, struct error *e)
{
    for (size_t at = 0; at < count;) {
        size_t n = 0;
        if (b->programs >= LIVES) {
            device_leave(b);
            TRY(device_enter(b, e));
        }
        for (; at < count && n < AT_ONCE; at++) {
            struct layout_config config;
            if (configurations[at] >= b->work.configurations)
                return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s has no configuration %llu, only %llu", b->work.name,
                            (unsigned long long)configurations[at], (unsigned long long)b->work.configurations);
            layout_config_at(&b->work, configurations[at], &config);
            if (layout_config_fits(&b->work, &config, b->f16 ? 8 : 4)) {
                TRY(trial_make(b, n++, configurations[at], at, e));
            } else {
                results[at] = (wherry_layout_result){.verdict = WHERRY_LAYOUT_REFUSED};
                snprintf(results[at].text, sizeof results[at].text, "vectors do not divide the letter %c",
                         b->work.letters[config.vector]);
            }
        }
        if (n) TRY(batch_measure(b, n, progress, user, results, e));
    }
    return true;
}

/* ---- the calls ---- */

static bool check_device(const struct wherry_device *device, struct error *e)
{
    if (device->external)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "layouts are measured on a device opened by its id");
    if (!device->kernels_hash || !device->backend->limits(device->handle)->timer)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "%s has no kernels for measuring layouts, or no timer for them: give a device of OpenCL or Vulkan",
                    device->info.id);
    return true;
}

static bool bench_open(struct wherry_layout_bench *b, const struct wherry_device *device,
                       const wherry_layout_bench_desc *desc, struct error *e)
{
    const struct device_limits *limits = device->backend->limits(device->handle);
    b->host = device->context->host;
    b->host.cache_dir[0] = 0;
    b->backend = device->backend;
    b->index = device->index;
    b->f16 = desc->dtype ? desc->dtype == WHERRY_DTYPE_F16 : limits->f16;
    b->repeats = desc->repeats ? desc->repeats : REPEATS;
    if (b->f16 && !limits->f16) return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s does not store f16", device->info.id);
    TRY(check_device(device, e));
    TRY(layout_work_open(&b->host, desc->name, desc->letters, desc->sizes, desc->any_orders, &b->work, e));
    place(b);
    b->spoil = b->gather = (struct call){.kernel = "layout_samples", .launch = LAUNCH_ELEMENTS};
    call_set(&b->spoil, CONST_LOCAL_SIZE, SAMPLES_LOCAL);
    call_set(&b->spoil, CONST_FORM, LAYOUT_SPOIL);
    call_set(&b->gather, CONST_LOCAL_SIZE, SAMPLES_LOCAL);
    call_set(&b->gather, CONST_FORM, LAYOUT_GATHER);
    b->trials = host_alloc(&b->host, AT_ONCE, sizeof *b->trials, e);
    b->steps = b->trials ? host_alloc(&b->host, AT_ONCE * STEPS, sizeof *b->steps, e) : NULL;
    b->grids = b->steps ? host_alloc(&b->host, AT_ONCE * STEPS, sizeof *b->grids, e) : NULL;
    b->seconds = b->grids ? host_alloc(&b->host, AT_ONCE * STEPS, sizeof *b->seconds, e) : NULL;
    return b->seconds && device_enter(b, e);
}

wherry_status wherry_layout_bench_create(wherry_device *device, const wherry_layout_bench_desc *desc,
                                         wherry_layout_bench **out)
{
    if (!device) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = device->context;
    struct error *e = context_error(context);
    if (!out || !desc || desc->struct_size != sizeof *desc || !desc->name || !desc->letters || !desc->sizes)
        return context_invalid(context, "wherry_layout_bench_create: out or desc is NULL, or has another size or no "
                                        "name, letters and sizes");
    if ((desc->dtype && desc->dtype != WHERRY_DTYPE_F32 && desc->dtype != WHERRY_DTYPE_F16) || desc->repeats > 64)
        return context_invalid(context,
                               "wherry_layout_bench_create: dtype is neither f32 nor f16, or repeats above 64");
    struct wherry_layout_bench *b = host_alloc(&context->host, 1, sizeof *b, e);
    if (!b) return context_status(context, false);
    b->context = context;
    bool ok = bench_open(b, device, desc, e);
    if (ok)
        *out = b;
    else
        wherry_layout_bench_destroy(b);
    return context_status(context, ok);
}

void wherry_layout_bench_destroy(wherry_layout_bench *bench)
{
    if (!bench) return;
    const struct host *host = &bench->context->host;
    device_leave(bench);
    layout_work_close(host, &bench->work);
    host_free(host, bench->trials);
    host_free(host, bench->steps);
    host_free(host, bench->grids);
    host_free(host, bench->seconds);
    host_free(host, bench);
}

uint64_t wherry_layout_bench_configurations(const wherry_layout_bench *bench) { return bench->work.configurations; }

uint64_t wherry_layout_bench_default(const wherry_layout_bench *bench) { return bench->work.usual; }

void wherry_layout_bench_text(const wherry_layout_bench *bench, uint64_t configuration, char *text, size_t size)
{
    struct layout_config config;
    if (!size) return;
    text[0] = 0;
    if (configuration >= bench->work.configurations) return;
    layout_config_at(&bench->work, configuration, &config);
    layout_config_text(&bench->work, &config, text, size);
}

size_t wherry_layout_bench_neighbours(const wherry_layout_bench *bench, uint64_t configuration, uint64_t *out,
                                      size_t room)
{
    return configuration < bench->work.configurations ? layout_neighbours(&bench->work, configuration, out, room) : 0;
}

wherry_status wherry_layout_bench_measure(wherry_layout_bench *bench, const uint64_t *configurations, size_t count,
                                          wherry_progress progress, void *user, wherry_layout_result *results)
{
    struct wherry_context *context = bench->context;
    return context_status(context,
                          measure(bench, configurations, count, progress, user, results, context_error(context)));
}
