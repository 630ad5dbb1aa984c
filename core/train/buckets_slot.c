/* What becomes of a bucket. Where another process' memory is this host's, messages are read from there by the device
 * itself, and what is sent is a sign that they are there. That they were read follows from the signs that come back: a
 * process tells of its sums after it has read the parts, and of a later bucket's parts in the same slot after it has
 * read the sums.
 *
 * Two processes send each other all of a bucket. What one has packed after it began to sum bucket n, and told of, says
 * that it has read n; so both pack only few buckets ahead of those that they told of, and the slot of n is used again
 * when such a one was heard of (buckets.c). What a process has itself is summed from its own message, so that both sum
 * the same floats. */
#include "train/buckets_slot.h"

#include "base/exchange_shape.h"
#include "base/platform.h"
#include "base/round.h"
#include "interface/wire.h"

enum { SLICE_ROUND = 64 }; /* floats: messages are read and written in vectors */

static const uint64_t sign = 1;

/* ---- places ---- */

static uint64_t message_words(wherry_wire wire, uint64_t floats)
{
    return wire != WHERRY_WIRE_F32 ? WIRE_ROUND + round_up((floats + 1) / 2, WIRE_ROUND) : round_up(floats, WIRE_ROUND);
}

struct slot_layout slot_layout_of(uint64_t floats, uint32_t processes, int parts, wherry_wire wire)
{
    const bool whole = exchange_whole(processes);
    const uint64_t n = processes, each = round_up(whole ? floats : divide_up(floats, n), SLICE_ROUND) + SLICE_ROUND;
    struct slot_layout l = {.parts = parts, .floats = each, .whole = whole};
    l.message = round_up(message_words(wire, each), SLICE_ROUND);
    l.in = l.out + (n - 1) * (uint64_t)parts * l.message;
    l.own = l.sums = l.words = l.in + (n - 1) * (uint64_t)parts * l.message;
    if (whole) return l;
    l.sums = l.own + (uint64_t)(parts - 1) * l.floats;
    l.words = l.sums + n * l.message;
    return l;
}

/* Process p sums the floats from slice(p) to, without, slice(p + 1), or all of them. */
static uint64_t slice(const struct bucket_step *step, const struct slot *slot, uint32_t p)
{
    const uint32_t n = step->exchange->of.processes;
    if (step->layout.whole) return 0;
    return p == n ? slot->floats : slot->floats * p / n / SLICE_ROUND * SLICE_ROUND;
}

static uint64_t slice_floats(const struct bucket_step *step, const struct slot *slot, uint32_t p)
{
    return step->layout.whole ? slot->floats : slice(step, slot, p + 1) - slice(step, slot, p);
}

static struct bucket_message message_at(const struct bucket_step *step, const struct slot *slot, uint32_t p,
                                        uint64_t at)
{
    return (struct bucket_message){slice(step, slot, p), slice_floats(step, slot, p),
                                   (uint64_t)slot->number * step->layout.words + at};
}

/* Messages between two processes lie at the place that the other one has among all others. */
static uint64_t place_of(const struct bucket_step *step, uint32_t own, uint32_t other, int part)
{
    return ((uint64_t)(other - (other > own)) * (uint64_t)step->layout.parts + (uint64_t)part) * step->layout.message;
}

static struct bucket_message out_message(const struct bucket_step *step, const struct slot *slot, uint32_t from,
                                         uint32_t to, int part)
{
    return message_at(step, slot, to, step->layout.out + place_of(step, from, to, part));
}

static struct bucket_message in_message(const struct bucket_step *step, const struct slot *slot, uint32_t from,
                                        int part)
{
    const uint32_t own = step->exchange->of.process;
    return message_at(step, slot, own, step->layout.in + place_of(step, own, from, part));
}

static struct bucket_message sum_message(const struct bucket_step *step, const struct slot *slot, uint32_t p)
{
    return message_at(step, slot, p, step->layout.sums + p * step->layout.message);
}

static int parts_there(const struct bucket_step *step, uint32_t process)
{
    const struct tree *tree = &step->trees[process];
    int n = 0;
    for (int i = 0; i < tree->n; i++) n += tree->parts[i].there;
    return n;
}

/* ---- copies ---- */

static struct transfer copy_of(const struct bucket_step *step, const struct bucket_message *m, uint32_t *host)
{
    return (struct transfer){.buffer = bucket_kernels_buffer(step->kernels),
                             .offset = 4 * m->at,
                             .bytes = 4 * message_words(step->wire, m->count),
                             .host = host};
}

/* To this process' memory. */
static bool down(struct bucket_step *step, const struct bucket_message *m, int ticket, struct error *e)
{
    const struct transfer copy = copy_of(step, m, step->memory[step->exchange->of.process] + m->at);
    return device_copy_down(step->device, &copy, ticket, e);
}

