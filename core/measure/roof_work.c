/* A bench with memory, and works on it: making, running and timing one kernel at one size. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/platform.h"
#include "measure/roof.h"
#include "measure/statistics.h"

/* ---- the bench ---- */

enum { GRAIN = 1 << 18, SMALLEST = 1 << 24 };

static uint64_t choose_bytes(const struct bench *b)
{
    const struct device_limits *limits = b->limits;
    uint64_t bytes = b->desc->dram_bytes ? b->desc->dram_bytes : limits->cpu ? 1 << 26 : 1 << 30;
    const uint64_t most[] = {limits->max_buffer_bytes, limits->max_binding_bytes, (uint64_t)1 << 33,
                             limits->memory_bytes ? limits->memory_bytes / 5 : UINT64_MAX};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) bytes = bytes < most[i] ? bytes : most[i];
    return bytes < GRAIN ? GRAIN : bytes / GRAIN * GRAIN;
}

static void buffers_destroy(struct bench *b)
{
    for (int i = 0; i < BENCH_BUFFERS; i++) {
        b->backend->buffer_destroy(b->handle, b->buffers[i]);
        b->buffers[i] = NULL;
    }
}

static bool buffers_create(struct bench *b, struct error *e)
{
    for (int i = 0; i < BENCH_BUFFERS; i++)
        TRY((b->buffers[i] = b->backend->buffer_create(b->handle, b->bytes, e)) != NULL);
    return true;
}

bool bench_open(struct bench *b, struct wherry_device *device, const wherry_roof_desc *desc, struct error *e)
{
    *b = (struct bench){.device = device,
                        .backend = device->backend,
                        .handle = device->handle,
                        .limits = device->backend->limits(device->handle),
                        .host = &device->context->host,
                        .desc = desc,
                        .mask = desc->zeros ? 0 : 0x807fffff,
                        .bits = desc->zeros ? 0 : 0x3f800000};
    b->bytes = choose_bytes(b);
    b->result_bytes = b->limits->cpu ? 1 << 20 : 1 << 24;
    bool ok = buffers_create(b, e);
    /* Memory that others use already is no reason to fail where no size was asked for. */
    while (!ok && !desc->dram_bytes && e->status == WHERRY_STATUS_OUT_OF_DEVICE_MEMORY && b->bytes > SMALLEST) {
        buffers_destroy(b);
        b->bytes = b->bytes / 2 / GRAIN * GRAIN;
        ok = buffers_create(b, e);
    }
    TRY(ok);
    TRY((b->results = b->backend->buffer_create(b->handle, b->result_bytes, e)) != NULL);
    TRY((b->headers = b->backend->buffer_create(b->handle, ROOF_WORKS * ROOF_HEADER_BYTES, e)) != NULL);
    return (b->works = host_alloc(b->host, ROOF_WORKS, sizeof *b->works, e)) != NULL;
}

void bench_close(struct bench *b)
{
    for (size_t i = 0; i < b->n_works; i++) {
        b->backend->program_destroy(b->handle, b->works[i].program);
        host_free(b->host, b->works[i].samples);
    }
    host_free(b->host, b->works);
    host_free(b->host, b->sums);
    buffers_destroy(b);
    b->backend->buffer_destroy(b->handle, b->results);
    b->backend->buffer_destroy(b->handle, b->headers);
}

bool bench_wants(const struct bench *b, const char *id)
{
    const char *at = b->desc->only;
    while (at && *at) {
        size_t n = strcspn(at, ",");
        if (n && !strncmp(at, id, n) && (!id[n] || id[n] == '.')) return true;
        at += n + (at[n] == ',');
    }
    return !b->desc->only;
}

bool bench_progress(const struct bench *b, const char *what, size_t done, size_t total, struct error *e)
{
    if (!b->progress || b->progress(what, done, total, b->user)) return true;
    return fail(e, WHERRY_STATUS_CANCELLED, "cancelled while measuring %s", what);
}

/* ---- making works ---- */

struct work *work_add(struct bench *b, const char *id, enum work_kind kind, struct error *e)
{
    if (b->n_works == ROOF_WORKS) {
        fail(e, WHERRY_STATUS_UNSUPPORTED, "more than %d things to measure at a time", ROOF_WORKS);
        return NULL;
    }
    struct work *w = &b->works[b->n_works];
    *w = (struct work){.kind = kind, .passes = 1, .header_at = b->n_works * ROOF_HEADER_BYTES};
    snprintf(w->ceiling.id, sizeof w->ceiling.id, "%s", id);
    b->n_works++;
    return w;
}

bool work_write_words(struct bench *b, struct work *w, struct error *e)
{
    return b->backend->buffer_write(b->handle, b->headers, w->header_at, w->words, sizeof w->words, e);
}

