/* Which kernels may compute a session's products: what the device has, what the caller asks for, and what passes a
 * check of its numbers. */
#include "runtime/rungs.h"

#include <stdio.h>
#include <string.h>

#include "base/parts.h"
#include "runtime/rung_check.h"

/* ---- what was checked already ---- */

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
        int before = part_enter(&context->host, PART_CHECK);
        found->status = rung_check(s, rung, &layout, found->reason, sizeof found->reason);
        part_leave(&context->host, before);
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

/* Whether the library is there, the backend says when it is to be used. */
static bool resolve_library(struct wherry_session *s, const char *name, const char *backend, const char *where,
                            struct error *e)
{
    s->library = LIBRARY_WANTED;
    s->device_limits.rungs = RUNG_BIT(RUNG_TILED);
    if (s->f16 || s->bf16) return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s's products are of f32: use dtype f32", name);
    if (!strcmp(s->device->backend->name, backend)) return true;
    return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: %s runs %s", s->device->info.id, name, where);
}

/* One that session_begin knows. */
static bool resolve_named(struct wherry_session *s, const char *kernels, struct error *e)
{
    struct device_limits *limits = &s->device_limits;
    if (!strcmp(kernels, "clblast")) return resolve_library(s, "CLBlast", "opencl", "through OpenCL", e);
    if (!strcmp(kernels, "onednn")) return resolve_library(s, "oneDNN", "cpu", "on the device cpu", e);
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
