/* The passes of a training session with objects of the application's: buffers of its device, semaphores, events. */
#include "runtime/encode.h"
#include "runtime/outside.h"
#include "runtime/results.h"
#include "runtime/train.h"

static wherry_status ready(wherry_session *s, const char *call, const wherry_pass_desc *desc)
{
    if (!s) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!desc || desc->struct_size != sizeof *desc)
        return context_invalid(s->context, "%s: desc is NULL, or its struct_size is not %zu", call, sizeof *desc);
    if (s->graph.out_gradient < 0 || s->graph.input >= 0 || s->part)
        return context_invalid(s->context,
                               "%s: for a session that trains from ids (wherry_session_desc.training, no stack)", call);
    return s->prepared ? WHERRY_STATUS_OK : wherry_session_prepare(s, NULL, NULL, NULL);
}

/* Takes over what the caller has for a pass of this batch. */
static bool objects_take(const struct wherry_session *s, const wherry_pass_desc *desc, const wherry_batch *batch,
                         struct outside *out, struct error *e)
{
    const wherry_submit_desc objects = {.struct_size = sizeof objects, .vulkan = desc->vulkan, .opencl = desc->opencl};
    *out = (struct outside){0};
    if (!desc->vulkan && !desc->opencl) return true;
    TRY(session_outside(s, &objects, batch, out, e));
    if (out->ids.buffer)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "ids of a training batch come from the host: set wherry_batch.ids");
    if ((out->result.buffer || out->gradient.buffer) && s->f16 && out->result_type == WHERRY_DTYPE_F32)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "this session stores %s, and its passes take and give rows as they are stored: set result_type "
                    "to WHERRY_DTYPE_%s, or create the session with WHERRY_DTYPE_F32",
                    storage_name(session_type(s)), s->bf16 ? "BF16" : "F16");
    return true;
}

/* ---- the passes ---- */

static bool forward(struct wherry_session *s, const wherry_batch *batch, const wherry_step *step,
                    const wherry_pass_desc *desc, struct error *e)
{
    struct outside outside;
    TRY(session_batch_check(s, batch, true, e) && objects_take(s, desc, batch, &outside, e));
    if (outside.gradient.buffer)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "a buffer of gradients is for wherry_backward_submit");
    return session_forward(s, batch, step, desc->vulkan || desc->opencl ? &outside : NULL, e);
}

static bool backward(struct wherry_session *s, const wherry_pass_desc *desc, struct error *e)
{
    struct outside outside;
    const wherry_batch batch = {
        .struct_size = sizeof batch, .sequences = s->shape.sequences, .offsets = s->shape.offsets};
    if (!s->forward_done) return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "there was no forward pass before");
    TRY(objects_take(s, desc, &batch, &outside, e));
    if (!outside.gradient.buffer || outside.result.buffer)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "a backward pass takes the buffer `gradient`, and gives no result: read gradients with "
                    "wherry_gradient_read");
    return session_backward(s, &outside, e);
}

wherry_status wherry_forward_submit(wherry_session *session, const wherry_batch *batch, const wherry_step *step,
                                    const wherry_pass_desc *desc)
{
    wherry_status status = ready(session, "wherry_forward_submit", desc);
    if (status) return status;
    struct wherry_context *context = session->context;
    struct error *e = context_error(context);
    if (!batch || (step && step->struct_size != sizeof *step))
        return context_invalid(context, "wherry_forward_submit: batch is NULL, or step->struct_size is not %zu",
                               sizeof *step);
    return context_status(context, forward(session, batch, step, desc, e) || fail_in(e, "wherry_forward_submit"));
}

wherry_status wherry_backward_submit(wherry_session *session, const wherry_pass_desc *desc)
{
    wherry_status status = ready(session, "wherry_backward_submit", desc);
    if (status) return status;
    struct error *e = context_error(session->context);
    return context_status(session->context, backward(session, desc, e) || fail_in(e, "wherry_backward_submit"));
}

wherry_status wherry_passes_wait(wherry_session *session)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct error *e = context_error(session->context);
    return context_status(session->context, !session->prepared || session_passes_wait(session, e));
}
