/* The fusion rule of Ivanov et al. on iteration spaces, and what-if. */
#include "analysis/fusion.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "graph/kinds.h"

/* ---- iteration spaces ---- */

static void letters_add(char letters[16], const char *more)
{
    size_t n = strlen(letters);
    for (; *more && n < 15; more++)
        if (!strchr(letters, *more)) {
            letters[n++] = *more;
            letters[n] = 0;
        }
}

/* Those of `all` that `without` lacks. */
static void letters_less(const char *all, const char *without, char out[16])
{
    size_t n = 0;
    for (; *all; all++)
        if (!strchr(without, *all)) out[n++] = *all;
    out[n] = 0;
}

static bool letters_same(const char *a, const char *b) { return strlen(a) == strlen(b) && strspn(a, b) == strlen(a); }

/* Tensors and class tell: a map iterates over what it makes. A statistical normalization iterates over what it reads as
 * well; it reduces what its result lacks, or (a pooling's gradient) what its operand lacks, or, where both have the
 * same letters (softmax, layernorm), the innermost one before it comes back to every element. */
void op_space(const struct graph *g, const struct op *o, struct space *out)
{
    const char *in = g->tensors[o->in[0]].dims, *made = g->tensors[o->out[0]].dims;
    memset(out, 0, sizeof *out);
    out->contraction = *o->einsum;
    if (*o->einsum) {
        einsum_operand(o->einsum, 2, out->letters);
        letters_add(out->letters, in);
        letters_less(out->letters, made, out->reduced);
    } else if (o->kind->class_ == WHERRY_CLASS_NORMALIZATION) {
        letters_add(out->letters, in);
        letters_add(out->letters, made);
        letters_less(out->letters, made, out->reduced);
        if (!*out->reduced) letters_less(out->letters, in, out->reduced);
        if (!*out->reduced) out->reduced[0] = made[strlen(made) - 1];
    } else {
        letters_add(out->letters, made);
    }
}

/* That of its operators, which agree; otherwise that of the first of them. */
static void group_space(const struct graph *g, const struct group *group, struct space *out)
{
    op_space(g, &g->ops[group->ops[0]], out);
    for (int i = 1; i < group->count; i++) {
        struct space one;
        op_space(g, &g->ops[group->ops[i]], &one);
        out->contraction |= one.contraction;
        if (!*out->reduced) memcpy(out->reduced, one.reduced, sizeof one.reduced);
    }
}

static void space_text(const char *letters, const char *reduced, char *text, size_t size)
{
    char kept[16];
    letters_less(letters, reduced, kept);
    snprintf(text, size, "%s%s%s", kept, *reduced ? "/" : "", reduced);
}

/* ---- dependences ---- */

/* Whether reading the one tensor needs the other: the same, or a slice and its whole. */
static bool tensors_meet(const struct graph *g, int a, int b)
{
    return a == b || g->tensors[a].parent == b || g->tensors[b].parent == a;
}

static bool op_needs(const struct graph *g, int op, int maker)
{
    for (int i = 0; i < OP_MAX_IN; i++)
        for (int k = 0; k < OP_MAX_OUT; k++) {
            int in = g->ops[op].in[i], out = g->ops[maker].out[k];
            if (in >= 0 && out >= 0 && tensors_meet(g, in, out)) return true;
        }
    return false;
}

static bool find_edges(struct fusion *f, struct error *e)
{
    for (int to = 0; to < f->g->n_ops; to++)
        for (int from = 0; from < to; from++) {
            if (!op_needs(f->g, to, from)) continue;
            if (f->n_edges == f->edge_capacity) {
                int capacity = f->edge_capacity ? 2 * f->edge_capacity : 128;
                void *grown =
                    host_grow(f->g->host, f->edges, (size_t)f->n_edges, (size_t)capacity, sizeof *f->edges, e);
                if (!grown) return false;
                f->edges = grown;
                f->edge_capacity = capacity;
            }
            f->edges[f->n_edges++] = (struct fusion_edge){from, to};
        }
    return true;
}

