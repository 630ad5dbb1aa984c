/* Buckets of gradients: how the arena is divided, and the pipeline through which they go, all of a piece of the
 * backward pass together. They are packed when the piece that makes their gradients is submitted, and go on when the
 * next pieces are, a turn with each, so that the device has a piece to compute while the host waits for what stands
 * before it in the queue. What a group's turn waits for was started with the turn before:
 *
 *   group      n    tells of its parts
 *   group  n - 1    has heard of the others', is summed
 *   group  n - 3    tells of its sums
 *   group  n - 4    has heard of the others', is written
 *
 * Two processes, which send each other whole buckets, are done when a group is summed. Behind the last piece there is
 * nothing to compute: its buckets are small, and groups of their own. */
#include "train/buckets.h"

#include <inttypes.h>
#include <string.h>

#include "base/exchange_shape.h"
#include "base/index.h"
#include "base/platform.h"
#include "base/round.h"
#include "runtime/backward.h"
#include "runtime/device_memory.h"
#include "runtime/train.h"
#include "train/arena.h"
#include "train/buckets_slot.h"

/* AHEAD: pieces that are submitted beyond the one whose groups tell, where those of two processes do. */
enum { SLOTS = 12, SLOTS_WHOLE_LEAST = 6, AHEAD = 2 };

struct bucket_group {
    int first, end, piece; /* buckets; behind which piece they are there */
};

struct buckets {
    struct buckets_desc desc;
    const struct host *host;
    const struct arena *arena;
    struct bucket *of; /* [n], in the order of pieces */
    int n;
    struct bucket_group *groups; /* [n_groups] */
    int n_groups, packed, told;  /* those before it are */
    int *pieces;                 /* [segments of the arena] */
    bool *by_rows;               /* likewise: of the table, whose touched rows alone go */
    struct slot slots[SLOTS];
    int n_slots, first_slot; /* first_slot: of this step's first bucket */
    uint32_t *list;          /* [desc.rows]: of the table, that the step touches */
    struct bucket_step step;
    void *memory;           /* of the host, this process' own; NULL: it is the exchange's */
    struct pinned **pinned; /* [processes] */
    uint64_t begin, computed;
};

const struct schedule *buckets_schedule(const struct buckets *b, struct program **program)
{
    return bucket_kernels_schedule(b->step.kernels, program);
}

/* ---- the division ---- */

static bool bucket_add(struct buckets *b, size_t *room, const struct bucket *bucket, struct error *e)
{
    void *grown = host_grow_one(b->host, b->of, (size_t)b->n, room, sizeof *bucket, e);
    if (!grown) return false;
    b->of = grown;
    b->of[b->n++] = *bucket;
    return true;
}

/* Floats of a row of the table, where the segment is of whole rows; 0: it is exchanged as it is. */
static uint64_t row_of(const struct buckets *b, const struct segment *segment, uint64_t elements)
{
    uint64_t row = b->desc.rows ? elements / b->desc.rows : 0;
    if (segment->tensor != b->desc.table || !row || segment->first % row || segment->count % row) return 0;
    return row;
}

/* A segment of the table, or one that is larger than a bucket, has its own; else it goes with the one before, where
 * that one's gradients are there as early. */
static bool segment_divide(struct buckets *b, size_t *room, int index, uint64_t row, struct error *e)
{
    const struct segment *segment = &b->arena->segments[index];
    const bool ends = b->pieces[index] == b->desc.session->n_pieces - 1;
    uint64_t most = b->desc.bytes / sizeof(float) / (ends ? EXCHANGE_LAST_PARTS : 1) / SEGMENT_ROUND * SEGMENT_ROUND,
             end = segment->at + segment->count, count;
    struct bucket *last = b->n ? &b->of[b->n - 1] : NULL;
    if (row) most = most < row ? row : most / row * row;
    if (!row && last && !last->row && last->slab == segment->slab && last->piece == b->pieces[index] &&
        end - last->at <= most) {
        last->count = end - last->at;
        last->end = index + 1;
        return true;
    }
    for (uint64_t at = segment->at; at < end; at += count) {
        count = end - at < most ? end - at : most;
        const struct bucket bucket = {.slab = segment->slab,
                                      .at = at,
                                      .count = count,
                                      .piece = b->pieces[index],
                                      .first = index,
                                      .end = index + 1,
                                      .row = row,
                                      .first_row = row ? (segment->first + at - segment->at) / row : 0};
        TRY(bucket_add(b, room, &bucket, e));
    }
    return true;
}

