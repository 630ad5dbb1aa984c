/* Buckets of gradients: how the arena is divided, and the pipeline through which they go. While one is read from the
 * device, the messages of those before it are under way: first every process sends each other one its parts of what
 * that one sums (scatter), then each sends all others the sums (gather). */
#include "train/buckets.h"

#include <string.h>

#include "train/arena.h"
#include "train/buckets_slot.h"

enum { BUCKET_BYTES = 16 << 20 };

struct buckets {
    struct buckets_desc desc;
    const struct host *host;
    struct bucket *of;            /* [n], in the arena's order */
    int n, read, summed, written; /* those before it are */
    struct slot slots[SLOTS];
    struct bucket_step step;
};

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

/* A segment of the table, or one that is larger than a bucket, has its own; else it goes with the one before. */
static bool segment_divide(struct buckets *b, size_t *room, const struct segment *segment, uint64_t row,
                           struct error *e)
{
    uint64_t most = b->desc.bytes / sizeof(float), end = segment->at + segment->count, count;
    struct bucket *last = b->n ? &b->of[b->n - 1] : NULL;
    if (row) most = most < row ? row : most / row * row;
    if (!row && last && !last->row && last->slab == segment->slab && end - last->at <= most) {
        last->count = end - last->at;
        last->tensor = segment->tensor;
        return true;
    }
    for (uint64_t at = segment->at; at < end; at += count) {
        count = end - at < most ? end - at : most;
        const struct bucket bucket = {.slab = segment->slab,
                                      .at = at,
                                      .count = count,
                                      .tensor = segment->tensor,
                                      .row = row,
                                      .first_row = row ? (segment->first + at - segment->at) / row : 0};
        TRY(bucket_add(b, room, &bucket, e));
    }
    return true;
}

static bool divide(struct buckets *b, struct error *e)
{
    const struct arena *a = optimizer_arena(b->desc.optimizer);
    uint64_t elements = 0; /* of the table */
    size_t room = 0;
    for (int i = 0; i < a->n_segments; i++)
        if (a->segments[i].tensor == b->desc.table) elements += a->segments[i].count;
    for (int i = 0; i < a->n_segments; i++)
        TRY(segment_divide(b, &room, &a->segments[i], row_of(b, &a->segments[i], elements), e));
    return true;
}

struct buckets *buckets_create(const struct buckets_desc *desc, struct error *e)
{
    const struct host *host = desc->exchange->host;
    struct buckets *b = host_alloc(host, 1, sizeof *b, e);
    if (!b) return NULL;
    b->desc = *desc;
    b->host = host;
    if (!b->desc.bytes) b->desc.bytes = BUCKET_BYTES;
    b->step = (struct bucket_step){.exchange = desc->exchange, .optimizer = desc->optimizer, .wire = desc->wire};
    b->step.trees = host_alloc(host, desc->exchange->of.processes, sizeof *b->step.trees, e);
    b->step.touched = host_alloc(host, desc->rows ? desc->rows : 1, sizeof *b->step.touched, e);
    if (b->step.trees && b->step.touched && divide(b, e)) return b;
    buckets_destroy(b);
    return NULL;
}

void buckets_destroy(struct buckets *b)
{
    if (!b) return;
    const struct host *host = b->host;
    for (int i = 0; i < SLOTS; i++) slot_free(host, &b->slots[i]);
    host_free(host, b->step.trees);
    host_free(host, b->step.touched);
    host_free(host, b->of);
    host_free(host, b);
}

/* ---- a step ---- */

void buckets_begin(struct buckets *b, size_t shards, const bool *there, const bool *touched)
{
    uint32_t n = b->desc.exchange->of.processes;
    for (uint32_t p = 0; p < n; p++) tree_of(shards, p, n, there, &b->step.trees[p]);
    if (b->desc.rows) memcpy(b->step.touched, touched, b->desc.rows * sizeof *touched);
    b->read = b->summed = b->written = 0;
}

static bool sum_next(struct buckets *b, struct error *e)
{
    struct slot *slot = &b->slots[b->summed++ % SLOTS];
    return exchange_finish(b->desc.exchange, true, e) && slot_sum(&b->step, slot, e) && slot_gather(&b->step, slot, e);
}

static bool write_next(struct buckets *b, struct error *e)
{
    struct slot *slot = &b->slots[b->written++ % SLOTS];
    return exchange_finish(b->desc.exchange, true, e) && slot_write(&b->step, slot, e);
}

bool buckets_go_on(struct buckets *b, size_t tensors, struct error *e)
{
    while (b->read < b->n && b->of[b->read].tensor < tensors) {
        struct slot *slot = &b->slots[b->read % SLOTS];
        TRY(slot_read(&b->step, slot, &b->of[b->read], e) && slot_scatter(&b->step, slot, e));
        b->read++;
        if (b->summed < b->read - 1) TRY(sum_next(b, e));
        if (b->written < b->read - 2) TRY(write_next(b, e));
    }
    return true;
}

bool buckets_finish(struct buckets *b, struct error *e)
{
    TRY(buckets_go_on(b, SIZE_MAX, e));
    if (b->summed < b->n) TRY(sum_next(b, e));
    while (b->written < b->n) TRY(write_next(b, e));
    b->desc.exchange->times.steps++;
    return true;
}
