/* Which norms can be folded into the products that read them, and their two operators. */
#include "graph/fold.h"

#include <stdio.h>
#include <string.h>

#include "graph/kinds.h"
#include "interface/interface.h"

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

/* The operator that reads what this one makes, NULL: there is none, or there are several. */
static struct op *reader_of(const struct graph *g, const struct op *o)
{
    struct op *only = NULL;
    for (int i = 0; i < g->n_ops; i++)
        if (reads(&g->ops[i], o->out[0])) only = &g->ops[i];
    return readers(g, o->out[0]) == 1 ? only : NULL;
}

bool norm_folds(const struct graph *g, const struct op *o)
{
    const bool norm = o->kind == &kind_layernorm || o->kind == &kind_rmsnorm;
    const bool placed = o->role == NORM1 || o->role == NORM2;
    if (!norm || !placed || o->in[2] >= 0 || g->n_forward != g->n_ops || g->dims.of['i'] % MOMENTS_STRIP) return false;
    if (g->tensors[o->out[0]].output || readers(g, o->in[1]) != 1) return false;
    const struct op *reader = reader_of(g, o);
    return reader && reader->kind == &kind_contract && reader->in[0] == o->out[0] && weight_folds(g, reader->in[1]);
}

/* ---- two operators ---- */

/* Operator `at` becomes two, of which the first makes the moments: `moments` is their tensor. */
static void split(struct graph *g, int at, int moments)
{
    struct op norm = g->ops[at];
    const enum weight gamma = g->tensors[norm.in[1]].weight;
    struct op before = {.kind = &kind_moments,
                        .role = norm.role == NORM1 ? NORM1_MOMENTS : NORM2_MOMENTS,
                        .layer = norm.layer,
                        .out = {moments, -1},
                        .in = {norm.in[0], -1, -1, -1},
                        .norm = norm.norm};
    struct tensor t = {.dims = norm.norm ? "bjM" : "bjMz",
                       .role = TENSOR_VALUE,
                       .layer = norm.layer,
                       .f32 = true,
                       .parent = -1,
                       .gradient_of = -1};
    snprintf(before.name, sizeof before.name, "%.38s_moments", norm.name);
    snprintf(t.name, sizeof t.name, "%.38s_moments", norm.name);
    norm.kind = &kind_moments_norm;
    norm.in[2] = moments;
    memmove(&g->ops[at + 1], &g->ops[at], (size_t)(g->n_ops - at) * sizeof norm);
    g->n_forward = ++g->n_ops;
    g->ops[at] = before;
    g->ops[at + 1] = norm;
    g->tensors[moments] = t;
    g->tensors[norm.in[1]].folded = g->tensors[reader_of(g, &norm)->in[1]].folded = gamma;
}

static void join(struct graph *g, int at)
{
    struct op *norm = &g->ops[at + 1];
    g->tensors[norm->in[1]].folded = g->tensors[reader_of(g, norm)->in[1]].folded = WEIGHT_NONE;
    norm->kind = norm->norm ? &kind_rmsnorm : &kind_layernorm;
    norm->in[2] = -1;
    memmove(&g->ops[at], norm, (size_t)(g->n_ops - at - 1) * sizeof *norm);
    g->n_forward = --g->n_ops;
}

static void join_all(struct graph *g)
{
    for (int i = 0; i < g->n_ops; i++) {
        if (g->ops[i].kind != &kind_moments) continue;
        join(g, i);
        g->n_tensors--; /* one of the last */
    }
}

/* Of the norms that fold, in their order, all or those that are `chosen`: the order in which the moments' tensors are
 * added to the end. There is room. */
static void split_all(struct graph *g, const bool *chosen)
{
    for (int i = 0, n = 0; i < g->n_ops; i++) {
        if (!norm_folds(g, &g->ops[i])) continue;
        if (!chosen || chosen[n]) split(g, i++, g->n_tensors++);
        n++;
    }
}

/* With room for as many operators and tensors more. */
static bool grow(struct graph *g, int more, struct error *e)
{
    void *ops = host_grow(g->host, g->ops, (size_t)g->n_ops, (size_t)(g->n_ops + more), sizeof *g->ops, e);
    if (ops) g->ops = ops;
    void *tensors =
        ops ? host_grow(g->host, g->tensors, (size_t)g->n_tensors, (size_t)(g->n_tensors + more), sizeof *g->tensors, e)
            : NULL;
    if (tensors) g->tensors = tensors;
    return tensors != NULL;
}

bool norms_split(struct graph *g, const struct plan *plan, const struct group_filter *filter, struct error *e)
{
    int folding = 0, n = 0;
    join_all(g);
    for (int i = 0; i < g->n_ops && filter; i++) folding += norm_folds(g, &g->ops[i]);
    if (!folding) return true;
    bool *chosen = grow(g, folding, e) ? host_alloc(g->host, (size_t)folding, sizeof *chosen, e) : NULL;
    if (!chosen) return false;
    g->dims.of['M'] = g->dims.of['i'] / MOMENTS_STRIP;
    split_all(g, NULL);
    for (int i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == &kind_moments)
            chosen[n++] = plan_runs_product(g, plan, filter, i) && plan_runs_product(g, plan, filter, i + 1);
    join_all(g);
    split_all(g, chosen);
    host_free(g->host, chosen);
    return true;
}
