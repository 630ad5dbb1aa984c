/* The sums of gradients of all processes, bucket by bucket: each float is summed by one process, in the order of the
 * tree over shards, and then everybody gets it. */
#ifndef WHERRY_TRAIN_BUCKETS_H
#define WHERRY_TRAIN_BUCKETS_H

#include "train/exchange.h"
#include "train/optimizer.h"
#include "train/tree.h"

struct buckets;

struct buckets_desc {
    struct optimizer *optimizer;
    struct exchange *exchange;
    wherry_wire wire;
    uint64_t bytes; /* of a bucket, in f32 */
    size_t
        table;   /* the gradient of which a step touches few rows, as many as there are different ids; SIZE_MAX: none */
    size_t rows; /* that it has */
};

struct buckets *buckets_create(const struct buckets_desc *desc, struct error *e);
void buckets_destroy(struct buckets *buckets); /* accepts NULL */

/* Begins a step of so many shards, of which there[] says which have a gradient; touched[] says it of the table's rows.
 */
void buckets_begin(struct buckets *buckets, size_t shards, const bool *there, const bool *touched);
/* The sums of this process' parts are there for the arena's tensors below this number: their buckets are on their way
 * afterwards, or at their end. */
bool buckets_go_on(struct buckets *buckets, size_t tensors, struct error *e);
/* All of them are at their end: the optimizer has the sums. */
bool buckets_finish(struct buckets *buckets, struct error *e);

#endif
