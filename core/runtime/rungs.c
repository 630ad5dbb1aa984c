/* Which kernels may compute a session's products: what the device has, what the caller asks for, and what passes a
 * check of its numbers. */
#include "runtime/rungs.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "plan/variants.h"
#include "runtime/plan.h"

/* ---- the check: one small layer on the device, every group against its reference ---- */

/* Tokens of a batch with lengths that no tile divides. */
static const uint32_t check_offsets[] = {0, 1, 71, 96};
enum { CHECK_TOKENS = 96, CHECK_SEQUENCES = 3, CHECK_HEADS = 2 };

struct verdict {
    enum rung rung;
    wherry_status status; /* verify failed: a wrong result, or none; unsupported: no kernel of it fits */
    uint32_t groups;      /* that its kernels ran */
    char *reason;
    size_t reason_size;
};

static bool judge(const wherry_verify_result *result, void *user)
{
    struct verdict *v = user;
    if (!variant_of_rung(result->kernel, v->rung)) return true;
    v->groups++;
    if (result->passed) return true;
    v->status = WHERRY_STATUS_VERIFY_FAILED;
    snprintf(v->reason, v->reason_size, "its check fails: %s gives %s with an error of %s (NMSE, at most %s)",
             result->kernel, result->name, NUMBER("%.1e", result->nmse), NUMBER("%.0e", result->tolerance));
    return false;
}

static bool check_run(struct wherry_session *s, struct verdict *v)
{
    int32_t ids[CHECK_TOKENS];
    for (int i = 0; i < CHECK_TOKENS; i++) ids[i] = i % 64;
    const wherry_batch batch = {
        .struct_size = sizeof batch, .sequences = CHECK_SEQUENCES, .offsets = check_offsets, .ids = ids};
    wherry_verify_summary summary = {.struct_size = sizeof summary};
    wherry_status status = wherry_verify(s, &batch, 0, judge, v, &summary);
    /* What other kernels get wrong is not this rung's fault, and `wherry verify` tells it. */
    if (v->status) return false;
    if ((!status || status == WHERRY_STATUS_VERIFY_FAILED) && v->groups) return true;
    if (!status || status == WHERRY_STATUS_VERIFY_FAILED) {
        v->status = WHERRY_STATUS_UNSUPPORTED;
        snprintf(v->reason, v->reason_size, "none of its kernels fits this model's heads");
        return false;
    }
    v->status = WHERRY_STATUS_VERIFY_FAILED;
    snprintf(v->reason, v->reason_size, "its check can't run: %.180s", s->context->error.text);
    return false;
}

/* A session of the rung and the portable kernels alone. `units`: instead of the device's number of multiprocessors, by
 * which tiles are chosen; 0: the device's. NULL: failed. */
static struct wherry_session *check_create(struct wherry_context *context, struct wherry_device *device,
                                           const struct wherry_model *model, const wherry_session_desc *desc,
                                           enum rung rung, uint32_t units, struct error *e)
{
    struct wherry_session *s = session_new(context, device, model, e);
    bool over = false, ok = s && session_begin(s, desc, false, e);
    if (ok) {
        s->device_limits.rungs = RUNG_BIT(rung) | RUNG_BIT(RUNG_TILED);
        if (units) s->device_limits.compute_units = units;
        ok = session_cover(s, desc, e) && session_place(s, desc, &over, e) && session_finish(s, e);
    }
    if (over) session_remedy(session_tokens_within(s, desc), e);
    if (ok) return s;
    wherry_session_destroy(s);
    return NULL;
}

/* With as many multiprocessors as there are the tiles are small, for one alone they are the largest. */
static bool check_sized(struct wherry_session *s, struct wherry_device *device, const wherry_model *model,
                        const wherry_session_desc *desc, uint32_t units, struct verdict *v)
{
    struct wherry_session *check = check_create(s->context, device, model, desc, v->rung, units, &s->context->error);
    bool ok = check != NULL;
    if (ok)
        ok = check_run(check, v);
    else {
        v->status = WHERRY_STATUS_VERIFY_FAILED;
        snprintf(v->reason, v->reason_size, "its check can't be made: %.180s", s->context->error.text);
    }
    wherry_session_destroy(check);
    return ok;
}