static bool fusion_start(const struct graph *g, const struct batch_shape *batch, size_t storage, struct fusion *f,
                         struct error *e)
{
    f->g = g;
    f->batch = batch;
    f->storage = storage;
    f->group_of = host_alloc(g->host, (size_t)g->n_ops, sizeof *f->group_of, e);
    f->reached = f->group_of ? host_alloc(g->host, 2 * (size_t)g->n_ops, sizeof *f->reached, e) : NULL;
    for (int o = 0; f->group_of && o < g->n_ops; o++) f->group_of[o] = g->n_ops + o;
    return f->reached && find_edges(f, e);
}

void fusion_destroy(struct fusion *f)
{
    if (!f->g) return;
    const struct host *host = f->g->host;
    host_free(host, f->groups);
    host_free(host, f->decisions);
    host_free(host, f->edges);
    host_free(host, f->group_of);
    host_free(host, f->reached);
    memset(f, 0, sizeof *f);
}

/* An operator outside of the two (as numbered in group_of) that needs the one and is needed by the other, directly or
 * by way of more groups; -1: there is none. */
static int between(struct fusion *f, int a, int b)
{
    memset(f->reached, 0, 2 * (size_t)f->g->n_ops * sizeof *f->reached);
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < f->n_edges; i++) {
            int from = f->group_of[f->edges[i].from], to = f->group_of[f->edges[i].to];
            bool inside = from == a || from == b, target = to == a || to == b;
            if (!inside && target && f->reached[from]) return f->edges[i].from;
            if (!target && !f->reached[to] && (inside || f->reached[from])) f->reached[to] = more = true;
        }
    }
    return -1;
}

/* ---- decisions ---- */

static void group_name(const struct graph *g, struct group *group)
{
    struct text_writer name = text_begin(group->name, sizeof group->name);
    if (group->layer >= 0) text_add(&name, "layer.%d.", group->layer);
    for (int i = 0; i < group->count; i++) {
        const struct op *o = &g->ops[group->ops[i]];
        const char *dot = o->layer >= 0 && o->layer == group->layer ? strchr(o->name + 6, '.') : NULL;
        text_add(&name, "%s%s", i ? "+" : "", dot ? dot + 1 : o->name);
    }
}

/* False: it is more than a group can hold. */
static bool group_union(const struct graph *g, const struct group *a, const struct group *b, struct group *out)
{
    memset(out, 0, sizeof *out);
    if (a->count + b->count > GROUP_MAX_OPS) return false;
    for (int i = 0, k = 0; i < a->count || k < b->count;) {
        bool first = k == b->count || (i < a->count && a->ops[i] < b->ops[k]);
        out->ops[out->count++] = first ? a->ops[i++] : b->ops[k++];
    }
    group_complete(g, out);
    group_name(g, out);
    return out->n_reads < GROUP_MAX_TENSORS && out->n_writes < GROUP_MAX_TENSORS;
}

static bool holds(const struct group *group, int op)
{
    for (int i = 0; i < group->count; i++)
        if (group->ops[i] == op) return true;
    return false;
}

static wherry_fusion_pattern pattern_of(const struct fusion *f, const struct group *a, const struct group *b)
{
    for (int i = 0; i < f->n_edges; i++) {
        struct space maker, reader;
        if (!holds(a, f->edges[i].from) || !holds(b, f->edges[i].to)) continue;
        op_space(f->g, &f->g->ops[f->edges[i].from], &maker);
        op_space(f->g, &f->g->ops[f->edges[i].to], &reader);
        return *maker.reduced    ? WHERRY_FUSION_REDUCE_MAP
               : *reader.reduced ? WHERRY_FUSION_MAP_REDUCE
                                 : WHERRY_FUSION_MAP_MAP;
    }
    return WHERRY_FUSION_SIBLINGS;
}

