/* The walk that derives the backward pass (backward.c, backward_emit.c), for the kinds that have files of their own. */
#ifndef WHERRY_GRAPH_BACKWARD_H
#define WHERRY_GRAPH_BACKWARD_H

#include "graph/builder.h"

struct backward {
    struct builder *b;
    struct op *forward; /* a copy, because the graph's list moves while it grows */
    /* Of each tensor of the forward pass: */
    int *gradient; /* the tensor that is its gradient, -1: there is none yet; the sum so far where several read it */
    int *readers;  /* operators that read it and have given no gradient yet */
    int *residual; /* the residual that gave its own gradient to it, -1: none */
    int *saved;    /* what the backward pass reads instead: itself, or what is recomputed */
    int delta;     /* of the attention that is being derived; -1: its weights are read */
    int waiting;   /* a bias whose gradient comes after those of its product, -1: none */
};

/* Makes the tensor that holds the whole gradient; a slice's is a slice of its owner's, which may have readers of its
 * own. */
int backward_gradient_make(struct backward *w, int tensor);
/* A part of a weight's gradient, to which another reader's is added: a table's that embeds words, too. */
int backward_weight_part(struct backward *w, int tensor);
/* The gradient that the operators after have given. */
int backward_gradient_of(struct backward *w, int tensor);
/* A tensor like this one for a part of its gradient, by the name of what makes it. */
int backward_part_make(struct backward *w, const struct op *o, const char *suffix, int tensor);
/* Where an operator's gradient of what it reads goes: into the whole one, where nothing else gives a part of it. */
int backward_target(struct backward *w, const struct op *o, int tensor);
/* Appends an operator of the backward pass that belongs to o; unused inputs are -1. */
void backward_emit_many(struct backward *w, const struct op *o, const char *suffix, int pass,
                        const struct op_kind *kind, const int out[OP_MAX_OUT], const int in[OP_ROW_IN]);
void backward_emit(struct backward *w, const struct op *o, const char *suffix, int pass, const struct op_kind *kind,
                   int out, int in0, int in1, int in2);
/* The gradient d of a tensor by way of operator o, complete or a part that is added to the others. */
void backward_give(struct backward *w, const struct op *o, int tensor, int d);

/* Of losses (backward_losses.c). */
void derive_take(struct backward *w, const struct op *o);
void derive_loss_sum(struct backward *w, const struct op *o);
void derive_loss(struct backward *w, const struct op *o, const struct op_kind *kind);
void derive_pick(struct backward *w, const struct op *o);
void derive_entropy(struct backward *w, const struct op *o);
void derive_entropy_sum(struct backward *w, const struct op *o);

/* Of mixtures of experts (backward_experts.c). */
void derive_route(struct backward *w, const struct op *o);
void derive_nothing(struct backward *w, const struct op *o);
void derive_experts(struct backward *w, const struct op *o);
void derive_combine(struct backward *w, const struct op *o);

#endif
