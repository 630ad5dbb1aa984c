/* A program of steps that runs are parts of: for each launch of the arena gradients added to each sum, each further sum
 * to the one before, and gradients taken as a message; for each slab messages of each sum, sums, and messages taken
 * apart. What a run is of is in the batch buffer. */
#include "train/bucket_kernels.h"

#include <string.h>

#include "base/round.h"
#include "interface/interface.h"
#include "interface/optimizer.h"
#include "interface/wire.h"
#include "runtime/copies.h"
#include "train/arena.h"
#include "train/elements.h"

struct bucket_kernels {
    struct bucket_kernels_desc desc;
    const struct arena *arena;
    struct wherry_device *device;
    struct call calls[BUCKET_CALLS];
    struct step *steps;
    struct grid *grids;
    int n_steps, sums, scans; /* sums: of each slab; scans: 1 where packing has a step more */
    struct schedule schedule;
    struct program *program;
    struct buffer *header, *messages, *list, *partials;
    uint64_t header_bytes;
    uint32_t *words; /* [header_bytes / 4] */
    struct pass passes[RUN_SLOTS_MOST];
    unsigned runs;
};

/* ---- calls and steps ---- */

/* Whether gradients are taken as the session stores them. */
static bool takes(const struct wherry_session *session, wherry_wire wire)
{
    return wire == WHERRY_WIRE_F32 || session_type(session) == (wire == WHERRY_WIRE_F16 ? STORAGE_F16 : STORAGE_BF16);
}

bool bucket_kernels_takes(const struct bucket_kernels *k)
{
    return !k->arena->adapters && takes(k->desc.session, k->desc.wire);
}

bool bucket_calls(const struct wherry_session *session, wherry_wire wire, struct call out[BUCKET_CALLS],
                  struct error *e)
{
    static const char *const names[BUCKET_CALLS] = {"bucket_add",  "bucket_take", "bucket_scan",  "bucket_pack",
                                                    "bucket_pack", "bucket_sum",  "bucket_unpack"};
    for (int i = 0; i < BUCKET_CALLS; i++) {
        static const uint32_t forms[] = {
            [WHERRY_WIRE_F32] = WIRE_FORM_F32, [WHERRY_WIRE_F16] = WIRE_FORM_F16, [WHERRY_WIRE_BF16] = WIRE_FORM_BF16};
        elements_call(session, names[i], &out[i]);
        if (i == CALL_TAKE || i > CALL_SCAN)
            call_set(&out[i], CONST_FORM, i == CALL_FLOATS ? WIRE_FORM_F32 : forms[wire]);
        if (i == CALL_TAKE && !takes(session, wire)) {
            out[i].kernel = NULL;
            continue;
        }
        TRY(elements_runs(session, &out[i], bucket_stored(i) ? session_type(session) : STORAGE_F32,
                          "can't exchange gradients", e));
    }
    return true;
}

const struct schedule *bucket_kernels_schedule(const struct bucket_kernels *k, struct program **program)
{
    *program = k->program;
    return &k->schedule;
}

static struct step *step_begin(struct bucket_kernels *k, enum bucket_call kind, uint32_t messages)
{
    struct step *step = &k->steps[k->n_steps];
    const uint32_t groups = WIRE_GROUPS * messages;
    k->grids[k->n_steps] =
        (struct grid){groups < GRID_WIDTH ? groups : GRID_WIDTH, (uint32_t)divide_up(groups, GRID_WIDTH), 1};
    *step = (struct step){.name = k->calls[kind].kernel,
                          .kernel = k->calls[kind].kernel,
                          .launch = LAUNCH_ELEMENTS,
                          .call = &k->calls[kind],
                          .group = k->n_steps,
                          .flops = 4.0 * (double)k->desc.words,
                          .items_most = (uint64_t)groups * call_get(&k->calls[kind], CONST_LOCAL_SIZE, 1)};
    k->n_steps++;
    elements_bind(step, SLOT_BATCH, true, false, k->header, (struct range){0, k->header_bytes});
    return step;
}

