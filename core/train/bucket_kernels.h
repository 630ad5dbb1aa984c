/* What the device does with buckets of gradients: adds them up, makes messages of them, adds up what others sent, and
 * takes the sums apart (interface/wire.h). All of it is submitted behind what is under way, and not waited for. */
#ifndef WHERRY_TRAIN_BUCKET_KERNELS_H
#define WHERRY_TRAIN_BUCKET_KERNELS_H

#include "train/optimizer.h"
#include "wherry/wherry_train.h"

struct bucket_kernels;

struct bucket_kernels_desc {
    struct wherry_session *session;
    struct optimizer *optimizer; /* of the session */
    wherry_wire wire;
    uint32_t processes;
    uint64_t words; /* of the buffer for messages */
    uint64_t rows;  /* of the list of rows, at most */
};

/* Where a bucket's floats are. */
struct bucket_place {
    int slab;
    uint64_t at;
    uint64_t row, list, first_row; /* row 0: all floats from `at` on; else those of rows in the list, from `list` on */
};

struct bucket_message {
    uint64_t first, count; /* floats of the bucket */
    uint64_t at;           /* its place: words */
};

/* OPERATION_* and where it finds its floats. */
struct bucket_operation {
    uint32_t kind;
    uint64_t at;
};

/* The kernels' calls, without memory. CALL_TAKE's has no kernel where 16 bits are sent and others stored. */
enum bucket_call { CALL_ADD, CALL_TAKE, CALL_SCAN, CALL_PACK, CALL_FLOATS, CALL_SUM, CALL_UNPACK, BUCKET_CALLS };
bool bucket_calls(const struct wherry_session *session, wherry_wire wire, struct call out[BUCKET_CALLS],
                  struct error *e);
/* Which of them read what the session stores, others floats and words. */
static inline bool bucket_stored(int call) { return call == CALL_ADD || call == CALL_TAKE; }
/* What runs them. */
const struct schedule *bucket_kernels_schedule(const struct bucket_kernels *kernels, struct program **program);

struct bucket_kernels *bucket_kernels_create(const struct bucket_kernels_desc *desc, struct error *e);
void bucket_kernels_destroy(struct bucket_kernels *kernels); /* accepts NULL; waits */
/* Bytes of the device's memory that it has. */
uint64_t bucket_kernels_bytes(const struct bucket_kernels_desc *desc);
/* The buffer for messages. */
struct buffer *bucket_kernels_buffer(const struct bucket_kernels *kernels);
/* The list of rows, ascending. Waits for what is under way. */
bool bucket_kernels_list(struct bucket_kernels *kernels, const uint32_t *rows, uint64_t count, struct error *e);

/* The session's gradients, times this, of the arena's segments from `from` to, without, `end` to a sum, or with `joins`
 * what is in that sum to the one before it (times 1). `first`: what is added to was empty. */
bool bucket_kernels_add(struct bucket_kernels *kernels, int from, int end, int sum, bool joins, bool first,
                        double factor, struct error *e);
/* Whether messages can be taken from the session's gradients, which are then in no sum. */
bool bucket_kernels_takes(const struct bucket_kernels *kernels);
/* The message of a bucket without rows: the session's gradients times `factor`. What 16 bits hold is not rounded again.
 */
bool bucket_kernels_take(struct bucket_kernels *kernels, const struct bucket_place *place, double factor,
                         const struct bucket_message *message, struct error *e);
/* Messages of a sum; with `floats` as floats whatever is on the wire. */
bool bucket_kernels_pack(struct bucket_kernels *kernels, const struct bucket_place *place, int sum, bool floats,
                         const struct bucket_message *messages, uint32_t count, struct error *e);
/* Sums of floats by operations, into sum 0, and with `packs` the message of them. */
bool bucket_kernels_sum(struct bucket_kernels *kernels, const struct bucket_place *place,
                        const struct bucket_operation *operations, uint32_t count, const struct bucket_message *message,
                        bool packs, struct error *e);
/* Messages to their places in sum 0. */
bool bucket_kernels_unpack(struct bucket_kernels *kernels, const struct bucket_place *place,
                           const struct bucket_message *messages, uint32_t count, struct error *e);

#endif
