/* `wherry analyze --device-spec`: how long operators, groups and plans take at least on a device, by its peaks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze.h"
#include "groups.h"

enum { UNFUSED = PLAN_ALL - 1 };

static const char *bound_name(wherry_regime bound) { return bound ? wherry_regime_name(bound) : "-"; }

/* ---- sums ---- */

/* One kind of operator or group, all layers together. */
struct line {
    const wherry_cost *first;
    wherry_prediction one; /* of the first */
    uint32_t count;
    double seconds, apart; /* of all; what a group's operators take by themselves */
};

static void add_to_lines(struct line *lines, size_t *count, const wherry_cost *cost, bool separate,
                         const wherry_prediction *p, double apart)
{
    size_t n = separate ? *count : 0;
    while (n < *count && !same_kind(lines[n].first, cost)) n++;
    if (n == *count) lines[(*count)++] = (struct line){.first = cost, .one = *p};
    lines[n].count++;
    lines[n].seconds += p->limit_seconds;
    lines[n].apart += apart;
}

static void predict_operator(const struct analysis *a, const wherry_device_spec *spec, const wherry_cost *cost,
                             wherry_prediction *out)
{
    wherry_work work;
    wherry_operator_work(cost, &work);
    wherry_predict(spec, a->desc.dtype, &work, out);
}

static void predict_group(const struct analysis *a, const wherry_device_spec *spec, const wherry_analysis *plan,
                          size_t group, wherry_prediction *out)
{
    wherry_work work;
    wherry_analysis_work(plan, group, &work);
    wherry_predict(spec, a->desc.dtype, &work, out);
}

/* For each group the limits of its operators by themselves, added up; memory to free. */
static double *predict_apart(const struct analysis *a, const wherry_device_spec *spec, const wherry_analysis *plan)
{
    size_t count, groups;
    const wherry_cost *operators = wherry_analysis_operators(plan, &count);
    wherry_analysis_groups(plan, &groups);
    double *apart = need(calloc(groups + 1, sizeof *apart));
    for (size_t n = 0; n < count; n++) {
        wherry_prediction p;
        predict_operator(a, spec, &operators[n], &p);
        apart[wherry_analysis_group_of(plan, n)] += p.limit_seconds;
    }
    return apart;
}

/* A whole plan. */
struct step {
    double seconds, by_bound[WHERRY_REGIME_COMPUTE + 1];
    double contraction, other; /* seconds of groups with and without products */
    double compute;            /* the arithmetic alone */
    double cached;             /* what fits into the cache coming from there; NAN where its bandwidth is unknown */
    uint32_t fits;             /* groups all of whose bytes the cache could hold */
};

static struct step predict_step(const struct analysis *a, const wherry_device_spec *spec, const wherry_analysis *plan)
{
    size_t count;
    struct step step = {.cached = spec->cache_bandwidth > 0 && spec->cache_bytes ? 0 : NAN};
    wherry_analysis_groups(plan, &count);
    for (size_t n = 0; n < count; n++) {
        wherry_prediction p;
        wherry_work work;
        wherry_analysis_work(plan, n, &work);
        wherry_predict(spec, a->desc.dtype, &work, &p);
        step.seconds += p.limit_seconds;
        step.by_bound[p.bound] += p.limit_seconds;
        *(work.contraction_flops > 0 ? &step.contraction : &step.other) += p.limit_seconds;
        step.compute += p.compute_seconds;
        step.fits += work.bytes <= spec->cache_bytes;
        double cached = fmax(fmax(p.cache_seconds, p.compute_seconds), spec->launch_seconds);
        step.cached += isnan(p.cache_seconds) ? p.limit_seconds : fmin(cached, p.limit_seconds);
    }
    return step;
}

double predict_seconds(const struct analysis *a, const wherry_analysis *plan)
{
    return predict_step(a, &a->specs[0], plan).seconds;
}

static double tokens_of(const struct analysis *a) { return (double)a->desc.batch * a->desc.length; }

/* ---- tables ---- */

static double ridge_of(const struct analysis *a, const wherry_device_spec *spec, wherry_class class_)
{
    return wherry_device_spec_ridge(spec, class_, a->desc.dtype);
}