static struct buffer *sum_of(const struct slab *slab, int sum)
{
    return sum ? slab->sums[sum - 1] : slab->parts[ARENA_GRADIENT];
}

/* Ascending slots. */
static void add_fill(struct bucket_kernels *k, const struct launch_range *l, int sum, bool joins)
{
    const struct wherry_session *s = k->desc.session;
    const struct segment *first = &k->arena->segments[l->first];
    const struct slab *slab = &k->arena->slabs[first->slab];
    struct step *step = step_begin(k, CALL_ADD, 1);
    step_store(step, joins || segment_adapts(first) ? STORAGE_F32
                                                    : session_type(s)); /* sums are floats, as adapters' gradients */
    if (joins)
        elements_bind(step, SLOT_X, false, false, sum_of(slab, sum), l->state);
    else
        elements_bind(step, SLOT_X, false, false, segment_gradients(s, k->arena, first), l->gradients);
    const struct range table = joins ? l->joins : l->table;
    elements_bind(step, SLOT_IDS, true, false, k->arena->tables, table);
    elements_bind(step, SLOT_GRADIENT, true, true, sum_of(slab, sum - joins), l->state);
}

static void take_fill(struct bucket_kernels *k, const struct launch_range *l)
{
    const struct wherry_session *s = k->desc.session;
    struct step *step = step_begin(k, CALL_TAKE, 1);
    step_store(step, session_type(s));
    elements_bind(step, SLOT_X, false, false, segment_gradients(s, k->arena, &k->arena->segments[l->first]),
                  l->gradients);
    elements_bind(step, SLOT_IDS, true, false, k->arena->tables, l->table);
    elements_bind(step, SLOT_Y, true, true, k->messages, (struct range){0, 4 * k->desc.words});
}

static uint64_t partials_bytes(const struct bucket_kernels_desc *d) { return 4ull * WIRE_GROUPS * d->processes; }

static uint64_t list_bytes(const struct bucket_kernels_desc *d)
{
    return round_up(4 * (d->rows ? d->rows : 1), MEMORY_ALIGNMENT);
}

static void slab_step(struct bucket_kernels *k, enum bucket_call kind, const struct slab *slab, int sum)
{
    const bool messages = kind != CALL_SUM, to = kind == CALL_SUM || kind == CALL_UNPACK;
    struct buffer *floats = sum_of(slab, sum);
    struct step *step = step_begin(k, kind, messages ? k->desc.processes : 1);
    if (to)
        elements_bind(step, SLOT_X, true, false, k->messages, (struct range){0, 4 * k->desc.words});
    else
        elements_bind(step, SLOT_X, true, false, floats, (struct range){0, 4 * slab->elements});
    elements_bind(step, SLOT_IDS, true, false, k->list, (struct range){0, list_bytes(&k->desc)});
    if (kind == CALL_SUM) elements_bind(step, SLOT_GRADIENT, true, true, floats, (struct range){0, 4 * slab->elements});
    if (k->scans && kind != CALL_FLOATS && kind != CALL_UNPACK)
        elements_bind(step, SLOT_PARTIALS, true, kind != CALL_PACK, k->partials,
                      (struct range){0, partials_bytes(&k->desc)});
    if (kind == CALL_PACK || kind == CALL_FLOATS)
        elements_bind(step, SLOT_Y, true, true, k->messages, (struct range){0, 4 * k->desc.words});
    if (kind == CALL_UNPACK) elements_bind(step, SLOT_Y, true, true, floats, (struct range){0, 4 * slab->elements});
}

/* Numbers of steps. */
static int launch_steps(const struct bucket_kernels *k) { return 2 * k->sums - 1 + bucket_kernels_takes(k); }

static int add_step(const struct bucket_kernels *k, int launch, int sum, bool joins)
{
    return launch * launch_steps(k) + (joins ? k->sums + sum - 1 : sum);
}

