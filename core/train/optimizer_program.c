/* An optimizer's program: its kernels' calls, a step for each launch, and runs of one pass. */
#include <string.h>

#include "base/round.h"
#include "interface/interface.h"
#include "interface/optimizer.h"
#include "train/state.h"

/* ---- calls ---- */

static uint32_t form_of(const struct optimizer *o)
{
    switch (o->options.kind) {
    case OPTIMIZER_ADAMW:
        return OPTIMIZER_FORM_ADAMW;
    case OPTIMIZER_LAMB:
        return OPTIMIZER_FORM_LAMB;
    default:
        return o->options.momentum > 0 ? OPTIMIZER_FORM_MOMENTUM : OPTIMIZER_FORM_PLAIN;
    }
}

static bool calls_make(struct optimizer *o, struct error *e)
{
    const struct wherry_session *s = o->session;
    const struct backend *backend = s->device->backend;
    const struct device_limits *limits = backend->limits(s->device->handle);
    const uint32_t forms[PASSES] = {0, form_of(o), OPTIMIZER_FORM_CHANGE};
    uint32_t local = limits->cpu ? 64 : 256;
    while (local > limits->max_local_size) local /= 2;
    o->n_passes = o->options.kind == OPTIMIZER_LAMB ? PASSES : PASS_CHANGE;
    for (int pass = 0; pass < o->n_passes; pass++) {
        struct call *call = &o->calls[pass];
        char reason[256];
        *call =
            (struct call){.kernel = pass == PASS_ADD ? "optimizer_add" : "optimizer_step", .launch = LAUNCH_ELEMENTS};
        call_set(call, CONST_LOCAL_SIZE, local);
        if (pass != PASS_ADD) call_set(call, CONST_FORM, forms[pass]);
        if (!backend->supports(s->device->handle, call, s->f16, reason, sizeof reason))
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s can't change weights: %s", s->device->info.id, reason);
    }
    return true;
}

/* ---- steps ---- */

static void bind(struct step *step, uint8_t slot, bool words, bool written, struct buffer *buffer, struct range range)
{
    step->bindings[step->n_bindings++] = (struct binding){.slot = slot,
                                                          .written = written,
                                                          .words = words,
                                                          .buffer = buffer,
                                                          .offset = range.begin,
                                                          .bytes = range.end - range.begin};
}

/* Ascending slots. */
static void step_fill(struct optimizer *o, enum pass pass, const struct launch_range *l, struct step *step)
{
    const struct wherry_session *s = o->session;
    const struct segment *first = &o->arena.segments[l->first];
    const struct shard *shard = &o->arena.shards[first->shard];
    const bool changes = pass != PASS_ADD, moments = pass == PASS_STEP,
               lamb = moments && o->options.kind == OPTIMIZER_LAMB;
    *step = (struct step){.name = changes ? "step" : "accumulate",
                          .kernel = o->calls[pass].kernel,
                          .launch = LAUNCH_ELEMENTS,
                          .f16 = s->f16,
                          .call = &o->calls[pass],
                          .group = pass,
                          .flops = 40.0 * (double)(l->state.end - l->state.begin), /* as of roof_memory */
                          .items_most = (uint64_t)l->chunks * call_get(&o->calls[pass], CONST_LOCAL_SIZE, 1)};
    bind(step, SLOT_BATCH, true, false, o->header, (struct range){0, o->header_bytes});
    if (!changes) bind(step, SLOT_X, false, false, s->buffers[first->gradient_block], l->gradients);
    if (changes) bind(step, SLOT_W, false, !lamb, s->buffers[first->weight_block], l->weights);
    bind(step, SLOT_IDS, true, false, o->arena.tables, l->table);
    if (changes && s->f16) bind(step, SLOT_SAVED, true, !lamb, shard->parts[ARENA_MASTER], l->state);
    if (moments && shard->parts[ARENA_FIRST]) bind(step, SLOT_DELTA, true, true, shard->parts[ARENA_FIRST], l->state);
    bind(step, SLOT_GRADIENT, true, !changes || lamb, shard->parts[ARENA_GRADIENT], l->state);
    if (!changes || lamb) bind(step, SLOT_PARTIALS, true, true, o->arena.partials, l->partials);
    if (moments && shard->parts[ARENA_SECOND]) bind(step, SLOT_EXTRA, true, true, shard->parts[ARENA_SECOND], l->state);
}

