/* A bucket on its way: its places in memory, and what becomes of it. */
#ifndef WHERRY_TRAIN_BUCKETS_SLOT_H
#define WHERRY_TRAIN_BUCKETS_SLOT_H

#include "runtime/copies.h"
#include "train/bucket_kernels.h"
#include "train/exchange.h"
#include "train/tree.h"

/* Floats of the arena that are exchanged together. */
struct bucket {
    int slab;
    uint64_t at, count;
    int piece;               /* of the backward pass, behind which its gradients are there */
    int first, end;          /* segments that it has parts of */
    uint64_t row, first_row; /* of the table: floats of a row, and its first one. row 0: it is exchanged as it is */
};

/* Words of a slot, in the device's buffer and in the memory of the host alike, of every process. Each message has room
 * for the largest one: of this process' parts for others, of others' parts of what this one sums, of its own parts of
 * that but the first as floats, and of everybody's sums. Where messages are of whole buckets (exchange_whole) there are
 * the first two alone. */
struct slot_layout {
    uint64_t message, floats; /* words of one */
    uint64_t out, in, own, sums, words;
    int parts;  /* that a process has, at most */
    bool whole; /* messages are of all of a bucket */
};

struct bucket_step {
    struct wherry_device *device;
    struct exchange *exchange;
    struct bucket_kernels *kernels;
    wherry_wire wire;
    struct slot_layout layout;
    uint32_t **memory;     /* [processes]: of this host's, in the same layout; NULL: it is another host's */
    struct tree *trees;    /* [processes]: the parts that each has */
    uint64_t *rows_before; /* [rows + 1] of the table: how many that were touched are before each */
    uint64_t *heard;       /* [processes]: signs that came */
    bool takes;            /* this process has one part, which is the session's gradients times `factor`, in no sum */
    double factor;
    /* For one call's lists. */
    struct bucket_message *messages;     /* [processes] */
    struct bucket_operation *operations; /* [2 * processes * layout.parts] */
    struct transfer *copies;             /* [processes * layout.parts] */
};

struct slot {
    int number;
    const struct bucket *bucket;
    struct bucket_place place;
    uint64_t floats; /* of the bucket that are exchanged */
};

/* Of buckets of so many floats at most. */
struct slot_layout slot_layout_of(uint64_t floats, uint32_t processes, int parts, wherry_wire wire);

/* One after the other. This process' parts as messages, on their way to the host: */
bool slot_pack(struct bucket_step *step, struct slot *slot, const struct bucket *bucket, struct error *e);
/* Waits for that; what is to be told of it is put together. */
bool slot_scatter(struct bucket_step *step, struct slot *slot, struct error *e);
/* When the others have told: sums what this process sums. That goes to the host, where it is a slice; else that is all.
 */
bool slot_sum(struct bucket_step *step, struct slot *slot, struct error *e);
/* Waits for that; what is to be told of it is put together. */
bool slot_gather(struct bucket_step *step, struct slot *slot, struct error *e);
/* When the others have told: everybody's sums to their places. */
bool slot_write(struct bucket_step *step, struct slot *slot, struct error *e);
/* Tells what is put together of some buckets, with a sign to those that read it from this process' memory. */
bool bucket_step_start(struct bucket_step *step, struct error *e);

#endif
