/* Runs one group on many sets of buffers in turn, each with the contents of the step's; or many times on the step's
 * own.
 */
#include "measure/cold.h"

#include <string.h>

#include "base/platform.h"
#include "base/round.h"
#include "interface/interface.h"
#include "measure/statistics.h"
#include "plan/tiles.h"
#include "runtime/encode.h"

enum {
    MOST_SETS = 128,
    AGAIN_RUNS = 16, /* one after the other: the first finds what is left of the submission, the others the group */
    STAGING_BYTES = 1 << 24, /* contents cross the host in pieces of this size */
    BUFFER_BYTES = 1 << 30,  /* of several copies; one may be larger. Some kernels can't index very large buffers */
    SWEEP_ROW = 1024         /* floats */
};

static const uint64_t least_bytes_cpu = 64000000, least_bytes_gpu = 256000000, unknown_memory = 1 << 30;

/* Memory that may be taken beside the session's. */
static uint64_t memory_most(const struct cold *c)
{
    uint64_t bytes = c->session->device->backend->limits(c->session->device->handle)->memory_bytes;
    return bytes ? bytes / 4 : unknown_memory;
}

/* ---- the sweep: where a rotation is short, a copy of large buffers between two of them takes the caches over ---- */

struct sweep {
    struct buffer *batch, *from, *to;
    struct call call;
    struct step step;
    struct schedule schedule;
    struct program *program;
    struct grid grid;
};

static bool sweep_make(struct cold *c, struct sweep *w, struct error *e)
{
    const struct backend *backend = c->session->device->backend;
    struct backend_device *device = c->session->device->handle;
    const struct device_limits *limits = backend->limits(device);
    uint64_t bytes = round_up(c->target / 2, SWEEP_ROW * sizeof(float));
    const uint64_t most[] = {limits->max_buffer_bytes, limits->max_binding_bytes, UINT32_MAX};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++)
        if (bytes > most[i]) bytes = most[i] / (SWEEP_ROW * sizeof(float)) * (SWEEP_ROW * sizeof(float));
    const uint32_t rows = (uint32_t)(bytes / (SWEEP_ROW * sizeof(float))),
                   header[HEADER_WORDS] = {[HEADER_TOKENS] = rows};
    struct program_info info;
    if (!(w->batch = backend->buffer_create(device, sizeof header, e)) ||
        !(w->from = backend->buffer_create(device, bytes, e)) || !(w->to = backend->buffer_create(device, bytes, e)))
        return false;
    TRY(backend->buffer_write(device, w->batch, 0, header, sizeof header, e));
    for (uint64_t at = 0; at < bytes; at += STAGING_BYTES) /* what is copied does not matter */
        TRY(backend->buffer_write(device, w->from, at, c->staging,
                                  bytes - at < STAGING_BYTES ? bytes - at : STAGING_BYTES, e));
    w->call = (struct call){.kernel = "map", .launch = LAUNCH_ELEMENTS};
    call_set(&w->call, CONST_N, SWEEP_ROW);
    call_set(&w->call, CONST_ROWS, HEADER_TOKENS);
    call_tiles(&w->call, NULL, limits, false, rows, 1);
    w->grid = call_grid(&w->call, false, header);
    w->step =
        (struct step){.name = "sweep",
                      .kernel = w->call.kernel,
                      .launch = w->call.launch,
                      .call = &w->call,
                      .bindings = {{.slot = SLOT_BATCH, .words = true, .buffer = w->batch, .bytes = sizeof header},
                                   {.slot = SLOT_X, .buffer = w->from, .bytes = bytes},
                                   {.slot = SLOT_Y, .written = true, .buffer = w->to, .bytes = bytes}},
                      .n_bindings = 3};
    w->schedule = (struct schedule){.steps = &w->step, .n_steps = 1};
    w->program = backend->program_create(device, &w->schedule, NULL, NULL, &info, e);
    return w->program != NULL;
}

static void sweep_destroy(struct cold *c)
{
    const struct backend *backend = c->session->device->backend;
    struct backend_device *device = c->session->device->handle;
    struct sweep *w = c->sweep;
    if (!w) return;
    backend->program_destroy(device, w->program);
    backend->buffer_destroy(device, w->to);
    backend->buffer_destroy(device, w->from);
    backend->buffer_destroy(device, w->batch);
    host_free(&c->session->context->host, w);
    c->sweep = NULL;
}