/* By pieces, those of one as they were. */
static void order(struct buckets *b)
{
    for (int i = 1; i < b->n; i++) {
        const struct bucket moved = b->of[i];
        int to = i;
        for (; to && b->of[to - 1].piece > moved.piece; to--) b->of[to] = b->of[to - 1];
        b->of[to] = moved;
    }
}

/* Those of adapters are made of the session's when it has all. */
static int piece_of(const struct buckets *b, size_t tensor)
{
    const int gradient = session_gradient(b->desc.session, tensor);
    return gradient < 0 ? b->desc.session->n_pieces - 1 : backward_piece_of(b->desc.session, gradient);
}

static bool divide(struct buckets *b, struct error *e)
{
    const struct arena *a = b->arena;
    uint64_t elements = 0; /* of the table */
    size_t room = 0;
    if (!(b->pieces = host_alloc(b->host, (size_t)a->n_segments, sizeof *b->pieces, e)) ||
        !(b->by_rows = host_alloc(b->host, (size_t)a->n_segments, sizeof *b->by_rows, e)))
        return false;
    for (int i = 0; i < a->n_segments; i++) {
        const size_t tensor = a->segments[i].tensor;
        b->pieces[i] = i && tensor == a->segments[i - 1].tensor ? b->pieces[i - 1] : piece_of(b, tensor);
        if (tensor == b->desc.table) elements += a->segments[i].count;
    }
    for (int i = 0; i < a->n_segments; i++) {
        const uint64_t row = row_of(b, &a->segments[i], elements);
        b->by_rows[i] = row > 0;
        TRY(segment_divide(b, &room, i, row, e));
    }
    order(b);
    return true;
}

uint64_t buckets_hash(const struct buckets *b, uint64_t hash)
{
    for (int i = 0; i < b->n; i++) {
        const struct bucket *of = &b->of[i];
        const uint64_t place[] = {(uint64_t)of->slab, of->at, of->count, (uint64_t)of->piece, (uint64_t)b->n_slots};
        hash = hash_bytes(hash, place, sizeof place);
    }
    return hash;
}

/* ---- memory ---- */

static uint64_t floats_most(const struct buckets *b)
{
    uint64_t most = 0;
    for (int i = 0; i < b->n; i++)
        if (b->of[i].count > most) most = b->of[i].count;
    return most;
}

/* Turns from a group's own to its last one. */
static int stages(const struct buckets *b) { return b->step.layout.whole ? EXCHANGE_SUMMED : EXCHANGE_WRITTEN; }

/* Buckets that may be packed and not told of, at a time. Of whole ones so few that when bucket n's slot is to be used
 * again one was heard of that was packed after n was summed: packed at most so many buckets ahead, it is among the next
 * ahead + 1 behind n, and heard of two turns after its own. */
static int ahead_most(const struct buckets *b) { return b->step.layout.whole ? (b->n_slots - 4) / 2 : b->n_slots; }

static struct slot *slot_of(struct buckets *b, int bucket) { return &b->slots[(b->first_slot + bucket) % b->n_slots]; }

/* As many as fit one argument of a kernel: of one bucket each, one for each stage at least. */
static bool slots_make(struct buckets *b, struct error *e)
{
    const struct wherry_device *device = b->desc.session->device;
    const struct device_limits *limits = device->backend->limits(device->handle);
    const uint64_t most =
        limits->max_buffer_bytes < limits->max_binding_bytes ? limits->max_buffer_bytes : limits->max_binding_bytes;
    b->step.layout = slot_layout_of(floats_most(b), b->desc.exchange->of.processes, 1 + b->arena->sums, b->desc.wire);
    b->n_slots = SLOTS;
    const int least = b->step.layout.whole ? SLOTS_WHOLE_LEAST : EXCHANGE_WRITTEN + 1;
    while (b->n_slots > least && (uint64_t)b->n_slots * b->step.layout.words * 4 > most) b->n_slots--;
    for (int i = 0; i < SLOTS; i++) b->slots[i].number = i;
    return (uint64_t)b->n_slots * b->step.layout.words * 4 <= most ||
           fail(e, WHERRY_STATUS_UNSUPPORTED,
                "messages of gradients are larger than an argument of a kernel on this device: give smaller "
                "wherry_trainer_desc.bucket_bytes");
}

