/* Operators and groups that repeat from layer to layer, added up, and how a cost is written. */
#ifndef WHERRY_TOOLS_COSTS_H
#define WHERRY_TOOLS_COSTS_H

#include "session.h"

/* All costs of one kind. */
struct cost_sum {
    const wherry_cost *first;
    uint32_t count;
    double flops, seconds, bytes_read, bytes_written;
};

/* Measures a batch on the tool's session: the costs of at most *count groups with their times, the number that there
 * is, and the host's median time of a run. `groups` may be NULL. */
wherry_status costs_measure(const struct tool *tool, const wherry_batch *batch, wherry_phase phase, uint32_t repeats,
                            double warm_seconds, wherry_cost *groups, size_t *count, double *step_seconds);

/* One sum for each kind, in the order of the first of its kind, or for each cost when `separate`; memory to free. */
struct cost_sum *costs_merge(const wherry_cost *costs, size_t count, bool separate, size_t *sums);
struct cost_sum costs_total(const wherry_cost *costs, size_t count);
/* The kind's name, or the cost's own when `separate`. */
const char *cost_sum_name(const struct cost_sum *sum, bool separate);
/* "12.3", and "-" for a division by nothing. */
const char *format_ratio(double a, double b, const char *format, char text[NUMBER_SIZE]);
json_t *cost_json(const wherry_cost *cost, bool group);

#endif
