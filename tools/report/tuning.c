/* Tunings as tables: text, Markdown, CSV. */
#include "report/tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"
#include "report/fields.h"
#include "report/format.h"
#include "report/write.h"

/* An operator or a kernel call, over all its configurations; times in microseconds, NAN: not known. */
struct entry {
    const char *name, *class, *pass, *sizes;
    const char *kernel; /* of a kernel call the table's sizes, of which the first word is its kernel: a group may have
                         * several */
    char orders[256];   /* chosen */
    size_t count, wrong, failed;
    double best, worst, usual, chosen, step_usual, step_chosen;
};

/* ---- entries ---- */

static double positive(const json_t *object, const char *key)
{
    double value = field_number(object, key);
    return value > 0 ? value : NAN;
}

static void add_time(struct entry *entry, double us)
{
    if (!isfinite(us)) return;
    entry->best = fmin(entry->best, us); /* fmin and fmax pass over the first NAN */
    entry->worst = fmax(entry->worst, us);
    entry->count++;
}

/* Candidates, and times beside them; one that is a candidate's own, or the other's, is not counted twice. */
static void add_alone(struct entry *entry, const json_t *candidates, double first, double second)
{
    size_t n;
    json_t *candidate;
    bool first_known = false, second_known = first == second;
    json_array_foreach(candidates, n, candidate)
    {
        const char *verdict = field_text(candidate, "verdict");
        if (strcmp(verdict, "right") == 0) {
            double us = positive(candidate, "us");
            add_time(entry, us);
            first_known |= us == first;
            second_known |= us == second;
        } else if (strcmp(verdict, "wrong") == 0) {
            entry->wrong++;
        } else {
            entry->failed++;
        }
    }
    if (!first_known) add_time(entry, first);
    if (!second_known) add_time(entry, second);
}

static bool has_candidates(const json_t *operator_)
{
    size_t n;
    json_t *time;
    json_array_foreach(json_object_get(operator_, "times"), n, time)
    {
        if (json_array_size(json_object_get(time, "candidates"))) return true;
    }
    return false;
}

static void name_orders(struct entry *entry, const json_t *operator_, const json_t *time)
{
    size_t n;
    json_t *tensor;
    struct text_writer orders = text_begin(entry->orders, sizeof entry->orders);
    json_array_foreach(json_object_get(operator_, "tensors"), n, tensor)
    {
        const json_t *order = json_array_get(json_object_get(time, "orders"), n);
        text_add(&orders, "%s%.40s=%.40s", n ? ", " : "", json_string_value(tensor), json_string_value(order));
    }
}

static struct entry empty_entry(void)
{
    return (struct entry){.pass = "",
                          .class = "",
                          .sizes = "",
                          .kernel = "",
                          .best = NAN,
                          .worst = NAN,
                          .usual = NAN,
                          .chosen = NAN,
                          .step_usual = NAN,
                          .step_chosen = NAN};
}

/* Where no sizes were measured alone, the times are those in the step. */
static struct entry operator_entry(const json_t *operator_)
{
    struct entry entry = empty_entry();
    bool alone = has_candidates(operator_);
    size_t n;
    json_t *time;
    entry.name = field_text(operator_, "name");
    entry.class = field_text(operator_, "class");
    entry.pass = field_text(operator_, "pass");
    json_array_foreach(json_object_get(operator_, "times"), n, time)
    {
        double in_step = field_number(time, "us"); /* 0: a copy that is not needed */
        double best = positive(time, alone ? "alone_us" : "us");
        double usual = positive(time, alone ? "alone_default_us" : "us");
        if (alone)
            add_alone(&entry, json_object_get(time, "candidates"), best, usual);
        else
            add_time(&entry, best);
        if (field_true(time, "default")) {
            entry.usual = field_number(time, alone ? "alone_default_us" : "us");
            entry.step_usual = in_step;
        }
        if (!field_true(time, "chosen")) continue;
        entry.chosen = field_number(time, alone ? "alone_us" : "us");
        entry.step_chosen = in_step;
        entry.sizes = field_text(time, "kernels");
        name_orders(&entry, operator_, time);
    }
    return entry;
}

