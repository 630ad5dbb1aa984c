/* What `bench layer` and `verify layer` work on: a stack of layers in training, and sequences for it. */
#ifndef WHERRY_TOOLS_LAYER_H
#define WHERRY_TOOLS_LAYER_H

#include "session.h"

struct layer {
    struct random_batch batch; /* its ids are not looked at */
    wherry_training_desc training;
};

/* Opens the tool's model, and makes the batch and the rest, as the options say. Where they name neither --lengths nor
 * --batch or --seq, the sequences have the `count` lengths given here. `stack`: of training; else the model is a whole
 * one, with its embeddings, and the training is not to be used. Returns an exit code, and has complained when it
 * is not EXIT_FINE. */
int layer_open(struct tool *tool, bool stack, const uint32_t *lengths, uint32_t count, struct layer *layer);
void layer_close(struct layer *layer);

/* A line: "1 layer, post-LN, relu, dropout 0.1, saved: default". */
void layer_print(const struct tool *tool, const struct layer *layer, struct output *out);
json_t *layer_json(const struct tool *tool, const struct layer *layer);

#endif
