/* The fusion rule of Ivanov et al. ("Data Movement Is All You Need", section IV) on iteration spaces: it derives groups
 * from the tables of operators, and judges groups that somebody else made. Knows neither plans nor kernels. */
#ifndef WHERRY_ANALYSIS_FUSION_H
#define WHERRY_ANALYSIS_FUSION_H

#include "graph/group.h"

/* What an operator, or a group whose operators agree, iterates over. */
struct space {
    char letters[16]; /* all of them, in the order of memory */
    char reduced[16]; /* those of them that a reduction runs over; "": a map */
    bool contraction;
};

void op_space(const struct graph *g, const struct op *o, struct space *out);

/* What is being fused, and every decision taken so far. */
struct fusion {
    const struct graph *g;
    const struct batch_shape *batch;
    size_t storage; /* bytes of an element */
    struct group *groups;
    int n_groups;
    wherry_fusion *decisions;
    int n_decisions;
    /* Its own. */
    struct fusion_edge {
        int from, to; /* operators: the second reads what the first makes */
    } * edges;
    int n_edges, edge_capacity, decision_capacity;
    int *group_of; /* [operators]; one that is in no group yet: n_ops + its own number */
    bool *reached; /* [2 * operators]: groups, then such operators */
};

/* Groups by the rule. Operators are walked in order. One open group is kept for each iteration space; an operator joins
 * that of its own space, or it closes that and opens another, as soon as the reduction changes or something outside
 * stands between them. Contractions stay alone: they absorb nothing but a scale. Nothing is fused across the loss.
 * Groups come out in an order in which they can run. Destroy also after a failure. */
bool fusion_derive(const struct graph *g, const struct batch_shape *batch, size_t storage, struct fusion *out,
                   struct error *e);
/* Splits, then fuses groups as wherry_analysis_desc says, beginning with `groups` (memory of the graph's host, taken
 * over by `out`, with room for as many groups as there are operators). Fuses also what the rule refuses. */
bool fusion_change(const struct graph *g, const struct batch_shape *batch, size_t storage, struct group *groups,
                   int count, const char *split, const char *fuse, struct fusion *out, struct error *e);
/* Accepts a zeroed one. */
void fusion_destroy(struct fusion *f);

#endif
