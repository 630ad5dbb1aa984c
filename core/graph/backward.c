/* The backward pass, derived: each kind of operator states its gradients once (the table at the end), and a walk
 * through the forward pass, the last operator first, makes them. */
#include <stdio.h>
#include <string.h>

#include "graph/backward.h"

_Static_assert(FORWARD_ROLES <= DX, "roles of the forward pass run into those of its gradients");

/* ---- contractions ---- */

static bool has_both(const char *letters) { return strchr(letters, 'j') && strchr(letters, 'k'); }

/* The gradient of operand `n` of o: the contraction of the result's gradient and the other operand. What has a row for
 * each pair of tokens is the first operand of a kernel. */
static void emit_product(struct backward *w, const struct op *o, const char *suffix, int pass, int n, int out, int d,
                         int other)
{
    char letters[3][16];
    for (int t = 0; t < 3; t++) einsum_operand(o->einsum, t, letters[t]);
    bool exchanged = n == 1 && has_both(letters[0]);
    backward_emit(w, o, suffix, pass, &kind_contract, out, exchanged ? other : d, exchanged ? d : other, -1);
    if (!w->b->ok) return;
    struct op *made = &w->b->g->ops[w->b->g->n_ops - 1];
    snprintf(made->einsum, sizeof made->einsum, "%.6s,%.6s->%.6s", exchanged ? letters[0] : letters[2],
             exchanged ? letters[2] : letters[1 - n], letters[n]);
}

static void emit_delta(struct backward *w, const struct op *context, int lse)
{
    struct op o = *context;
    struct tensor t = w->b->g->tensors[lse];
    snprintf(o.name, sizeof o.name, "layer.%d.delta", context->layer);
    memcpy(t.name, o.name, sizeof t.name);
    w->delta = builder_tensor(w->b, &t);
    backward_emit(w, &o, "", DELTA, &kind_delta, w->delta, backward_gradient_of(w, context->out[0]), context->out[0],
                  -1);
}

/* Where attention's weights are not kept: scores, softmax and dropout before the product `context` once more. The sum
 * over a row of weights times their gradient is that of the output times its gradient. */
static void emit_attention_recomputed(struct backward *w, const struct op *context)
{
    const struct op *softmax = context[-1].kind == &kind_dropout ? context - 2 : context - 1, *scores = softmax - 1;
    w->delta = -1;
    if (softmax->kind != &kind_softmax || softmax->out[1] < 0) return;
    emit_delta(w, context, softmax->out[1]);
    if (scores->kind == &kind_scores_bias) scores--;
    for (const struct op *o = scores; o < context && w->b->ok; o++) {
        int made = w->saved[o->out[0]] = builder_recomputed(w->b, o->out[0]);
        struct op copy = op_recomputed(o, made);
        if (o > scores) copy.in[0] = w->saved[o->in[0]];
        if (o == softmax) {
            copy.kind = &kind_softmax_recompute;
            copy.in[1] = o->out[1];
        }
        builder_op(w->b, &copy);
    }
}

/* Both operands are of this batch: attention's scores, and its context. */
static void derive_product(struct backward *w, const struct op *o)
{
    if (has_both(w->b->g->tensors[o->in[0]].dims)) emit_attention_recomputed(w, o);
    int first = backward_target(w, o, o->in[0]), d = backward_gradient_of(w, o->out[0]);
    emit_product(w, o, "_dx1", DX, 0, first, d, w->saved[o->in[1]]);
    int second = backward_target(w, o, o->in[1]);
    emit_product(w, o, "_dx2", DW, 1, second, d, w->saved[o->in[0]]);
    backward_give(w, o, o->in[0], first);
    backward_give(w, o, o->in[1], second);
}

/* The weight as the gradient of the input reads it: itself, or a copy in the other order. */
static int emit_transpose(struct backward *w, const struct op *o)
{
    struct tensor t = w->b->g->tensors[o->in[1]],
                  copy = {.role = TENSOR_VALUE, .layer = t.layer, .parent = -1, .gradient_of = -1};
    if (!(w->b->options->layout.copied & WEIGHT_BIT(t.weight))) return o->in[1];
    copy.dims = builder_weight_dims(w->b, t.weight, true);
    snprintf(copy.name, sizeof copy.name, "%.40s_copy", t.name);
    int made = builder_tensor(w->b, &copy);
    struct op by = *o;
    snprintf(by.name, sizeof by.name, "%s", t.name);
    backward_emit(w, &by, "_transpose", TRANSPOSE, &kind_transpose, made, o->in[1], -1, -1);
    return made;
}

