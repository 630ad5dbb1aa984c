/* Tunes every distinct kernel call of a session's plan, and keeps what was chosen for sessions to come. */
#include <stdio.h>
#include <string.h>

#include "base/platform.h"
#include "interface/interface.h"
#include "plan/variants.h"
#include "runtime/buffers.h"
#include "runtime/calls.h"
#include "runtime/encode.h"
#include "runtime/tuned.h"
#include "tune/tune.h"

enum { USUAL_ROUNDS = 15 };

/* ---- what a call computes, in words ---- */

static void describe_work(const struct tune *t, const struct call *call, char text[64])
{
    static const char *const forms[] = {"NT", "NN", "TN"};
    uint32_t form = call_get(call, CONST_FORM, GEMM_NT), n = call_get(call, CONST_N, 1), runtime = call_runtime(call);
    unsigned long long rows = batch_rows(&t->shape, call_get(call, CONST_ROWS, HEADER_TOKENS));
    const char *kernel = kernel_base(call->kernel);
    if (!strcmp(kernel, "gemm"))
        snprintf(text, 64, "%llu x %llu x %llu %s", runtime == RUNTIME_M ? rows : call_get(call, CONST_M, 1),
                 runtime == RUNTIME_N ? rows : n, runtime == RUNTIME_K ? rows : call_get(call, CONST_K, 1),
                 forms[form]);
    else if (call_get(call, CONST_HEADS, 0))
        snprintf(text, 64, "%u x %u x %llu x %u", (unsigned)t->shape.sequences,
                 (unsigned)call_get(call, CONST_HEADS, 1), (unsigned long long)t->shape.longest,
                 (unsigned)call_get(call, CONST_HEAD_DIM, 1));
    else if (!strcmp(kernel, "transpose"))
        snprintf(text, 64, "%u x %u", (unsigned)call_get(call, CONST_M, 1), (unsigned)n);
    else if (!strcmp(kernel, "reduce"))
        snprintf(text, 64, "%u x %u", (unsigned)call_get(call, CONST_SETS, 1), (unsigned)n);
    else
        snprintf(text, 64, "%llu x %u", rows, (unsigned)n);
}

/* ---- the works of a plan ---- */

/* A group's calls as they are to be tuned: those of the static table, or after a first call that was tuned. */
struct work {
    int group, index;
    char text[WORK_TEXT];
    struct sizes sizes;
    struct call calls[GROUP_MAX_CALLS]; /* with sizes */
    int n_calls;
    struct call bare; /* the one that is tuned, as its operators made it */
    struct choice first;
    bool has_first; /* else the static table's */
    struct choice usual;
};

static uint64_t rows_of(const struct wherry_session *s, const struct call *call)
{
    return batch_rows(&s->limits, call_get(call, CONST_ROWS, HEADER_TOKENS));
}

static struct sizes sizes_of(const struct wherry_session *s, struct call *call, const struct call *before)
{
    return call_sizes(call, before, &s->device_limits, s->f16, rows_of(s, call), s->limits.longest);
}

/* false: the group has no such call. */
static bool work_make(struct tune *t, int group, int index, struct work *w, bool *there, struct error *e)
{
    struct wherry_session *s = t->session;
    const struct choice *forced[GROUP_MAX_CALLS] = {NULL, NULL};
    const char *reasons[GROUP_MAX_CALLS];
    uint64_t scratch;
    struct call bare[GROUP_MAX_CALLS];
    int n_bare;
    *w = (struct work){.group = group, .index = index};
    TRY(group_calls(&s->graph, &s->groups[group], bare, &n_bare, e));
    if (index) { /* the second call of what the first one became */
        struct sizes sizes = sizes_of(s, &bare[0], NULL);
        w->has_first = tuning_find(&s->context->host, &t->tuning, &bare[0], &sizes, &w->first, NULL) == TUNED_FOUND;
        if (w->has_first) forced[0] = &w->first;
    }
    TRY(session_calls(s, &s->graph, &s->groups[group], forced, w->calls, reasons, &w->n_calls, &scratch, e));
    if (!(*there = index < w->n_calls)) return true;
    w->bare = index < n_bare ? bare[index] : w->calls[index];
    w->sizes = sizes_of(s, &w->bare, index ? &w->calls[0] : NULL);
    return work_text(&w->bare, &w->sizes, w->text) ||
           fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: %s has more constants than a tuning's key holds",
                s->groups[group].name, w->bare.kernel);
}

