/* What an optimizer keeps on the device: where each tensor's parameters lie in it, in the session's gradients and in
 * its weights, and which launches of a kernel reach all of them. */
#ifndef WHERRY_TRAIN_ARENA_H
#define WHERRY_TRAIN_ARENA_H

#include "interface/optimizer.h"
#include "runtime/session.h"
#include "train/adapters.h"

/* Buffers of a slab, float for each element. Those that the optimizer has no use for are NULL. */
enum arena_part { ARENA_GRADIENT, ARENA_MASTER, ARENA_FIRST, ARENA_SECOND, ARENA_PARTS };

/* Of a trained tensor: elements that lie together in all that they are in. */
struct segment {
    size_t tensor;         /* its number among the gradients; behind those, among the adapters' tensors */
    uint32_t rates;        /* the number of its rates: of the tensor, or of its part */
    uint64_t first, count; /* elements, in the order in which the session keeps the tensor */
    int slab;
    uint64_t at;                      /* its first element in the slab: a multiple of SEGMENT_ROUND */
    int gradient_block, weight_block; /* of the session; ARENA_ADAPTERS: adapters_gradients and adapters_values */
    uint64_t gradient_offset, weight_offset; /* bytes in these blocks of the session's plan */
};
enum { SEGMENT_ROUND = OPTIMIZER_GAP, ARENA_ADAPTERS = -1 };

/* What one buffer, or one argument of a kernel, can hold of the arena. */
struct slab {
    uint64_t elements;
    struct buffer *parts[ARENA_PARTS];
    struct buffer **sums; /* [arena.sums]: like ARENA_GRADIENT, for sums that are kept apart */
};

/* Segments one after the other that one launch of a kernel reaches. */
struct launch_range {
    int first, end; /* segments */
    struct range state, gradients, weights;
    uint32_t chunks;
    struct range table;    /* of `tables` */
    struct range joins;    /* likewise, where gradients are one of `sums` */
    struct range partials; /* of `partials`: two floats a chunk; between those of launches are zeros */
};

struct arena {
    struct adapters *adapters; /* NULL: none */
    struct segment *segments;  /* [n_segments], by tensor and `first` */
    int n_segments;
    struct slab *slabs; /* [n_slabs] */
    int n_slabs;
    struct launch_range *launches; /* [n_launches] */
    int n_launches;
    int sums; /* of each slab */
    uint32_t n_rates;
    uint64_t parameters; /* that are trained */
    struct buffer *tables, *partials;
    uint64_t tables_bytes, partials_bytes;
    struct range flags; /* of `partials`, the last: handover.h */
};

/* Plans it: parts[n] is 0 where the weight of gradient n is not trained, else 1, or the number of matrices in it (of
 * queries, keys and values) that have rates of their own; `sums` how many there are beside ARENA_GRADIENT. Numbers
 * behind those of the session's gradients are the adapters' tensors. No memory of the device is made. */
bool arena_plan(const struct wherry_session *s, struct adapters *adapters, const uint32_t *parts, size_t count,
                int sums, struct arena *out, struct error *e);
/* Whether a segment is of adapters, which are floats whatever the session stores; and its buffers. */
static inline bool segment_adapts(const struct segment *segment) { return segment->weight_block == ARENA_ADAPTERS; }
struct buffer *segment_gradients(const struct wherry_session *s, const struct arena *arena,
                                 const struct segment *segment);
struct buffer *segment_weights(const struct wherry_session *s, const struct arena *arena,
                               const struct segment *segment);
/* Makes its buffers; of the slabs those of `parts`, bits 1 << ARENA_*. Moments are 0, the rest is not initialised. */
bool arena_make(const struct wherry_session *s, uint32_t parts, struct arena *arena, struct error *e);
/* Makes those of one part more. */
bool arena_add(const struct wherry_session *s, enum arena_part part, struct arena *arena, struct error *e);
void arena_free(const struct wherry_session *s, struct arena *arena); /* accepts a zeroed one */
/* Bytes of all buffers with these parts. */
uint64_t arena_bytes(const struct arena *arena, uint32_t parts);

/* All values of a tensor, in the order of the model's files. */
bool arena_read(const struct wherry_session *s, const struct arena *arena, enum arena_part part, size_t tensor,
                float *values, struct error *e);
bool arena_write(const struct wherry_session *s, const struct arena *arena, enum arena_part part, size_t tensor,
                 const float *values, struct error *e);
/* Makes all of a part 0, with ARENA_GRADIENT all further sums, and what lies between tensors. */
bool arena_clear(const struct wherry_session *s, const struct arena *arena, enum arena_part part, struct error *e);

#endif