static struct entry work_entry(const json_t *work)
{
    struct entry entry = empty_entry();
    double best = positive(work, "best_us"), usual = positive(work, "default_us");
    bool chosen = field_true(work, "chosen");
    entry.name = field_text(work, "group");
    entry.sizes = field_text(work, chosen ? "best" : "default");
    entry.kernel = field_text(work, "default");
    snprintf(entry.orders, sizeof entry.orders, "%s", field_text(work, "layouts"));
    add_alone(&entry, json_object_get(work, "candidates"), best, usual);
    entry.usual = usual;
    entry.chosen = chosen ? best : usual;
    return entry;
}

/* Of the plan the operators, or the kernel calls where it has no operators or `works` says so. Memory to free. */
static struct entry *plan_entries(const json_t *tuning, const json_t *plan, bool works, size_t *count)
{
    const json_t *operators = field_get(plan, "layouts.operators");
    const json_t *all = works ? json_object_get(tuning, "works") : operators;
    struct entry *entries = need(calloc(json_array_size(all) + 1, sizeof *entries));
    size_t n;
    json_t *entry;
    *count = 0;
    json_array_foreach(all, n, entry)
    {
        if (!works)
            entries[(*count)++] = operator_entry(entry);
        else if (strcmp(field_text(entry, "plan"), field_text(plan, "session.plan")) == 0)
            entries[(*count)++] = work_entry(entry);
    }
    return entries;
}

static bool has_operators(const json_t *plan) { return json_array_size(field_get(plan, "layouts.operators")) > 0; }

/* ---- figures ---- */

static void plan_head(const json_t *tuning, const json_t *plan, char *text, size_t size)
{
    const char *model = field_text(tuning, "model.source"), *id = field_text(tuning, "device.id");
    const char *name = field_text(tuning, "device.name"), *own = field_text(plan, "session.plan");
    snprintf(text, size, "%.*s on %.*s (%.*s): plan %.*s", utf8_cut(model, 60), model, utf8_cut(id, 40), id,
             utf8_cut(name, 60), name, utf8_cut(own, 40), own);
}

/* "3.1 % faster than": time saved, of the other's time. */
static void write_faster(struct output *out, double chosen, double other)
{
    double saved = 1 - chosen / other;
    if (fabs(saved) < 0.0005)
        output_text(out, "as fast as");
    else
        output_format(out, "%.1f %% %s than", 100 * fabs(saved), saved > 0 ? "faster" : "slower");
}

static void write_figure(struct output *out, const char *name, double ms)
{
    if (isfinite(ms)) output_format(out, "%s %.4g ms", name, ms);
}

/* The fastest of a kernel call's candidates, of those that the bound would have cut, or of the others and the default;
 * NAN: none. */
static double fastest(const json_t *work, bool cut, size_t *count)
{
    size_t n;
    json_t *candidate;
    double best = cut ? NAN : positive(work, "default_us");
    *count = 0;
    json_array_foreach(json_object_get(work, "candidates"), n, candidate)
    {
        if (field_true(candidate, "cut") != cut || strcmp(field_text(candidate, "verdict"), "right") != 0) continue;
        best = fmin(best, positive(candidate, "us"));
        (*count)++;
    }
    return best;
}

/* What cutting would have lost, where all candidates were measured (--all-candidates). */
static void write_cut(struct output *out, const json_t *tuning, const json_t *plan, const char *begin)
{
    size_t n, calls = 0, count = 0, lost = 0;
    double least = NAN;
    json_t *work;
    json_array_foreach(json_object_get(tuning, "works"), n, work)
    {
        size_t of_call, others;
        double ratio = fastest(work, true, &of_call) / fastest(work, false, &others);
        if (strcmp(field_text(work, "plan"), field_text(plan, "session.plan")) != 0 || !isfinite(ratio)) continue;
        calls++;
        count += of_call;
        lost += ratio < 1;
        least = fmin(least, ratio);
    }
    if (!calls) return;
    output_format(out, "%s%zu candidates of %zu kernel calls are measured that the bound would have cut: ", begin,
                  count, calls);
    if (lost)
        output_format(out, "in %zu of the calls one is the fastest, by up to %.1f %%\n", lost, 100 * (1 - least));
    else
        output_format(out, "none is its call's fastest, which is faster by %.1f %% or more\n", 100 * (1 - 1 / least));
}

