/* How kernels of attention divide their work: into tiles of queries (or keys) of one sequence and one head. */
#ifndef WHERRY_CPU_TOKENS_H
#define WHERRY_CPU_TOKENS_H

#include "backends/cpu/step.h"

/* An item has the tiles that begin at one of so many tokens, of one head. Tiles begin at every `tile`-th token of a
 * sequence; so an item finds its tiles without asking where others' are. */
enum { TOKENS_AT_ONCE = 16 };

struct tile_place {
    size_t sequence, first, length; /* its tokens */
    size_t at;                      /* of them, the tile's first */
    size_t head;
};

typedef void (*tile_work)(const struct cpu_step *s, const struct tile_place *place, float *scratch);

static inline size_t tiles_items(const struct cpu_step *s)
{
    return blocks_of(s->batch[HEADER_TOKENS], TOKENS_AT_ONCE) * s->value[CONST_HEADS];
}

static inline void tiles_run(const struct cpu_step *s, size_t item, size_t tile, tile_work work, float *scratch)
{
    const uint32_t *sequences = s->batch + s->batch[HEADER_AT_TOKEN_SEQUENCE];
    size_t heads = s->value[CONST_HEADS], block = item / heads;
    size_t end = block_end(block, TOKENS_AT_ONCE, s->batch[HEADER_TOKENS]);
    for (size_t token = block * TOKENS_AT_ONCE; token < end; token++) {
        struct stretch own = step_sequence(s, sequences[token]);
        if ((token - own.first) % tile) continue;
        const struct tile_place place = {sequences[token], own.first, own.length, token - own.first, item % heads};
        work(s, &place, scratch);
    }
}

#endif
