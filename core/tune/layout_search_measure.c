/* Times the units in steps of whole sessions, where clocks, caches and neighbours are those of real runs. A session
 * with the model's orders and the table's sizes runs in turns with every other, so that what drifts is known. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/platform.h"
#include "measure/statistics.h"
#include "runtime/encode.h"
#include "runtime/prepare.h"
#include "runtime/train.h"
#include "tune/layout_search.h"

enum { ROUNDS = 25, CANDIDATES = 4 };

/* A GPU that idled for a while, because the host compared something, takes most of a second to be as fast as it can. */
static const double warm_gpu_seconds = 1, warm_cpu_seconds = 0.1;

/* ---- a session that runs ---- */

struct runner {
    struct wherry_session *session;
    struct batch_shape shape;
    double *once;    /* [calls] */
    double *samples; /* [groups + 1][rounds]: of each group, and of their sum */
    double host[LAYOUT_SEARCH_ROUNDS];
    uint32_t rounds;
};

static void runner_close(const struct space *s, struct runner *r)
{
    host_free(&s->context->host, r->once);
    host_free(&s->context->host, r->samples);
    wherry_session_destroy(r->session);
    *r = (struct runner){.session = NULL};
}

static bool runner_open(const struct space *s, const struct tune *t, const char *layouts, bool tuned, uint32_t rounds,
                        struct runner *r, struct error *e)
{
    const struct host *host = &s->context->host;
    *r = (struct runner){.rounds = rounds};
    TRY(space_session(s, layouts, tuned, false, &r->session, e));
    TRY(session_prepare(r->session, NULL, NULL, NULL, e));
    TRY(session_batch(r->session, t->batch, &r->shape, e) && session_random_inputs(r->session, &r->shape, e));
    r->once = host_alloc(host, (size_t)r->session->n_calls, sizeof *r->once, e);
    r->samples = r->once ? host_alloc(host, ((size_t)r->session->n_groups + 1) * rounds, sizeof *r->samples, e) : NULL;
    return r->samples != NULL;
}

static bool run_plain(struct runner *r, double *seconds, struct error *e)
{
    uint64_t start = clock_ns();
    TRY(session_run(r->session, &r->shape, WHERRY_PHASE_ALL, -1, -1, NULL, e));
    *seconds = (double)(clock_ns() - start) * 1e-9;
    return true;
}

static bool run_timed(struct runner *r, uint32_t round, struct error *e)
{
    const struct wherry_session *s = r->session;
    double *sum = &r->samples[(size_t)s->n_groups * r->rounds + round];
    TRY(session_run(r->session, &r->shape, WHERRY_PHASE_ALL, -1, -1, r->once, e));
    for (int g = 0; g <= s->n_groups; g++) r->samples[(size_t)g * r->rounds + round] = 0;
    for (int i = 0; i < s->n_calls; i++) {
        r->samples[(size_t)s->call_groups[i] * r->rounds + round] += r->once[i];
        *sum += r->once[i];
    }
    return true;
}

/* Drift within a round hits all alike: who is first changes. */
static bool take_turns(struct runner *const of[], int n, bool host, struct error *e)
{
    double seconds, warm = of[0]->session->device_limits.cpu ? warm_cpu_seconds : warm_gpu_seconds;
    uint64_t start = clock_ns();
    do {
        for (int i = 0; i < n; i++) TRY(run_plain(of[i], &seconds, e));
    } while ((double)(clock_ns() - start) * 1e-9 < warm);
    for (uint32_t round = 0; host && round < of[0]->rounds; round++)
        for (int i = 0; i < n; i++) {
            struct runner *r = of[((uint32_t)i + round) % (uint32_t)n];
            TRY(run_plain(r, &r->host[round], e));
        }
    for (int i = 0; i < n; i++) TRY(run_timed(of[i], 0, e)); /* another recording or queue: warm it, too */
    for (uint32_t round = 0; round < of[0]->rounds; round++)
        for (int i = 0; i < n; i++) TRY(run_timed(of[((uint32_t)i + round) % (uint32_t)n], round, e));
    return true;
}

static wherry_time sum_of(const struct runner *r)
{
    return time_summary(r->samples + (size_t)r->session->n_groups * r->rounds, r->rounds, 0);
}

