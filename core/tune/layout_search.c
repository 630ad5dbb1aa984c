/* Chooses the orders of a plan's tensors: sizes first, then times in the step, then the shortest path; what it finds is
 * run against what would be there without it, and kept if it is faster. */
#include "tune/layout_search.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "measure/statistics.h"
#include "runtime/prepare.h"
#include "tune/selection.h"

enum { RANDOM_DRAWS = 256, CONSTRAINTS = SELECTION_VARIABLES * SELECTION_VARIABLES / 2, PAIR_VALUES = 256 };

/* What is being chosen. */
struct layout_search {
    struct space space;
    struct tune tune;
    wherry_layouts_chosen *out;
    struct selection_cost costs[LAYOUT_SEARCH_OPERATORS + CONSTRAINTS];
    double *values; /* of the costs, back to back */
    double pairs[CONSTRAINTS][PAIR_VALUES];
    struct selection selection;
    struct selected selected;
};

/* ---- sizes ---- */

/* With a planned session of each of the orders that are measured. */
static bool each_cover(struct layout_search *a, bool (*with)(struct tune *, struct wherry_session *, struct error *),
                       struct error *e)
{
    struct space *s = &a->space;
    for (size_t i = 0; i < s->n_assignments; i++) {
        struct wherry_session *session = NULL;
        if (!s->assignments[i].cover) continue;
        TRY(space_session(s, s->assignments[i].layouts, false, true, &session, e));
        bool ok = with(&a->tune, session, e);
        wherry_session_destroy(session);
        TRY(ok);
    }
    return true;
}

static bool count_sizes(struct tune *t, struct wherry_session *session, struct error *e)
{
    t->total += 2; /* its steps */
    return tune_count(t, session, e);
}

static bool tune_sizes(struct tune *t, struct wherry_session *session, struct error *e)
{
    bool left;
    TRY(tune_left(t, session, &left, e));
    return !left || (session_prepare(session, NULL, NULL, NULL, e) && tune_session(t, session, e));
}

/* Takes back the tuned sizes of these orders' groups that were not faster in the step, or of all. */
static bool drop_sizes(struct layout_search *a, const char *layouts, bool all, struct error *e)
{
    struct space *s = &a->space;
    struct wherry_session *session = NULL;
    TRY(space_session(s, layouts, false, false, &session, e));
    bool ok = true;
    for (int g = 0; ok && g < session->n_groups; g++) {
        int u = space_unit(s, session, g, e);
        const struct unit *unit = u < 0 ? NULL : &s->units[u];
        if (all || (unit && unit->tuned.known && !(unit->tuned.seconds < unit->usual.seconds)))
            ok = tune_drop(&a->tune, session, g, e);
    }
    wherry_session_destroy(session);
    return ok && tune_store(&a->tune, e);
}

/* What is faster alone need not be so in the step. */
static bool drop_slower(struct layout_search *a, struct error *e)
{
    const struct space *s = &a->space;
    for (size_t i = 0; i < s->n_assignments; i++)
        if (s->assignments[i].cover) TRY(drop_sizes(a, s->assignments[i].layouts, false, e));
    return true;
}

/* ---- the choice ---- */

static double point_seconds(const struct space *s, const struct operator_forms *o, size_t point, bool usual)
{
    return o->at[point] < 0 ? INFINITY : form_seconds(s, &o->forms[o->at[point]], usual);
}

/* Orders of two tensors that never go together. */
static void add_constraint(struct layout_search *a, int one, int two, int *n)
{
    const struct space *s = &a->space;
    size_t values = (size_t)s->tensors[one].count * s->tensors[two].count;
    struct selection_cost *cost = &a->costs[s->n_operators + *n];
    double *pair = a->pairs[*n];
    bool all = true;
    for (size_t i = 0; i < values; i++) pair[i] = INFINITY;
    for (size_t i = 0; i < s->n_assignments; i++)
        pair[(size_t)s->assignments[i].values[one] * s->tensors[two].count + (size_t)s->assignments[i].values[two]] = 0;
    for (size_t i = 0; i < values; i++) all &= pair[i] == 0;
    if (all) return;
    *cost = (struct selection_cost){.n = 2, .of = {one, two}, .values = pair};
    ++*n;
}

