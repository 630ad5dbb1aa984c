/* The derived numbers of a record, from its raw fields. */
#include "report/derive.h"

#include <stdlib.h>
#include <string.h>

#include "report/format.h"
#include "report/loads.h"
#include "session.h"

static const char over_peak[] = "W_OVER_PEAK", drifted[] = "W_DRIFT", distrusted[] = "W_TIMER";

enum { TEXT_SIZE = 320 };
static const double drift_limit = 0.03;

/* What a record has no number for is none. */
static double finite(double value) { return isfinite(value) ? value : (double)NAN; }

/* ---- ceilings ---- */

static bool is_rate(const struct record_ceiling *ceiling) { return strcmp(ceiling->unit, "s") != 0; }

/* Of two ceilings of the same id and device the higher one counts, the first of equal ones. */
static bool is_beaten(const struct record_ceiling *ceiling, const struct record_ceiling *rival)
{
    return rival != ceiling && rival->dev == ceiling->dev && strcmp(rival->id, ceiling->id) == 0 &&
           (rival->value > ceiling->value || (rival->value == ceiling->value && rival < ceiling));
}

/* Rates follow from their times, and the best of an id is the highest. Seconds, and what was fitted, stand for
 * themselves. */
static void derive_ceilings(struct record *record)
{
    struct record_ceiling *ceilings = record->ceilings;
    for (size_t n = 0; n < record->ceiling_count; n++) {
        double seconds = ceilings[n].time.median, amount = ceilings[n].amount;
        if (is_rate(&ceilings[n]) && seconds > 0 && amount > 0) ceilings[n].value = finite(amount / seconds);
    }
    for (size_t n = 0; n < record->ceiling_count; n++) {
        if (!is_rate(&ceilings[n])) continue;
        ceilings[n].best = true;
        for (size_t other = 0; other < record->ceiling_count && ceilings[n].best; other++)
            ceilings[n].best = !is_beaten(&ceilings[n], &ceilings[other]);
    }
}

/* The best of all ids that begin so, 0: none. */
static double best_ceiling(const struct record *record, uint64_t dev, const char *prefix)
{
    double best = 0;
    for (size_t n = 0; n < record->ceiling_count; n++) {
        const struct record_ceiling *ceiling = &record->ceilings[n];
        if (ceiling->dev == dev && strncmp(ceiling->id, prefix, strlen(prefix)) == 0 && ceiling->value > best)
            best = ceiling->value;
    }
    return best;
}

/* 0 where there are none. */
static uint64_t whole_bytes(double bytes) { return bytes > 0 && bytes < 1.8e19 ? (uint64_t)bytes : 0; }

/* What the operations of a device are divided by. Made once: there may be thousands of them, and many ceilings. */
struct device_roof {
    uint64_t dev;
    bool measured;              /* the record has ceilings of it; without, all are 0 */
    wherry_peaks plain, halves; /* halves: products of 16-bit values */
};

struct roofs {
    struct device_roof *list;
    size_t count;
};

static struct device_roof roof_of(const struct record *record, const struct record_device *device)
{
    uint64_t dev = device->dev;
    struct device_roof roof = {.dev = dev, .measured = record_has_roof(record, dev)};
    if (!roof.measured) return roof;
    roof.plain = (wherry_peaks){.bandwidth = best_ceiling(record, dev, "dram."),
                                .copy = record_ceiling(record, dev, "dram.copy"),
                                .cache_bandwidth = best_ceiling(record, dev, "cache."),
                                .theoretical_bandwidth = device->peak_bandwidth > 0 ? device->peak_bandwidth : 0,
                                .launch = record_ceiling(record, dev, "launch.seconds"),
                                .cache_bytes = whole_bytes(device->cache_bytes),
                                .flops = record_ceiling(record, dev, "compute.f32")};
    roof.halves = roof.plain;
    /* A product of 16-bit values may use what is fastest for them; sums and statistics are in f32. */
    roof.halves.flops = fmax(roof.halves.flops, record_ceiling(record, dev, "compute.f16"));
    roof.halves.flops = fmax(roof.halves.flops, record_ceiling(record, dev, "compute.matrix"));
    return roof;
}