static bool work_done(const struct tune *t, const char *text)
{
    for (size_t i = 0; i < t->n_works; i++)
        if (!strcmp(t->works[i], text)) return true;
    return false;
}

static bool work_mark(struct tune *t, const char *text, struct error *e)
{
    const struct host *host = &t->session->context->host;
    void *grown = host_grow(host, t->works, t->n_works, t->n_works + 1, sizeof *t->works, e);
    if (!grown) return false;
    t->works = grown;
    snprintf(t->works[t->n_works++], sizeof *t->works, "%s", text);
    return true;
}

/* Groups of the plan whose call does the same. */
static bool work_groups(struct tune *t, const struct work *w, uint32_t *n, struct error *e)
{
    *n = 0;
    for (int g = 0; g < t->session->n_groups; g++) {
        struct work other;
        bool there;
        TRY(work_make(t, g, w->index, &other, &there, e));
        *n += there && !strcmp(other.text, w->text);
    }
    return true;
}

static bool same_constants(const struct call *a, const struct call *b)
{
    if (a->n_constants != b->n_constants) return false;
    for (int i = 0; i < a->n_constants; i++)
        if (a->constants[i].id != b->constants[i].id || a->constants[i].value != b->constants[i].value) return false;
    return true;
}

/* Why a call's sizes are not for us to choose; NULL: they are. */
static const char *work_refuse(const struct tune *t, struct work *w)
{
    struct wherry_session *s = t->session;
    struct call again[GROUP_MAX_CALLS];
    int first = group_first_call(s, w->group), count = w->index + 1;
    bool has_call = first + w->index < s->n_calls && s->call_groups[first + w->index] == w->group;
    const char *note = s->prepared && has_call ? s->device->backend->program_note(s->program, first + w->index) : NULL;
    if (note) return note;
    for (int i = 0; has_call && i < s->calls[first].n_arguments; i++) {
        int tensor = s->calls[first].arguments[i].tensor;
        if (tensor != TENSOR_SCRATCH && s->memory.of[tensor].piece_bytes) return "its table lies in several buffers";
    }
    memcpy(again, w->calls, sizeof again);
    again[w->index] = w->bare;
    if (!choice_of(&w->calls[w->index], w->index ? &w->calls[0] : NULL, &w->usual))
        return "it has more sizes than a choice can keep";
    choice_apply(&w->usual, again, w->index, &count, &w->sizes);
    if (!same_constants(&again[w->index], &w->calls[w->index])) return "its sizes do not tell all of how it is made";
    return NULL;
}

/* Leaves those that go by the session's table of queries: its tiles are those of the kernel that the session has. */
static void drop_other_tables(const struct wherry_session *s, const struct call *call, struct choices *list)
{
    int n = 0;
    if (call->launch != LAUNCH_QUERIES) return;
    for (int i = 0; i < list->n; i++) {
        uint32_t tile = s->tables.query_tile;
        for (int k = 0; k < list->of[i].n_sizes; k++)
            if (list->of[i].sizes[k].id == CONST_TILE_M) tile = list->of[i].sizes[k].value;
        if (tile == s->tables.query_tile) list->of[n++] = list->of[i];
    }
    list->refused += list->n - n;
    list->n = n;
}