/* "3.35 TB/s": format_bytes has too few digits for a ridge point to be checked. */
static const char *format_rate(double rate, char text[NUMBER_SIZE])
{
    bool tera = rate >= 1e12;
    snprintf(text, NUMBER_SIZE, "%.4g %s/s", rate / (tera ? 1e12 : 1e9), tera ? "TB" : "GB");
    return text;
}

/* Words in lines of at most 80 columns. */
static void print_words(const char *text, struct output *out)
{
    size_t at = 0;
    while (*text) {
        size_t length = strcspn(text, " ");
        if (at && at + 1 + length > 80) output_text(out, "\n"), at = 0;
        output_format(out, "%s%.*s", at ? " " : "", (int)length, text);
        at += (at ? 1 : 0) + length;
        text += length + strspn(text + length, " ");
    }
    if (at) output_text(out, "\n");
}

void predict_print_spec(const struct analysis *a, struct output *out)
{
    char text[NUMBER_SIZE];
    const wherry_device_spec *spec = &a->specs[0];
    output_format(out, "%s\n", spec->name);
    print_words(spec->source, out);
    output_format(out, "Memory %s, products in f16 %.4g Tflop/s, all else %.4g Tflop/s\n",
                  format_rate(spec->bandwidth, text), spec->matrix_flops / 1e12, spec->f32_flops / 1e12);
    const char *first = "";
    if (spec->cache_bytes) {
        output_format(out, "Cache %s", format_bytes((double)spec->cache_bytes, text));
        first = ", ";
    }
    if (spec->cache_bandwidth > 0) {
        output_format(out, "%s%s from the cache", first, format_rate(spec->cache_bandwidth, text));
        first = ", ";
    }
    if (spec->launch_seconds > 0) {
        output_format(out, "%s%.3g us a launch", first, spec->launch_seconds * 1e6);
        first = ", ";
    }
    if (*first) output_text(out, "\n");
    output_format(out, "Ridge point: %.1f flop/byte for products in %s, %.1f for all else\n",
                  ridge_of(a, spec, WHERRY_CLASS_CONTRACTION), dtype_name(a->desc.dtype),
                  ridge_of(a, spec, WHERRY_CLASS_ELEMENTWISE));
}

/* At most seven characters of it below a million, so that tables stay within a line. */
static void add_number(struct table *table, double value)
{
    table_cell(table, "%.*f", value < 1000 ? 2 : value < 10000 ? 1 : 0, value);
}

/* Milliseconds, to four digits at least. */
static void add_milliseconds(struct table *table, double seconds)
{
    double ms = seconds * 1e3;
    table_cell(table, "%.*f", ms < 10 ? 4 : ms < 100 ? 3 : ms < 1000 ? 2 : 1, ms);
}

static void add_gain(struct table *table, double gain) { table_cell(table, "%.*fx", gain < 10 ? 2 : 1, gain); }

static void add_intensity(struct table *table, double intensity)
{
    if (isnan(intensity))
        table_cell(table, "-");
    else
        table_cell(table, intensity < 10 ? "%.2f" : "%.1f", intensity);
}

/* The peak is the device's highest rate, as one says that GELU uses 1 % of the arithmetic. */
static void print_operators(const struct analysis *a, const struct step *step, struct output *out)
{
    static const char *const columns[2][2] = {
        {">row|~operator|<class|>flop/B|<bound|>us|>% step|>% peak",
         ">row|~operator|<class|>times|>flop/B|<bound|>us|>% step|>% peak"},
        {">row|~operator|<pass|<class|>flop/B|<bound|>us|>% step|>% peak",
         ">row|~operator|<pass|<class|>times|>flop/B|<bound|>us|>% step|>% peak"}};
    bool training = a->desc.training != NULL, separate = a->tool.options->all, times = !a->desc.layer_only && !separate;
    size_t count, kinds = 0;
    const wherry_cost *operators = wherry_analysis_operators(a->plans[UNFUSED], &count);
    struct line *lines = need(calloc(count + 1, sizeof *lines));
    struct table table = {.columns = columns[training][times]};
    for (size_t n = 0; n < count; n++) {
        wherry_prediction p;
        predict_operator(a, &a->specs[0], &operators[n], &p);
        add_to_lines(lines, &kinds, &operators[n], separate, &p, 0);
    }
    for (size_t n = 0; n < kinds; n++) {
        const struct line *line = &lines[n];
        if (line->first->paper_row)
            table_cell(&table, "%u", line->first->paper_row);
        else
            table_cell(&table, "-");
        table_cell(&table, "%s", separate ? line->first->name : cost_kind(line->first));
        if (training) table_cell(&table, "%s", line->first->backward ? "bwd" : "fwd");
        table_cell(&table, "%c", class_letter(line->first->class_));
        if (times) table_cell(&table, "%u", line->count);
        add_intensity(&table, line->one.intensity);
        table_cell(&table, "%s", bound_name(line->one.bound));
        add_number(&table, line->seconds * 1e6);
        table_cell(&table, "%.1f", step->seconds > 0 ? 100 * line->seconds / step->seconds : 0);
        table_cell(&table, "%.2f", 100 * line->one.flops_share);
    }
    free(lines);
    output_text(out, "\nOperators, each by itself, at the device's limits\n");
    table_print(&table, out);
}

