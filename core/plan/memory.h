/* Where every tensor lies: planned before anything is allocated. */
#ifndef WHERRY_PLAN_MEMORY_H
#define WHERRY_PLAN_MEMORY_H

#include "graph/group.h"

enum { MEMORY_ALIGNMENT = 256, MEMORY_ROUND = 4096 };

enum memory_kind { MEMORY_WEIGHTS, MEMORY_BATCH, MEMORY_ACTIVATIONS };

struct placement {
    int block; /* -1: the tensor lives in no memory (it stays inside a kernel) */
    uint64_t offset, bytes;
    uint64_t
        piece_bytes; /* > 0: it fills blocks from `block` on, so many bytes of each, and its last (plan/pieces.h) */
};

/* Where byte `at` of a tensor is: a block of the plan, and an offset in it. Returns how many bytes follow there. */
static inline uint64_t placement_find(const struct placement *p, uint64_t at, int *block, uint64_t *offset)
{
    uint64_t before = p->piece_bytes ? at / p->piece_bytes : 0, end = (before + 1) * p->piece_bytes;
    *block = p->block + (int)before;
    *offset = p->offset + at - before * p->piece_bytes;
    return (p->piece_bytes && end < p->bytes ? end : p->bytes) - at;
}

/* One allocation. */
struct memory_block {
    enum memory_kind kind;
    uint64_t bytes; /* a multiple of MEMORY_ROUND */
};

/* Weights that lie in memory already. */
struct memory_given {
    const struct placement *of; /* [n_tensors], in `blocks`; block -1: not there */
    const struct memory_block *blocks;
    int n_blocks;
};

struct memory_plan {
    const struct host *host;
    int n_given;               /* the first blocks, which others have */
    struct placement *of;      /* [n_tensors]; slices have their parent's */
    struct placement *scratch; /* [n_groups]: what a group's first kernel tells its second */
    struct memory_block *blocks;
    int n_blocks;
    uint64_t bytes_of[3]; /* by enum memory_kind; without those of others */
    uint64_t bytes;       /* all blocks but those of others */
    uint64_t given_bytes; /* of tensors in these */
};

struct memory_request {
    const struct graph *graph;
    const struct group *groups;
    int n_groups;
    struct batch_shape limits; /* the largest batch; no offsets */
    size_t storage;            /* bytes of an element */
    const uint64_t *scratch;   /* [n_groups] bytes, NULL: no group needs any */
    uint64_t max_block_bytes, max_tensor_bytes;
    bool keep;      /* every tensor has memory of its own */
    uint64_t guard; /* bytes left free before and after every activation, a multiple of MEMORY_ALIGNMENT */
    const struct memory_given *given; /* NULL: nothing is */
    uint64_t tables_bytes;            /* room for the batch header and its tables, first in the batch block */
};

bool memory_plan_create(const struct host *host, const struct memory_request *request, struct memory_plan *out,
                        struct error *e);
void memory_plan_destroy(struct memory_plan *plan); /* accepts a zeroed one */

#endif