/* Where a product's gradient of its weight goes. */
static int weight_gradient(struct backward *w, int weight)
{
    bool part = --w->readers[weight] > 0 && w->b->g->tensors[weight].parent < 0;
    return part ? backward_weight_part(w, weight) : backward_gradient_make(w, weight);
}

static void derive_bias_weights(struct backward *w, const struct op *o)
{
    int dw = backward_gradient_make(w, o->in[1]);
    backward_emit(w, o, "_dw", DW, &kind_column_sum, dw, backward_gradient_of(w, o->out[0]), -1, -1);
}

/* Products of one input with weights, whose results are slices of one tensor: from `first` to `last`, mostly the same.
 * Their gradients of the input are summed among themselves. */
static void derive_weight_products(struct backward *w, const struct op *first, const struct op *last)
{
    int x = first->in[0], sum = -1;
    for (const struct op *o = first; o <= last; o++) {
        int weight = emit_transpose(w, o);
        int part = first == last ? backward_target(w, o, x) : backward_part_make(w, o, "_dx", x),
            d = backward_gradient_of(w, o->out[0]);
        /* Of strips of the vocabulary each gives a part of its own. */
        bool strip = first == last && w->b->g->tensors[o->in[1]].strip && w->gradient[x] < 0;
        bool leads = (o < last && o == first) || (strip && w->readers[x] > 1);
        emit_product(w, o, "_dx", leads ? DX_FIRST : DX, 0, part, d, weight);
        if (o > first) {
            bool whole = o == last && w->readers[x] == last - first + 1 && w->gradient[x] < 0;
            int added = whole ? backward_gradient_make(w, x) : backward_part_make(w, o, "_add", x);
            backward_emit(w, o, "_add", SUM, &kind_add, added, part, sum, -1);
            part = added;
        }
        sum = part;
    }
    for (const struct op *o = first; o <= last; o++)
        emit_product(w, o, "_dw", DW, 1, weight_gradient(w, o->in[1]), backward_gradient_of(w, o->out[0]), w->saved[x]);
    if (w->waiting >= 0) derive_bias_weights(w, &w->forward[w->waiting]);
    w->waiting = -1;
    w->readers[x] -= (int)(last - first);
    backward_give(w, last, x, sum);
}

/* ---- the other kinds ---- */

/* The paper has some of a bias's gradients after those of the product that it is added to. */
static void derive_bias(struct backward *w, const struct op *o)
{
    const struct op *product = o - 1;
    if (o->row && product->row && product->kind == &kind_contract && product->row->paper[2] < o->row->paper[2])
        w->waiting = (int)(o - w->forward);
    else
        derive_bias_weights(w, o);
    backward_give(w, o, o->in[0], backward_gradient_of(w, o->out[0]));
}

static void derive_add(struct backward *w, const struct op *o)
{
    int d = backward_gradient_of(w, o->out[0]);
    backward_give(w, o, o->in[0], d);
    backward_give(w, o, o->in[1], d);
}

static void derive_norm(struct backward *w, const struct op *o)
{
    int d = backward_gradient_of(w, o->out[0]), x = w->saved[o->in[0]];
    int gamma = backward_gradient_make(w, o->in[1]), beta = o->in[2] < 0 ? -1 : backward_gradient_make(w, o->in[2]);
    bool rms = o->kind == &kind_rmsnorm;
    backward_emit_many(w, o, "_dw", DW, rms ? &kind_rmsnorm_dw : &kind_norm_dw, (const int[]){gamma, beta},
                       (const int[]){d, x, -1});
    int dx = backward_target(w, o, o->in[0]);
    backward_emit(w, o, "_dx", DX, rms ? &kind_rmsnorm_dx : &kind_norm_dx, dx, d, x, o->in[1]);
    backward_give(w, o, o->in[0], dx);
}