/* Buckets of a piece go together, but those of the last one. */
static bool groups_make(struct buckets *b, struct error *e)
{
    const int most = b->step.layout.whole ? 1 : b->n_slots / (EXCHANGE_WRITTEN + 1);
    if (!(b->groups = host_alloc(b->host, (size_t)b->n, sizeof *b->groups, e))) return false;
    for (int i = 0; i < b->n; i++) {
        struct bucket_group *last = b->n_groups ? &b->groups[b->n_groups - 1] : NULL;
        const int piece = b->of[i].piece, at_most = piece == b->of[b->n - 1].piece ? 1 : most;
        if (!last || last->piece != piece || i - last->first >= at_most)
            b->groups[b->n_groups++] = (struct bucket_group){.first = i, .piece = piece};
        b->groups[b->n_groups - 1].end = i + 1;
    }
    return true;
}

/* This process' memory, and of the others' what this host has, all pinned. */
static bool memory_share(struct buckets *b, uint64_t bytes, struct error *e)
{
    struct exchange *x = b->desc.exchange;
    const uint32_t own = x->of.process, n = x->of.processes;
    void **memory = host_alloc(b->host, n, sizeof *memory, e);
    bool ok = memory && (!x->of.share || exchange_share(x, (size_t)bytes, memory, e));
    if (ok && !memory[own]) {
        b->memory = host_alloc_unset(b->host, (size_t)(bytes + COPIES_PAGE), 1, e);
        memory[own] = (char *)b->memory + (COPIES_PAGE - (uintptr_t)b->memory % COPIES_PAGE) % COPIES_PAGE;
        ok = b->memory != NULL;
    }
    for (uint32_t p = 0; ok && p < n; p++) {
        b->step.memory[p] = memory[p];
        x->times.sharing += p != own && memory[p];
        if (memory[p]) ok = device_pin(b->desc.session->device, memory[p], bytes, &b->pinned[p], e);
    }
    host_free(b->host, memory);
    return ok;
}

static bool lists_make(struct buckets *b, struct error *e)
{
    const struct host *host = b->host;
    struct bucket_step *s = &b->step;
    const size_t n = b->desc.exchange->of.processes, parts = (size_t)s->layout.parts, rows = b->desc.rows;
    return (s->memory = host_alloc(host, n, sizeof *s->memory, e)) &&
           (b->pinned = host_alloc(host, n, sizeof *b->pinned, e)) &&
           (s->trees = host_alloc(host, n, sizeof *s->trees, e)) &&
           (s->heard = host_alloc(host, n, sizeof *s->heard, e)) &&
           (s->messages = host_alloc(host, n, sizeof *s->messages, e)) &&
           (s->operations = host_alloc(host, 2 * n * parts, sizeof *s->operations, e)) &&
           (s->copies = host_alloc(host, n * parts, sizeof *s->copies, e)) &&
           (s->rows_before = host_alloc(host, rows + 1, sizeof *s->rows_before, e)) &&
           (b->list = host_alloc(host, rows + 1, sizeof *b->list, e));
}

static struct bucket_kernels_desc kernels_desc(const struct buckets *b)
{
    return (struct bucket_kernels_desc){.session = b->desc.session,
                                        .optimizer = b->desc.optimizer,
                                        .wire = b->desc.wire,
                                        .processes = b->desc.exchange->of.processes,
                                        .words = (uint64_t)b->n_slots * b->step.layout.words,
                                        .rows = b->desc.rows};
}

