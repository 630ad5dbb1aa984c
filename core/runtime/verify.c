/* Verify: every group on the device against its reference, guard zones, and the same bits again. */
#include "runtime/verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/values.h"
#include "runtime/encode.h"
#include "runtime/session.h"
#include "runtime/train.h"

/* What unwritten device memory holds: NaN in both storage types. And what the host's copy holds before it is read, so
 * that a copy that does not arrive is none that the device might have made. */
enum { POISON = 0xff, UNREAD = 0x5a };

struct check {
    struct wherry_session *s;
    const struct batch_shape *shape;
    unsigned char **blocks; /* [memory.n_blocks], one after the other: what the device has after a run */
    struct values values;
    double *device;      /* one tensor's values from the device */
    char reference[160]; /* where the reference itself is not finite: the first such value, "" where none is */
    size_t device_capacity;
};

static bool poison(struct check *c, struct error *e)
{
    struct wherry_session *s = c->s;
    for (int i = 0; i < s->memory.n_blocks; i++) {
        if (s->memory.blocks[i].kind != MEMORY_ACTIVATIONS) continue;
        memset(c->blocks[i], POISON, (size_t)s->memory.blocks[i].bytes);
        TRY(s->device->backend->buffer_write(s->device->handle, s->buffers[i], 0, c->blocks[i],
                                             s->memory.blocks[i].bytes, e));
    }
    return true;
}

static bool read_all(struct check *c, struct error *e)
{
    struct wherry_session *s = c->s;
    for (int i = 0; i < s->memory.n_blocks; i++) {
        memset(c->blocks[i], UNREAD, (size_t)s->memory.blocks[i].bytes);
        TRY(s->device->backend->buffer_read(s->device->handle, s->buffers[i], 0, c->blocks[i],
                                            s->memory.blocks[i].bytes, e));
    }
    return true;
}

static const void *block_bytes(int tensor, void *user)
{
    const struct check *c = user;
    const struct placement *at = &c->s->memory.of[tensor];
    return at->block < 0 ? NULL : c->blocks[at->block] + at->offset;
}

/* From the end of what the tensor holds in this batch to the end of its guard zone, and the zone before it. */
static bool guards_intact(const struct check *c, int tensor)
{
    const struct placement *at = &c->s->memory.of[tensor];
    const unsigned char *block = c->blocks[at->block];
    uint64_t used = tensor_extent(&c->s->graph, c->shape, tensor) *
                    tensor_element_bytes(&c->s->graph, tensor, session_storage(c->s));
    for (uint64_t i = at->offset - MEMORY_ALIGNMENT; i < at->offset && !at->piece_bytes; i++)
        if (block[i] != POISON) return false;
    for (uint64_t i = at->offset + used; i < at->offset + at->bytes + MEMORY_ALIGNMENT; i++)
        if (block[i] != POISON) return false;
    return true;
}

static void note_reference(struct check *c, const wherry_verify_result *result, int tensor, size_t element)
{
    if (*c->reference) return;
    double value = c->values.of[tensor][element];
    snprintf(c->reference, sizeof c->reference, "%s: element %zu of %s is %s by the reference, too", result->name,
             element, c->s->graph.tensors[tensor].name, isnan(value) ? "NaN" : "infinite");
}

static bool compare_tensor(struct check *c, int tensor, wherry_verify_result *result, double *difference,
                           double *square, struct error *e)
{
    const struct graph *g = &c->s->graph;
    int owner = tensor_owner(g, tensor);
    size_t n = (size_t)tensor_elements(g, c->shape, owner), length = tensor_slice_length(g, tensor),
           stride = tensor_slice_stride(g, tensor), offset = tensor_row_offset(g, tensor);
    if (n > c->device_capacity) {
        host_free(&c->s->context->host, c->device);
        c->device_capacity = 0;
        if (!(c->device = host_alloc(&c->s->context->host, n, sizeof *c->device, e))) return false;
        c->device_capacity = n;
    }
    tensor_load(g, c->shape, owner, session_type(c->s), block_bytes(owner, c), c->device);
    const double *want = c->values.of[owner];
    for (size_t i = 0; i < n; i++) {
        if (i % stride < offset || i % stride >= offset + length) continue; /* another slice's */
        result->values++;
        if (!isfinite(want[i]) || !isfinite(c->device[i])) {
            if (!isfinite(want[i])) note_reference(c, result, owner, i);
            result->not_finite++;
            continue;
        }
        double d = c->device[i] - want[i];
        if (g->tensors[owner].u32 && d != 0) *difference = INFINITY; /* a list is right or wrong */
        *difference += d * d;
        *square += want[i] * want[i];
        if (fabs(d) > result->max_error) result->max_error = fabs(d);
    }
    result->guards_intact &= guards_intact(c, owner);
    return true;
}

