/* What a session returns: which of the model's outputs, pooled and cut how. */
#ifndef WHERRY_RUNTIME_OUTPUT_H
#define WHERRY_RUNTIME_OUTPUT_H

#include "graph/graph.h"

struct wherry_model;

/* Fills in the output, the pooling and whether it is normalized; fails for what the model has not. */
bool output_resolve(const struct wherry_model *model, const wherry_session_desc *desc, struct graph_options *options,
                    struct error *e);
/* Sequences of a batch where a session says none: rows as wide as the vocabulary are many bytes. */
uint32_t output_sequences(const struct graph_options *options, uint32_t tokens);
/* Floats that an embedding is cut to; 0: none are. */
uint32_t output_dimensions(const wherry_session_desc *desc, const wherry_model_info *info);
/* How a loss of masked words has its scores: by strips or as a whole, kept for the backward pass or not. After what
 * else the options say of the plan and of training. */
void output_scores(const struct batch_shape *limits, struct graph_options *options);
/* The layers alone: their last one's result. */
void output_of_stack(struct graph_options *options);

#endif