static void derive_heads_norm(struct backward *w, const struct op *o)
{
    bool wide = o->kind == &kind_wide_norm;
    int d = backward_gradient_of(w, o->out[0]), x = w->saved[o->in[0]], gamma = backward_gradient_make(w, o->in[1]);
    backward_emit_many(w, o, "_dw", DW, wide ? &kind_wide_norm_dw : &kind_heads_norm_dw,
                       (const int[]){gamma, wide ? backward_gradient_make(w, o->in[2]) : -1}, (const int[]){d, x, -1});
    int dx = backward_target(w, o, o->in[0]);
    backward_emit(w, o, "_dx", DX, wide ? &kind_wide_norm_dx : &kind_heads_norm_dx, dx, d, x, o->in[1]);
    backward_give(w, o, o->in[0], dx);
}

/* The gradient of the one input, by an operator that reads its result's gradient and up to two tensors more. */
static void derive_map(struct backward *w, const struct op *o, const struct op_kind *kind, int saved, int more)
{
    int dx = backward_target(w, o, o->in[0]);
    backward_emit(w, o, "_dx", DX, kind, dx, backward_gradient_of(w, o->out[0]), saved, more);
    backward_give(w, o, o->in[0], dx);
}

static void derive_softmax(struct backward *w, const struct op *o)
{
    derive_map(w, o, &kind_softmax_dx, w->saved[o->out[0]], w->delta);
}

/* The table's gradient: sums over a layer's scores by distance, then by rows of the table, to which those of the layers
 * after have been added. */
static void derive_scores_bias(struct backward *w, const struct op *o)
{
    int table = o->in[1], d = backward_gradient_of(w, o->out[0]), before = w->gradient[table];
    struct tensor t = {
        .dims = "bjzh", .role = TENSOR_VALUE, .layer = o->layer, .f32 = true, .parent = -1, .gradient_of = -1};
    snprintf(t.name, sizeof t.name, "layer.%d.distances", o->layer);
    int sums = builder_tensor(w->b, &t);
    backward_emit(w, o, "_sums", DELTA, &kind_distance_sums, sums, d, -1, -1);
    int whole = --w->readers[table] ? backward_part_make(w, o, "_dw", table) : backward_gradient_make(w, table);
    backward_emit(w, o, "_dw", DW, &kind_distance_dw, whole, sums, before, -1);
    w->gradient[table] = whole;
    backward_give(w, o, o->in[0], d);
}

/* Angles follow from lengths alone. */
static void derive_angles(struct backward *w, const struct op *o)
{
    (void)w;
    (void)o;
}

/* Turned back by as much: what is turned is linear in what was read. */
static void derive_rotary(struct backward *w, const struct op *o)
{
    int dx = backward_target(w, o, o->in[0]);
    backward_emit(w, o, "_dx", DX, &kind_rotary_dx, dx, backward_gradient_of(w, o->out[0]), o->in[1], o->in[2]);
    backward_give(w, o, o->in[0], dx);
}

/* A ReLU's derivative follows from what it made as well as from what it read, and the former, or what dropout made of
 * it, is kept anyway. */
static void derive_relu(struct backward *w, const struct op *o)
{
    wherry_save save = w->b->options->save;
    int made = o[1].kind == &kind_dropout ? o[1].out[0] : o->out[0];
    bool output = save == WHERRY_SAVE_DEFAULT || save == WHERRY_SAVE_LEAST;
    derive_map(w, o, &kind_relu_dx, output ? made : o->in[0], -1);
}

/* Rows of a table, number in[ids]; what they are added to has the same gradient. */
static void derive_rows(struct backward *w, const struct op *o, const struct op_kind *kind, int ids)
{
    int d = backward_gradient_of(w, o->out[0]), table = o->in[ids + 1], before = w->gradient[table];
    backward_emit(w, o, "_dw", DW, kind, backward_gradient_make(w, table), d, o->in[ids], before);
    if (ids) backward_give(w, o, o->in[0], d);
}

/* ---- the gradients of each kind ---- */

/* What an operator's gradient reads of the forward pass: nothing, what it read, what it made, or all that it read. */
enum saved { READS_NOTHING, READS_INPUT, READS_OUTPUT, READS_TARGETS };