/* Of the packed parts the last one's copy has the slot's ticket: they end in their order. */
static int parts_ticket(const struct slot *slot) { return 2 * slot->number; }
static int sums_ticket(const struct slot *slot) { return 2 * slot->number + 1; }

static bool down_wait(struct bucket_step *step, int ticket, struct error *e)
{
    const uint64_t begin = clock_ns();
    TRY(device_copy_wait(step->device, ticket, e));
    step->exchange->times.device_seconds += (double)(clock_ns() - begin) * 1e-9;
    return true;
}

/* ---- the first half: parts ---- */

static void slot_place(struct bucket_step *step, struct slot *slot, const struct bucket *b)
{
    slot->bucket = b;
    slot->floats = b->count;
    slot->place = (struct bucket_place){.slab = b->slab, .at = b->at};
    if (!b->row) return;
    const uint64_t *before = step->rows_before + b->first_row;
    slot->floats = (before[b->count / b->row] - before[0]) * b->row;
    slot->place.row = b->row;
    slot->place.list = before[0];
    slot->place.first_row = b->first_row;
}

/* One of this process' sums, which is its part number `part`: for the others, and beside what is received. */
static bool part_pack(struct bucket_step *step, struct slot *slot, int sum, int part, bool last, struct error *e)
{
    const uint32_t own = step->exchange->of.process, n = step->exchange->of.processes;
    uint32_t count = 0;
    for (uint32_t p = 0; p < n; p++)
        if (p != own && slice_floats(step, slot, p)) step->messages[count++] = out_message(step, slot, own, p, part);
    TRY(step->takes && count && !slot->place.row
            ? bucket_kernels_take(step->kernels, &slot->place, step->factor, step->messages, e)
            : bucket_kernels_pack(step->kernels, &slot->place, sum, false, step->messages, count, e));
    for (uint32_t i = 0; i < count; i++)
        TRY(down(step, &step->messages[i], last && i + 1 == count ? parts_ticket(slot) : COPY_NOT_WAITED, e));
    if (step->layout.whole || !sum || !slice_floats(step, slot, own)) return true;
    const struct bucket_message floats =
        message_at(step, slot, own, step->layout.own + (uint64_t)(sum - 1) * step->layout.floats);
    return bucket_kernels_pack(step->kernels, &slot->place, sum, true, &floats, 1, e);
}

bool slot_pack(struct bucket_step *step, struct slot *slot, const struct bucket *b, struct error *e)
{
    const uint32_t own = step->exchange->of.process;
    const struct tree *tree = &step->trees[own];
    const int all = parts_there(step, own);
    slot_place(step, slot, b);
    for (int i = 0, part = 0; i < tree->n; i++)
        if (tree->parts[i].there) {
            TRY(part_pack(step, slot, i, part, part + 1 == all, e));
            part++;
        }
    if (all && slot->floats > (step->layout.whole ? 0 : slice_floats(step, slot, own))) return true;
    /* Nothing is sent: what was in this slot before has to be done all the same when the others are told. */
    struct bucket_message nothing = out_message(step, slot, own, !own, 0);
    nothing.count = 1;
    return down(step, &nothing, parts_ticket(slot), e);
}

/* What a process sends: the message itself, or the sign that it is there. */
static void tell(struct bucket_step *step, uint32_t to, const struct bucket_message *m)
{
    struct exchange *x = step->exchange;
    const uint64_t bytes = m->count ? 4 * message_words(step->wire, m->count) : 0;
    if (step->memory[to])
        x->times.bytes_sent += bytes;
    else
        exchange_send(x, to, step->memory[x->of.process] + m->at, bytes);
}

static void hear(struct bucket_step *step, uint32_t from, const struct bucket_message *m)
{
    if (!step->memory[from] && m->count)
        exchange_receive(step->exchange, from, step->memory[step->exchange->of.process] + m->at,
                         4 * message_words(step->wire, m->count));
}

bool bucket_step_start(struct bucket_step *step, struct error *e)
{
    struct exchange *x = step->exchange;
    for (uint32_t p = 0; p < x->of.processes; p++) {
        if (p == x->of.process || !step->memory[p]) continue;
        exchange_receive(x, p, &step->heard[p], sizeof sign);
        exchange_send(x, p, &sign, sizeof sign);
    }
    return exchange_start(x, e);
}