/* The candidates, the best first. */
static void work_candidates(const struct tune *t, const struct work *w, struct choices *list,
                            wherry_tune_result *result)
{
    choices_legal(&w->bare, &w->sizes, list);
    drop_other_tables(t->session, &w->bare, list);
    result->refused = (uint32_t)list->refused;
    result->cut = (uint32_t)choices_prune(list, &w->usual, (int)t->desc.candidates, t->desc.all);
}

/* What was chosen, to the file; an entry that no longer holds goes. */
static bool work_keep(struct tune *t, const struct work *w, const struct choice *best, const wherry_tune_result *result,
                      struct error *e)
{
    char use[CHOICE_TEXT];
    if (best) choice_text(best, use);
    TRY(tuning_set(t->host, &t->tuning, w->text, best ? use : NULL, result->usual_seconds, result->best_seconds, e));
    return tune_store(t, e);
}

/* A first call's time is that of its group. */
static void add_up(wherry_tune_summary *sum, int index, const wherry_tune_result *result)
{
    double saved = result->groups * (result->usual_seconds - result->best_seconds);
    double whole = index ? 0 : result->groups * result->usual_seconds;
    sum->works++;
    sum->chosen += result->chosen;
    sum->measured += result->measured;
    sum->known += result->known;
    sum->wrong += result->wrong;
    sum->failed += result->failed;
    sum->usual_seconds += whole;
    sum->best_seconds += whole - saved;
}

static bool work_run(struct tune *t, struct work *w, struct choices *list, struct error *e)
{
    const struct wherry_session *s = t->session;
    wherry_tune_result result = {.key = tuning_hash(w->text)};
    int best = -1;
    snprintf(result.group, sizeof result.group, "%s", s->groups[w->group].name);
    describe_work(t, &w->calls[w->index], result.work);
    snprintf(result.usual, sizeof result.usual, "%s", w->calls[w->index].kernel);
    memcpy(result.best, result.usual, sizeof result.best);
    orders_text(&s->layout, result.layouts);
    TRY(work_mark(t, w->text, e) && work_groups(t, w, &result.groups, e));
    const char *refused = work_refuse(t, w);
    list->n = 0;
    if (refused)
        snprintf(result.reason, sizeof result.reason, "%s", refused);
    else
        work_candidates(t, w, list, &result);
    if (list->n) {
        TRY(tune_work(t, w->group, w->index, w->has_first ? &w->first : NULL, w->text, list, &result, &best, e));
        result.chosen = best >= 0;
        TRY(work_keep(t, w, best < 0 ? NULL : &list->of[best], &result, e));
    }
    add_up(t->summary, w->index, &result);
    if (!t->callback || t->callback(&result, t->user)) return true;
    return fail(e, WHERRY_STATUS_CANCELLED, "tuning was cancelled; what was measured is kept");
}

/* Of every work that is not in works[] yet, and now is, its candidates. */
static bool visit_works(struct tune *t, struct wherry_session *s,
                        bool (*visit)(struct tune *t, const struct work *w, const struct choices *list,
                                      struct error *e),
                        struct error *e)
{
    struct choices *list = host_alloc(&s->context->host, 1, sizeof *list, e);
    bool ok = list != NULL, there;
    t->session = s;
    for (int g = 0; ok && g < s->n_groups; g++)
        for (int i = 0; ok && i < GROUP_MAX_CALLS; i++) {
            struct work w;
            wherry_tune_result ignored;
            ok = work_make(t, g, i, &w, &there, e);
            if (!ok || !there || work_done(t, w.text)) continue;
            ok = work_mark(t, w.text, e);
            list->n = 0;
            if (!work_refuse(t, &w)) work_candidates(t, &w, list, &ignored);
            ok = ok && visit(t, &w, list, e);
        }
    host_free(&s->context->host, list);
    return ok;
}

static bool count_work(struct tune *t, const struct work *w, const struct choices *list, struct error *e)
{
    (void)w;
    (void)e;
    t->total += (size_t)list->n;
    return true;
}

