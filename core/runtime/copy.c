/* The rate at which a device copies: the roof of everything that computes little. */
#include <string.h>

#include "base/platform.h"
#include "kernel/interface.h"
#include "plan/batch.h"
#include "plan/tiles.h"
#include "runtime/context.h"
#include "runtime/statistics.h"

enum { N = 1024, REPEATS = 21, PIECE_BYTES = 1 << 22, LEAST_BYTES = 1 << 24 };

static const double WARM_SECONDS = 0.3; /* clocks rise in this time */

struct copy {
    struct wherry_device *device;
    uint32_t rows; /* of N floats */
    struct buffer *batch, *from, *to;
    uint32_t *piece; /* PIECE_BYTES of random floats, repeated over the buffer: too long a period to be compressed */
    struct call call;
    struct step step;
    struct schedule schedule;
    struct program *program;
    struct grid grid;
    double samples[REPEATS];
};

static uint64_t copy_bytes(const struct copy *c) { return (uint64_t)c->rows * N * sizeof(float); }

/* One step of the kernel "map" that does nothing but load and store, 16 bytes at a time. */
static void describe(struct copy *c, const uint32_t header[HEADER_WORDS])
{
    c->call = (struct call){.kernel = "map", .launch = LAUNCH_ELEMENTS};
    call_set(&c->call, CONST_N, N);
    call_set(&c->call, CONST_ROWS, HEADER_TOKENS);
    call_tiles(&c->call, NULL, c->device->backend->limits(c->device->handle), false, c->rows, 1);
    c->grid = call_grid(&c->call, false, header);
    c->step = (struct step){
        .name = "copy",
        .kernel = c->call.kernel,
        .launch = c->call.launch,
        .call = &c->call,
        .bindings = {{.slot = SLOT_BATCH, .words = true, .buffer = c->batch, .bytes = HEADER_WORDS * sizeof *header},
                     {.slot = SLOT_X, .buffer = c->from, .bytes = copy_bytes(c)},
                     {.slot = SLOT_Y, .written = true, .buffer = c->to, .bytes = copy_bytes(c)}},
        .n_bindings = 3};
    c->schedule = (struct schedule){.steps = &c->step, .n_steps = 1};
}

/* Floats of either sign from 1 to 2: finite, and their bits don't repeat. */
static void fill(uint32_t *words, size_t n)
{
    uint64_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        words[i] = (uint32_t)(state >> 32 & 0x807fffff) | 0x3f800000;
    }
}

static bool make(struct copy *c, struct error *e)
{
    const struct backend *backend = c->device->backend;
    struct backend_device *handle = c->device->handle;
    const uint32_t header[HEADER_WORDS] = {[HEADER_TOKENS] = c->rows};
    struct program_info info;
    char reason[256] = "";
    if (!(c->batch = backend->buffer_create(handle, sizeof header, e)) ||
        !(c->from = backend->buffer_create(handle, copy_bytes(c), e)) ||
        !(c->to = backend->buffer_create(handle, copy_bytes(c), e)) ||
        !(c->piece = host_alloc(&c->device->context->host, PIECE_BYTES, 1, e)))
        return false;
    fill(c->piece, PIECE_BYTES / sizeof *c->piece);
    TRY(backend->buffer_write(handle, c->batch, 0, header, sizeof header, e));
    for (uint64_t at = 0; at < copy_bytes(c); at += PIECE_BYTES) {
        uint64_t left = copy_bytes(c) - at;
        TRY(backend->buffer_write(handle, c->from, at, c->piece, left < PIECE_BYTES ? left : PIECE_BYTES, e));
    }
    describe(c, header);
    if (!backend->supports(handle, &c->call, false, reason, sizeof reason))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s can't run the kernel \"map\": %s", c->device->info.id, reason);
    return (c->program = backend->program_create(handle, &c->schedule, NULL, NULL, &info, e)) != NULL;
}

