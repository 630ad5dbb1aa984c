/* The rows of tables: operations of a plan, those that repeat from layer to layer added up, with what is divided. */
#ifndef WHERRY_TOOLS_REPORT_ROWS_H
#define WHERRY_TOOLS_REPORT_ROWS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "report/keys.h"

/* Sums; NAN where one of the operations has none. Shares are of sums: ideal time over time. */
struct row {
    const json_t *op; /* the first of its kind */
    unsigned count, launches, over;
    double seconds, p05, p95, ci_low, ci_high; /* sums of bounds: of several operations bounds of the sum */
    double flops, share, limit;
    double q_read, q_written, d_read, d_written, requested_read, requested_written;
    double roof_memory, roof_cache, copy_share, mue, mue_theoretical; /* times seconds */
    const char *regime;                                               /* "mixed" where they differ, "" unknown */
};

/* `mode`: "warm" or "cold"; `phase`: NULL, all. Memory to free. */
struct row *rows_merge(const struct plan_ops *ops, const char *mode, const char *phase, size_t *count);
struct row rows_total(const struct row *rows, size_t count);
/* "12x qkv" */
void row_name(const struct row *row, char *text, size_t size);
/* The roof that matters in the row's regime, as a share. */
double row_roof(const struct row *row);
double row_bandwidth(const struct row *row); /* D over time */
double row_q_over_d(const struct row *row);
/* 'T', 'S' or 'E', as in `wherry analyze`. */
char row_class(const struct row *row);

/* Whether some operation of the plan has times of this mode. */
bool plan_measured(const struct plan_ops *ops, const char *mode);
/* The phases that the plan's operations have, in order of first appearance; at most `room`. */
size_t plan_phases(const struct plan_ops *ops, const char **phases, size_t room);

#endif