static const char *short_name(const struct op *o)
{
    const char *dot = o->layer >= 0 ? strchr(o->name + 6, '.') : NULL;
    return dot ? dot + 1 : o->name;
}

static wherry_work work_of(const struct fusion *f, const struct group *group)
{
    wherry_work work;
    group_work(f->g, f->batch, group, f->storage, &work);
    return work;
}

/* Whether the rule makes the two groups one; `at` and `bt` are their numbers in group_of. Fills in `merged` wherever it
 * is not too large (then its count is positive). */
static void judge(struct fusion *f, const struct group *a, int at, const struct group *b, int bt, struct group *merged,
                  wherry_fusion *out)
{
    const struct graph *g = f->g;
    struct space x, y;
    bool fits = group_union(g, a, b, merged);
    int stands;
    if (!fits) merged->count = 0;
    group_space(g, a, &x);
    group_space(g, b, &y);
    memset(out, 0, sizeof *out);
    memcpy(out->first, a->name, sizeof out->first);
    memcpy(out->second, b->name, sizeof out->second);
    out->pattern = pattern_of(f, a, b);
    out->launches_saved = 1;
    out->work[0] = work_of(f, a);
    out->work[1] = work_of(f, b);
    if (fits) out->bytes_saved = out->work[0].bytes + out->work[1].bytes - work_of(f, merged).bytes;
    const char *reduced = *x.reduced ? x.reduced : y.reduced;
    bool same = letters_same(x.letters, y.letters),
         agree = !*x.reduced || !*y.reduced || letters_same(x.reduced, y.reduced);
    if (same && agree) space_text(x.letters, reduced, out->space, sizeof out->space);
    if (a->backward != b->backward)
        snprintf(out->reason, sizeof out->reason, "the loss stands between the forward and the backward pass");
    else if (x.contraction || y.contraction)
        snprintf(out->reason, sizeof out->reason, "a contraction takes in nothing but a scale");
    else if (!same)
        snprintf(out->reason, sizeof out->reason, "other spaces: %s and %s", x.letters, y.letters);
    else if (!agree)
        snprintf(out->reason, sizeof out->reason, "other reductions: over %s and over %s", x.reduced, y.reduced);
    else if (!fits)
        snprintf(out->reason, sizeof out->reason, "more than %d operators or %d tensors", GROUP_MAX_OPS,
                 GROUP_MAX_TENSORS - 1);
    else if ((stands = between(f, at, bt)) >= 0)
        snprintf(out->reason, sizeof out->reason, "%s stands between", short_name(&g->ops[stands]));
    out->accepted = !*out->reason;
}

static bool record(struct fusion *f, const wherry_fusion *decision, struct error *e)
{
    if (f->n_decisions == f->decision_capacity) {
        int capacity = f->decision_capacity ? 2 * f->decision_capacity : 64;
        void *grown =
            host_grow(f->g->host, f->decisions, (size_t)f->n_decisions, (size_t)capacity, sizeof *f->decisions, e);
        if (!grown) return false;
        f->decisions = grown;
        f->decision_capacity = capacity;
    }
    f->decisions[f->n_decisions++] = *decision;
    return true;
}

/* ---- the rule ---- */

/* Judges the operator and this group; when they become one, the group is changed. */
static bool try_group(struct fusion *f, int at, const struct group *one, bool *joined, struct error *e)
{
    struct group merged;
    wherry_fusion decision;
    judge(f, &f->groups[at], at, one, f->group_of[one->ops[0]], &merged, &decision);
    *joined = decision.accepted;
    if (decision.accepted) {
        f->groups[at] = merged;
        f->group_of[one->ops[0]] = at;
    }
    return record(f, &decision, e);
}

/* The group of this pass and space that was opened last, -1: there is none. */
static int open_group(const struct fusion *f, const struct group *one, const struct space *space)
{
    for (int i = f->n_groups - 1; i >= 0 && f->groups[i].backward == one->backward; i--) {
        struct space other;
        group_space(f->g, &f->groups[i], &other);
        if (!other.contraction && letters_same(other.letters, space->letters)) return i;
    }
    return -1;
}

