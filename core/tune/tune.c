/* Measures which sizes of one kernel call are the fastest on a device. */
#include "tune/tune.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/platform.h"
#include "measure/statistics.h"
#include "plan/traffic.h"
#include "runtime/calls.h"
#include "runtime/encode.h"
#include "runtime/train.h"

enum {
    LEAST_ROUNDS = 7, /* the median's interval then covers five of seven */
    FINALISTS = 3,    /* that are measured again: the best of many is partly the luckiest */
    GPU_COPIES = 4,
    HOST_COPIES = 16 /* where the host's clock tells the time */
};

static const double least_gain = 0.01, warm_seconds = 0.02, pair_seconds = 0.4;

/* ---- timing: a candidate and the usual sizes take turns ---- */

static bool sample(struct tune *t, struct trials *trials, struct trial *trial, double *seconds, struct error *e)
{
    if (trial_run(trials, trial, seconds, e)) return true;
    if (!trials->timer || !e->timer) return false;
    t->timer = trials->timer = false; /* it passed its test and fails now: the host's clock from here on */
    return trial_run(trials, trial, seconds, e);
}

/* Rounds that fit the time, from what one of both takes. */
static uint32_t rounds_of(const struct tune *t, const struct trials *trials, double seconds, bool confirmed)
{
    double fit = pair_seconds / (seconds * trials->copies + 1e-6);
    uint32_t most = t->desc.rounds * (confirmed ? 2 : 1);
    return fit > most ? most : fit < LEAST_ROUNDS ? (most < LEAST_ROUNDS ? most : LEAST_ROUNDS) : (uint32_t)fit;
}

static bool hopeless(const double *usual, const double *other, uint32_t n)
{
    double slowest = 0, fastest = INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        if (usual[i] > slowest) slowest = usual[i];
        if (other[i] < fastest) fastest = other[i];
    }
    return n >= 5 && fastest > 1.25 * slowest;
}

static bool time_pair(struct tune *t, struct trials *trials, struct trial *usual, struct trial *other, bool confirmed,
                      struct measured *out, struct error *e)
{
    enum { MOST = 256 };
    double samples[2][MOST], ignored, both;
    struct trial *const of[] = {usual, other};
    uint64_t start = clock_ns();
    uint32_t n = 0, warm = 0;
    do {
        TRY(sample(t, trials, usual, &ignored, e) && sample(t, trials, other, &ignored, e));
        warm++;
    } while ((double)(clock_ns() - start) * 1e-9 < warm_seconds);
    both = (double)(clock_ns() - start) * 1e-9 / warm / trials->copies;
    uint32_t rounds = rounds_of(t, trials, both, confirmed);
    if (rounds > MOST) rounds = MOST;
    for (; n < rounds && !hopeless(samples[0], samples[1], n); n++)
        for (uint32_t k = 0; k < 2; k++) { /* drift within a round hits both alike: who is first changes */
            uint32_t which = (k + n) % 2;
            TRY(sample(t, trials, of[which], &samples[which][n], e));
        }
    out->usual = time_summary(samples[0], n, samples[0][0]);
    out->other = time_summary(samples[1], n, samples[1][0]);
    return true;
}

/* ---- one work ---- */

/* Half of the batch's longest sequence and a short one, neither a multiple of any tile. */
struct small_batch {
    uint32_t offsets[3];
    wherry_batch batch;
};

static void small_batch(const struct tune *t, struct small_batch *out)
{
    uint32_t longest = t->shape.longest, first = longest > 2 ? longest / 2 + 1 - longest / 2 % 2 : 1;
    bool two = t->shape.sequences > 1 && first + 5 <= t->shape.tokens && longest >= 5;
    *out = (struct small_batch){.offsets = {0, first, first + 5}};
    out->batch = *t->batch;
    out->batch.sequences = two ? 2 : 1;
    out->batch.offsets = out->offsets;
}

