/* Analysis without a device: what every operator and group computes and moves. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analysis/costs.h"
#include "analysis/fusion.h"
#include "analysis/layouts.h"
#include "base/number.h"
#include "base/text.h"
#include "graph/kinds.h"
#include "runtime/context.h"

struct wherry_analysis {
    struct wherry_context *context;
    struct graph graph;
    struct group *groups; /* `fusion`'s where there is one */
    int n_groups, n_rows;
    wherry_cost *operator_costs, *group_costs, *row_costs;
    wherry_work *group_work;
    struct fusion fusion;
    uint32_t *offsets;
    struct dims dims; /* the graph's, and those of the batch's sequences, which are equal */
    uint64_t saved_bytes;
    char *dot;
    size_t dot_length, dot_capacity;
};

/* Operators of a layer that share a row of the paper's table, as one. */
static void cost_of_rows(struct wherry_analysis *a, const struct batch_shape *b, size_t storage)
{
    const struct graph *g = &a->graph;
    for (int o = 0; o < g->n_ops; o++) {
        const struct op *first = &g->ops[o];
        struct group row = {.ops = {o}, .count = 1};
        bool seen = false;
        for (int i = 0; first->paper_row && i < g->n_ops; i++) {
            if (i == o || g->ops[i].layer != first->layer || g->ops[i].paper_row != first->paper_row) continue;
            seen |= i < o;
            if (i > o && row.count < GROUP_MAX_OPS) row.ops[row.count++] = i;
        }
        if (seen) continue;
        group_complete(g, &row);
        memcpy(row.name, first->name, sizeof first->name);
        wherry_cost *cost = &a->row_costs[a->n_rows++];
        cost_of_group(g, b, &row, storage, cost);
        for (int i = 0; i < row.count; i++) {
            const struct op *op = &g->ops[row.ops[i]];
            const char *dot = op->layer < 0 ? NULL : strchr(op->name + 6, '.');
            struct text_writer name = text_behind(cost->name, sizeof cost->name);
            if (i) text_add(&name, "+%s", dot ? dot + 1 : op->name);
            if (i && op->kind->class_ >= cost->class_) continue; /* the table gives the row the dearer class */
            cost->class_ = op->kind->class_;
            snprintf(cost->kernel, sizeof cost->kernel, "%s", op->kind->name);
        }
    }
}

/* ---- Graphviz ---- */

static bool dot_add(struct wherry_analysis *a, struct error *e, const char *format, ...) PRINTF_LIKE(3, 4);

static bool dot_add(struct wherry_analysis *a, struct error *e, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof text) n = sizeof text - 1;
    if (a->dot_length + (size_t)n + 1 > a->dot_capacity) {
        size_t capacity = 2 * a->dot_capacity + sizeof text;
        char *grown = host_grow(&a->context->host, a->dot, a->dot_length, capacity, 1, e);
        if (!grown) return false;
        a->dot = grown;
        a->dot_capacity = capacity;
    }
    memcpy(a->dot + a->dot_length, text, (size_t)n);
    a->dot[a->dot_length += (size_t)n] = 0;
    return true;
}

static bool dot_edge(struct wherry_analysis *a, const struct batch_shape *b, int op, int input, size_t storage,
                     struct error *e)
{
    const struct graph *g = &a->graph;
    const struct op *o = &g->ops[op];
    int t = o->in[input];
    if (t < 0 || g->tensors[t].role == TENSOR_WEIGHT) return true;
    int maker = tensor_maker(g, t);
    if (maker < 0) maker = tensor_maker(g, tensor_owner(g, t));
    double megabytes = (double)op_reads(g, b, o, input) * (double)tensor_element_bytes(g, t, storage) / 1e6;
    if (maker < 0)
        return dot_add(a, e, "  \"%s\" -> op%d [label=\"%s MB\"];\n", g->tensors[t].name, op,
                       NUMBER("%.3f", megabytes));
    return dot_add(a, e, "  op%d -> op%d [label=\"%s %s MB\"];\n", maker, op, g->tensors[t].name,
                   NUMBER("%.3f", megabytes));
}

