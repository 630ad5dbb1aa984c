/* A bucket on its way: memory of the host, and what becomes of it. */
#ifndef WHERRY_TRAIN_BUCKETS_SLOT_H
#define WHERRY_TRAIN_BUCKETS_SLOT_H

#include "train/buckets.h"

enum { SLOTS = 3 };

/* Floats of the arena that are exchanged together. */
struct bucket {
    int slab;
    uint64_t at, count;
    size_t tensor;           /* the last one of which it has anything */
    uint64_t row, first_row; /* of the table: floats of a row, and its first one. row 0: it is exchanged as it is */
};

struct bucket_step {
    struct exchange *exchange;
    struct optimizer *optimizer;
    wherry_wire wire;
    struct tree *trees; /* [processes]: the parts that each has */
    bool *touched;      /* rows of the table; the others are 0 */
};

struct slot {
    const struct bucket *bucket;
    uint64_t floats; /* of the bucket that are exchanged */
    /* Grown when they are too small. `parts`: this process' parts of the bucket one after the other, then in the first
     * one's place the sums; `others`: what others have of what this process sums; `whole`: the bucket with the rows
     * that nobody touched; `wire`: messages in 16 bits. */
    struct slot_memory {
        void *bytes;
        uint64_t size;
    } parts, others, whole, wire;
};

void slot_free(const struct host *host, struct slot *slot);
/* From the device. */
bool slot_read(struct bucket_step *step, struct slot *slot, const struct bucket *bucket, struct error *e);
/* Starts the messages with parts. */
bool slot_scatter(struct bucket_step *step, struct slot *slot, struct error *e);
/* Sums what this process sums, after these have come. */
bool slot_sum(struct bucket_step *step, struct slot *slot, struct error *e);
/* Starts the messages with sums. */
bool slot_gather(struct bucket_step *step, struct slot *slot, struct error *e);
/* To the device, after these have come. */
bool slot_write(struct bucket_step *step, struct slot *slot, struct error *e);

#endif