/* Fills every tensor of the session with the values of a step over this batch. */
static bool run_step(struct tune *t, const wherry_batch *batch, struct batch_shape *shape, struct error *e)
{
    struct wherry_session *s = t->session;
    TRY(session_batch(s, batch, shape, e) && session_random_inputs(s, shape, e));
    return session_run(s, shape, WHERRY_PHASE_ALL, -1, -1, NULL, e);
}

/* What all candidates of a work share. */
struct contest {
    struct trials trials;
    struct batch_shape shape;
    const struct choice *first;
    int index;
    const char *work;
    struct trial usual;
    struct measured *done; /* [candidates] */
    bool *known;           /* [candidates]: done[] is of the log, or finished */
};

static void forced_by(const struct contest *c, const struct choice *choice, const struct choice *out[GROUP_MAX_CALLS])
{
    out[0] = c->index ? c->first : choice;
    out[1] = c->index ? choice : NULL;
}

static bool make(struct contest *c, const struct choice *choice, struct trial *out, struct error *e)
{
    const struct choice *forced[GROUP_MAX_CALLS];
    forced_by(c, choice, forced);
    return trial_make(&c->trials, forced, out, e);
}

bool tune_harmless(const struct error *e)
{
    return e->status != WHERRY_STATUS_DEVICE_LOST && e->status != WHERRY_STATUS_CANCELLED &&
           e->status != WHERRY_STATUS_OUT_OF_HOST_MEMORY && e->status != WHERRY_STATUS_IO;
}

void tune_text(char to[160], const char *from)
{
    snprintf(to, 160, "%s", from);
    for (; *to; to++)
        if ((unsigned char)*to < ' ') *to = ' ';
}

static bool finish(struct tune *t, struct contest *c, int i, struct error *e)
{
    c->known[i] = true;
    return tune_log_add(&t->log, &c->done[i], e);
}

/* What a candidate that could not be made, or gives other numbers, ends with. false: an error that ends all. */
static bool judge(struct tune *t, struct contest *c, int i, bool ran, const char *wrong, struct error *e)
{
    struct measured *m = &c->done[i];
    if (!ran && !tune_harmless(e)) return false;
    if (ran && !*wrong) return true;
    m->verdict = ran ? WHERRY_TUNE_WRONG : WHERRY_TUNE_FAILED;
    tune_text(m->text, ran ? wrong : e->text);
    return finish(t, c, i, e);
}

/* Checks, and at the full batch times, what is not known yet. */
static bool try_one(struct tune *t, struct contest *c, int i, const struct choice *choice, bool full, bool confirmed,
                    struct error *e)
{
    struct measured *m = &c->done[i];
    struct trial trial;
    char wrong[160] = "";
    bool ran = make(c, choice, &trial, e) && trial_check(&c->trials, &trial, &m->nmse, wrong, e);
    if (ran && !*wrong && full) ran = time_pair(t, &c->trials, &c->usual, &trial, confirmed, m, e);
    trial_unmake(&c->trials, &trial);
    TRY(judge(t, c, i, ran, wrong, e));
    if (!full || c->known[i]) return true;
    m->verdict = WHERRY_TUNE_RIGHT;
    return finish(t, c, i, e);
}

static bool show(struct tune *t, const struct contest *c, struct error *e)
{
    char what[96];
    const struct group *group = &t->session->groups[c->trials.group];
    snprintf(what, sizeof what, "%s", group_short_name(group));
    if (!t->progress || t->progress(what, t->done, t->total, t->user)) return true;
    return fail(e, WHERRY_STATUS_CANCELLED, "tuning was cancelled; what was measured is kept");
}

/* What is not known yet; a candidate that can't be compiled says so when it is tried. */
static void compile_all(const struct contest *c, const struct choices *list)
{
    const struct choice *wanted[CHOICES_LEGAL];
    int n = 0;
    for (int i = 0; i < list->n; i++)
        if (!c->known[i]) wanted[n++] = &list->of[i];
    tune_compile(c->trials.session, c->trials.group, c->index, c->first, wanted, n);
}

