/* The check of kernels' numbers: the session's own programs on a small batch and two layers of random weights, each of
 * its groups against its reference. What is compiled for it the session runs. */
#include "runtime/rung_check.h"

#include <stdio.h>
#include <string.h>

#include "backends/quirks.h"
#include "base/index.h"
#include "base/number.h"
#include "base/text.h"
#include "runtime/batches.h"
#include "runtime/plan.h"
#include "runtime/rung_kept.h"
#include "runtime/rung_small.h"
#include "runtime/verify.h"

/* ---- which groups ---- */

/* Lengths that no tile divides. */
enum { CHECK_TOKENS = 96, CHECK_LONGEST = 70 };

/* A group of the session's, one of those that have the same calls, that nobody has checked. */
struct unit {
    int group, place; /* in the session; in the check's */
    uint32_t rungs;   /* of its kernels */
    bool failed;
    struct rung_key key;
};

struct check {
    struct wherry_session *of;
    struct unit *units; /* in the order of the check's groups, once it is planned */
    int count;
    uint32_t failed; /* rungs */
    char *reason;    /* of the first of them */
    size_t reason_size;
    int judged; /* units that the verification has come to */
};

/* Of the rungs that the session may take: a kernel may belong to two. The portable ones are checked where the driver is
 * known to miscompile some. */
static uint32_t rungs_of_kernel(const struct wherry_session *s, const char *kernel)
{
    uint32_t rungs = 0;
    for (int r = s->device_limits.quirks & QUIRK_CHECK_ALL ? RUNG_TILED : RUNG_TILED + 1; r < RUNG_COUNT; r++)
        if (s->device_limits.rungs & RUNG_BIT(r) && variant_of_rung(kernel, (enum rung)r)) rungs |= RUNG_BIT(r);
    return rungs;
}

uint32_t rungs_taken(const struct wherry_session *s)
{
    uint32_t rungs = 0;
    for (int i = 0; i < s->n_calls; i++) rungs |= rungs_of_kernel(s, s->calls[i].kernel);
    return rungs;
}

static uint32_t rungs_of_group(const struct wherry_session *s, int group)
{
    uint32_t rungs = 0;
    for (int i = group_first_call(s, group); i < s->n_calls && s->call_groups[i] == group; i++)
        rungs |= rungs_of_kernel(s, s->calls[i].kernel);
    return rungs;
}

static bool calls_equal(const struct call *a, const struct call *b)
{
    bool equal = !strcmp(a->kernel, b->kernel) && a->launch == b->launch && a->n_constants == b->n_constants;
    for (int i = 0; equal && i < a->n_constants; i++)
        equal = a->constants[i].id == b->constants[i].id && a->constants[i].value == b->constants[i].value;
    return equal;
}

static bool groups_equal(const struct wherry_session *s, int group, const struct wherry_session *other, int its)
{
    int a = group_first_call(s, group), b = group_first_call(other, its);
    for (;; a++, b++) {
        bool more = a < s->n_calls && s->call_groups[a] == group,
             its_more = b < other->n_calls && other->call_groups[b] == its;
        if (more != its_more || !more) return more == its_more;
        if (!calls_equal(&s->calls[a], &other->calls[b])) return false;
    }
}

/* ---- what is known ---- */

static void fail_rungs(struct check *c, uint32_t rungs, const char *reason)
{
    if (!c->failed) snprintf(c->reason, c->reason_size, "%s", reason);
    c->failed |= rungs;
}

/* True: it was passed, or it was not, which is taken note of. */
static bool is_known(struct check *c, const struct unit *unit)
{
    struct rung_check check;
    const bool known = rung_recall(c->of, &unit->key, &check);
    char result[RUNG_RESULT];
    if (known && check.failed) fail_rungs(c, unit->rungs, check.reason);
    if (known) return true;
    if (!rung_kept(&c->of->context->host, &unit->key, result)) return false;
    rung_remember(c->of, &unit->key, NULL);
    return true;
}

