/* How a kernel's traffic model counts (plan/traffic.h): what its work-items ask for, what they had asked for before,
 * and how far apart. */
#ifndef WHERRY_PLAN_TRAFFIC_MODEL_H
#define WHERRY_PLAN_TRAFFIC_MODEL_H

#include <string.h>

#include "base/round.h"
#include "graph/call.h"
#include "graph/graph.h"
#include "interface/interface.h"
#include "plan/batch.h"
#include "plan/tiles.h"
#include "wherry/wherry_measure.h"

/* What a large GPU runs of kernels that take many registers; for row kernels it makes no difference. A core of a CPU
 * runs one work-group after the other: there the rule finds too much in the cache where neighbouring work-groups share
 * operands that do not fit it. */
enum { ITEMS_AT_ONCE = 512 * LARGE_GPU_UNITS };

struct count {
    const struct graph *graph;
    const struct call *call;
    const struct batch_shape *batch;
    const uint32_t *words;
    size_t storage;
    uint64_t cache;
    wherry_traffic *out; /* of the group so far: requested_*; in model_* what comes on top of Q */
    uint64_t scratch;    /* bytes of it that were written */
};

static inline uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Bytes of an element of the argument, 0 where the call has no such slot. */
static inline uint64_t element_of(const struct count *c, uint8_t slot)
{
    for (int i = 0; i < c->call->n_arguments; i++) {
        const struct call_argument *a = &c->call->arguments[i];
        /* LSE, DELTA and PARTIALS have the lists' slots; attention has lists and angles in others. */
        bool turns = call_get(c->call, CONST_ROTARY, ROTARY_NONE),
             attention = !strncmp(c->call->kernel, "attention", 9);
        bool words = slot == SLOT_IDS || slot == SLOT_POSITIONS || slot == SLOT_TYPES || a->tensor == TENSOR_SCRATCH ||
                     (slot == SLOT_DISTANCES && call_get(c->call, CONST_RELATIVE, 0)) ||
                     (turns && (attention ? slot == SLOT_TURN_POSITIONS || slot == SLOT_TURN : slot == SLOT_POSITION));
        if (a->slot == slot && slot == SLOT_W && call_get(c->call, CONST_SCALES, 0)) return 1;
        if (a->slot == slot) return words ? 4 : c->storage;
    }
    return 0;
}

/* Elements that work-items ask for. */
static inline void reads(struct count *c, uint8_t slot, uint64_t elements)
{
    c->out->requested_read += elements * element_of(c, slot);
}

static inline void writes(struct count *c, uint8_t slot, uint64_t elements)
{
    c->out->requested_written += elements * element_of(c, slot);
}

/* Elements that were read before, `distance` bytes ago. */
static inline void reads_again(struct count *c, uint8_t slot, uint64_t elements, uint64_t distance)
{
    if (distance > c->cache || !c->cache) c->out->model_read += elements * element_of(c, slot);
}

/* The same of what is written again: without a cache it would have gone to memory in between. */
static inline void writes_again(struct count *c, uint8_t slot, uint64_t elements, uint64_t distance)
{
    if (distance > c->cache || !c->cache) c->out->model_written += elements * element_of(c, slot);
}

static inline void writes_scratch(struct count *c, uint8_t slot, uint64_t elements)
{
    writes(c, slot, elements);
    c->scratch += elements * sizeof(float);
}

static inline uint32_t get(const struct count *c, uint8_t id, uint32_t otherwise)
{
    return call_get(c->call, id, otherwise);
}

static inline uint64_t rows_of(const struct count *c) { return c->words[get(c, CONST_ROWS, HEADER_TOKENS)]; }

static inline uint64_t length_of(const struct count *c, uint32_t sequence)
{
    const uint32_t *offsets = c->words + c->words[HEADER_AT_OFFSETS];
    return offsets[sequence + 1] - offsets[sequence];
}

/* Of a bias by distance: elements of a head's row in work-groups' memory, and rows of the table; 0: there is none. */
static inline uint64_t distances_of(const struct count *c)
{
    uint64_t far = get(c, CONST_RELATIVE, 0);
    return far ? 2 * far + 1 : 0;
}

static inline uint64_t buckets_of(const struct count *c)
{
    const uint32_t *buckets = c->words + c->words[HEADER_AT_BUCKETS];
    uint64_t n = 0, all = distances_of(c);
    for (uint64_t i = 0; i < all; i++) n += !i || buckets[i] != buckets[i - 1]; /* a row's distances are neighbours */
    return n;
}

/* So many work-groups load a head's row. */
static inline void reads_biases(struct count *c, uint64_t groups)
{
    uint64_t n = distances_of(c);
    reads(c, SLOT_RELATIVE, groups * n);
    if (n && groups) reads_again(c, SLOT_RELATIVE, groups * n - buckets_of(c) * get(c, CONST_HEADS, 1), n * c->storage);
}

