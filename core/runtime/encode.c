/* Encoding: a batch goes in, the recorded program runs, floats come out. Nothing is allocated here. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kernel/interface.h"
#include "runtime/session.h"

static bool batch_check(const struct wherry_session *s, const wherry_batch *b, struct error *e)
{
    const wherry_model_config *config = &s->model->info.config;
    if (b->struct_size != sizeof *b)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_batch.struct_size is %u, this library's is %zu",
                    b->struct_size, sizeof *b);
    if (!b->sequences || !b->offsets || !b->ids)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "an empty batch: it needs a sequence, offsets and ids");
    if (b->sequences > s->limits.sequences)
        return fail(e, WHERRY_STATUS_TOO_LONG, "%u sequences in a batch: this session takes %u (max_sequences)",
                    b->sequences, s->limits.sequences);
    if (b->offsets[0]) return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "offsets[0] is %u, not 0", b->offsets[0]);
    for (uint32_t i = 0; i < b->sequences; i++) {
        if (b->offsets[i + 1] <= b->offsets[i])
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "sequence %u has no tokens: offsets go from %u to %u", i,
                        b->offsets[i], b->offsets[i + 1]);
        if (b->offsets[i + 1] - b->offsets[i] > s->max_length)
            return fail(e, WHERRY_STATUS_TOO_LONG, "sequence %u has %u tokens: this session takes %u (max_length)", i,
                        b->offsets[i + 1] - b->offsets[i], s->max_length);
    }
    uint32_t tokens = b->offsets[b->sequences];
    if (tokens > s->limits.tokens)
        return fail(e, WHERRY_STATUS_TOO_LONG, "%u tokens in a batch: this session takes %llu (max_tokens)", tokens,
                    (unsigned long long)s->limits.tokens);
    for (uint32_t t = 0; t < tokens; t++) {
        if (b->ids[t] < 0 || (uint32_t)b->ids[t] >= config->vocabulary)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "token %u has the id %d: the vocabulary has %u", t,
                        (int)b->ids[t], config->vocabulary);
        if (b->types && (b->types[t] < 0 || (uint32_t)b->types[t] >= config->token_types))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "token %u has the type %d: this model has %u", t,
                        (int)b->types[t], config->token_types);
    }
    return true;
}

bool session_batch(struct wherry_session *s, const wherry_batch *batch, struct batch_shape *shape, struct error *e)
{
    TRY(batch_check(s, batch, e));
    uint32_t tokens = batch->offsets[batch->sequences], most = (uint32_t)s->limits.tokens;
    uint32_t *ids = s->batch_u32 + BATCH_IDS * most, *positions = s->batch_u32 + BATCH_POSITIONS * most,
             *types = s->batch_u32 + BATCH_TYPES * most;
    *shape = (struct batch_shape){.sequences = batch->sequences, .offsets = s->offsets, .tokens = tokens};
    memcpy(s->offsets, batch->offsets, ((size_t)batch->sequences + 1) * sizeof *s->offsets);
    for (uint32_t i = 0; i < batch->sequences; i++) {
        uint32_t length = batch->offsets[i + 1] - batch->offsets[i];
        shape->pairs += (uint64_t)length * length;
        shape->longest = length > shape->longest ? length : shape->longest;
        for (uint32_t t = 0; t < length; t++) positions[batch->offsets[i] + t] = t;
    }
    for (uint32_t t = 0; t < tokens; t++) {
        ids[t] = (uint32_t)batch->ids[t];
        types[t] = batch->types ? (uint32_t)batch->types[t] : 0;
    }
    return true;
}

bool session_run(struct wherry_session *s, const struct batch_shape *shape, double *step_seconds, struct error *e)
{
    const struct graph *g = &s->graph;
    struct transfer uploads[1 + BATCH_DATA_COUNT], download;
    int n = 0;
    size_t words = batch_fill(&s->tables, shape, s->words);
    uploads[n++] = (struct transfer){s->steps[0].bindings[0].buffer, 0, 4 * words, s->words};
    for (int t = 0; t < g->n_tensors; t++) {
        if (g->tensors[t].role != TENSOR_BATCH) continue;
        uploads[n++] = (struct transfer){s->buffers[s->memory.of[t].block], s->memory.of[t].offset, 4 * shape->tokens,
                                         s->batch_u32 + g->tensors[t].data * s->limits.tokens};
    }
    for (int i = 0; i < s->n_groups; i++) s->grids[i] = call_grid(&s->calls[i], s->f16, s->words);
    const struct placement *out = &s->memory.of[g->output];
    uint64_t bytes = (tensor_elements(g, shape, g->output) * session_storage(s) + 3) / 4 * 4;
    download = (struct transfer){s->buffers[out->block], out->offset, bytes, s->output_storage};
    return s->device->backend->program_run(s->device->handle, s->program,
                                           &(struct run){.uploads = uploads,
                                                         .n_uploads = n,
                                                         .downloads = &download,
                                                         .n_downloads = 1,
                                                         .grids = s->grids,
                                                         .batch = shape,
                                                         .step_seconds = step_seconds},
                                           e);
}

static bool encode(struct wherry_session *s, const wherry_batch *batch, float *out, size_t out_floats, struct error *e)
{
    struct batch_shape shape;
    TRY(session_batch(s, batch, &shape, e));
    size_t count = (size_t)tensor_elements(&s->graph, &shape, s->graph.output);
    if (out_floats < count)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "room for %zu floats, the result has %zu", out_floats, count);
    TRY(session_run(s, &shape, NULL, e));
    const uint16_t *half = s->output_storage;
    if (s->f16)
        for (size_t i = 0; i < count; i++) out[i] = half_to_float(half[i]);
    else
        memcpy(out, s->output_storage, count * sizeof *out);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(out[i]))
            return fail(e, WHERRY_STATUS_VERIFY_FAILED,
                        "the result is not finite at row %zu: %s, and `wherry verify` names the kernel",
                        i / tensor_row_length(&s->graph, s->graph.output),
                        s->f16 ? "16-bit storage may have overflowed, so try f32" : "this device computes wrongly");
    return true;
}

wherry_status wherry_encode(wherry_session *session, const wherry_batch *batch, float *out, size_t out_floats)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!batch || !out) return context_invalid(session->context, "wherry_encode: batch or out is NULL");
    if (!session->prepared) {
        wherry_status status = wherry_session_prepare(session, NULL, NULL, NULL);
        if (status) return status;
    }
    return context_status(session->context, encode(session, batch, out, out_floats, &session->context->error));
}
