/* Prints the choice of orders: a table of operators, or JSON with every configuration. */
#include "tune_layouts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "session.h"

/* ---- JSON ---- */

static json_t *number(double value) { return isfinite(value) ? need(json_real(value)) : json_null(); }

static json_t *micro(double seconds) { return number(1e6 * seconds); }

static json_t *milli(double seconds) { return number(1e3 * seconds); }

static const char *verdict_name(wherry_tune_verdict verdict)
{
    static const char *const names[] = {"right", "wrong", "failed"};
    return (unsigned)verdict < 3 ? names[verdict] : "?";
}

json_t *candidates_json(const wherry_tune_result *result, double others)
{
    json_t *list = need(json_array());
    for (uint32_t n = 0; result->candidates && n < result->measured; n++) {
        const wherry_tune_candidate *c = &result->candidates[n];
        bool right = c->verdict == WHERRY_TUNE_RIGHT;
        json_t *value = need(json_pack(
            "{s:s, s:o, s:o, s:o, s:s}", "sizes", c->sizes, "us", right ? micro(c->time.median + others) : json_null(),
            "low_us", right ? micro(c->time.ci_low + others) : json_null(), "high_us",
            right ? micro(c->time.ci_high + others) : json_null(), "verdict", verdict_name(c->verdict)));
        if (c->cut) json_object_set_new(value, "cut", json_true());
        if (*c->reason) json_object_set_new(value, "reason", text_json(c->reason));
        json_array_append_new(list, value);
    }
    return list;
}

static const wherry_tune_result *result_of(const wherry_tune_result *works, size_t n_works, uint64_t key)
{
    for (size_t n = 0; n < n_works; n++)
        if (works[n].key == key) return &works[n];
    return NULL;
}

/* Of all groups of an operator, alone; NAN: something was not measured. */
static double alone_seconds(const wherry_layout_time *time, const wherry_tune_result *works, size_t n_works, bool usual)
{
    double sum = 0;
    for (uint32_t w = 0; w < time->n_works; w++) {
        const wherry_tune_result *r = result_of(works, n_works, time->works[w]);
        double seconds = !r ? NAN : usual ? r->usual_seconds : r->best_seconds;
        sum += time->counts[w] * (seconds > 0 ? seconds : NAN);
    }
    return sum;
}

/* Those of all its kernels, each with the table's sizes of the others. */
static json_t *time_candidates(const wherry_layout_time *time, const wherry_tune_result *works, size_t n_works)
{
    json_t *list = need(json_array());
    double usual = alone_seconds(time, works, n_works, true);
    for (uint32_t w = 0; w < time->n_works && isfinite(usual); w++) {
        const wherry_tune_result *r = result_of(works, n_works, time->works[w]);
        json_t *more = candidates_json(r, usual - r->usual_seconds);
        json_array_extend(list, more);
        json_decref(more);
    }
    return list;
}

static json_t *time_json(const wherry_layouts_chosen *chosen, const wherry_layout_operator *of,
                         const wherry_layout_time *time, const wherry_tune_result *works, size_t n_works)
{
    json_t *orders = need(json_array());
    bool known = isfinite(time->seconds);
    for (uint32_t n = 0; n < of->n_tensors; n++)
        json_array_append_new(orders, json_string(chosen->tensors[of->tensors[n]].orders[time->orders[n]]));
    return need(json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b, s:o}", "orders", orders, "kernels",
                          text_json(time->kernels), "us", micro(time->seconds), "low_us",
                          known ? micro(time->low) : json_null(), "high_us", known ? micro(time->high) : json_null(),
                          "alone_us", micro(alone_seconds(time, works, n_works, false)), "alone_default_us",
                          micro(alone_seconds(time, works, n_works, true)), "tuned", time->tuned, "default",
                          time->usual, "chosen", time->chosen, "best", time->best, "candidates",
                          time_candidates(time, works, n_works)));
}

