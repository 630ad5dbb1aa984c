/* The parts of a record (docs/report.schema.json): what was measured, as JSON that every output is made from. */
#include "report/record.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "session.h"
#include "system.h"

/* ---- values ---- */

json_t *record_number(double value) { return need(isfinite(value) ? json_real(value) : json_null()); }

static json_t *number_or_null(double value) { return value > 0 ? record_number(value) : need(json_null()); }

static json_t *integer_or_null(uint64_t value) { return need(value ? json_integer((json_int_t)value) : json_null()); }

json_t *record_time(const wherry_time *time)
{
    if (!time || !time->n) return need(json_null());
    return need(json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:[o, o], s:I, s:I, s:o}", "median",
                          record_number(time->median), "p05", record_number(time->p05), "p95", record_number(time->p95),
                          "min", record_number(time->min), "mean", record_number(time->mean), "cv",
                          record_number(time->cv), "ci95", record_number(time->ci_low), record_number(time->ci_high),
                          "n", (json_int_t)time->n, "outliers", (json_int_t)time->outliers, "first",
                          record_number(time->first)));
}

json_t *record_dtype(wherry_dtype dtype)
{
    return need(dtype == WHERRY_DTYPE_DEFAULT ? json_null() : json_string(dtype_name(dtype)));
}

static const char *unit_name(wherry_unit unit)
{
    static const char *const names[] = {"B/s", "flop/s", "s"};
    return (unsigned)unit < 3 ? names[unit] : "?";
}

/* ---- devices ---- */

json_t *record_timer(const wherry_timer_info *timer)
{
    if (!timer) return need(json_null());
    return need(json_pack("{s:s, s:o, s:I, s:o, s:s, s:o}", "kind", timer->kind, "tick_seconds",
                          number_or_null(timer->tick_seconds), "valid_bits", (json_int_t)timer->valid_bits, "slope",
                          record_number(timer->slope), "status", wherry_timer_status_name(timer->status), "reason",
                          *timer->reason ? text_json(timer->reason) : json_null()));
}

static json_t *limits_json(const wherry_device_limits *limits)
{
    if (!limits) return need(json_null());
    return need(json_pack("{s:I, s:[I, I], s:I, s:o, s:o}", "shared_bytes", (json_int_t)limits->shared_bytes,
                          "subgroup", (json_int_t)limits->subgroup_min, (json_int_t)limits->subgroup_max,
                          "max_local_size", (json_int_t)limits->max_local_size, "max_buffer_bytes",
                          integer_or_null(limits->max_buffer_bytes), "max_binding_bytes",
                          integer_or_null(limits->max_binding_bytes)));
}

json_t *record_device(const struct record_device *device)
{
    const wherry_device_info *info = device->info;
    char backend[32];
    snprintf(backend, sizeof backend, "%.*s", (int)strcspn(info->id, ":"), info->id);
    json_t *record = device_json(info);
    json_object_del(record, "usable");
    json_object_del(record, "reason");
    json_object_set_new(record, "dev", json_integer(device->dev));
    json_object_set_new(record, "backend", json_string(backend));
    json_object_set_new(record, "limits", limits_json(device->limits));
    json_object_set_new(record, "theoretical",
                        need(json_pack("{s:o, s:o, s:o}", "bandwidth", number_or_null(device->peak_bandwidth), "flops",
                                       number_or_null(device->peak_flops), "source",
                                       device->peak_source ? json_string(device->peak_source) : json_null())));
    json_object_set_new(
        record, "cache",
        need(json_pack("{s:o, s:s}", "bytes", integer_or_null(device->cache_bytes), "source", "probed")));
    json_object_set_new(record, "timer", record_timer(device->timer));
    return record;
}

/* ---- the run ---- */

/* A random UUID, version 4. */
static json_t *uuid_json(void)
{
    unsigned char bytes[16];
    char text[37];
    system_random(bytes, sizeof bytes);
    bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
    struct text_writer t = text_begin(text, sizeof text);
    for (size_t n = 0; n < sizeof bytes; n++) {
        if (n == 4 || n == 6 || n == 8 || n == 10) text_add(&t, "-");
        text_hex(&t, &bytes[n], 1);
    }
    return need(json_string(text));
}

