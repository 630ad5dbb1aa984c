/* The ranking of devices. Times are the records' own; predictions use nothing but a device's ceilings and the counts of
 * the operations, which are the graph's and the same on every device. */
#include "report/ranking.h"

#include <stdlib.h>
#include <string.h>

#include "device_spec.h"
#include "report/titles.h"
#include "report/versus.h"

/* A device of one of the records, with the best of the ceilings that any record has of it. */
struct machine {
    const struct record_device *device;
    wherry_device_spec spec;
};

/* Of the same name through the same driver: whose machine it was is not told by a record. */
static bool same_device(const struct record_device *a, const struct record_device *b)
{
    return !strcmp(a->name, b->name) && !strcmp(a->backend, b->backend) && !strcmp(a->driver, b->driver);
}

static void better(double *best, double value)
{
    if (value > *best) *best = value;
}

static void add_machine(struct machine *list, size_t *count, const struct record *record,
                        const struct record_device *device)
{
    size_t n = 0;
    wherry_device_spec own = {.bandwidth = 0};
    if (!strcmp(device->backend, "reference")) return;
    while (n < *count && !same_device(list[n].device, device)) n++;
    if (n == *count) list[(*count)++] = (struct machine){.device = device};
    device_spec_measured(record->json, (json_int_t)device->dev, &own);
    wherry_device_spec *spec = &list[n].spec;
    better(&spec->bandwidth, own.bandwidth);
    better(&spec->f32_flops, own.f32_flops);
    better(&spec->matrix_flops, own.matrix_flops);
    if (own.launch_seconds > 0 && (!spec->launch_seconds || own.launch_seconds < spec->launch_seconds))
        spec->launch_seconds = own.launch_seconds;
}

/* Not every API's roof has matrix units (through Vulkan they are not measured), and a card has them through all: what
 * another record says of a device of the same name counts. */
static void share_matrices(struct machine *list, size_t count)
{
    for (size_t n = 0; n < count; n++)
        for (size_t m = 0; m < count; m++)
            if (!strcmp(list[n].device->name, list[m].device->name))
                better(&list[n].spec.matrix_flops, list[m].spec.matrix_flops);
}

static struct machine *machines_of(const struct report *report, size_t *count)
{
    size_t room = 1;
    for (size_t r = 0; r < report->count; r++) room += report->records[r].device_count;
    struct machine *list = need(calloc(room, sizeof *list));
    *count = 0;
    for (size_t r = 0; r < report->count; r++)
        for (size_t d = 0; d < report->records[r].device_count; d++)
            add_machine(list, count, &report->records[r], &report->records[r].devices[d]);
    share_matrices(list, *count);
    return list;
}

/* ---- a workload ---- */

/* A plan that was measured. */
struct run {
    const struct record *record;
    const struct record_device *device;
    const struct record_plan *plan;
    char *work;
    double watts;
    bool done; /* its workload has its ranking */
};

static struct run *runs_of(const struct report *report, size_t *count)
{
    size_t room = 1;
    for (size_t r = 0; r < report->count; r++) room += report->records[r].device_count;
    struct run *runs = need(calloc(room, sizeof *runs));
    *count = 0;
    for (size_t r = 0; r < report->count; r++) {
        const struct record *record = &report->records[r];
        for (size_t d = 0; d < record->device_count; d++) {
            const struct record_device *device = &record->devices[d];
            const struct record_plan *plan = record_fastest_plan(record, device->dev);
            if (!plan || !strcmp(device->backend, "reference")) continue;
            runs[(*count)++] = (struct run){.record = record,
                                            .device = device,
                                            .plan = plan,
                                            .work = record_work_text(record, plan),
                                            .watts = report->origins ? report->origins[r].watts : (double)NAN};
        }
    }
    return runs;
}

/* The plan whose counts stand for a workload: unique bytes differ from plan to plan, and flash moves the fewest. */
static const struct record_plan *counted_plan(const struct run *run)
{
    for (size_t n = 0; n < run->record->plan_count; n++) {
        const struct record_plan *plan = &run->record->plans[n];
        if (!strcmp(plan->name, "flash") && plan->op_count) return plan;
    }
    return run->plan;
}