/* Those of the check's model, which has no pooler. */
enum {
    CHECK_TRANSPOSED =
        WEIGHT_BIT(WEIGHT_QKV) | WEIGHT_BIT(WEIGHT_OUT) | WEIGHT_BIT(WEIGHT_LIN1) | WEIGHT_BIT(WEIGHT_LIN2)
};

/* Errors stay here: a rung that can't be checked is left out, and the session goes on without it. */
static wherry_status rung_check(struct wherry_session *s, enum rung rung, const struct layout_choice *layout,
                                char *reason, size_t reason_size)
{
    struct wherry_context *context = s->context;
    const wherry_model_config *like = &s->model->info.config;
    uint32_t head_dim = like->hidden / like->heads;
    wherry_model_config config = {.struct_size = sizeof config,
                                  .layers = 1,
                                  .hidden = CHECK_HEADS * head_dim,
                                  .heads = CHECK_HEADS,
                                  .feed_forward = 2 * CHECK_HEADS * head_dim,
                                  .vocabulary = 64,
                                  .positions = CHECK_TOKENS,
                                  .token_types = 1,
                                  .activation = like->activation};
    wherry_training_desc training = {.struct_size = sizeof training, .dropout = 0.1f};
    char layouts[ORDERS_TEXT];
    orders_text(layout, layouts);
    wherry_session_desc desc = {.struct_size = sizeof desc,
                                .max_tokens = CHECK_TOKENS,
                                .max_sequences = CHECK_SEQUENCES,
                                .dtype = WHERRY_DTYPE_F16,
                                .keep_intermediates = true,
                                .layouts = *layouts ? layouts : NULL,
                                .training = s->graph.n_forward < s->graph.n_ops ? &training : NULL};
    struct verdict verdict = {.rung = rung, .reason = reason, .reason_size = reason_size};
    struct error before = context->error;
    wherry_model *model = NULL;
    /* What a kernel that faults takes down with it is not the session's. An application's device can't be opened again;
     * there the check is made on the device itself. */
    struct wherry_device *device = s->device->external ? s->device : device_open_again(s->device, &context->error);
    if (!device || wherry_model_create_random(context, &config, 1, &model)) {
        verdict.status = WHERRY_STATUS_VERIFY_FAILED;
        snprintf(reason, reason_size, "its check can't be made: %.180s", context->error.text);
    } else if (check_sized(s, device, model, &desc, 0, &verdict))
        check_sized(s, device, model, &desc, 1, &verdict);
    wherry_model_close(model);
    if (device != s->device) wherry_device_close(device);
    context->error = before;
    return verdict.status;
}

/* Once in a context for each device, head size, pass and layout, which decide the kernels. Q, K and V lie as the
 * session has them. */
static wherry_status rung_status_with(struct wherry_session *s, enum rung rung, struct layout_choice layout,
                                      const char **reason)
{
    struct wherry_context *context = s->context;
    const char *device = s->device->info.id;
    bool training = s->graph.n_forward < s->graph.n_ops;
    uint32_t head_dim = s->model->info.config.hidden / s->model->info.config.heads;
    struct rung_check *found = NULL;
    layout.qkv_interleaved = s->layout.qkv_interleaved;
    for (int i = 0; i < CONTEXT_RUNG_CHECKS && !found; i++) {
        struct rung_check *c = &context->checks[i];
        if (c->head_dim == head_dim && c->training == training && c->rung == (uint32_t)rung &&
            layout_equal(&c->layout, &layout) && !strcmp(c->device, device))
            found = c;
    }
    if (!found) {
        found = &context->checks[context->next_check++ % CONTEXT_RUNG_CHECKS];
        *found =
            (struct rung_check){.rung = (uint32_t)rung, .head_dim = head_dim, .layout = layout, .training = training};
        snprintf(found->device, sizeof found->device, "%s", device);
        found->status = rung_check(s, rung, &layout, found->reason, sizeof found->reason);
        if (found->status)
            host_log(&context->host, WHERRY_LOG_WARNING, "%s: %s is left out: %s", device, rung_name(rung),
                     found->reason);
    }
    *reason = found->reason;
    return found->status;
}