static bool dot_make(struct wherry_analysis *a, const struct batch_shape *b, size_t storage, struct error *e)
{
    static const char *const shapes[] = {"triangle", "box",
                                         "ellipse"}; /* the paper's signs: contraction, statistical, element-wise */
    const struct graph *g = &a->graph;
    TRY(dot_add(a, e, "digraph encoder {\n  rankdir=TB; node [fontsize=10]; edge [fontsize=8];\n"));
    for (int i = 0; i < a->n_groups; i++) {
        const wherry_cost *c = &a->group_costs[i];
        TRY(dot_add(a, e, "  subgraph cluster_%d {\n    label=\"%s: %s MB read, %s MB written\"; style=rounded;\n", i,
                    c->name, NUMBER("%.3f", (double)c->bytes_read / 1e6),
                    NUMBER("%.3f", (double)c->bytes_written / 1e6)));
        for (int n = 0; n < a->groups[i].count; n++) {
            int o = a->groups[i].ops[n];
            TRY(dot_add(a, e, "    op%d [label=\"%s\\n%s Gflop\", shape=%s];\n", o, g->ops[o].name,
                        NUMBER("%.4g", a->operator_costs[o].flops / 1e9), shapes[g->ops[o].kind->class_]));
        }
        TRY(dot_add(a, e, "  }\n"));
    }
    for (int o = 0; o < g->n_ops; o++)
        for (int i = 0; i < OP_MAX_IN; i++) TRY(dot_edge(a, b, o, i, storage, e));
    return dot_add(a, e, "}\n");
}

/* ---- the handle ---- */

/* Those of the plan, of the rule, or of the plan with changes. */
static bool make_groups(struct wherry_analysis *a, const wherry_analysis_desc *desc, const struct plan *plan,
                        const struct batch_shape *shape, size_t storage, struct error *e)
{
    bool ok;
    if (desc->fuse && !strcmp(desc->fuse, "auto")) {
        ok = fusion_derive(&a->graph, shape, storage, &a->fusion, e);
    } else {
        TRY(groups_create(&a->graph, plan, NULL, &a->groups, &a->n_groups, e));
        if (!desc->fuse && !desc->split) return true;
        ok = fusion_change(&a->graph, shape, storage, a->groups, a->n_groups, desc->split, desc->fuse, &a->fusion, e);
    }
    a->groups = a->fusion.groups;
    a->n_groups = a->fusion.n_groups;
    return ok;
}

/* Whether the configuration has the output's head. */
static bool output_check(const wherry_analysis_desc *desc, struct error *e)
{
    static const wherry_head heads[] = {[WHERRY_OUTPUT_CLASSES] = WHERRY_HEAD_SEQUENCE,
                                        [WHERRY_OUTPUT_TOKEN_CLASSES] = WHERRY_HEAD_TOKENS,
                                        [WHERRY_OUTPUT_VOCABULARY] = WHERRY_HEAD_VOCABULARY,
                                        [WHERRY_OUTPUT_WORDS] = WHERRY_HEAD_VOCABULARY};
    if (!desc->output) return true;
    if ((unsigned)desc->output > WHERRY_OUTPUT_WORDS || !heads[desc->output] ||
        heads[desc->output] != desc->config->head)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "output %d is not of the configuration's head",
                    (int)desc->output);
    return true;
}

