/* A step's shards: which are this process', and what the processes tell each other of them. */
#ifndef WHERRY_TRAIN_SHARDS_H
#define WHERRY_TRAIN_SHARDS_H

#include "train/buckets.h"

struct wherry_trainer;

/* What a shard's process has of it. */
struct shard_result {
    double loss;       /* its part of the step's */
    uint64_t overflow; /* f16 can't hold a gradient of its output, or is not there */
};

/* What a trainer has for shards. */
struct sharding {
    size_t most;                  /* shards of a step */
    struct exchange exchange;     /* with other processes */
    struct buckets *buckets;      /* NULL: there is no other process */
    size_t *rows;                 /* [most + 1]: the first row of each, shard by shard */
    bool *there;                  /* [most]: it has a gradient */
    struct shard_result *results; /* [most] */
    size_t *begins;               /* [processes + 1] */
    bool *touched;                /* [vocabulary] */
    float *d_rows;                /* [d_room][row_floats]: gradients of what is in the trainer's `rows` */
    size_t d_room;
    struct tree tree; /* of this process' sums */
    bool joined;      /* the last shard's are joined with those before it already */
};

bool sharding_check(const wherry_trainer_desc *desc, struct error *e);
/* Whether sums are read, written or kept apart, so that there is one in any case; and how many the optimizer needs
 * beside it. */
bool sharding_accumulates(const wherry_trainer_desc *desc);
int sharding_sums(const wherry_trainer_desc *desc);
/* Of a trainer whose optimizer is there. With other processes: whether they have the same trainer. */
bool sharding_make(struct wherry_trainer *t, const wherry_trainer_desc *desc, struct error *e);
void sharding_destroy(struct wherry_trainer *t);
/* The word table, of which a step touches few rows: its gradient's number; SIZE_MAX where it may touch others. */
size_t sharding_table(const struct wherry_trainer *t);

/* There is room for so many rows in the trainer's `rows`, and in d_rows. */
bool sharding_room(struct wherry_trainer *t, size_t rows, struct error *e);

/* Which shards have a gradient is told in `there`, and no sum is made yet. */
bool shards_begin(struct wherry_trainer *t, const wherry_shard *shards, size_t n_shards, struct error *e);
/* The next shard's gradients come, from the last of this process' to the first; and have come. */
void shard_begin(struct wherry_trainer *t, size_t shard);
bool shard_add(struct wherry_trainer *t, double weight, struct error *e);
/* The whole backward pass, with this gradient of the output, and shard_add, where it is the last one of this process'
 * and there are others: what they sum is on its way while the pass goes on. */
bool shard_add_last(struct wherry_trainer *t, const float *gradient, size_t floats, double weight, struct error *e);
bool shard_end(struct wherry_trainer *t, struct error *e);

/* Rows of the output, all shards', shard by shard in `rows`, of which this process has its own. */
bool shards_gather_rows(struct wherry_trainer *t, size_t n_shards, float *rows, struct error *e);
/* Sums of all processes' gradients go to the optimizer, and results to everyone. */
bool shards_sum(struct wherry_trainer *t, size_t n_shards, struct error *e);

#endif
