/* `wherry analyze --train --ranks`: a record's backward pass, its gradients in buckets, and tables. */
#include "analyze_ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/exchange_shape.h"
#include "report/load.h"

/* ---- options ---- */

struct unit {
    const char *name;
    double factor;
};

/* "25GB/s", and what follows in *text. */
static bool quantity(const char **text, const struct unit *units, size_t n_units, double *out)
{
    char *end;
    double value = strtod(*text, &end);
    if (end == *text || !(value >= 0) || !isfinite(value)) return false;
    for (size_t i = 0; i < n_units; i++) {
        size_t length = strlen(units[i].name);
        if (strncmp(end, units[i].name, length) != 0 || (end[length] && end[length] != ',')) continue;
        *out = value * units[i].factor;
        *text = end + length;
        return true;
    }
    return false;
}

static bool rate(const char **text, double *out)
{
    static const struct unit units[] = {
        {"GB/s", 1e9}, {"MB/s", 1e6}, {"Gbit/s", 1e9 / 8}, {"Mbit/s", 1e6 / 8}, {"TB/s", 1e12}};
    return quantity(text, units, sizeof units / sizeof *units, out) && *out > 0;
}

static bool after_comma(const char **text, double *out)
{
    static const struct unit units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"ns", 1e-9}, {"s", 1}};
    if (**text != ',') return false;
    (*text)++;
    return quantity(text, units, sizeof units / sizeof *units, out);
}

static int link_read(const struct options *options, struct rank_link *link)
{
    const char *text = options->link ? options->link : "";
    if (!options->link || !options->measured)
        return complain(EXIT_USAGE,
                        "--ranks needs --link RATE,LATENCY, as in 25GB/s,5us, and --measured FILE, a record "
                        "that wherry bench train --json wrote with these options");
    bool fine = rate(&text, &link->rate) && after_comma(&text, &link->latency);
    if (fine && *text) fine = after_comma(&text, &link->overhead);
    if (!fine || *text)
        return complain(EXIT_USAGE,
                        "--link %s: must be a rate, a latency and, if wanted, the time between messages: "
                        "25GB/s,5us or 100Gbit/s,5us,0.3us",
                        options->link);
    text = options->copy;
    if (text && (!rate(&text, &link->copy) || *text))
        return complain(EXIT_USAGE, "--copy %s: must be a rate, as in 55GB/s", options->copy);
    link->float_bytes = options->wire >= 2 ? 2 : 4; /* f16, bf16 */
    return EXIT_FINE;
}

/* ---- the record ---- */

/* Names of a record have numbers where several are alike. */
static bool is_of(const struct record_op *op, const wherry_cost *group)
{
    size_t length = strcspn(op->id, "#");
    return strlen(group->name) == length && !strncmp(op->id, group->name, length);
}

/* ends[n]: seconds from the backward pass' begin to the end of its group n. */
static int backward_times(const struct record_plan *plan, const char *path, const wherry_cost *groups, size_t count,
                          double *ends)
{
    size_t n = 0;
    double seconds = 0;
    for (size_t i = 0; i < plan->op_count; i++) {
        const struct record_op *op = plan->ops[i];
        if (strcmp(op->phase, "backward") != 0) continue;
        if (n == count || !is_of(op, &groups[n]))
            return complain(EXIT_INPUT,
                            "%s: its backward pass has %s where this model's has %s: give the options that it was "
                            "measured with, and --device, where that plans otherwise",
                            path, op->id, n < count ? groups[n].name : "its end");
        if (isnan(op->modes[0].time.median))
            return complain(EXIT_INPUT, "%s has no times of kernels: the device's timer was not to be trusted", path);
        ends[n++] = seconds += op->modes[0].time.median;
    }
    if (n == count) return EXIT_FINE;
    return complain(EXIT_INPUT,
                    "%s: its backward pass has %zu groups, and this model's has %zu: give the options that "
                    "it was measured with",
                    path, n, count);
}

