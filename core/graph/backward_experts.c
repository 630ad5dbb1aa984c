/* Gradients of mixtures of experts. */
#include <stdio.h>
#include <string.h>

#include "graph/backward.h"

static void set_einsum(struct backward *w, const char *einsum)
{
    if (w->b->ok) snprintf(w->b->g->ops[w->b->g->n_ops - 1].einsum, sizeof w->b->g->ops->einsum, "%s", einsum);
}

/* Its numbers have no gradient: which experts a token takes is what it is. */
void derive_route(struct backward *w, const struct op *o)
{
    int dx = backward_target(w, o, o->in[0]);
    backward_emit(w, o, "_dx", DX, &kind_route_dx, dx, backward_gradient_of(w, o->out[0]), w->saved[o->in[0]],
                  o->out[1]);
    backward_give(w, o, o->in[0], dx);
}

void derive_nothing(struct backward *w, const struct op *o) { (void)w, (void)o; }

/* A tensor of the operator's layer, beside it. */
static int add_beside(struct backward *w, const struct op *o, const char *name, const char *dims, bool f32)
{
    struct tensor t = {
        .dims = dims, .role = TENSOR_VALUE, .layer = o->layer, .f32 = f32, .parent = -1, .gradient_of = -1};
    snprintf(t.name, sizeof t.name, "layer.%d.%s", o->layer, name);
    return builder_tensor(w->b, &t);
}

/* The input's gradient by way of each of its experts, and their sum; the weights' of each expert's rows. Rows of the
 * first product's input are tokens', which all of their experts read. */
void derive_experts(struct backward *w, const struct op *o)
{
    bool first = o->role == EXPERTS1;
    int d = backward_gradient_of(w, o->out[0]), x = o->in[0], list = o->in[2];
    int dx = first ? add_beside(w, o, "d_experts_rows", "bjTi", false) : backward_target(w, o, x);
    backward_emit(w, o, "_dx", DX, &kind_experts, dx, d, o->in[1], list);
    set_einsum(w, first ? "bjTu,ui->bjTi" : "bjTi,ui->bjTu");
    int dw = backward_gradient_make(w, o->in[1]), saved = w->saved[x];
    backward_emit(w, o, "_dw", DW, &kind_experts_dw, dw, first ? d : saved, first ? saved : d, list);
    set_einsum(w, first ? "bjTu,bji->ui" : "bjTu,bjTi->ui");
    if (first) {
        int sum = backward_target(w, o, x);
        backward_emit(w, o, "_sum", SUM, &kind_combine, sum, dx, -1, -1);
        dx = sum;
    }
    backward_give(w, o, x, dx);
}

void derive_combine(struct backward *w, const struct op *o)
{
    int d = backward_gradient_of(w, o->out[0]), rows = w->saved[o->in[0]];
    int weights = add_beside(w, o, "d_route_weights", "bjT", true);
    backward_emit(w, o, "_dw", DW, &kind_combine_dw, weights, d, rows, -1);
    backward_give(w, o, o->in[1], weights);
    int dx = backward_target(w, o, o->in[0]);
    backward_emit(w, o, "_dx", DX, &kind_combine_dx, dx, d, o->in[1], -1);
    backward_give(w, o, o->in[0], dx);
}
