/* What the backward pass recomputes instead of reading what the forward pass made, of layers that keep the least. */
#include <string.h>

#include "graph/builder.h"

/* The first operator of the backward pass that reads the tensor or a slice of it, -1: none does. */
static int first_reader(const struct graph *g, int tensor)
{
    for (int o = g->n_forward; o < g->n_ops; o++)
        for (int i = 0; i < OP_MAX_IN; i++)
            if (g->ops[o].in[i] >= 0 && tensor_owner(g, g->ops[o].in[i]) == tensor) return o;
    return -1;
}

static int maker_of(const struct graph *g, int tensor)
{
    for (int o = 0; o < g->n_forward; o++)
        if (g->ops[o].out[0] == tensor || g->ops[o].out[1] == tensor) return o;
    return -1;
}

/* Whether the tensor follows, row by row, from others that the backward pass has anyway. */
static bool follows(const struct graph *g, int tensor)
{
    int maker = maker_of(g, tensor);
    if (maker < 0 || !g->ops[maker].kind->recomputable) return false;
    if (g->ops[maker].role == FINAL_NORM) return false; /* no plan has a row for it: one layernorm of all */
    for (int i = 0; i < OP_MAX_IN; i++) {
        int in = g->ops[maker].in[i];
        if (in < 0 || g->tensors[in].role != TENSOR_VALUE || first_reader(g, in) >= 0) continue;
        if (!follows(g, in)) return false;
    }
    return true;
}

static void insert_op(struct builder *b, int at, const struct op *o)
{
    struct graph *g = b->g;
    builder_op(b, o);
    if (!b->ok) return;
    memmove(&g->ops[at + 1], &g->ops[at], (size_t)(g->n_ops - 1 - at) * sizeof *o);
    g->ops[at] = *o;
}

/* Inserts the operators that recompute the tensor before operator *at, which they push after; returns the copy. */
static int recompute(struct builder *b, int tensor, int *at)
{
    struct op o = b->g->ops[maker_of(b->g, tensor)];
    for (int i = 0; i < OP_MAX_IN && b->ok; i++) {
        int in = o.in[i];
        if (in >= 0 && b->g->tensors[in].role == TENSOR_VALUE && first_reader(b->g, in) < 0)
            o.in[i] = recompute(b, in, at);
    }
    int copy = builder_recomputed(b, tensor);
    o = op_recomputed(&o, copy);
    insert_op(b, *at, &o);
    ++*at;
    return copy;
}

static bool keeps_least(const struct graph_options *options, const struct op *o)
{
    return options->save == WHERRY_SAVE_LEAST || (o->layer >= 0 && o->layer < options->least_layers);
}

/* The last made first, so that what it follows from is still counted as kept. */
void builder_keep_least(struct builder *b)
{
    struct graph *g = b->g;
    for (int o = g->n_forward - 1; o >= 0 && b->ok; o--) {
        if (!keeps_least(b->options, &g->ops[o])) continue;
        int tensor = g->ops[o].out[0], at = first_reader(g, tensor);
        if (at < 0 || g->tensors[tensor].output || !follows(g, tensor)) continue;
        int copy = recompute(b, tensor, &at);
        for (int reader = at; reader < g->n_ops; reader++)
            for (int i = 0; i < OP_MAX_IN; i++)
                if (g->ops[reader].in[i] == tensor) g->ops[reader].in[i] = copy;
    }
}
