/* The derived numbers of a record, from its raw fields. */
#include "report/derive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/fields.h"
#include "report/format.h"
#include "report/keys.h"
#include "report/record.h"
#include "session.h"

const char *const class_names[3] = {"contraction", "normalization", "elementwise"};
const char *const regime_names[REGIMES] = {"compute", "memory", "cache", "launch", "unknown"};
const char *const derived_warnings[3] = {"W_OVER_PEAK", "W_DRIFT", "W_TIMER"};
static const char *const modes[2] = {"warm", "cold"};

enum { TEXT_SIZE = 320 };
static const double drift_limit = 0.03;

static bool same_text(const json_t *a, const json_t *b, const char *field)
{
    return strcmp(field_text(a, field), field_text(b, field)) == 0;
}

static bool same_device(const json_t *a, const json_t *b) { return field_number(a, "dev") == field_number(b, "dev"); }

/* ---- ceilings ---- */

static bool is_rate(const json_t *ceiling) { return strcmp(field_text(ceiling, "unit"), "s") != 0; }

/* Rates follow from their times, and the best of an id is the highest. Seconds, and what was fitted, stand for
 * themselves. */
static void derive_ceilings(json_t *record)
{
    size_t n, other;
    json_t *ceiling, *rival, *ceilings = json_object_get(record, "ceilings");
    json_array_foreach(ceilings, n, ceiling)
    {
        double seconds = field_number(ceiling, "time.median"), amount = field_number(ceiling, "amount");
        if (is_rate(ceiling) && seconds > 0 && amount > 0)
            json_object_set_new(ceiling, "value", record_number(amount / seconds));
    }
    json_array_foreach(ceilings, n, ceiling)
    {
        if (!is_rate(ceiling)) continue;
        double value = field_number(ceiling, "value");
        bool best = true;
        json_array_foreach(ceilings, other, rival)
        {
            double theirs = field_number(rival, "value");
            if (other != n && same_text(rival, ceiling, "id") && same_device(rival, ceiling) &&
                (theirs > value || (theirs == value && other < n)))
                best = false;
        }
        json_object_set_new(ceiling, "best", json_boolean(best));
    }
}

double record_ceiling(const json_t *record, const json_t *entry, const char *id)
{
    size_t n;
    const json_t *ceiling;
    json_array_foreach(json_object_get(record, "ceilings"), n, ceiling)
    {
        if (same_device(ceiling, entry) && field_true(ceiling, "best") && strcmp(field_text(ceiling, "id"), id) == 0)
            return field_number(ceiling, "value");
    }
    return 0;
}

/* The best of all ids that begin so, 0: none. */
static double best_ceiling(const json_t *record, const json_t *entry, const char *prefix)
{
    size_t n;
    const json_t *ceiling;
    double best = 0;
    json_array_foreach(json_object_get(record, "ceilings"), n, ceiling)
    {
        double value = field_number(ceiling, "value");
        if (same_device(ceiling, entry) && strncmp(field_text(ceiling, "id"), prefix, strlen(prefix)) == 0 &&
            value > best)
            best = value;
    }
    return best;
}

bool record_has_roof(const json_t *record, const json_t *entry)
{
    size_t n;
    const json_t *ceiling;
    json_array_foreach(json_object_get(record, "ceilings"), n, ceiling)
    {
        if (same_device(ceiling, entry)) return true;
    }
    return false;
}

static double known(double value) { return value > 0 ? value : 0; }

/* What the operations of a device are divided by. Made once: there may be thousands of them, and many ceilings. */
struct device_roof {
    double dev;
    bool measured;              /* the record has ceilings of it; without, all are 0 */
    wherry_peaks plain, halves; /* halves: products of 16-bit values */
};

struct roofs {
    struct device_roof *list;
    size_t count;
};

