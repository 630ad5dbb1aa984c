/* Which kernels may compute a session's products: what the device has, what the caller asks for, and what passes a
 * check of its numbers. */
#include "runtime/rungs.h"

#include <stdio.h>
#include <string.h>

#include "base/parts.h"
#include "runtime/plan.h"
#include "runtime/rung_check.h"
#include "runtime/rung_speed.h"

/* ---- what a session takes ---- */

/* Those that have products of the type. */
static uint32_t type_rungs(enum storage type, const struct device_limits *limits)
{
    if (type == STORAGE_F32) return RUNG_BIT(RUNG_TILED);
    return type == STORAGE_F16 || limits->coopmat_bf16 ? UINT32_MAX : ~RUNG_BIT(RUNG_COOPMAT);
}

/* What there is of the session's type. Of bf16 cooperative matrices are operands alone, so that attention, whose
 * weights become operands in them, goes without; and whether they are faster nobody has seen yet. */
static void type_limits(enum storage type, struct device_limits *limits)
{
    if (type != STORAGE_BF16) return;
    limits->coopmat_f16_sums = false;
    limits->rungs_unmeasured |= limits->rungs & RUNG_BIT(RUNG_COOPMAT);
}

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
    while (strcmp(kernels, rung_name((enum rung)r))) r++;
    s->library = LIBRARY_REFUSED;
    if (r != RUNG_TILED && !(type_rungs(session_type(s), limits) & RUNG_BIT(r)))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "products by %s are not of %s: use dtype f16", kernels,
                    storage_name(session_type(s)));
    if (!(limits->rungs & RUNG_BIT(r)))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s (%s) has no %s", s->device->info.id, s->device->info.name,
                    kernels);
    limits->rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(r);
    return true;
}

static bool is_named(const char *kernels) { return kernels && *kernels && strcmp(kernels, "auto"); }

static bool leave_out(struct wherry_session *s, enum rung rung, const char *reason, struct error *e)
{
    s->device_limits.rungs &= ~RUNG_BIT(rung);
    return session_note(s, e, "products by %s are left out: %s", rung_name(rung), reason);
}

bool session_rungs(struct wherry_session *s, const char *kernels, struct error *e)
{
    struct device_limits *limits = &s->device_limits;
    *limits = *s->device->backend->limits(s->device->handle);
    type_limits(session_type(s), limits);
    if (is_named(kernels)) return resolve_named(s, kernels, e);
    if (s->limits.tokens > SMALL_BATCH_ROWS) limits->rungs &= ~RUNG_BIT(RUNG_SMALL_BATCH);
    /* Asked for by its name it runs there all the same: so do tests. */
    limits->rungs &= type_rungs(session_type(s), limits);
    for (int r = RUNG_TILED + 1; limits->cpu && r < RUNG_COUNT; r++)
        if (limits->rungs & RUNG_BIT(r))
            TRY(leave_out(s, (enum rung)r, "a CPU's driver computes matrices element by element", e));
    return true;
}

bool session_rungs_check(struct wherry_session *s, const wherry_session_desc *desc, bool *hold, struct error *e)
{
    char reason[256] = "none of its kernels fits this model's heads";
    bool named = is_named(desc->kernels);
    uint32_t may = s->device_limits.rungs & ~RUNG_BIT(RUNG_TILED), failing = 0;
    wherry_status status = WHERRY_STATUS_VERIFY_FAILED;
    *hold = true;
    /* Where nothing runs there are no numbers to check: what the device has is compiled. */
    if (s->device->info.compiles_only && rungs_taken(s)) return true;
    if (rungs_taken(s)) {
        int before = part_enter(&s->context->host, PART_CHECK);
        failing = rungs_failing(s, desc, reason, sizeof reason);
        if (!failing && !named) failing = rungs_slower(s, desc, reason, sizeof reason);
        part_leave(&s->context->host, before);
    } else if (named && may) {
        failing = may;
        status = WHERRY_STATUS_UNSUPPORTED;
    }
    if (failing & RUNG_BIT(RUNG_TILED))
        return fail(e, status,
                    "%s: its driver is known to miscompile some kernels, and of this session's %s: update it",
                    s->device->info.id, reason);
    if (failing && named) return fail(e, status, "%s: products by %s: %s", s->device->info.id, desc->kernels, reason);
    if (failing) session_uncover(s);
    for (int r = RUNG_TILED + 1; r < RUNG_COUNT; r++)
        if (failing & RUNG_BIT(r)) TRY(leave_out(s, (enum rung)r, reason, e));
    *hold = !failing;
    return true;
}