static double predict(const struct record_plan *plan, const wherry_device_spec *spec)
{
    double seconds = 0;
    wherry_dtype type = strcmp(plan->dtype, "f32") ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32;
    if (!(spec->bandwidth > 0) || !(spec->f32_flops > 0) || !plan->op_count) return (double)NAN;
    for (size_t n = 0; n < plan->op_count; n++) {
        const struct record_op *op = plan->ops[n];
        double bytes = bytes_sum(op->q), flops = op->flops;
        bool product = op->class_ == WHERRY_CLASS_CONTRACTION;
        wherry_prediction p;
        if (!(bytes >= 0 && bytes < 1e18) || !(flops >= 0)) return (double)NAN;
        wherry_work work = {
            .bytes = (uint64_t)bytes, .contraction_flops = product ? flops : 0, .other_flops = product ? 0 : flops};
        wherry_predict(spec, type, &work, &p);
        seconds += p.limit_seconds;
    }
    return seconds;
}

static void fill_measured(struct ranked *row, const struct run *run, const struct machine *machine)
{
    const struct record_plan *plan = run->plan;
    double tokens = run->record->workload.tokens;
    row->type = plan->dtype;
    row->seconds = plan->host.median;
    row->rate = tokens / row->seconds;
    if (machine->spec.bandwidth > 0) row->per_gigabyte = row->rate / machine->spec.bandwidth * 1e9;
    row->roof = row->predicted / (time_known(&plan->kernels) ? plan->kernels.median : plan->host.median);
    row->per_joule = row->rate / run->watts;
}

static int compare_rows(const void *one, const void *other)
{
    const struct ranked *a = one, *b = other;
    bool measured_a = a->seconds > 0, measured_b = b->seconds > 0;
    if (measured_a != measured_b) return measured_a ? -1 : 1;
    double x = measured_a ? a->seconds : a->predicted, y = measured_a ? b->seconds : b->predicted;
    return x < y ? -1 : x > y;
}

/* Of all runs with the work of runs[first]. */
static void rank(struct ranking *ranking, struct run *runs, size_t first, size_t count, const struct machine *machines,
                 size_t machine_count)
{
    const double unknown = (double)NAN;
    const struct record_plan *counted = counted_plan(&runs[first]);
    ranking->rows = need(calloc(machine_count + 1, sizeof *ranking->rows));
    workload_title(runs[first].record, ranking->title, sizeof ranking->title);
    for (size_t m = 0; m < machine_count; m++) {
        const struct record_device *device = machines[m].device;
        const struct run *best = NULL;
        for (size_t n = first; n < count; n++) {
            if (strcmp(runs[n].work, runs[first].work) || !same_device(runs[n].device, device)) continue;
            if (!best || runs[n].plan->host.median < best->plan->host.median) best = &runs[n];
            runs[n].done = true;
        }
        struct ranked row = {.device = device->name,
                             .api = device->backend,
                             .driver = device->driver,
                             .type = "",
                             .seconds = unknown,
                             .rate = unknown,
                             .per_gigabyte = unknown,
                             .roof = unknown,
                             .per_joule = unknown};
        /* In the type that it ran, where it did. */
        row.predicted = predict(best ? counted_plan(best) : counted, &machines[m].spec);
        if (best) fill_measured(&row, best, &machines[m]);
        if (best || row.predicted > 0) ranking->rows[ranking->count++] = row;
    }
    qsort(ranking->rows, ranking->count, sizeof *ranking->rows, compare_rows);
}

struct ranking *rankings_of(const struct report *report, size_t *count)
{
    size_t machine_count, run_count;
    struct machine *machines = machines_of(report, &machine_count);
    struct run *runs = runs_of(report, &run_count);
    struct ranking *list = need(calloc(run_count + 1, sizeof *list));
    *count = 0;
    for (size_t n = 0; n < run_count; n++)
        if (!runs[n].done) rank(&list[(*count)++], runs, n, run_count, machines, machine_count);
    for (size_t n = 0; n < run_count; n++) free(runs[n].work);
    free(runs);
    free(machines);
    return list;
}

void rankings_free(struct ranking *rankings, size_t count)
{
    for (size_t n = 0; n < count; n++) free(rankings[n].rows);
    free(rankings);
}