static void print_groups(const struct analysis *a, int plan, struct output *out)
{
    static const char *const columns[2][2] = {{"~group|>ops|>flop/B|<bound|>us|>% step|>apart us|>gain",
                                               "~group|>ops|>times|>flop/B|<bound|>us|>% step|>apart us|>gain"},
                                              {"~group|<pass|>ops|>flop/B|<bound|>us|>% step|>apart us|>gain",
                                               "~group|<pass|>ops|>times|>flop/B|<bound|>us|>% step|>apart us|>gain"}};
    bool training = a->desc.training != NULL, separate = a->tool.options->all, times = !a->desc.layer_only && !separate;
    size_t count, kinds = 0;
    const wherry_analysis *analysis = a->plans[plan];
    const wherry_cost *groups = wherry_analysis_groups(analysis, &count);
    struct step step = predict_step(a, &a->specs[0], analysis);
    struct line *lines = need(calloc(count + 1, sizeof *lines));
    double *apart = predict_apart(a, &a->specs[0], analysis);
    struct table table = {.columns = columns[training][times]};
    for (size_t n = 0; n < count; n++) {
        wherry_prediction p;
        predict_group(a, &a->specs[0], analysis, n, &p);
        add_to_lines(lines, &kinds, &groups[n], separate, &p, apart[n]);
    }
    for (size_t n = 0; n < kinds; n++) {
        const struct line *line = &lines[n];
        bool fused = line->first->operators > 1 && line->seconds > 0;
        table_cell(&table, "%s", separate ? line->first->name : cost_kind(line->first));
        if (training) table_cell(&table, "%s", line->first->backward ? "bwd" : "fwd");
        table_cell(&table, "%u", line->first->operators);
        if (times) table_cell(&table, "%u", line->count);
        add_intensity(&table, line->one.intensity);
        table_cell(&table, "%s", bound_name(line->one.bound));
        add_number(&table, line->seconds * 1e6);
        table_cell(&table, "%.1f", step.seconds > 0 ? 100 * line->seconds / step.seconds : 0);
        if (fused) {
            add_number(&table, line->apart * 1e6);
            add_gain(&table, line->apart / line->seconds);
        } else {
            table_cell(&table, "%s", "");
            table_cell(&table, "%s", "");
        }
    }
    free(apart);
    free(lines);
    output_format(out, "\nGroups of the plan %s; \"apart\" are their operators by themselves\n", plan_name(plan));
    table_print(&table, out);
}

