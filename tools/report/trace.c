/* Records as a Chrome trace, for Perfetto: the step of each plan as a track, its operations one after the other at
 * their medians, with bandwidth as a counter. */
#include <math.h>
#include <string.h>

#include "report/derive.h"
#include "report/fields.h"
#include "report/format.h"
#include "report/rows.h"
#include "report/titles.h"
#include "report/write.h"
#include "session.h"

static json_t *event(const char *phase, size_t process, size_t track, const char *name)
{
    return need(json_pack("{s:s, s:I, s:I, s:o}", "ph", phase, "pid", (json_int_t)process, "tid", (json_int_t)track,
                          "name", text_json(name)));
}

static void add_name(json_t *events, const char *what, size_t process, size_t track, const char *name)
{
    json_t *value = event("M", process, track, what);
    json_object_set_new(value, "args", need(json_pack("{s:o}", "name", text_json(name))));
    json_array_append_new(events, value);
}

static void add_counter(json_t *events, size_t process, const char *plan, double at, double bandwidth)
{
    char name[80];
    snprintf(name, sizeof name, "GB/s, plan %.60s", plan);
    json_t *value = event("C", process, 0, name);
    json_object_set_new(value, "ts", json_real(1e6 * at));
    json_object_set_new(value, "args", need(json_pack("{s:f}", "GB/s", bandwidth / 1e9)));
    json_array_append_new(events, value);
}

static json_t *op_args(const json_t *op, const char *mode)
{
    json_t *args = need(json_object());
    static const char *const fields[] = {"kernel", "variant", "phase", "launches", "flops", "bytes", "share"};
    for (size_t n = 0; n < sizeof fields / sizeof *fields; n++)
        json_object_set(args, fields[n], json_object_get(op, fields[n]));
    json_object_set(args, "time", json_object_get(op, mode));
    json_object_set(args, "derived", json_object_get(json_object_get(op, "derived"), mode));
    return args;
}

static void add_plan(json_t *events, const json_t *record, const json_t *plan, const struct plan_ops *ops,
                     size_t process, size_t track)
{
    char title[128];
    double at = 0;
    bool warm = plan_measured(ops, "warm");
    const char *mode = warm ? "warm" : "cold";
    plan_title(record, plan, title, sizeof title);
    strncat(title, warm ? "" : ", cold caches", sizeof title - strlen(title) - 1);
    add_name(events, "thread_name", process, track, title);
    for (size_t n = 0; n < ops->count; n++) {
        const json_t *op = ops->list[n];
        double seconds = field_number(op, warm ? "warm.median" : "cold.median");
        if (!isfinite(1e6 * (at + seconds))) continue;
        json_t *value = event("X", process, track, field_text(op, "id"));
        json_object_set_new(value, "cat", text_json(field_text(op, "class")));
        json_object_set_new(value, "ts", json_real(1e6 * at));
        json_object_set_new(value, "dur", json_real(1e6 * seconds));
        json_object_set_new(value, "args", op_args(op, mode));
        json_array_append_new(events, value);
        double bytes = field_number(op, "bytes.d_model.r") + field_number(op, "bytes.d_model.w");
        if (isfinite(bytes / seconds)) add_counter(events, process, field_text(plan, "plan"), at, bytes / seconds);
        at += seconds;
    }
    add_counter(events, process, field_text(plan, "plan"), at, 0);
}

void trace_write(struct output *out, const json_t *records)
{
    size_t r, p;
    const json_t *record, *plan;
    json_t *events = need(json_array());
    json_array_foreach(records, r, record)
    {
        char work[160], name[512];
        const json_t *device = json_array_get(json_object_get(record, "devices"), 0);
        workload_title(record, work, sizeof work);
        snprintf(name, sizeof name, "%.60s %.200s: %s", field_text(device, "id"), field_text(device, "name"), work);
        add_name(events, "process_name", r + 1, 0, name);
        struct op_groups groups = ops_group(record);
        json_array_foreach(json_object_get(record, "plans"), p, plan)
        {
            add_plan(events, record, plan, &groups.plans[p], r + 1, p + 1);
        }
        op_groups_free(&groups);
    }
    output_json(out, need(json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ns")));
}
