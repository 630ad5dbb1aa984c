/* The sums of gradients of all processes, bucket by bucket: each float is summed by one process, in the order of the
 * tree over shards, and then everybody gets it. The device sums; the host moves bytes, and those of processes of one
 * host not even that (wherry_exchange.share). */
#ifndef WHERRY_TRAIN_BUCKETS_H
#define WHERRY_TRAIN_BUCKETS_H

#include "train/exchange.h"
#include "train/optimizer.h"
#include "train/tree.h"

struct buckets;

struct buckets_desc {
    struct wherry_session *session; /* prepared; its backward pass comes in pieces */
    struct optimizer *optimizer;
    struct exchange *exchange;
    wherry_wire wire;
    uint64_t bytes; /* of a bucket, in f32 */
    size_t
        table;   /* the gradient of which a step touches few rows, as many as there are different ids; SIZE_MAX: none */
    size_t rows; /* that it has */
};

/* All processes call it. */
struct buckets *buckets_create(const struct buckets_desc *desc, struct error *e);
void buckets_destroy(struct buckets *buckets); /* accepts NULL */
/* What runs their kernels. */
const struct schedule *buckets_schedule(const struct buckets *buckets, struct program **program);
/* Bytes of the device's memory that messages take. */
uint64_t buckets_bytes(const struct buckets *buckets); /* NULL: 0 */
/* Of how they are divided, which all processes do alike. */
uint64_t buckets_hash(const struct buckets *buckets, uint64_t hash);

/* Begins a step of so many shards, of which there[] says which have a gradient; touched[] says it of the table's rows.
 * Before anything is summed. */
bool buckets_begin(struct buckets *buckets, size_t shards, const bool *there, const bool *touched, struct error *e);
/* Piece `piece` of the last backward pass is submitted: its gradients, times `factor`, are added to the last sum of the
 * tree (this process' as it is before that shard's end), to which sums are joined as the tree has it. Buckets of it are
 * on their way afterwards, those of pieces before it further. */
bool buckets_go_on(struct buckets *buckets, int piece, const struct tree *tree, double factor, struct error *e);
/* All of them are at their end: the optimizer has the sums. Where no piece was told of, they are all there. */
bool buckets_finish(struct buckets *buckets, struct error *e);

#endif
