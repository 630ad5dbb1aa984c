/* Finds what there is to choose: which combinations of orders sessions can have, what each of them runs, and on which
 * tensors' orders each operator depends. All of it comes from planned sessions, so that a kernel that takes another
 * order, or refuses one, is known here by that alone. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/costs.h"
#include "plan/traffic.h"
#include "tune/layout_search.h"

enum { NAMED_TEXT = SELECTION_VARIABLES * (2 * ORDER_TEXT + 2) };

/* ---- sessions ---- */

bool space_session(const struct space *s, const char *layouts, bool tuned, bool keep, struct wherry_session **out,
                   struct error *e)
{
    wherry_session_desc desc = s->desc;
    desc.layouts = layouts;
    desc.tuning = tuned ? NULL : "";
    desc.keep_intermediates = keep;
    if (!wherry_session_create(s->context, s->device, s->model, &desc, out)) return true;
    *e = *context_error(s->context);
    return false;
}

/* ---- units ---- */

void space_kernels(const struct wherry_session *session, int group, char text[128])
{
    char variant[64];
    struct text_writer t = text_begin(text, 128);
    for (int i = 0; i < session->n_calls; i++) {
        if (session->call_groups[i] != group) continue;
        call_variant(&session->calls[i], variant);
        text_add(&t, "%s%s %s", t.used ? ", " : "", session->calls[i].kernel, variant);
    }
}

/* The works tell what is computed, the table's kernels with all of their constants how. */
static bool unit_of(struct wherry_session *session, int group, struct unit *out, struct error *e)
{
    char works[GROUP_MAX_CALLS][WORK_TEXT], memory[GROUP_MAX_CALLS * (WORK_TEXT + CALL_TEXT)];
    struct text_writer text = text_begin(memory, sizeof memory);
    int n;
    *out = (struct unit){.where = -1};
    TRY(tune_group_works(session, group, works, &n, e));
    out->work = tuning_hash(works[0]);
    snprintf(out->group, sizeof out->group, "%s", group_short_name(&session->groups[group]));
    for (int i = 0; i < n; i++) text_add(&text, "%s|", works[i]);
    for (int i = 0; i < session->n_calls; i++)
        if (session->call_groups[i] == group) call_text(&session->calls[i], &text);
    if (text.cut) return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: its kernels' constants do not fit a key", out->group);
    out->key = tuning_hash(memory);
    space_kernels(session, group, out->kernels[0]);
    return true;
}

static int unit_find(const struct space *s, uint64_t key)
{
    for (int i = 0; i < s->n_units; i++)
        if (s->units[i].key == key) return i;
    return -1;
}

int space_unit(const struct space *s, struct wherry_session *session, int group, struct error *e)
{
    struct unit unit;
    return unit_of(session, group, &unit, e) ? unit_find(s, unit.key) : -1;
}

static bool unit_add(struct space *s, const struct unit *unit, int *index, struct error *e)
{
    *index = unit_find(s, unit->key);
    if (*index >= 0) return true;
    void *grown =
        host_grow(&s->context->host, s->units, (size_t)s->n_units, (size_t)s->n_units + 1, sizeof *s->units, e);
    if (!grown) return false;
    s->units = grown;
    s->units[ *index = s->n_units++] = *unit;
    return true;
}

/* ---- what each assignment runs ---- */

/* One group of an assignment, while operators are not known yet. */
struct seen_group {
    char name[sizeof((struct group *)0)->name]; /* without its layer */
    int unit;
    wherry_class class_;
    bool backward;
    uint16_t roles[GROUP_MAX_OPS];
    int n_places;
};

struct seen {
    struct seen_group *groups;
    int n;
};

struct discovery {
    struct space *space;
    struct seen *seen;         /* [assignments] */
    uint16_t with[ROLE_COUNT]; /* union-find of roles that groups have together */
};

static int role_root(const struct discovery *d, int role)
{
    while (d->with[role] != role) role = d->with[role];
    return role;
}

static bool see_group(struct discovery *d, struct wherry_session *session, int group, struct seen_group *out,
                      struct error *e)
{
    const struct group *g = &session->groups[group];
    struct unit unit;
    wherry_cost cost;
    cost_of_group(&session->graph, &session->limits, g, session_storage(session), &cost);
    *out = (struct seen_group){.n_places = g->count, .class_ = cost.class_, .backward = g->backward};
    snprintf(out->name, sizeof out->name, "%s", group_short_name(g));
    TRY(unit_of(session, group, &unit, e) && unit_add(d->space, &unit, &out->unit, e));
    for (int i = 0; i < g->count; i++) {
        out->roles[i] = (uint16_t)session->graph.ops[g->ops[i]].role;
        d->with[role_root(d, out->roles[i])] = (uint16_t)role_root(d, out->roles[0]);
    }
    return true;
}

