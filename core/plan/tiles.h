/* Tile and work-group sizes: the part of a kernel call that depends on the device. */
#ifndef WHERRY_PLAN_TILES_H
#define WHERRY_PLAN_TILES_H

#include "graph/graph.h"
#include "plan/device.h"

/* Rows of the query tile table's entries, and of the score tile table's in both directions. */
uint32_t tile_queries(const struct device_limits *limits);
uint32_t tile_scores(const struct device_limits *limits);

/* What a kernel's sizes depend on beside its call. */
struct sizes {
    const struct call *before; /* the group's first call, NULL: this is it */
    const struct device_limits *limits;
    bool f16;
    uint32_t vector;   /* elements in 16 bytes */
    uint32_t access;   /* elements loaded at once */
    uint64_t max_rows; /* of the output, at the session's limits */
    uint32_t longest;  /* sequence */
};

enum { LEAST_TEAM = 8 }; /* work-items that can add up a row's values together (cl/common.h) */

/* Multiprocessors; a large GPU's 132 where the device does not say. */
uint64_t device_units(const struct device_limits *limits);

/* Seconds that dealing a sum of m x n outputs to `parts` work-groups costs: the parts' sums are written and read, and
 * adding them is a launch of its own. On a large GPU, 3.5 TB/s. */
double parts_seconds(uint64_t m, uint64_t n, uint64_t parts);

/* Adds LOCAL_SIZE, TILE_*, THREAD_*, ALIGNED and, where a kernel makes parts, PART_ROWS or PARTS to a call made by
 * group_call; where a variant of the kernel runs it on this device, the call becomes one of the variant
 * (plan/variants.h). `before`: the call whose parts it adds, NULL for a group's first. `max_rows`: rows of the output
 * at the session's limits; `longest`: the longest sequence there. Returns why a variant refused the call, else why the
 * static table has this kernel with these sizes. */
const char *call_tiles(struct call *call, const struct call *before, const struct device_limits *limits, bool f16,
                       uint64_t max_rows, uint32_t longest);

/* What the sizes of a call depend on. Sets ALIGNED, which some follow from. */
struct sizes call_sizes(struct call *call, const struct call *before, const struct device_limits *limits, bool f16,
                        uint64_t max_rows, uint32_t longest);
/* Adds the sizes that the static table has for the call's kernel, a portable one or a variant. Returns why the table
 * has them. */
const char *call_size(struct call *call, const struct sizes *s);

/* Takes an argument away that a variant does without. */
void call_take_away(struct call *call, uint8_t slot);

/* Where a variant of attention's backward pass, a group's first call, leaves nothing in parts, no second kernel adds
 * them: the count becomes 1. calls_divide does it, too. */
void calls_drop(const struct call *call, int *count);

/* The gradient of a weight is a product of few tiles and a long sum. Where its tiles leave a GPU's multiprocessors
 * idle, this deals the sum to several work-groups: the call then writes partial sums, and a second one adds them. Where
 * a variant needs no second call, it goes. After call_tiles. */
void calls_divide(struct call calls[GROUP_MAX_CALLS], int *count, const struct device_limits *limits, bool f16,
                  uint64_t max_rows);

/* Whether the result lies among others': rows of a wider tensor, or a piece of one. Sums in parts are added to whole
 * tensors only. */
bool call_writes_slice(const struct call *call);

/* A product that sums its results over the batch's rows has a part for each of its tiles there. */
void call_sums_tiles(struct call *call);
/* Makes of a product over rows (RUNTIME_K) with all its sizes one in parts of `part_rows` rows, and adds the call of
 * "reduce" that sums them up. */
void calls_split(struct call calls[GROUP_MAX_CALLS], int *count, const struct device_limits *limits,
                 uint32_t part_rows);

/* Bytes that a call's partial sums take for `max_rows` rows, 0 when it writes none. After call_tiles. */
uint64_t call_scratch_bytes(const struct call *call, uint64_t max_rows);

/* Bytes of shared memory that the kernel then needs in one work-group, 0 for kernels that need little. */
size_t call_shared_bytes(const struct call *call);

#endif
