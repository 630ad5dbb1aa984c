/* `wherry analyze --train --ranks`: what a measured training step becomes with many processes. */
#ifndef WHERRY_TOOLS_ANALYZE_RANKS_H
#define WHERRY_TOOLS_ANALYZE_RANKS_H

#include "rank_predict.h"
#include "train_work.h"

/* What the options say of it, and the record's step; for a batch of this work, whose backward pass has these groups.
 * Complains, and returns an exit code. A half-opened one may be closed. */
struct rank_analysis {
    struct rank_link link;
    struct rank_step step;
    const struct number_list *counts;
    double tokens; /* of a process' step */
    uint32_t vocabulary;
    const char *source; /* the record's file */
};
int rank_analysis_open(struct tool *tool, struct train_work *work, const wherry_cost *backward, size_t n_backward,
                       struct rank_analysis *out);
void rank_analysis_close(struct rank_analysis *analysis);
void rank_analysis_print(const struct rank_analysis *analysis, struct output *out);
json_t *rank_analysis_json(const struct rank_analysis *analysis);

#endif
