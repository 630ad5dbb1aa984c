/* An optimizer's programs: their kernels' calls, a step for each launch, and runs of some of their phases. */
#include <string.h>

#include "base/round.h"
#include "interface/interface.h"
#include "train/elements.h"
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

bool optimizer_calls_make(struct optimizer *o, enum way way, struct error *e)
{
    const uint32_t direct = way == WAY_DIRECT ? OPTIMIZER_DIRECT : 0;
    const uint32_t forms[PHASES] = {direct, OPTIMIZER_SUM_NORM, form_of(o) | direct, OPTIMIZER_SUM_RATIOS,
                                    OPTIMIZER_FORM_CHANGE};
    static const char *const kernels[PHASES] = {"optimizer_add", "optimizer_sum", "optimizer_step", "optimizer_sum",
                                                "optimizer_step"};
    for (int phase = 0; phase < PHASES; phase++) {
        struct call *call = &o->ways[way].calls[phase];
        elements_call(o->session, kernels[phase], call);
        call_set(call, CONST_FORM, forms[phase]);
        TRY(elements_runs(o->session, call, session_type(o->session), "can't change weights", e));
    }
    return true;
}

/* ---- steps ---- */

static void step_begin(struct optimizer *o, enum way way, enum phase phase, uint32_t groups, double flops,
                       struct step *step)
{
    const struct call *call = &o->ways[way].calls[phase];
    static const char *const names[PHASES] = {"accumulate", "norm", "step", "ratios", "step"};
    *step = (struct step){.name = names[phase],
                          .kernel = call->kernel,
                          .launch = LAUNCH_ELEMENTS,
                          .call = call,
                          .group = phase,
                          .flops = flops,
                          .items_most = (uint64_t)groups * call_get(call, CONST_LOCAL_SIZE, 1)};
    step_store(step, session_type(o->session));
    elements_bind(step, SLOT_BATCH, true, false, o->header, (struct range){0, o->header_bytes});
}

/* Ascending slots. */
static void launch_fill(struct optimizer *o, enum way way, enum phase phase, const struct launch_range *l,
                        struct step *step)
{
    const struct wherry_session *s = o->session;
    const struct segment *first = &o->arena.segments[l->first];
    const struct slab *slab = &o->arena.slabs[first->slab];
    const bool adds = phase == PHASE_ADD, moments = phase == PHASE_STEP, direct = way == WAY_DIRECT;
    const bool leaves_u = moments && optimizer_lamb(o), stored = s->f16 && !segment_adapts(first);
    step_begin(o, way, phase, l->chunks, 40.0 * (double)(l->state.end - l->state.begin), step); /* as of roof_memory */
    if (!stored) step_store(step, STORAGE_F32);
    if (adds || (moments && direct))
        elements_bind(step, SLOT_X, false, false, segment_gradients(s, &o->arena, first), l->gradients);
    if (!adds) elements_bind(step, SLOT_W, false, !leaves_u, segment_weights(s, &o->arena, first), l->weights);
    if (!adds) elements_bind(step, SLOT_BIAS, true, false, o->verdict, (struct range){0, o->verdict_bytes});
    elements_bind(step, SLOT_IDS, true, false, o->arena.tables, l->table);
    if (!adds && stored) elements_bind(step, SLOT_SAVED, true, !leaves_u, slab->parts[ARENA_MASTER], l->state);
    if (moments && slab->parts[ARENA_FIRST])
        elements_bind(step, SLOT_DELTA, true, true, slab->parts[ARENA_FIRST], l->state);
    if (!direct || (!adds && optimizer_lamb(o)))
        elements_bind(step, SLOT_GRADIENT, true, adds || leaves_u, slab->parts[ARENA_GRADIENT], l->state);
    if (adds || leaves_u) elements_bind(step, SLOT_PARTIALS, true, true, o->arena.partials, l->partials);
    if (moments && slab->parts[ARENA_SECOND])
        elements_bind(step, SLOT_EXTRA, true, true, slab->parts[ARENA_SECOND], l->state);
}

/* Gradients, or with `joins` what is in a further sum, added to that sum, or to the one before. */
static void add_fill(struct optimizer *o, int sum, bool joins, const struct launch_range *l, struct step *step)
{
    const struct slab *slab = &o->arena.slabs[o->arena.segments[l->first].slab];
    struct buffer *to = joins && sum == 1 ? slab->parts[ARENA_GRADIENT] : slab->sums[sum - 1 - joins];
    launch_fill(o, WAY_ACCUMULATED, PHASE_ADD, l, step);
    for (int i = 0; i < step->n_bindings; i++) {
        struct binding *b = &step->bindings[i];
        if (b->slot == SLOT_GRADIENT) b->buffer = to;
        if (b->slot == SLOT_X && joins) {
            b->buffer = slab->sums[sum - 1];
            b->offset = l->state.begin;
            b->bytes = l->state.end - l->state.begin;
        }
        if (b->slot == SLOT_IDS && joins) b->offset = l->joins.begin;
    }
    if (joins) step->name = "join";
    if (joins) step_store(step, STORAGE_F32); /* sums are floats */
}