/* Weights that lie transposed want other forms of the same kernels, each its own: with none and with all of them
 * transposed a check runs every form. One in both orders has a form of either. Channel-major order has forms of its
 * own, and goes with one order of the weights beside them. */
static wherry_status rung_status(struct wherry_session *s, enum rung rung, const char **reason)
{
    wherry_status status = WHERRY_STATUS_OK;
    static const struct layout_choice usual,
        all = {.transposed = CHECK_TRANSPOSED},
        channel_major = {.transposed = WEIGHT_BIT(WEIGHT_LIN2), .channel_major = true};
    uint32_t transposed = s->layout.transposed & CHECK_TRANSPOSED, copied = s->layout.copied & CHECK_TRANSPOSED;
    if (transposed != CHECK_TRANSPOSED || copied) status = rung_status_with(s, rung, usual, reason);
    if (!status && (transposed || copied)) status = rung_status_with(s, rung, all, reason);
    if (!status && s->layout.channel_major) status = rung_status_with(s, rung, channel_major, reason);
    return status;
}

/* ---- what a session takes ---- */

/* One that session_begin knows. */
static bool resolve_named(struct wherry_session *s, const char *kernels, struct error *e)
{
    struct device_limits *limits = &s->device_limits;
    if (!strcmp(kernels, "clblast")) {
        s->library = LIBRARY_WANTED;
        limits->rungs = RUNG_BIT(RUNG_TILED);
        if (s->f16) return fail(e, WHERRY_STATUS_UNSUPPORTED, "CLBlast's products are of f32: use dtype f32");
        if (!strcmp(s->device->backend->name, "opencl")) return true;
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: CLBlast runs through OpenCL", s->device->info.id);
    }
    int r = RUNG_TILED;
    const char *reason;
    while (strcmp(kernels, rung_name((enum rung)r))) r++;
    s->library = LIBRARY_REFUSED;
    if (r != RUNG_TILED && !s->f16)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "products by %s are of f16: use dtype f16", kernels);
    if (!(limits->rungs & RUNG_BIT(r)))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s (%s) has no %s", s->device->info.id, s->device->info.name,
                    kernels);
    limits->rungs = RUNG_BIT(RUNG_TILED);
    if (r == RUNG_TILED) return true;
    wherry_status status = rung_status(s, (enum rung)r, &reason);
    if (status) return fail(e, status, "%s: products by %s: %s", s->device->info.id, kernels, reason);
    limits->rungs |= RUNG_BIT(r);
    return true;
}

bool session_rungs(struct wherry_session *s, const char *kernels, struct error *e)
{
    struct device_limits *limits = &s->device_limits;
    *limits = *s->device->backend->limits(s->device->handle);
    if (kernels && *kernels && strcmp(kernels, "auto")) return resolve_named(s, kernels, e);
    for (int r = RUNG_TILED + 1; r < RUNG_COUNT; r++) {
        const char *reason;
        if (!(limits->rungs & RUNG_BIT(r))) continue;
        if (r == RUNG_SMALL_BATCH && s->limits.tokens > SMALL_BATCH_ROWS) { /* nothing to check */
            limits->rungs &= ~RUNG_BIT(r);
            continue;
        }
        /* Asked for by its name it runs there all the same: so do tests. */
        reason = "a CPU's driver computes matrices element by element";
        if (s->f16 && !limits->cpu && !rung_status(s, (enum rung)r, &reason)) continue;
        limits->rungs &= ~RUNG_BIT(r);
        if (s->f16) TRY(session_note(s, e, "products by %s are left out: %s", rung_name((enum rung)r), reason));
    }
    return true;
}