bool slot_scatter(struct bucket_step *step, struct slot *slot, struct error *e)
{
    struct exchange *x = step->exchange;
    const uint32_t own = x->of.process, n = x->of.processes;
    TRY(down_wait(step, parts_ticket(slot), e));
    for (uint32_t p = 0; p < n; p++)
        for (int i = 0; p != own && i < parts_there(step, p); i++) {
            const struct bucket_message m = in_message(step, slot, p, i);
            hear(step, p, &m);
        }
    for (uint32_t k = 1; k < n; k++)
        for (int i = 0; i < parts_there(step, own); i++) {
            const struct bucket_message m = out_message(step, slot, own, (own + k) % n, i);
            tell(step, (own + k) % n, &m);
        }
    return true;
}

/* ---- the second half: sums ---- */

/* Where a part of what this process sums lies when it is summed. */
static struct bucket_operation part_operation(const struct bucket_step *step, const struct slot *slot, uint32_t p,
                                              int sum, int part)
{
    const uint32_t own = step->exchange->of.process;
    if (p != own) return (struct bucket_operation){OPERATION_MESSAGE, in_message(step, slot, p, part).at};
    if (step->layout.whole)
        return (struct bucket_operation){OPERATION_MESSAGE, out_message(step, slot, own, !own, part).at};
    if (!sum) return (struct bucket_operation){OPERATION_OWN, 0};
    return (struct bucket_operation){
        OPERATION_FLOATS, message_at(step, slot, own, step->layout.own + (uint64_t)(sum - 1) * step->layout.floats).at};
}

/* What was not there is not added to, and not added. */
static void joined(struct bucket_step *step, bool adds, bool first, uint32_t *n)
{
    if (adds && !first) step->operations[(*n)++] = (struct bucket_operation){OPERATION_ADD, 0};
}

/* From the last shards to the first. */
static uint32_t operations_of(struct bucket_step *step, const struct slot *slot)
{
    struct tree tree = {.n = 0};
    uint32_t n = 0;
    bool adds, first;
    for (uint32_t p = step->exchange->of.processes; p-- > 0;) {
        const struct tree *parts = &step->trees[p];
        for (int i = 0, part = 0; i < parts->n; i++) {
            if (parts->parts[i].there) step->operations[n++] = part_operation(step, slot, p, i, part++);
            tree_add(&tree, parts->parts[i]);
            while (tree_join(&tree, &adds, &first)) joined(step, adds, first, &n);
        }
    }
    while (tree_close(&tree, &adds, &first)) joined(step, adds, first, &n);
    return n;
}

/* Received, or in the memory of who made it. */
static uint32_t *source(const struct bucket_step *step, uint32_t p, const struct bucket_message *there,
                        const struct bucket_message *here)
{
    return step->memory[p] ? step->memory[p] + there->at : step->memory[step->exchange->of.process] + here->at;
}

bool slot_sum(struct bucket_step *step, struct slot *slot, struct error *e)
{
    const uint32_t own = step->exchange->of.process, n = step->exchange->of.processes;
    const struct bucket_message sums = sum_message(step, slot, own);
    int copies = 0;
    if (!sums.count) return true;
    for (uint32_t p = 0; p < n; p++)
        for (int i = 0; p != own && i < parts_there(step, p); i++) {
            const struct bucket_message here = in_message(step, slot, p, i), there = out_message(step, slot, p, own, i);
            step->copies[copies++] = copy_of(step, &here, source(step, p, &there, &here));
        }
    TRY(device_copies_up(step->device, step->copies, copies, e));
    TRY(bucket_kernels_sum(step->kernels, &slot->place, step->operations, operations_of(step, slot), &sums,
                           !step->layout.whole, e));
    return step->layout.whole || down(step, &sums, sums_ticket(slot), e);
}

bool slot_gather(struct bucket_step *step, struct slot *slot, struct error *e)
{
    struct exchange *x = step->exchange;
    const uint32_t own = x->of.process, n = x->of.processes;
    const struct bucket_message sums = sum_message(step, slot, own);
    TRY(down_wait(step, sums_ticket(slot), e));
    for (uint32_t p = 0; p < n; p++) {
        const struct bucket_message m = sum_message(step, slot, p);
        if (p != own) hear(step, p, &m);
    }
    for (uint32_t k = 1; k < n; k++) tell(step, (own + k) % n, &sums);
    return true;
}

bool slot_write(struct bucket_step *step, struct slot *slot, struct error *e)
{
    const uint32_t own = step->exchange->of.process, n = step->exchange->of.processes;
    uint32_t count = 0;
    int copies = 0;
    for (uint32_t p = 0; p < n; p++) {
        const struct bucket_message m = sum_message(step, slot, p);
        if (!m.count) continue;
        step->messages[count++] = m;
        if (p != own) step->copies[copies++] = copy_of(step, &m, source(step, p, &m, &m));
    }
    TRY(device_copies_up(step->device, step->copies, copies, e));
    return bucket_kernels_unpack(step->kernels, &slot->place, step->messages, count, e);
}