static int take_step(const struct bucket_kernels *k, int launch) { return (launch + 1) * launch_steps(k) - 1; }

static int slab_first(const struct bucket_kernels *k, int slab)
{
    return k->arena->n_launches * launch_steps(k) + slab * (k->sums * (2 + k->scans) + 3);
}

static int pack_step(const struct bucket_kernels *k, int slab, int sum)
{
    return slab_first(k, slab) + sum * (2 + k->scans);
}

static int sum_step(const struct bucket_kernels *k, int slab) { return pack_step(k, slab, k->sums); }

static void steps_fill(struct bucket_kernels *k)
{
    for (int l = 0; l < k->arena->n_launches; l++) {
        for (int n = 0; n < 2 * k->sums - 1; n++)
            add_fill(k, &k->arena->launches[l], n < k->sums ? n : n - k->sums + 1, n >= k->sums);
        if (bucket_kernels_takes(k)) take_fill(k, &k->arena->launches[l]);
    }
    for (int i = 0; i < k->arena->n_slabs; i++) {
        const struct slab *slab = &k->arena->slabs[i];
        for (int sum = 0; sum < k->sums; sum++) {
            if (k->scans) slab_step(k, CALL_SCAN, slab, sum);
            slab_step(k, CALL_PACK, slab, sum);
            slab_step(k, CALL_FLOATS, slab, sum);
        }
        slab_step(k, CALL_SUM, slab, 0);
        slab_step(k, CALL_PACK, slab, 0);
        slab_step(k, CALL_UNPACK, slab, 0);
    }
}

/* ---- life ---- */

static uint64_t header_bytes(const struct bucket_kernels_desc *d)
{
    const uint64_t n = d->processes, sums = 1 + (uint64_t)optimizer_arena(d->optimizer)->sums;
    return round_up(4 * (WIRE_TABLE + MESSAGE_WORDS * n + OPERATION_WORDS * 2 * n * sums), MEMORY_ALIGNMENT);
}

uint64_t bucket_kernels_bytes(const struct bucket_kernels_desc *d)
{
    return header_bytes(d) + 4 * d->words + list_bytes(d) + partials_bytes(d);
}

static struct buffer *buffer_make(struct bucket_kernels *k, uint64_t bytes, struct error *e)
{
    return k->device->backend->buffer_create(k->device->handle, bytes, e);
}

static bool memory_make(struct bucket_kernels *k, struct error *e)
{
    const struct host *host = &k->desc.session->context->host;
    const size_t n = (size_t)slab_first(k, k->arena->n_slabs);
    const struct backend *backend = k->device->backend;
    k->header_bytes = header_bytes(&k->desc);
    return (k->words = host_alloc(host, (size_t)k->header_bytes, 1, e)) &&
           (k->steps = host_alloc(host, n, sizeof *k->steps, e)) &&
           (k->grids = host_alloc(host, n, sizeof *k->grids, e)) && (k->header = buffer_make(k, k->header_bytes, e)) &&
           (k->messages = device_buffer_copied(k->device, 4 * k->desc.words, e)) &&
           (k->list = buffer_make(k, list_bytes(&k->desc), e)) &&
           (k->partials = buffer_make(k, partials_bytes(&k->desc), e)) &&
           backend->buffer_write(k->device->handle, k->header, 0, k->words, k->header_bytes, e); /* not active */
}

static bool make(struct bucket_kernels *k, struct error *e)
{
    struct program_info info;
    TRY(bucket_calls(k->desc.session, k->desc.wire, k->calls, e) && memory_make(k, e));
    steps_fill(k);
    k->schedule = (struct schedule){.steps = k->steps,
                                    .n_steps = k->n_steps,
                                    .max_upload = (size_t)k->header_bytes,
                                    .staged = (size_t)k->header_bytes,
                                    .divided = true};
    k->program = k->device->backend->program_create(k->device->handle, &k->schedule, NULL, NULL, &info, e);
    return k->program != NULL;
}

