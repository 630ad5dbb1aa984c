/* What becomes of a bucket. */
#include "train/buckets_slot.h"

#include <string.h>

#include "train/wire.h"

static bool memory_grow(const struct host *host, struct slot_memory *m, uint64_t size, struct error *e)
{
    if (size <= m->size) return true;
    host_free(host, m->bytes);
    m->size = 0;
    m->bytes = host_alloc_unset(host, (size_t)size, 1, e);
    if (m->bytes) m->size = size;
    return m->bytes != NULL;
}

void slot_free(const struct host *host, struct slot *slot)
{
    host_free(host, slot->parts.bytes);
    host_free(host, slot->others.bytes);
    host_free(host, slot->whole.bytes);
    host_free(host, slot->wire.bytes);
}

/* ---- who has what ---- */

/* Process p sums the floats from slice(p) to, without, slice(p + 1). */
static uint64_t slice(const struct bucket_step *step, const struct slot *slot, uint32_t p)
{
    return slot->floats * p / step->exchange->of.processes;
}

static uint64_t slice_floats(const struct bucket_step *step, const struct slot *slot, uint32_t p)
{
    return slice(step, slot, p + 1) - slice(step, slot, p);
}

static uint64_t parts_there(const struct bucket_step *step, uint32_t process)
{
    const struct tree *tree = &step->trees[process];
    uint64_t n = 0;
    for (int i = 0; i < tree->n; i++) n += tree->parts[i].there;
    return n;
}

static float *own_part(const struct slot *slot, uint64_t n) { return (float *)slot->parts.bytes + n * slot->floats; }

static uint64_t rows_touched(const struct bucket_step *step, const struct bucket *b)
{
    uint64_t n = 0;
    for (uint64_t r = 0; r < b->count / b->row; r++) n += step->touched[b->first_row + r];
    return n;
}

/* ---- from and to the device ---- */

static void rows_take(const struct bucket_step *step, const struct bucket *b, const float *whole, float *to)
{
    for (uint64_t r = 0; r < b->count / b->row; r++) {
        if (!step->touched[b->first_row + r]) continue;
        memcpy(to, whole + r * b->row, b->row * sizeof *to);
        to += b->row;
    }
}

static void rows_put(const struct bucket_step *step, const struct bucket *b, const float *from, float *whole)
{
    memset(whole, 0, b->count * sizeof *whole);
    for (uint64_t r = 0; r < b->count / b->row; r++) {
        if (!step->touched[b->first_row + r]) continue;
        memcpy(whole + r * b->row, from, b->row * sizeof *whole);
        from += b->row;
    }
}

bool slot_read(struct bucket_step *step, struct slot *slot, const struct bucket *b, struct error *e)
{
    const struct host *host = step->exchange->host;
    const struct tree *tree = &step->trees[step->exchange->of.process];
    uint64_t n = parts_there(step, step->exchange->of.process), part = 0;
    slot->bucket = b;
    slot->floats = b->row ? rows_touched(step, b) * b->row : b->count;
    TRY(memory_grow(host, &slot->parts, (n ? n : 1) * slot->floats * sizeof(float), e));
    if (b->row) TRY(memory_grow(host, &slot->whole, b->count * sizeof(float), e));
    for (int i = 0; i < tree->n && slot->floats; i++) {
        float *own = own_part(slot, part), *to = b->row ? slot->whole.bytes : own;
        if (!tree->parts[i].there) continue;
        TRY(optimizer_sum_read(step->optimizer, i, b->slab, b->at, to, b->count, e));
        if (b->row) rows_take(step, b, to, own);
        part++;
    }
    return true;
}

bool slot_write(struct bucket_step *step, struct slot *slot, struct error *e)
{
    const struct bucket *b = slot->bucket;
    const float *sums = own_part(slot, 0);
    if (step->wire == WHERRY_WIRE_F16) {
        const char *at = slot->wire.bytes;
        for (uint32_t p = 0; p < step->exchange->of.processes; p++) {
            wire_decode(at, own_part(slot, 0) + slice(step, slot, p), slice_floats(step, slot, p));
            at += wire_bytes(slice_floats(step, slot, p));
        }
    }
    if (b->row) {
        rows_put(step, b, sums, slot->whole.bytes);
        sums = slot->whole.bytes;
    }
    return optimizer_sum_write(step->optimizer, b->slab, b->at, sums, b->count, e);
}

/* ---- messages ---- */

static uint64_t message_bytes(const struct bucket_step *step, uint64_t floats)
{
    return step->wire == WHERRY_WIRE_F16 ? wire_bytes(floats) : floats * sizeof(float);
}

