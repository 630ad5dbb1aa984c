/* Finds the cheapest assignment as a shortest path. */
#include "tune/selection.h"

#include <math.h>
#include <string.h>

enum { NODES_MOST = 1 << 22 };

size_t selection_at(const struct selection *s, const struct selection_cost *cost, const int values[])
{
    size_t at = 0;
    for (int i = 0; i < cost->n; i++) at = at * (size_t)s->values[cost->of[i]] + (size_t)values[cost->of[i]];
    return at;
}

double selection_sum(const struct selection *s, const int values[])
{
    double sum = 0;
    for (int i = 0; i < s->n_costs; i++) sum += s->costs[i].values[selection_at(s, &s->costs[i], values)];
    return sum;
}

static bool depends(const struct selection_cost *cost, int variable)
{
    for (int i = 0; i < cost->n; i++)
        if (cost->of[i] == variable) return true;
    return false;
}

/* Variables that costs before `stage` and costs from it on depend on: what a node there has values of. */
static int live_at(const struct selection *s, int stage, int live[SELECTION_VARIABLES])
{
    int n = 0;
    for (int v = 0; v < s->n_variables; v++) {
        bool before = false, after = false;
        for (int i = 0; i < s->n_costs; i++)
            if (depends(&s->costs[i], v)) *(i < stage ? &before : &after) = true;
        if (before && after) live[n++] = v;
    }
    return n;
}

/* Nodes of a stage and how one came to be: `from` is the node before, `set` what it gave the cost's variables. */
struct stage {
    int live[SELECTION_VARIABLES], n_live;
    size_t nodes;
    double *length;
    uint32_t *from, *set;
};

static size_t nodes_of(const struct selection *s, const int *live, int n)
{
    size_t nodes = 1;
    for (int i = 0; i < n && nodes <= NODES_MOST; i++) nodes *= (size_t)s->values[live[i]];
    return nodes;
}

static void values_of(const struct selection *s, const int *variables, int n, size_t at, int values[])
{
    for (int i = n - 1; i >= 0; i--) {
        values[variables[i]] = (int)(at % (size_t)s->values[variables[i]]);
        at /= (size_t)s->values[variables[i]];
    }
}

static size_t node_of(const struct selection *s, const struct stage *stage, const int values[])
{
    size_t at = 0;
    for (int i = 0; i < stage->n_live; i++)
        at = at * (size_t)s->values[stage->live[i]] + (size_t)values[stage->live[i]];
    return at;
}

static bool stage_make(const struct host *host, const struct selection *s, int number, struct stage *out,
                       struct error *e)
{
    out->n_live = live_at(s, number, out->live);
    out->nodes = nodes_of(s, out->live, out->n_live);
    if (out->nodes > NODES_MOST)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "the choice of orders has more than %d states at once", NODES_MOST);
    if (!(out->length = host_alloc(host, out->nodes, sizeof *out->length, e)) ||
        !(out->from = host_alloc(host, out->nodes, sizeof *out->from, e)) ||
        !(out->set = host_alloc(host, out->nodes, sizeof *out->set, e)))
        return false;
    for (size_t i = 0; i < out->nodes; i++) out->length[i] = INFINITY;
    return true;
}

/* All edges over one cost. Values that a node has are not set again. */
static void stage_reach(const struct selection *s, const struct selection_cost *cost, const struct stage *before,
                        struct stage *after)
{
    int values[SELECTION_VARIABLES] = {0}, fresh[SELECTION_VARIABLES], n = 0;
    for (int i = 0; i < cost->n; i++) {
        bool known = false;
        for (int k = 0; k < before->n_live; k++) known |= before->live[k] == cost->of[i];
        if (!known) fresh[n++] = cost->of[i];
    }
    size_t sets = nodes_of(s, fresh, n);
    for (size_t node = 0; node < before->nodes; node++) {
        if (isinf(before->length[node])) continue;
        values_of(s, before->live, before->n_live, node, values);
        for (size_t set = 0; set < sets; set++) {
            values_of(s, fresh, n, set, values);
            double length = before->length[node] + cost->values[selection_at(s, cost, values)];
            size_t to = node_of(s, after, values);
            if (!(length < after->length[to])) continue;
            after->length[to] = length;
            after->from[to] = (uint32_t)node;
            after->set[to] = (uint32_t)selection_at(s, cost, values);
        }
    }
}

/* Back along the path: each cost tells the values of its variables. */
static void follow(const struct selection *s, const struct stage *stages, struct selected *out)
{
    size_t node = 0;
    out->cost = stages[s->n_costs].length[0];
    for (int i = s->n_costs; i > 0 && !isinf(out->cost); i--) {
        const struct selection_cost *cost = &s->costs[i - 1];
        values_of(s, cost->of, cost->n, stages[i].set[node], out->of);
        node = stages[i].from[node];
    }
}

bool selection_solve(const struct host *host, const struct selection *s, struct selected *out, struct error *e)
{
    struct stage *stages = host_alloc(host, (size_t)s->n_costs + 1, sizeof *stages, e);
    memset(out, 0, sizeof *out);
    bool ok = stages != NULL;
    for (int i = 0; ok && i <= s->n_costs; i++) {
        ok = stage_make(host, s, i, &stages[i], e);
        if (!ok) break;
        out->states += stages[i].nodes;
        if (i)
            stage_reach(s, &s->costs[i - 1], &stages[i - 1], &stages[i]);
        else
            stages[0].length[0] = 0;
    }
    if (ok) follow(s, stages, out);
    for (int i = 0; stages && i <= s->n_costs; i++) {
        host_free(host, stages[i].length);
        host_free(host, stages[i].from);
        host_free(host, stages[i].set);
    }
    host_free(host, stages);
    return ok;
}
