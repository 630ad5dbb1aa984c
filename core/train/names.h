/* The weights that a session trains, by the names of the model's files, and how each is trained. */
#ifndef WHERRY_TRAIN_NAMES_H
#define WHERRY_TRAIN_NAMES_H

#include "runtime/session.h"
#include "train/optimizer.h"

/* A part of the weight that a gradient is of: all of it, or the matrix of queries, keys or values. */
struct trained_weight {
    wherry_weight info;
    enum weight weight;
    int layer, part;
    uint64_t first; /* of the gradient's elements, in the order of the model's files */
    bool adapts;    /* it is A or B of that matrix' adapter */
};

struct trained_weights {
    struct trained_weight *of; /* [count] */
    size_t count;
    struct optimizer_tensor *gradients; /* [n_gradients]: the session's, then the adapters' tensors */
    uint64_t *elements;                 /* [n_gradients] */
    size_t n_gradients;
};

bool trained_weights_create(const struct wherry_session *session, const wherry_optimizer_desc *desc,
                            struct trained_weights *out, struct error *e);
void trained_weights_destroy(const struct host *host, struct trained_weights *weights); /* accepts a zeroed one */
/* "*" stands for any text, "?" for a character. */
bool name_matches(const char *pattern, const char *name);

#endif
