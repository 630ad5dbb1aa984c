/* Measures what a run takes: its groups by the device's timer, warm and cold, and the whole by the host's clock. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/platform.h"
#include "measure/cold.h"
#include "measure/describe.h"
#include "measure/statistics.h"
#include "measure/timer.h"
#include "runtime/calls.h"
#include "runtime/encode.h"
#include "runtime/train.h"

static const uint32_t usual_repeats = 50;
static const double usual_warm_seconds = 0.5;
static const uint64_t usual_cache_bytes = (uint64_t)64 << 20;

struct measurement {
    struct wherry_session *session;
    struct batch_shape shape;
    wherry_measure_desc desc; /* with nothing left to choose */
    wherry_timer_info timer;
    int first, end;  /* calls of the phase */
    double *samples; /* [groups + 2][repeats]: of each group, of their sum, of the host's clock */
    double *firsts;  /* [groups + 2] */
    double *once;    /* [calls] */
};

/* One run as it is timed. An encode is timed with its copies; a training step's x and loss gradient are there. */
static bool run_phase(struct measurement *m, wherry_phase phase, double *step_seconds, struct error *e)
{
    const struct graph *g = &m->session->graph;
    bool download = g->out_gradient < 0 && !m->session->part;
    return session_run(m->session, &m->shape, phase, -1, download ? g->output : -1, step_seconds, e);
}

/* The host's time of a run without timestamps. */
static bool run_plain(struct measurement *m, double *seconds, struct error *e)
{
    uint64_t start = clock_ns();
    TRY(run_phase(m, m->desc.phase, NULL, e));
    *seconds = (double)(clock_ns() - start) * 1e-9;
    return true;
}

static bool timer_ok(const struct measurement *m) { return m->timer.status == WHERRY_TIMER_OK; }

/* A timer that passed its test and fails now is not believed any more. */
static bool timer_fail(struct measurement *m, const struct error *e)
{
    if (!e->timer) return false;
    m->session->device->timer = (wherry_timer_info){0};
    timer_condemn(&m->timer, (wherry_timer_status)e->timer, e->text);
    return true;
}

/* The device's times of a run, `stride` apart: of each group, and after them of all. Leaves them alone when the timer
 * fails. */
static bool run_timed(struct measurement *m, double *groups, size_t stride, struct error *e)
{
    const struct wherry_session *s = m->session;
    size_t sum = (size_t)s->n_groups * stride;
    if (!timer_ok(m)) return true;
    if (!run_phase(m, m->desc.phase, m->once, e)) return timer_fail(m, e);
    for (size_t i = 0; i <= sum; i += stride) groups[i] = 0;
    for (int i = m->first; i < m->end; i++) {
        groups[(size_t)s->call_groups[i] * stride] += m->once[i];
        groups[sum] += m->once[i];
    }
    return true;
}

/* ---- the step ---- */

static bool measure_step(struct measurement *m, struct error *e)
{
    const size_t n = (size_t)m->session->n_groups, repeats = m->desc.repeats;
    double seconds;
    TRY(session_random_inputs(m->session, &m->shape, e));
    if (m->desc.phase == WHERRY_PHASE_BACKWARD) TRY(run_phase(m, WHERRY_PHASE_FORWARD, NULL, e));
    uint64_t start = clock_ns();
    TRY(run_timed(m, m->firsts, 1, e));
    m->firsts[n + 1] = (double)(clock_ns() - start) * 1e-9;
    if (!timer_ok(m)) TRY(run_plain(m, &m->firsts[n + 1], e));
    do {
        TRY(run_plain(m, &seconds, e));
    } while ((double)(clock_ns() - start) * 1e-9 < m->desc.warm_seconds);
    for (size_t r = 0; r < repeats; r++) TRY(run_plain(m, &m->samples[(n + 1) * repeats + r], e));
    TRY(run_timed(m, m->samples, repeats, e)); /* another recording or queue than the plain runs': warm it too */
    for (size_t r = 0; r < repeats && timer_ok(m); r++) TRY(run_timed(m, m->samples + r, repeats, e));
    return true;
}

static wherry_time summary(const struct measurement *m, size_t row)
{
    return time_summary(m->samples + row * m->desc.repeats, m->desc.repeats, m->firsts[row]);
}

static bool in_phase(const struct measurement *m, int group)
{
    return m->desc.phase == WHERRY_PHASE_ALL ||
           m->session->groups[group].backward == (m->desc.phase == WHERRY_PHASE_BACKWARD);
}

static void describe_group(const struct measurement *m, int index, wherry_group_measure *out)
{
    group_describe(m->session, &m->shape, index, m->desc.cache_bytes, out);
    out->timer = m->timer.status;
    if (timer_ok(m) && in_phase(m, index)) group_time_set(out, summary(m, (size_t)index));
}

/* ---- groups alone ---- */

/* A timer that fails only here is not believed for this group. */
static bool measure_alone(struct measurement *m, struct cold *cold, int index, wherry_group_measure *out,
                          struct error *e)
{
    wherry_time *time = cold->again ? &out->alone : &out->cold;
    uint32_t runs, *sets = cold->again ? &runs : &out->cold_sets;
    cold->timer = timer_ok(m) && out->timer == WHERRY_TIMER_OK;
    if (cold_group(cold, index, time, sets, e)) return true;
    if (!cold->timer || !e->timer) return false;
    cold->timer = false;
    out->timer = (wherry_timer_status)e->timer;
    out->warm = (wherry_time){0};
    out->cost.seconds = out->cost.seconds_p05 = out->cost.seconds_p95 = 0;
    return cold_group(cold, index, time, sets, e);
}