static bool sweep_run(struct cold *c, struct error *e)
{
    const struct wherry_device *device = c->session->device;
    if (!c->sweep) {
        c->sweep = host_alloc(&c->session->context->host, 1, sizeof *c->sweep, e);
        if (!c->sweep) return false;
        if (!sweep_make(c, c->sweep, e)) {
            sweep_destroy(c);
            return false;
        }
    }
    return device->backend->program_run(device->handle, c->sweep->program, &(struct run){.grids = &c->sweep->grid}, e);
}

/* ---- sets of buffers ---- */

/* One tensor, as often as there are sets, one copy after the other in as few buffers as may be. */
struct copies {
    int tensor;      /* owns its memory; TENSOR_SCRATCH: the group's own */
    bool read;       /* what it holds counts */
    uint64_t used;   /* bytes */
    uint64_t bytes;  /* from one copy to the next */
    uint32_t count;  /* of copies */
    uint32_t in_one; /* copies in one buffer, fewer in the last */
    uint32_t n_buffers;
    struct buffer **buffers;
};

struct sets {
    int group, first, n_calls; /* of the session's */
    struct copies copies[GROUP_MAX_CALLS * GROUP_MAX_TENSORS];
    int n_copies;
    uint64_t bytes;   /* of one set */
    uint64_t touched; /* of one set, when the group runs */
    uint32_t count;
    bool own;           /* the session's own buffers: one set, or the same for all */
    struct step *steps; /* [count][n_calls] */
    struct grid *grids;
    double *seconds, *samples;
    struct schedule schedule;
    struct program *program;
};

static struct copies *copies_find(struct sets *sets, int tensor)
{
    for (int i = 0; i < sets->n_copies; i++)
        if (sets->copies[i].tensor == tensor) return &sets->copies[i];
    return NULL;
}

/* The tensors of a group's calls, but ids and tables, which all sets share. */
static void sets_describe(const struct cold *c, int group, struct sets *sets)
{
    const struct wherry_session *s = c->session;
    const struct graph *g = &s->graph;
    uint64_t read, written;
    *sets = (struct sets){.group = group, .first = group_first_call(s, group)};
    while (sets->first + sets->n_calls < s->n_calls && s->call_groups[sets->first + sets->n_calls] == group)
        sets->n_calls++;
    for (int i = 0; i < sets->n_calls; i++) {
        const struct call *call = &s->calls[sets->first + i];
        for (int a = 0; a < call->n_arguments; a++) {
            int tensor = call->arguments[a].tensor;
            bool scratch = tensor == TENSOR_SCRATCH;
            if (!scratch) tensor = tensor_owner(g, tensor);
            if (!scratch && g->tensors[tensor].role == TENSOR_BATCH) continue;
            struct copies *copies = copies_find(sets, tensor);
            if (!copies) {
                copies = &sets->copies[sets->n_copies++];
                copies->tensor = tensor;
                copies->used =
                    scratch ? s->memory.scratch[group].bytes : session_transfer(s, c->shape, tensor, NULL).bytes;
                copies->bytes = round_up(copies->used, MEMORY_ALIGNMENT);
                sets->bytes += copies->bytes;
            }
            copies->read |= !scratch && !call->arguments[a].written;
        }
    }
    group_bytes(g, c->shape, &s->groups[group], session_storage(s), &read, &written);
    sets->touched = read + written;
}

/* As many as it takes to touch the target, at least two; fewer where memory ends, and where a set is mostly bytes that
 * are not touched (tables), which one set alone has where no buffer holds them. */
static uint32_t sets_wanted(const struct cold *c, const struct sets *sets)
{
    uint64_t n = c->target / (sets->touched ? sets->touched : 1) + 1, most = memory_most(c);
    for (int i = 0; i < sets->n_copies; i++) {
        int tensor = sets->copies[i].tensor;
        if (tensor != TENSOR_SCRATCH && c->session->memory.of[tensor].piece_bytes) return 1; /* in several buffers */
    }
    n = n < 2 ? 2 : n > MOST_SETS ? MOST_SETS : n;
    uint64_t enough = sets->bytes < 2 * c->target ? 4 * c->target : 2 * sets->bytes;
    if (most > enough) most = enough;
    if (n * sets->bytes > most) n = most / sets->bytes;
    return n < 2 ? 1 : (uint32_t)n;
}

static uint32_t copies_in(const struct copies *copies, uint32_t buffer)
{
    uint32_t left = copies->count - buffer * copies->in_one;
    return left < copies->in_one ? left : copies->in_one;
}

