/* The learning rate of a step. */
#ifndef WHERRY_TRAIN_SCHEDULE_H
#define WHERRY_TRAIN_SCHEDULE_H

#include "base/error.h"

/* Whether schedule, warm-up and total go together. */
bool schedule_check(const wherry_optimizer_desc *desc, struct error *e);
/* Of step k, from 0, as transformers' get_..._schedule_with_warmup. */
double schedule_rate(const wherry_optimizer_desc *desc, uint64_t step);

#endif