static double phase_seconds(const struct record_plan *plan, const char *phase)
{
    double seconds = 0;
    for (size_t i = 0; i < plan->op_count; i++)
        if (!strcmp(plan->ops[i]->phase, phase)) seconds += plan->ops[i]->modes[0].time.median;
    return seconds;
}

static int check_record(const struct report *report, const struct train_work *work, const char *path)
{
    const struct record *r = report->records;
    if (!report->count || strcmp(r->workload.kind, "train") != 0 || !r->plan_count)
        return complain(EXIT_INPUT, "%s has no training steps: a record of wherry bench train is needed", path);
    if (r->plans[0].processes > 1)
        return complain(EXIT_INPUT, "%s is of %.0f processes: a record of one is needed", path, r->plans[0].processes);
    if (r->workload.tokens != work->batch.tokens)
        return complain(EXIT_INPUT, "%s has %.0f tokens in a step, and --batch and --seq say %u", path,
                        r->workload.tokens, work->batch.tokens);
    return EXIT_FINE;
}

static int read_record(struct rank_analysis *a, const struct train_work *work, const wherry_cost *groups, size_t count,
                       double *ends)
{
    struct report report = {.values = NULL};
    int code = report_load(&report, a->source, false) ? check_record(&report, work, a->source) : EXIT_INPUT;
    if (!code) code = backward_times(&report.records->plans[0], a->source, groups, count, ends);
    if (!code) {
        const struct record_plan *plan = &report.records->plans[0];
        a->step.seconds = plan->host.median;
        a->step.optimizer = phase_seconds(plan, "optimizer");
        a->step.backward_end = fmax(a->step.seconds - a->step.optimizer, ends[count - 1]);
        double begin = a->step.backward_end - ends[count - 1];
        for (size_t n = 0; n < count; n++) ends[n] += begin;
    }
    report_close(&report);
    return code;
}

/* ---- buckets ---- */

static int by_group(const void *a, const void *b)
{
    const wherry_train_gradient *x = a, *y = b;
    return x->group != y->group ? (x->group < y->group ? -1 : 1) : 0;
}

static void bucket_add(struct rank_step *step, double floats, double ready, bool table)
{
    step->buckets = need(realloc(step->buckets, (step->n_buckets + 1) * sizeof *step->buckets));
    step->buckets[step->n_buckets++] = (struct rank_bucket){.floats = floats, .ready = ready, .table = table};
}

/* Those of a piece, which are ready together, in buckets of at most so many floats; rows of the table by themselves. */
static void piece_divide(struct rank_step *step, const wherry_train_gradient *g, size_t count, double ready,
                         double most)
{
    for (int table = 0; table < 2; table++) {
        double floats = 0;
        for (size_t i = 0; i < count; i++)
            if (!g[i].rows == !table) floats += (double)g[i].elements;
        for (; floats > 0; floats -= most) bucket_add(step, fmin(floats, most), ready, table);
    }
}

static void divide(struct rank_step *step, wherry_train_gradient *g, size_t count, const double *ends)
{
    uint64_t all = 0, since = 0;
    size_t first = 0;
    int pieces = 0;
    for (size_t i = 0; i < count; i++) all += g[i].elements;
    qsort(g, count, sizeof *g, by_group);
    for (size_t i = 0; i < count; i++) {
        since += g[i].elements;
        bool last = i + 1 == count;
        if (!last && (since < exchange_piece_least(all, pieces) || g[i + 1].group == g[i].group)) continue;
        pieces++;
        piece_divide(step, g + first, i + 1 - first, last ? step->backward_end : ends[g[i].group],
                     last ? EXCHANGE_BUCKET_BYTES / EXCHANGE_LAST_PARTS / 4.0 : INFINITY);
        first = i + 1;
        since = 0;
    }
}