static bool see_session(struct discovery *d, struct wherry_session *session, struct seen *out, struct error *e)
{
    out->groups = host_alloc(&d->space->context->host, (size_t)session->n_groups, sizeof *out->groups, e);
    if (!out->groups) return false;
    for (out->n = 0; out->n < session->n_groups; out->n++) TRY(see_group(d, session, out->n, &out->groups[out->n], e));
    return true;
}

/* ---- combinations ---- */

/* All of them by name: what is not named follows others. */
static void layouts_text(const struct space *s, const int *values, char text[NAMED_TEXT])
{
    struct text_writer t = text_begin(text, NAMED_TEXT);
    for (int v = 0; v < s->n_tensors; v++)
        text_add(&t, "%s%s=%s", v ? "," : "", s->tensors[v].name, s->tensors[v].orders[values[v]]);
}

/* The next combination, the last tensor's order fastest. */
static bool next_values(const struct space *s, int *values)
{
    for (int v = s->n_tensors - 1; v >= 0; v--) {
        if (++values[v] < (int)s->tensors[v].count) return true;
        values[v] = 0;
    }
    return false;
}

/* Errors that say that no session has such orders. */
static bool impossible(const struct error *e)
{
    return e->status == WHERRY_STATUS_INVALID_ARGUMENT || e->status == WHERRY_STATUS_UNSUPPORTED;
}

static bool try_values(struct discovery *d, const int *values, struct error *e)
{
    struct space *s = d->space;
    const struct host *host = &s->context->host;
    struct wherry_session *session = NULL;
    struct assignment found = {.cover = false};
    char text[NAMED_TEXT];
    layouts_text(s, values, text);
    if (!space_session(s, text, false, false, &session, e)) return impossible(e) && s->n_assignments;
    memcpy(found.values, values, sizeof found.values);
    orders_text(&session->layout, found.layouts);
    size_t n = s->n_assignments;
    void *grown = host_grow(host, s->assignments, n, n + 1, sizeof *s->assignments, e);
    if (grown) s->assignments = grown;
    void *seen = grown ? host_grow(host, d->seen, n, n + 1, sizeof *d->seen, e) : NULL;
    bool ok = seen != NULL;
    if (ok) {
        d->seen = seen;
        s->assignments[n] = found;
        s->n_assignments++;
        if (!n) snprintf(s->kind, sizeof s->kind, "%s", session->kind);
        ok = see_session(d, session, &d->seen[n], e);
    }
    wherry_session_destroy(session);
    return ok;
}

double space_elements(const struct wherry_session *session, const char *name)
{
    double elements = 0;
    for (int t = 0; t < session->graph.n_tensors; t++) {
        const char *own = session->graph.tensors[t].name, *dot = strrchr(own, '.');
        if (!strcmp(dot ? dot + 1 : own, name))
            elements += (double)tensor_elements(&session->graph, &session->limits, t);
    }
    return elements;
}

/* Those whose order can be chosen and that there are: no w_pooler without a pooler. */
static bool find_tensors(struct space *s, struct error *e)
{
    char name[ORDER_TEXT], orders[ORDERS_MOST][ORDER_TEXT];
    struct wherry_session *session = NULL;
    int n;
    TRY(space_session(s, "", false, false, &session, e));
    for (size_t i = 0; (n = orders_of(i, name, orders)) && s->n_tensors < SELECTION_VARIABLES; i++) {
        if (!(space_elements(session, name) > 0)) continue;
        wherry_layout_tensor *tensor = &s->tensors[s->n_tensors++];
        snprintf(tensor->name, sizeof tensor->name, "%s", name);
        for (int k = 0; k < n; k++) snprintf(tensor->orders[tensor->count++], ORDER_TEXT, "%s", orders[k]);
    }
    wherry_session_destroy(session);
    return true;
}

/* ---- operators ---- */