static bool make_selection(struct layout_search *a, struct error *e)
{
    struct space *s = &a->space;
    size_t points = 0, at = 0;
    int constraints = 0;
    a->selection = (struct selection){.n_variables = s->n_tensors, .costs = a->costs};
    for (int v = 0; v < s->n_tensors; v++) a->selection.values[v] = (int)s->tensors[v].count;
    for (int o = 0; o < s->n_operators; o++) points += s->operators[o].points;
    if (!(a->values = host_alloc(&s->context->host, points, sizeof *a->values, e))) return false;
    for (int o = 0; o < s->n_operators; o++) {
        const struct operator_forms *op = &s->operators[o];
        a->costs[o] = (struct selection_cost){.n = op->n_tensors, .values = a->values + at};
        for (int i = 0; i < op->n_tensors; i++) a->costs[o].of[i] = op->tensors[i];
        for (size_t p = 0; p < op->points; p++) a->values[at++] = point_seconds(s, op, p, false);
    }
    for (int one = 0; one < s->n_tensors; one++)
        for (int two = one + 1; two < s->n_tensors; two++)
            if (constraints < CONSTRAINTS) add_constraint(a, one, two, &constraints);
    a->selection.n_costs = s->n_operators + constraints;
    return true;
}

static const struct assignment *assignment_of(const struct space *s, const int values[SELECTION_VARIABLES])
{
    for (size_t i = 0; i < s->n_assignments; i++) {
        bool same = true;
        for (int v = 0; v < s->n_tensors; v++) same &= s->assignments[i].values[v] == values[v];
        if (same) return &s->assignments[i];
    }
    return NULL;
}

/* The orders that one pass' operators want, and then the best of the other's. */
static bool one_pass_first(struct layout_search *a, bool backward, double *out, struct error *e)
{
    const struct host *host = &a->space.context->host;
    struct space *s = &a->space;
    struct selection_cost costs[LAYOUT_SEARCH_OPERATORS + CONSTRAINTS + SELECTION_VARIABLES];
    double fixed[SELECTION_VARIABLES][SELECTION_VALUES];
    struct selection of = a->selection;
    struct selected first, both;
    bool wanted[SELECTION_VARIABLES] = {false};
    int n = 0;
    of.costs = costs;
    for (int i = 0; i < a->selection.n_costs; i++) {
        bool constraint = i >= s->n_operators;
        if (!constraint && s->operators[i].backward != backward) continue;
        costs[n++] = a->costs[i];
        for (int k = 0; k < a->costs[i].n && !constraint; k++) wanted[a->costs[i].of[k]] = true;
    }
    of.n_costs = n;
    TRY(selection_solve(host, &of, &first, e));
    for (n = 0; n < a->selection.n_costs; n++) costs[n] = a->costs[n];
    for (int v = 0; v < s->n_tensors; v++) {
        if (!wanted[v]) continue;
        for (int k = 0; k < of.values[v]; k++) fixed[v][k] = k == first.of[v] ? 0 : INFINITY;
        costs[n++] = (struct selection_cost){.n = 1, .of = {v}, .values = fixed[v]};
    }
    of.n_costs = n;
    TRY(selection_solve(host, &of, &both, e));
    *out = both.cost;
    return true;
}

/* What a copy of each tensor in another order takes. There is one of weights, measured in the step. There is none of
 * activations: they are taken to cost as much an element as the weights' copies do together; NAN: there is none of
 * weights, either. */