/* One or several lines, each begun with `begin`. */
static void write_figures(struct output *out, const json_t *tuning, const json_t *plan, const char *begin)
{
    const json_t *layouts = field_get(plan, "layouts");
    double usual = layouts ? positive(layouts, "default_ms") : positive(plan, "default_us") / 1e3;
    double chosen = layouts ? positive(layouts, "chosen_ms") : positive(plan, "best_us") / 1e3;
    double predicted = positive(layouts, "predicted_ms"), sum = positive(layouts, "best_sum_ms");
    output_text(out, begin);
    write_figure(out, "default", usual);
    write_figure(out, ", chosen", chosen);
    write_figure(out, ", predicted", predicted);
    write_figure(out, ", sum of bests", sum);
    write_figure(out, ", with transposes", positive(layouts, "transposed_ms"));
    output_text(out, "\n");
    if (isfinite(positive(layouts, "random_ms.median")))
        output_format(out, "%s%.0f random choices: 5 %% %.4g ms, median %.4g ms, 95 %% %.4g ms\n", begin,
                      field_number(layouts, "random_ms.n"), field_number(layouts, "random_ms.p05"),
                      field_number(layouts, "random_ms.median"), field_number(layouts, "random_ms.p95"));
    if (isfinite(usual) && isfinite(chosen)) {
        output_format(out, "%schosen is ", begin);
        write_faster(out, chosen, usual);
        output_text(out, " the default\n");
    }
    if (isfinite(predicted) && isfinite(chosen))
        output_format(out, "%smeasured is within %.1f %% of the predicted sum\n", begin,
                      100 * fabs(chosen / predicted - 1));
    if (isfinite(sum) && isfinite(chosen))
        output_format(out, "%s%.1f %% %s the sum of per-operator bests\n", begin, 100 * fabs(chosen / sum - 1),
                      chosen < sum ? "below" : "above");
    if (layouts)
        output_format(out, "%schosen: %s\n", begin,
                      *field_text(layouts, "chosen") ? field_text(layouts, "chosen") : "the default's orders");
    write_cut(out, tuning, plan, begin);
}

/* ---- tables ---- */

enum { COLUMNS = 11 };

/* The cells of a row, in the order of the columns below. */
static void entry_cells(const struct entry *entry, char cells[COLUMNS][256])
{
    const double numbers[] = {entry->best,
                              entry->worst,
                              entry->usual,
                              entry->chosen,
                              entry->worst / entry->best,
                              entry->chosen > 0 ? entry->chosen / entry->best : NAN};
    snprintf(cells[0], sizeof cells[0], "%.*s%s%.*s", utf8_cut(entry->name, 160), entry->name,
             *entry->kernel ? " " : "", (int)strcspn(entry->kernel, " "), entry->kernel);
    snprintf(cells[1], sizeof cells[1], "%.*s", utf8_cut(entry->pass, 100), entry->pass);
    snprintf(cells[2], sizeof cells[2], "%.*s", utf8_cut(entry->class, 40), entry->class);
    snprintf(cells[3], sizeof cells[3], "%zu", entry->count);
    for (size_t n = 0; n < 6; n++) {
        char text[NUMBER_SIZE];
        snprintf(cells[4 + n], sizeof cells[0], "%s", format_short(numbers[n], text));
    }
    snprintf(cells[10], sizeof cells[10], "%s", *entry->orders ? entry->orders : "-");
}

static void print_table(struct output *out, const json_t *tuning, const json_t *plan)
{
    bool works = !has_operators(plan);
    size_t count;
    struct entry *entries = plan_entries(tuning, plan, works, &count);
    struct table table = {.columns = works
                                         ? "~kernel call|>times|>best us|>worst us|>default us|>chosen us|>worst/best|"
                                           ">chosen/best|<layouts"
                                         : "~operator|<pass|<c|>times|>best us|>worst us|>default us|>chosen us|"
                                           ">worst/best|>chosen/best|<orders chosen",
                          .width = 132};
    for (size_t n = 0; n < count; n++) {
        char cells[COLUMNS][256];
        entry_cells(&entries[n], cells);
        for (size_t c = 0; c < COLUMNS; c++) {
            if (!works || (c != 1 && c != 2)) table_cell(&table, "%s", cells[c]);
        }
    }
    if (count) table_print(&table, out);
    free(entries);
}