static void form_add(struct form *form, int unit)
{
    int at = 0;
    while (at < form->n && form->of[at].unit < unit) at++;
    if (at < form->n && form->of[at].unit == unit) {
        form->of[at].count++;
        return;
    }
    if (form->n == LAYOUT_SEARCH_UNITS) return;
    memmove(&form->of[at + 1], &form->of[at], (size_t)(form->n - at) * sizeof *form->of);
    form->of[at].unit = unit;
    form->of[at].count = 1;
    form->n++;
}

static bool form_same(const struct form *a, const struct form *b)
{
    return a->n == b->n && !memcmp(a->of, b->of, (size_t)a->n * sizeof *a->of);
}

static void name_add(char name[96], const char *group)
{
    struct text_writer t = text_behind(name, 96);
    size_t n = strlen(group);
    for (const char *at = strstr(name, group); at; at = strstr(at + 1, group))
        if ((at == name || at[-1] == '+') && (!at[n] || at[n] == '+')) return;
    text_add(&t, "%s%s", t.used ? "+" : "", group);
}

/* The operator of these roles; one that is new goes after `after`, the operator before it in the step. */
static int operator_at(struct space *s, int root, int after)
{
    int o = 0;
    while (o < s->n_operators && s->operators[o].root != root) o++;
    if (o < s->n_operators || s->n_operators == LAYOUT_SEARCH_OPERATORS) return o;
    memmove(&s->operators[after + 2], &s->operators[after + 1],
            (size_t)(s->n_operators - after - 1) * sizeof *s->operators);
    s->operators[after + 1] = (struct operator_forms){.root = root};
    s->n_operators++;
    return after + 1;
}

/* In the order of the step with the model's orders, and what other orders have besides where they have it. */
static bool find_operators(struct discovery *d, struct error *e)
{
    struct space *s = d->space;
    s->operators = host_alloc(&s->context->host, LAYOUT_SEARCH_OPERATORS, sizeof *s->operators, e);
    if (!s->operators) return false;
    for (size_t a = 0; a < s->n_assignments; a++)
        for (int i = 0, after = -1; i < d->seen[a].n; i++) {
            const struct seen_group *g = &d->seen[a].groups[i];
            int o = operator_at(s, role_root(d, g->roles[0]), after);
            if (o == LAYOUT_SEARCH_OPERATORS)
                return fail(e, WHERRY_STATUS_UNSUPPORTED, "the plan has more than %d operators", o);
            struct operator_forms *op = &s->operators[o];
            if (!*op->name) {
                op->class_ = g->class_;
                op->backward = g->backward;
            }
            if (!a || !op->usual) name_add(op->name, g->name);
            op->usual |= !a;
            after = o;
        }
    for (size_t a = 0; a < s->n_assignments; a++)
        for (int o = 0; o < s->n_operators; o++) {
            struct operator_forms *op = &s->operators[o];
            struct form form = {.n = 0};
            int f = 0;
            for (int i = 0; i < d->seen[a].n; i++)
                if (role_root(d, d->seen[a].groups[i].roles[0]) == op->root) form_add(&form, d->seen[a].groups[i].unit);
            while (f < op->n_forms && !form_same(&op->forms[f], &form)) f++;
            if (f == LAYOUT_SEARCH_FORMS || form.n == LAYOUT_SEARCH_UNITS)
                return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s has more forms than can be compared", op->name);
            if (f == op->n_forms) op->forms[op->n_forms++] = form;
            s->assignments[a].form[o] = (short)f;
        }
    return true;
}

/* Whether assignments that agree in these tensors always have the same form; else *other is a tensor that two of them
 * differ in. */
static bool tells_form(const struct space *s, int op, const struct operator_forms *o, int *other)
{
    for (size_t a = 0; a < s->n_assignments; a++)
        for (size_t b = 0; b < a; b++) {
            const struct assignment *one = &s->assignments[a], *two = &s->assignments[b];
            bool alike = true;
            if (one->form[op] == two->form[op]) continue;
            for (int i = 0; i < o->n_tensors; i++) alike &= one->values[o->tensors[i]] == two->values[o->tensors[i]];
            if (!alike) continue;
            for (*other = 0; one->values[*other] == two->values[*other];) ++*other;
            return false;
        }
    return true;
}

/* Whether two assignments that differ in this tensor alone have different forms. */
static bool depends_on(const struct space *s, int op, int tensor)
{
    for (size_t a = 0; a < s->n_assignments; a++)
        for (size_t b = 0; b < a; b++) {
            const struct assignment *one = &s->assignments[a], *two = &s->assignments[b];
            bool alone = one->form[op] != two->form[op];
            for (int v = 0; v < s->n_tensors && alone; v++)
                alone = v == tensor ? one->values[v] != two->values[v] : one->values[v] == two->values[v];
            if (alone) return true;
        }
    return false;
}