/* Gradients, or with `joins` what is in a further sum, added to that sum, or to the one before. */
static void sum_fill(struct optimizer *o, int sum, bool joins, const struct launch_range *l, struct step *step)
{
    const struct shard *shard = &o->arena.shards[o->arena.segments[l->first].shard];
    struct buffer *to = joins && sum == 1 ? shard->parts[ARENA_GRADIENT] : shard->sums[sum - 1 - joins];
    step_fill(o, PASS_ADD, l, step);
    for (int i = 0; i < step->n_bindings; i++) {
        struct binding *b = &step->bindings[i];
        if (b->slot == SLOT_GRADIENT) b->buffer = to;
        if (b->slot == SLOT_X && joins) {
            b->buffer = shard->sums[sum - 1];
            b->offset = l->state.begin;
            b->bytes = l->state.end - l->state.begin;
        }
        if (b->slot == SLOT_IDS && joins) b->offset = l->joins.begin;
    }
    if (joins) step->name = "join";
    if (joins) step->f16 = false; /* sums are floats */
}

static struct grid chunks_grid(uint32_t chunks)
{
    return (struct grid){chunks < GRID_WIDTH ? chunks : GRID_WIDTH, (uint32_t)divide_up(chunks, GRID_WIDTH), 1};
}

bool optimizer_program_create(struct optimizer *o, struct error *e)
{
    const struct wherry_session *s = o->session;
    const struct host *host = &s->context->host;
    const struct backend *backend = s->device->backend;
    const size_t launches = (size_t)o->arena.n_launches, n = launches * (PASSES + 2 * (size_t)o->arena.sums);
    struct program_info info;
    TRY(calls_make(o, e));
    o->header_bytes = round_up(4 * (OPTIMIZER_RATES + 2 * (uint64_t)o->arena.trained), MEMORY_ALIGNMENT);
    if (!(o->words = host_alloc(host, (size_t)o->header_bytes, 1, e)) ||
        !(o->partials = host_alloc(host, (size_t)o->arena.partials_bytes, 1, e)) ||
        !(o->ratios = host_alloc(host, o->arena.trained, sizeof *o->ratios, e)) ||
        !(o->steps = host_alloc(host, n, sizeof *o->steps, e)) ||
        !(o->grids = host_alloc(host, n, sizeof *o->grids, e)) ||
        !(o->header = backend->buffer_create(s->device->handle, o->header_bytes, e)))
        return false;
    TRY(backend->buffer_write(s->device->handle, o->header, 0, o->words, o->header_bytes, e)); /* not active */
    for (int pass = 0; pass < o->n_passes; pass++)
        for (size_t i = 0; i < launches; i++) {
            step_fill(o, pass, &o->arena.launches[i], &o->steps[(size_t)pass * launches + i]);
            o->grids[(size_t)pass * launches + i] = chunks_grid(o->arena.launches[i].chunks);
        }
    for (int sum = 1; sum <= o->arena.sums; sum++)
        for (size_t i = 0; i < 2 * launches; i++) {
            size_t at = (size_t)(o->n_passes + 2 * (sum - 1)) * launches + i;
            const struct launch_range *l = &o->arena.launches[i % launches];
            sum_fill(o, sum, i >= launches, l, &o->steps[at]);
            o->grids[at] = chunks_grid(l->chunks);
        }
    o->schedule = (struct schedule){.steps = o->steps,
                                    .n_steps = (o->n_passes + 2 * o->arena.sums) * o->arena.n_launches,
                                    .max_upload = (size_t)o->header_bytes,
                                    .divided = true};
    o->program = backend->program_create(s->device->handle, &o->schedule, NULL, NULL, &info, e);
    return o->program != NULL;
}

void optimizer_program_destroy(struct optimizer *o)
{
    const struct wherry_session *s = o->session;
    const struct host *host = &s->context->host;
    void *memory[] = {o->words, o->partials, o->ratios, o->steps, o->grids};
    s->device->backend->program_destroy(s->device->handle, o->program);
    s->device->backend->buffer_destroy(s->device->handle, o->header);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) host_free(host, memory[i]);
}

/* ---- runs ---- */

static bool run_launches(struct optimizer *o, int number, struct error *e)
{
    struct wherry_device *device = o->session->device;
    const struct transfer upload = {.buffer = o->header, .bytes = o->header_bytes, .host = o->words};
    const struct run run = {.uploads = &upload,
                            .n_uploads = 1,
                            .grids = o->grids,
                            .first = number * o->arena.n_launches,
                            .end = (number + 1) * o->arena.n_launches};
    bool ok = device_executes(device, e) && device->backend->program_run(device->handle, o->program, &run, e);
    if (!ok) device_failed(device, e);
    return ok;
}

bool optimizer_run(struct optimizer *o, enum pass pass, struct error *e) { return run_launches(o, (int)pass, e); }

bool optimizer_run_sum(struct optimizer *o, int sum, bool joins, struct error *e)
{
    return run_launches(o, o->n_passes + 2 * (sum - 1) + joins, e);
}

bool optimizer_read_partials(struct optimizer *o, struct error *e)
{
    struct wherry_device *device = o->session->device;
    return device->backend->buffer_read(device->handle, o->arena.partials, 0, o->partials, o->arena.partials_bytes, e);
}
