/* The device's timer against the host's clock. */
#include "measure/timer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "measure/statistics.h"

const char *wherry_timer_status_name(wherry_timer_status status)
{
    static const char *const names[] = {"ok", "absent", "backwards", "stuck", "unit"};
    return (unsigned)status < sizeof names / sizeof *names ? names[status] : "?";
}

/* ---- the verdict ---- */

static const double tolerance = 0.02; /* of the slope */
enum { DOUBT_SAMPLES = 20 };          /* fewer have no confidence interval to speak of */

void timer_condemn(wherry_timer_info *info, wherry_timer_status status, const char *reason)
{
    info->status = status;
    snprintf(info->reason, sizeof info->reason, "%.150s", reason);
    snprintf(info->kind, sizeof info->kind, "host");
}

/* Of the line through (host, device): what launching costs is the same for every length and drops out. Weights are
 * equal: the longest work is the surest. */
static double line_slope(const double *host, const double *device)
{
    double x = 0, y = 0, xx = 0, xy = 0;
    for (int i = 0; i < TIMER_LENGTHS; i++) x += host[i] / TIMER_LENGTHS, y += device[i] / TIMER_LENGTHS;
    for (int i = 0; i < TIMER_LENGTHS; i++) {
        xx += (host[i] - x) * (host[i] - x);
        xy += (host[i] - x) * (device[i] - y);
    }
    return xx > 0 ? xy / xx : NAN;
}

/* Whether the slopes of single repeats contradict what the quietest ones say: on a busy host they scatter, and then the
 * confidence interval of their median reaches what a true timer shows. */
static bool slopes_doubt(const struct timer_sample *samples, size_t n, double *slope)
{
    enum { MOST = 64 };
    double slopes[MOST];
    for (size_t i = 0; i < n && i < MOST; i++) slopes[i] = line_slope(samples[i].host, samples[i].device);
    wherry_time t = time_summary(slopes, n < MOST ? n : MOST, 0);
    if (t.ci_low > 1 + tolerance || t.ci_high < 1 - tolerance) return false;
    *slope = t.median;
    return true;
}

/* Of each length the run in which the host waited least: what keeps the host from looking only ever adds. */
static void quietest(const struct timer_sample *samples, size_t n, double *host, double *device)
{
    for (int k = 0; k < TIMER_LENGTHS; k++) {
        size_t best = 0;
        for (size_t i = 1; i < n; i++)
            if (samples[i].host[k] < samples[best].host[k]) best = i;
        host[k] = samples[best].host[k];
        device[k] = samples[best].device[k];
    }
}

void timer_judge(const struct timer_sample *samples, size_t n, wherry_timer_info *out)
{
    double host[TIMER_LENGTHS], device[TIMER_LENGTHS];
    char text[160];
    out->status = WHERRY_TIMER_OK;
    out->slope = NAN;
    out->reason[0] = 0;
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < TIMER_LENGTHS; k++) {
            if (samples[i].device[k] >= 0) continue;
            timer_condemn(out, WHERRY_TIMER_BACKWARDS, "an end before its start");
            return;
        }
    quietest(samples, n, host, device);
    /* Eight times the work, and not half as much more by this timer as by the host's would be: it does not move. */
    double more = device[TIMER_LENGTHS - 1] - device[0];
    if (!(fabs(more) > 0.01 * (host[TIMER_LENGTHS - 1] - host[0]))) {
        timer_condemn(out, WHERRY_TIMER_STUCK, "as much time for eight times the work");
        return;
    }
    out->slope = line_slope(host, device);
    for (int k = 1; k < TIMER_LENGTHS; k++) {
        if (device[k] > device[k - 1]) continue;
        snprintf(text, sizeof text, "%s s for some work and %s s for twice as much", NUMBER("%g", device[k - 1]),
                 NUMBER("%g", device[k]));
        timer_condemn(out, WHERRY_TIMER_UNIT, text);
        return;
    }
    if (fabs(out->slope - 1) <= tolerance || (n >= DOUBT_SAMPLES && slopes_doubt(samples, n, &out->slope))) return;
    snprintf(text, sizeof text, "counts %s s in a second of the host's clock", NUMBER("%.4g", out->slope));
    timer_condemn(out, WHERRY_TIMER_UNIT, text);
}

/* ---- the test ---- */

