/* Builds the loss of a masked language model: its head stands on the tokens that have a label alone. */
#ifndef WHERRY_GRAPH_ENTROPY_H
#define WHERRY_GRAPH_ENTROPY_H

#include "graph/builder.h"

/* A list of numbers that the batch gives. */
int builder_labels(struct builder *b, enum batch_data data, const char *name, const char *dims);
/* The rows of x [b][j][i] that have a label: [b][s][i]. */
int builder_labelled(struct builder *b, int x);
/* From rows [b][s][i or e], the table that they are multiplied with and the scores' bias: a float for the sum of all
 * rows' cross-entropies, and one for how many rows have no score above their label's. */
int builder_entropy(struct builder *b, int x, int table, int bias);

#endif
