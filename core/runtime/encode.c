/* Encoding: a batch goes in, the recorded program runs, floats come out. Nothing is allocated here. */
#include "runtime/encode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "interface/interface.h"

static bool batch_check(const struct wherry_session *s, const wherry_batch *b, struct error *e)
{
    const wherry_model_config *config = &s->model->info.config;
    if (b->struct_size != sizeof *b)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_batch.struct_size is %u, this library's is %zu",
                    b->struct_size, sizeof *b);
    bool ids = s->graph.input < 0; /* a stack takes floats */
    if (!b->sequences || !b->offsets || (ids && !b->ids))
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
    for (uint32_t i = 0; b->rows && i < b->sequences; i++)
        if (b->rows[i] >= b->offsets[i + 1] - b->offsets[i])
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "row %u of sequence %u: it has %u tokens", b->rows[i], i,
                        b->offsets[i + 1] - b->offsets[i]);
    uint32_t tokens = b->offsets[b->sequences];
    if (tokens > s->limits.tokens)
        return fail(e, WHERRY_STATUS_TOO_LONG, "%u tokens in a batch: this session takes %llu (max_tokens)", tokens,
                    (unsigned long long)s->limits.tokens);
    for (uint32_t t = 0; ids && t < tokens; t++) {
        if (b->ids[t] < 0 || (uint32_t)b->ids[t] >= config->vocabulary)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "token %u has the id %d: the vocabulary has %u", t,
                        (int)b->ids[t], config->vocabulary);
        if (b->types && b->types[t] && (b->types[t] < 0 || (uint32_t)b->types[t] >= config->token_types))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "token %u has the type %d: this model has %u", t,
                        (int)b->types[t], config->token_types);
    }
    return true;
}

/* A sequence's positions; false: they are those that were there. Padding tokens are not counted. */
static bool fill_positions(const wherry_model_config *config, const int32_t *ids, uint32_t length, uint32_t *positions)
{
    uint32_t next = config->position_offset, others = 0;
    for (uint32_t t = 0; t < length; t++) {
        bool padding = config->position_offset && ids && (uint32_t)ids[t] == config->position_offset - 1;
        uint32_t position = padding ? config->position_offset - 1 : next++;
        others |= positions[t] ^ position;
        positions[t] = position;
    }
    return others != 0;
}

/* Finds out, too, whether lengths, positions and types are those of the batch before: then what follows from them is on
 * the device. */
bool session_batch(struct wherry_session *s, const wherry_batch *batch, struct batch_shape *shape, struct error *e)
{
    TRY(batch_check(s, batch, e));
    uint32_t tokens = batch->offsets[batch->sequences], most = (uint32_t)s->limits.tokens, others = 0;
    uint32_t *ids = s->batch_u32 + BATCH_IDS * most, *positions = s->batch_u32 + BATCH_POSITIONS * most,
             *types = s->batch_u32 + BATCH_TYPES * most;
    bool moved = false;
    size_t bytes = ((size_t)batch->sequences + 1) * sizeof *s->offsets;
    const wherry_model_config *config = &s->model->info.config;
    bool same = s->sequences == batch->sequences && !memcmp(s->offsets, batch->offsets, bytes);
    *shape = (struct batch_shape){.sequences = batch->sequences, .offsets = s->offsets, .tokens = tokens};
    memcpy(s->offsets, batch->offsets, bytes);
    s->sequences = batch->sequences;
    for (uint32_t i = 0; i < batch->sequences; i++) {
        uint32_t length = batch->offsets[i + 1] - batch->offsets[i];
        shape->pairs += (uint64_t)length * length;
        shape->longest = length > shape->longest ? length : shape->longest;
        if (same && !config->position_offset) continue; /* then they follow from the lengths */
        const int32_t *of = batch->ids ? batch->ids + batch->offsets[i] : NULL;
        moved |= fill_positions(config, of, length, positions + batch->offsets[i]);
    }
    same &= !moved;
    for (uint32_t t = 0; t < tokens; t++) {
        uint32_t type = batch->types ? (uint32_t)batch->types[t] : 0;
        ids[t] = batch->ids ? (uint32_t)batch->ids[t] : 0;
        others |= types[t] ^ type;
        types[t] = type;
    }
    uint32_t *rows = s->batch_u32 + BATCH_ROWS * most;
    for (uint32_t i = 0; i < batch->sequences; i++) rows[i] = batch->rows ? batch->rows[i] : 0;
    s->lengths_sent &= same;
    s->types_sent &= same && !others;
    return true;
}