static const struct rule {
    const struct op_kind *kind;
    /* An operator of this kind that gives the gradient of the one input; or, for kinds of another form, a function. */
    const struct op_kind *dx;
    enum saved saved;
    void (*derive)(struct backward *w, const struct op *o);
    const struct op_kind *rows; /* of embeddings: the gradient of the table, whose row numbers are input `ids` */
    int ids;
} rules[] = {
    {&kind_bias, .derive = derive_bias},
    {&kind_add, .derive = derive_add},
    {&kind_scale, .dx = &kind_scale},
    {&kind_layernorm, .derive = derive_norm},
    {&kind_rmsnorm, .derive = derive_norm},
    {&kind_softmax, .derive = derive_softmax},
    {&kind_scores_bias, .derive = derive_scores_bias},
    {&kind_relu, .derive = derive_relu},
    {&kind_gelu, .dx = &kind_gelu_dx, .saved = READS_INPUT},
    {&kind_silu, .dx = &kind_silu_dx, .saved = READS_INPUT},
    {&kind_gate, .dx = &kind_gate_dx, .saved = READS_INPUT},
    {&kind_angles, .derive = derive_angles},
    {&kind_rotary, .derive = derive_rotary},
    {&kind_heads_norm, .derive = derive_heads_norm},
    {&kind_wide_norm, .derive = derive_heads_norm},
    {&kind_gelu_tanh, .dx = &kind_gelu_tanh_dx, .saved = READS_INPUT},
    {&kind_tanh, .dx = &kind_tanh_dx, .saved = READS_OUTPUT},
    {&kind_dropout, .dx = &kind_dropout},
    {&kind_normalize, .dx = &kind_normalize_dx, .saved = READS_INPUT},
    {&kind_pool_mean, .dx = &kind_pool_mean_dx},
    {&kind_pool_cls, .dx = &kind_pool_cls_dx},
    {&kind_pool_last, .dx = &kind_pool_last_dx},
    {&kind_pool_max, .dx = &kind_pool_max_dx, .saved = READS_INPUT},
    {&kind_take, .derive = derive_take},
    {&kind_pairs, .dx = &kind_pairs_dx, .saved = READS_INPUT},
    {&kind_cross_entropy, .dx = &kind_cross_entropy_dx, .saved = READS_TARGETS},
    {&kind_squared, .dx = &kind_squared_dx, .saved = READS_TARGETS},
    {&kind_binary, .dx = &kind_binary_dx, .saved = READS_TARGETS},
    {&kind_cosent, .dx = &kind_cosent_dx, .saved = READS_TARGETS},
    {&kind_loss_sum, .derive = derive_loss_sum},
    {&kind_cosent_sum, .derive = derive_loss_sum},
    {&kind_pick, .derive = derive_pick},
    {&kind_entropy, .derive = derive_entropy},
    {&kind_entropy_sum, .derive = derive_entropy_sum},
    {&kind_route, .derive = derive_route},
    {&kind_dispatch, .derive = derive_nothing},
    {&kind_experts, .derive = derive_experts},
    {&kind_combine, .derive = derive_combine},
    {&kind_gather, .rows = &kind_scatter_word, .ids = 0},
    {&kind_gather_position, .rows = &kind_scatter_position, .ids = 1},
    {&kind_gather_type, .rows = &kind_scatter_type, .ids = 1},
};

static void derive(struct backward *w, const struct op *o)
{
    const struct rule *rule = NULL;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].kind == o->kind) rule = &rules[i];
    if (o->role == POOL && w->b->g->tensors[o->out[0]].parent >= 0)
        w->b->ok = fail(w->b->e, WHERRY_STATUS_UNSUPPORTED,
                        "%s has no backward pass: it is one of several side by side", o->name);
    else if (!rule)
        w->b->ok = fail(w->b->e, WHERRY_STATUS_UNSUPPORTED, "%s has no backward pass: no gradient of the kind %s",
                        o->name, o->kind->name);
    else if (rule->derive)
        rule->derive(w, o);
    else if (rule->rows)
        derive_rows(w, o, rule->rows, rule->ids);
    else if (rule->saved == READS_TARGETS)
        derive_loss(w, o, rule->dx);
    else
        derive_map(w, o, rule->dx,
                   rule->saved == READS_INPUT    ? w->saved[o->in[0]]
                   : rule->saved == READS_OUTPUT ? o->out[0]
                                                 : -1,
                   -1);
}