static bool sample_lengths(struct bench *b, struct work *w, uint32_t turns, struct timer_sample *sample,
                           struct error *e)
{
    double seconds[WORK_STEPS];
    for (int k = 0; k < TIMER_LENGTHS; k++) {
        arithmetic_turns(w, turns << k);
        TRY(work_write_words(b, w, e));
        TRY(work_run(b, w, 1, seconds, &sample->host[k], e));
        sample->device[k] = seconds[0];
    }
    return true;
}

/* Turns after which the host has waited `target` longer than for one. */
static bool turns_find(struct bench *b, struct work *w, double target, uint32_t *turns, struct error *e)
{
    double base, host = 0;
    arithmetic_turns(w, 1);
    TRY(work_write_words(b, w, e));
    TRY(work_run(b, w, 1, NULL, &base, e)); /* finishes what the driver left for the first run */
    TRY(work_run(b, w, 1, NULL, &base, e));
    for (*turns = 2; *turns < 1 << 20; *turns *= 2) {
        arithmetic_turns(w, *turns);
        TRY(work_write_words(b, w, e));
        TRY(work_run(b, w, 1, NULL, &host, e));
        if (host - base > target) break;
    }
    return true;
}

bool timer_measure(struct bench *b, struct work *w, wherry_timer_info *out, struct error *e)
{
    enum { REPEATS = 7, ATTEMPTS = 4 };
    struct timer_sample samples[REPEATS * ATTEMPTS];
    struct error cause = {0};
    uint32_t turns;
    *out = (wherry_timer_info){
        .tick_seconds = b->limits->timer_seconds, .valid_bits = b->limits->timer_bits, .slope = NAN};
    if (!b->limits->timer) {
        timer_condemn(out, WHERRY_TIMER_ABSENT, "the driver has no timestamps");
        return true;
    }
    TRY(turns_find(b, w, b->limits->cpu ? 4e-3 : 1e-3, &turns, e));
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) { /* a busy host is no reason to condemn a timer */
        for (int i = 0; i < REPEATS; i++) {
            if (sample_lengths(b, w, turns, &samples[attempt * REPEATS + i], &cause)) continue;
            if (cause.status != WHERRY_STATUS_UNSUPPORTED) {
                *e = cause;
                return false;
            }
            timer_condemn(out, cause.timer ? (wherry_timer_status)cause.timer : WHERRY_TIMER_ABSENT, cause.text);
            return true;
        }
        timer_judge(samples, (size_t)(attempt + 1) * REPEATS, out);
        if (out->status == WHERRY_TIMER_OK) {
            snprintf(out->kind, sizeof out->kind, "%s", b->limits->timer);
            return true;
        }
        if (out->status != WHERRY_TIMER_UNIT || !(fabs(out->slope - 1) < 0.5)) break; /* no noise does that */
    }
    return true;
}

wherry_status wherry_timer_test(wherry_device *device, wherry_timer_info *out)
{
    if (!device) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = device->context;
    struct error *e = context_error(context);
    const wherry_roof_desc desc = {.struct_size = sizeof desc, .dram_bytes = 1};
    wherry_timer_info info;
    struct bench b;
    if (!out) return context_invalid(context, "wherry_timer_test: out is NULL");
    if (!device->backend->limits(device->handle)->timer && !strcmp(device->info.id, "reference")) {
        fail(e, WHERRY_STATUS_UNSUPPORTED, "the reference has no kernels to be timed");
        return context_status(context, false);
    }
    if (!device_executes(device, e)) return context_status(context, false);
    bool ok = bench_open(&b, device, &desc, e);
    struct work *w = ok ? arithmetic_work(&b, "timer", false, 2, 64, e) : NULL;
    ok = w && works_prepare(&b, 0, e) && timer_measure(&b, w, &info, e);
    bench_close(&b);
    if (ok) *out = info;
    return context_status(context, ok);
}

bool timer_of_device(struct wherry_device *device, wherry_timer_info *out)
{
    if (!strcmp(device->info.id, "reference"))
        device->timer = (wherry_timer_info){.kind = "host", .tick_seconds = 1e-9, .valid_bits = 64, .slope = 1};
    *out = device->timer;
    if (*out->kind) return true;
    if (wherry_timer_test(device, out)) return false;
    if (out->status == WHERRY_TIMER_OK) device->timer = *out;
    return true;
}