static bool copy_prices(const struct space *s, double prices[SELECTION_VARIABLES], struct error *e)
{
    struct wherry_session *session = NULL;
    double seconds = 0, elements = 0;
    TRY(space_session(s, "", false, false, &session, e));
    for (int v = 0; v < s->n_tensors; v++) {
        char name[64];
        snprintf(name, sizeof name, "%s_transpose", s->tensors[v].name);
        prices[v] = NAN;
        for (int o = 0; o < s->n_operators; o++)
            for (int f = 0; f < s->operators[o].n_forms && !strcmp(s->operators[o].name, name); f++)
                if (s->operators[o].forms[f].n) prices[v] = form_seconds(s, &s->operators[o].forms[f], false);
        if (!isfinite(prices[v])) continue;
        seconds += prices[v];
        elements += space_elements(session, s->tensors[v].name);
    }
    for (int v = 0; v < s->n_tensors; v++)
        if (!isfinite(prices[v])) prices[v] = seconds / elements * space_elements(session, s->tensors[v].name);
    wherry_session_destroy(session);
    return true;
}

/* Every operator's best; what that asks of tensors is paid with a copy for each further order. */
static void bests(const struct space *s, const double prices[SELECTION_VARIABLES], double *sum, double *transposed)
{
    bool wanted[SELECTION_VARIABLES][SELECTION_VALUES] = {{false}};
    *sum = 0;
    for (int o = 0; o < s->n_operators; o++) {
        const struct operator_forms *op = &s->operators[o];
        size_t best = 0;
        for (size_t p = 1; p < op->points; p++)
            if (point_seconds(s, op, p, false) < point_seconds(s, op, best, false)) best = p;
        *sum += point_seconds(s, op, best, false);
        bool there = op->at[best] >= 0 && op->forms[op->at[best]].n; /* no copy wants no order */
        for (int i = op->n_tensors - 1; there && i >= 0; i--) {
            wanted[op->tensors[i]][best % s->tensors[op->tensors[i]].count] = true;
            best /= s->tensors[op->tensors[i]].count;
        }
    }
    *transposed = *sum;
    for (int v = 0; v < s->n_tensors; v++) {
        int orders = 0;
        for (uint32_t k = 0; k < s->tensors[v].count; k++) orders += wanted[v][k];
        if (orders > 1) *transposed += (orders - 1) * prices[v];
    }
}

static double assignment_seconds(const struct space *s, const struct assignment *a, bool usual)
{
    double sum = 0;
    for (int o = 0; o < s->n_operators; o++) sum += form_seconds(s, &s->operators[o].forms[a->form[o]], usual);
    return sum;
}

/* Of what a session could have; those with a form that was wrong are left out. */
static void draw_random(struct layout_search *a)
{
    double draws[RANDOM_DRAWS];
    uint64_t state = 1;
    size_t n = 0;
    for (int i = 0; i < RANDOM_DRAWS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double seconds =
            assignment_seconds(&a->space, &a->space.assignments[(state >> 33) % a->space.n_assignments], true);
        if (isfinite(seconds)) draws[n++] = seconds;
    }
    if (!n) return;
    samples_sort(draws, n);
    a->out->random_n = (uint32_t)n;
    a->out->random_p05 = samples_quantile(draws, n, 0.05);
    a->out->random_median = samples_quantile(draws, n, 0.5);
    a->out->random_p95 = samples_quantile(draws, n, 0.95);
}

/* ---- against what would be there without it ---- */

/* At 95 % confidence: round by round, so that what drifts is in both. */
static bool faster(const struct candidate *a, const struct candidate *b)
{
    double ratios[LAYOUT_SEARCH_ROUNDS];
    for (int i = 0; i < LAYOUT_SEARCH_ROUNDS; i++) ratios[i] = a->rounds[i] / b->rounds[i];
    return time_summary(ratios, LAYOUT_SEARCH_ROUNDS, ratios[0]).ci_high < 1 && a->host.median < b->host.median;
}

/* Clocks are not what they were when the steps were measured: all sums become those of the time of the comparison, by
 * what the model's orders with the table's sizes took then and take now. */
