/* What the parts of `wherry analyze` share. */
#ifndef WHERRY_TOOLS_ANALYZE_H
#define WHERRY_TOOLS_ANALYZE_H

#include "costs.h"
#include "device_spec.h"
#include "session.h"

struct analysis {
    struct tool tool;
    wherry_model_config config;
    wherry_analysis_desc desc;
    wherry_training_desc training;
    const char *name;
    wherry_analysis *plans[PLAN_ALL]; /* by choice, from 1 */
    wherry_device_spec specs[DEVICE_SPECS_MAX];
    size_t spec_count; /* of --device-spec; 0: there is none */
};

/* Whether the user wants to see this plan's groups. */
bool plan_asked(const struct analysis *a, int plan);

/* --paper: our counts beside the paper's figures. Needs the context alone; returns an exit code. */
int paper_report(struct tool *tool);
/* --fuse and --split: what other groups would bring. */
int fusion_report(struct analysis *a);

/* --layouts: the sizes of the spaces of layouts; the paper's, too, where no model is named. */
int layouts_report(struct analysis *a);

/* --device-spec: tables of one device or of several, and JSON of all. */
void predict_print(const struct analysis *a, struct output *out);
json_t *predict_json(const struct analysis *a);
/* The first device: its peaks, and the limit time of all groups. */
void predict_print_spec(const struct analysis *a, struct output *out);
json_t *predict_spec_json(const struct analysis *a, const wherry_device_spec *spec);
double predict_seconds(const struct analysis *a, const wherry_analysis *plan);

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