static bool find_dependences(struct space *s, int op, struct error *e)
{
    struct operator_forms *o = &s->operators[op];
    int other;
    for (int v = 0; v < s->n_tensors; v++)
        if (depends_on(s, op, v)) o->tensors[o->n_tensors++] = v;
    while (!tells_form(s, op, o, &other)) o->tensors[o->n_tensors++] = other;
    o->points = 1;
    for (int i = 0; i < o->n_tensors; i++) o->points *= s->tensors[o->tensors[i]].count;
    if (!(o->at = host_alloc(&s->context->host, o->points, sizeof *o->at, e))) return false;
    for (size_t i = 0; i < o->points; i++) o->at[i] = -1;
    for (size_t a = 0; a < s->n_assignments; a++) {
        size_t point = 0;
        for (int i = 0; i < o->n_tensors; i++)
            point = point * s->tensors[o->tensors[i]].count + (size_t)s->assignments[a].values[o->tensors[i]];
        o->at[point] = s->assignments[a].form[op];
    }
    return true;
}

/* ---- which assignments are measured ---- */

static int changes(const struct space *s, const struct assignment *a)
{
    int n = 0;
    for (int v = 0; v < s->n_tensors; v++) n += a->values[v] != 0;
    return n;
}

/* As few as have all units, those with fewer orders of their own first. */
static void find_cover(struct space *s, const struct seen *seen)
{
    for (int next = 0; next >= 0;) {
        struct assignment *of = &s->assignments[next];
        of->cover = true;
        for (int i = 0; i < seen[next].n; i++) {
            struct unit *unit = &s->units[seen[next].groups[i].unit];
            if (unit->where < 0) unit->where = next;
        }
        int most = 0;
        next = -1;
        for (size_t a = 0; a < s->n_assignments; a++) {
            int fresh = 0;
            for (int u = 0; u < s->n_units; u++) {
                bool has = false;
                for (int i = 0; i < seen[a].n && !has; i++) has = seen[a].groups[i].unit == u;
                fresh += has && s->units[u].where < 0;
            }
            if (fresh < most || !fresh) continue;
            if (fresh == most && changes(s, &s->assignments[a]) >= changes(s, &s->assignments[next])) continue;
            most = fresh;
            next = (int)a;
        }
    }
}

/* ---- the space ---- */

static bool discover(struct discovery *d, struct error *e)
{
    struct space *s = d->space;
    int values[SELECTION_VARIABLES] = {0};
    for (int i = 0; i < ROLE_COUNT; i++) d->with[i] = (uint16_t)i;
    TRY(find_tensors(s, e));
    s->combinations = 1;
    for (int v = 0; v < s->n_tensors; v++) s->combinations *= s->tensors[v].count;
    do {
        TRY(try_values(d, values, e));
    } while (next_values(s, values));
    bool ok = find_operators(d, e);
    for (int o = 0; ok && o < s->n_operators; o++) ok = find_dependences(s, o, e);
    if (ok) find_cover(s, d->seen);
    return ok;
}

bool space_create(struct space *s, struct error *e)
{
    const struct host *host = &s->context->host;
    struct discovery d = {.space = s};
    bool ok = discover(&d, e);
    for (size_t a = 0; a < s->n_assignments; a++) host_free(host, d.seen[a].groups);
    host_free(host, d.seen);
    return ok;
}

void space_destroy(struct space *s)
{
    if (!s->context) return;
    const struct host *host = &s->context->host;
    for (int o = 0; o < s->n_operators; o++) host_free(host, s->operators[o].at);
    host_free(host, s->operators);
    host_free(host, s->units);
    host_free(host, s->assignments);
    *s = (struct space){.context = NULL};
}

double form_seconds(const struct space *s, const struct form *form, bool usual)
{
    double sum = 0;
    for (int i = 0; i < form->n; i++) {
        const struct unit *unit = &s->units[form->of[i].unit];
        if (!unit->usual.known) return INFINITY;
        double seconds = unit->usual.seconds;
        if (!usual && unit->tuned.known && unit->tuned.seconds < seconds) seconds = unit->tuned.seconds;
        sum += form->of[i].count * seconds;
    }
    return sum;
}
