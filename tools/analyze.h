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

/* --paper: our counts beside the paper's figures. Needs the context alone; returns an exit code. */
int paper_report(struct tool *tool);
/* --train: memory and work of training a whole model. The context alone is open; returns an exit code. */
int train_report(struct tool *tool);
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

#endif