/* ---- what a session gives ---- */

/* Everything that a step leaves for its caller, in the model's order: the output, and in training the gradients. */
struct results {
    float *values;
    size_t n;
};

static size_t results_size(const struct wherry_session *s, const struct batch_shape *shape)
{
    size_t n = 0;
    for (int t = 0; t < s->graph.n_tensors; t++)
        if (t == s->graph.output || t == s->graph.in_gradient || s->graph.tensors[t].gradient_of >= 0)
            n += (size_t)tensor_elements(&s->graph, shape, t);
    return n;
}

static bool results_take(struct runner *r, struct results *out, struct error *e)
{
    struct wherry_session *s = r->session;
    size_t at = 0;
    out->n = results_size(s, &r->shape);
    TRY((out->values = host_alloc(&s->context->host, out->n, sizeof *out->values, e)) != NULL);
    TRY(session_run(s, &r->shape, WHERRY_PHASE_ALL, -1, -1, NULL, e));
    for (int t = 0; t < s->graph.n_tensors; t++) {
        if (t != s->graph.output && t != s->graph.in_gradient && s->graph.tensors[t].gradient_of < 0) continue;
        size_t n = (size_t)tensor_elements(&s->graph, &r->shape, t);
        TRY(session_tensor_read(s, t, out->values + at, n, e));
        at += n;
    }
    return true;
}

/* Each kernel may differ by as much as one of a session may. */
static bool results_agree(const struct wherry_session *s, const struct results *want, const struct results *have,
                          char text[160])
{
    double difference = 0, square = 0, most = session_tolerance(s) * s->n_groups;
    for (size_t i = 0; i < want->n; i++) {
        double d = (double)have->values[i] - want->values[i];
        difference += d * d;
        square += (double)want->values[i] * want->values[i];
    }
    double nmse = square > 0 ? difference / square : difference > 0 ? INFINITY : 0;
    if (have->n == want->n && nmse <= most) return true;
    snprintf(text, 160, "its results differ from those with the model's orders by an NMSE of %s (at most %s)",
             NUMBER("%.1e", nmse), NUMBER("%.0e", most));
    return false;
}

/* ---- one assignment ---- */

static uint64_t session_hash(const struct wherry_session *s, const char *layouts)
{
    char memory[CALL_TEXT];
    uint64_t hash = tuning_hash(s->kind) ^ (tuning_hash(layouts) * 31);
    for (int i = 0; i < s->n_calls; i++) {
        struct text_writer text = text_begin(memory, sizeof memory);
        call_text(&s->calls[i], &text);
        hash = hash * UINT64_C(0x9e3779b97f4a7c15) + tuning_hash(memory);
    }
    return hash;
}

/* What is known of one session, and where it goes. */
struct stepping {
    struct space *space;
    struct tune *tune;
    struct layout_search_counts *counts;
    struct runner reference;
    struct results expected;
    double *references; /* seconds of the reference, beside each session */
    size_t n_references;
};

static void take_time(struct space *s, const struct stepped *m, bool tuned)
{
    for (int u = 0; u < s->n_units; u++) {
        struct unit_time *time = tuned ? &s->units[u].tuned : &s->units[u].usual;
        if (s->units[u].key == m->unit && !time->known)
            *time = (struct unit_time){true, m->reference, m->time.median, m->time.ci_low, m->time.ci_high};
    }
}

void unit_time_scale(struct unit_time *time, double factor)
{
    time->seconds *= factor;
    time->low *= factor;
    time->high *= factor;
}

static void scale_time(struct unit_time *time, double reference)
{
    if (time->known && time->reference > 0) unit_time_scale(time, reference / time->reference);
}

/* Times as they would have been beside a run of the reference that took what most of its runs did. */
static void scale_times(struct stepping *st)
{
    struct space *s = st->space;
    if (!st->n_references) return;
    samples_sort(st->references, st->n_references);
    double usual = samples_quantile(st->references, st->n_references, 0.5);
    for (int u = 0; u < s->n_units; u++) {
        scale_time(&s->units[u].usual, usual);
        scale_time(&s->units[u].tuned, usual);
    }
}

