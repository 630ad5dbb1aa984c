/* What the commands share that write scores. */
#ifndef WHERRY_TOOLS_SCORES_H
#define WHERRY_TOOLS_SCORES_H

#include "text_run.h"

/* The format of the output, and whether options go together. Complains and returns an exit code. */
int scores_check(const struct options *options, bool *jsonl);
/* What makes scores of logits: what is asked for, or what the model's files say. */
wherry_scores scores_chosen(const struct text_run *run);
/* Labels by their score, best first: fills order[labels]. */
void scores_sort(const float *scores, uint32_t labels, uint32_t *order);

#endif
