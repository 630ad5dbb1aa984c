/* What the parts of `wherry analyze` share. */
#ifndef WHERRY_TOOLS_ANALYZE_H
#define WHERRY_TOOLS_ANALYZE_H

#include "costs.h"
#include "session.h"

struct analysis {
    struct tool tool;
    wherry_model_config config;
    wherry_analysis_desc desc;
    wherry_training_desc training;
    const char *name;
    wherry_analysis *plans[PLAN_ALL]; /* by choice, from 1 */
};

/* --paper: our counts beside the paper's figures. Needs the context alone; returns an exit code. */
int paper_report(struct tool *tool);
/* --fuse and --split: what other groups would bring. */
int fusion_report(struct analysis *a);

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