/* The header and the tables after it; of a batch whose tables the device has, the header if it is another one. */
static struct transfer tables_upload(struct wherry_session *s, const struct batch_shape *shape)
{
    const uint32_t step[] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32), s->step};
    bool sent = s->lengths_sent && !s->whole;
    size_t words = sent ? HEADER_WORDS : batch_fill(&s->tables, shape, s->words);
    if (sent && s->words[HEADER_SEED] == step[0] && s->words[HEADER_SEED + 1] == step[1] &&
        s->words[HEADER_STEP] == step[2])
        words = 0;
    s->words[HEADER_SEED] = step[0];
    s->words[HEADER_SEED + 1] = step[1];
    s->words[HEADER_STEP] = step[2];
    return (struct transfer){s->steps[0].bindings[0].buffer, 0, 4 * words, s->words};
}

static size_t list_bytes(const struct batch_shape *shape, enum batch_data data)
{
    return 4 * (data == BATCH_ROWS ? (size_t)shape->sequences : (size_t)shape->tokens);
}

/* The batch's header and tables, and its lists: what the device does not have yet, and the ids. */
static int batch_uploads(struct wherry_session *s, const struct batch_shape *shape, struct transfer *uploads)
{
    const struct graph *g = &s->graph;
    const bool sent[BATCH_DATA_COUNT] = {[BATCH_POSITIONS] = s->lengths_sent, [BATCH_TYPES] = s->types_sent};
    int n = 0;
    struct transfer *first = &uploads[n];
    *first = tables_upload(s, shape);
    n += first->bytes > 0;
    for (int t = 0; t < g->n_tensors; t++) {
        if (g->tensors[t].role != TENSOR_BATCH || (sent[g->tensors[t].data] && !s->whole)) continue;
        size_t bytes = list_bytes(shape, g->tensors[t].data);
        if (s->whole) { /* where the host's part counts, all of it is one upload, what lies between included */
            uint64_t end = s->memory.of[t].offset + bytes;
            memcpy((char *)s->words + s->memory.of[t].offset, s->batch_u32 + g->tensors[t].data * s->limits.tokens,
                   bytes);
            first->bytes = end > first->bytes ? end : first->bytes;
            continue;
        }
        uploads[n++] = (struct transfer){s->buffers[s->memory.of[t].block], s->memory.of[t].offset, bytes,
                                         s->batch_u32 + g->tensors[t].data * s->limits.tokens};
    }
    return n;
}

struct transfer session_transfer(const struct wherry_session *s, const struct batch_shape *shape, int tensor,
                                 void *storage)
{
    const struct placement *at = &s->memory.of[tensor];
    uint64_t bytes =
        (tensor_extent(&s->graph, shape, tensor) * tensor_element_bytes(&s->graph, tensor, session_storage(s)) + 3) /
        4 * 4;
    return (struct transfer){s->buffers[at->block], at->offset, bytes, storage};
}

bool session_run(struct wherry_session *s, const struct batch_shape *shape, wherry_phase phase, int upload,
                 int download, double *step_seconds, struct error *e)
{
    struct transfer uploads[2 + BATCH_DATA_COUNT], downloads[1];
    int n = batch_uploads(s, shape, uploads);
    for (int i = 0; i < s->n_calls; i++) s->grids[i] = call_grid(&s->calls[i], s->f16, s->words);
    if (upload >= 0) uploads[n++] = session_transfer(s, shape, upload, s->input_storage);
    if (download >= 0) downloads[0] = session_transfer(s, shape, download, s->output_storage);
    const struct run run = {.uploads = uploads,
                            .n_uploads = n,
                            .downloads = downloads,
                            .n_downloads = download >= 0,
                            .grids = s->grids,
                            .batch = shape,
                            .step_seconds = step_seconds,
                            .first = phase == WHERRY_PHASE_BACKWARD ? s->boundary : 0,
                            .end = phase == WHERRY_PHASE_FORWARD ? s->boundary : 0};
    bool ok = device_executes(s->device, e) && s->device->backend->program_run(s->device->handle, s->program, &run, e);
    s->lengths_sent = s->types_sent = ok;
    return ok;
}

