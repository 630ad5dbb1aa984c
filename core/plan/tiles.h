/* Tile and work-group sizes: the part of a kernel call that depends on the device. */
#ifndef WHERRY_PLAN_TILES_H
#define WHERRY_PLAN_TILES_H

#include "backends/backend.h"

/* Rows of the query tile table's entries, and of the score tile table's in both directions. */
uint32_t tile_queries(const struct device_limits *limits);
uint32_t tile_scores(const struct device_limits *limits);

/* Adds LOCAL_SIZE, TILE_*, THREAD_*, ALIGNED and, where a kernel makes parts, PART_ROWS or PARTS to a call made by
 * group_call. `before`: the call whose parts it adds, NULL for a group's first. `max_rows`: rows of the output at the
 * session's limits; `longest`: the longest sequence there. */
void call_tiles(struct call *call, const struct call *before, const struct device_limits *limits, bool f16,
                uint64_t max_rows, uint32_t longest);

/* The gradient of a weight is a product of few tiles and a long sum. Where its tiles leave a GPU's multiprocessors
 * idle, this deals the sum to several work-groups: the call then writes partial sums, and a second one adds them. After
 * call_tiles. */
void calls_divide(struct call calls[GROUP_MAX_CALLS], int *count, const struct device_limits *limits, bool f16,
                  uint64_t max_rows);

/* Bytes that a call's partial sums take for `max_rows` rows, 0 when it writes none. After call_tiles. */
uint64_t call_scratch_bytes(const struct call *call, uint64_t max_rows);

/* Bytes of shared memory that the kernel then needs in one work-group, 0 for kernels that need little. */
size_t call_shared_bytes(const struct call *call);

#endif