bool tune_count(struct tune *t, struct wherry_session *s, struct error *e) { return visit_works(t, s, count_work, e); }

static bool share_work(struct tune *t, const struct work *w, const struct choices *list, struct error *e)
{
    const struct choice *mine[CHOICES_LEGAL + 1];
    int n = 0;
    for (int i = -1; i < list->n; i++)
        if (t->numbered++ % t->desc.shares == t->desc.share) mine[n++] = i < 0 ? NULL : &list->of[i];
    tune_compile(t->session, w->group, w->index, w->has_first ? &w->first : NULL, mine, n);
    if (!t->progress || t->progress(t->session->groups[w->group].name, t->numbered, t->numbered, t->user)) return true;
    return fail(e, WHERRY_STATUS_CANCELLED, "compiling for a tuning was cancelled; what was compiled is kept");
}

bool tune_share(struct tune *t, struct wherry_session *s, struct error *e)
{
    if (s->prepared) return visit_works(t, s, share_work, e);
    bool ok = session_make_buffers(s, true, e) && visit_works(t, s, share_work, e);
    session_free_buffers(s);
    return ok;
}

bool tune_left(struct tune *t, struct wherry_session *s, bool *left, struct error *e)
{
    *left = false;
    t->session = s;
    for (int g = 0; g < s->n_groups; g++)
        for (int i = 0; i < GROUP_MAX_CALLS; i++) {
            struct work w;
            bool there;
            TRY(work_make(t, g, i, &w, &there, e));
            *left |= there && !work_done(t, w.text);
        }
    return true;
}

bool tune_session(struct tune *t, struct wherry_session *s, struct error *e)
{
    struct choices *list = host_alloc(&s->context->host, 1, sizeof *list, e);
    bool ok = list != NULL, there;
    t->session = s;
    ok = ok && session_batch(s, t->batch, &t->shape, e);
    for (int g = 0; ok && g < s->n_groups; g++)
        for (int i = 0; ok && i < GROUP_MAX_CALLS; i++) {
            struct work w;
            ok = work_make(t, g, i, &w, &there, e) && (!there || work_done(t, w.text) || work_run(t, &w, list, e));
        }
    host_free(&s->context->host, list);
    return ok;
}

/* ---- groups by their works ---- */

bool tune_group_works(struct wherry_session *s, int group, char works[GROUP_MAX_CALLS][WORK_TEXT], int *n,
                      struct error *e)
{
    struct tune untuned = {.session = s};
    *n = 0;
    for (int i = 0; i < GROUP_MAX_CALLS; i++) {
        struct work w;
        bool there;
        TRY(work_make(&untuned, group, i, &w, &there, e));
        if (there) memcpy(works[(*n)++], w.text, WORK_TEXT);
    }
    return true;
}

bool tune_drop(struct tune *t, struct wherry_session *s, int group, struct error *e)
{
    t->session = s;
    for (int i = GROUP_MAX_CALLS - 1; i >= 0; i--) { /* the second is found after what the first became */
        struct work w;
        bool there;
        TRY(work_make(t, group, i, &w, &there, e));
        if (there) TRY(tuning_set(&s->context->host, &t->tuning, w.text, NULL, 0, 0, e));
    }
    return true;
}

/* ---- the call ---- */

static bool test_timer(struct tune *t, struct wherry_device *device)
{
    wherry_timer_info tested = device->timer;
    if (!*tested.kind && wherry_timer_test(device, &tested)) return false;
    t->timer = tested.status == WHERRY_TIMER_OK;
    if (t->timer) device->timer = tested;
    return true;
}

