/* The check of a rung's numbers: one small layer on the device, its groups against their references. */
#include "runtime/rung_check.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "runtime/device_list.h"
#include "runtime/plan.h"
#include "runtime/rung_kept.h"

/* ---- a run of it ---- */

/* Tokens of a batch with lengths that no tile divides. */
static const uint32_t check_offsets[] = {0, 1, 71, 96};
enum { CHECK_TOKENS = 96, CHECK_SEQUENCES = 3, CHECK_HEADS = 2 };

struct verdict {
    enum rung rung;
    wherry_status status; /* as rung_check returns it */
    char *reason;
    size_t reason_size;
};

static bool judge(const wherry_verify_result *result, void *user)
{
    struct verdict *v = user;
    if (!variant_of_rung(result->kernel, v->rung)) return true;
    if (result->passed) return true;
    v->status = WHERRY_STATUS_VERIFY_FAILED;
    snprintf(v->reason, v->reason_size, "its check fails: %s gives %s with an error of %s (NMSE, at most %s)",
             result->kernel, result->name, NUMBER("%.1e", result->nmse), NUMBER("%.0e", result->tolerance));
    return false;
}

static void check_run(struct wherry_session *s, struct verdict *v)
{
    int32_t ids[CHECK_TOKENS];
    for (int i = 0; i < CHECK_TOKENS; i++) ids[i] = i % 64;
    const wherry_batch batch = {
        .struct_size = sizeof batch, .sequences = CHECK_SEQUENCES, .offsets = check_offsets, .ids = ids};
    wherry_verify_summary summary = {.struct_size = sizeof summary};
    wherry_status status = wherry_verify(s, &batch, 0, judge, v, &summary);
    if (v->status) return;
    /* What other kernels get wrong is not this rung's fault, and `wherry verify` tells it. But all was compared. */
    bool compared = summary.groups == (uint32_t)s->n_groups;
    if (compared && (!status || status == WHERRY_STATUS_VERIFY_FAILED)) return;
    v->status = WHERRY_STATUS_VERIFY_FAILED;
    snprintf(v->reason, v->reason_size, "its check can't run: %.180s", s->context->error.text);
}

/* ---- its sessions ---- */

/* With as many multiprocessors as the device has the tiles are small, for one alone they are the largest. */
enum { CHECK_SESSIONS = 2 };
static const uint32_t check_units[CHECK_SESSIONS] = {0, 1}; /* 0: the device's number */

/* Leaves the groups that the rung's kernels run: the others need not be compiled to check these. */
static void keep_rung(struct wherry_session *s, enum rung rung)
{
    int groups = 0, calls = 0;
    for (int g = 0, call = 0; g < s->n_groups; g++) {
        bool kept = variant_of_rung(s->calls[call].kernel, rung);
        for (; call < s->n_calls && s->call_groups[call] == g; call++) {
            if (!kept) continue;
            s->calls[calls] = s->calls[call];
            s->reasons[calls] = s->reasons[call];
            s->call_groups[calls++] = groups;
        }
        if (!kept) continue;
        s->groups[groups] = s->groups[g];
        s->scratch[groups++] = s->scratch[g];
    }
    s->n_groups = groups;
    s->n_calls = s->boundary = calls;
    s->part = true;
}

static bool has_rung(const struct wherry_session *s, enum rung rung)
{
    for (int g = 0; g < s->n_groups; g++)
        if (variant_of_rung(s->calls[group_first_call(s, g)].kernel, rung)) return true;
    return false;
}

/* A session of the rung and the portable kernels alone, planned. A training session has all its groups: what the
 * backward pass reads must fit together. NULL: failed. */
static struct wherry_session *check_create(struct wherry_session *of, const wherry_model *model,
                                           const wherry_session_desc *desc, enum rung rung, uint32_t units,
                                           struct error *e)
{
    struct wherry_session *s = session_new(of->context, of->device, model, e);
    bool over = false, ok = s && session_begin(s, desc, false, e);
    if (ok) {
        s->device_limits.rungs = RUNG_BIT(rung) | RUNG_BIT(RUNG_TILED);
        if (units) s->device_limits.compute_units = units;
        ok = session_cover(s, desc, e);
    }
    if (ok && !desc->training && has_rung(s, rung)) keep_rung(s, rung);
    ok = ok && session_place(s, desc, &over, e) && session_finish(s, e);
    if (over) session_remedy(session_tokens_within(s, desc), e);
    if (ok) return s;
    wherry_session_destroy(s);
    return NULL;
}

