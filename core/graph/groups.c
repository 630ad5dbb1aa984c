/* Covers a graph by groups: operators that one kernel executes. */
#include <stdio.h>
#include <string.h>

#include "graph/group.h"
#include "graph/kinds.h"

static bool group_makes(const struct graph *g, const struct group *group, int owner)
{
    for (int i = 0; i < group->count; i++)
        for (int k = 0; k < OP_MAX_OUT; k++) {
            int out = g->ops[group->ops[i]].out[k];
            if (out >= 0 && tensor_owner(g, out) == owner) return true;
        }
    return false;
}

static bool group_has(const struct group *group, int op)
{
    for (int i = 0; i < group->count; i++)
        if (group->ops[i] == op) return true;
    return false;
}

static bool used_outside(const struct graph *g, const struct group *group, int tensor)
{
    int owner = tensor_owner(g, tensor);
    if (g->tensors[tensor].output || g->tensors[owner].output) return true;
    for (int o = 0; o < g->n_ops; o++) {
        if (group_has(group, o)) continue;
        for (int i = 0; i < OP_MAX_IN; i++)
            if (g->ops[o].in[i] >= 0 && tensor_owner(g, g->ops[o].in[i]) == owner) return true;
    }
    return false;
}

static void add_distinct(int *list, int *n, int tensor)
{
    for (int i = 0; i < *n; i++)
        if (list[i] == tensor) return;
    if (*n < GROUP_MAX_TENSORS) list[(*n)++] = tensor;
}

bool group_writes(const struct group *group, int tensor)
{
    for (int i = 0; i < group->n_writes; i++)
        if (group->writes[i] == tensor) return true;
    return false;
}

bool groups_read(const struct graph *g, const struct group *groups, int count, int tensor)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < groups[i].n_reads; k++)
            if (tensor_owner(g, groups[i].reads[k]) == tensor) return true;
    return false;
}

void group_complete(const struct graph *g, struct group *out)
{
    out->layer = g->ops[out->ops[0]].layer;
    out->backward = out->ops[0] >= g->n_forward;
    out->n_reads = out->n_writes = 0;
    for (int i = 0; i < out->count; i++) {
        const struct op *o = &g->ops[out->ops[i]];
        for (int k = 0; k < OP_MAX_IN; k++)
            if (o->in[k] >= 0 && !group_makes(g, out, tensor_owner(g, o->in[k])))
                add_distinct(out->reads, &out->n_reads, o->in[k]);
        for (int k = 0; k < OP_MAX_OUT; k++)
            if (o->out[k] >= 0 && used_outside(g, out, o->out[k])) add_distinct(out->writes, &out->n_writes, o->out[k]);
    }
}

const char *group_short_name(const struct group *group)
{
    const char *dot = group->layer >= 0 ? strchr(group->name + strlen("layer."), '.') : NULL;
    return dot ? dot + 1 : group->name;
}

/* Of the operators in out->ops. */
static void group_make(const struct graph *g, const struct plan_row *row, struct group *out)
{
    out->kernel = row->kernel;
    out->launch = row->launch;
    out->optional = row->optional;
    group_complete(g, out);
    if (out->layer < 0)
        snprintf(out->name, sizeof out->name, "%s", row->name);
    else
        snprintf(out->name, sizeof out->name, "layer.%d.%s", out->layer, row->name);
}

static bool of_pairs(const struct graph *g, int tensor)
{
    const char *dims = g->tensors[tensor].dims;
    return strchr(dims, 'j') && strchr(dims, 'k');
}

void group_single(const struct graph *g, int op, struct group *out)
{
    const struct op *o = &g->ops[op];
    memset(out, 0, sizeof *out);
    out->ops[0] = op;
    out->count = 1;
    out->kernel = o->kind->kernel;
    out->launch = o->kind->launch;
    if (o->kind->class_ == WHERRY_CLASS_CONTRACTION && (of_pairs(g, o->in[0]) || of_pairs(g, o->out[0]))) {
        out->kernel = "bgemm"; /* attention's products: one for each sequence and head */
        out->launch = of_pairs(g, o->out[0]) ? LAUNCH_SCORES : LAUNCH_QUERIES;
    } else if (o->kind->launch == LAUNCH_ELEMENTS && of_pairs(g, o->out[0])) {
        out->kernel = "softmax";
        out->launch = LAUNCH_SCORE_ROWS;
    }
    group_complete(g, out);
    snprintf(out->name, sizeof out->name, "%s", o->name);
    for (char *c = out->name; out->layer < 0 && *c; c++)
        if (*c == '.') *c = '_'; /* "embed.norm" */
}

