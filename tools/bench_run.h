/* What `bench` and `bench layer` share: ceilings, plans and their groups, measured into one record. */
#ifndef WHERRY_TOOLS_BENCH_RUN_H
#define WHERRY_TOOLS_BENCH_RUN_H

#include <wherry/wherry_measure.h>

#include "session.h"

struct bench_run {
    struct tool *tool; /* with model and device open */
    const struct random_batch *batch;
    const wherry_training_desc *training; /* NULL: encoding */
    bool cold;                            /* also every group alone, with cold caches */
    bool silent;                          /* another process has the record */
    /* Measures a plan into the record, as bench_plan_add and bench_group_json are for, where it is no session that
     * encodes or trains layers; NULL: it is. Returns an exit code. */
    int (*measure)(struct bench_run *run, const char *plan);
    json_t *record;       /* its tree */
    wherry_roof *roof;    /* NULL: there is none */
    uint64_t cache_bytes; /* by the sweep; 0: unknown */
};

/* The timer that times were taken by. */
void bench_tell_timer(struct bench_run *run, const wherry_timer_info *timer);
/* A group as an operation of the record; `cold` may be NULL. `phase`: NULL, by the run. */
json_t *bench_group_json(const struct bench_run *run, const wherry_group_measure *group,
                         const wherry_group_measure *cold, const char *phase);
/* What a group's kernels are, why, and what they take of the device. */
json_t *kernels_json(const wherry_group_measure *group);
/* Whether the options make sense together; complains when they don't. */
bool bench_run_asked(const struct options *options);
/* The batch of `bench` and `tune`, as the options say. Returns an exit code, and has complained when it is not
 * EXIT_FINE. */
int bench_batch_create(const struct tool *tool, struct random_batch *batch);
/* The workload of a record; `training` may be NULL, else it is taken over. */
json_t *workload_json(const struct tool *tool, const struct random_batch *batch, const char *kind, json_t *training);
/* Measures the ceilings and the plans that the options name, and writes the record as they say. `workload` is taken
 * over. Returns an exit code, and has complained when it is not EXIT_FINE. */
int bench_run(struct bench_run *run, json_t *workload);

#endif