struct bucket_kernels *bucket_kernels_create(const struct bucket_kernels_desc *desc, struct error *e)
{
    struct bucket_kernels *k = host_alloc(&desc->session->context->host, 1, sizeof *k, e);
    if (!k) return NULL;
    k->desc = *desc;
    k->arena = optimizer_arena(desc->optimizer);
    k->device = desc->session->device;
    k->sums = 1 + k->arena->sums;
    k->scans = desc->wire == WHERRY_WIRE_F16;
    if (make(k, e)) return k;
    bucket_kernels_destroy(k);
    return NULL;
}

void bucket_kernels_destroy(struct bucket_kernels *k)
{
    struct error ignored;
    if (!k) return;
    const struct host *host = &k->desc.session->context->host;
    const struct backend *backend = k->device->backend;
    struct buffer *buffers[] = {k->header, k->messages, k->list, k->partials};
    for (int slot = 0; slot < RUN_SLOTS_MOST; slot++)
        pass_wait(k->device, k->program, slot, &k->passes[slot], &ignored);
    backend->program_destroy(k->device->handle, k->program);
    for (int i = 0; i < 4; i++) backend->buffer_destroy(k->device->handle, buffers[i]);
    host_free(host, k->words);
    host_free(host, k->steps);
    host_free(host, k->grids);
    host_free(host, k);
}

struct buffer *bucket_kernels_buffer(const struct bucket_kernels *k) { return k->messages; }

bool bucket_kernels_list(struct bucket_kernels *k, const uint32_t *rows, uint64_t count, struct error *e)
{
    return k->device->backend->buffer_write(k->device->handle, k->list, 0, rows, 4 * count, e);
}

/* ---- runs ---- */

/* `copied`: messages are copied to the host next. */
static bool submit(struct bucket_kernels *k, int first, int count, bool copied, struct error *e)
{
    const struct transfer upload = {.buffer = k->header, .bytes = k->header_bytes, .host = k->words};
    const struct run run = {
        .uploads = &upload, .n_uploads = 1, .grids = k->grids, .first = first, .end = first + count, .copied = copied};
    const int slot = (int)(k->runs++ % RUN_SLOTS_MOST);
    return pass_submit(k->device, k->program, slot, &k->passes[slot], &run, e);
}

static void words_clear(struct bucket_kernels *k)
{
    memset(k->words, 0, (size_t)k->header_bytes);
    k->words[WIRE_ACTIVE] = 1;
}

static void words_place(struct bucket_kernels *k, const struct bucket_place *place,
                        const struct bucket_message *messages, uint32_t count)
{
    words_clear(k);
    k->words[WIRE_AT] = (uint32_t)place->at;
    k->words[WIRE_ROW] = (uint32_t)place->row;
    k->words[WIRE_LIST] = (uint32_t)place->list;
    k->words[WIRE_FIRST_ROW] = (uint32_t)place->first_row;
    k->words[WIRE_MESSAGES] = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *entry = k->words + WIRE_TABLE + MESSAGE_WORDS * i;
        entry[MESSAGE_FIRST] = (uint32_t)messages[i].first;
        entry[MESSAGE_COUNT] = (uint32_t)messages[i].count;
        entry[MESSAGE_AT] = (uint32_t)messages[i].at;
    }
}

bool bucket_kernels_add(struct bucket_kernels *k, int from, int end, int sum, bool joins, bool first, double factor,
                        struct error *e)
{
    const struct arena *a = k->arena;
    for (int l = 0; l < a->n_launches; l++) {
        const float narrow = (float)factor;
        uint32_t chunk = 0, chunks = 0;
        for (int i = a->launches[l].first; i < a->launches[l].end && i < end; i++) {
            const uint32_t n = (uint32_t)divide_up(a->segments[i].count, OPTIMIZER_CHUNK);
            if (i < from)
                chunk += n;
            else
                chunks += n;
        }
        if (!chunks) continue;
        words_clear(k);
        memcpy(&k->words[WIRE_FACTOR], &narrow, sizeof narrow);
        k->words[WIRE_ADDS] = !first;
        k->words[WIRE_CHUNK] = chunk;
        k->words[WIRE_CHUNKS] = chunks;
        TRY(submit(k, add_step(k, l, sum, joins), 1, false, e));
    }
    return true;
}

