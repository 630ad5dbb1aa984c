/* Where a training keeps what it needs to go on: OUT.checkpoints/step-000100. */
#ifndef WHERRY_TOOLS_TRAIN_CHECKPOINTS_H
#define WHERRY_TOOLS_TRAIN_CHECKPOINTS_H

#include "train/run.h"

/* These complain and return an exit code. */

/* Whether results can go to --out. *done: they are there already, from a run that ended before it took its checkpoints
 * away; that is done now. */
int checkpoints_begin(struct train_run *run, bool *done);
/* Goes on from the last one, where there is one. */
int checkpoints_resume(struct train_run *run);
/* Writes one, and takes away all but the last two. */
int checkpoints_save(struct train_run *run);
/* Writes the model to --out, then takes all checkpoints away. */
int checkpoints_finish(struct train_run *run);

#endif
