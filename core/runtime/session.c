/* A session's notes, its end, and what it tells of itself. */
#include "runtime/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "runtime/buffers.h"
#include "runtime/encode.h"
#include "runtime/portions.h"
#include "runtime/submit.h"

struct wherry_session *session_new(struct wherry_context *context, struct wherry_device *device,
                                   const struct wherry_model *model, struct error *e)
{
    struct wherry_session *s = host_alloc(&context->host, 1, sizeof *s, e);
    if (!s) return NULL;
    s->context = context;
    s->device = device;
    s->model = model;
    return s;
}

/* Of bf16: what is multiplied with weights is rounded to 8 digits, of which the mean square error is at most 2^-18 / 3
 * in the worst half of a binade. Stored so, values are off as those of f16 are with 3 digits less: squares are 64 times
 * as large. */
double session_tolerance(const struct wherry_session *s)
{
    return s->bf16 && s->f16 ? 6e-5 : s->bf16 ? 1e-5 : s->f16 ? 1e-6 : 1e-10;
}

bool session_note_logged(struct wherry_session *s, const char *note, struct error *e)
{
    const struct host *host = &s->context->host;
    void *grown = host_grow(host, s->notes, (size_t)s->n_notes, (size_t)s->n_notes + 1, sizeof *s->notes, e);
    if (!grown) return false;
    s->notes = grown;
    snprintf(s->notes[s->n_notes++], sizeof *s->notes, "%s", note);
    return true;
}

bool session_note(struct wherry_session *s, struct error *e, const char *format, ...)
{
    char note[sizeof *s->notes];
    va_list ap;
    va_start(ap, format);
    utf8_format(note, sizeof note, format, ap);
    va_end(ap);
    for (int i = 0; i < s->n_notes; i++)
        if (!strcmp(s->notes[i], note)) return true;
    TRY(session_note_logged(s, note, e));
    host_log(&s->context->host, WHERRY_LOG_WARNING, "%s", note);
    return true;
}

const char *wherry_session_note(const wherry_session *session, size_t index)
{
    return session && index < (size_t)session->n_notes ? session->notes[index] : NULL;
}

int group_first_call(const struct wherry_session *s, int group)
{
    int first = 0;
    while (s->call_groups[first] != group) first++;
    return first;
}

void wherry_session_destroy(wherry_session *session)
{
    if (!session) return;
    const struct host *host = &session->context->host;
    const struct backend *backend = session->device->backend;
    session_passes_leave(session);
    tickets_close(session->tickets);
    portions_destroy(session);
    backend->program_destroy(session->device->handle, session->program);
    session_free_buffers(session);
    host_free(host, session->steps);
    host_free(host, session->ends);
    host_free(host, session->pieces);
    host_free(host, session->grids);
    host_free(host, session->words);
    host_free(host, session->batch_u32);
    host_free(host, session->offsets);
    host_free(host, session->output_storage);
    host_free(host, session->input_storage);
    host_free(host, session->notes);
    host_free(host, session->calls);
    host_free(host, session->call_groups);
    host_free(host, session->reasons);
    host_free(host, session->scratch);
    host_free(host, session->groups);
    tuning_free(host, &session->tuning);
    shared_weights_leave(session);
    memory_plan_destroy(&session->memory);
    graph_destroy(&session->graph);
    host_free(host, session);
}

wherry_status wherry_session_query(const wherry_session *session, wherry_session_plan *out)
{
    if (!session || !out || out->struct_size != sizeof *out) return WHERRY_STATUS_INVALID_ARGUMENT;
    *out = (wherry_session_plan){
        .struct_size = sizeof *out,
        .device_bytes = session->memory.bytes + session->memory.given_bytes,
        .weight_bytes = session->memory.bytes_of[MEMORY_WEIGHTS] + session->memory.given_bytes,
        .shared_bytes = shared_weights_bytes(session),
        .activation_bytes = session->memory.bytes_of[MEMORY_ACTIVATIONS] + session->memory.bytes_of[MEMORY_BATCH],
        .saved_bytes = groups_saved_bytes(&session->graph, &session->limits, session->groups, session->n_groups,
                                          session_storage(session)),
        .groups = (uint32_t)session->n_groups,
        .launches = (uint32_t)session->n_calls,
        .operators = (uint32_t)session->graph.n_ops,
        .splits = session->splits,
        .embedding_size =
            session->dimensions ? session->dimensions : tensor_row_length(&session->graph, session->graph.output),
        .dtype = session_dtype(session),
        .max_tokens = (uint32_t)session->limits.tokens,
        .max_sequences = session->limits.sequences,
        .max_length = session->max_length};
    snprintf(out->plan, sizeof out->plan, "%s", session->plan->name);
    _Static_assert(sizeof out->layouts == ORDERS_TEXT, "there is room for the orders of all tensors");
    orders_text(&session->layout, out->layouts);
    out->weights = session->int8 ? WHERRY_WEIGHTS_INT8 : WHERRY_WEIGHTS_DEFAULT;
    snprintf(out->layouts_reason, sizeof out->layouts_reason, "%s", session->why);
    return WHERRY_STATUS_OK;
}