int groups_forward(const struct group *groups, int count)
{
    int n = 0;
    while (n < count && !groups[n].backward) n++;
    return n;
}

/* ---- covering the graph ---- */

/* The operator that has this role in the layer, from `at` on and before `end`, -1: there is none. */
static int role_find(const struct graph *g, int role, int at, int end, int layer)
{
    for (int o = at; o < end; o++)
        if (g->ops[o].layer == layer && (int)g->ops[o].role == role) return o;
    return -1;
}

/* The layer that is met next after operator `at`; false: none is. */
static bool layer_next(const struct graph *g, int at, int end, int *layer)
{
    for (int o = at + 1; o < end; o++)
        if (g->ops[o].layer != g->ops[at].layer) return *layer = g->ops[o].layer, true;
    return false;
}

/* Whether operator o reads a tensor that operator `maker` makes. */
static bool op_reads_of(const struct graph *g, int o, int maker)
{
    for (int i = 0; i < OP_MAX_IN; i++)
        for (int k = 0; k < OP_MAX_OUT; k++) {
            int in = g->ops[o].in[i], out = g->ops[maker].out[k];
            if (in >= 0 && out >= 0 && tensor_owner(g, in) == tensor_owner(g, out)) return true;
        }
    return false;
}

/* Whether an operator outside makes a slice of this tensor. */
static bool made_outside(const struct graph *g, int tensor, const struct group *group)
{
    for (int o = 0; o < g->n_ops; o++)
        for (int k = 0; k < OP_MAX_OUT && !group_has(group, o); k++) {
            int out = g->ops[o].out[k];
            if (out >= 0 && out != tensor && tensor_owner(g, out) == tensor) return true;
        }
    return false;
}

/* Whether an operator reads a tensor of which the group makes slices, and others the rest. */
static bool reads_slices(const struct graph *g, int o, const struct group *group)
{
    for (int i = 0; i < OP_MAX_IN; i++)
        for (int m = 0; m < group->count; m++)
            for (int k = 0; k < OP_MAX_OUT; k++) {
                int in = g->ops[o].in[i], out = g->ops[group->ops[m]].out[k];
                if (in >= 0 && out >= 0 && in != out && tensor_owner(g, out) == in && made_outside(g, in, group))
                    return true;
            }
    return false;
}

/* Whether no operator outside stands between two inside, needing the one and needed by the other. */
static bool group_closed(const struct graph *g, const struct group *group)
{
    enum { MOST = 256 };
    bool waits[MOST] = {false}; /* by its distance from the first: needs one inside */
    int first = group->ops[0], last = group->ops[group->count - 1];
    if (last - first >= MOST) return false;
    for (int o = first + 1; o <= last; o++) {
        bool inside = group_has(group, o);
        for (int maker = first; maker < o; maker++) {
            bool maker_inside = group_has(group, maker);
            if (!op_reads_of(g, o, maker)) continue;
            if (inside && !maker_inside && waits[maker - first]) return false;
            if (!inside) waits[o - first] |= maker_inside || waits[maker - first];
        }
        if (inside && reads_slices(g, o, group)) return false;
    }
    return true;
}

/* Whether a row of a product has the product: where a layer lacks it (a mixture of experts has its own), what comes
 * after is another row's. */
static bool row_has_product(const struct graph *g, const struct plan_row *row, const struct group *group)
{
    bool product = strcmp(row->kernel, "gemm") && strcmp(row->kernel, "gemm_experts");
    for (int i = 0; i < group->count; i++) product |= !strcmp(g->ops[group->ops[i]].kind->kernel, row->kernel);
    return product;
}

/* Fills in the operators that the row covers, the first being `at`; false: it does not fit, or `covered` (NULL: nothing
 * is) has some. Roles that the layer lacks are passed over (no dropout, no types), but of a next layer one must be
 * there.
 */