static bool open_files(struct tune *t, const struct host *host, struct error *e)
{
    struct tuning_file file;
    tuning_path(host->cache_dir, "tuned", &t->key, t->path);
    snprintf(t->summary->file, sizeof t->summary->file, "%s", t->path);
    TRY(tuning_load(host, t->path, false, &t->key, &t->tuning, &file, e));
    if (file.refused[0])
        host_log(host, WHERRY_LOG_WARNING, "the tuned sizes in %s are replaced: %s", t->path, file.refused);
    return tune_log_open(&t->log, host, &t->key, t->desc.fresh, e);
}

bool tune_open(struct tune *t, struct wherry_device *device, const wherry_tune_desc *desc, struct error *e)
{
    t->key = device_tuning_key(device);
    if (desc) t->desc = *desc;
    if (t->desc.shares && t->desc.share >= t->desc.shares)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_tune_desc: there is no share %u of %u: they begin at 0",
                    (unsigned)t->desc.share, (unsigned)t->desc.shares);
    if (!t->desc.candidates || t->desc.candidates > CHOICES_MEASURED) t->desc.candidates = CHOICES_MEASURED;
    if (!t->desc.rounds) t->desc.rounds = USUAL_ROUNDS;
    t->host = &device->context->host;
    if (!(t->shown = host_alloc(t->host, CHOICES_LEGAL, sizeof *t->shown, e))) return false;
    if (t->desc.shares) return true; /* nothing is timed or kept */
    return test_timer(t, device) && open_files(t, t->host, e);
}

void tune_close(struct tune *t)
{
    if (!t->host) return;
    host_free(t->host, t->works);
    host_free(t->host, t->shown);
    tuning_free(t->host, &t->tuning);
    tune_log_close(&t->log);
}

void tune_restart(struct tune *t) { t->n_works = 0; }

bool tune_store(struct tune *t, struct error *e) { return tuning_store(t->host, t->path, &t->key, &t->tuning, e); }

static wherry_status check(wherry_session *s, const wherry_batch *batch, const wherry_tune_desc *desc,
                           const wherry_tune_summary *summary)
{
    struct wherry_context *context = s->context;
    if (!batch || !summary || summary->struct_size != sizeof *summary || (desc && desc->struct_size != sizeof *desc))
        return context_invalid(
            context, "wherry_tune: batch or summary is NULL, or a struct_size is not %zu (summary), %zu (desc)",
            sizeof *summary, sizeof *desc);
    if (!s->device->kernels_hash) {
        fail(context_error(context), WHERRY_STATUS_UNSUPPORTED,
             "wherry_tune: kernels of the device %s take no sizes, so that there is nothing to choose",
             s->device->info.id);
        return context_status(context, false);
    }
    if (!s->keep || s->tuning.count)
        return context_invalid(context, "wherry_tune needs a session made with keep_intermediates, so that every "
                                        "group's inputs are there, and with tuning = \"\", the static table alone");
    return context_needs_cache(context, "wherry_tune");
}

wherry_status wherry_tune(wherry_session *session, const wherry_batch *batch, const wherry_tune_desc *desc,
                          wherry_progress progress, wherry_tune_callback callback, void *user,
                          wherry_tune_summary *summary)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = session->context;
    struct error *e = context_error(context);
    bool share = desc && desc->struct_size == sizeof *desc && desc->shares;
    wherry_status status = check(session, batch, desc, summary);
    if (!status && !share && !session->prepared) status = wherry_session_prepare(session, NULL, NULL, NULL);
    if (status) return status;
    *summary = (wherry_tune_summary){.struct_size = sizeof *summary};
    struct tune t = {.batch = batch, .progress = progress, .callback = callback, .user = user, .summary = summary};
    bool ok = tune_open(&t, session->device, desc, e);
    if (share) {
        ok = ok && tune_share(&t, session, e);
    } else {
        session->forward_done = session->backward_done = false; /* what was kept is overwritten */
        ok = ok && tune_count(&t, session, e);
        tune_restart(&t);
        ok = ok && tune_session(&t, session, e);
    }
    tune_close(&t);
    return context_status(context, ok);
}
