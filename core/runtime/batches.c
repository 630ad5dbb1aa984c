/* The host's side of a batch: what is checked of it, the lists and tables that follow from it, and which of them the
 * device does not have yet. */
#include "runtime/batches.h"

#include <string.h>

#include "graph/rotary.h"
#include "interface/interface.h"

bool session_labels_check(const struct wherry_session *s, const int32_t *labels, size_t tokens, struct error *e)
{
    uint32_t vocabulary = s->model->info.config.vocabulary;
    uint64_t labelled = 0;
    for (size_t t = 0; t < tokens; t++) {
        labelled += labels[t] != LABEL_NONE;
        if (labels[t] != LABEL_NONE && (labels[t] < 0 || (uint32_t)labels[t] >= vocabulary))
            return fail(
                e, WHERRY_STATUS_INVALID_ARGUMENT,
                "the label of token %zu is %d: the vocabulary has %u words from 0 on, and %d is for tokens that "
                "do not count",
                t, (int)labels[t], vocabulary, LABEL_NONE);
    }
    return labelled <= s->limits.labelled ||
           fail(e, WHERRY_STATUS_TOO_LONG,
                "%llu tokens of a batch have a label: this session takes %llu (max_labels); raise it, or make batches "
                "smaller",
                (unsigned long long)labelled, (unsigned long long)s->limits.labelled);
}

bool session_next_check(const int32_t *next, size_t sequences, struct error *e)
{
    for (size_t i = 0; i < sequences; i++)
        if (next[i] != LABEL_NONE && next[i] != 0 && next[i] != 1)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "wherry_batch.next of sequence %zu is %d: 0 is for a second part that comes after the first, 1 "
                        "for one of elsewhere, and %d for sequences that do not count",
                        i, (int)next[i], LABEL_NONE);
    return true;
}

bool session_batch_check(const struct wherry_session *s, const wherry_batch *b, bool has_ids, struct error *e)
{
    const wherry_model_config *config = &s->model->info.config;
    if (b->struct_size != sizeof *b)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_batch.struct_size is %u, this library's is %zu",
                    b->struct_size, sizeof *b);
    bool ids = has_ids && s->graph.input < 0; /* a stack takes floats */
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
    for (uint32_t t = 0; t < tokens; t++) {
        if (ids && (b->ids[t] < 0 || (uint32_t)b->ids[t] >= config->vocabulary))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "token %u has the id %d: the vocabulary has %u", t,
                        (int)b->ids[t], config->vocabulary);
        if (b->types && b->types[t] && (b->types[t] < 0 || (uint32_t)b->types[t] >= config->token_types))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "token %u has the type %d: this model has %u", t,
                        (int)b->types[t], config->token_types);
    }
    TRY(!b->next || !session_next(s) || session_next_check(b->next, b->sequences, e));
    return !b->labels || !session_labels(s) || session_labels_check(s, b->labels, tokens, e);
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

/* Rows of tokens with a label, in their order. */
static uint32_t fill_labels(struct wherry_session *s, const int32_t *labels, uint32_t tokens)
{
    size_t most = (size_t)s->limits.tokens;
    uint32_t *at = s->batch_u32 + BATCH_LABELLED * most, *words = s->batch_u32 + BATCH_LABELS * most,
             *rows = s->batch_u32 + BATCH_LABEL_ROWS * most, n = 0;
    for (uint32_t t = 0; t < tokens; t++) {
        rows[t] = labels[t] == LABEL_NONE ? NO_ROW : n;
        if (labels[t] == LABEL_NONE) continue;
        at[n] = t;
        words[n++] = (uint32_t)labels[t];
    }
    return n;
}

/* Likewise the first tokens of sequences with a label. */
static uint32_t fill_next(struct wherry_session *s, const wherry_batch *batch)
{
    size_t most = (size_t)s->limits.tokens;
    uint32_t *at = s->batch_u32 + BATCH_NEXT_FIRST * most, *next = s->batch_u32 + BATCH_NEXT * most,
             *rows = s->batch_u32 + BATCH_NEXT_ROWS * most, n = 0;
    memset(rows, 0xff, batch->offsets[batch->sequences] * sizeof *rows); /* NO_ROW */
    for (uint32_t i = 0; i < batch->sequences; i++) {
        if (batch->next[i] == LABEL_NONE) continue;
        rows[batch->offsets[i]] = n;
        at[n] = batch->offsets[i];
        next[n++] = (uint32_t)batch->next[i];
    }
    return n;
}

/* Which rows of angles tokens have, where these depend on lengths. */
static void fill_angles(struct wherry_session *s, const wherry_batch *batch)
{
    size_t most = (size_t)s->limits.tokens;
    uint32_t *lengths = s->batch_u32 + BATCH_LENGTHS * most, *rows = s->batch_u32 + BATCH_ANGLES * most;
    if (s->graph.rotary_trained) rotary_rows(s->graph.rotary_trained, batch->sequences, batch->offsets, lengths, rows);
}