static void unmake(struct copy *c)
{
    const struct backend *backend = c->device->backend;
    backend->program_destroy(c->device->handle, c->program);
    backend->buffer_destroy(c->device->handle, c->to);
    backend->buffer_destroy(c->device->handle, c->from);
    backend->buffer_destroy(c->device->handle, c->batch);
    host_free(&c->device->context->host, c->piece);
}

/* A rate counts only when the bytes arrived: the last row is looked at. */
static bool check(struct copy *c, struct error *e)
{
    uint32_t row[N];
    uint64_t at = copy_bytes(c) - sizeof row;
    TRY(c->device->backend->buffer_read(c->device->handle, c->to, at, row, sizeof row, e));
    return !memcmp(row, (const char *)c->piece + at % PIECE_BYTES, sizeof row) ||
           fail(e, WHERRY_STATUS_VERIFY_FAILED,
                "%s copied a buffer of %llu bytes wrongly: report it to the driver's vendor", c->device->info.id,
                (unsigned long long)copy_bytes(c));
}

static bool measure(struct copy *c, struct error *e)
{
    double seconds;
    const struct run run = {.grids = &c->grid, .step_seconds = &seconds};
    uint64_t start = clock_ns();
    do {
        TRY(c->device->backend->program_run(c->device->handle, c->program, &run, e));
    } while ((double)(clock_ns() - start) * 1e-9 < WARM_SECONDS);
    TRY(check(c, e));
    for (int i = 0; i < REPEATS; i++) {
        TRY(c->device->backend->program_run(c->device->handle, c->program, &run, e));
        c->samples[i] = seconds;
    }
    samples_sort(c->samples, REPEATS);
    return true;
}

/* Bytes of each of the two buffers, at least a row, and few enough for 32-bit indices. */
static uint64_t choose_bytes(const struct wherry_device *device, uint64_t asked)
{
    const struct device_limits *limits = device->backend->limits(device->handle);
    uint64_t bytes = asked ? asked : limits->cpu ? 1 << 26 : 1 << 30;
    const uint64_t most[] = {limits->max_buffer_bytes, limits->max_binding_bytes, (uint64_t)1 << 33,
                             limits->memory_bytes ? limits->memory_bytes / 4 : UINT64_MAX};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) bytes = bytes < most[i] ? bytes : most[i];
    return bytes < N * sizeof(float) ? N * sizeof(float) : bytes;
}

static bool copy(struct wherry_device *device, uint64_t bytes, wherry_copy_info *out, struct error *e)
{
    struct copy c = {.device = device, .rows = (uint32_t)(bytes / (N * sizeof(float)))};
    bool ok = make(&c, e) && measure(&c, e);
    if (ok) {
        out->bytes = copy_bytes(&c);
        out->seconds = samples_quantile(c.samples, REPEATS, 0.5);
        out->seconds_p05 = samples_quantile(c.samples, REPEATS, 0.05);
        out->seconds_p95 = samples_quantile(c.samples, REPEATS, 0.95);
        out->bytes_per_second = out->seconds > 0 ? 2 * (double)out->bytes / out->seconds : 0;
    }
    unmake(&c);
    return ok;
}

wherry_status wherry_copy_bandwidth(wherry_device *device, uint64_t bytes, wherry_copy_info *out)
{
    if (!device) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = device->context;
    struct error *e = &context->error;
    if (!out || out->struct_size != sizeof *out)
        return context_invalid(context, "wherry_copy_bandwidth: out is NULL, or out->struct_size is not %zu",
                               sizeof *out);
    if (!strcmp(device->info.id, "reference")) {
        fail(e, WHERRY_STATUS_UNSUPPORTED, "the reference has no kernels whose bandwidth could be measured");
        return context_status(context, false);
    }
    uint64_t want = choose_bytes(device, bytes);
    bool ok = copy(device, want, out, e);
    /* Memory that others use already is no reason to fail where no size was asked for. */
    while (!ok && !bytes && e->status == WHERRY_STATUS_OUT_OF_DEVICE_MEMORY && want > LEAST_BYTES)
        ok = copy(device, want /= 2, out, e);
    return context_status(context, ok);
}