static struct device_roof roof_of(const json_t *record, const json_t *device)
{
    struct device_roof roof = {.dev = field_number(device, "dev"), .measured = record_has_roof(record, device)};
    if (!roof.measured) return roof;
    roof.plain = (wherry_peaks){.bandwidth = best_ceiling(record, device, "dram."),
                                .copy = record_ceiling(record, device, "dram.copy"),
                                .cache_bandwidth = best_ceiling(record, device, "cache."),
                                .theoretical_bandwidth = known(field_number(device, "theoretical.bandwidth")),
                                .launch = record_ceiling(record, device, "launch.seconds"),
                                .cache_bytes = field_bytes(device, "cache.bytes"),
                                .flops = record_ceiling(record, device, "compute.f32")};
    roof.halves = roof.plain;
    /* A product of 16-bit values may use what is fastest for them; sums and statistics are in f32. */
    roof.halves.flops = fmax(roof.halves.flops, record_ceiling(record, device, "compute.f16"));
    roof.halves.flops = fmax(roof.halves.flops, record_ceiling(record, device, "compute.matrix"));
    return roof;
}

/* Of a record whose ceilings are derived. To be freed. */
static struct roofs roofs_of(const json_t *record)
{
    const json_t *devices = json_object_get(record, "devices"), *device;
    struct roofs roofs = {.list = need(calloc(json_array_size(devices) + 1, sizeof *roofs.list))};
    json_array_foreach(devices, roofs.count, device) roofs.list[roofs.count] = roof_of(record, device);
    return roofs;
}

/* NULL: its device has no ceilings. */
static const wherry_peaks *op_peaks(const struct roofs *roofs, const json_t *op)
{
    double dev = field_number(op, "dev");
    size_t n = 0;
    while (n < roofs->count && roofs->list[n].dev != dev) n++;
    if (n == roofs->count || !roofs->list[n].measured) return NULL;
    bool halves =
        strcmp(field_text(op, "class"), "contraction") == 0 && strcmp(field_text(op, "dtype.store"), "f16") == 0;
    return halves ? &roofs->list[n].halves : &roofs->list[n].plain;
}

/* ---- operations ---- */

static void op_traffic(const json_t *op, wherry_traffic *out)
{
    *out = (wherry_traffic){.unique_read = field_bytes(op, "bytes.q.r"),
                            .unique_written = field_bytes(op, "bytes.q.w"),
                            .model_read = field_bytes(op, "bytes.d_model.r"),
                            .model_written = field_bytes(op, "bytes.d_model.w"),
                            .requested_read = field_bytes(op, "bytes.requested.r"),
                            .requested_written = field_bytes(op, "bytes.requested.w"),
                            .footprint = field_bytes(op, "footprint_bytes")};
}

static json_t *derived_json(const wherry_derived *d)
{
    json_t *value = need(json_object());
    const struct {
        const char *name;
        double number;
    } numbers[] = {{"bandwidth", d->bandwidth},
                   {"bandwidth_unique", d->bandwidth_unique},
                   {"bandwidth_requested", d->bandwidth_requested},
                   {"flops_per_second", d->flops_per_second},
                   {"intensity", d->intensity},
                   {"intensity_model", d->intensity_model},
                   {"roof_memory", d->roof_memory},
                   {"roof_cache", d->roof_cache},
                   {"copy_share", d->copy_share},
                   {"mue", d->mue},
                   {"mue_theoretical", d->mue_theoretical},
                   {"q_over_d", d->q_over_d},
                   {"b_over_peak", d->b_over_peak},
                   {"limit_seconds", d->limit_seconds},
                   {"headroom", d->headroom}};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        json_object_set_new(value, numbers[n].name, record_number(numbers[n].number));
    json_object_set_new(value, "regime", json_string(wherry_regime_name(d->regime)));
    json_object_set_new(value, "over_peak", json_boolean(d->over_peak));
    return value;
}

static void derive_op(const struct roofs *roofs, json_t *op)
{
    const wherry_peaks *peaks = op_peaks(roofs, op);
    wherry_traffic traffic;
    bool exceeds = false;
    op_traffic(op, &traffic);
    json_t *derived = need(json_object());
    for (int mode = 0; mode < 2; mode++) {
        wherry_derived d;
        const json_t *time = field_get(op, modes[mode]);
        if (!peaks || !time) {
            json_object_set_new(derived, modes[mode], json_null());
            continue;
        }
        wherry_derive(peaks, &traffic, field_number(op, "flops"), field_number(time, "median"), mode == 1,
                      field_true(op, "checks.timer_ok"), &d);
        exceeds = exceeds || d.over_peak;
        json_object_set_new(derived, modes[mode], derived_json(&d));
    }
    json_object_set_new(op, "derived", derived);
    json_object_set_new(json_object_get(op, "checks"), "exceeds_peak", json_boolean(exceeds));
}

