/* Fusion plans: which consecutive operators one kernel executes. */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* An operator per kernel. Also what a group becomes that a device can't run whole. */
static const struct plan_row unfused[] = {
    {"word", "embed", LAUNCH_ROWS, {EMBED_WORD}},
    {"position", "embed", LAUNCH_ROWS, {EMBED_POSITION}},
    {"type", "embed", LAUNCH_ROWS, {EMBED_TYPE}},
    {"embed_norm", "layernorm", LAUNCH_ROWS, {EMBED_NORM}},
    {"qkv", "gemm", LAUNCH_TILES, {QKV}},
    {"qkv_bias", "map", LAUNCH_ELEMENTS, {QKV_BIAS}},
    {"scores", "bgemm", LAUNCH_SCORES, {SCORES}},
    {"softmax", "softmax", LAUNCH_SCORE_ROWS, {SOFTMAX}},
    {"context", "bgemm", LAUNCH_QUERIES, {CONTEXT}},
    {"out", "gemm", LAUNCH_TILES, {OUT}},
    {"out_bias", "map", LAUNCH_ELEMENTS, {OUT_BIAS}},
    {"out_dropout", "map", LAUNCH_ELEMENTS, {OUT_DROPOUT}},
    {"out_residual", "map", LAUNCH_ELEMENTS, {OUT_RESIDUAL}},
    {"norm1", "layernorm", LAUNCH_ROWS, {NORM1}},
    {"lin1", "gemm", LAUNCH_TILES, {LIN1}},
    {"lin1_bias", "map", LAUNCH_ELEMENTS, {LIN1_BIAS}},
    {"activation", "map", LAUNCH_ELEMENTS, {ACTIVATION}},
    {"activation_dropout", "map", LAUNCH_ELEMENTS, {ACTIVATION_DROPOUT}},
    {"lin2", "gemm", LAUNCH_TILES, {LIN2}},
    {"lin2_bias", "map", LAUNCH_ELEMENTS, {LIN2_BIAS}},
    {"lin2_dropout", "map", LAUNCH_ELEMENTS, {LIN2_DROPOUT}},
    {"lin2_residual", "map", LAUNCH_ELEMENTS, {LIN2_RESIDUAL}},
    {"norm2", "layernorm", LAUNCH_ROWS, {NORM2}},
    {"final_norm", "layernorm", LAUNCH_ROWS, {FINAL_NORM}},
    {"pool", "pool", LAUNCH_ROWS, {POOL}},
    {"pooler", "gemm", LAUNCH_TILES, {POOLER}},
    {"pooler_bias", "map", LAUNCH_ELEMENTS, {POOLER_BIAS}},
    {"pooler_tanh", "map", LAUNCH_ELEMENTS, {POOLER_TANH}},
    {"normalize", "pool", LAUNCH_ROWS, {NORMALIZE}},
};

/* The fused kernels of Ivanov et al. around plain products, with the scores stored. Names are theirs where they have
 * one. */
