#include "runtime/launches.h"

#include <string.h>

#include "base/number.h"
#include "plan/launches.h"
#include "runtime/portions.h"

/* Watchdogs of some seconds, at work that is up to four times as slow as a short batch lets expect. */
static const double default_seconds = 0.5;

/* Floating-point operations a second that slow devices of a kind reach, in any kernel that has enough to do. What takes
 * no longer than the bound at this speed is not measured. */
static double slow_speed(wherry_device_type type) { return type == WHERRY_DEVICE_DISCRETE_GPU ? 2e11 : 2e10; }

bool launches_resolve(struct wherry_session *s, double max_launch_ms, struct error *e)
{
    if (!(max_launch_ms >= -1e9 && max_launch_ms <= 1e9))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "max_launch_ms is no number of milliseconds from -1e9 to 1e9");
    const bool host = !s->device->kernels_hash;
    if (max_launch_ms > 0 && !host) s->max_launch_seconds = 1e-3 * max_launch_ms;
    if (max_launch_ms == 0 && !host && s->device->info.type != WHERRY_DEVICE_CPU)
        s->max_launch_seconds = default_seconds;
    return true;
}

/* Sessions that measure (`part`) have their kernels whole. */
static bool is_doubtful(const struct wherry_session *s, const struct step *step)
{
    return s->max_launch_seconds > 0 && !s->part &&
           step->flops > s->max_launch_seconds * slow_speed(s->device->info.type) && step_groups_most(step) > 1 &&
           call_divides(step->call);
}

bool launches_doubtful(const struct wherry_session *s)
{
    for (int i = 0; i < s->n_calls; i++)
        if (is_doubtful(s, &s->steps[i])) return true;
    return false;
}

/* Layers have the same kernels: what the slowest of them took counts for all, so that they are divided alike. */
static double rate_of(const struct wherry_session *s, const double *rates, int call)
{
    double most = rates[call];
    for (int i = 0; i < s->n_calls; i++)
        if (!strcmp(s->steps[i].kernel, s->steps[call].kernel) &&
            !strcmp(group_short_name(&s->groups[s->call_groups[i]]),
                    group_short_name(&s->groups[s->call_groups[call]])) &&
            rates[i] > most)
            most = rates[i];
    return most;
}

static double seconds_of(const struct wherry_session *s, const double *rates, int call)
{
    return rate_of(s, rates, call) * call_units(s, &s->limits, call);
}

/* Batches grow until what seems too long has run so long that beginnings and ends of submissions say little about it.
 */
static bool measure(struct wherry_session *s, double *rates, struct error *e)
{
    enum { TOKENS = 256, GROWTH = 4, TOKENS_MOST = 4096 };
    static const double enough_seconds = 2e-3;
    const uint32_t most = s->limits.tokens < TOKENS_MOST ? (uint32_t)s->limits.tokens : TOKENS_MOST;
    for (uint32_t tokens = most < TOKENS ? most : TOKENS;; tokens = tokens * GROWTH < most ? tokens * GROWTH : most) {
        struct batch_shape shape;
        bool enough = tokens == most;
        TRY(calls_measure(s, tokens, rates, &shape, e));
        double least = enough_seconds;
        for (int i = 0; i < s->n_calls; i++) {
            const double took = rates[i] * call_units(s, &shape, i);
            if (is_doubtful(s, &s->steps[i]) && seconds_of(s, rates, i) > s->max_launch_seconds && took < least)
                least = took;
        }
        if (enough || least >= enough_seconds) return true;
    }
}

bool launches_divide(struct wherry_session *s, bool *any, struct error *e)
{
    double *rates = host_alloc(&s->context->host, (size_t)s->n_calls, sizeof *rates, e);
    bool ok = rates && measure(s, rates, e);
    *any = false;
    for (int i = 0; ok && i < s->n_calls; i++) {
        struct step *step = &s->steps[i];
        const double seconds = is_doubtful(s, step) ? seconds_of(s, rates, i) : 0;
        if (seconds <= s->max_launch_seconds) continue;
        step->groups_most = launch_groups(step_groups_most(step), seconds / s->max_launch_seconds);
        const uint32_t launches = launch_count_most(step);
        if (launches < 2) continue;
        *any = true;
        ok = session_note(s, e, "%s: at most %u launches, for in one it would take %s s here at the session's limits",
                          group_short_name(&s->groups[step->group]), (unsigned)launches, NUMBER("%.2g", seconds));
    }
    host_free(&s->context->host, rates);
    return ok;
}