/* The units of a session, each the mean of its groups, round by round. `planned`: the same with the table's sizes, by
 * which units are known. */
static bool units_of_runner(struct stepping *st, struct wherry_session *planned, struct runner *r, uint64_t hash,
                            double reference, struct error *e)
{
    struct space *s = st->space;
    const struct host *host = &s->context->host;
    const int groups = r->session->n_groups;
    if (planned->n_groups != groups)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "with other sizes the session has other groups");
    struct stepped *steps = host_alloc(host, (size_t)groups + 1, sizeof *steps, e);
    int *unit_of_group = steps ? host_alloc(host, (size_t)groups, sizeof *unit_of_group, e) : NULL;
    int n = 0;
    bool ok = unit_of_group != NULL;
    for (int g = 0; ok && g < groups; g++) unit_of_group[g] = space_unit(s, planned, g, e);
    for (int u = 0; ok && u < s->n_units; u++) {
        double means[LAYOUT_SEARCH_ROUNDS];
        int count = 0;
        for (int g = 0; g < groups; g++) count += unit_of_group[g] == u;
        if (!count) continue;
        for (uint32_t round = 0; round < r->rounds; round++) {
            means[round] = 0;
            for (int g = 0; g < groups; g++)
                if (unit_of_group[g] == u) means[round] += r->samples[(size_t)g * r->rounds + round] / count;
        }
        steps[n++] = (struct stepped){.session = hash,
                                      .unit = s->units[u].key,
                                      .reference = reference,
                                      .time = time_summary(means, r->rounds, 0)};
    }
    if (ok) {
        steps[n++] = (struct stepped){.session = hash, .reference = reference, .time = sum_of(r)};
        ok = tune_log_add_steps(&st->tune->log, steps, (size_t)n, e);
    }
    host_free(host, unit_of_group);
    host_free(host, steps);
    return ok;
}

static bool open_reference(struct stepping *st, struct error *e)
{
    if (st->reference.session) return true;
    return runner_open(st->space, st->tune, "", false, ROUNDS, &st->reference, e) &&
           results_take(&st->reference, &st->expected, e);
}

static bool check_results(struct stepping *st, struct runner *r, char wrong[160], struct error *e)
{
    struct results have = {0};
    bool ok = results_take(r, &have, e);
    if (ok) results_agree(r->session, &st->expected, &have, wrong);
    host_free(&st->space->context->host, have.values);
    return ok;
}

/* Runs it; the log has its units afterwards, or that it is wrong. */
static bool run_session(struct stepping *st, struct wherry_session *planned, const char *layouts, bool tuned,
                        uint64_t hash, struct error *e)
{
    struct runner other = {.session = NULL}, *turns[2] = {&st->reference, &other};
    char wrong[160] = "";
    bool same = !*layouts && !tuned; /* it is the reference itself */
    TRY(open_reference(st, e));
    bool ran = same || (runner_open(st->space, st->tune, layouts, tuned, ROUNDS, &other, e) &&
                        check_results(st, &other, wrong, e));
    if (ran && !*wrong) ran = take_turns(turns, same ? 1 : 2, false, e);
    bool ok = ran || tune_harmless(e);
    if (ok && (!ran || *wrong)) {
        struct stepped failed = {.session = hash, .wrong = true};
        tune_text(failed.text, ran ? wrong : e->text);
        host_log(&st->space->context->host, WHERRY_LOG_WARNING, "layouts %s: %s", layouts, failed.text);
        ok = tune_log_add_steps(&st->tune->log, &failed, 1, e);
    } else if (ok) {
        ok = units_of_runner(st, planned, same ? &st->reference : &other, hash, sum_of(&st->reference).median, e);
    }
    runner_close(st->space, &other);
    return ok;
}

static bool show(struct stepping *st, const char *layouts, struct error *e)
{
    struct tune *t = st->tune;
    char what[ORDERS_TEXT + 16];
    snprintf(what, sizeof what, "step, %s", *layouts ? layouts : "the model's orders");
    if (!t->progress || t->progress(what, t->done, t->total, t->user)) return true;
    return fail(e, WHERRY_STATUS_CANCELLED, "tuning was cancelled; what was measured is kept");
}