static void print_plans(const struct analysis *a, struct output *out)
{
    const wherry_device_spec *spec = &a->specs[0];
    struct step unfused = predict_step(a, spec, a->plans[UNFUSED]);
    struct table table = {.columns = "<plan|>launches|>GB|>ms|>gain|>compute|>memory|>launch|>Mtoken/s"};
    for (int plan = UNFUSED; plan > 0; plan--) {
        struct step step = predict_step(a, spec, a->plans[plan]);
        struct cost_sum total = groups_total(a->plans[plan], PASS_BOTH);
        double seconds = step.seconds > 0 ? step.seconds : 1;
        table_cell(&table, "%s", plan_name(plan));
        table_cell(&table, "%u", total.count);
        table_cell(&table, "%.3f", (total.bytes_read + total.bytes_written) / 1e9);
        add_milliseconds(&table, step.seconds);
        add_gain(&table, unfused.seconds / seconds);
        table_cell(&table, "%.0f %%", 100 * step.by_bound[WHERRY_REGIME_COMPUTE] / seconds);
        table_cell(&table, "%.0f %%", 100 * step.by_bound[WHERRY_REGIME_MEMORY] / seconds);
        table_cell(&table, "%.0f %%", 100 * step.by_bound[WHERRY_REGIME_LAUNCH] / seconds);
        table_cell(&table, "%.3g", tokens_of(a) / seconds / 1e6);
    }
    output_text(out, "\nFused against unfused, and which limit the time is at\n");
    table_print(&table, out);
    double bound = wherry_fusion_gain(unfused.contraction, unfused.other, 0);
    output_format(out,
                  "\nUnfused, products take %.4f of %.4f ms: fusion that leaves them as\n"
                  "they are brings at most %.2fx. The arithmetic alone takes %.4f ms.\n",
                  unfused.contraction * 1e3, unfused.seconds * 1e3, bound, unfused.compute * 1e3);
    int plan = a->tool.options->plan && a->tool.options->plan != PLAN_ALL ? a->tool.options->plan : 1;
    struct step chosen = predict_step(a, spec, a->plans[plan]);
    if (chosen.fits)
        output_format(out, "The cache could hold all bytes of %u of the %u groups of %s", chosen.fits,
                      groups_total(a->plans[plan], PASS_BOTH).count, plan_name(plan));
    if (chosen.fits && isnan(chosen.cached))
        output_text(out, ":\nthose can be faster than memory allows where it still holds them.\n");
    else if (chosen.fits)
        output_format(out, ":\nwith all of them from there, the step takes %.4f ms.\n", chosen.cached * 1e3);
}

/* Several devices: the plans alone. */
static void print_devices(const struct analysis *a, struct output *out)
{
    struct table table = {.columns = "~device|>TB/s|>Tflop/s|>ridge|>unfused|>paper|>flash|>gain|>bound"};
    for (size_t n = 0; n < a->spec_count; n++) {
        const wherry_device_spec *spec = &a->specs[n];
        struct step unfused = predict_step(a, spec, a->plans[UNFUSED]);
        double rate = a->desc.dtype == WHERRY_DTYPE_F32 ? spec->f32_flops : spec->matrix_flops, best = unfused.seconds;
        table_cell(&table, "%s", spec->name);
        table_cell(&table, "%.4g", spec->bandwidth / 1e12);
        table_cell(&table, "%.4g", rate / 1e12);
        table_cell(&table, "%.1f", ridge_of(a, spec, WHERRY_CLASS_CONTRACTION));
        for (int plan = UNFUSED; plan > 0; plan--) {
            struct step step = predict_step(a, spec, a->plans[plan]);
            add_milliseconds(&table, step.seconds);
            best = fmin(best, step.seconds);
        }
        add_gain(&table, unfused.seconds / best);
        add_gain(&table, wherry_fusion_gain(unfused.contraction, unfused.other, 0));
    }
    table_print(&table, out);
    output_text(out, "\nMilliseconds at the device's limits. \"gain\" is of the best plan over unfused,\n"
                     "\"bound\" what it would bring to fuse everything but products away. One device\n"
                     "alone is told operator by operator.\n");
}

void predict_print(const struct analysis *a, struct output *out)
{
    if (a->spec_count > 1) {
        print_devices(a, out);
        return;
    }
    struct step unfused = predict_step(a, &a->specs[0], a->plans[UNFUSED]);
    predict_print_spec(a, out);
    print_operators(a, &unfused, out);
    for (int plan = 1; plan < PLAN_ALL; plan++)
        if (plan_asked(a->tool.options, plan)) print_groups(a, plan, out);
    print_plans(a, out);
}

/* ---- JSON ---- */

static json_t *number_json(double value) { return need(isnan(value) ? json_null() : json_real(value)); }

static json_t *positive_json(double value) { return number_json(value > 0 ? value : NAN); }