static bool row_covers(const struct graph *g, const struct plan_row *row, int at, const bool *covered,
                       struct group *out)
{
    int layer = g->ops[at].layer, end = at < g->n_forward ? g->n_forward : g->n_ops, before = 0;
    out->count = 0;
    if (row->norm == (g->pre_layernorm ? NORM_POST : NORM_PRE)) return false;
    for (const uint16_t *role = row->roles; *role; role++) {
        if (*role == NEXT_LAYER) {
            before = out->count;
            if (!before || !layer_next(g, at, end, &layer)) return false;
            continue;
        }
        int o = out->count ? role_find(g, *role, at + 1, end, layer) : (int)g->ops[at].role == *role ? at : -1;
        if (o < 0) {
            if (!out->count && role_find(g, *role, 0, g->n_ops, layer) >= 0) return false;
            continue;
        }
        if (covered && covered[o]) return false;
        int i = out->count++; /* ascending */
        for (; i > 0 && out->ops[i - 1] > o; i--) out->ops[i] = out->ops[i - 1];
        out->ops[i] = o;
    }
    return out->count > before && row_has_product(g, row, out) && group_closed(g, out);
}

static bool filter_runs(const struct graph *g, const struct group_filter *filter, const struct group *group,
                        char *reason, size_t size)
{
    return !filter || filter->runs(g, group, reason, size, filter->user);
}

/* Whether an optional row is taken: not in a forward pass that keeps what its kernels make. */
static bool row_taken(const struct graph *g, const struct group_filter *filter, const struct group *group)
{
    char ignored[256];
    if (!group->optional) return true;
    return (group->backward || g->n_forward == g->n_ops) && filter_runs(g, filter, group, ignored, sizeof ignored);
}

/* The row that covers most of the optional rows or of the others, the first of those that cover as many; `after` a row
 * that covered `below` operators, it is not before that. *at_row: which one it is. */
static bool longest_row(const struct graph *g, const struct plan *plan, const struct group_filter *filter,
                        bool optional, int at, int below, size_t *at_row, const bool *covered, struct group *out)
{
    struct group one = {0};
    size_t after = *at_row;
    out->count = 0;
    for (size_t r = 0; r < plan->n_rows; r++) {
        if (plan->rows[r].optional != optional) continue;
        if (!row_covers(g, &plan->rows[r], at, covered, &one) || one.count <= out->count) continue;
        if (one.count > below || (one.count == below && r <= after)) continue;
        group_make(g, &plan->rows[r], &one);
        if (!row_taken(g, filter, &one)) continue;
        *out = one;
        *at_row = r;
    }
    return out->count > 0;
}

static bool row_has_role(const struct plan_row *row, enum role role)
{
    for (const uint16_t *r = row->roles; *r; r++)
        if (*r == role) return true;
    return false;
}

bool plan_runs_product(const struct graph *g, const struct plan *plan, const struct group_filter *filter, int op)
{
    char ignored[256];
    for (size_t r = 0; r < plan->n_rows; r++) {
        const struct plan_row *row = &plan->rows[r];
        if (strcmp(row->kernel, "gemm") || !row_has_role(row, g->ops[op].role)) continue;
        for (int at = 0; at <= op; at++) {
            struct group group = {0};
            bool first = g->ops[at].role == row->roles[0] && g->ops[at].layer >= g->ops[op].layer - 1;
            if (!first || !row_covers(g, row, at, NULL, &group) || !group_has(&group, op)) continue;
            group_make(g, row, &group);
            if (filter_runs(g, filter, &group, ignored, sizeof ignored)) return true;
        }
    }
    return false;
}

static void cover_with(const struct group *group, bool *covered)
{
    for (int i = 0; i < group->count; i++) covered[group->ops[i]] = true;
}

static void say_split(const struct graph *g, const struct group_filter *filter, const struct group *group,
                      const char *reason)
{
    if (group->count > 1 && filter->split) filter->split(g, group, reason, filter->user);
}

/* The group that operator `at` is in: that of the row that covers most, where the device runs it; where it does not,
 * which is said, that of the next one; the operator alone where no row is left. */