/* Sums of a sequence's scores' gradients by distance, which sums of the table's rows read. */
static inline uint64_t distance_sums_of(const struct count *c, uint32_t sequence)
{
    return 2 * least(length_of(c, sequence) - 1, get(c, CONST_RELATIVE, 0)) + 1;
}

static inline uint64_t vector_of(const struct count *c) { return 16 / c->storage; }

/* Elements of one load or store in kernels for any row length. */
static inline uint64_t access_of(const struct count *c) { return get(c, CONST_ALIGNED, 0) ? vector_of(c) : 1; }

static inline uint64_t groups_at_once(const struct count *c)
{
    uint64_t n = ITEMS_AT_ONCE / get(c, CONST_LOCAL_SIZE, 1);
    return n ? n : 1;
}

/* Work-items that share a row, and how often a work-group has so many. */
static inline uint64_t team_of(const struct count *c) { return get(c, CONST_TEAM, get(c, CONST_LOCAL_SIZE, 1)); }

static inline uint64_t teams_of(const struct count *c) { return get(c, CONST_LOCAL_SIZE, 1) / team_of(c); }

/* Rows of a table of angles that the tokens' positions name, or those of a table that the batch's lengths made. */
uint64_t angle_rows_of(const struct count *c);

/* Gradients turned back: of each token so many heads' rows, of each of which `sharers` work-items read the position. */
void reads_turn(struct count *c, uint64_t heads, uint64_t sharers);

/* A product's moments: of each row of a tile one work-item reads them. */
void count_moments(struct count *c);

/* Ends of experts' rows that `tiles` look at, one after the other, until they have found their own rows: with
 * `of_each` tiles for each of the `with_rows` first experts. Those that find none have looked at all. */
static inline uint64_t ends_walked(uint64_t tiles, uint64_t of_each, uint64_t with_rows, uint64_t experts)
{
    return of_each * (with_rows * (with_rows + 1) / 2) + (tiles - of_each * with_rows) * experts;
}

/* Bytes of one row of all operands: the distance to what every row reads again. */
static inline uint64_t count_row_bytes(const struct count *c)
{
    return (uint64_t)c->call->n_arguments * get(c, CONST_N, 1) * c->storage;
}

/* ---- rows of N elements (cl/row.h) ---- */

/* Loads of a row: past its end a load repeats the last columns. */
static inline uint64_t row_loads(const struct count *c)
{
    return round_up(get(c, CONST_N, 1), access_of(c) * team_of(c));
}

/* Rows that are read: teams after the last one repeat it. */
static inline uint64_t rows_walked(const struct count *c) { return round_up(rows_of(c), teams_of(c)); }

/* A vector of N that is read for every one of `rows` rows in `loads`. */
static inline void reads_vector(struct count *c, uint8_t slot, uint64_t rows, uint64_t loads)
{
    reads(c, slot, rows * loads);
    if (rows) reads_again(c, slot, (rows - 1) * get(c, CONST_N, 1), count_row_bytes(c));
}

/* ---- what several kernels do alike ---- */

/* Of a product in this batch. */
struct extents extents_of(const struct count *c);

/* A product in tiles; what a kernel does besides is its own to add. `band`: of tiles; `sharers`: work-items that load
 * the bias of a tile's column, and what scales and shifts it. */
void count_product(struct count *c, uint64_t band, uint64_t sharers);
/* A product with the vocabulary of which each sequence leaves a row; `sharers`: as above. */
void count_words(struct count *c, uint64_t sharers);
/* Products with the weights of experts that have as many rows each. */
void count_experts(struct count *c);
/* Keys that tiles of `rows` queries of one sequence and head walk over in steps, all tiles together: from a multiple
 * of `unit` on; queries that tiles of keys do, from a multiple of their step. What BEFORE and AFTER hide from a whole
 * step is passed over. */
uint64_t keys_walked(const struct count *c, uint64_t length, uint64_t rows, uint64_t step, uint64_t unit);
uint64_t queries_walked(const struct count *c, uint64_t length, uint64_t rows, uint64_t step);
/* Of tiles of keys: how many steps of queries they walk over; and of their parts, with queries, how many have sums of a
 * query, all queries together. */
uint64_t steps_walked(const struct count *c, uint64_t length, uint64_t rows, uint64_t step);
/* Of tiles of queries: how many steps of keys they walk over. */
uint64_t key_steps_walked(const struct count *c, uint64_t length, uint64_t rows, uint64_t step);
uint64_t parts_walked(const struct count *c, uint64_t length, uint64_t rows, uint64_t step, uint64_t parts);
/* Attention's forward pass by tiles of queries, each read once. */
void count_attention(struct count *c);

#endif
