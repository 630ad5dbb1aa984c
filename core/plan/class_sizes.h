/* Sizes of portable kernels that fit a class of devices. The kernels' own files have those that were measured, on
 * NVIDIA's GPUs and on CPUs; the rows here take their place on classes whose compilers, registers or sub-groups are
 * others. They are predictions from what the compilers of such devices say, and their reasons say so. */
#ifndef WHERRY_PLAN_CLASS_SIZES_H
#define WHERRY_PLAN_CLASS_SIZES_H

#include "plan/tiles.h"

/* What takes the place of a kernel's own sizes; 0: that stays. */
struct class_row {
    const char *kernel;
    uint32_t classes;            /* CLASS_BIT of each */
    uint32_t most_m, most_n;     /* of a product's tiles the largest */
    uint32_t thread_m, thread_n; /* of a work-item */
    uint32_t tile_k, tile_v;     /* of a stage */
    uint32_t part_rows;          /* at a time */
    uint32_t local;              /* work-items that it needs */
    const char *why;
};

#define CLASS_BIT(class) (1u << (class))

/* The row for a kernel on a device that has work-items for it; NULL: there is none. */
const struct class_row *class_row(const char *kernel, const struct device_limits *limits);
/* Work-items of the smallest work-group of a kernel of rows: a sub-group of those that have no smaller one. */
uint32_t class_least_local(const struct device_limits *limits);

#endif
