/* What a measured step is of: one batch in each shard. */
#ifndef WHERRY_MEASURE_TRAIN_SHARDS_H
#define WHERRY_MEASURE_TRAIN_SHARDS_H

#include "train/trainer.h"

struct step_shards {
    wherry_shard *of; /* [n] */
    size_t n;
    const wherry_targets *targets; /* of all; NULL: the loss has none */
    wherry_targets own;            /* the caller's, once for each shard */
    int32_t *labels;
    float *values;
};

/* batch and targets must outlive it. May be freed after a failure. */
bool step_shards_make(const struct wherry_trainer *t, const wherry_batch *batch, const wherry_targets *targets,
                      struct step_shards *out, struct error *e);
void step_shards_free(const struct host *host, struct step_shards *shards);

#endif