static json_t *host_json(void)
{
    struct system_host host;
    system_describe(&host);
    return need(json_pack("{s:o, s:o, s:o, s:o}", "os", *host.os ? text_json(host.os) : json_null(), "cpu",
                          *host.cpu ? text_json(host.cpu) : json_null(), "cores", integer_or_null(host.cores),
                          "ram_bytes", integer_or_null(host.ram_bytes)));
}

static json_t *sentinel_json(const wherry_roof *roof)
{
    wherry_time first = {0}, last = {0};
    if (roof) wherry_roof_sentinel(roof, &first, &last);
    if (!first.n || !last.n) return need(json_null());
    return need(json_pack("{s:o, s:o, s:o}", "first_seconds", record_number(first.median), "last_seconds",
                          record_number(last.median), "drift", record_number(last.median / first.median - 1)));
}

json_t *record_run(const struct options *options, const char *data_kind, const wherry_roof *roof)
{
    char date[32] = "";
    time_t now = time(NULL);
    const struct tm *utc = gmtime(&now);
    if (utc) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", utc);
    const char *commit = tool_commit();
    json_t *line = need(json_array());
    for (int n = 0; n < options->argc; n++) json_array_append_new(line, text_json(options->argv[n]));
    return need(json_pack("{s:o, s:s, s:{s:s, s:o}, s:o, s:I, s:s, s:[], s:o, s:o}", "id", uuid_json(), "utc", date,
                          "tool", "version", wherry_version_string(), "git",
                          *commit ? json_string(commit) : json_null(), "command_line", line, "seed",
                          (json_int_t)(options->seed ? options->seed : 1), "data_kind", data_kind, "cache_modes",
                          "host", host_json(), "sentinel", sentinel_json(roof)));
}

/* ---- the roof ---- */

json_t *record_ceilings(const wherry_roof *roof, int dev, const char *data_kind)
{
    json_t *list = need(json_array());
    size_t count = 0;
    const wherry_ceiling *ceilings = roof ? wherry_roof_ceilings(roof, &count) : NULL;
    for (size_t n = 0; n < count; n++) {
        const wherry_ceiling *c = &ceilings[n];
        json_array_append_new(
            list,
            need(json_pack("{s:s, s:i, s:s, s:o, s:b, s:s, s:o, s:s, s:o, s:I, s:o}", "id", c->id, "dev", dev, "unit",
                           unit_name(c->unit), "value", record_number(c->value), "best", c->best, "config", c->config,
                           "dtype", record_dtype(c->dtype), "data_kind", data_kind, "amount", record_number(c->amount),
                           "footprint_bytes", (json_int_t)c->footprint_bytes, "time", record_time(&c->time))));
    }
    return list;
}

static json_t *points_json(const wherry_roof_point *points, size_t count, int dev)
{
    json_t *list = need(json_array());
    for (size_t n = 0; n < count; n++)
        json_array_append_new(list, need(json_pack("{s:i, s:I, s:o}", "dev", dev, "bytes", (json_int_t)points[n].bytes,
                                                   "time", record_time(&points[n].time))));
    return list;
}

json_t *record_sweep(const wherry_roof *roof, int dev)
{
    size_t count = 0;
    const wherry_roof_point *points = roof ? wherry_roof_sweep(roof, &count) : NULL;
    return points_json(points, count, dev);
}

json_t *record_launch(const wherry_roof *roof, int dev)
{
    size_t count = 0;
    const wherry_roof_point *points = roof ? wherry_roof_launches(roof, &count) : NULL;
    return points_json(points, count, dev);
}

/* ---- the whole ---- */

json_t *record_begin(json_t *run, json_t *device, json_t *workload)
{
    return need(json_pack("{s:s, s:s, s:s, s:o, s:[o], s:o, s:[], s:[], s:[], s:[], s:[], s:[]}", "schema",
                          RECORD_SCHEMA, "units", "SI", "status", "ok", "run", run, "devices", device, "workload",
                          workload, "ceilings", "sweep", "launch", "plans", "ops", "warnings"));
}

void record_add_roof(json_t *record, const wherry_roof *roof, int dev, const char *data_kind)
{
    json_object_set_new(record, "ceilings", record_ceilings(roof, dev, data_kind));
    json_object_set_new(record, "sweep", record_sweep(roof, dev));
    json_object_set_new(record, "launch", record_launch(roof, dev));
}