/* ---- all of it ---- */

/* The first of the products before `last` whose results are slices of the tensor that its own is a slice of. */
static int first_of_slices(const struct graph *g, const struct op *forward, int last)
{
    int parent = g->tensors[forward[last].out[0]].parent, first = last;
    while (parent >= 0 && first > 0 && forward[first - 1].kind == &kind_contract &&
           g->tensors[forward[first - 1].out[0]].parent == parent)
        first--;
    return first;
}

/* The operator that made the slope of the activation that operator `last` belongs to, or drops of; -1: none did. */
static int slope_of(const struct backward *w, int last)
{
    int activation = w->forward[last].role == ACTIVATION_DROPOUT ? last - 1 : last;
    bool there = activation > 0 && w->forward[activation].role == ACTIVATION &&
                 w->forward[activation - 1].role == ACTIVATION_SLOPE;
    return there ? activation - 1 : -1;
}

/* The activation, or the gate, and the dropout after it at once: the slopes have both. */
static void derive_slope(struct backward *w, const struct op *slope, int out)
{
    const struct op *activation = slope + 1;
    const struct op_kind *kind = activation->kind == &kind_gate ? &kind_gate_given_dx : &kind_given_dx;
    int dx = backward_target(w, activation, activation->in[0]);
    backward_emit(w, activation, "_dx", DX, kind, dx, backward_gradient_of(w, out), slope->out[0], -1);
    backward_give(w, activation, activation->in[0], dx);
}

static void derive_all(struct backward *w)
{
    const struct graph *g = w->b->g;
    for (int i = g->n_forward - 1; i >= 0 && w->b->ok; i--) {
        const struct op *o = &w->forward[i];
        int slope = slope_of(w, i);
        if (slope >= 0) {
            derive_slope(w, &w->forward[slope], o->out[0]);
            i = slope;
        } else if (o->kind != &kind_contract) {
            derive(w, o);
        } else if (g->tensors[o->in[1]].role != TENSOR_WEIGHT) {
            derive_product(w, o);
        } else {
            i = first_of_slices(g, w->forward, i);
            derive_weight_products(w, &w->forward[i], o);
        }
    }
}

static bool start(struct backward *w)
{
    struct builder *b = w->b;
    struct graph *g = b->g;
    size_t ops = (size_t)g->n_forward, tensors = (size_t)g->n_tensors;
    int *all = host_alloc(g->host, 4 * tensors, sizeof *all, b->e);
    w->gradient = all;
    w->forward = all ? host_alloc(g->host, ops, sizeof *w->forward, b->e) : NULL;
    if (!w->forward) return false;
    w->readers = all + tensors;
    w->residual = all + 2 * tensors;
    w->saved = all + 3 * tensors;
    memcpy(w->forward, g->ops, ops * sizeof *w->forward);
    for (int t = 0; t < g->n_tensors; t++) {
        w->gradient[t] = w->residual[t] = -1;
        w->saved[t] = t;
    }
    for (int o = 0; o < g->n_forward; o++)
        for (int i = 0; g->ops[o].role != ACTIVATION_SLOPE && i < OP_MAX_IN; i++)
            if (g->ops[o].in[i] >= 0) w->readers[g->ops[o].in[i]]++;
    return true;
}

void builder_backward(struct builder *b)
{
    struct graph *g = b->g;
    struct backward w = {.b = b, .delta = -1, .waiting = -1};
    if (!b->ok) return;
    b->ok = start(&w);
    if (b->ok) {
        g->out_gradient = w.gradient[g->output] = builder_named(b, "d_output",
                                                                (struct tensor){.dims = g->tensors[g->output].dims,
                                                                                .role = TENSOR_VALUE,
                                                                                .f32 = g->tensors[g->output].f32,
                                                                                .input = true});
        derive_all(&w);
    }
    if (b->ok && b->options->stack) {
        g->in_gradient = w.gradient[g->input];
        g->tensors[g->in_gradient].output = true;
    }
    host_free(g->host, w.gradient);
    host_free(g->host, w.forward);
    if (b->ok) builder_keep_least(b);
}