static void scale_sums(struct layout_search *a, double usual_now)
{
    struct space *s = &a->space;
    wherry_layouts_chosen *out = a->out;
    double *sums[] = {&out->path,           &out->best_sum,   &out->transposed,    &out->forward_first,
                      &out->backward_first, &out->random_p05, &out->random_median, &out->random_p95};
    double then = assignment_seconds(s, &s->assignments[0], true);
    out->drift = then > 0 && isfinite(then) && usual_now > 0 ? usual_now / then : 1;
    for (int u = 0; u < s->n_units; u++) {
        unit_time_scale(&s->units[u].usual, out->drift);
        unit_time_scale(&s->units[u].tuned, out->drift);
    }
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) *sums[i] *= out->drift;
}

/* The chosen orders, the model's with tuned sizes, the model's with the table's: the first that nothing beats. */
static bool decide(struct layout_search *a, const struct assignment *chosen, struct error *e)
{
    struct candidate of[] = {
        {.layouts = ""}, {.layouts = "", .tuned = true}, {.layouts = chosen->layouts, .tuned = true}};
    const struct assignment *usual = &a->space.assignments[0];
    bool other = chosen != usual;
    struct tuned_layouts entry = {.usual = 0};
    wherry_layouts_chosen *out = a->out;
    TRY(layout_search_compare(&a->space, &a->tune, of, other ? 3 : 2, e));
    const struct candidate *kept = &of[0];
    if (faster(&of[1], kept)) kept = &of[1];
    if (other && faster(&of[2], kept)) kept = &of[2];
    out->usual = of[0].kernels;
    out->usual_host = of[0].host;
    out->chosen = kept->kernels;
    out->chosen_host = kept->host;
    scale_sums(a, of[0].kernels.median);
    out->predicted = assignment_seconds(&a->space, kept == &of[2] ? chosen : usual, kept == &of[0]);
    snprintf(out->layouts, sizeof out->layouts, "%s", kept->layouts);
    for (int v = 0; v < a->space.n_tensors; v++)
        a->space.tensors[v].chosen = (uint32_t)(kept == &of[2] ? chosen : usual)->values[v];
    if (kept == &of[2])
        snprintf(out->reason, sizeof out->reason,
                 "a run takes %s us, with the model's orders and tuned sizes %s, "
                 "with the model's orders and the table's sizes %s",
                 NUMBER("%.4g", 1e6 * of[2].host.median), NUMBER("%.4g", 1e6 * of[1].host.median),
                 NUMBER("%.4g", 1e6 * of[0].host.median));
    else if (other)
        snprintf(out->reason, sizeof out->reason,
                 "%s, by the sum of its operators the best, takes %s us a run, the "
                 "model's orders %s with tuned sizes and %s with the table's: not faster at 95 %% confidence",
                 chosen->layouts, NUMBER("%.4g", 1e6 * of[2].host.median), NUMBER("%.4g", 1e6 * of[1].host.median),
                 NUMBER("%.4g", 1e6 * of[0].host.median));
    else
        snprintf(out->reason, sizeof out->reason,
                 "the model's orders are the best by the sum of the operators: a run "
                 "takes %s us with tuned sizes, %s with the table's",
                 NUMBER("%.4g", 1e6 * of[1].host.median), NUMBER("%.4g", 1e6 * of[0].host.median));
    snprintf(entry.kind, sizeof entry.kind, "%s", a->space.kind);
    snprintf(entry.layouts, sizeof entry.layouts, "%s", kept->layouts);
    entry.usual = of[0].host.median;
    entry.best = kept->host.median;
    TRY(tuning_add_layouts(a->tune.host, &a->tune.tuning, &entry, e));
    return kept == &of[0] ? drop_sizes(a, "", true, e) : tune_store(&a->tune, e);
}

/* ---- what is told ---- */