static void sums_fill(struct optimizer *o, enum way way, enum phase phase, uint32_t groups, struct step *step)
{
    step_begin(o, way, phase, groups, (double)o->arena.partials_bytes, step);
    if (phase == PHASE_RATIOS)
        elements_bind(step, SLOT_IDS, true, false, o->tensors_table, (struct range){0, o->table_bytes});
    elements_bind(step, SLOT_PARTIALS, true, false, o->arena.partials, (struct range){0, o->arena.partials_bytes});
    elements_bind(step, SLOT_Y, true, true, o->verdict, (struct range){0, o->verdict_bytes});
}

static struct grid groups_grid(uint32_t groups)
{
    return (struct grid){groups < GRID_WIDTH ? groups : GRID_WIDTH, (uint32_t)divide_up(groups, GRID_WIDTH), 1};
}

static int steps_fill(struct optimizer *o, enum way way)
{
    struct way_program *w = &o->ways[way];
    int n = 0;
    for (int phase = 0; phase < PHASES; phase++) {
        w->first[phase] = n;
        if (phase > PHASE_STEP && !optimizer_lamb(o)) continue;
        if (phase_sums(phase)) {
            const uint32_t groups = phase == PHASE_NORM ? 1 : o->arena.n_rates;
            w->grids[n] = groups_grid(groups);
            sums_fill(o, way, phase, groups, &w->steps[n++]);
            continue;
        }
        for (int i = 0; i < o->arena.n_launches; i++) {
            w->grids[n] = groups_grid(o->arena.launches[i].chunks);
            launch_fill(o, way, phase, &o->arena.launches[i], &w->steps[n++]);
        }
    }
    w->first[PHASES] = n;
    for (int i = 0; way == WAY_ACCUMULATED && i < 2 * o->arena.sums * o->arena.n_launches; i++, n++) {
        const struct launch_range *l = &o->arena.launches[i % o->arena.n_launches];
        const int number = i / o->arena.n_launches;
        w->grids[n] = groups_grid(l->chunks);
        add_fill(o, 1 + number / 2, number % 2, l, &w->steps[n]);
    }
    return n;
}

bool optimizer_way_create(struct optimizer *o, enum way way, struct error *e)
{
    const struct wherry_session *s = o->session;
    const struct host *host = &s->context->host;
    struct way_program *w = &o->ways[way];
    const size_t most = (size_t)o->arena.n_launches * (PHASES + 2 * (size_t)o->arena.sums) + PHASES;
    struct program_info info;
    if (w->program) return true;
    TRY(optimizer_calls_make(o, way, e));
    if (!w->steps && !(w->steps = host_alloc(host, most, sizeof *w->steps, e))) return false;
    if (!w->grids && !(w->grids = host_alloc(host, most, sizeof *w->grids, e))) return false;
    const int n_steps = steps_fill(o, way);
    w->schedule = (struct schedule){.steps = w->steps,
                                    .n_steps = n_steps,
                                    .max_upload = (size_t)o->header_bytes,
                                    .staged = (size_t)o->header_bytes,
                                    .max_download = sizeof o->told,
                                    .divided = true};
    w->program = s->device->backend->program_create(s->device->handle, &w->schedule, NULL, NULL, &info, e);
    return w->program != NULL;
}

bool optimizer_accumulator(struct optimizer *o, struct error *e)
{
    if (!(o->parts >> ARENA_GRADIENT & 1)) TRY(arena_add(o->session, ARENA_GRADIENT, &o->arena, e));
    o->parts |= 1u << ARENA_GRADIENT;
    return optimizer_way_create(o, WAY_ACCUMULATED, e);
}

/* ---- what the programs read ---- */

static struct buffer *buffer_of(struct optimizer *o, uint64_t bytes, const void *values, struct error *e)
{
    const struct wherry_device *device = o->session->device;
    struct buffer *buffer = device->backend->buffer_create(device->handle, bytes, e);
    if (!buffer || device->backend->buffer_write(device->handle, buffer, 0, values, bytes, e)) return buffer;
    device->backend->buffer_destroy(device->handle, buffer);
    return NULL;
}