static bool analyze(struct wherry_analysis *a, const wherry_analysis_desc *desc, struct error *e)
{
    const struct host *host = &a->context->host;
    const wherry_training_desc *training = desc->training;
    wherry_model_config config = *desc->config;
    bool automatic = desc->fuse && !strcmp(desc->fuse, "auto");
    const char *name = desc->plan ? desc->plan : automatic ? "unfused" : "flash";
    if (desc->layer_only) config.layers = config.experts ? config.experts_every : 1; /* with a mixture */
    bool embeds = !desc->layer_only && !desc->output;
    TRY(output_check(desc, e));
    struct graph_options options = {.config = &config,
                                    .output = desc->layer_only ? WHERRY_OUTPUT_EMBEDDING : desc->output,
                                    .pool = desc->pool && embeds ? desc->pool : WHERRY_POOL_NONE,
                                    .normalize = desc->normalize && embeds,
                                    .stack = desc->layer_only,
                                    .training = training != NULL,
                                    .dropout = training ? training->dropout : 0,
                                    .qkv_parts = training ? training->qkv_products : 0,
                                    .save = training ? training->save : WHERRY_SAVE_DEFAULT,
                                    .least_layers = training ? (int)training->least_layers : 0,
                                    .flash = !strcmp(name, "flash"),
                                    .int8 = desc->weights == WHERRY_WEIGHTS_INT8};
    if (!desc->batch || !desc->length || (uint64_t)desc->batch * desc->length >= UINT32_MAX)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "a batch of %u sequences of %u tokens: both must be positive, and their product below 2^32",
                    desc->batch, desc->length);
    if (desc->dtype > WHERRY_DTYPE_F16) return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "an analysis is of f32 or f16");
    if ((unsigned)desc->weights > WHERRY_WEIGHTS_INT8 || (desc->weights && training))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "an analysis is of weights as the dtype says or, without training, of int8");
    if (automatic && desc->split)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the rule makes groups of its own: nothing is split before it");
    const struct plan *plan = plan_find(name, e);
    if (!plan) return false;
    TRY(graph_create(host, &options, &a->graph, e));
    a->offsets = host_alloc(host, (size_t)desc->batch + 1, sizeof *a->offsets, e);
    if (!a->offsets) return false;
    for (uint32_t s = 0; s <= desc->batch; s++) a->offsets[s] = s * desc->length;
    a->dims = a->graph.dims;
    a->dims.of['b'] = desc->batch;
    a->dims.of['j'] = a->dims.of['k'] = desc->length;
    uint64_t tokens = (uint64_t)desc->batch * desc->length;
    struct batch_shape shape = {desc->batch, a->offsets, tokens, tokens * desc->length, desc->length};
    size_t storage = desc->dtype == WHERRY_DTYPE_F32 ? 4 : 2;
    TRY(make_groups(a, desc, plan, &shape, storage, e));
    a->operator_costs = host_alloc(host, (size_t)a->graph.n_ops, sizeof *a->operator_costs, e);
    a->row_costs = a->operator_costs ? host_alloc(host, (size_t)a->graph.n_ops, sizeof *a->row_costs, e) : NULL;
    a->group_costs = a->row_costs ? host_alloc(host, (size_t)a->n_groups, sizeof *a->group_costs, e) : NULL;
    a->group_work = a->group_costs ? host_alloc(host, (size_t)a->n_groups, sizeof *a->group_work, e) : NULL;
    if (!a->group_work) return false;
    cost_of_rows(a, &shape, storage);
    for (int o = 0; o < a->graph.n_ops; o++) cost_of_operator(&a->graph, &shape, o, storage, &a->operator_costs[o]);
    for (int i = 0; i < a->n_groups; i++) {
        cost_of_group(&a->graph, &shape, &a->groups[i], storage, &a->group_costs[i]);
        group_work(&a->graph, &shape, &a->groups[i], storage, &a->group_work[i]);
    }
    a->saved_bytes = groups_saved_bytes(&a->graph, &shape, a->groups, a->n_groups, storage);
    return dot_make(a, &shape, storage, e);
}

wherry_status wherry_analyze(wherry_context *context, const wherry_analysis_desc *desc, wherry_analysis **out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!desc || !out || desc->struct_size != sizeof *desc || !desc->config ||
        desc->config->struct_size != sizeof *desc->config ||
        (desc->training && desc->training->struct_size != sizeof *desc->training))
        return context_invalid(context, "wherry_analyze: desc, out or desc->config is NULL, or a struct_size is wrong");
    struct wherry_analysis *a = host_alloc(&context->host, 1, sizeof *a, context_error(context));
    if (!a) return context_status(context, false);
    a->context = context;
    bool ok = analyze(a, desc, context_error(context));
    if (ok)
        *out = a;
    else
        wherry_analysis_destroy(a);
    return context_status(context, ok);
}

void wherry_analysis_destroy(wherry_analysis *analysis)
{
    if (!analysis) return;
    const struct host *host = &analysis->context->host;
    host_free(host, analysis->dot);
    host_free(host, analysis->offsets);
    host_free(host, analysis->group_work);
    host_free(host, analysis->group_costs);
    host_free(host, analysis->row_costs);
    host_free(host, analysis->operator_costs);
    if (!analysis->fusion.g) host_free(host, analysis->groups);
    fusion_destroy(&analysis->fusion);
    graph_destroy(&analysis->graph);
    host_free(host, analysis);
}