json_t *predict_spec_json(const struct analysis *a, const wherry_device_spec *spec)
{
    return need(
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o}}", "name", text_json(spec->name), "source",
                  text_json(spec->source), "bandwidth", positive_json(spec->bandwidth), "matrix_flops",
                  positive_json(spec->matrix_flops), "f32_flops", positive_json(spec->f32_flops), "cache_bytes",
                  spec->cache_bytes ? json_integer((json_int_t)spec->cache_bytes) : json_null(), "cache_bandwidth",
                  positive_json(spec->cache_bandwidth), "launch_seconds", positive_json(spec->launch_seconds), "ridge",
                  "contraction", number_json(ridge_of(a, spec, WHERRY_CLASS_CONTRACTION)), "other",
                  number_json(ridge_of(a, spec, WHERRY_CLASS_ELEMENTWISE))));
}

static json_t *prediction_json(const wherry_cost *cost, const wherry_prediction *p, double step)
{
    return need(json_pack("{s:o, s:s, s:o, s:s, s:f, s:f, s:f, s:o, s:f, s:f}", "name", text_json(cost->name), "class",
                          class_name(cost->class_), "flop_per_byte", number_json(p->intensity), "bound",
                          bound_name(p->bound), "limit_seconds", p->limit_seconds, "memory_seconds", p->memory_seconds,
                          "compute_seconds", p->compute_seconds, "cache_seconds", number_json(p->cache_seconds),
                          "share", step > 0 ? p->limit_seconds / step : 0, "peak_share", p->flops_share));
}

static json_t *plan_json(const struct analysis *a, const wherry_device_spec *spec, int plan, double unfused)
{
    size_t count;
    const wherry_cost *groups = wherry_analysis_groups(a->plans[plan], &count);
    struct step step = predict_step(a, spec, a->plans[plan]);
    double *apart = predict_apart(a, spec, a->plans[plan]);
    json_t *list = need(json_array());
    for (size_t n = 0; n < count; n++) {
        wherry_prediction p;
        predict_group(a, spec, a->plans[plan], n, &p);
        json_t *group = prediction_json(&groups[n], &p, step.seconds);
        json_object_set_new(group, "operators", json_integer(groups[n].operators));
        json_object_set_new(group, "apart_seconds", json_real(apart[n]));
        json_object_set_new(group, "gain", number_json(p.limit_seconds > 0 ? apart[n] / p.limit_seconds : NAN));
        json_array_append_new(list, group);
    }
    free(apart);
    return need(json_pack("{s:s, s:f, s:o, s:{s:f, s:f, s:f}, s:o, s:I, s:o, s:o}", "plan", plan_name(plan),
                          "limit_seconds", step.seconds, "gain",
                          number_json(step.seconds > 0 ? unfused / step.seconds : NAN), "by_bound", "compute",
                          step.by_bound[WHERRY_REGIME_COMPUTE], "memory", step.by_bound[WHERRY_REGIME_MEMORY], "launch",
                          step.by_bound[WHERRY_REGIME_LAUNCH], "cached_seconds", number_json(step.cached),
                          "groups_in_cache", (json_int_t)step.fits, "tokens_per_second",
                          number_json(step.seconds > 0 ? tokens_of(a) / step.seconds : NAN), "groups", list));
}

json_t *predict_json(const struct analysis *a)
{
    json_t *all = need(json_array());
    size_t count;
    const wherry_cost *operators = wherry_analysis_operators(a->plans[UNFUSED], &count);
    for (size_t n = 0; n < a->spec_count; n++) {
        const wherry_device_spec *spec = &a->specs[n];
        struct step unfused = predict_step(a, spec, a->plans[UNFUSED]);
        json_t *list = need(json_array()), *plans = need(json_array());
        for (size_t o = 0; o < count; o++) {
            wherry_prediction p;
            predict_operator(a, spec, &operators[o], &p);
            json_array_append_new(list, prediction_json(&operators[o], &p, unfused.seconds));
        }
        for (int plan = 1; plan < PLAN_ALL; plan++)
            json_array_append_new(plans, plan_json(a, spec, plan, unfused.seconds));
        json_array_append_new(
            all,
            need(json_pack("{s:o, s:o, s:o, s:{s:f, s:f, s:f, s:o}}", "spec", predict_spec_json(a, spec), "operators",
                           list, "plans", plans, "unfused", "contraction_seconds", unfused.contraction, "other_seconds",
                           unfused.other, "compute_seconds", unfused.compute, "fusion_bound",
                           number_json(wherry_fusion_gain(unfused.contraction, unfused.other, 0)))));
    }
    return all;
}
