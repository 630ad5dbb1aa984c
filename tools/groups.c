/* What a plan's groups move and have: what the parts of `wherry analyze` share. */
#include "groups.h"

bool plan_asked(const struct options *options, int plan)
{
    int choice = options->plan;
    return choice == PLAN_ALL || plan == (choice ? choice : 1);
}

struct cost_sum groups_total(const wherry_analysis *analysis, enum pass pass)
{
    size_t count;
    const wherry_cost *groups = wherry_analysis_groups(analysis, &count);
    size_t forward = 0;
    while (forward < count && !groups[forward].backward) forward++;
    if (pass == PASS_FORWARD) return costs_total(groups, forward);
    if (pass == PASS_BACKWARD) return costs_total(groups + forward, count - forward);
    return costs_total(groups, count);
}

double bytes_saved(const wherry_analysis *plan, const wherry_analysis *other)
{
    struct cost_sum a = groups_total(plan, PASS_BOTH), b = groups_total(other, PASS_BOTH);
    double before = b.bytes_read + b.bytes_written;
    return before > 0 ? 1 - (a.bytes_read + a.bytes_written) / before : 0;
}

uint64_t group_rows(const wherry_analysis *analysis, size_t group)
{
    size_t count;
    const wherry_cost *operators = wherry_analysis_operators(analysis, &count);
    uint64_t rows = 0;
    for (size_t n = 0; n < count; n++)
        if (operators[n].paper_row && wherry_analysis_group_of(analysis, n) == group)
            rows |= (uint64_t)1 << operators[n].paper_row;
    return rows;
}

json_t *groups_json(const wherry_analysis *analysis)
{
    size_t count, operator_count;
    const wherry_cost *groups = wherry_analysis_groups(analysis, &count);
    const wherry_cost *operators = wherry_analysis_operators(analysis, &operator_count);
    json_t *list = need(json_array());
    for (size_t n = 0; n < count; n++) {
        json_t *group = cost_json(&groups[n], true), *members = need(json_array());
        for (size_t o = 0; o < operator_count; o++)
            if (wherry_analysis_group_of(analysis, o) == n)
                json_array_append_new(members, json_string(operators[o].name));
        json_object_set_new(group, "members", members);
        json_array_append_new(list, group);
    }
    return list;
}