/* Chunks of a launch that have something of a bucket: the first, and how many. */
static uint32_t chunks_of(const struct arena *a, const struct launch_range *l, const struct bucket_place *place,
                          uint64_t count, uint32_t *chunk)
{
    uint32_t before = 0, chunks = 0;
    for (int i = l->first; i < l->end; i++) {
        const struct segment *s = &a->segments[i];
        const uint64_t end = place->at + count;
        uint64_t from = place->at > s->at ? place->at - s->at : 0, to = end > s->at ? end - s->at : 0;
        if (to > s->count) to = s->count;
        if (from < to && s->slab == place->slab) {
            if (!chunks) *chunk = before + (uint32_t)(from / OPTIMIZER_CHUNK);
            chunks = before + (uint32_t)divide_up(to, OPTIMIZER_CHUNK) - *chunk;
        }
        before += (uint32_t)divide_up(s->count, OPTIMIZER_CHUNK);
    }
    return chunks;
}

bool bucket_kernels_take(struct bucket_kernels *k, const struct bucket_place *place, double factor,
                         const struct bucket_message *message, struct error *e)
{
    const struct arena *a = k->arena;
    const float narrow = (float)factor;
    for (int l = 0; l < a->n_launches; l++) {
        uint32_t chunk = 0;
        const uint32_t chunks = chunks_of(a, &a->launches[l], place, message->count, &chunk);
        if (!chunks) continue;
        words_place(k, place, message, 1);
        k->words[WIRE_AT] -= (uint32_t)(a->launches[l].state.begin / 4);
        memcpy(&k->words[WIRE_FACTOR], &narrow, sizeof narrow);
        k->words[WIRE_CHUNK] = chunk;
        k->words[WIRE_CHUNKS] = chunks;
        TRY(submit(k, take_step(k, l), 1, true, e));
    }
    return true;
}

bool bucket_kernels_pack(struct bucket_kernels *k, const struct bucket_place *place, int sum, bool floats,
                         const struct bucket_message *messages, uint32_t count, struct error *e)
{
    const int first = pack_step(k, place->slab, sum), packs = 1 + k->scans;
    if (!count) return true;
    words_place(k, place, messages, count);
    return floats ? submit(k, first + packs, 1, false, e) : submit(k, first, packs, true, e);
}

bool bucket_kernels_sum(struct bucket_kernels *k, const struct bucket_place *place,
                        const struct bucket_operation *operations, uint32_t count, const struct bucket_message *message,
                        bool packs, struct error *e)
{
    const uint32_t at = WIRE_TABLE + MESSAGE_WORDS * k->desc.processes;
    words_place(k, place, message, 1);
    k->words[WIRE_SUM_FIRST] = (uint32_t)message->first;
    k->words[WIRE_SUM_COUNT] = (uint32_t)message->count;
    k->words[WIRE_OPERATIONS] = count;
    k->words[WIRE_OPERATIONS_AT] = at;
    for (uint32_t i = 0; i < count; i++) {
        k->words[at + OPERATION_WORDS * i] = operations[i].kind;
        k->words[at + OPERATION_WORDS * i + 1] = (uint32_t)operations[i].at;
    }
    return submit(k, sum_step(k, place->slab), packs ? 2 : 1, packs, e);
}

bool bucket_kernels_unpack(struct bucket_kernels *k, const struct bucket_place *place,
                           const struct bucket_message *messages, uint32_t count, struct error *e)
{
    if (!count) return true;
    words_place(k, place, messages, count);
    return submit(k, sum_step(k, place->slab) + 2, 1, false, e);
}
