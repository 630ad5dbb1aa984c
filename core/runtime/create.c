/* Creates sessions: their plan, of the rungs that pass their checks. */
#include "runtime/create.h"

#include "runtime/plan.h"
#include "runtime/rungs.h"

static bool session_make(struct wherry_session *s, const wherry_session_desc *desc, bool checked, struct error *e);

/* Most tokens of a session that is within the budget: one of fewer tokens may have other kernels, and another plan with
 * them, so it is made. */
static uint32_t tokens_fit(struct wherry_session *s, const wherry_session_desc *desc)
{
    struct error e = {0};
    struct wherry_session *smaller = NULL;
    wherry_session_desc of_smaller = *desc;
    uint32_t tokens = session_tokens_within(s, desc);
    of_smaller.max_tokens = tokens;
    if (!tokens || tokens == s->limits.tokens || !(smaller = session_new(s->context, s->device, s->model, &e)))
        return 0;
    smaller->shares = s->shares;
    if (!session_make(smaller, &of_smaller, false, &e)) tokens = smaller->tokens_fit;
    wherry_session_destroy(smaller);
    return tokens;
}

/* Others find its weights from now on. Where they had some of them meanwhile, it is planned with these. */
static bool session_share(struct wherry_session *s, const wherry_session_desc *desc, struct error *e)
{
    for (bool again, over;;) {
        TRY(shared_weights_publish(s, &again, e));
        if (!again) return true;
        if (!session_place(s, desc, &over, e)) return over && session_remedy(0, e);
    }
}

/* Within its budget first: a check compiles. */
static bool session_make(struct wherry_session *s, const wherry_session_desc *desc, bool checked, struct error *e)
{
    bool over = false, hold = true;
    TRY(session_begin(s, desc, true, e) && session_rungs(s, desc->kernels, e));
    do {
        TRY(session_cover(s, desc->only, !desc->only, e));
        if (!session_place(s, desc, &over, e)) {
            if (!over) return false;
            s->tokens_fit = tokens_fit(s, desc);
            return session_remedy(s->tokens_fit, e);
        }
        if (checked) TRY(session_rungs_check(s, desc, &hold, e));
    } while (!hold);
    return session_finish(s, e) && (!checked || session_share(s, desc, e));
}

bool session_create(struct wherry_context *context, struct wherry_device *device, const struct wherry_model *model,
                    const wherry_session_desc *desc, bool shares, struct wherry_session **out, struct error *e)
{
    int before = part_enter(&context->host, PART_PLAN);
    struct wherry_session *s = session_new(context, device, model, e);
    /* What measures or verifies writes to memory as it likes, and training changes weights. */
    if (s) s->shares = shares && !desc->training && !desc->keep_intermediates && !desc->only;
    bool ok = s && session_make(s, desc, true, e);
    part_leave(&context->host, before);
    if (ok)
        *out = s;
    else
        wherry_session_destroy(s);
    return ok;
}

wherry_status wherry_session_create(wherry_context *context, wherry_device *device, const wherry_model *model,
                                    const wherry_session_desc *desc, wherry_session **out)
{
    static const wherry_session_desc defaults = {.struct_size = sizeof defaults};
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!device || !model || !out)
        return context_invalid(context, "wherry_session_create: device, model or out is NULL");
    if (!desc) desc = &defaults;
    if (desc->struct_size != sizeof *desc)
        return context_invalid(context, "wherry_session_desc.struct_size is %u, this library's is %zu",
                               desc->struct_size, sizeof *desc);
    return context_status(context, session_create(context, device, model, desc, true, out, context_error(context)));
}