static void tell_time(const struct layout_search *a, const struct operator_forms *o, size_t point,
                      wherry_layout_time *out)
{
    const struct space *s = &a->space;
    const struct form *form = &o->forms[o->at[point]];
    size_t rest = point;
    *out = (wherry_layout_time){.usual = true, .chosen = true};
    for (int i = o->n_tensors - 1; i >= 0; i--) {
        const wherry_layout_tensor *tensor = &s->tensors[o->tensors[i]];
        out->orders[i] = (uint32_t)(rest % tensor->count);
        rest /= tensor->count;
        out->usual &= out->orders[i] == 0;
        out->chosen &= out->orders[i] == tensor->chosen;
    }
    out->seconds = form_seconds(s, form, false);
    struct text_writer kernels = text_begin(out->kernels, sizeof out->kernels);
    for (int i = 0; i < form->n; i++) {
        const struct unit *unit = &s->units[form->of[i].unit];
        bool tuned = unit->tuned.known && unit->tuned.seconds < unit->usual.seconds;
        const struct unit_time *time = tuned ? &unit->tuned : &unit->usual;
        out->low += form->of[i].count * time->low;
        out->high += form->of[i].count * time->high;
        out->tuned |= tuned;
        text_add(&kernels, "%s%s: %s", i ? "; " : "", unit->group, unit->kernels[tuned && *unit->kernels[1]]);
        out->works[out->n_works] = unit->work;
        out->counts[out->n_works++] = (uint32_t)form->of[i].count;
    }
}

static bool tell(struct layout_search *a, struct error *e)
{
    const struct host *host = &a->space.context->host;
    struct space *s = &a->space;
    wherry_layouts_chosen *out = a->out;
    size_t points = 0;
    for (int o = 0; o < s->n_operators; o++) points += s->operators[o].points;
    wherry_layout_operator *operators = host_alloc(host, (size_t)s->n_operators, sizeof *operators, e);
    wherry_layout_tensor *tensors = operators ? host_alloc(host, SELECTION_VARIABLES, sizeof *tensors, e) : NULL;
    wherry_layout_time *times = tensors ? host_alloc(host, points, sizeof *times, e) : NULL;
    out->operators = operators;
    out->tensors = tensors;
    out->times = times;
    if (!times) return false;
    memcpy(tensors, s->tensors, sizeof s->tensors);
    for (int i = 0; i < s->n_operators; i++) {
        const struct operator_forms *o = &s->operators[i];
        wherry_layout_operator *to = &operators[i];
        *to = (wherry_layout_operator){.class_ = o->class_, .backward = o->backward, .times = times};
        snprintf(to->name, sizeof to->name, "%s", o->name);
        for (; to->n_tensors < (uint32_t)o->n_tensors; to->n_tensors++)
            to->tensors[to->n_tensors] = (uint32_t)o->tensors[to->n_tensors];
        double best = INFINITY;
        for (size_t p = 0; p < o->points; p++) {
            if (o->at[p] < 0) continue;
            tell_time(a, o, p, &times[to->n_times]);
            if (times[to->n_times].seconds < best) best = times[to->n_times].seconds;
            to->n_times++;
        }
        for (size_t t = 0; t < to->n_times; t++) times[t].best = times[t].seconds <= best && isfinite(best);
        times += to->n_times;
    }
    out->n_tensors = (size_t)s->n_tensors;
    out->n_operators = (size_t)s->n_operators;
    return true;
}

/* ---- the call ---- */

static bool choose(struct layout_search *a, struct error *e)
{
    struct space *s = &a->space;
    wherry_layouts_chosen *out = a->out;
    struct layout_search_counts counts = {0};
    double prices[SELECTION_VARIABLES];
    TRY(each_cover(a, count_sizes, e));
    tune_restart(&a->tune);
    TRY(each_cover(a, tune_sizes, e) && layout_search_measure(s, &a->tune, &counts, e) && drop_slower(a, e));
    TRY(make_selection(a, e) && selection_solve(&s->context->host, &a->selection, &a->selected, e));
    const struct assignment *chosen = assignment_of(s, a->selected.of);
    if (isinf(a->selected.cost) || !chosen)
        return fail(e, WHERRY_STATUS_VERIFY_FAILED,
                    "no orders of all tensors have right results; the log names what "
                    "is wrong");
    out->combinations = s->combinations;
    out->possible = s->n_assignments;
    out->states = a->selected.states;
    out->measured = counts.measured;
    out->known = counts.known;
    out->wrong = counts.wrong;
    out->path = a->selected.cost;
    TRY(copy_prices(s, prices, e));
    bests(s, prices, &out->best_sum, &out->transposed);
    draw_random(a);
    if (s->desc.training)
        TRY(one_pass_first(a, false, &out->forward_first, e) && one_pass_first(a, true, &out->backward_first, e));
    return decide(a, chosen, e) && tell(a, e);
}

