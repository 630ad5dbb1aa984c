/* Profile: device time of every group, and the host's time of a whole encode. */
#include "base/platform.h"
#include "runtime/session.h"
#include "runtime/statistics.h"

/* One run as it is timed. An encode is timed with its copies; a training step's x and loss gradient are there. */
static bool run_phase(struct wherry_session *s, const struct batch_shape *shape, wherry_phase phase, double *seconds,
                      struct error *e)
{
    bool training = s->graph.out_gradient >= 0;
    return session_run(s, shape, phase, -1, training ? -1 : s->graph.output, seconds, e);
}

static bool warm_up(struct wherry_session *s, const struct batch_shape *shape, wherry_phase phase, double seconds,
                    struct error *e)
{
    uint64_t start = clock_ns();
    do {
        TRY(run_phase(s, shape, phase, NULL, e));
    } while ((double)(clock_ns() - start) * 1e-9 < seconds);
    return true;
}

/* samples: [groups + 1][repeats], the last row for the whole step; once: [n_calls]. */
static bool measure(struct wherry_session *s, const struct batch_shape *shape, wherry_phase phase, uint32_t repeats,
                    double warm_seconds, double *samples, double *once, struct error *e)
{
    size_t n = (size_t)s->n_groups;
    TRY(session_random_inputs(s, shape, e));
    if (phase == WHERRY_PHASE_BACKWARD) TRY(run_phase(s, shape, WHERRY_PHASE_FORWARD, NULL, e));
    TRY(warm_up(s, shape, phase, warm_seconds, e));
    for (uint32_t r = 0; r < repeats; r++) {
        uint64_t start = clock_ns();
        TRY(run_phase(s, shape, phase, NULL, e));
        samples[n * repeats + r] = (double)(clock_ns() - start) * 1e-9;
    }
    TRY(run_phase(s, shape, phase, once, e)); /* the first run with timestamps is another recording: warm it too */
    for (uint32_t r = 0; r < repeats; r++) {
        TRY(run_phase(s, shape, phase, once, e));
        for (int i = 0; i < s->n_calls; i++) samples[(size_t)s->call_groups[i] * repeats + r] += once[i];
    }
    for (size_t i = 0; i <= n; i++) samples_sort(samples + i * repeats, repeats);
    return true;
}

wherry_status wherry_profile(wherry_session *session, const wherry_batch *batch, wherry_phase phase, uint32_t repeats,
                             double warm_seconds, wherry_cost *groups, size_t *count, double *step_seconds)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = session->context;
    if (!batch || !count || !repeats)
        return context_invalid(context, "wherry_profile: batch or count is NULL, or repeats is 0");
    if (phase > WHERRY_PHASE_BACKWARD || (phase && session->graph.out_gradient < 0))
        return context_invalid(context, "wherry_profile: phase %d, but only training has a forward and a backward one",
                               (int)phase);
    if (!session->prepared) {
        wherry_status status = wherry_session_prepare(session, NULL, NULL, NULL);
        if (status) return status;
    }
    struct error *e = &context->error;
    struct batch_shape shape;
    size_t n = (size_t)session->n_groups, calls = (size_t)session->n_calls;
    session->forward_done = false; /* what was kept is overwritten */
    if (!session_batch(session, batch, &shape, e)) return context_status(context, false);
    double *samples = host_alloc(&context->host, (n + 1) * repeats + calls, sizeof *samples, e);
    bool ok =
        samples && measure(session, &shape, phase, repeats, warm_seconds, samples, samples + (n + 1) * repeats, e);
    for (size_t i = 0; ok && groups && i < n && i < *count; i++) {
        const double *sorted = samples + i * repeats;
        cost_of_group(&session->graph, &shape, &session->groups[i], session_storage(session), &groups[i]);
        groups[i].seconds = samples_quantile(sorted, repeats, 0.5);
        groups[i].seconds_p05 = samples_quantile(sorted, repeats, 0.05);
        groups[i].seconds_p95 = samples_quantile(sorted, repeats, 0.95);
    }
    if (ok) *count = n;
    if (ok && step_seconds) *step_seconds = samples_quantile(samples + n * repeats, repeats, 0.5);
    host_free(&context->host, samples);
    return context_status(context, ok);
}
