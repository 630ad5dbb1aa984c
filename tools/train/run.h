/* A training that runs: what its parts share. */
#ifndef WHERRY_TOOLS_TRAIN_RUN_H
#define WHERRY_TOOLS_TRAIN_RUN_H

#include "ranks.h"
#include "train/setup.h"

/* A half-opened one may be closed. */
struct train_run {
    struct tool tool;
    struct ranks ranks;
    struct options own;              /* what `options` is: the user's, as this process has them */
    wherry_exchange_times exchanged; /* before the step */
    const struct options *options;
    struct train_setup setup;
    struct lines lines, dev_lines; /* dev_lines.count 0: there is nothing to evaluate on */
    struct batches batches;
    wherry_trainer *trainer;
    struct train_batch batch; /* of the step that runs */
    struct parts parts;
    json_t *settings;         /* setup_json */
    struct position position; /* after the last step */
    uint64_t step;            /* that were made */
    uint64_t tokens;          /* of these */
    uint64_t saved;           /* the step of the last checkpoint */
    FILE *log;
};

#endif
