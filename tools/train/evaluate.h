/* How good the model is on examples that it does not learn. */
#ifndef WHERRY_TOOLS_TRAIN_EVALUATE_H
#define WHERRY_TOOLS_TRAIN_EVALUATE_H

#include "train/run.h"

enum { SCORES_MOST = 3 };

struct evaluation {
    double loss;
    struct {
        const char *name;
        double value; /* NAN: not defined for these examples */
    } scores[SCORES_MOST];
    int n_scores;
};

/* On all of --dev, in its order. Complains and returns an exit code. */
int evaluate(struct train_run *run, struct evaluation *out);

#endif