int rank_analysis_open(struct tool *tool, struct train_work *work, const wherry_cost *backward, size_t n_backward,
                       struct rank_analysis *a)
{
    size_t count = 0;
    wherry_train_gradient *gradients = NULL;
    *a = (struct rank_analysis){.counts = &tool->options->ranks,
                                .tokens = work->batch.tokens,
                                .vocabulary = tool->model_info.config.vocabulary,
                                .source = tool->options->measured};
    int code = link_read(tool->options, &a->link);
    for (int time = 0; !code && time < 2; time++) {
        wherry_status status = wherry_trainer_gradients(tool->context, tool->device, tool->model, &work->session,
                                                        &work->trainer, gradients, &count);
        if (status) code = tool_error(tool, status, NULL);
        if (!gradients) gradients = need(calloc(count + 1, sizeof *gradients));
    }
    double *ends = need(calloc(n_backward + 1, sizeof *ends));
    if (!code) code = read_record(a, work, backward, n_backward, ends);
    if (!code) divide(&a->step, gradients, count, ends);
    free(gradients);
    free(ends);
    return code;
}

void rank_analysis_close(struct rank_analysis *a) { free(a->step.buckets); }

/* ---- writing ---- */

/* Both ways: after the backward pass, and beside it. */
static void predict(const struct rank_analysis *a, uint32_t processes, struct rank_prediction out[2])
{
    struct rank_step step = a->step;
    /* Different ids among random ones; those of texts are fewer. */
    step.table_share = 1 - pow(1 - 1.0 / a->vocabulary, a->tokens * processes);
    for (int hidden = 0; hidden < 2; hidden++) out[hidden] = rank_predict(&step, &a->link, processes, hidden);
}

void rank_analysis_print(const struct rank_analysis *a, struct output *out)
{
    struct table table = {
        .columns = ">ranks|>exchange ms|>exposed|>step|>efficiency|>tokens/s|>exposed after|>step|>efficiency"};
    double floats = 0;
    for (size_t i = 0; i < a->step.n_buckets; i++) floats += a->step.buckets[i].floats;
    output_format(out,
                  "\nBy the step of %s, %.3f ms: %.1f MB of gradients in %zu buckets, through a link of %.4g GB/s and "
                  "%.3g us;\nbeside the backward pass, and, for comparison, after it\n",
                  a->source, 1e3 * a->step.seconds, floats * a->link.float_bytes / 1e6, a->step.n_buckets,
                  a->link.rate / 1e9, 1e6 * a->link.latency);
    for (uint32_t n = 0; n < a->counts->count; n++) {
        uint32_t processes = a->counts->values[n];
        struct rank_prediction p[2];
        predict(a, processes, p);
        table_cell(&table, "%u", processes);
        table_cell(&table, "%.3f", 1e3 * p[1].exchange);
        table_cell(&table, "%.3f", 1e3 * p[1].exposed);
        table_cell(&table, "%.3f", 1e3 * p[1].step);
        table_cell(&table, "%.1f %%", 100 * a->step.seconds / p[1].step);
        table_cell(&table, "%.0f", processes * a->tokens / p[1].step);
        table_cell(&table, "%.3f", 1e3 * p[0].exposed);
        table_cell(&table, "%.3f", 1e3 * p[0].step);
        table_cell(&table, "%.1f %%", 100 * a->step.seconds / p[0].step);
    }
    table.width = 100;
    table_print(&table, out);
}

static json_t *prediction_json(const struct rank_analysis *a, const struct rank_prediction *p, uint32_t processes)
{
    return need(json_pack("{s:f, s:f, s:f, s:f, s:f}", "exchange_seconds", p->exchange, "exposed_seconds", p->exposed,
                          "step_seconds", p->step, "efficiency", a->step.seconds / p->step, "tokens_per_second",
                          processes * a->tokens / p->step));
}

json_t *rank_analysis_json(const struct rank_analysis *a)
{
    json_t *list = need(json_array());
    for (uint32_t n = 0; n < a->counts->count; n++) {
        struct rank_prediction p[2];
        uint32_t processes = a->counts->values[n];
        predict(a, processes, p);
        json_array_append_new(
            list, need(json_pack("{s:I, s:o, s:o}", "processes", (json_int_t)processes, "beside",
                                 prediction_json(a, &p[1], processes), "after", prediction_json(a, &p[0], processes))));
    }
    return list;
}