uint64_t buckets_bytes(const struct buckets *b)
{
    if (!b) return 0;
    const struct bucket_kernels_desc desc = kernels_desc(b);
    return bucket_kernels_bytes(&desc);
}

static bool make(struct buckets *b, struct error *e)
{
    TRY(divide(b, e) && slots_make(b, e) && groups_make(b, e) && lists_make(b, e));
    const struct bucket_kernels_desc desc = kernels_desc(b);
    struct wherry_device *device = b->desc.session->device;
    mutex_enter(&device->weights.memory);
    const bool fits = device_has_bytes(device, bucket_kernels_bytes(&desc), "messages between processes", e);
    mutex_leave(&device->weights.memory);
    return fits && (b->step.kernels = bucket_kernels_create(&desc, e)) &&
           memory_share(b, round_up(4 * desc.words, COPIES_PAGE), e);
}

struct buckets *buckets_create(const struct buckets_desc *desc, struct error *e)
{
    const struct host *host = desc->exchange->host;
    struct buckets *b = host_alloc(host, 1, sizeof *b, e);
    if (!b) return NULL;
    b->desc = *desc;
    b->host = host;
    b->arena = optimizer_arena(desc->optimizer);
    if (!b->desc.bytes) b->desc.bytes = EXCHANGE_BUCKET_BYTES;
    b->step.device = desc->session->device;
    b->step.exchange = desc->exchange;
    b->step.wire = desc->wire;
    if (make(b, e)) return b;
    buckets_destroy(b);
    return NULL;
}

void buckets_destroy(struct buckets *b)
{
    if (!b) return;
    const struct host *host = b->host;
    struct bucket_step *s = &b->step;
    bucket_kernels_destroy(s->kernels);
    for (uint32_t p = 0; b->pinned && p < b->desc.exchange->of.processes; p++) device_unpin(s->device, b->pinned[p]);
    void *memory[] = {s->memory, b->pinned, s->trees,  s->heard,  s->messages,    s->operations, s->copies,
                      b->list,   b->of,     b->pieces, b->memory, s->rows_before, b->groups,     b->by_rows};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) host_free(host, memory[i]);
    host_free(host, b);
}

/* ---- a step ---- */

bool buckets_begin(struct buckets *b, size_t shards, const bool *there, const bool *touched, struct error *e)
{
    struct bucket_step *s = &b->step;
    const uint32_t n = s->exchange->of.processes;
    const struct tree *own = &s->trees[s->exchange->of.process];
    for (uint32_t p = 0; p < n; p++) tree_of(shards, p, n, there, &s->trees[p]);
    b->packed = b->told = 0;
    s->takes = false;
    b->begin = b->computed = 0;
    if (!b->desc.rows) return true;
    for (size_t r = 0; r < b->desc.rows; r++) {
        if (touched[r]) b->list[s->rows_before[r]] = (uint32_t)r;
        s->rows_before[r + 1] = s->rows_before[r] + touched[r];
    }
    /* Rows that nobody touched are 0 where this process has a gradient of its own. */
    if (!own->n || !own->parts[0].there) TRY(optimizer_sums_clear(b->desc.optimizer, e));
    return bucket_kernels_list(s->kernels, b->list, s->rows_before[b->desc.rows], e);
}

/* Of each bucket of a group, in their order; no group has nothing to do. */
static bool group_each(struct buckets *b, const struct bucket_group *group,
                       bool (*stage)(struct bucket_step *step, struct slot *slot, struct error *e), struct error *e)
{
    for (int i = group ? group->first : 0; group && i < group->end; i++) TRY(stage(&b->step, slot_of(b, i), e));
    return true;
}