static json_t *operator_json(const wherry_layouts_chosen *chosen, const wherry_layout_operator *of,
                             const wherry_tune_result *works, size_t n_works)
{
    json_t *tensors = need(json_array()), *times = need(json_array());
    char letter[2] = {class_letter(of->class_), 0};
    for (uint32_t n = 0; n < of->n_tensors; n++)
        json_array_append_new(tensors, json_string(chosen->tensors[of->tensors[n]].name));
    for (size_t n = 0; n < of->n_times; n++)
        json_array_append_new(times, time_json(chosen, of, &of->times[n], works, n_works));
    return need(json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", of->name, "class", letter, "pass",
                          of->backward ? "backward" : "forward", "tensors", tensors, "times", times));
}

static json_t *tensor_json(const wherry_layout_tensor *tensor)
{
    json_t *orders = need(json_array());
    for (uint32_t n = 0; n < tensor->count; n++) json_array_append_new(orders, json_string(tensor->orders[n]));
    return need(json_pack("{s:s, s:o, s:s, s:s}", "name", tensor->name, "orders", orders, "default", tensor->orders[0],
                          "chosen", tensor->orders[tensor->chosen]));
}

/* Copies of a tensor in another order, by what they took. */
static json_t *transposes_json(const wherry_layouts_chosen *chosen)
{
    json_t *list = need(json_array());
    for (size_t o = 0; o < chosen->n_operators; o++) {
        const wherry_layout_operator *of = &chosen->operators[o];
        const char *end = strstr(of->name, "_transpose");
        double seconds = NAN;
        if (!end || end[strlen("_transpose")]) continue;
        for (size_t n = 0; n < of->n_times; n++)
            if (of->times[n].n_works && isfinite(of->times[n].seconds)) seconds = of->times[n].seconds;
        json_array_append_new(
            list, need(json_pack("{s:s%, s:o}", "tensor", of->name, (size_t)(end - of->name), "us", micro(seconds))));
    }
    return list;
}

json_t *layouts_json(const wherry_layouts_chosen *c, const wherry_tune_result *works, size_t n_works)
{
    json_t *tensors = need(json_array()), *operators = need(json_array());
    for (size_t n = 0; n < c->n_tensors; n++) json_array_append_new(tensors, tensor_json(&c->tensors[n]));
    for (size_t n = 0; n < c->n_operators; n++)
        json_array_append_new(operators, operator_json(c, &c->operators[n], works, n_works));
    json_t *value =
        need(json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:s, s:o}", "tensors", tensors, "operators",
                       operators, "transposes", transposes_json(c), "assignments", (json_int_t)c->combinations,
                       "feasible", (json_int_t)c->possible, "states", (json_int_t)c->states, "exact", true, "steps",
                       (json_int_t)c->measured, "known", (json_int_t)c->known, "wrong", (json_int_t)c->wrong, "chosen",
                       c->layouts, "reason", text_json(c->reason)));
    const struct {
        const char *name;
        double seconds;
    } times[] = {{"default_ms", c->usual.median},
                 {"default_low_ms", c->usual.ci_low},
                 {"default_high_ms", c->usual.ci_high},
                 {"chosen_ms", c->chosen.median},
                 {"chosen_low_ms", c->chosen.ci_low},
                 {"chosen_high_ms", c->chosen.ci_high},
                 {"default_host_ms", c->usual_host.median},
                 {"default_host_low_ms", c->usual_host.ci_low},
                 {"default_host_high_ms", c->usual_host.ci_high},
                 {"chosen_host_ms", c->chosen_host.median},
                 {"chosen_host_low_ms", c->chosen_host.ci_low},
                 {"chosen_host_high_ms", c->chosen_host.ci_high},
                 {"path_ms", c->path},
                 {"predicted_ms", c->predicted},
                 {"best_sum_ms", c->best_sum},
                 {"transposed_ms", c->transposed},
                 {"forward_first_ms", c->forward_first > 0 ? c->forward_first : NAN},
                 {"backward_first_ms", c->backward_first > 0 ? c->backward_first : NAN}};
    for (size_t n = 0; n < sizeof times / sizeof *times; n++)
        json_object_set_new(value, times[n].name, milli(times[n].seconds));
    json_object_set_new(value, "drift", json_real(c->drift));
    json_object_set_new(
        value, "random_ms",
        need(json_pack("{s:I, s:o, s:o, s:o}", "n", (json_int_t)c->random_n, "p05", milli(c->random_p05), "median",
                       milli(c->random_median), "p95", milli(c->random_p95))));
    return value;
}

