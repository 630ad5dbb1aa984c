/* Operators and groups that repeat from layer to layer, added up, and how a cost is written. */
#include "costs.h"

#include <stdlib.h>
#include <string.h>

#include "wherry/wherry_measure.h"

wherry_status costs_measure(const struct tool *tool, const wherry_batch *batch, wherry_phase phase, uint32_t repeats,
                            double warm_seconds, wherry_cost *groups, size_t *count, double *step_seconds)
{
    const size_t room = groups ? *count : 0;
    wherry_group_measure *measures = need(calloc(room + 1, sizeof *measures));
    /* The library takes 0 for its own choice. */
    const wherry_measure_desc desc = {.struct_size = sizeof desc,
                                      .phase = phase,
                                      .repeats = repeats,
                                      .warm_seconds = warm_seconds > 0 ? warm_seconds : 1e-9};
    wherry_step_measure step = {.struct_size = sizeof step};
    *count = room;
    wherry_status status = wherry_measure(tool->session, batch, &desc, measures, count, &step);
    for (size_t n = 0; !status && n < room && n < *count; n++) groups[n] = measures[n].cost;
    *step_seconds = step.host.median;
    free(measures);
    return status;
}

static void cost_add(struct cost_sum *sum, const wherry_cost *cost)
{
    sum->count++;
    sum->flops += cost->flops;
    sum->seconds += cost->seconds;
    sum->bytes_read += (double)cost->bytes_read;
    sum->bytes_written += (double)cost->bytes_written;
}

struct cost_sum *costs_merge(const wherry_cost *costs, size_t count, bool separate, size_t *sums)
{
    struct cost_sum *list = need(calloc(count + 1, sizeof *list));
    *sums = 0;
    for (size_t n = 0; n < count; n++) {
        size_t s = separate ? *sums : 0;
        while (s < *sums && !same_kind(list[s].first, &costs[n])) s++;
        if (s == *sums) list[(*sums)++].first = &costs[n];
        cost_add(&list[s], &costs[n]);
    }
    return list;
}

struct cost_sum costs_total(const wherry_cost *costs, size_t count)
{
    struct cost_sum total = {.first = costs};
    for (size_t n = 0; n < count; n++) cost_add(&total, &costs[n]);
    return total;
}

const char *cost_sum_name(const struct cost_sum *sum, bool separate)
{
    return separate ? sum->first->name : cost_kind(sum->first);
}

const char *format_ratio(double a, double b, const char *format, char text[NUMBER_SIZE])
{
    if (b > 0)
        snprintf(text, NUMBER_SIZE, format, a / b);
    else
        snprintf(text, NUMBER_SIZE, "-");
    return text;
}

json_t *cost_json(const wherry_cost *cost, bool group)
{
    json_t *value =
        need(json_pack("{s:s, s:s, s:i, s:I, s:I, s:I}", "name", cost->name, "class", class_name(cost->class_), "layer",
                       (int)cost->layer, "flops", (json_int_t)cost->flops, "bytes_read", (json_int_t)cost->bytes_read,
                       "bytes_written", (json_int_t)cost->bytes_written));
    double bytes = (double)cost->bytes_read + (double)cost->bytes_written;
    if (bytes > 0) json_object_set_new(value, "flop_per_byte", json_real(cost->flops / bytes));
    json_object_set_new(value, "paper_row", cost->paper_row ? json_integer(cost->paper_row) : json_null());
    if (group) {
        json_object_set_new(value, "kernel", json_string(cost->kernel));
        json_object_set_new(value, "first_operator", json_integer(cost->first_operator));
        json_object_set_new(value, "operators", json_integer(cost->operators));
    } else {
        json_object_set_new(value, "einsum", *cost->einsum ? json_string(cost->einsum) : json_null());
        json_object_set_new(value, "dims", json_string(cost->dims));
    }
    return value;
}
