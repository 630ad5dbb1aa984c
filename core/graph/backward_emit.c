/* Gradients of tensors as they come together, and operators of the backward pass. */
#include <stdio.h>
#include <string.h>

#include "graph/backward.h"

/* "layer.0.norm1" as "layer.0.d_norm1"; of weights "layer.0.w_out" as "layer.0.dw_out". */
static void gradient_name(const struct tensor *t, char name[sizeof t->name])
{
    const char *dot = t->layer >= 0 ? strchr(t->name + 6, '.') : NULL, *own = dot ? dot + 1 : t->name;
    bool weight = t->weight && own[1] == '_';
    snprintf(name, sizeof t->name, "%.*sd%s%.40s", (int)(own - t->name), t->name, weight ? "" : "_", own);
}

/* A part of a weight's gradient, to which another reader's is added: a table's that embeds words, too. */
int backward_weight_part(struct backward *w, int tensor)
{
    const struct tensor *t = &w->b->g->tensors[tensor];
    struct tensor d = {.dims = t->dims, .role = TENSOR_VALUE, .layer = t->layer, .parent = -1, .gradient_of = -1};
    char name[sizeof d.name];
    gradient_name(t, name);
    snprintf(d.name, sizeof d.name, "%.40s_part", name);
    return w->gradient[tensor] = builder_tensor(w->b, &d);
}

/* Makes the tensor that holds the whole gradient; a slice's is a slice of its owner's, which may have readers of its
 * own. */
int backward_gradient_make(struct backward *w, int tensor)
{
    struct tensor t = w->b->g->tensors[tensor], d = {.dims = t.dims,
                                                     .role = TENSOR_VALUE,
                                                     .layer = t.layer,
                                                     .parent = -1,
                                                     .slice = t.slice,
                                                     .strip = t.strip,
                                                     .pitch = t.pitch,
                                                     .gradient_of = -1};
    if (t.parent >= 0) {
        bool part = t.role == TENSOR_WEIGHT && w->readers[t.parent] > 0;
        d.parent = w->gradient[t.parent] >= 0 ? w->gradient[t.parent]
                   : part                     ? backward_weight_part(w, t.parent)
                                              : backward_gradient_make(w, t.parent);
        d.f32 = w->b->g->tensors[d.parent].f32;
    } else if (t.role == TENSOR_WEIGHT) {
        d.model_dims = t.model_dims;
        d.paired = t.paired;
        d.gradient_of = tensor;
        d.output = true;
    }
    gradient_name(&t, d.name);
    return w->gradient[tensor] = builder_tensor(w->b, &d);
}

/* The gradient that the operators after have given. */
int backward_gradient_of(struct backward *w, int tensor)
{
    int parent = w->b->g->tensors[tensor].parent;
    if (w->gradient[tensor] < 0 && parent >= 0 && w->gradient[parent] >= 0) return backward_gradient_make(w, tensor);
    return w->gradient[tensor];
}

/* A tensor like this one for a part of its gradient, by the name of what makes it. */
int backward_part_make(struct backward *w, const struct op *o, const char *suffix, int tensor)
{
    struct tensor t = {.dims = w->b->g->tensors[tensor].dims,
                       .role = TENSOR_VALUE,
                       .layer = o->layer,
                       .pitch = w->b->g->tensors[tensor].pitch,
                       .parent = -1,
                       .gradient_of = -1};
    snprintf(t.name, sizeof t.name, "%.40s%s", o->name, suffix);
    return builder_tensor(w->b, &t);
}

/* Where an operator's gradient of what it reads goes: into the whole one, where nothing else gives a part of it. */
int backward_target(struct backward *w, const struct op *o, int tensor)
{
    if (w->readers[tensor] == 1 && w->gradient[tensor] < 0) return backward_gradient_make(w, tensor);
    return backward_part_make(w, o, "_dx", tensor);
}

/* ---- operators ---- */

/* Appends an operator of the backward pass that belongs to o; unused inputs are -1. */
void backward_emit_many(struct backward *w, const struct op *o, const char *suffix, int pass,
                        const struct op_kind *kind, const int out[OP_MAX_OUT], const int in[OP_ROW_IN])
{
    struct op d = *o;
    char name[sizeof d.name];
    snprintf(name, sizeof name, "%.40s%s", o->name, suffix);
    for (char *c = name; o->layer < 0 && *c; c++)
        if (*c == '.') *c = '_';
    memcpy(d.name, name, sizeof name);
    d.kind = kind;
    d.role = o->role + (enum role)pass;
    memcpy(d.out, out, sizeof d.out);
    for (int i = 0; i < OP_MAX_IN; i++) d.in[i] = i < OP_ROW_IN ? in[i] : -1;
    d.einsum[0] = 0;
    d.paper_row = !o->row || pass > DX_FIRST ? 0 : o->row->paper[pass == DW ? 2 : 1];
    d.row = NULL;
    builder_op(w->b, &d);
}

void backward_emit(struct backward *w, const struct op *o, const char *suffix, int pass, const struct op_kind *kind,
                   int out, int in0, int in1, int in2)
{
    backward_emit_many(w, o, suffix, pass, kind, (const int[]){out, -1}, (const int[]){in0, in1, in2});
}

/* The gradient d of a tensor by way of operator o, complete or a part that is added to the others. */
void backward_give(struct backward *w, const struct op *o, int tensor, int d)
{
    int sum = w->gradient[tensor], meeting = w->residual[tensor];
    w->readers[tensor]--;
    if (sum == d) return;
    if (sum < 0) {
        w->gradient[tensor] = d;
        if (o->kind == &kind_add) w->residual[tensor] = (int)(o - w->forward);
        return;
    }
    struct op by = meeting < 0 ? *o : w->forward[meeting];
    const char *suffix = meeting < 0 ? "_add" : "_dx";
    if (meeting >= 0 && by.row && by.row->meeting) {
        snprintf(by.name, sizeof by.name, "layer.%d.%s", by.layer, by.row->meeting);
        suffix = "";
    }
    int whole = w->readers[tensor] ? backward_part_make(w, &by, suffix, tensor) : backward_gradient_make(w, tensor);
    backward_emit(w, &by, suffix, meeting < 0 ? SUM : DX, &kind_add, whole, d, sum, -1);
    w->gradient[tensor] = whole;
    w->residual[tensor] = -1;
}