/* `again`: over the same buffers, else cold. */
static bool measure_groups_alone(struct measurement *m, bool again, wherry_group_measure *groups, size_t count,
                                 struct error *e)
{
    struct cold cold = {.session = m->session,
                        .shape = &m->shape,
                        .repeats = m->desc.repeats,
                        .warm_seconds = again ? m->desc.warm_seconds : m->desc.warm_seconds / 10,
                        .again = again};
    bool ok = cold_open(&cold, m->desc.cache_bytes, e);
    for (size_t i = 0; ok && i < count && i < (size_t)m->session->n_groups; i++)
        if (in_phase(m, (int)i)) ok = measure_alone(m, &cold, (int)i, &groups[i], e);
    cold_close(&cold);
    return ok;
}

/* ---- the call ---- */

static bool is_reference(const struct wherry_session *s) { return !strcmp(s->device->info.id, "reference"); }

static bool measure(struct measurement *m, const wherry_batch *batch, wherry_group_measure *groups, size_t count,
                    wherry_step_measure *step, struct error *e)
{
    struct wherry_session *s = m->session;
    const size_t n = (size_t)s->n_groups, repeats = m->desc.repeats;
    TRY(session_batch(s, batch, &m->shape, e) && timer_of_device(s->device, &m->timer));
    s->forward_done = s->backward_done = false; /* what was kept is overwritten */
    if (!(m->samples = host_alloc(&s->context->host, (n + 2) * repeats, sizeof *m->samples, e)) ||
        !(m->firsts = host_alloc(&s->context->host, n + 2, sizeof *m->firsts, e)) ||
        !(m->once = host_alloc(&s->context->host, (size_t)s->n_calls, sizeof *m->once, e)))
        return false;
    TRY(measure_step(m, e));
    for (size_t i = 0; i < n && i < count; i++) describe_group(m, (int)i, &groups[i]);
    if (m->desc.alone) TRY(measure_groups_alone(m, true, groups, count, e));
    if (m->desc.cold) TRY(measure_groups_alone(m, false, groups, count, e));
    if (!step) return true;
    step->host = summary(m, n + 1);
    step->kernels = timer_ok(m) ? summary(m, n) : (wherry_time){0};
    step->timer = m->timer;
    return true;
}

/* Arguments that can be wrong. */
static wherry_status check(const wherry_session *session, const wherry_measure_desc *desc)
{
    struct wherry_context *context = session->context;
    if (desc->phase > WHERRY_PHASE_BACKWARD || (desc->phase && session->graph.out_gradient < 0))
        return context_invalid(context, "wherry_measure: phase %d, but only training has a forward and a backward one",
                               (int)desc->phase);
    if (!(desc->warm_seconds >= 0) || !isfinite(desc->warm_seconds))
        return context_invalid(context, "wherry_measure: %s seconds to warm up", NUMBER("%g", desc->warm_seconds));
    if ((desc->cold || desc->alone) && is_reference(session)) {
        fail(context_error(context), WHERRY_STATUS_UNSUPPORTED,
             "wherry_measure: the reference has no kernels, so that there are no times of groups alone");
        return context_status(context, false);
    }
    if ((desc->cold || desc->alone) && !session->keep)
        return context_invalid(
            context, "wherry_measure: times of groups alone need a session made with keep_intermediates, so that every "
                     "group's inputs are there");
    return WHERRY_STATUS_OK;
}

wherry_status wherry_measure(wherry_session *session, const wherry_batch *batch, const wherry_measure_desc *desc,
                             wherry_group_measure *groups, size_t *count, wherry_step_measure *step)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = session->context;
    if (!batch || !desc || !count) return context_invalid(context, "wherry_measure: batch, desc or count is NULL");
    if (desc->struct_size != sizeof *desc || (step && step->struct_size != sizeof *step))
        return context_invalid(context, "wherry_measure: desc->struct_size is not %zu, or step->struct_size not %zu",
                               sizeof *desc, sizeof *step);
    wherry_status status = check(session, desc);
    if (!status && !session->prepared) status = wherry_session_prepare(session, NULL, NULL, NULL);
    if (status) return status;
    struct measurement m = {.session = session, .desc = *desc};
    if (!m.desc.repeats) m.desc.repeats = usual_repeats;
    if (!(m.desc.warm_seconds > 0)) m.desc.warm_seconds = usual_warm_seconds;
    if (!m.desc.cache_bytes) m.desc.cache_bytes = usual_cache_bytes;
    m.first = desc->phase == WHERRY_PHASE_BACKWARD ? session->boundary : 0;
    m.end = desc->phase == WHERRY_PHASE_FORWARD ? session->boundary : session->n_calls;
    bool ok = measure(&m, batch, groups, groups ? *count : 0, step, context_error(context));
    if (ok) *count = (size_t)session->n_groups;
    host_free(&context->host, m.samples);
    host_free(&context->host, m.firsts);
    host_free(&context->host, m.once);
    return context_status(context, ok);
}