/* Chunks of the tensors and parts that have rates, those of one together. */
static void ratios_fill(const struct optimizer *o, uint32_t *table)
{
    const struct arena *a = &o->arena;
    uint32_t at = RATIO_WORDS * a->n_rates;
    for (uint32_t rates = 0; rates < a->n_rates; rates++) {
        uint32_t *entry = table + RATIO_WORDS * (size_t)rates;
        entry[RATIO_BEGIN] = at;
        for (int i = 0; i < a->n_launches; i++) {
            uint32_t partial = (uint32_t)(a->launches[i].partials.begin / 4);
            for (int k = a->launches[i].first; k < a->launches[i].end; k++) {
                const struct segment *segment = &a->segments[k];
                const uint32_t chunks = (uint32_t)divide_up(segment->count, OPTIMIZER_CHUNK);
                for (uint32_t c = 0; segment->rates == rates && c < chunks; c++) table[at++] = partial + 2 * c;
                if (segment->rates == rates) entry[RATIO_ADAPTS] = o->tensors[segment->tensor].decays;
                partial += 2 * chunks;
            }
        }
        entry[RATIO_END] = at;
    }
}

void optimizer_program_plan(struct optimizer *o)
{
    const struct arena *a = &o->arena;
    uint64_t chunks = 0;
    for (int i = 0; i < a->n_launches; i++) chunks += a->launches[i].chunks;
    o->header_bytes = round_up(4 * (OPTIMIZER_RATES + 2 * (uint64_t)a->n_rates), MEMORY_ALIGNMENT);
    o->verdict_bytes = round_up(4 * (VERDICT_RATIOS + (uint64_t)a->n_rates), MEMORY_ALIGNMENT);
    o->table_bytes =
        optimizer_lamb(o) ? round_up(4 * (RATIO_WORDS * (uint64_t)a->n_rates + chunks), MEMORY_ALIGNMENT) : 0;
}

bool optimizer_program_create(struct optimizer *o, struct error *e)
{
    const struct host *host = &o->session->context->host;
    const uint64_t most = o->table_bytes > o->verdict_bytes ? o->table_bytes : o->verdict_bytes;
    uint32_t *table = host_alloc(host, (size_t)most, 1, e);
    o->words = table ? host_alloc(host, (size_t)o->header_bytes, 1, e) : NULL;
    /* Not active, and nothing finite. */
    bool ok = o->words && (o->header = buffer_of(o, o->header_bytes, o->words, e)) &&
              (o->verdict = buffer_of(o, o->verdict_bytes, table, e));
    if (ok && optimizer_lamb(o)) {
        ratios_fill(o, table);
        ok = (o->tensors_table = buffer_of(o, o->table_bytes, table, e)) != NULL;
    }
    host_free(host, table);
    return ok && optimizer_way_create(o, WAY_DIRECT, e) &&
           (!o->options.accumulates || optimizer_way_create(o, WAY_ACCUMULATED, e));
}

void optimizer_program_destroy(struct optimizer *o)
{
    const struct wherry_session *s = o->session;
    const struct host *host = &s->context->host;
    const struct backend *backend = s->device->backend;
    struct error ignored;
    for (int way = 0; way < WAYS; way++) {
        struct way_program *w = &o->ways[way];
        for (int slot = 0; slot < RUN_SLOTS; slot++) pass_wait(s->device, w->program, slot, &w->passes[slot], &ignored);
        backend->program_destroy(s->device->handle, w->program);
        host_free(host, w->steps);
        host_free(host, w->grids);
    }
    backend->buffer_destroy(s->device->handle, o->header);
    backend->buffer_destroy(s->device->handle, o->verdict);
    backend->buffer_destroy(s->device->handle, o->tensors_table);
    host_free(host, o->words);
}

/* ---- runs ---- */

static bool submit(struct optimizer *o, enum way way, int slot, int first, int end, bool words, bool tells,
                   struct error *e)
{
    struct way_program *w = &o->ways[way];
    const struct transfer upload = {.buffer = o->header, .bytes = o->header_bytes, .host = o->words};
    const struct transfer download = {.buffer = o->verdict, .bytes = sizeof o->told, .host = o->told};
    const struct run run = {.uploads = &upload,
                            .n_uploads = words,
                            .downloads = &download,
                            .n_downloads = tells,
                            .grids = w->grids,
                            .step_seconds = o->timed,
                            .first = first,
                            .end = end};
    return pass_submit(o->session->device, w->program, slot, &w->passes[slot], &run, e);
}

bool optimizer_submit(struct optimizer *o, enum way way, int slot, enum phase from, enum phase last, bool words,
                      struct error *e)
{
    const int *first = o->ways[way].first;
    return submit(o, way, slot, first[from], first[last + 1], words, last == PHASE_NORM, e);
}

bool optimizer_submit_sum(struct optimizer *o, int sum, bool joins, struct error *e)
{
    const int launches = o->arena.n_launches;
    const int first = o->ways[WAY_ACCUMULATED].first[PHASES] + (2 * (sum - 1) + joins) * launches;
    return submit(o, WAY_ACCUMULATED, 0, first, first + launches, true, false, e);
}