static bool copies_make(const struct cold *c, struct copies *copies, uint32_t count, struct error *e)
{
    const struct wherry_device *device = c->session->device;
    uint64_t most = device->backend->limits(device->handle)->max_buffer_bytes;
    if (most > BUFFER_BYTES) most = BUFFER_BYTES;
    uint64_t in_one = most / copies->bytes;
    copies->count = count;
    copies->in_one = in_one < 1 ? 1 : in_one > count ? count : (uint32_t)in_one;
    uint32_t n = (count + copies->in_one - 1) / copies->in_one;
    if (!(copies->buffers = host_alloc(&c->session->context->host, n, sizeof *copies->buffers, e))) return false;
    for (; copies->n_buffers < n; copies->n_buffers++) {
        uint64_t bytes = copies_in(copies, copies->n_buffers) * copies->bytes;
        struct buffer *buffer = device->backend->buffer_create(device->handle, bytes, e);
        if (!buffer) return false;
        copies->buffers[copies->n_buffers] = buffer;
    }
    return true;
}

/* The piece that is in staging, to its place in all copies. A whole tensor is written several times at once. */
static bool piece_write(const struct cold *c, const struct copies *copies, uint64_t at, uint64_t bytes, struct error *e)
{
    const struct wherry_device *device = c->session->device;
    uint64_t fit = at || bytes < copies->used ? 1 : STAGING_BYTES / copies->bytes;
    for (uint64_t i = 1; i < fit && i < copies->in_one; i++)
        memcpy(c->staging + i * copies->bytes, c->staging, (size_t)bytes);
    if (fit < 1) fit = 1;
    for (uint32_t b = 0; b < copies->n_buffers; b++)
        for (uint64_t i = 0; i < copies_in(copies, b); i += fit) {
            uint64_t left = copies_in(copies, b) - i, n = left < fit ? left : fit;
            TRY(device->backend->buffer_write(device->handle, copies->buffers[b], i * copies->bytes + at, c->staging,
                                              (n - 1) * copies->bytes + bytes, e));
        }
    return true;
}

static bool copies_fill(const struct cold *c, const struct copies *copies, struct error *e)
{
    const struct wherry_session *s = c->session;
    if (!copies->read) return true;
    const struct transfer from = session_transfer(s, c->shape, copies->tensor, NULL);
    for (uint64_t at = 0; at < from.bytes; at += STAGING_BYTES) {
        uint64_t bytes = from.bytes - at < STAGING_BYTES ? from.bytes - at : STAGING_BYTES;
        TRY(s->device->backend->buffer_read(s->device->handle, from.buffer, from.offset + at, c->staging, bytes, e));
        TRY(piece_write(c, copies, at, bytes, e));
    }
    return true;
}

static void step_move(const struct cold *c, struct sets *sets, uint32_t set, int index)
{
    const struct wherry_session *s = c->session;
    struct step *step = &sets->steps[set * (uint32_t)sets->n_calls + (uint32_t)index];
    *step = s->steps[sets->first + index];
    for (int a = 0; a < step->call->n_arguments && !sets->own; a++) {
        int tensor = step->call->arguments[a].tensor;
        if (tensor != TENSOR_SCRATCH) tensor = tensor_owner(&s->graph, tensor);
        const struct copies *copies = copies_find(sets, tensor);
        if (!copies) continue;
        struct binding *binding = &step->bindings[a + 1]; /* the first is the batch */
        binding->buffer = copies->buffers[set / copies->in_one];
        binding->offset = set % copies->in_one * copies->bytes;
        binding->bytes = copies->bytes;
    }
}

static bool sets_make(const struct cold *c, struct sets *sets, struct error *e)
{
    const struct wherry_session *s = c->session;
    const struct host *host = &s->context->host;
    size_t n = (size_t)sets->count * (size_t)sets->n_calls;
    sets->own = c->again || sets->count == 1;
    for (int i = 0; i < sets->n_copies && !sets->own; i++)
        TRY(copies_make(c, &sets->copies[i], sets->count, e) && copies_fill(c, &sets->copies[i], e));
    if (!(sets->steps = host_alloc(host, n, sizeof *sets->steps, e)) ||
        !(sets->grids = host_alloc(host, n, sizeof *sets->grids, e)) ||
        !(sets->seconds = host_alloc(host, n, sizeof *sets->seconds, e)) ||
        !(sets->samples = host_alloc(host, (size_t)sets->count + c->repeats, sizeof *sets->samples, e)))
        return false;
    for (uint32_t set = 0; set < sets->count; set++)
        for (int i = 0; i < sets->n_calls; i++) {
            step_move(c, sets, set, i);
            sets->grids[set * (uint32_t)sets->n_calls + (uint32_t)i] = s->grids[sets->first + i];
        }
    sets->schedule = (struct schedule){.steps = sets->steps,
                                       .n_steps = (int)n,
                                       .ordered = true,
                                       .library = s->library,
                                       .graph = &s->graph,
                                       .groups = s->groups};
    struct program_info info;
    sets->program = s->device->backend->program_create(s->device->handle, &sets->schedule, NULL, NULL, &info, e);
    return sets->program != NULL;
}

