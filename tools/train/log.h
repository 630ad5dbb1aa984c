/* The log of a training: JSON, an object a line. */
#ifndef WHERRY_TOOLS_TRAIN_LOG_H
#define WHERRY_TOOLS_TRAIN_LOG_H

#include "train/evaluate.h"

/* Opens --log, where it is asked for. Of a run that goes on the lines up to its step stay, and nothing after them.
 * Complains and returns an exit code, as all of these. */
int train_log_open(struct train_run *run);
int train_log_step(struct train_run *run, const wherry_step_result *result, double seconds);
int train_log_evaluation(struct train_run *run, const struct evaluation *evaluation);
int train_log_close(struct train_run *run);

#endif