/* All candidates over one batch. */
static bool try_all(struct tune *t, struct contest *c, const struct choices *list, const wherry_batch *batch, bool full,
                    struct error *e)
{
    bool any = false;
    for (int i = 0; i < list->n; i++) any |= !c->known[i];
    if (!any) return true;
    TRY(run_step(t, batch, &c->shape, e) && trials_expect(&c->trials, &c->usual, e));
    for (int i = 0; i < list->n; i++) {
        if (c->known[i]) continue;
        TRY(show(t, c, e) && try_one(t, c, i, &list->of[i], full, false, e));
        if (c->known[i]) t->done++;
    }
    return true;
}

/* ---- which one is chosen ---- */

static bool better(const struct measured *m)
{
    return m->verdict == WHERRY_TUNE_RIGHT && m->other.ci_high < m->usual.ci_low &&
           m->other.median <= (1 - least_gain) * m->usual.median;
}

static double ratio(const struct measured *m) { return m->other.median / m->usual.median; }

/* The best that was not looked at yet, -1: none is better than the usual sizes. */
static int next_best(const struct contest *c, const struct choices *list, const bool *seen)
{
    int best = -1;
    for (int i = 0; i < list->n; i++)
        if (!seen[i] && better(&c->done[i]) && (best < 0 || ratio(&c->done[i]) < ratio(&c->done[best]))) best = i;
    return best;
}

static bool confirm_one(struct tune *t, struct contest *c, int i, const struct choice *choice, struct measured *out,
                        struct error *e)
{
    const struct measured *known = tune_log_find(&t->log, c->work, c->done[i].use, true);
    struct measured tried = c->done[i];
    if (!known) {
        if (!c->trials.n_expected) /* the candidates' measurements were all of an earlier run */
            TRY(run_step(t, t->batch, &c->shape, e) && trials_expect(&c->trials, &c->usual, e));
        c->done[i].confirmed = true;
        c->known[i] = false;
        TRY(show(t, c, e) && try_one(t, c, i, choice, true, true, e));
        known = &c->done[i];
    }
    *out = *known;
    c->done[i] = tried;
    return true;
}

static bool confirm(struct tune *t, struct contest *c, const struct choices *list, struct measured *winner, int *best,
                    struct error *e)
{
    bool seen[CHOICES_LEGAL] = {false};
    *best = -1;
    for (int n = 0, i; n < FINALISTS && (i = next_best(c, list, seen)) >= 0; n++) {
        struct measured m;
        seen[i] = true;
        TRY(confirm_one(t, c, i, &list->of[i], &m, e));
        if (!better(&m) || (*best >= 0 && ratio(&m) >= ratio(winner))) continue;
        *winner = m;
        *best = i;
    }
    return true;
}

/* ---- a result ---- */

static void describe_choice(const struct call *call, char text[96])
{
    char variant[64];
    call_variant(call, variant);
    snprintf(text, 96, "%s %s", call->kernel, variant);
}

/* Of all candidates; times are those that the usual sizes had beside each. */
static void sum_up(const struct contest *c, const struct choices *list, wherry_tune_result *result)
{
    double times[CHOICES_LEGAL];
    size_t n = 0;
    for (int i = 0; i < list->n; i++) {
        const struct measured *m = &c->done[i];
        result->measured++;
        result->wrong += m->verdict == WHERRY_TUNE_WRONG;
        result->failed += m->verdict == WHERRY_TUNE_FAILED;
        if (m->verdict != WHERRY_TUNE_RIGHT)
            snprintf(result->reason, sizeof result->reason, "%.60s: %.120s", m->use, m->text);
        if (m->verdict == WHERRY_TUNE_RIGHT) times[n++] = m->usual.median;
    }
    samples_sort(times, n);
    result->usual_seconds = result->best_seconds = n ? samples_quantile(times, n, 0.5) : 0;
}

