/* Builds the losses of a masked language model: its head stands on the tokens that have a label alone, and that of next
 * sentences on the sequences that have one. */
#ifndef WHERRY_GRAPH_ENTROPY_H
#define WHERRY_GRAPH_ENTROPY_H

#include "graph/builder.h"

/* A list of numbers that the batch gives. */
int builder_labels(struct builder *b, enum batch_data data, const char *name, const char *dims);
/* The rows of x [b][j][i] that have a label: [b][s][i]. */
int builder_labelled(struct builder *b, int x);
/* From rows [b][s][i or e], the table that they are multiplied with and the scores' bias: a float for the sum of all
 * rows' cross-entropies, and one for how many rows have no score above their label's. They are `total`, or a tensor of
 * their own where that is -1, which is returned. */
int builder_entropy(struct builder *b, int x, int table, int bias, int total);

/* With next sentences: room for the two floats of both losses, and its two slices. */
int builder_entropies(struct builder *b, int *masked, int *next);
/* The first tokens' rows of x of sequences that have a label: [b][S][i]. */
int builder_next_rows(struct builder *b, int x);
/* From their scores [b][S][z]: the same two floats of them. */
void builder_next_entropy(struct builder *b, int scores, int total);

#endif
