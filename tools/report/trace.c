/* Records as a Chrome trace, for Perfetto: the step of each plan as a track, its operations one after the other at
 * their medians, with bandwidth as a counter. */
#include <string.h>

#include "report/format.h"
#include "report/load.h"
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

/* Parts of the operation as the record has them. */
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

static void add_plan(json_t *events, const struct record *record, const struct record_plan *plan, size_t process,
                     size_t track)
{
    char title[128];
    double at = 0;
    enum mode mode = plan_measured(plan, WARM) ? WARM : COLD;
    plan_title(record, plan, title, sizeof title);
    strncat(title, mode == WARM ? "" : ", cold caches", sizeof title - strlen(title) - 1);
    add_name(events, "thread_name", process, track, title);
    for (size_t n = 0; n < plan->op_count; n++) {
        const struct record_op *op = plan->ops[n];
        double seconds = op->modes[mode].time.median;
        if (!isfinite(1e6 * (at + seconds))) continue;
        json_t *value = event("X", process, track, op->id);
        json_object_set_new(value, "cat", text_json(op->class_name));
        json_object_set_new(value, "ts", json_real(1e6 * at));
        json_object_set_new(value, "dur", json_real(1e6 * seconds));
        json_object_set_new(value, "args", op_args(record_op_json(record, op), mode_names[mode]));
        json_array_append_new(events, value);
        double bandwidth = bytes_sum(op->d_model) / seconds;
        if (isfinite(bandwidth)) add_counter(events, process, plan->name, at, bandwidth);
        at += seconds;
    }
    add_counter(events, process, plan->name, at, 0);
}

void trace_write(struct output *out, const struct report *report)
{
    json_t *events = need(json_array());
    for (size_t r = 0; r < report->count; r++) {
        const struct record *record = &report->records[r];
        const struct record_device *device = &record->devices[0];
        char work[160], name[512];
        workload_title(record, work, sizeof work);
        snprintf(name, sizeof name, "%.60s %.200s: %s", device->id, device->name, work);
        add_name(events, "process_name", r + 1, 0, name);
        for (size_t n = 0; n < record->plan_count; n++) add_plan(events, record, &record->plans[n], r + 1, n + 1);
    }
    output_json(out, need(json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ns")));
}