static wherry_status check(wherry_context *context, wherry_device *device, const wherry_model *model,
                           const wherry_session_desc *session, const wherry_batch *batch, const wherry_tune_desc *desc,
                           const wherry_tune_summary *summary, const wherry_layouts_chosen *out)
{
    if (!device || !model || !session || !batch || !summary || !out)
        return context_invalid(context, "wherry_tune_layouts: an argument is NULL");
    if (session->struct_size != sizeof *session || summary->struct_size != sizeof *summary ||
        out->struct_size != sizeof *out || (desc && desc->struct_size != sizeof *desc))
        return context_invalid(context,
                               "wherry_tune_layouts: a struct_size is not %zu (session), %zu (summary), %zu "
                               "(out), %zu (desc)",
                               sizeof *session, sizeof *summary, sizeof *out, sizeof *desc);
    if (session->layouts || session->tuning || session->only)
        return context_invalid(context, "wherry_tune_layouts chooses layouts and tuning, for a whole plan: leave them "
                                        "and `only` NULL");
    wherry_status status = context_needs_cache(context, "wherry_tune_layouts");
    if (status) return status;
    if (device->kernels_hash) return WHERRY_STATUS_OK;
    fail(context_error(context), WHERRY_STATUS_UNSUPPORTED,
         "wherry_tune_layouts: kernels of the device %s take no sizes, so that there is nothing to choose",
         device->info.id);
    return context_status(context, false);
}

wherry_status wherry_tune_layouts(wherry_context *context, wherry_device *device, const wherry_model *model,
                                  const wherry_session_desc *session, const wherry_batch *batch,
                                  const wherry_tune_desc *desc, wherry_progress progress, wherry_tune_callback callback,
                                  void *user, wherry_tune_summary *summary, wherry_layouts_chosen *out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct error *e = context_error(context), failed = {0};
    wherry_status status = check(context, device, model, session, batch, desc, summary, out);
    struct layout_search *a = status ? NULL : host_alloc(&context->host, 1, sizeof *a, e);
    if (status || !a) return status ? status : context_status(context, false);
    *summary = (wherry_tune_summary){.struct_size = sizeof *summary};
    *out = (wherry_layouts_chosen){.struct_size = sizeof *out};
    a->out = out;
    a->space = (struct space){.context = context, .device = device, .model = model, .desc = *session};
    a->tune =
        (struct tune){.batch = batch, .progress = progress, .callback = callback, .user = user, .summary = summary};
    bool ok = tune_open(&a->tune, device, desc, &failed);
    bool share = a->tune.desc.shares;
    if (ok && !share && !a->tune.timer)
        ok = fail(&failed, WHERRY_STATUS_UNSUPPORTED,
                  "%s: orders are chosen by times of groups in the step, and its "
                  "timer can't be trusted; sizes can be tuned without "
                  "(wherry_tune)",
                  device->info.id);
    ok = ok && space_create(&a->space, &failed) && (share ? each_cover(a, tune_share, &failed) : choose(a, &failed));
    tune_close(&a->tune);
    space_destroy(&a->space);
    host_free(&context->host, a->values);
    if (!ok) {
        wherry_layouts_free(context, out);
        *e = failed;
    }
    host_free(&context->host, a);
    return context_status(context, ok);
}

void wherry_layouts_free(wherry_context *context, wherry_layouts_chosen *chosen)
{
    if (!context || !chosen) return;
    const struct host *host = &context->host;
    host_free(host, (void *)chosen->times);
    host_free(host, (void *)chosen->operators);
    host_free(host, (void *)chosen->tensors);
    *chosen = (wherry_layouts_chosen){.struct_size = chosen->struct_size};
}
