/* Makes, checks and times a group with other sizes, on the session's own buffers. */
#include "tune/trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/number.h"
#include "base/platform.h"
#include "runtime/calls.h"
#include "runtime/prepare.h"

enum { POISON = 0xff }; /* NaN in both storage types */

/* ---- making ---- */

/* Partial sums go to memory of the trial's own: the session's is as large as its own sizes need. */
static void bind_scratch(struct trial *trial, struct step *step)
{
    for (int a = 0; a < step->call->n_arguments; a++) {
        if (step->call->arguments[a].tensor != TENSOR_SCRATCH) continue;
        struct binding *binding = &step->bindings[a + 1]; /* the first is the batch */
        binding->buffer = trial->scratch;
        binding->offset = 0;
        binding->bytes = trial->scratch_bytes;
    }
}

static bool make_scratch(const struct trials *t, struct trial *trial, struct error *e)
{
    const struct wherry_device *device = t->session->device;
    uint64_t most = t->session->device_limits.max_buffer_bytes;
    if (!trial->scratch_bytes) return true;
    trial->scratch_bytes = (trial->scratch_bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
    if (trial->scratch_bytes > most)
        return fail(e, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY, "%llu bytes of partial sums in one buffer",
                    (unsigned long long)trial->scratch_bytes);
    trial->scratch = device->backend->buffer_create(device->handle, trial->scratch_bytes, e);
    return trial->scratch != NULL;
}

static bool calls_run(const struct trials *t, const struct trial *trial, struct error *e)
{
    struct wherry_device *device = t->session->device;
    char reason[256];
    for (int i = 0; i < trial->n_calls; i++)
        if (!device->backend->supports(device->handle, &trial->calls[i], session_type(t->session), reason,
                                       sizeof reason))
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s", reason);
    return true;
}

bool trial_make(const struct trials *t, const struct choice *const forced[GROUP_MAX_CALLS], struct trial *out,
                struct error *e)
{
    struct wherry_session *s = t->session;
    const struct host *host = &s->context->host;
    const char *reasons[GROUP_MAX_CALLS];
    *out = (struct trial){.n_calls = 0};
    TRY(session_calls(s, &s->graph, &s->groups[t->group], forced, out->calls, reasons, &out->n_calls,
                      &out->scratch_bytes, e));
    TRY(calls_run(t, out, e) && make_scratch(t, out, e));
    size_t n = (size_t)t->copies * (size_t)out->n_calls;
    if (!(out->steps = host_alloc(host, n, sizeof *out->steps, e)) ||
        !(out->grids = host_alloc(host, n, sizeof *out->grids, e)) ||
        !(out->seconds = host_alloc(host, n, sizeof *out->seconds, e)))
        return false;
    for (size_t i = 0; i < n; i++) {
        session_step(s, &out->calls[i % (size_t)out->n_calls], t->group, &out->steps[i]);
        bind_scratch(out, &out->steps[i]);
    }
    out->schedule = (struct schedule){.steps = out->steps,
                                      .n_steps = (int)n,
                                      .ordered = true,
                                      .library = s->library,
                                      .graph = &s->graph,
                                      .groups = s->groups};
    struct program_info info;
    out->program = s->device->backend->program_create(s->device->handle, &out->schedule, NULL, NULL, &info, e);
    return out->program != NULL;
}

void trial_unmake(const struct trials *t, struct trial *trial)
{
    const struct host *host = &t->session->context->host;
    const struct wherry_device *device = t->session->device;
    device->backend->program_destroy(device->handle, trial->program);
    device->backend->buffer_destroy(device->handle, trial->scratch);
    host_free(host, trial->steps);
    host_free(host, trial->grids);
    host_free(host, trial->seconds);
    *trial = (struct trial){.n_calls = 0};
}

/* ---- running ---- */

bool trial_run(const struct trials *t, struct trial *trial, double *seconds, struct error *e)
{
    const struct wherry_session *s = t->session;
    size_t n = (size_t)t->copies * (size_t)trial->n_calls, first = t->copies > 1 ? (size_t)trial->n_calls : 0;
    for (size_t i = 0; i < n; i++) trial->grids[i] = call_grid(trial->steps[i].call, s->f16, s->words);
    uint64_t start = clock_ns();
    const struct run run = {.grids = trial->grids, .batch = t->shape, .step_seconds = t->timer ? trial->seconds : NULL};
    TRY(device_executes(s->device, e) && s->device->backend->program_run(s->device->handle, trial->program, &run, e));
    *seconds = (double)(clock_ns() - start) * 1e-9 / t->copies;
    if (!t->timer) return true;
    double sum = 0; /* the first copy finds what is left of the submission */
    for (size_t i = first; i < n; i++)
        if ((int)(i % (size_t)trial->n_calls) >= t->counted) sum += trial->seconds[i];
    *seconds = sum / (double)((n - first) / (size_t)trial->n_calls);
    return true;
}

/* ---- what the usual sizes give ---- */

void trials_forget(struct trials *t)
{
    const struct host *host = &t->session->context->host;
    for (int i = 0; i < t->n_expected; i++) host_free(host, t->expected[i].usual);
    host_free(host, t->found);
    t->found = NULL;
    t->n_expected = 0;
}

static bool expect_tensor(struct trials *t, int tensor, uint64_t *most, struct error *e)
{
    const struct wherry_session *s = t->session;
    for (int i = 0; i < t->n_expected; i++)
        if (t->expected[i].tensor == tensor) return true;
    const struct placement *at = &s->memory.of[tensor];
    struct expected *x = &t->expected[t->n_expected];
    *x = (struct expected){.tensor = tensor, .at = at->offset - MEMORY_ALIGNMENT};
    x->bytes = (at->bytes + 3) / 4 * 4 + 2 * MEMORY_ALIGNMENT;
    if (!(x->usual = host_alloc(&s->context->host, (size_t)x->bytes, 1, e))) return false;
    t->n_expected++;
    if (x->bytes > *most) *most = x->bytes;
    return s->device->backend->buffer_read(s->device->handle, s->buffers[at->block], x->at, x->usual, x->bytes, e);
}

bool trials_expect(struct trials *t, struct trial *usual, struct error *e)
{
    const struct wherry_session *s = t->session;
    const struct group *group = &s->groups[t->group];
    double seconds;
    uint64_t most = 0;
    trials_forget(t);
    TRY(trial_run(t, usual, &seconds, e));
    for (int w = 0; w < group->n_writes; w++)
        TRY(expect_tensor(t, tensor_owner(&s->graph, group->writes[w]), &most, e));
    t->found = host_alloc(&s->context->host, (size_t)most, 1, e);
    return t->found != NULL;
}

/* ---- comparing ---- */

static struct buffer *buffer_of(const struct trials *t, const struct expected *x)
{
    return t->session->buffers[t->session->memory.of[x->tensor].block];
}

static bool poison(struct trials *t, struct error *e)
{
    const struct wherry_device *device = t->session->device;
    for (int i = 0; i < t->n_expected; i++) {
        const struct expected *x = &t->expected[i];
        memset(t->found, POISON, (size_t)x->bytes);
        TRY(device->backend->buffer_write(device->handle, buffer_of(t, x), x->at, t->found, x->bytes, e));
    }
    return true;
}

struct comparison {
    double difference, square;
    uint64_t not_finite, outside;
};

/* The values of one output, which may be a slice of the rows in memory, in pieces for all cores: at 50 million values
 * one core takes a quarter of a second. */
enum { PIECE_VALUES = 1 << 16, PIECES = 64 };
struct compared {
    const unsigned char *want, *have;
    enum storage type;
    size_t n, pieces;
    size_t length, stride, offset;
    size_t channels, channel_stride; /* 0: a row is contiguous; else that many values, so far apart */
    size_t row_length, row_pitch;    /* rows begin so far apart */
    struct comparison of[PIECES];
};

static void compare_piece(size_t piece, void *user)
{
    struct compared *all = user;
    struct comparison c = {0};
    for (size_t i = all->n * piece / all->pieces; i < all->n * (piece + 1) / all->pieces; i++) {
        if (i % all->stride < all->offset || i % all->stride >= all->offset + all->length) continue;
        size_t at = all->channels ? i % all->channels * all->channel_stride + i / all->channels
                                  : i / all->row_length * all->row_pitch + i % all->row_length;
        double want = (double)storage_float(all->type, all->want, at),
               have = (double)storage_float(all->type, all->have, at);
        if (!isfinite(want) || !isfinite(have)) {
            c.not_finite += isnan(want) ? !isnan(have) : want != have;
            continue;
        }
        c.difference += (have - want) * (have - want);
        c.square += want * want;
    }
    all->of[piece] = c;
}

static void compare_values(const struct trials *t, int tensor, const struct expected *x, struct comparison *c)
{
    const struct wherry_session *s = t->session;
    const struct graph *g = &s->graph;
    struct compared all = {.want = x->usual + MEMORY_ALIGNMENT,
                           .have = t->found + MEMORY_ALIGNMENT,
                           .type = g->tensors[x->tensor].f32 ? STORAGE_F32 : session_type(s),
                           .n = (size_t)tensor_elements(g, t->shape, x->tensor),
                           .length = tensor_slice_length(g, tensor),
                           .stride = tensor_slice_stride(g, tensor),
                           .offset = tensor_row_offset(g, tensor),
                           .channel_stride = g->channel_stride,
                           .row_length = tensor_row_length(g, x->tensor),
                           .row_pitch = tensor_row_pitch(g, x->tensor)};
    if (dims_channel_major(g->tensors[tensor].dims)) all.channels = all.length;
    all.pieces = all.n / PIECE_VALUES + 1;
    if (all.pieces > PIECES) all.pieces = PIECES;
    parallel_for(all.pieces, 0, compare_piece, &all);
    for (size_t i = 0; i < all.pieces; i++) { /* the same sum however many threads there are */
        c->difference += all.of[i].difference;
        c->square += all.of[i].square;
        c->not_finite += all.of[i].not_finite;
    }
}

/* Bytes before the output and after its last value that were written. */
static void compare_guards(const struct trials *t, const struct expected *x, struct comparison *c)
{
    const struct wherry_session *s = t->session;
    size_t used = (size_t)tensor_extent(&s->graph, t->shape, x->tensor) *
                  tensor_element_bytes(&s->graph, x->tensor, session_storage(s));
    for (size_t i = 0; i < MEMORY_ALIGNMENT; i++) c->outside += t->found[i] != POISON;
    for (size_t i = MEMORY_ALIGNMENT + used; i < x->bytes; i++) c->outside += t->found[i] != POISON;
}

static bool compare(struct trials *t, struct comparison *c, struct error *e)
{
    const struct wherry_session *s = t->session;
    const struct group *group = &s->groups[t->group];
    for (int i = 0; i < t->n_expected; i++) {
        const struct expected *x = &t->expected[i];
        TRY(s->device->backend->buffer_read(s->device->handle, buffer_of(t, x), x->at, t->found, x->bytes, e));
        compare_guards(t, x, c);
        for (int w = 0; w < group->n_writes; w++)
            if (tensor_owner(&s->graph, group->writes[w]) == x->tensor) compare_values(t, group->writes[w], x, c);
    }
    return true;
}

static bool restore(const struct trials *t, struct error *e)
{
    const struct wherry_device *device = t->session->device;
    for (int i = 0; i < t->n_expected; i++) {
        const struct expected *x = &t->expected[i];
        TRY(device->backend->buffer_write(device->handle, buffer_of(t, x), x->at, x->usual, x->bytes, e));
    }
    return true;
}

bool trial_check(struct trials *t, struct trial *trial, double *nmse, char wrong[160], struct error *e)
{
    struct comparison c = {0};
    double seconds;
    wrong[0] = 0;
    TRY(poison(t, e));
    bool ok = trial_run(t, trial, &seconds, e) && compare(t, &c, e);
    struct error ignored;
    if (!restore(t, ok ? e : &ignored) || !ok) return false;
    *nmse = c.square > 0 ? c.difference / c.square : c.difference > 0 ? INFINITY : 0;
    if (c.not_finite)
        snprintf(wrong, 160, "%llu values are not finite", (unsigned long long)c.not_finite);
    else if (c.outside)
        snprintf(wrong, 160, "it writes outside its outputs (%llu bytes)", (unsigned long long)c.outside);
    else if (!(*nmse <= session_tolerance(t->session)))
        snprintf(wrong, 160, "it differs from the usual sizes by an NMSE of %s (at most %s)", NUMBER("%.1e", *nmse),
                 NUMBER("%.0e", session_tolerance(t->session)));
    return true;
}