const wherry_cost *wherry_analysis_operators(const wherry_analysis *analysis, size_t *count)
{
    *count = (size_t)analysis->graph.n_ops;
    return analysis->operator_costs;
}

const wherry_cost *wherry_analysis_groups(const wherry_analysis *analysis, size_t *count)
{
    *count = (size_t)analysis->n_groups;
    return analysis->group_costs;
}

const wherry_cost *wherry_analysis_rows(const wherry_analysis *analysis, size_t *count)
{
    *count = (size_t)analysis->n_rows;
    return analysis->row_costs;
}

size_t wherry_analysis_group_of(const wherry_analysis *analysis, size_t op)
{
    for (int i = 0; i < analysis->n_groups; i++)
        for (int k = 0; k < analysis->groups[i].count; k++)
            if ((size_t)analysis->groups[i].ops[k] == op) return (size_t)i;
    return SIZE_MAX; /* there is no such operator */
}

void wherry_analysis_work(const wherry_analysis *analysis, size_t group, wherry_work *out)
{
    *out = group < (size_t)analysis->n_groups ? analysis->group_work[group] : (wherry_work){.bytes = 0};
}

const wherry_fusion *wherry_analysis_fusions(const wherry_analysis *analysis, size_t *count)
{
    *count = (size_t)analysis->fusion.n_decisions;
    return analysis->fusion.decisions;
}

uint64_t wherry_analysis_saved_bytes(const wherry_analysis *analysis) { return analysis->saved_bytes; }

const char *wherry_analysis_dot(const wherry_analysis *analysis) { return analysis->dot; }

/* ---- layouts ---- */

bool wherry_analysis_product_layouts(const wherry_analysis *analysis, size_t op, wherry_product_layouts *out)
{
    struct layout_space space;
    struct error e;
    const char *einsum = op < (size_t)analysis->graph.n_ops ? analysis->graph.ops[op].einsum : "";
    if (!*einsum || !layout_space_create(einsum, &analysis->dims, &space, &e)) return false;
    layout_space_count(&space, strchr(einsum, 'q') ? 'q' : strchr(einsum, 'r') ? 'r' : 0, out);
    return true;
}

static void describe_kernel(const struct layout_kernel *kernel, wherry_kernel_layouts *out)
{
    memset(out, 0, sizeof *out);
    struct text_writer tensors = text_begin(out->tensors, sizeof out->tensors);
    for (int t = 0; t < kernel->n_tensors; t++) text_add(&tensors, "%s%s", t ? "," : "", kernel->tensors[t]);
    memcpy(out->vector, kernel->vector, sizeof out->vector);
    memcpy(out->threads, kernel->threads, sizeof out->threads);
    out->configurations = layout_kernel_count(kernel, false);
    out->packed = layout_kernel_count(kernel, true);
}

bool wherry_analysis_kernel_layouts(const wherry_analysis *analysis, size_t group, wherry_kernel_layouts *out)
{
    struct layout_kernel kernel;
    if (group >= (size_t)analysis->n_groups) return false;
    if (!layout_kernel_of(&analysis->graph, &analysis->groups[group], &kernel)) return false;
    describe_kernel(&kernel, out);
    return true;
}

wherry_status wherry_product_layouts_count(wherry_context *context, const char *einsum, const char *letters,
                                           const uint32_t *sizes, char stack, wherry_product_layouts *out)
{
    struct layout_space space;
    struct dims dims = {{0}};
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!einsum || !letters || !sizes || !out)
        return context_invalid(context, "wherry_product_layouts_count: einsum, letters, sizes or out is NULL");
    for (size_t n = 0; letters[n]; n++) dims.of[letters[n] & 127] = sizes[n];
    if (!layout_space_create(einsum, &dims, &space, context_error(context))) return context_status(context, false);
    layout_space_count(&space, stack, out);
    return context_status(context, true);
}

wherry_status wherry_kernel_layouts_count(wherry_context *context, const char *tensors, const char *reduced,
                                          const char *only, wherry_kernel_layouts *out)
{
    struct layout_kernel kernel;
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!tensors || !reduced || !out)
        return context_invalid(context, "wherry_kernel_layouts_count: tensors, reduced or out is NULL");
    bool ok = layout_kernel_read(tensors, reduced, only, &kernel, context_error(context));
    if (ok) describe_kernel(&kernel, out);
    return context_status(context, ok);
}