/* The units that are to be checked. */
static bool units_collect(struct check *c, struct error *e)
{
    struct wherry_session *s = c->of;
    const struct host *host = &s->context->host;
    size_t room = 0;
    int *seen = host_alloc(host, (size_t)s->n_groups, sizeof *seen, e), n_seen = 0;
    bool ok = seen != NULL;
    for (int g = 0; ok && g < s->n_groups; g++) {
        struct unit unit = {.group = g, .rungs = rungs_of_group(s, g)};
        int i = 0;
        while (i < n_seen && !groups_equal(s, g, s, seen[i])) i++;
        if (!unit.rungs || i < n_seen) continue;
        seen[n_seen++] = g;
        if (!rung_key_make(s, g, &unit.key)) {
            ok = fail(e, WHERRY_STATUS_UNSUPPORTED, "the names of the device and its driver are too long for a key");
        } else if (!is_known(c, &unit)) {
            struct unit *grown = host_grow_one(host, c->units, (size_t)c->count, &room, sizeof *grown, e);
            if ((ok = grown != NULL)) (c->units = grown)[c->count++] = unit;
        }
    }
    host_free(host, seen);
    return ok;
}

/* ---- its session ---- */

/* Leaves these groups; of a training session all, for what the backward pass reads must fit together. */
static void keep_units(struct wherry_session *s, const struct check *c)
{
    int groups = 0, calls = 0;
    for (int g = 0, call = 0; g < s->n_groups; g++) {
        bool kept = groups < c->count && c->units[groups].place == g;
        for (; call < s->n_calls && s->call_groups[call] == g; call++) {
            if (!kept) continue;
            s->calls[calls] = s->calls[call];
            s->reasons[calls] = s->reasons[call];
            s->call_groups[calls++] = groups;
        }
        if (!kept) continue;
        s->groups[groups] = s->groups[g];
        s->scratch[groups] = s->scratch[g];
        c->units[groups].place = groups;
        groups++;
    }
    s->n_groups = groups;
    s->n_calls = s->boundary = calls;
    s->part = true;
}

/* Finds the units among the groups, and sorts them by these. */
static bool units_place(struct check *c, const struct wherry_session *s, struct error *e)
{
    for (int i = 0; i < c->count; i++) {
        struct unit unit = c->units[i];
        unit.place = 0;
        while (unit.place < s->n_groups && !groups_equal(c->of, unit.group, s, unit.place)) unit.place++;
        if (unit.place == s->n_groups)
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "a small model has no group with the calls of %s",
                        group_short_name(&c->of->groups[unit.group]));
        int at = i;
        for (; at > 0 && c->units[at - 1].place > unit.place; at--) c->units[at] = c->units[at - 1];
        c->units[at] = unit;
    }
    return true;
}

static bool check_plan(struct check *c, struct wherry_session *s, const wherry_session_desc *of, struct error *e)
{
    struct small small;
    bool over = false;
    TRY(small_begin(c->of, s, of, true, &small, e));
    bool ok = session_cover(s, NULL, !of->only, e) && units_place(c, s, e);
    s->tuning = (struct tuning){0};
    if (ok && !of->training) keep_units(s, c);
    if (ok) session_shrink(s, CHECK_TOKENS, CHECK_LONGEST);
    ok = ok && session_place(s, &small.desc, &over, e) && session_finish(s, e);
    return ok || (over && session_remedy(session_tokens_within(s, &small.desc), e));
}

/* ---- a run of it ---- */

static bool judge(const wherry_verify_result *result, void *user)
{
    struct check *c = user;
    char reason[256];
    struct unit *unit = &c->units[c->judged++];
    if (result->passed) return true;
    unit->failed = true;
    snprintf(reason, sizeof reason, "its check fails: %s gives %s with an error of %s (NMSE, at most %s)",
             result->kernel, result->name, NUMBER("%.1e", result->nmse), NUMBER("%.0e", result->tolerance));
    fail_rungs(c, unit->rungs, reason);
    return true;
}