static bool group_at(const struct graph *g, const struct plan *plan, const struct group_filter *filter, int at,
                     const bool *covered, struct group *out, struct error *e)
{
    char reason[256] = "", why[256] = "";
    struct group refused = {0};
    size_t row = 0;
    bool runs = false;
    for (int below = GROUP_MAX_OPS + 1; !runs && longest_row(g, plan, filter, false, at, below, &row, covered, out);
         below = out->count) {
        if (refused.count > out->count) say_split(g, filter, &refused, why);
        runs = filter_runs(g, filter, out, reason, sizeof reason);
        if (runs || refused.count == out->count) continue;
        refused = *out;
        memcpy(why, reason, sizeof why);
    }
    if (runs) return true;
    if (refused.count) say_split(g, filter, &refused, why);
    group_single(g, at, out);
    return filter_runs(g, filter, out, reason, sizeof reason) ||
           fail(e, WHERRY_STATUS_UNSUPPORTED, "this device can't run the operator %s: %s", g->ops[at].name, reason);
}

/* Optional rows come before all others: what one takes may stand after operators that another row would take with it
 * (the gradient of a bias, after that of an activation). None is taken where nobody says what the device runs. Returns
 * their number. */
static int cover_optional(const struct graph *g, const struct plan *plan, const struct group_filter *filter,
                          bool *covered, struct group *groups)
{
    int n = 0;
    size_t row = 0;
    for (int at = 0; filter && filter->optional && at < g->n_ops; at++)
        if (!covered[at] && longest_row(g, plan, filter, true, at, GROUP_MAX_OPS + 1, &row, covered, &groups[n]))
            cover_with(&groups[n++], covered);
    return n;
}

/* By their first operators; `optional`: those groups that are there already, in that order. */
static bool cover(const struct graph *g, const struct plan *plan, const struct group_filter *filter, bool *covered,
                  const struct group *optional, int n_optional, struct group *groups, int *n, struct error *e)
{
    for (int at = 0; at < g->n_ops; at++) {
        if (n_optional && optional->ops[0] == at) {
            groups[(*n)++] = *optional++;
            n_optional--;
        }
        if (covered[at]) continue;
        TRY(group_at(g, plan, filter, at, covered, &groups[*n], e));
        cover_with(&groups[(*n)++], covered);
    }
    return true;
}

/* ---- order ---- */

static bool group_reads(const struct graph *g, const struct group *group, int owner)
{
    for (int i = 0; i < group->n_reads; i++)
        if (tensor_owner(g, group->reads[i]) == owner) return true;
    return false;
}

/* Whether `group` needs what `other` makes. */
static bool group_needs(const struct graph *g, const struct group *group, const struct group *other)
{
    for (int i = 0; i < other->n_writes; i++)
        if (group_reads(g, group, tensor_owner(g, other->writes[i]))) return true;
    return false;
}

bool groups_sort(const struct graph *g, const char *plan, struct group *groups, int count, struct error *e)
{
    for (int at = 0; at < count; at++) {
        int ready = at;
        for (bool waits = true; waits && ready < count; ready += waits) {
            waits = false;
            for (int other = at; other < count && !waits; other++)
                waits = other != ready && group_needs(g, &groups[ready], &groups[other]);
        }
        if (ready == count)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "the plan \"%s\" has groups that wait for each other, %s among them", plan, groups[at].name);
        struct group first = groups[ready];
        memmove(&groups[at + 1], &groups[at], (size_t)(ready - at) * sizeof *groups);
        groups[at] = first;
    }
    return true;
}

bool groups_create(const struct graph *g, const struct plan *plan, const struct group_filter *filter,
                   struct group **out, int *count, struct error *e)
{
    struct group *groups = host_alloc(g->host, (size_t)g->n_ops, sizeof *groups, e); /* never more than operators */
    struct group *optional = groups ? host_alloc(g->host, (size_t)g->n_ops, sizeof *optional, e) : NULL;
    bool *covered = optional ? host_alloc(g->host, (size_t)g->n_ops, sizeof *covered, e) : NULL;
    int n = 0, n_optional = covered ? cover_optional(g, plan, filter, covered, optional) : 0;
    bool ok = covered && cover(g, plan, filter, covered, optional, n_optional, groups, &n, e) &&
              groups_sort(g, plan->name, groups, n, e);
    host_free(g->host, optional);
    host_free(g->host, covered);
    if (!ok) {
        host_free(g->host, groups);
        return false;
    }
    *out = groups;
    *count = n;
    return true;
}