/* ---- all of it ---- */

struct check {
    wherry_model *model;
    struct wherry_session *sessions[CHECK_SESSIONS];
};

static bool check_plan(struct wherry_session *s, enum rung rung, const struct layout_choice *layout, struct check *c,
                       struct error *e)
{
    const wherry_model_config *like = &s->model->info.config;
    uint32_t head_dim = like->hidden / like->heads;
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 1,
                                        .hidden = CHECK_HEADS * head_dim,
                                        .heads = CHECK_HEADS,
                                        .feed_forward = 2 * CHECK_HEADS * head_dim,
                                        .vocabulary = 64,
                                        .positions = CHECK_TOKENS,
                                        .token_types = 1,
                                        .activation = like->activation};
    const wherry_training_desc training = {.struct_size = sizeof training, .dropout = 0.1f};
    char layouts[ORDERS_TEXT];
    orders_text(layout, layouts);
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = CHECK_TOKENS,
                                      .max_sequences = CHECK_SEQUENCES,
                                      .dtype = WHERRY_DTYPE_F16,
                                      .keep_intermediates = true,
                                      .layouts = *layouts ? layouts : NULL,
                                      .training = s->graph.n_forward < s->graph.n_ops ? &training : NULL};
    if (wherry_model_create_random(s->context, &config, 1, &c->model)) return false; /* *e is the context's */
    for (int i = 0; i < CHECK_SESSIONS; i++)
        if (!(c->sessions[i] = check_create(s, c->model, &desc, rung, check_units[i], e))) return false;
    return true;
}

/* What a kernel that faults takes down with it is not the session's. An application's device can't be opened again;
 * there the check is made on the device itself. */
static void check_run_all(struct wherry_session *s, struct check *c, struct verdict *v)
{
    struct error *e = &s->context->error;
    struct wherry_device *device = s->device->external ? s->device : device_open_again(s->device, e);
    if (!device) {
        v->status = WHERRY_STATUS_VERIFY_FAILED;
        snprintf(v->reason, v->reason_size, "its check can't be made: %.180s", e->text);
        return;
    }
    for (int i = 0; i < CHECK_SESSIONS && !v->status; i++) {
        c->sessions[i]->device = device;
        if (has_rung(c->sessions[i], v->rung)) check_run(c->sessions[i], v);
    }
    for (int i = 0; i < CHECK_SESSIONS; i++) { /* before the device goes */
        wherry_session_destroy(c->sessions[i]);
        c->sessions[i] = NULL;
    }
    if (device != s->device) wherry_device_close(device);
}

/* Errors stay here: a rung that can't be checked is left out, and the session goes on without it. */
wherry_status rung_check(struct wherry_session *s, enum rung rung, const struct layout_choice *layout, char *reason,
                         size_t reason_size)
{
    struct wherry_context *context = s->context;
    const struct host *host = &context->host;
    struct verdict verdict = {.rung = rung, .reason = reason, .reason_size = reason_size};
    struct error before = context->error;
    struct check c = {0};
    struct rung_key key;
    if (!check_plan(s, rung, layout, &c, &context->error)) {
        verdict.status = WHERRY_STATUS_VERIFY_FAILED;
        snprintf(reason, reason_size, "its check can't be made: %.180s", context->error.text);
    } else if (!has_rung(c.sessions[0], rung)) {
        verdict.status = WHERRY_STATUS_UNSUPPORTED;
        snprintf(reason, reason_size, "none of its kernels fits this model's heads");
    } else {
        bool keyed = rung_key_make(s->device, rung, c.sessions, CHECK_SESSIONS, &key);
        if (!keyed || !rung_kept(host, &key)) {
            check_run_all(s, &c, &verdict);
            if (keyed && !verdict.status) rung_keep(host, &key);
        }
    }
    for (int i = 0; i < CHECK_SESSIONS; i++) wherry_session_destroy(c.sessions[i]);
    wherry_model_close(c.model);
    context->error = before;
    return verdict.status;
}
