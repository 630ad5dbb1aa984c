/* The gradients of losses: of rows (loss.c), and of masked language models (entropy.c). */
#include <string.h>

#include "graph/backward.h"
#include "graph/entropy.h"

/* ---- losses (loss.c) ---- */

/* A part of a tensor: beside zeros, added to what others gave before. */
void derive_take(struct backward *w, const struct op *o)
{
    int x = o->in[0], before = w->gradient[x], d = backward_gradient_of(w, o->out[0]);
    int whole = --w->readers[x] ? backward_part_make(w, o, "_dx", x) : backward_gradient_make(w, x);
    backward_emit(w, o, "_dx", DX, &kind_take_dx, whole, d, before, -1);
    w->gradient[x] = whole;
}

/* Each row's loss counts as it is, weighted already: one number is the gradient by all of them. */
void derive_loss_sum(struct backward *w, const struct op *o)
{
    int d = backward_gradient_of(w, o->out[0]);
    backward_give(w, o, o->in[0], d);
    if (o->in[1] >= 0) backward_give(w, o, o->in[1], d);
}

/* Reads what it was the loss of, its targets, and the logarithm that it, or the sum after it, left. */
void derive_loss(struct backward *w, const struct op *o, const struct op_kind *kind)
{
    int dx = backward_target(w, o, o->in[0]);
    backward_emit(w, o, "_dx", DX, kind, dx, backward_gradient_of(w, o->out[0]), w->saved[o->in[0]], o->in[1]);
    if (!w->b->ok) return;
    w->b->g->ops[w->b->g->n_ops - 1].in[OP_ROW_IN] = o->out[1] >= 0 ? o->out[1] : o[1].out[1];
    backward_give(w, o, o->in[0], dx);
}

/* ---- masked language models (entropy.c) ---- */

/* Each token's row goes back, and rows of others are 0. */
void derive_pick(struct backward *w, const struct op *o)
{
    bool next = strchr(w->b->g->tensors[o->out[0]].dims, 'S') != NULL;
    int d = backward_gradient_of(w, o->out[0]),
        rows = next ? builder_labels(w->b, BATCH_NEXT_ROWS, "next_token_rows", "bj")
                    : builder_labels(w->b, BATCH_LABEL_ROWS, "label_rows", "bj");
    int dx = backward_target(w, o, o->in[0]);
    backward_emit(w, o, "_dx", DX, &kind_pick_dx, dx, d, rows, -1);
    backward_give(w, o, o->in[0], dx);
}

void derive_entropy_sum(struct backward *w, const struct op *o)
{
    backward_give(w, o, o->in[0], backward_gradient_of(w, o->out[0]));
}

/* A strip's scores once more: the product and its bias, which stand before. */
static void emit_strip_recomputed(struct backward *w, const struct op *product, const struct op *bias)
{
    for (const struct op *o = product; o <= bias && w->b->ok; o++) {
        int made = w->saved[o->out[0]] = builder_recomputed(w->b, o->out[0]);
        struct op copy = op_recomputed(o, made);
        if (o > product) copy.in[0] = w->saved[o->in[0]];
        builder_op(w->b, &copy);
    }
}

void derive_entropy(struct backward *w, const struct op *o)
{
    int scores = o->in[0], d = backward_gradient_of(w, o->out[0]), lse = -1;
    for (const struct op *sum = o; lse < 0; sum++) /* that of this loss is the next one */
        if (sum->kind == &kind_entropy_sum) lse = sum->out[1];
    if (w->b->g->tensors[o[-2].in[1]].strip && !w->b->options->scores_kept) emit_strip_recomputed(w, o - 2, o - 1);
    int dx = backward_target(w, o, scores);
    backward_emit(w, o, "_dx", DX, &kind_entropy_dx, dx, w->saved[scores], o->in[1], d);
    if (!w->b->ok) return;
    w->b->g->ops[w->b->g->n_ops - 1].in[OP_ROW_IN] = lse;
    backward_give(w, o, scores, dx);
    if (o->in[2] >= 0) backward_give(w, o, o->in[2], d);
}