/* Of a record whose ceilings are derived. To be freed. */
static struct roofs roofs_of(const struct record *record)
{
    struct roofs roofs = {.list = need(calloc(record->device_count + 1, sizeof *roofs.list)),
                          .count = record->device_count};
    for (size_t n = 0; n < roofs.count; n++) roofs.list[n] = roof_of(record, &record->devices[n]);
    return roofs;
}

/* NULL: its device has no ceilings. */
static const wherry_peaks *op_peaks(const struct roofs *roofs, const struct record_op *op)
{
    size_t n = 0;
    while (n < roofs->count && roofs->list[n].dev != op->dev) n++;
    if (n == roofs->count || !roofs->list[n].measured) return NULL;
    bool halves =
        op->class_ == WHERRY_CLASS_CONTRACTION && (strcmp(op->store, "f16") == 0 || strcmp(op->store, "bf16") == 0);
    return halves ? &roofs->list[n].halves : &roofs->list[n].plain;
}

/* ---- operations ---- */

static wherry_traffic op_traffic(const struct record_op *op)
{
    return (wherry_traffic){.unique_read = whole_bytes(op->q.read),
                            .unique_written = whole_bytes(op->q.written),
                            .model_read = whole_bytes(op->d_model.read),
                            .model_written = whole_bytes(op->d_model.written),
                            .requested_read = whole_bytes(op->requested.read),
                            .requested_written = whole_bytes(op->requested.written),
                            .footprint = whole_bytes(op->footprint_bytes)};
}

static void derive_op(const struct roofs *roofs, struct record_op *op)
{
    const wherry_peaks *peaks = op_peaks(roofs, op);
    wherry_traffic traffic = op_traffic(op);
    op->exceeds_peak = false;
    for (int m = 0; m < MODES; m++) {
        struct record_mode *mode = &op->modes[m];
        mode->is_derived = peaks && time_known(&mode->time);
        if (!mode->is_derived) continue;
        wherry_derive(peaks, &traffic, op->flops, mode->time.median, m == COLD, op->timer_ok, &mode->derived);
        mode->regime = wherry_regime_name(mode->derived.regime);
        op->exceeds_peak = op->exceeds_peak || mode->derived.over_peak;
    }
}

/* ---- plans ---- */

/* Adds an operation to its plan's sums; *seconds: of all that have times. */
static void sum_op(const struct record_op *op, struct record_plan *plan, double *seconds)
{
    const struct record_mode *warm = &op->modes[WARM];
    bool timed = time_known(&warm->time);
    if (op->class_ < CLASSES) {
        struct record_class *sum = &plan->classes[op->class_];
        sum->flops += op->flops;
        sum->bytes += bytes_sum(op->d_model);
        if (timed) sum->seconds += warm->time.median;
    }
    plan->limit_seconds += warm->is_derived ? finite(warm->derived.limit_seconds) : (double)NAN;
    if (!timed) return;
    *seconds += warm->time.median;
    if (!warm->is_derived) return;
    plan->regimes[warm->derived.regime] += warm->time.median;
    plan->has_regimes = true;
}

static void derive_plan(struct record_plan *plan)
{
    double seconds = 0;
    plan->classes = need(realloc(plan->classes, CLASSES * sizeof *plan->classes));
    plan->class_count = CLASSES;
    for (size_t n = 0; n < CLASSES; n++) plan->classes[n] = (struct record_class){.name = class_name((wherry_class)n)};
    for (size_t n = 0; n < REGIMES; n++) plan->regimes[n] = 0;
    plan->has_regimes = false; /* until some operation has one */
    plan->limit_seconds = 0;
    for (size_t n = 0; n < plan->op_count; n++) sum_op(plan->ops[n], plan, &seconds);
    for (size_t n = 0; n < plan->op_count; n++) plan->ops[n]->share = plan->ops[n]->modes[WARM].time.median / seconds;
    for (size_t n = 0; n < CLASSES; n++) {
        struct record_class *sum = &plan->classes[n];
        if (!(seconds > 0)) sum->seconds = NAN; /* nothing was measured */
        sum->share = sum->seconds / seconds;
    }
    if (!plan->has_regimes) plan->limit_seconds = NAN;
    plan->gap_seconds = plan->host.median - plan->kernels.median;
    plan->headroom = plan->host.median / plan->limit_seconds;
}