void tuning_text(struct output *out, const json_t *tunings)
{
    size_t t, p;
    json_t *tuning, *plan;
    bool first = true;
    json_array_foreach(tunings, t, tuning)
    {
        json_array_foreach(json_object_get(tuning, "plans"), p, plan)
        {
            char head[256];
            plan_head(tuning, plan, head, sizeof head);
            output_format(out, "%s%s\n", first ? "" : "\n", head);
            write_figures(out, tuning, plan, "");
            print_table(out, tuning, plan);
            first = false;
        }
    }
}

static void markdown_table(struct output *out, const json_t *tuning, const json_t *plan)
{
    bool works = !has_operators(plan);
    size_t count;
    struct entry *entries = plan_entries(tuning, plan, works, &count);
    markdown_head(out, works
                           ? "kernel call|pass|class|>times|>best, µs|>worst, µs|>default, µs|>chosen, µs|>worst/best|"
                             ">chosen/best|layouts"
                           : "operator|pass|class|>times|>best, µs|>worst, µs|>default, µs|>chosen, µs|>worst/best|"
                             ">chosen/best|orders chosen");
    for (size_t n = 0; n < count; n++) {
        char cells[COLUMNS][256];
        entry_cells(&entries[n], cells);
        output_text(out, "|");
        for (size_t c = 0; c < COLUMNS; c++) markdown_cell(out, cells[c]);
        output_text(out, "\n");
    }
    free(entries);
}

void tuning_markdown(struct output *out, const json_t *tunings)
{
    size_t t, p;
    json_t *tuning, *plan;
    json_array_foreach(tunings, t, tuning)
    {
        json_array_foreach(json_object_get(tuning, "plans"), p, plan)
        {
            char head[256];
            plan_head(tuning, plan, head, sizeof head);
            output_text(out, t || p ? "\n## " : "## ");
            markdown_text(out, head);
            output_text(out, "\n\n");
            write_figures(out, tuning, plan, "* ");
            output_text(out, "\n");
            markdown_table(out, tuning, plan);
        }
    }
}

static void csv_row(struct output *out, const json_t *tuning, const json_t *plan, const struct entry *entry, bool work)
{
    const char *texts[] = {field_text(tuning, "run.date"),
                           field_text(tuning, "run.commit"),
                           field_text(tuning, "device.id"),
                           field_text(tuning, "device.name"),
                           field_text(tuning, "device.driver"),
                           field_text(tuning, "model.source"),
                           field_text(plan, "session.plan"),
                           work ? "work" : "operator",
                           entry->name,
                           entry->class,
                           entry->pass,
                           entry->orders,
                           entry->sizes};
    const double numbers[] = {entry->best,   entry->worst,      entry->usual,
                              entry->chosen, entry->step_usual, entry->step_chosen};
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        csv_text(out, texts[n]);
        output_text(out, ",");
    }
    output_format(out, "%zu,%zu,%zu", entry->count, entry->wrong, entry->failed);
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        char text[NUMBER_SIZE];
        output_format(out, ",%s", format_exact(numbers[n], text));
    }
    output_text(out, "\r\n");
}

void tuning_csv(struct output *out, const json_t *tunings)
{
    size_t t, p;
    json_t *tuning, *plan;
    output_text(out,
                "date,commit,device,device_name,driver,model,plan,kind,name,class,pass,orders_chosen,kernel_chosen,"
                "times,wrong,failed,best_us,worst_us,default_us,chosen_us,default_in_step_us,chosen_in_step_us\r\n");
    json_array_foreach(tunings, t, tuning)
    {
        json_array_foreach(json_object_get(tuning, "plans"), p, plan)
        {
            for (int works = 0; works < 2; works++) {
                size_t count;
                struct entry *entries = plan_entries(tuning, plan, works, &count);
                for (size_t n = 0; n < count; n++) csv_row(out, tuning, plan, &entries[n], works);
                free(entries);
            }
        }
    }
}