/* The buffers that the kernel takes: of arithmetic the results alone. */
static void step_fill(const struct bench *b, const struct work *w, struct step *step)
{
    bool memory = w->kind == WORK_MEMORY, sums = !memory || w->form == ROOF_READ;
    struct binding *to = step->bindings;
    *step = (struct step){.name = w->ceiling.id,
                          .kernel = w->call.kernel,
                          .launch = LAUNCH_ELEMENTS,
                          .f16 = !memory && w->ceiling.dtype == WHERRY_DTYPE_F16 && w->kind == WORK_ARITHMETIC,
                          .bf16 = w->ceiling.dtype == WHERRY_DTYPE_BF16,
                          .call = &w->call};
    /* Drivers' watchdogs bear 100 ms: a backend divides submissions by flops, of which a slow GPU does some 40 in the
     * time of a byte. */
    step->flops = memory ? 40 * w->ceiling.amount : w->ceiling.amount;
    *to++ = (struct binding){
        .slot = SLOT_BATCH, .words = true, .buffer = b->headers, .offset = w->header_at, .bytes = ROOF_HEADER_BYTES};
    if (memory && w->form != ROOF_WRITE)
        *to++ = (struct binding){.slot = SLOT_X, .words = true, .buffer = b->buffers[0], .bytes = w->span};
    if (memory && w->form == ROOF_TRIAD)
        *to++ = (struct binding){.slot = SLOT_W, .words = true, .buffer = b->buffers[1], .bytes = w->span};
    *to++ = (struct binding){.slot = SLOT_Y,
                             .written = true,
                             .words = true,
                             .buffer = sums ? b->results : b->buffers[2],
                             .bytes = sums ? b->result_bytes : w->span};
    step->n_bindings = (int)(to - step->bindings);
}

static bool progress_nothing(const char *what, size_t done, size_t total, void *user)
{
    (void)what, (void)done, (void)total, (void)user;
    return true;
}

/* All kernels as one schedule, because a backend compiles those of a schedule in parallel and keeps them. */
static bool works_compile(struct bench *b, size_t first, struct error *e)
{
    size_t n = b->n_works - first;
    struct program_info info;
    struct step *steps = host_alloc(b->host, n, sizeof *steps, e);
    if (!steps) return false;
    for (size_t i = 0; i < n; i++) steps[i] = b->works[first + i].steps[0];
    struct schedule schedule = {.steps = steps, .n_steps = (int)n};
    struct program *program = b->backend->program_create(
        b->handle, &schedule, b->progress ? b->progress : progress_nothing, b->user, &info, e);
    b->backend->program_destroy(b->handle, program);
    host_free(b->host, steps);
    return program;
}

bool works_prepare(struct bench *b, size_t first, struct error *e)
{
    char reason[256] = "";
    for (size_t i = first; i < b->n_works; i++) {
        struct work *w = &b->works[i];
        step_fill(b, w, &w->steps[0]);
        for (int s = 1; s < WORK_STEPS; s++) w->steps[s] = w->steps[0];
        w->schedule = (struct schedule){.steps = w->steps, .n_steps = WORK_STEPS};
        if (!b->backend->supports(b->handle, &w->call, w->steps[0].f16, reason, sizeof reason))
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s can't run the kernel \"%s\": %s", b->device->info.id,
                        w->call.kernel, reason);
        TRY(work_write_words(b, w, e));
    }
    if (b->n_works == first) return true;
    TRY(works_compile(b, first, e));
    for (size_t i = first; i < b->n_works; i++) {
        struct program_info info;
        struct work *w = &b->works[i];
        TRY((w->program = b->backend->program_create(b->handle, &w->schedule, NULL, NULL, &info, e)) != NULL);
    }
    return true;
}

/* ---- running ---- */

struct grid groups_grid(uint32_t groups)
{
    return (struct grid){groups < GRID_WIDTH ? groups : GRID_WIDTH, (groups + GRID_WIDTH - 1) / GRID_WIDTH, 1};
}

bool work_run(struct bench *b, struct work *w, int steps, double *seconds, double *host, struct error *e)
{
    struct grid grids[WORK_STEPS] = {{0}};
    const struct run run = {.grids = grids, .step_seconds = seconds};
    for (int i = 0; i < steps; i++) grids[i] = groups_grid(w->groups);
    uint64_t start = clock_ns();
    TRY(b->backend->program_run(b->handle, w->program, &run, e));
    *host = (double)(clock_ns() - start) * 1e-9;
    return true;
}

/* Whether a run that took no time by the device's timer may have been shorter than one of its ticks. */
static bool tick_explains(const struct bench *b, double host) { return host < 100 * b->limits->timer_seconds; }