/* The next group's turn to tell, or none is left, and what those before it wait for. */
static bool turn(struct buckets *b, struct error *e)
{
    const int n = b->told++, last = b->groups[b->n_groups - 1].piece;
    const struct bucket_group *of[EXCHANGE_WRITTEN + 1] = {NULL};
    for (int k = 0; k <= stages(b); k++) of[k] = n - k >= 0 && n - k < b->n_groups ? &b->groups[n - k] : NULL;
    TRY(group_each(b, of[0], slot_scatter, e));
    if (of[0] && of[0]->piece == last && !b->computed) b->computed = clock_ns();
    if (of[0]) TRY(bucket_step_start(&b->step, e));
    if (of[EXCHANGE_SUMMED]) TRY(exchange_finish(b->desc.exchange, e));
    TRY(group_each(b, of[EXCHANGE_SUMMED], slot_sum, e) && group_each(b, of[EXCHANGE_TOLD], slot_gather, e));
    if (of[EXCHANGE_TOLD]) TRY(bucket_step_start(&b->step, e));
    if (of[EXCHANGE_WRITTEN]) TRY(exchange_finish(b->desc.exchange, e));
    return group_each(b, of[EXCHANGE_WRITTEN], slot_write, e);
}

/* Buckets before it are written. */
static int written(const struct buckets *b) { return b->told > stages(b) ? b->groups[b->told - stages(b)].first : 0; }

/* Those of pieces before this one. */
static bool pack(struct buckets *b, int pieces, struct error *e)
{
    for (; b->packed < b->n_groups && b->groups[b->packed].piece < pieces; b->packed++) {
        const struct bucket_group *group = &b->groups[b->packed];
        while (group->end - written(b) > b->n_slots || b->packed - b->told >= ahead_most(b)) TRY(turn(b, e));
        if (!b->packed) b->begin = clock_ns();
        for (int i = group->first; i < group->end; i++) TRY(slot_pack(&b->step, slot_of(b, i), &b->of[i], e));
    }
    return true;
}

/* Whether a segment's gradients are added to the sum when their piece is there, or taken from where they are. */
static bool adds(const struct buckets *b, int segment, int piece)
{
    return b->pieces[segment] == piece && (!b->step.takes || b->by_rows[segment]);
}

/* The gradients of a piece: runs of segments of it. */
static bool add(struct buckets *b, int piece, const struct tree *tree, double factor, struct error *e)
{
    const int n = b->arena->n_segments;
    for (int first = 0, end; first < n; first = end) {
        for (end = first; end < n && adds(b, end, piece) == adds(b, first, piece);) end++;
        if (!adds(b, first, piece)) continue;
        struct tree joined = *tree;
        const struct tree_part *last = &joined.parts[joined.n - 1];
        bool joins, empty;
        TRY(bucket_kernels_add(b->step.kernels, first, end, joined.n - 1, false, !last->there, factor, e));
        joined.parts[joined.n - 1].there = true;
        while (tree_join(&joined, &joins, &empty))
            if (joins) TRY(bucket_kernels_add(b->step.kernels, first, end, joined.n, true, empty, 1, e));
    }
    return true;
}

bool buckets_go_on(struct buckets *b, int piece, const struct tree *tree, double factor, struct error *e)
{
    if (piece + 1 == b->desc.session->n_pieces) TRY(adapters_differentiate(b->arena->adapters, e));
    b->step.takes =
        b->step.layout.whole && bucket_kernels_takes(b->step.kernels) && tree->n == 1 && !tree->parts->there;
    b->step.factor = factor;
    TRY(add(b, piece, tree, factor, e) && pack(b, piece + 1, e));
    const int ahead = b->step.layout.whole ? AHEAD : 1;
    while (b->told < b->packed && b->groups[b->told].piece + ahead <= piece) TRY(turn(b, e));
    return true;
}

bool buckets_finish(struct buckets *b, struct error *e)
{
    wherry_exchange_times *times = &b->desc.exchange->times;
    const bool hidden = b->packed > 0;
    if (!hidden) b->begin = clock_ns();
    TRY(pack(b, b->desc.session->n_pieces, e));
    while (b->told < b->n_groups + stages(b)) TRY(turn(b, e));
    b->first_slot = (b->first_slot + b->n) % b->n_slots;
    const uint64_t end = clock_ns();
    times->seconds += (double)(end - b->begin) * 1e-9;
    times->exposed_seconds += (double)(end - (hidden ? b->computed : b->begin)) * 1e-9;
    times->steps++;
    return optimizer_sums_written(b->desc.optimizer, e);
}
