/* Profile: device time of every group, and the host's time of a whole encode. */
#include <stdlib.h>
#include <string.h>

#include "base/platform.h"
#include "runtime/session.h"

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Value at fraction q of `n` sorted values, between neighbours. */
static double quantile(const double *sorted, size_t n, double q)
{
    double at = q * (double)(n - 1);
    size_t low = (size_t)at;
    double rest = at - (double)low;
    return low + 1 < n ? sorted[low] * (1 - rest) + sorted[low + 1] * rest : sorted[low];
}

static bool warm_up(struct wherry_session *s, const struct batch_shape *shape, double seconds, struct error *e)
{
    uint64_t start = clock_ns();
    do {
        TRY(session_run(s, shape, NULL, e));
    } while ((double)(clock_ns() - start) * 1e-9 < seconds);
    return true;
}

/* samples: [groups + 1][repeats], the last row for the whole step. */
static bool measure(struct wherry_session *s, const struct batch_shape *shape, uint32_t repeats, double warm_seconds,
                    double *samples, double *once, struct error *e)
{
    size_t n = (size_t)s->n_groups;
    TRY(warm_up(s, shape, warm_seconds, e));
    for (uint32_t r = 0; r < repeats; r++) {
        uint64_t start = clock_ns();
        TRY(session_run(s, shape, NULL, e));
        samples[n * repeats + r] = (double)(clock_ns() - start) * 1e-9;
    }
    TRY(session_run(s, shape, once, e)); /* the first run with timestamps is another recording: warm it too */
    for (uint32_t r = 0; r < repeats; r++) {
        TRY(session_run(s, shape, once, e));
        for (size_t i = 0; i < n; i++) samples[i * repeats + r] = once[i];
    }
    for (size_t i = 0; i <= n; i++) qsort(samples + i * repeats, repeats, sizeof *samples, ascending);
    return true;
}

wherry_status wherry_profile(wherry_session *session, const wherry_batch *batch, uint32_t repeats, double warm_seconds,
                             wherry_cost *groups, size_t *count, double *step_seconds)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = session->context;
    if (!batch || !count || !repeats)
        return context_invalid(context, "wherry_profile: batch or count is NULL, or repeats is 0");
    if (!session->prepared) {
        wherry_status status = wherry_session_prepare(session, NULL, NULL, NULL);
        if (status) return status;
    }
    struct error *e = &context->error;
    struct batch_shape shape;
    size_t n = (size_t)session->n_groups;
    if (!session_batch(session, batch, &shape, e)) return context_status(context, false);
    double *samples = host_alloc(&context->host, (n + 1) * repeats + n, sizeof *samples, e);
    bool ok = samples && measure(session, &shape, repeats, warm_seconds, samples, samples + (n + 1) * repeats, e);
    for (size_t i = 0; ok && groups && i < n && i < *count; i++) {
        const double *sorted = samples + i * repeats;
        cost_of_group(&session->graph, &shape, &session->groups[i], session_storage(session), &groups[i]);
        groups[i].seconds = quantile(sorted, repeats, 0.5);
        groups[i].seconds_p05 = quantile(sorted, repeats, 0.05);
        groups[i].seconds_p95 = quantile(sorted, repeats, 0.95);
    }
    if (ok) *count = n;
    if (ok && step_seconds) *step_seconds = quantile(samples + n * repeats, repeats, 0.5);
    host_free(&context->host, samples);
    return context_status(context, ok);
}