/* A session of these orders, by the log or by running it. */
static bool step_session(struct stepping *st, const struct assignment *a, struct wherry_session *planned, bool tuned,
                         struct error *e)
{
    struct space *s = st->space;
    struct wherry_session *of = planned;
    if (tuned) TRY(space_session(s, a->layouts, true, false, &of, e));
    uint64_t hash = session_hash(of, a->layouts);
    if (tuned) wherry_session_destroy(of);
    const struct stepped *whole = tune_log_step(&st->tune->log, hash, 0);
    TRY(show(st, a->layouts, e));
    if (whole)
        st->counts->known++;
    else if (!run_session(st, planned, a->layouts, tuned, hash, e))
        return false;
    st->counts->measured++;
    st->tune->done++;
    whole = tune_log_step(&st->tune->log, hash, 0);
    if (whole && whole->wrong) st->counts->wrong++;
    if (whole && !whole->wrong) st->references[st->n_references++] = whole->reference;
    for (int g = 0; whole && g < planned->n_groups; g++) {
        int u = space_unit(s, planned, g, e);
        if (u < 0) continue;
        const struct stepped *m = tune_log_step(&st->tune->log, hash, s->units[u].key);
        if (m && !whole->wrong) take_time(s, m, tuned);
    }
    return true;
}

/* Whether something was tuned in a session of these orders; then its units get the names of what runs. */
static bool has_tuned(const struct space *s, struct wherry_session *planned, const char *layouts, bool *out,
                      struct error *e)
{
    struct wherry_session *tuned = NULL;
    TRY(space_session(s, layouts, true, false, &tuned, e));
    *out = session_hash(tuned, layouts) != session_hash(planned, layouts);
    for (int g = 0; *out && g < tuned->n_groups && g < planned->n_groups; g++) {
        int u = space_unit(s, planned, g, e);
        if (u >= 0) space_kernels(tuned, g, s->units[u].kernels[1]);
    }
    wherry_session_destroy(tuned);
    return true;
}

static bool step_assignment(struct stepping *st, const struct assignment *a, struct error *e)
{
    struct wherry_session *planned = NULL;
    bool tuned;
    TRY(space_session(st->space, a->layouts, false, false, &planned, e));
    bool ok = step_session(st, a, planned, false, e) && has_tuned(st->space, planned, a->layouts, &tuned, e) &&
              (!tuned || step_session(st, a, planned, true, e));
    wherry_session_destroy(planned);
    return ok;
}

bool layout_search_measure(struct space *s, struct tune *t, struct layout_search_counts *counts, struct error *e)
{
    struct stepping st = {.space = s, .tune = t, .counts = counts};
    st.references = host_alloc(&s->context->host, 2 * s->n_assignments, sizeof *st.references, e);
    bool ok = st.references != NULL;
    for (size_t a = 0; ok && a < s->n_assignments; a++)
        if (s->assignments[a].cover) ok = step_assignment(&st, &s->assignments[a], e);
    if (ok) scale_times(&st);
    runner_close(s, &st.reference);
    host_free(&s->context->host, st.references);
    host_free(&s->context->host, st.expected.values);
    return ok;
}

bool layout_search_compare(struct space *s, struct tune *t, struct candidate *of, int n, struct error *e)
{
    struct runner runners[CANDIDATES] = {{.session = NULL}}, *turns[CANDIDATES] = {NULL};
    bool ok = true;
    for (int i = 0; ok && i < n; i++) {
        turns[i] = &runners[i];
        ok = runner_open(s, t, of[i].layouts, of[i].tuned, LAYOUT_SEARCH_ROUNDS, &runners[i], e);
    }
    ok = ok && take_turns(turns, n, true, e);
    for (int i = 0; i < n && i < CANDIDATES; i++) { /* n is no more, which GCC 14 asks to see */
        if (ok) of[i].kernels = sum_of(&runners[i]);
        memcpy(of[i].rounds, runners[i].host, sizeof of[i].rounds);
        if (ok) of[i].host = time_summary(runners[i].host, LAYOUT_SEARCH_ROUNDS, runners[i].host[0]);
        runner_close(s, &runners[i]);
    }
    return ok;
}
