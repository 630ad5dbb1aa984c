/* Tile and work-group sizes: the part of a kernel call that depends on the device. What each kernel wants is in its own
 * file (plan/kernels); here is what they are asked with, and what several of them compute alike. */
#ifndef WHERRY_PLAN_TILES_H
#define WHERRY_PLAN_TILES_H

#include "graph/group.h"
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

/* A power of two from 32, or a larger sub-group, to 256, not above the device's limit, near `items`: kernels whose
 * work-items share a row, and add up in the order that LOCAL_SIZE gives, are right with any. */
uint32_t row_size(const struct device_limits *limits, uint32_t items);
/* Sets LOCAL_SIZE to that. */
void size_row(struct call *call, const struct sizes *s, uint32_t items);
/* LOCAL_SIZE, and TEAM work-items for each row of N, which are added up: short rows share a work-group. */
void size_team(struct call *call, const struct sizes *s);
/* For sums over rows: so many rows that the parts of the largest batch run at the same time, each with `columns`
 * work-groups. */
uint32_t rows_of_part(const struct device_limits *limits, uint64_t max_rows, uint32_t columns);

/* Sizes of a product; one of them is the batch's number of rows, here the most that there may be. */
struct extents {
    uint64_t m, n, k;
};
struct extents call_extents(const struct call *call, const struct sizes *s);
/* Rows of an expert of a batch of so many tokens, where all have as many. */
uint64_t experts_rows(const struct call *call, uint64_t rows);

/* The search for a product's tile, and for the number of work-groups that its sum is dealt to: whatever costs least. */
struct tile_search {
    int tiles;            /* by number from 0; of equal ones the first is taken */
    uint64_t most_parts;  /* 1: the sum stays whole */
    uint64_t least_depth; /* of a part, where there are several */
    bool (*fits)(const struct call *call, const struct sizes *s,
                 int tile); /* whether the device runs it; NULL: it does */
    double (*cost)(const struct call *call, const struct sizes *s, int tile, uint64_t parts);
};
/* -1: no tile fits. */
int tile_search(const struct tile_search *search, const struct call *call, const struct sizes *s, uint64_t *parts);
/* Rows of one of `parts`, a multiple of `unit`. */
uint32_t rows_in_parts(uint64_t rows, uint64_t parts, uint32_t unit);

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

/* Where a variant, a group's first call, leaves nothing in parts, no second kernel adds them: the count becomes 1.
 * calls_divide does it, too. */
void calls_drop(const struct call *call, int *count);

/* The gradient of a weight is a product of few tiles and a long sum, and so is that of rows by scores of many words.
 * Where its tiles leave a GPU's multiprocessors idle, this deals the sum to several work-groups: the call then writes
 * partial sums, and adds them itself, or a second one does. Where a variant needs no second call, it goes. After
 * call_tiles. */
void calls_divide(struct call calls[GROUP_MAX_CALLS], int *count, const struct device_limits *limits, bool f16,
                  uint64_t max_rows);

/* Whether the result lies among others': rows of a wider tensor, or a piece of one. The second kernel adds sums in
 * parts to whole tensors only. */
bool call_writes_slice(const struct call *call);

/* A product that sums its results over the batch's rows has a part for each of its tiles there. */
void call_sums_tiles(struct call *call);
/* Whether PART_ROWS of a product says how its sums are divided. */
bool call_sums_in_parts(const struct call *call);
/* Makes of a product over rows (RUNTIME_K) with all its sizes one in parts of `part_rows` rows, and adds the call of
 * "reduce" that sums them up where the kernel does not do it itself. Where it does, of a product of rows (RUNTIME_M)
 * one in parts of so much of K. */
void calls_split(struct call calls[GROUP_MAX_CALLS], int *count, const struct sizes *s, uint32_t part_rows);

/* Bytes that a call's partial sums take for `max_rows` rows, 0 when it writes none. After call_tiles. */
uint64_t call_scratch_bytes(const struct call *call, uint64_t max_rows);

/* Bytes of shared memory that the kernel then needs in one work-group, 0 for kernels that need little. */
size_t call_shared_bytes(const struct call *call);
/* Of these, a head's row of a bias by distance, in floats; 0: there is none. */
size_t call_bias_bytes(const struct call *call);

#endif
