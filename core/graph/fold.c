/* Which norms can be folded into the products that read them. */
#include "graph/fold.h"

#include <string.h>

#include "graph/kinds.h"

static bool reads(const struct op *o, int tensor)
{
    for (int i = 0; i < OP_MAX_IN; i++)
        if (o->in[i] == tensor) return true;
    return false;
}

/* Of operators, and of slices, which are tensors of their own. */
static int readers(const struct graph *g, int tensor)
{
    int n = 0;
    for (int i = 0; i < g->n_ops; i++) n += reads(&g->ops[i], tensor);
    for (int t = 0; t < g->n_tensors; t++) n += g->tensors[t].parent == tensor;
    return n;
}

/* Rows of the matrix have the channels that the norm makes. */
static bool weight_folds(const struct graph *g, int tensor)
{
    const struct tensor *t = &g->tensors[tensor];
    return t->role == TENSOR_WEIGHT && t->parent < 0 && !t->f32 && !t->bf16 && !t->int8 &&
           t->dims[strlen(t->dims) - 1] == 'i' && readers(g, tensor) == 1;
}

bool norm_folds(const struct graph *g, const struct op *o)
{
    const bool norm = o->kind == &kind_layernorm || o->kind == &kind_rmsnorm;
    int products = 0;
    if (!norm || o->layer < 0 || o->in[2] >= 0 || g->n_forward != g->n_ops) return false;
    if (g->tensors[o->out[0]].output || readers(g, o->in[1]) != 1) return false;
    for (int i = 0; i < g->n_ops; i++) {
        const struct op *reader = &g->ops[i];
        if (!reads(reader, o->out[0])) continue;
        if (reader->kind != &kind_contract || reader->in[0] != o->out[0] || !weight_folds(g, reader->in[1]))
            return false;
        products++;
    }
    return products > 0 && readers(g, o->out[0]) == products;
}

void norm_fold(struct graph *g, const struct op *o)
{
    const enum weight gamma = g->tensors[o->in[1]].weight;
    g->tensors[o->in[1]].folded = gamma;
    for (int i = 0; i < g->n_ops; i++)
        if (reads(&g->ops[i], o->out[0])) g->tensors[g->ops[i].in[1]].folded = gamma;
}