static const struct plan_row paper[] = {
    {"embed", "embed", LAUNCH_ROWS, {EMBED_WORD, EMBED_POSITION, EMBED_TYPE, EMBED_NORM}},
    {"qkv", "gemm", LAUNCH_TILES, {QKV}},
    {"aib", "map", LAUNCH_ELEMENTS, {QKV_BIAS}},
    {"qkt", "bgemm", LAUNCH_SCORES, {SCORES}},
    {"sm", "softmax", LAUNCH_SCORE_ROWS, {SOFTMAX}},
    {"gamma", "bgemm", LAUNCH_QUERIES, {CONTEXT}},
    {"out", "gemm", LAUNCH_TILES, {OUT}},
    {"bdrln1", "layernorm", LAUNCH_ROWS, {OUT_BIAS, OUT_DROPOUT, OUT_RESIDUAL, NORM1}}, /* post-LN */
    {"bdrln1", "layernorm", LAUNCH_ROWS, {OUT_BIAS, OUT_DROPOUT, OUT_RESIDUAL, NORM2}}, /* pre-LN */
    {"lin1", "gemm", LAUNCH_TILES, {LIN1}},
    {"brd", "map", LAUNCH_ELEMENTS, {LIN1_BIAS, ACTIVATION, ACTIVATION_DROPOUT}},
    {"lin2", "gemm", LAUNCH_TILES, {LIN2}},
    {"bdrln2", "layernorm", LAUNCH_ROWS, {LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL, NORM2}}, /* post-LN */
    {"bdrln2",
     "layernorm",
     LAUNCH_ROWS,
     {LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL, NORM1}}, /* pre-LN: the next layer's */
    {"bdrln2",
     "layernorm",
     LAUNCH_ROWS,
     {LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL, FINAL_NORM}},                     /* pre-LN: the last layer's */
    {"bdr2", "map", LAUNCH_ELEMENTS, {LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL}}, /* pre-LN: a layer alone */
    {"norm1", "layernorm", LAUNCH_ROWS, {NORM1}},                               /* pre-LN: the first layer's */
    {"pool", "pool", LAUNCH_ROWS, {POOL, NORMALIZE}},
    {"pool", "pool", LAUNCH_ROWS, {POOL}},
    {"pooler", "gemm", LAUNCH_TILES, {POOLER}},
    {"pooler_bt", "map", LAUNCH_ELEMENTS, {POOLER_BIAS, POOLER_TANH}},
    {"normalize", "pool", LAUNCH_ROWS, {NORMALIZE}},
};

/* Epilogues in the products, no score matrix anywhere, every row-wise chain one kernel. */
static const struct plan_row flash[] = {
    {"embed", "embed", LAUNCH_ROWS, {EMBED_WORD, EMBED_POSITION, EMBED_TYPE, EMBED_NORM}},
    {"qkv", "gemm", LAUNCH_TILES, {QKV, QKV_BIAS}},
    {"attention", "attention", LAUNCH_QUERIES, {SCORES, SOFTMAX, CONTEXT}},
    {"out", "gemm", LAUNCH_TILES, {OUT, OUT_BIAS, OUT_DROPOUT, OUT_RESIDUAL}},
    {"norm1", "layernorm", LAUNCH_ROWS, {NORM1}},
    {"lin1", "gemm", LAUNCH_TILES, {LIN1, LIN1_BIAS, ACTIVATION, ACTIVATION_DROPOUT}},
    {"lin2", "gemm", LAUNCH_TILES, {LIN2, LIN2_BIAS, LIN2_DROPOUT, LIN2_RESIDUAL}},
    {"norm2", "layernorm", LAUNCH_ROWS, {NORM2}},
    {"final_norm", "layernorm", LAUNCH_ROWS, {FINAL_NORM}},
    {"pool", "pool", LAUNCH_ROWS, {POOL, NORMALIZE}},
    {"pool", "pool", LAUNCH_ROWS, {POOL}},
    {"pooler", "gemm", LAUNCH_TILES, {POOLER, POOLER_BIAS, POOLER_TANH}},
    {"normalize", "pool", LAUNCH_ROWS, {NORMALIZE}},
};

const struct plan plans[] = {
    {"flash", flash, COUNT(flash)},
    {"paper", paper, COUNT(paper)},
    {"unfused", unfused, COUNT(unfused)},
};
const size_t plans_count = COUNT(plans);

const struct plan *plan_find(const char *name, struct error *e)
{
    for (size_t i = 0; i < plans_count; i++)
        if (!strcmp(plans[i].name, name)) return &plans[i];
    fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "unknown plan \"%.40s\": the plans are flash, paper and unfused", name);
    return NULL;
}

/* ---- covering the graph ---- */

static bool graph_has(const struct graph *g, int place)
{
    for (int i = 0; i < g->n_ops; i++)
        if ((int)g->ops[i].place == place) return true;
    return false;
}

/* Operators from `at` on that the row covers, 0: it does not fit. Places that the graph has nowhere are passed over. */
static int row_covers(const struct graph *g, const struct plan_row *row, int at)
{
    int n = 0;
    for (const uint8_t *place = row->places; *place; place++) {
        if (at + n < g->n_ops && g->ops[at + n].place == *place)
            n++;
        else if (n == 0 || graph_has(g, *place))
            return 0;
    }
    return n;
}