/* What can't be made or run is laid to the highest rung that is in it: without it, what is left is checked again. */
static void fail_highest(struct check *c, const char *what, const struct error *e)
{
    char reason[256];
    uint32_t all = 0, highest = 1;
    for (int i = 0; i < c->count; i++) all |= c->units[i].rungs;
    while (all / 2 >= highest) highest *= 2;
    for (int i = 0; i < c->count; i++) c->units[i].failed = c->units[i].rungs & highest;
    snprintf(reason, sizeof reason, "%s: %.180s", what, e->text);
    fail_rungs(c, highest, reason);
}

static void check_run(struct check *c, struct wherry_session *s)
{
    enum { MOST = CHECK_TOKENS };
    uint32_t offsets[MOST + 1] = {0};
    int32_t ids[MOST], labels[MOST];
    wherry_batch batch = {.struct_size = sizeof batch, .offsets = offsets, .ids = ids};
    wherry_verify_summary summary = {.struct_size = sizeof summary};
    uint32_t tokens = (uint32_t)s->limits.tokens, length = s->limits.sequences > 1 ? 1 : s->limits.longest;
    for (uint32_t i = 0; i < tokens; i++) ids[i] = (int32_t)(i % small_words(s->model));
    session_bare_labels(s, &batch, labels, tokens);
    for (uint32_t end = 0; end < tokens && batch.sequences < s->limits.sequences; length = s->limits.longest) {
        end += length < tokens - end ? length : tokens - end;
        offsets[++batch.sequences] = end;
    }
    bool *wanted = host_alloc(&s->context->host, (size_t)s->n_groups, sizeof *wanted, context_error(s->context));
    wherry_status status = WHERRY_STATUS_OUT_OF_HOST_MEMORY;
    for (int i = 0; wanted && i < c->count; i++) wanted[c->units[i].place] = true;
    if (wanted) status = session_verify(s, &batch, wanted, 0, judge, c, &summary);
    host_free(&s->context->host, wanted);
    bool compared = summary.groups == (uint32_t)c->count;
    if (compared && (!status || status == WHERRY_STATUS_VERIFY_FAILED)) return;
    fail_highest(c, "its check can't run", context_error(s->context));
}

/* What a kernel that faults takes down with it is not the session's. An application's device can't be opened again;
 * there the check is made on the device itself. */
static void check_make(struct check *c, const wherry_session_desc *desc)
{
    static const char failed[] = "its check can't be made";
    struct wherry_context *context = c->of->context;
    struct error *e = context_error(context);
    struct wherry_session *s = NULL;
    struct wherry_device *device = NULL, *own = c->of->device;
    wherry_model *model = small_model(c->of, desc, e);
    bool ok = model && (s = session_new(context, own, model, e)) && check_plan(c, s, desc, e);
    if (ok && (device = own->external ? own : device_open_again(own, e))) {
        s->device = device;
        check_run(c, s);
    } else {
        fail_highest(c, failed, e);
    }
    wherry_session_destroy(s); /* before the device goes */
    if (device != own) wherry_device_close(device);
    small_model_close(model);
}

static void units_keep(const struct check *c)
{
    for (int i = 0; i < c->count; i++) {
        const struct unit *unit = &c->units[i];
        if (unit->failed || !c->failed) rung_remember(c->of, &unit->key, unit->failed ? c->reason : NULL);
        if (!c->failed) rung_keep(&c->of->context->host, &unit->key, "passed");
    }
}

/* Errors stay here: a rung that can't be checked is left out, and the session goes on without it. */
uint32_t rungs_failing(struct wherry_session *s, const wherry_session_desc *desc, char *reason, size_t reason_size)
{
    struct wherry_context *context = s->context;
    struct check c = {.of = s, .reason = reason, .reason_size = reason_size};
    struct error *e = context_error(context), before = *e;
    if (!units_collect(&c, e)) {
        char why[256];
        snprintf(why, sizeof why, "its check can't be made: %.180s", e->text);
        fail_rungs(&c, rungs_taken(s), why);
    } else if (c.count && !c.failed) {
        check_make(&c, desc);
        units_keep(&c);
    }
    host_free(&context->host, c.units);
    *e = before;
    return c.failed;
}