/* ---- plans ---- */

struct plan_sums {
    struct class_sum {
        double seconds, flops, bytes;
    } classes[3];
    double regimes[REGIMES];
    double seconds, limit; /* NAN: nothing measured, one limit unknown */
    bool derived;          /* some operation has a regime */
};

static size_t name_index(const char *const *names, size_t count, const char *name)
{
    size_t n = 0;
    while (n < count && strcmp(names[n], name) != 0) n++;
    return n;
}

static void sum_op(const json_t *op, struct plan_sums *sums)
{
    size_t class_ = name_index(class_names, 3, field_text(op, "class"));
    size_t regime = name_index(regime_names, REGIMES, field_text(op, "derived.warm.regime"));
    double seconds = field_number(op, "warm.median");
    if (class_ < 3) {
        struct class_sum *sum = &sums->classes[class_];
        sum->flops += field_number(op, "flops");
        sum->bytes += (double)field_bytes(op, "bytes.d_model.r") + (double)field_bytes(op, "bytes.d_model.w");
        if (!isnan(seconds)) sum->seconds += seconds;
    }
    sums->limit += field_number(op, "derived.warm.limit_seconds");
    if (isnan(seconds)) return;
    sums->seconds += seconds;
    if (regime == REGIMES) return;
    sums->regimes[regime] += seconds;
    sums->derived = true;
}

static json_t *classes_json(const struct plan_sums *sums)
{
    json_t *list = need(json_array());
    for (size_t n = 0; n < 3; n++) {
        const struct class_sum *sum = &sums->classes[n];
        bool timed = sums->seconds > 0;
        json_array_append_new(list,
                              need(json_pack("{s:s, s:o, s:o, s:o, s:o}", "class", class_names[n], "seconds",
                                             record_number(timed ? sum->seconds : (double)NAN), "flops",
                                             record_number(sum->flops), "bytes", record_number(sum->bytes), "share",
                                             record_number(timed ? sum->seconds / sums->seconds : (double)NAN))));
    }
    return list;
}

static void derive_plan(json_t *plan, const struct plan_ops *ops)
{
    struct plan_sums sums = {.seconds = 0};
    for (size_t n = 0; n < ops->count; n++) sum_op(ops->list[n], &sums);
    for (size_t n = 0; n < ops->count; n++) {
        double seconds = field_number(ops->list[n], "warm.median");
        json_object_set_new(ops->list[n], "share", record_number(seconds / sums.seconds));
    }
    double host = field_number(plan, "step.host.median"), gap = host - field_number(plan, "step.kernels.median");
    double limit = sums.derived ? sums.limit : (double)NAN;
    json_object_set_new(json_object_get(plan, "step"), "gap_seconds", record_number(gap));
    json_object_set_new(plan, "by_class", classes_json(&sums));
    json_t *regimes = sums.derived ? need(json_object()) : json_null();
    for (size_t r = 0; r < REGIMES && sums.derived; r++)
        json_object_set_new(regimes, regime_names[r], record_number(sums.regimes[r]));
    if (sums.derived) json_object_set_new(regimes, "gap", record_number(gap));
    json_object_set_new(plan, "by_regime", regimes);
    json_object_set_new(plan, "limit_seconds", record_number(limit));
    json_object_set_new(plan, "headroom", record_number(host / limit));
}

/* ---- warnings ---- */

void record_warn(json_t *record, const char *code, const char *plan, const char *op, const char *text)
{
    json_array_append_new(
        json_object_get(record, "warnings"),
        need(json_pack("{s:s, s:o, s:o, s:o}", "code", code, "plan", plan ? text_json(plan) : json_null(), "op",
                       op ? text_json(op) : json_null(), "text", text_json(text))));
}