/* ---- warnings ---- */

bool warning_is_derived(const struct record_warning *warning)
{
    const char *const codes[] = {over_peak, drifted, distrusted};
    for (size_t n = 0; n < sizeof codes / sizeof *codes; n++)
        if (strcmp(codes[n], warning->code) == 0) return true;
    return false;
}

/* Of one operation over its ceiling: what was reached, and the ceilings beside it. */
static void warn_op(struct record *record, const struct record_op *op, const wherry_peaks *peaks)
{
    char text[TEXT_SIZE], a[NUMBER_SIZE], b[NUMBER_SIZE], c[NUMBER_SIZE], d[NUMBER_SIZE], e[NUMBER_SIZE];
    for (int m = 0; m < MODES; m++) {
        const wherry_derived *derived = &op->modes[m].derived;
        if (!op->modes[m].is_derived || !derived->over_peak) continue;
        snprintf(text, sizeof text,
                 "%s caches: %s (memory reached %s, cache %s) and %s (%s): more than the device's own measurement, "
                 "made %.0f times again",
                 mode_names[m], format_unit(derived->bandwidth, "B/s", a), format_unit(peaks->bandwidth, "B/s", b),
                 format_unit(peaks->cache_bandwidth, "B/s", c), format_unit(derived->flops_per_second, "flop/s", d),
                 format_unit(peaks->flops, "flop/s", e), (double)op->remeasured);
        record_warn(record, over_peak, op->plan, op->id, text);
    }
}

static void warn_timer(struct record *record, const struct record_device *device)
{
    const char *status = device->timer_status;
    bool bad = *status && strcmp(status, "ok") != 0;
    unsigned failed = 0;
    char text[TEXT_SIZE];
    for (size_t n = 0; n < record->op_count; n++)
        failed += record->ops[n].dev == device->dev && !record->ops[n].timer_ok;
    if (!bad && !failed) return;
    if (bad)
        snprintf(text, sizeof text, "the device's timer is not to be trusted (%s): %s", status, device->timer_reason);
    else
        snprintf(text, sizeof text, "the device's timer failed while %u groups were measured", failed);
    record_warn(record, distrusted, NULL, NULL, text);
}

/* Whether there was any. */
static bool warn_drift(struct record *record)
{
    char text[TEXT_SIZE];
    if (!(fabs(record->drift) > drift_limit)) return false;
    snprintf(text, sizeof text,
             "the same copy took %.1f %% %s at the end than at the beginning: times of this run are not comparable",
             100 * fabs(record->drift), record->drift > 0 ? "longer" : "less");
    record_warn(record, drifted, NULL, NULL, text);
    return true;
}

static void derive_warnings(struct record *record, const struct roofs *roofs)
{
    size_t kept = 0;
    for (size_t n = 0; n < record->warning_count; n++)
        if (warning_is_derived(&record->warnings[n]))
            json_decref(record->warnings[n].json);
        else
            record->warnings[kept++] = record->warnings[n];
    record->warning_count = kept;
    for (size_t n = 0; n < record->device_count; n++) warn_timer(record, &record->devices[n]);
    record->status = warn_drift(record) ? "drift" : "ok";
    for (size_t n = 0; n < record->op_count; n++)
        if (record->ops[n].exceeds_peak) warn_op(record, &record->ops[n], op_peaks(roofs, &record->ops[n]));
}

/* ---- all ---- */

void record_derive(struct record *record)
{
    record->drift = finite(record->last_seconds / record->first_seconds - 1);
    derive_ceilings(record);
    struct roofs roofs = roofs_of(record);
    for (size_t n = 0; n < record->op_count; n++) derive_op(&roofs, &record->ops[n]);
    for (size_t n = 0; n < record->plan_count; n++) derive_plan(&record->plans[n]);
    for (size_t n = 0; n < record->load_count; n++) load_derive(&record->loads[n]);
    derive_warnings(record, &roofs);
    free(roofs.list);
}
