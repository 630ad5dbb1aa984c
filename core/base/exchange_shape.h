/* The shape of the exchange of gradients between processes (core/train/buckets.c), for what computes it, predicts it
 * and tells of it. */
#ifndef WHERRY_BASE_EXCHANGE_SHAPE_H
#define WHERRY_BASE_EXCHANGE_SHAPE_H

#include <wherry/wherry_train.h>

/* The backward pass is divided where it has made about so many parts of all gradients more; what is behind the last
 * piece, where nothing hides it, goes in buckets of a part of the others' bytes, in f32. The first pieces are smaller:
 * until one ends nothing travels. */
enum {
    EXCHANGE_PIECES = 64,
    EXCHANGE_EARLY = 4,
    EXCHANGE_EARLY_PARTS = 4,
    EXCHANGE_BUCKET_BYTES = 32 << 20,
    EXCHANGE_LAST_PARTS = 4
};

/* What a piece has at least, of `all`, behind so many before it. */
static inline uint64_t exchange_piece_least(uint64_t all, int before)
{
    return all / EXCHANGE_PIECES / (before < EXCHANGE_EARLY ? EXCHANGE_EARLY_PARTS : 1);
}

/* In a turn a group of buckets tells of its parts, the one so many before it is summed, tells of its sums, is written.
 */
enum { EXCHANGE_SUMMED = 1, EXCHANGE_TOLD = 3, EXCHANGE_WRITTEN = 4 };

/* Two processes send each other all of a bucket, and each sums all of it: no more bytes than where each sums its half
 * and sends that, and half the way. A bucket ends there with EXCHANGE_SUMMED. */
static inline bool exchange_whole(uint32_t processes) { return processes == 2; }

/* *now becomes what was exchanged since. */
static inline void exchange_since(const wherry_exchange_times *before, wherry_exchange_times *now)
{
    now->steps -= before->steps;
    now->bytes_sent -= before->bytes_sent;
    now->seconds -= before->seconds;
    now->exposed_seconds -= before->exposed_seconds;
    now->device_seconds -= before->device_seconds;
    now->others_seconds -= before->others_seconds;
}

#endif