static const struct plan_row *longest_row(const struct graph *g, const struct plan *plan, int at, int *count)
{
    const struct plan_row *best = NULL;
    *count = 0;
    for (size_t r = 0; r < plan->n_rows; r++) {
        int n = row_covers(g, &plan->rows[r], at);
        if (n > *count) *count = n, best = &plan->rows[r];
    }
    return best;
}

static bool produced_in(const struct graph *g, const struct group *group, int tensor)
{
    for (int o = group->first; o < group->first + group->count; o++)
        if (g->ops[o].out == tensor) return true;
    return false;
}

static bool used_outside(const struct graph *g, const struct group *group, int tensor)
{
    if (g->tensors[tensor].output) return true;
    for (int o = 0; o < g->n_ops; o++) {
        if (o >= group->first && o < group->first + group->count) continue;
        for (int i = 0; i < OP_MAX_IN; i++)
            if (g->ops[o].in[i] >= 0 && tensor_owner(g, g->ops[o].in[i]) == tensor) return true;
    }
    return false;
}

static void add_distinct(int *list, int *n, int tensor)
{
    for (int i = 0; i < *n; i++)
        if (list[i] == tensor) return;
    if (*n < GROUP_MAX_TENSORS) list[(*n)++] = tensor;
}

static void group_make(const struct graph *g, const struct plan_row *row, int first, int count, struct group *out)
{
    memset(out, 0, sizeof *out);
    out->row = row;
    out->first = first;
    out->count = count;
    out->layer = g->ops[first].layer;
    if (out->layer < 0)
        snprintf(out->name, sizeof out->name, "%s", row->name);
    else
        snprintf(out->name, sizeof out->name, "layer.%d.%s", out->layer, row->name);
    for (int o = first; o < first + count; o++) {
        for (int i = 0; i < OP_MAX_IN; i++) {
            int t = g->ops[o].in[i];
            if (t >= 0 && !produced_in(g, out, tensor_owner(g, t))) add_distinct(out->reads, &out->n_reads, t);
        }
        if (used_outside(g, out, g->ops[o].out)) add_distinct(out->writes, &out->n_writes, g->ops[o].out);
    }
}

static bool filter_runs(const struct graph *g, const struct group_filter *filter, const struct group *group,
                        char *reason, size_t size)
{
    return !filter || filter->runs(g, group, reason, size, filter->user);
}

bool groups_create(const struct graph *g, const struct plan *plan, const struct group_filter *filter,
                   struct group **out, int *count, struct error *e)
{
    const struct plan single = {"unfused", unfused, COUNT(unfused)};
    struct group *groups = host_alloc(g->host, (size_t)g->n_ops, sizeof *groups, e); /* never more than operators */
    if (!groups) return false;
    int n = 0;
    for (int at = 0; at < g->n_ops;) {
        int covered;
        char reason[256] = "";
        const struct plan_row *row = longest_row(g, plan, at, &covered);
        if (!row) {
            fail(e, WHERRY_STATUS_UNSUPPORTED, "the plan \"%s\" has no kernel for the operator %s", plan->name,
                 g->ops[at].name);
            break;
        }
        group_make(g, row, at, covered, &groups[n]);
        if (filter_runs(g, filter, &groups[n], reason, sizeof reason)) {
            n++;
            at += covered;
            continue;
        }
        if (covered > 1 && filter->split) filter->split(g, &groups[n], reason, filter->user);
        int end = at + covered;
        while (at < end) { /* each operator alone */
            int one;
            row = longest_row(g, &single, at, &one);
            group_make(g, row, at, 1, &groups[n]);
            if (!filter_runs(g, filter, &groups[n], reason, sizeof reason)) {
                fail(e, WHERRY_STATUS_UNSUPPORTED, "this device can't run the operator %s: %s", g->ops[at].name,
                     reason);
                break;
            }
            n++;
            at++;
        }
        if (at < end) break;
    }
    bool complete = n > 0 && groups[n - 1].first + groups[n - 1].count == g->n_ops;
    if (!complete) {
        host_free(g->host, groups);
        return false;
    }
    *out = groups;
    *count = n;
    return true;
}