/* No kernel takes longer than the host waited for it, and none takes no time: one that is shorter than a tick is looked
 * at again, and then counts as one tick. */
static bool sample_device(struct bench *b, struct work *w, double *seconds, struct error *e)
{
    enum { LOOKS = 8 };
    double all[WORK_STEPS], host = 0;
    *seconds = 0;
    for (int i = 0; i < LOOKS && !(*seconds > 0); i++) {
        e->timer = 0;
        if (work_run(b, w, w->lead ? 2 : 1, all, &host, e))
            *seconds = all[w->lead];
        else if (e->timer != WHERRY_TIMER_STUCK || i + 1 == LOOKS)
            return false;
    }
    if (!(*seconds > 0) && tick_explains(b, host)) *seconds = b->limits->timer_seconds;
    if (!(*seconds > 0))
        return fail_timer(e, WHERRY_TIMER_STUCK, "%s: a kernel that took time took none by the device's timer",
                          w->ceiling.id);
    if (*seconds <= 1.02 * host + 2 * b->limits->timer_seconds) return true;
    return fail_timer(e, WHERRY_TIMER_UNIT,
                      "%s: a kernel took %s s by the device's timer while the host waited %s s for all of them",
                      w->ceiling.id, NUMBER("%g", *seconds), NUMBER("%g", host));
}

/* What four more runs take. Of one run the least time ever seen: whatever keeps the host from looking adds to it, and
 * would make four more look shorter than they are. Where four more are lost in what the host's waiting varies by, all
 * five with the waiting: more than they took, so that no rate comes out too high. */
static bool sample_host(struct bench *b, struct work *w, double *seconds, struct error *e)
{
    double one, all = 0;
    int looks = w->one > 0 ? 1 : 3;
    for (int i = 0; i < looks; i++) {
        TRY(work_run(b, w, 1, NULL, &one, e));
        if (!(w->one > 0) || one < w->one) w->one = one;
    }
    for (int i = 0; i < 20; i++) {
        TRY(work_run(b, w, WORK_STEPS, NULL, &all, e));
        *seconds = (all - w->one) / (WORK_STEPS - 1);
        if (*seconds > 0) return true; /* else other work was in the way of one and not of five */
    }
    *seconds = all / WORK_STEPS;
    return true;
}

bool work_sample(struct bench *b, struct work *w, double *seconds, struct error *e)
{
    return b->host_clock ? sample_host(b, w, seconds, e) : sample_device(b, w, seconds, e);
}

static bool samples_reserve(struct bench *b, struct work *w, uint32_t n, struct error *e)
{
    if (n <= w->room) return true;
    void *grown = host_grow(b->host, w->samples, w->room, n, sizeof *w->samples, e);
    if (!grown) return false;
    w->samples = grown;
    w->room = n;
    return true;
}

bool works_measure(struct bench *b, size_t first, size_t end, uint32_t rounds, uint32_t least, double seconds,
                   const char *what, struct error *e)
{
    uint64_t start = clock_ns();
    for (size_t i = first; i < end; i++) TRY(samples_reserve(b, &b->works[i], rounds, e));
    for (uint32_t round = 0; round < rounds; round++) {
        if (round >= least && (double)(clock_ns() - start) * 1e-9 > seconds) break;
        TRY(bench_progress(b, what, round, rounds, e));
        for (size_t i = first; i < end; i++) {
            struct work *w = &b->works[i];
            TRY(work_sample(b, w, &w->samples[w->n], e));
            w->n++;
        }
    }
    return true;
}

wherry_time work_time(struct work *w)
{
    for (uint32_t i = 0; i < w->n; i++) w->samples[i] /= w->passes;
    wherry_time t = time_summary(w->samples, w->n, w->first / w->passes);
    w->n = 0;
    return t;
}

bool work_warm(struct bench *b, struct work *w, double seconds, struct error *e)
{
    double windows[3] = {0}, host;
    uint64_t start = clock_ns();
    for (int n = 0;; n++) {
        uint64_t begun = clock_ns();
        int runs = 0;
        TRY(bench_progress(b, "warm up", (size_t)n, (size_t)n + 1, e));
        do {
            TRY(work_run(b, w, WORK_STEPS, NULL, &host, e));
            runs++;
        } while ((double)(clock_ns() - begun) * 1e-9 < seconds / 10);
        memmove(windows, windows + 1, 2 * sizeof *windows);
        windows[2] = (double)(clock_ns() - begun) / runs;
        double low = fmin(fmin(windows[0], windows[1]), windows[2]),
               high = fmax(fmax(windows[0], windows[1]), windows[2]);
        double elapsed = (double)(clock_ns() - start) * 1e-9;
        if (elapsed >= seconds && ((n > 1 && high <= 1.01 * low) || elapsed >= 4 * seconds)) return true;
    }
}