void layouts_totals(json_t *record)
{
    static const char *const names[] = {"default_ms", "chosen_ms", "predicted_ms", "best_sum_ms"};
    json_t *plan;
    size_t n;
    json_array_foreach(json_object_get(record, "plans"), n, plan)
    {
        json_t *layouts = json_object_get(plan, "layouts");
        if (!json_is_object(layouts)) continue;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            json_object_set(record, names[k], json_object_get(layouts, names[k]));
        return;
    }
}

/* ---- tables ---- */

static void cell(struct table *table, double seconds)
{
    if (isfinite(seconds))
        table_cell(table, "%.2f", 1e6 * seconds);
    else
        table_cell(table, "-");
}

static void operator_row(struct table *table, const wherry_layouts_chosen *chosen, const wherry_layout_operator *of)
{
    const wherry_layout_time *usual = NULL, *taken = NULL;
    double best = INFINITY, worst = 0;
    char orders[96];
    struct text_writer t = text_begin(orders, sizeof orders);
    for (size_t n = 0; n < of->n_times; n++) {
        const wherry_layout_time *time = &of->times[n];
        if (time->usual) usual = time;
        if (time->chosen) taken = time;
        if (!isfinite(time->seconds)) continue;
        if (time->seconds < best) best = time->seconds;
        if (time->seconds > worst) worst = time->seconds;
    }
    for (uint32_t n = 0; n < of->n_tensors; n++) {
        const wherry_layout_tensor *tensor = &chosen->tensors[of->tensors[n]];
        text_add(&t, "%s%s=%s", n ? " " : "", tensor->name, tensor->orders[tensor->chosen]);
    }
    table_cell(table, "%s", of->name);
    table_cell(table, "%c", class_letter(of->class_));
    table_cell(table, "%zu", of->n_times);
    cell(table, best);
    cell(table, worst);
    cell(table, usual ? usual->seconds : NAN);
    cell(table, taken ? taken->seconds : NAN);
    table_cell(table, "%s", orders);
}

void layouts_print(const wherry_layouts_chosen *c, struct output *out)
{
    struct table table = {.columns = "<operator|<c|>orders|>best us|>worst|>default|>chosen|<chosen orders",
                          .width = 132};
    output_format(out,
                  "\n%llu of %llu combinations of orders are possible; %llu steps measured, %llu of them before, "
                  "%llu wrong\n",
                  (unsigned long long)c->possible, (unsigned long long)c->combinations, (unsigned long long)c->measured,
                  (unsigned long long)c->known, (unsigned long long)c->wrong);
    for (size_t n = 0; n < c->n_operators; n++) operator_row(&table, c, &c->operators[n]);
    table_print(&table, out);
    output_format(
        out, "shortest path through %llu states: %.4g ms; every operator's best %.4g ms, the path is %.1f %% above\n",
        (unsigned long long)c->states, 1e3 * c->path, 1e3 * c->best_sum, 100 * (c->path / c->best_sum - 1));
    if (isfinite(c->transposed))
        output_format(out, "every operator's best with copies where they do not fit: %.4g ms\n", 1e3 * c->transposed);
    if (c->forward_first > 0)
        output_format(out, "forward pass first: %.4g ms; backward pass first: %.4g ms\n", 1e3 * c->forward_first,
                      1e3 * c->backward_first);
    output_format(out, "orders at random: %.4g ms (%.4g to %.4g, 5 and 95 %%)\n", 1e3 * c->random_median,
                  1e3 * c->random_p05, 1e3 * c->random_p95);
    output_format(out, "default: %.4g ms of kernels, %.4g ms a run; chosen: %.4g and %.4g; predicted %.4g (%+.1f %%)\n",
                  1e3 * c->usual.median, 1e3 * c->usual_host.median, 1e3 * c->chosen.median,
                  1e3 * c->chosen_host.median, 1e3 * c->predicted, 100 * (c->chosen.median / c->predicted - 1));
    output_format(out, "layouts: %s\n%s\n", *c->layouts ? c->layouts : "the model's", c->reason);
}