/* Of one operation over its ceiling: what was reached, and the ceilings beside it. */
static void warn_op(json_t *record, const json_t *op, const wherry_peaks *peaks)
{
    char text[TEXT_SIZE], a[NUMBER_SIZE], b[NUMBER_SIZE], c[NUMBER_SIZE], d[NUMBER_SIZE], e[NUMBER_SIZE];
    for (int mode = 0; mode < 2; mode++) {
        const json_t *derived = field_get(field_get(op, "derived"), modes[mode]);
        if (!field_true(derived, "over_peak")) continue;
        snprintf(text, sizeof text,
                 "%s caches: %s (memory reached %s, cache %s) and %s (%s): more than the device's own measurement, "
                 "made %.0f times again",
                 modes[mode], format_unit(field_number(derived, "bandwidth"), "B/s", a),
                 format_unit(peaks->bandwidth, "B/s", b), format_unit(peaks->cache_bandwidth, "B/s", c),
                 format_unit(field_number(derived, "flops_per_second"), "flop/s", d),
                 format_unit(peaks->flops, "flop/s", e), field_number(op, "checks.remeasured"));
        record_warn(record, "W_OVER_PEAK", field_text(op, "plan"), field_text(op, "id"), text);
    }
}

static void warn_timers(json_t *record)
{
    size_t n, o;
    json_t *device, *op;
    char text[TEXT_SIZE];
    json_array_foreach(json_object_get(record, "devices"), n, device)
    {
        const char *status = field_text(device, "timer.status");
        unsigned distrusted = 0;
        json_array_foreach(json_object_get(record, "ops"), o, op) distrusted +=
            same_device(op, device) && !field_true(op, "checks.timer_ok");
        bool bad = *status && strcmp(status, "ok") != 0;
        if (!bad && !distrusted) continue;
        if (bad)
            snprintf(text, sizeof text, "the device's timer is not to be trusted (%s): %s", status,
                     field_text(device, "timer.reason"));
        else
            snprintf(text, sizeof text, "the device's timer failed while %u groups were measured", distrusted);
        record_warn(record, "W_TIMER", NULL, NULL, text);
    }
}

static bool is_derived_warning(const json_t *warning)
{
    return name_index(derived_warnings, 3, field_text(warning, "code")) < 3;
}

static void derive_warnings(json_t *record, const struct roofs *roofs)
{
    json_t *warnings = need(json_array()), *warning, *op;
    size_t n;
    json_array_foreach(json_object_get(record, "warnings"), n, warning)
    {
        if (!is_derived_warning(warning)) json_array_append(warnings, warning);
    }
    json_object_set_new(record, "warnings", warnings);
    warn_timers(record);
    double drift = field_number(record, "run.sentinel.drift");
    bool drifted = fabs(drift) > drift_limit;
    if (drifted) {
        char text[TEXT_SIZE];
        snprintf(text, sizeof text,
                 "the same copy took %.1f %% %s at the end than at the beginning: times of this run are not comparable",
                 100 * fabs(drift), drift > 0 ? "longer" : "less");
        record_warn(record, "W_DRIFT", NULL, NULL, text);
    }
    json_array_foreach(json_object_get(record, "ops"), n, op)
    {
        if (field_true(op, "checks.exceeds_peak")) warn_op(record, op, op_peaks(roofs, op));
    }
    json_object_set_new(record, "status", json_string(drifted ? "drift" : "ok"));
}

/* ---- all ---- */

void record_derive(json_t *record)
{
    size_t n;
    json_t *op, *plan, *sentinel = field_get(record, "run.sentinel");
    if (sentinel) {
        double first = field_number(sentinel, "first_seconds"), last = field_number(sentinel, "last_seconds");
        json_object_set_new(sentinel, "drift", record_number(last / first - 1));
    }
    derive_ceilings(record);
    struct roofs roofs = roofs_of(record);
    struct op_groups groups = ops_group(record);
    json_array_foreach(json_object_get(record, "ops"), n, op) derive_op(&roofs, op);
    json_array_foreach(json_object_get(record, "plans"), n, plan) derive_plan(plan, &groups.plans[n]);
    derive_warnings(record, &roofs);
    op_groups_free(&groups);
    free(roofs.list);
}