static bool contest_run(struct tune *t, struct contest *c, const struct choices *list, wherry_tune_result *result,
                        int *best, struct error *e)
{
    struct small_batch small;
    struct measured winner = {.confirmed = true};
    for (int i = 0; i < list->n; i++) {
        struct measured *m = &c->done[i];
        snprintf(m->work, sizeof m->work, "%s", c->work);
        choice_text(&list->of[i], m->use);
        const struct measured *known = tune_log_find(&t->log, m->work, m->use, false);
        if (!(c->known[i] = known != NULL)) continue;
        *m = *known;
        result->known++;
        t->done++;
    }
    small_batch(t, &small);
    TRY(make(c, NULL, &c->usual, e));
    compile_all(c, list);
    TRY(try_all(t, c, list, &small.batch, false, e) && try_all(t, c, list, t->batch, true, e));
    sum_up(c, list, result);
    TRY(confirm(t, c, list, &winner, best, e));
    if (*best < 0) return true;
    result->usual_seconds = winner.usual.median;
    result->best_seconds = winner.other.median;
    return true;
}

/* The calls that a group has with a candidate. */
static bool candidate_calls(const struct contest *c, const struct choice *choice, struct call calls[GROUP_MAX_CALLS],
                            struct error *e)
{
    struct wherry_session *s = c->trials.session;
    const struct choice *forced[GROUP_MAX_CALLS];
    const char *reasons[GROUP_MAX_CALLS];
    uint64_t scratch;
    int count;
    forced_by(c, choice, forced);
    return session_calls(s, &s->graph, &s->groups[c->trials.group], forced, calls, reasons, &count, &scratch, e);
}

static bool tell_candidates(const struct tune *t, const struct contest *c, const struct choices *list,
                            wherry_tune_result *result, struct error *e)
{
    for (int i = 0; i < list->n; i++) {
        const struct measured *m = &c->done[i];
        wherry_tune_candidate *shown = &t->shown[i];
        struct call calls[GROUP_MAX_CALLS];
        char text[96];
        TRY(candidate_calls(c, &list->of[i], calls, e));
        describe_choice(&calls[c->index], text);
        *shown = (wherry_tune_candidate){.verdict = m->verdict, .nmse = m->nmse, .cut = i >= list->kept};
        snprintf(shown->sizes, sizeof shown->sizes, "%s", text);
        snprintf(shown->reason, sizeof shown->reason, "%s", m->text);
        if (m->verdict != WHERRY_TUNE_RIGHT) continue;
        shown->time = m->other;
        shown->usual = m->usual;
    }
    result->candidates = t->shown;
    return true;
}

bool tune_work(struct tune *t, int group, int index, const struct choice *first, const char *work,
               const struct choices *list, wherry_tune_result *result, int *best, struct error *e)
{
    struct wherry_session *s = t->session;
    struct contest *c = host_alloc(&s->context->host, 1, sizeof *c, e);
    if (!c) return false;
    *c = (struct contest){.first = first, .index = index, .work = work};
    c->trials = (struct trials){.session = s,
                                .shape = &c->shape,
                                .group = group,
                                .counted = index,
                                .copies = s->device_limits.cpu ? 1
                                          : t->timer           ? GPU_COPIES
                                                               : HOST_COPIES,
                                .timer = t->timer};
    c->done = host_alloc(&s->context->host, (size_t)list->n, sizeof *c->done, e);
    c->known = c->done ? host_alloc(&s->context->host, (size_t)list->n, sizeof *c->known, e) : NULL;
    bool ok = c->known && contest_run(t, c, list, result, best, e);
    if (ok) describe_choice(&c->usual.calls[index], result->usual);
    memcpy(result->best, result->usual, sizeof result->best);
    if (ok && *best >= 0) {
        struct call calls[GROUP_MAX_CALLS];
        ok = candidate_calls(c, &list->of[*best], calls, e);
        if (ok) describe_choice(&calls[index], result->best);
    }
    ok = ok && tell_candidates(t, c, list, result, e);
    trial_unmake(&c->trials, &c->usual);
    trials_forget(&c->trials);
    host_free(&s->context->host, c->done);
    host_free(&s->context->host, c->known);
    host_free(&s->context->host, c);
    return ok;
}
