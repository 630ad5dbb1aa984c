/* Gammas of norms in the weights of products: the arithmetic (graph/fold.h). */
#ifndef WHERRY_RUNTIME_WEIGHT_FOLD_H
#define WHERRY_RUNTIME_WEIGHT_FOLD_H

#include "runtime/session.h"

/* What becomes of a tensor's rows on their way to the device. */
struct weight_fold {
    uint32_t columns;                /* 0: nothing */
    const struct weight_part *gamma; /* [columns] */
    bool itself;                     /* the tensor is gamma, of which a power of two is left */
    bool one_more;                   /* a channel's factor is 1 + gamma */
    bool centred;                    /* rows are less their means */
    enum weight_type as;             /* of 16 bits */
};

struct weight_fold weight_fold_of(const struct wherry_session *s, int tensor, enum weight_type as);
/* factors[columns]: what columns are multiplied by, or what gamma's tensor holds. `raw` has WEIGHT_RAW_BYTES. */
bool weight_fold_factors(const struct weight_fold *fold, void *raw, float *factors, struct error *e);
/* Rounds so that a centred row still sums to 0: else a mean of x that is large beside its deviation would be left. */
void weight_fold_row(const struct weight_fold *fold, const float *factors, const float *row, uint16_t *to);

#endif
