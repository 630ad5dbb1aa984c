/* What a plan's groups move and have: what the parts of `wherry analyze` share. */
#ifndef WHERRY_TOOLS_GROUPS_H
#define WHERRY_TOOLS_GROUPS_H

#include "costs.h"

/* Whether the user wants to see this plan's groups. */
bool plan_asked(const struct options *options, int plan);

/* What groups move in one pass. */
enum pass { PASS_FORWARD, PASS_BACKWARD, PASS_BOTH };
struct cost_sum groups_total(const wherry_analysis *analysis, enum pass pass);
/* Bytes that `plan` moves less than `other`, of 1. */
double bytes_saved(const wherry_analysis *plan, const wherry_analysis *other);
/* Every group with the names of its operators. */
json_t *groups_json(const wherry_analysis *analysis);
/* The rows of the paper's table that a group's operators stand in, a bit each. */
uint64_t group_rows(const wherry_analysis *analysis, size_t group);

#endif