static void sets_unmake(const struct cold *c, struct sets *sets)
{
    const struct host *host = &c->session->context->host;
    const struct wherry_device *device = c->session->device;
    device->backend->program_destroy(device->handle, sets->program);
    sets->program = NULL;
    for (int i = 0; i < sets->n_copies; i++) {
        struct copies *copies = &sets->copies[i];
        for (uint32_t b = 0; b < copies->n_buffers; b++)
            device->backend->buffer_destroy(device->handle, copies->buffers[b]);
        host_free(host, copies->buffers);
        copies->buffers = NULL;
        copies->n_buffers = 0;
    }
    void **memory[] = {(void **)&sets->steps, (void **)&sets->grids, (void **)&sets->seconds, (void **)&sets->samples};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        host_free(host, *memory[i]);
        *memory[i] = NULL;
    }
}

/* ---- timing ---- */

/* All sets once. Gives a sample of each, or of the host's clock one for all. */
static bool rotate(struct cold *c, struct sets *sets, double *samples, uint32_t *n, struct error *e)
{
    const struct wherry_device *device = c->session->device;
    if (!c->again && sets->count * sets->touched < c->target) TRY(sweep_run(c, e));
    uint64_t start = clock_ns();
    TRY(device->backend->program_run(
        device->handle, sets->program,
        &(struct run){.grids = sets->grids, .batch = c->shape, .step_seconds = c->timer ? sets->seconds : NULL}, e));
    samples[0] = (double)(clock_ns() - start) * 1e-9 / sets->count;
    *n = c->timer ? sets->count : 1;
    for (uint32_t set = 0; c->timer && set < sets->count; set++) {
        samples[set] = 0;
        for (int i = 0; i < sets->n_calls; i++)
            samples[set] += sets->seconds[set * (uint32_t)sets->n_calls + (uint32_t)i];
    }
    return true;
}

static bool sets_measure(struct cold *c, struct sets *sets, wherry_time *time, struct error *e)
{
    uint32_t n = 0, more;
    uint64_t start = clock_ns();
    TRY(rotate(c, sets, sets->samples, &more, e));
    double first = sets->samples[0];
    while ((double)(clock_ns() - start) * 1e-9 < c->warm_seconds) TRY(rotate(c, sets, sets->samples, &more, e));
    for (; n < c->repeats; n += more) TRY(rotate(c, sets, sets->samples + n, &more, e));
    *time = time_summary(sets->samples, n, first);
    return true;
}

bool cold_open(struct cold *c, uint64_t cache_bytes, struct error *e)
{
    const struct device_limits *limits = c->session->device->backend->limits(c->session->device->handle);
    uint64_t most = memory_most(c);
    c->target = limits->cpu ? least_bytes_cpu : least_bytes_gpu;
    if (cache_bytes > c->target / 4) c->target = cache_bytes < UINT64_MAX / 4 ? 4 * cache_bytes : UINT64_MAX;
    if (c->target > most) c->target = most;
    c->staging = host_alloc(&c->session->context->host, STAGING_BYTES, 1, e);
    return c->staging != NULL;
}

bool cold_group(struct cold *c, int group, wherry_time *time, uint32_t *sets_count, struct error *e)
{
    struct sets sets;
    sets_describe(c, group, &sets);
    sets.count = c->again ? AGAIN_RUNS : sets_wanted(c, &sets);
    bool ok = sets_make(c, &sets, e);
    /* Others may use the memory that the device has. */
    while (!ok && e->status == WHERRY_STATUS_OUT_OF_DEVICE_MEMORY && !sets.own) {
        sets_unmake(c, &sets);
        sets.count = sets.count > 3 ? sets.count / 2 : 1;
        ok = sets_make(c, &sets, e);
    }
    ok = ok && sets_measure(c, &sets, time, e);
    *sets_count = sets.count;
    sets_unmake(c, &sets);
    return ok;
}

void cold_close(struct cold *c)
{
    sweep_destroy(c);
    host_free(&c->session->context->host, c->staging);
    c->staging = NULL;
}