/* Finds out, too, whether lengths, positions and types are those of the batch before: then what follows from them is on
 * the device. */
void session_batch_fill(struct wherry_session *s, const wherry_batch *batch, struct batch_shape *shape)
{
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
    if (!same) fill_angles(s, batch);
    for (uint32_t t = 0; t < tokens; t++) {
        uint32_t type = batch->types ? (uint32_t)batch->types[t] : 0;
        ids[t] = batch->ids ? (uint32_t)batch->ids[t] : 0;
        others |= types[t] ^ type;
        types[t] = type;
    }
    uint32_t *rows = s->batch_u32 + BATCH_ROWS * most;
    for (uint32_t i = 0; i < batch->sequences; i++) rows[i] = batch->rows ? batch->rows[i] : 0;
    if (batch->labels && session_labels(s)) shape->labelled = fill_labels(s, batch->labels, tokens);
    if (batch->next && session_next(s)) shape->next = fill_next(s, batch);
    s->lengths_sent &= same;
    s->types_sent &= same && !others;
}

bool session_batch(struct wherry_session *s, const wherry_batch *batch, struct batch_shape *shape, struct error *e)
{
    TRY(session_batch_check(s, batch, true, e));
    session_batch_fill(s, batch, shape);
    TRY(shape->next || !session_next(s) ||
        fail(
            e, WHERRY_STATUS_INVALID_ARGUMENT,
            "no sequence of this batch has one of wherry_batch.next, which this session gives the loss of: each is %d, "
            "or there are none",
            LABEL_NONE));
    return shape->labelled || !session_labels(s) ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "no token of this batch has one of wherry_batch.labels, which this session gives the loss of: each is "
                "%d, or there are none",
                LABEL_NONE);
}

/* The header and the tables after it; of a batch whose tables the device has, the header if it is another one. */
static struct transfer tables_upload(struct wherry_session *s, const struct batch_shape *shape)
{
    const uint32_t step[] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32), s->step};
    const uint32_t labelled = (uint32_t)shape->labelled, next = (uint32_t)shape->next;
    bool sent = s->lengths_sent && !s->whole;
    size_t words = sent ? HEADER_WORDS : batch_fill(&s->tables, shape, s->words);
    if (sent && s->words[HEADER_SEED] == step[0] && s->words[HEADER_SEED + 1] == step[1] &&
        s->words[HEADER_STEP] == step[2] && s->words[HEADER_LABELLED] == labelled && s->words[HEADER_NEXT] == next)
        words = 0;
    s->words[HEADER_LABELLED] = labelled;
    s->words[HEADER_NEXT] = next;
    s->words[HEADER_SEED] = step[0];
    s->words[HEADER_SEED + 1] = step[1];
    s->words[HEADER_STEP] = step[2];
    return (struct transfer){s->steps[0].bindings[0].buffer, 0, 4 * words, s->words};
}

static bool has_list(const struct wherry_session *s, enum batch_data data)
{
    for (int t = 0; t < s->graph.n_tensors; t++)
        if (s->graph.tensors[t].role == TENSOR_BATCH && s->graph.tensors[t].data == data) return true;
    return false;
}

bool session_labels(const struct wherry_session *s) { return has_list(s, BATCH_LABELS); }
bool session_next(const struct wherry_session *s) { return has_list(s, BATCH_NEXT); }

void session_bare_labels(const struct wherry_session *s, wherry_batch *batch, int32_t *labels, uint32_t tokens)
{
    static const int32_t zeros[BARE_SEQUENCES];
    const uint32_t vocabulary = s->model->info.config.vocabulary;
    for (uint32_t t = 0; t < tokens; t++) labels[t] = t < s->limits.labelled ? (int32_t)(t % vocabulary) : LABEL_NONE;
    batch->labels = session_labels(s) ? labels : NULL;
    batch->next = session_next(s) ? zeros : NULL;
}

static size_t list_bytes(const struct batch_shape *shape, enum batch_data data)
{
    bool labelled = data == BATCH_LABELLED || data == BATCH_LABELS,
         next = data == BATCH_NEXT_FIRST || data == BATCH_NEXT;
    return 4 * (data == BATCH_ROWS ? (size_t)shape->sequences
                : labelled         ? (size_t)shape->labelled
                : next             ? (size_t)shape->next
                                   : (size_t)shape->tokens);
}

/* The batch's header and tables, and its lists: what the device does not have yet, and the ids. */
int session_uploads(struct wherry_session *s, const struct batch_shape *shape, struct transfer uploads[SESSION_UPLOADS])
{
    const struct graph *g = &s->graph;
    const bool sent[BATCH_DATA_COUNT] = {[BATCH_POSITIONS] = s->lengths_sent,
                                         [BATCH_LENGTHS] = s->lengths_sent,
                                         [BATCH_ANGLES] = s->lengths_sent,
                                         [BATCH_TYPES] = s->types_sent};
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