void session_floats(const struct wherry_session *s, const void *storage, size_t count, float *out)
{
    const uint16_t *half = storage;
    if (s->f16)
        for (size_t i = 0; i < count; i++) out[i] = half_to_float(half[i]);
    else
        memcpy(out, storage, count * sizeof *out);
}

/* Weights are finite, as prepare has looked at them, and so it is what was computed of them. */
static bool fail_not_finite(const struct wherry_session *s, const struct batch_shape *shape, size_t row, size_t rows,
                            struct error *e)
{
    size_t sequence = row;
    char token[48] = "";
    if (rows == shape->tokens && rows != shape->sequences) { /* a row a token */
        for (sequence = 0; shape->offsets[sequence + 1] <= row;) sequence++;
        snprintf(token, sizeof token, ", token %zu of it", row - shape->offsets[sequence]);
    }
    return fail(e, WHERRY_STATUS_VERIFY_FAILED, "the result of sequence %zu of the batch%s is not finite: %s", sequence,
                token,
                s->f16 ? "a value went beyond the range of 16-bit floats, so use f32, or this device computes wrongly, "
                         "which `wherry verify` tells"
                       : "a value went beyond the range of 32-bit floats, or this device computes wrongly, which "
                         "`wherry verify` tells");
}

/* One result in memory as float; then the first of its values, of length 1 again where embeddings have that. */
static void cut_row(const struct wherry_session *s, size_t row, size_t length, float *out)
{
    const uint16_t *half = s->output_storage;
    const float *full = s->output_storage;
    double sum = 0;
    for (size_t i = 0; i < s->dimensions; i++) {
        size_t at = row * length + i;
        out[i] = s->f16 ? half_to_float(half[at]) : full[at];
        sum += (double)out[i] * (double)out[i];
    }
    double norm = sqrt(sum);
    for (size_t i = 0; s->normalized && i < s->dimensions; i++)
        out[i] = (float)(out[i] / (norm > 1e-12 ? norm : 1e-12));
}

static bool encode(struct wherry_session *s, const wherry_batch *batch, float *out, size_t out_floats, struct error *e)
{
    struct batch_shape shape;
    TRY(session_batch(s, batch, &shape, e));
    size_t length = tensor_row_length(&s->graph, s->graph.output), of_row = s->dimensions ? s->dimensions : length;
    size_t rows = (size_t)tensor_elements(&s->graph, &shape, s->graph.output) / length, count = rows * of_row;
    if (out_floats < count)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "room for %zu floats, the result has %zu", out_floats, count);
    TRY(session_run(s, &shape, WHERRY_PHASE_ALL, -1, s->graph.output, NULL, e));
    if (s->dimensions)
        for (size_t r = 0; r < rows; r++) cut_row(s, r, length, out + r * of_row);
    else
        session_floats(s, s->output_storage, count, out);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(out[i])) return fail_not_finite(s, &shape, i / of_row, rows, e);
    return true;
}

wherry_status wherry_encode(wherry_session *session, const wherry_batch *batch, float *out, size_t out_floats)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!batch || !out) return context_invalid(session->context, "wherry_encode: batch or out is NULL");
    if (session->graph.out_gradient >= 0)
        return context_invalid(session->context, "wherry_encode: this session trains: use wherry_forward");
    if (session->part)
        return context_invalid(session->context, "wherry_encode: this session has a part of its plan alone");
    if (!session->prepared) {
        wherry_status status = wherry_session_prepare(session, NULL, NULL, NULL);
        if (status) return status;
    }
    int before = part_enter(&session->context->host, PART_RUN);
    bool ok = encode(session, batch, out, out_floats, context_error(session->context));
    part_leave(&session->context->host, before);
    return context_status(session->context, ok);
}
