/* Parts of a batch that run one after the other. */
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "train/batches.h"

/* Every sequence a part, with two offsets. */
static void make_room(struct parts *parts, uint32_t sequences)
{
    if (parts->room >= sequences) return;
    parts->room = sequences;
    parts->batches = need(realloc(parts->batches, parts->room * sizeof *parts->batches));
    parts->offsets = need(realloc(parts->offsets, 2 * parts->room * sizeof *parts->offsets));
}

/* Labels that count, of tokens `first` to, without, `last`. */
static uint32_t labels_of(const struct train_batch *b, uint32_t first, uint32_t last)
{
    uint32_t n = 0;
    for (uint32_t t = first; t < last; t++) n += b->labels[t] != IGNORED;
    return n;
}

/* Where the part ends that begins with sequence `first`: it has that one whatever it has. */
static uint32_t part_end(const struct train_batch *b, const uint32_t *ends, const struct part_limits *limits,
                         uint32_t first, uint32_t last)
{
    uint32_t end = first, labels = 0;
    for (; end < last && end - first < limits->sequences; end++) {
        if (limits->labels) labels += labels_of(b, ends[end], ends[end + 1]);
        if (end > first && (ends[end + 1] - ends[first] > limits->tokens || labels > limits->labels)) break;
    }
    return end;
}

/* Sequences `first` to, without, `last` of a batch, in its order, which end at ends[1 to ...]; `offsets` is where there
 * is room for theirs. */
static uint32_t *cut(struct parts *parts, const struct train_batch *b, const uint32_t *ends, const int32_t *ids,
                     const int32_t *types, const int32_t *next, uint32_t first, uint32_t last,
                     const struct part_limits *limits, uint32_t *offsets)
{
    for (uint32_t end; first < last; first = end) {
        uint32_t begin = ends[first];
        end = part_end(b, ends, limits, first, last);
        for (uint32_t s = first; s <= end; s++) offsets[s - first] = ends[s] - begin;
        parts->batches[parts->count++] = (wherry_batch){.struct_size = sizeof(wherry_batch),
                                                        .sequences = end - first,
                                                        .offsets = offsets,
                                                        .ids = ids + begin,
                                                        .types = types + begin,
                                                        .next = next ? next + first : NULL};
        if (ends[end] - begin > parts->longest) parts->longest = ends[end] - begin;
        offsets += end - first + 1;
    }
    return offsets;
}

void parts_of(struct parts *parts, const struct train_batch *batch, const struct part_limits *limits)
{
    make_room(parts, batch->sequences);
    parts->count = parts->longest = 0;
    cut(parts, batch, batch->offsets, batch->ids, batch->types, batch->next, 0, batch->sequences, limits,
        parts->offsets);
}

/* ---- shards ---- */

/* Tokens of an example's columns. */
static uint32_t example_tokens(const struct train_batch *b, uint32_t example)
{
    uint32_t sum = 0;
    for (uint32_t c = 0; c < b->columns; c++) {
        uint32_t s = c * b->examples + example;
        sum += b->offsets[s + 1] - b->offsets[s];
    }
    return sum;
}

/* The first example that begins where shard v should. */
static uint32_t shard_begin(const struct train_batch *b, uint32_t v, uint32_t shards, uint32_t from, uint64_t *before)
{
    while (from < b->examples && *before * shards < (uint64_t)b->tokens * v) *before += example_tokens(b, from++);
    return from;
}

/* Sequences of the examples, column by column, behind those of the shards before. */
static uint32_t copy_shard(struct parts *parts, const struct train_batch *b, uint32_t first, uint32_t end, uint32_t at)
{
    for (uint32_t c = 0; c < b->columns; c++)
        for (uint32_t e = first; e < end; e++, at++) {
            uint32_t s = c * b->examples + e, from = b->offsets[s], count = b->offsets[s + 1] - from;
            memcpy(parts->ids + parts->ends[at], b->ids + from, count * sizeof *parts->ids);
            memcpy(parts->types + parts->ends[at], b->types + from, count * sizeof *parts->types);
            if (b->next) parts->next[at] = b->next[s];
            parts->ends[at + 1] = parts->ends[at] + count;
        }
    return at;
}

void parts_of_shards(struct parts *parts, const struct train_batch *batch, uint32_t shards,
                     const struct part_limits *limits)
{
    uint32_t *offsets, at = 0, example = 0;
    uint64_t before = 0;
    make_room(parts, batch->sequences);
    if (parts->tokens_room < batch->tokens) {
        parts->tokens_room = batch->tokens;
        parts->ids = need(realloc(parts->ids, parts->tokens_room * sizeof *parts->ids));
        parts->types = need(realloc(parts->types, parts->tokens_room * sizeof *parts->types));
    }
    parts->ends = need(realloc(parts->ends, (batch->sequences + 1) * sizeof *parts->ends));
    parts->next = need(realloc(parts->next, batch->sequences * sizeof *parts->next));
    parts->shards = need(realloc(parts->shards, shards * sizeof *parts->shards));
    parts->n_shards = shards;
    parts->count = parts->longest = parts->ends[0] = 0;
    offsets = parts->offsets;
    for (uint32_t v = 0; v < shards; v++) {
        uint32_t end = shard_begin(batch, v + 1, shards, example, &before), from = at;
        size_t first = parts->count;
        at = copy_shard(parts, batch, example, end, at);
        offsets = cut(parts, batch, parts->ends, parts->ids, parts->types, batch->next ? parts->next : NULL, from, at,
                      limits, offsets);
        parts->shards[v] = (wherry_shard){
            .struct_size = sizeof(wherry_shard), .batches = parts->batches + first, .n_batches = parts->count - first};
        example = end;
    }
}

void parts_free(struct parts *parts)
{
    free(parts->batches);
    free(parts->offsets);
    free(parts->shards);
    free(parts->ids);
    free(parts->types);
    free(parts->next);
    free(parts->ends);
    *parts = (struct parts){.count = 0};
}
