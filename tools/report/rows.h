/* The rows of tables: operations of a plan, those that repeat from layer to layer added up, with what is divided. */
#ifndef WHERRY_TOOLS_REPORT_ROWS_H
#define WHERRY_TOOLS_REPORT_ROWS_H

#include "report/model.h"

/* Sums; NAN where one of the operations has none. Shares are of sums: ideal time over time. */
struct row {
    const struct record_op *op; /* the first of its kind */
    unsigned count, launches, over;
    double seconds, p05, p95, ci_low, ci_high; /* sums of bounds: of several operations bounds of the sum */
    double flops, share, limit;
    struct record_bytes q, d_model, requested;
    double roof_memory, roof_cache, copy_share, mue, mue_theoretical; /* times seconds */
    const char *regime;                                               /* "mixed" where they differ, "" unknown */
};

/* `phase`: NULL, all. Memory to free. */
struct row *rows_merge(const struct record_plan *plan, enum mode mode, const char *phase, size_t *count);
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
bool plan_measured(const struct record_plan *plan, enum mode mode);
/* Whether it is known of each of the plan's operations what its kernels move (D). */
bool plan_modelled(const struct record_plan *plan);
/* What is told where it is not. */
extern const char not_modelled[];
/* The phases that the plan's operations have, in order of first appearance; at most `room`. */
size_t plan_phases(const struct record_plan *plan, const char **phases, size_t room);

#endif