/* Joins the operator to a group that feeds it, which saves most; else to the open one; else it opens its own. */
static bool walk(struct fusion *f, int op, struct error *e)
{
    struct group one;
    struct space space;
    bool joined = false;
    int tried[2 * OP_MAX_IN + 1], n_tried = 0;
    group_single(f->g, op, &one);
    group_name(f->g, &one);
    op_space(f->g, &f->g->ops[op], &space);
    for (int i = 0; i < f->n_edges && !joined; i++) {
        int at = f->group_of[f->edges[i].from];
        if (f->edges[i].to != op || f->groups[at].backward != one.backward) continue;
        if (space.contraction && *f->g->ops[f->edges[i].from].einsum) continue; /* nobody would ask */
        for (int t = 0; t < n_tried; t++)
            if (tried[t] == at) at = -1;
        if (at < 0 || n_tried == 2 * OP_MAX_IN) continue;
        tried[n_tried++] = at;
        TRY(try_group(f, at, &one, &joined, e));
    }
    int open = joined || space.contraction ? -1 : open_group(f, &one, &space);
    for (int t = 0; t < n_tried; t++)
        if (tried[t] == open) open = -1;
    if (open >= 0) TRY(try_group(f, open, &one, &joined, e));
    if (joined) return true;
    f->group_of[op] = f->n_groups;
    f->groups[f->n_groups++] = one;
    return true;
}

static void renumber(struct fusion *f)
{
    for (int i = 0; i < f->n_groups; i++)
        for (int k = 0; k < f->groups[i].count; k++) f->group_of[f->groups[i].ops[k]] = i;
}

bool fusion_derive(const struct graph *g, const struct batch_shape *batch, size_t storage, struct fusion *out,
                   struct error *e)
{
    memset(out, 0, sizeof *out);
    TRY(fusion_start(g, batch, storage, out, e));
    out->groups = host_alloc(g->host, (size_t)g->n_ops, sizeof *out->groups, e);
    if (!out->groups) return false;
    for (int o = 0; o < g->n_ops; o++) TRY(walk(out, o, e));
    TRY(groups_sort(g, "auto", out->groups, out->n_groups, e));
    renumber(out);
    return true;
}

/* ---- what if ---- */

enum { MOST_NAMES = GROUP_MAX_OPS };

/* Copies the name that begins at *text and ends before one of `ends`, and puts *text after it. */
static bool take_name(const char **text, const char *ends, char name[64], struct error *e)
{
    size_t length = strcspn(*text, ends);
    if (!length || length > 63)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "a name of an operator or group is missing or too long at \"%s\"", *text);
    memcpy(name, *text, length);
    name[length] = 0;
    *text += length;
    return true;
}

static bool is_named(const char *own, int own_layer, const char *name, int layer)
{
    if (!strcmp(own, name)) return true;
    const char *dot = own_layer >= 0 && own_layer == layer ? strchr(own + 6, '.') : NULL;
    return dot && !strcmp(dot + 1, name);
}

/* The group of this name, or the one of the operator of this name, in the layer or outside; -1: there is none. */
static int find_named(const struct fusion *f, const char *name, int layer)
{
    for (int i = 0; i < f->n_groups; i++)
        if (is_named(f->groups[i].name, f->groups[i].layer, name, layer)) return i;
    for (int o = 0; o < f->g->n_ops; o++)
        if (is_named(f->g->ops[o].name, f->g->ops[o].layer, name, layer)) return f->group_of[o];
    return -1;
}

static bool split_named(struct fusion *f, const char *name, struct error *e)
{
    int found = 0;
    for (int i = 0; i < f->n_groups; i++) {
        struct group whole = f->groups[i];
        if (!is_named(whole.name, whole.layer, name, whole.layer)) continue;
        found++;
        if (whole.count == 1)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s is one operator already: nothing to split", name);
        memmove(&f->groups[i + whole.count], &f->groups[i + 1], (size_t)(f->n_groups - i - 1) * sizeof whole);
        f->n_groups += whole.count - 1;
        for (int k = 0; k < whole.count; k++) group_single(f->g, whole.ops[k], &f->groups[i + k]);
        i += whole.count - 1;
    }
    if (!found) return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the plan has no group \"%s\" to split", name);
    renumber(f);
    return true;
}

