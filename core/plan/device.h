/* What planning knows of a device. */
#ifndef WHERRY_PLAN_DEVICE_H
#define WHERRY_PLAN_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/device_class.h"
#include "plan/device_identity.h"

/* Where a device does not say how many multiprocessors it has, and in what was measured once for all GPUs: those of an
 * H100 or H200. */
enum { LARGE_GPU_UNITS = 132 };

struct device_limits {
    const struct device_identity *identity; /* the device's, which outlives what is planned for it; NULL: of the host */
    uint32_t quirks;                        /* QUIRK_* of backends/quirks.h: what is known of the driver */
    enum device_class class;                /* by which sizes are chosen (plan/class_sizes.h) */
    bool f16;                               /* stores and loads 16-bit floats */
    bool bf16;                              /* multiplies in bf16: products whose weights are stored so */
    bool cpu;                               /* runs on the host's cores */
    uint32_t subgroup_min, subgroup_max;    /* 1 where unknown */
    size_t shared_bytes;                    /* of one work-group */
    uint32_t max_local_size;                /* work-items of one work-group */
    uint64_t max_buffer_bytes;              /* one allocation */
    uint64_t max_binding_bytes;             /* one argument */
    uint64_t memory_bytes;                  /* of the device */
    uint32_t nvidia_sm;                     /* compute capability * 10 (90: Hopper), 0 elsewhere */
    uint32_t compute_units;                 /* multiprocessors, 0 where unknown */
    uint32_t rungs;                         /* RUNG_BIT of what computes products here (plan/variants.h) */
    uint32_t rungs_unmeasured;              /* of them those that nobody has seen to be faster on such devices */
    /* Sessions of at most so many rows that take one of these rungs gain from their memory being one buffer, of which
     * all arguments are parts (buffer_part in backends/backend.h). 0: none does. */
    uint32_t one_buffer_rows, one_buffer_rungs;
    bool f16_arithmetic; /* kernels may compute in 16 bits */
    /* Shape of the cooperative matrices of a sub-group, f16 times f16 added in f32; 0: there are none. */
    uint32_t coopmat_m, coopmat_n, coopmat_k;
    uint32_t coopmat_subgroup; /* work-items of the sub-groups that such kernels run in */
    bool coopmat_bf16;         /* of this shape there are those of bf16, too */
    bool coopmat_f16_sums;     /* there are matrices of sums in 16 bits of this shape, too */
    bool coopmat2;             /* their elements can be computed with, reduced and converted (NV_cooperative_matrix2) */
    const char *timer;         /* what step_seconds come from: "timestamp", "event"; NULL: there is none */
    double timer_seconds;      /* one tick, as the driver says */
    uint32_t timer_bits;       /* valid ones of the counter */
};

struct grid {
    uint32_t x, y, z; /* work-groups */
};

#endif
