/* The backward pass in pieces. */
#include "runtime/backward.h"

#include "base/exchange_shape.h"
#include "runtime/encode.h"

static bool writes(const struct wherry_session *s, const struct step *step, const struct placement *at)
{
    for (int i = 0; i < step->n_bindings; i++) {
        const struct binding *b = &step->bindings[i];
        for (uint64_t done = 0, bytes; b->written && done < at->bytes; done += bytes) {
            int block;
            uint64_t offset;
            bytes = placement_find(at, done, &block, &offset);
            if (b->buffer == s->buffers[block] && b->offset < offset + bytes && offset < b->offset + b->bytes)
                return true;
        }
    }
    return false;
}

/* The last call that writes there: with others of its group, which end together. */
static int last_writer(const struct wherry_session *s, int tensor)
{
    int call = s->n_calls - 1;
    while (call > s->boundary && !writes(s, &s->steps[call], &s->memory.of[tensor])) call--;
    while (call + 1 < s->n_calls && s->call_groups[call + 1] == s->call_groups[call]) call++;
    return call;
}

static bool is_gradient(const struct wherry_session *s, int tensor)
{
    return s->graph.tensors[tensor].gradient_of >= 0 && s->memory.of[tensor].block >= 0;
}

bool backward_divide(struct wherry_session *s, struct error *e)
{
    const struct host *host = &s->context->host;
    uint64_t all = 0, since = 0;
    uint64_t *bytes = host_alloc(host, (size_t)s->n_calls, sizeof *bytes, e); /* that are there behind each call */
    s->ends = bytes ? host_alloc(host, (size_t)s->n_calls, sizeof *s->ends, e) : NULL;
    s->pieces = s->ends ? host_alloc(host, (size_t)s->n_calls + 1, sizeof *s->pieces, e) : NULL;
    for (int t = 0; s->pieces && t < s->graph.n_tensors; t++) {
        if (!is_gradient(s, t)) continue;
        bytes[last_writer(s, t)] += s->memory.of[t].bytes;
        all += s->memory.of[t].bytes;
    }
    s->n_pieces = 0;
    for (int i = s->boundary; s->pieces && i < s->n_calls; i++) {
        if (i == s->boundary || s->ends[i - 1]) s->pieces[s->n_pieces++] = i;
        since += bytes[i];
        s->ends[i] = since > 0 && since >= exchange_piece_least(all, s->n_pieces - 1) && i + 1 < s->n_calls;
        if (s->ends[i]) since = 0;
    }
    if (s->pieces) s->pieces[s->n_pieces] = s->n_calls;
    host_free(host, bytes);
    return s->pieces != NULL;
}

int backward_piece_of(const struct wherry_session *s, int tensor)
{
    const int call = is_gradient(s, tensor) ? last_writer(s, tensor) : s->n_calls - 1;
    int piece = 0;
    while (s->pieces[piece + 1] <= call) piece++;
    return piece;
}

bool backward_submit(struct wherry_session *s, int piece, struct error *e)
{
    const int gradient = piece ? -1 : s->graph.out_gradient;
    const struct pass_part part = {.slot = (piece + 1) % PASS_SLOTS,
                                   .first = s->pieces[piece],
                                   .end = s->pieces[piece + 1],
                                   .upload = gradient,
                                   .download = -1,
                                   .listed = !piece};
    s->forward_done = false;
    TRY(session_pass_part(s, &part, e));
    if (piece + 1 == s->n_pieces) s->backward_done = true;
    return true;
}