/* Makes these groups (ascending, each once) one, the first two first. */
static bool fuse_groups(struct fusion *f, const int *which, int n, struct error *e)
{
    for (int i = 1; i < n; i++) {
        int a = which[0], b = which[i] - (i - 1); /* those between have gone already */
        struct group merged;
        wherry_fusion decision;
        judge(f, &f->groups[a], a, &f->groups[b], b, &merged, &decision);
        if (!merged.count)
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s and %s together have more than %d operators or %d tensors",
                        f->groups[a].name, f->groups[b].name, GROUP_MAX_OPS, GROUP_MAX_TENSORS - 1);
        TRY(record(f, &decision, e));
        f->groups[a] = merged;
        memmove(&f->groups[b], &f->groups[b + 1], (size_t)(f->n_groups - b - 1) * sizeof merged);
        f->n_groups--;
        renumber(f);
    }
    return true;
}

/* The groups of all names in this layer, ascending; false: one of the names is not there, and says which. */
static bool find_all(const struct fusion *f, char names[][64], int n_names, int layer, int *which, int *n,
                     const char **missing)
{
    *n = 0;
    for (int i = 0; i < n_names; i++) {
        int at = find_named(f, names[i], layer);
        if (at < 0) return *missing = names[i], false;
        int place = 0;
        while (place < *n && which[place] < at) place++;
        if (place < *n && which[place] == at) continue;
        memmove(&which[place + 1], &which[place], (size_t)(*n - place) * sizeof *which);
        which[place] = at;
        ++*n;
    }
    return true;
}

/* One sum of names, in every layer that has them. */
static bool fuse_named(struct fusion *f, const char **text, struct error *e)
{
    char names[MOST_NAMES][64];
    const char *missing = "";
    int which[MOST_NAMES], n_names = 0, n = 0, found = 0, layers = 0;
    for (;; ++*text) {
        if (n_names == MOST_NAMES)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "at most %d names can be fused", MOST_NAMES);
        TRY(take_name(text, "+,", names[n_names++], e));
        if (**text != '+') break;
    }
    for (int o = 0; o < f->g->n_ops; o++)
        if (f->g->ops[o].layer >= layers) layers = f->g->ops[o].layer + 1;
    for (int layer = -1; layer < layers; layer++) {
        if (!find_all(f, names, n_names, layer, which, &n, &missing)) continue;
        found++;
        if (n < 2)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        n_names < 2 ? "fusing takes two names: %s+..." : "these are one group already: %s",
                        f->groups[which[0]].name);
        TRY(fuse_groups(f, which, n, e));
        if (layer < 0) break;
    }
    if (!found)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the plan has no operator or group \"%s\" to fuse", missing);
    return true;
}

bool fusion_change(const struct graph *g, const struct batch_shape *batch, size_t storage, struct group *groups,
                   int count, const char *split, const char *fuse, struct fusion *out, struct error *e)
{
    memset(out, 0, sizeof *out);
    out->g = g;
    out->groups = groups;
    out->n_groups = count;
    TRY(fusion_start(g, batch, storage, out, e));
    renumber(out);
    for (const char *at = split; at; at = *at ? at + 1 : NULL) {
        char name[64];
        TRY(take_name(&at, "+,", name, e));
        TRY(split_named(out, name, e));
    }
    for (const char *at = fuse; at; at = *at ? at + 1 : NULL) TRY(fuse_named(out, &at, e));
    struct error ignored = {0}; /* what waits for itself can still be counted */
    groups_sort(g, "what if", out->groups, out->n_groups, &ignored);
    renumber(out);
    return true;
}
