/* The parts of a record (docs/report.schema.json): what was measured, as JSON that every output is made from. */
#include "report/record.h"

#include <string.h>
#include <time.h>

#include "base/text.h"
#include "report/fields.h"
#include "report/model.h"
#include "session.h"
#include "system.h"

/* ---- values ---- */

static json_t *number_or_null(double value) { return value > 0 ? number_json(value) : need(json_null()); }

static json_t *integer_or_null(uint64_t value) { return need(value ? json_integer((json_int_t)value) : json_null()); }

/* ---- devices ---- */

json_t *record_timer(const wherry_timer_info *timer)
{
    if (!timer) return need(json_null());
    return need(json_pack("{s:s, s:o, s:I, s:o, s:s, s:o}", "kind", timer->kind, "tick_seconds",
                          number_or_null(timer->tick_seconds), "valid_bits", (json_int_t)timer->valid_bits, "slope",
                          number_json(timer->slope), "status", wherry_timer_status_name(timer->status), "reason",
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

json_t *record_device(const struct measured_device *device)
{
    const wherry_device_info *info = device->info;
    char backend[32];
    snprintf(backend, sizeof backend, "%.*s", (int)strcspn(info->id, ":"), info->id);
    json_t *record = device_json(info);
    json_object_del(record, "usable");
    json_object_del(record, "reason");
    json_object_set_new(record, "dev", json_integer(0));
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

json_t *record_run(const struct options *options, const char *data_kind)
{
    char date[32] = "";
    time_t now = time(NULL);
    const struct tm *utc = gmtime(&now);
    if (utc) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", utc);
    const char *commit = tool_commit();
    json_t *line = need(json_array());
    for (int n = 0; n < options->argc; n++) json_array_append_new(line, text_json(options->argv[n]));
    return need(json_pack("{s:o, s:s, s:{s:s, s:o}, s:o, s:I, s:s, s:[], s:o, s:n}", "id", uuid_json(), "utc", date,
                          "tool", "version", wherry_version_string(), "git",
                          *commit ? json_string(commit) : json_null(), "command_line", line, "seed",
                          (json_int_t)(options->seed ? options->seed : 1), "data_kind", data_kind, "cache_modes",
                          "host", host_json(), "sentinel"));
}

/* ---- the roof ---- */

static json_t *ceiling_entry(const wherry_ceiling *c, const char *data_kind)
{
    static const char *const units[] = {"B/s", "flop/s", "s"};
    const struct record_ceiling ceiling = {.id = c->id,
                                           .unit = (unsigned)c->unit < 3 ? units[c->unit] : "?",
                                           .value = c->value,
                                           .best = c->best,
                                           .config = c->config,
                                           .dtype = c->dtype ? dtype_name(c->dtype) : NULL,
                                           .data_kind = data_kind,
                                           .amount = c->amount,
                                           .footprint_bytes = (double)c->footprint_bytes,
                                           .time = c->time};
    return ceiling_json(&ceiling);
}

/* The ceiling of the same configuration; NULL: there is none. */
static const wherry_ceiling *same_ceiling(const wherry_roof *roof, const wherry_ceiling *like)
{
    size_t count = 0;
    const wherry_ceiling *list = wherry_roof_ceilings(roof, &count);
    for (size_t n = 0; n < count; n++)
        if (strcmp(list[n].id, like->id) == 0 && strcmp(list[n].config, like->config) == 0 &&
            list[n].dtype == like->dtype)
            return &list[n];
    return NULL;
}

void record_set_ceilings(json_t *record, const wherry_roof *roof, const wherry_roof *again, const char *data_kind)
{
    json_t *list = need(json_array());
    size_t count = 0, count_again = 0;
    const wherry_ceiling *ceilings = wherry_roof_ceilings(roof, &count);
    for (size_t n = 0; n < count; n++) {
        const wherry_ceiling *ceiling = &ceilings[n], *other = same_ceiling(again, ceiling);
        bool better = other && other->unit != WHERRY_UNIT_SECONDS && other->value > ceiling->value;
        json_array_append_new(list, ceiling_entry(better ? other : ceiling, data_kind));
    }
    ceilings = wherry_roof_ceilings(again, &count_again);
    for (size_t n = 0; n < count_again; n++)
        if (!same_ceiling(roof, &ceilings[n])) json_array_append_new(list, ceiling_entry(&ceilings[n], data_kind));
    json_object_set_new(record, "ceilings", list);
}

void record_set_sentinel(json_t *record, const wherry_roof *roof, const wherry_roof *again)
{
    wherry_time first, last, end;
    wherry_roof_sentinel(roof, &first, &last);
    wherry_roof_sentinel(again, NULL, &end);
    if (!first.n || !last.n) return;
    if (end.n) last = end;
    json_object_set_new(json_object_get(record, "run"), "sentinel",
                        need(json_pack("{s:f, s:f}", "first_seconds", first.median, "last_seconds", last.median)));
}

static json_t *points_json(const wherry_roof_point *points, size_t count)
{
    json_t *list = need(json_array());
    for (size_t n = 0; n < count; n++) {
        const struct record_point point = {.bytes = (double)points[n].bytes, .time = points[n].time};
        json_array_append_new(list, point_json(&point));
    }
    return list;
}

void record_set_roof(json_t *record, const wherry_roof *roof, const char *data_kind)
{
    size_t sweep, launches;
    const wherry_roof_point *sweep_points = wherry_roof_sweep(roof, &sweep);
    const wherry_roof_point *launch_points = wherry_roof_launches(roof, &launches);
    record_set_ceilings(record, roof, NULL, data_kind);
    record_set_sentinel(record, roof, NULL);
    json_object_set_new(record, "sweep", points_json(sweep_points, sweep));
    json_object_set_new(record, "launch", points_json(launch_points, launches));
}

/* ---- the whole ---- */

json_t *record_begin(json_t *run, json_t *device, json_t *workload)
{
    return need(json_pack("{s:s, s:s, s:s, s:o, s:[o], s:o, s:[], s:[], s:[], s:[], s:[], s:[]}", "schema",
                          RECORD_SCHEMA, "units", "SI", "status", "ok", "run", run, "devices", device, "workload",
                          workload, "ceilings", "sweep", "launch", "plans", "ops", "warnings"));
}