bool slot_scatter(struct bucket_step *step, struct slot *slot, struct error *e)
{
    struct exchange *x = step->exchange;
    uint32_t own = x->of.process, n = x->of.processes;
    uint64_t parts = parts_there(step, own), others = 0, each = message_bytes(step, slice_floats(step, slot, own));
    for (uint32_t p = 0; p < n; p++) others += p == own ? 0 : parts_there(step, p);
    TRY(memory_grow(x->host, &slot->others, others * each + 1, e));
    if (step->wire == WHERRY_WIRE_F16)
        TRY(memory_grow(x->host, &slot->wire, (parts + 1) * (slot->floats * 2 + 16 * (uint64_t)n), e));
    char *to = slot->others.bytes, *wire = slot->wire.bytes;
    for (uint32_t p = 0; p < n; p++)
        for (uint64_t i = 0; p != own && i < parts_there(step, p); i++, to += each) exchange_receive(x, p, to, each);
    for (uint32_t k = 1; k < n; k++) {
        uint32_t p = (own + k) % n;
        for (uint64_t i = 0; i < parts; i++) {
            const float *from = own_part(slot, i) + slice(step, slot, p);
            uint64_t bytes = message_bytes(step, slice_floats(step, slot, p));
            if (step->wire == WHERRY_WIRE_F16) wire_encode(from, slice_floats(step, slot, p), wire);
            exchange_send(x, p, step->wire == WHERRY_WIRE_F16 ? wire : (const void *)from, bytes);
            wire += step->wire == WHERRY_WIRE_F16 ? bytes : 0;
        }
    }
    return exchange_start(x, e);
}

bool slot_gather(struct bucket_step *step, struct slot *slot, struct error *e)
{
    struct exchange *x = step->exchange;
    uint32_t own = x->of.process, n = x->of.processes;
    char *wire = slot->wire.bytes, *own_wire = NULL;
    for (uint32_t p = 0; p < n; p++) {
        uint64_t bytes = message_bytes(step, slice_floats(step, slot, p));
        if (p == own) own_wire = wire;
        if (p != own) exchange_receive(x, p, wire ? wire : (void *)(own_part(slot, 0) + slice(step, slot, p)), bytes);
        wire += wire ? bytes : 0;
    }
    float *sums = own_part(slot, 0) + slice(step, slot, own);
    if (own_wire) wire_encode(sums, slice_floats(step, slot, own), own_wire);
    for (uint32_t k = 1; k < n; k++)
        exchange_send(x, (own + k) % n, own_wire ? own_wire : (const void *)sums,
                      message_bytes(step, slice_floats(step, slot, own)));
    return exchange_start(x, e);
}

/* ---- sums ---- */

static void floats_add(float *restrict to, const float *restrict from, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) to[i] += from[i];
}

/* The floats of what was received from others: decoded in place of the bits, from the last one on. */
static float *received(const struct bucket_step *step, struct slot *slot, uint64_t number, uint64_t count, float *room)
{
    char *at = (char *)slot->others.bytes + number * message_bytes(step, count);
    if (step->wire == WHERRY_WIRE_F32) return (float *)(void *)at;
    wire_decode(at, room + number * count, count);
    return room + number * count;
}

bool slot_sum(struct bucket_step *step, struct slot *slot, struct error *e)
{
    struct exchange *x = step->exchange;
    uint32_t own = x->of.process, n = x->of.processes;
    uint64_t count = slice_floats(step, slot, own), others = 0, begin = 0;
    struct tree tree = {.n = 0};
    float *at[2 * TREE_PARTS_MOST], *to = own_part(slot, 0) + slice(step, slot, own);
    bool adds, first;
    for (uint32_t p = 0; p < n; p++) others += p == own ? 0 : parts_there(step, p);
    if (step->wire == WHERRY_WIRE_F16) TRY(memory_grow(x->host, &slot->whole, others * count * sizeof(float) + 1, e));
    /* From the last shards to the first; numbers of what was received are those of the processes' order. */
    for (uint32_t p = n; p-- > 0;) {
        const struct tree *parts = &step->trees[p];
        uint64_t number = 0;
        begin = 0;
        for (uint32_t q = 0; q < p; q++) begin += q == own ? 0 : parts_there(step, q);
        for (int i = 0; i < parts->n; i++) {
            at[tree.n] = NULL;
            if (parts->parts[i].there) {
                at[tree.n] = p == own ? own_part(slot, number) + slice(step, slot, own)
                                      : received(step, slot, begin + number, count, slot->whole.bytes);
                number++;
            }
            tree_add(&tree, parts->parts[i]);
            while (tree_join(&tree, &adds, &first)) {
                if (adds && !first) floats_add(at[tree.n - 1], at[tree.n], count);
                if (adds && first) at[tree.n - 1] = at[tree.n];
            }
        }
    }
    while (tree_close(&tree, &adds, &first)) {
        if (adds && !first) floats_add(at[tree.n - 1], at[tree.n], count);
        if (adds && first) at[tree.n - 1] = at[tree.n];
    }
    if (count && at[0] != to) memcpy(to, at[0], count * sizeof *to);
    return true;
}
