/* A loss as a graph: from an example's rows and what they should be to one number and its gradient by the rows. The
 * rows are the graph's input x [b][j][i], column by column: row r is of example r % examples, of which the batch's
 * sequences are as long as an example has columns. Letters: b example, j row of an example, i elements of a row, c
 * candidates and e anchors (as many as there may be: those that a batch lacks are zeros), z and capital ones targets
 * with their weight, others widths of cut rows. */
#ifndef WHERRY_GRAPH_LOSS_H
#define WHERRY_GRAPH_LOSS_H

#include "graph/graph.h"

/* cos: of two rows; an average is over examples unless something else is said. */
enum loss_kind {
    LOSS_CONTRASTIVE, /* columns >= 2. Cross-entropy of scale * cos(anchor, candidate) over all candidates of the batch
                         (all positives, then all negatives), of which an anchor's own positive is the right one */
    LOSS_COSENT,      /* columns 2, a value each: log(1 + sum of exp(scale * (cos i - cos j))) over pairs of examples
                         with value i < value j */
    LOSS_COSINE,      /* columns 2, a value each: the average of (cos - value)^2 */
    LOSS_VECTORS,     /* columns 1, row_length values each: the average over all elements of (row - value)^2 */
    LOSS_MARGIN,      /* columns 3 (query, positive, negative), a value each: the average of
                         (query . positive - query . negative - value)^2 */
    LOSS_CLASSES,     /* columns 1, a label each: cross-entropy, an average weighted by the labels' class weights */
    LOSS_BINARY,      /* columns 1, row_length values of 0 to 1 each: the average over all elements of
                         -(positive_weight * value * log sigmoid(x) + (1 - value) * log(1 - sigmoid(x))) */
    LOSS_REGRESSION,  /* as VECTORS, of scores: no dimensions */
    LOSS_KINDS
};

enum { LOSS_DIMENSIONS_MOST = 8 };

struct loss_graph_options {
    enum loss_kind kind;
    float scale;                /* CONTRASTIVE, COSENT */
    bool symmetric;             /* CONTRASTIVE */
    float positive_weight;      /* BINARY */
    uint32_t columns, length;   /* rows of an example, elements of a row */
    uint32_t examples;          /* at most */
    const uint32_t *dimensions; /* the same loss of rows cut to each of these, of length 1 again */
    uint32_t n_dimensions;      /* 0: of rows as they are */
};

/* targets[k]: the input that has the targets and weights of the loss by dimensions[k], or of the only one. */
bool loss_graph_create(const struct host *host, const struct loss_graph_options *options, struct graph *out,
                       int targets[LOSS_DIMENSIONS_MOST], struct error *e);
/* Elements of a row of targets, its weight not counted, for rows cut to `width`. */
uint32_t loss_row_targets(enum loss_kind kind, uint32_t width);

#endif