static bool check_group(struct check *c, const struct group *group, wherry_verify_result *result, struct error *e)
{
    struct wherry_session *s = c->s;
    double difference = 0, square = 0;
    memset(result, 0, sizeof *result);
    memcpy(result->name, group->name, sizeof result->name);
    strncpy(result->kernel, s->calls[group_first_call(s, (int)(group - s->groups))].kernel, sizeof result->kernel - 1);
    result->tolerance = session_tolerance(s);
    result->guards_intact = true;
    c->values.seed = s->seed;
    c->values.step = s->step;
    TRY(values_load(&s->graph, group, c->shape, session_type(s), block_bytes, c, &c->values, e));
    TRY(group_reference(&s->graph, group, c->shape, &c->values, e));
    for (int w = 0; w < group->n_writes; w++) TRY(compare_tensor(c, group->writes[w], result, &difference, &square, e));
    values_clear(&s->graph, &c->values);
    result->nmse = square > 0 ? difference / square : difference > 0 ? INFINITY : 0;
    result->passed = result->nmse <= result->tolerance && !result->not_finite && result->guards_intact;
    return true;
}

/* FNV-1a over the activations: equal bits, equal hash. */
static uint64_t activations_hash(const struct check *c)
{
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < c->s->memory.n_blocks; i++)
        for (uint64_t b = 0; c->s->memory.blocks[i].kind == MEMORY_ACTIVATIONS && b < c->s->memory.blocks[i].bytes; b++)
            hash = (hash ^ c->blocks[i][b]) * 1099511628211u;
    return hash;
}

/* From poison to what the device made: nothing is left of an earlier run that could stand for this one's. */
static bool run_once(struct check *c, struct error *e)
{
    TRY(poison(c, e));
    TRY(session_random_inputs(c->s, c->shape, e));
    TRY(session_run(c->s, c->shape, WHERRY_PHASE_ALL, -1, -1, NULL, e));
    return read_all(c, e);
}

static bool verify(struct check *c, const bool *wanted, uint32_t replays, wherry_verify_callback callback, void *user,
                   wherry_verify_summary *summary, struct error *e)
{
    struct wherry_session *s = c->s;
    TRY(run_once(c, e));
    uint64_t first = activations_hash(c);
    for (int i = 0; i < s->n_groups; i++) {
        wherry_verify_result result;
        if (wanted && !wanted[i]) continue;
        TRY(check_group(c, &s->groups[i], &result, e));
        summary->groups++;
        summary->failed += !result.passed;
        if (callback && !callback(&result, user)) return fail(e, WHERRY_STATUS_CANCELLED, "verify was cancelled");
    }
    for (uint32_t r = 0; r < replays; r++) {
        TRY(run_once(c, e));
        summary->replays++;
        summary->replays_different += activations_hash(c) != first;
    }
    if (!summary->failed && !summary->replays_different) return true;
    if (*c->reference)
        return fail(e, WHERRY_STATUS_VERIFY_FAILED,
                    "%u of %u groups can't be verified, and nothing can be computed: %s. The model's weights are not "
                    "finite, or so large that their products are not",
                    summary->failed, summary->groups, c->reference);
    return fail(
        e, WHERRY_STATUS_VERIFY_FAILED,
        "%u of %u groups differ from the reference and %u of %u replays gave other bits on %s (%s): report it to the "
        "driver's vendor, and use another plan, API or device",
        summary->failed, summary->groups, summary->replays_different, summary->replays, s->device->info.id,
        s->device->info.driver);
}

wherry_status wherry_verify(wherry_session *session, const wherry_batch *batch, uint32_t replays,
                            wherry_verify_callback callback, void *user, wherry_verify_summary *summary)
{
    return session_verify(session, batch, NULL, replays, callback, user, summary);
}

wherry_status session_verify(wherry_session *session, const wherry_batch *batch, const bool *wanted, uint32_t replays,
                             wherry_verify_callback callback, void *user, wherry_verify_summary *summary)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = session->context;
    if (!batch || !summary || summary->struct_size != sizeof *summary)
        return context_invalid(context, "wherry_verify: batch or summary is NULL, or summary->struct_size is not %zu",
                               sizeof *summary);
    if (!session->keep)
        return context_invalid(
            context, "wherry_verify needs a session made with keep_intermediates, so that every tensor is there");
    if (!session->prepared) {
        wherry_status status = wherry_session_prepare(session, NULL, NULL, NULL);
        if (status) return status;
    }
    *summary = (wherry_verify_summary){.struct_size = sizeof *summary};
    struct error *e = context_error(context);
    if (!device_executes(session->device, e)) return context_status(context, false);
    struct batch_shape shape;
    session->forward_done = false;
    struct check c = {.s = session, .shape = &shape};
    size_t blocks = (size_t)session->memory.n_blocks;
    bool ok = session_batch(session, batch, &shape, e) && values_create(&session->graph, &c.values, e) &&
              (c.blocks = host_alloc(&context->host, blocks, sizeof *c.blocks, e));
    unsigned char *all = ok ? host_alloc(&context->host, (size_t)session->memory.bytes, 1, e) : NULL;
    ok = all != NULL;
    for (size_t i = 0, at = 0; ok && i < blocks; at += (size_t)session->memory.blocks[i++].bytes)
        c.blocks[i] = all + at;
    if (ok) ok = device_probe(session->device, true, e) && verify(&c, wanted, replays, callback, user, summary, e);
    host_free(&context->host, all);
    host_free(&context->host, c.blocks);
    host_free(&context->host, c.device);
    values_destroy(&session->graph, &c.values);
    return context_status(context, ok);
}
