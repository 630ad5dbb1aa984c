/* Faster kernels that stand for portable ones where a device has what they need. A variant takes the arguments of the
 * kernel that it stands for, and its constants mean the same, so that a call changes its kernel and its sizes only. */
#ifndef WHERRY_PLAN_VARIANTS_H
#define WHERRY_PLAN_VARIANTS_H

#include "plan/tiles.h"

/* What computes products, from what every device has upwards. */
enum rung {
    RUNG_TILED,       /* fma in registers, stages in shared memory: the portable kernels */
    RUNG_COOPMAT,     /* Vulkan: VK_KHR_cooperative_matrix */
    RUNG_MMA,         /* OpenCL on NVIDIA, compute capability 8.0 and up: mma.sync inline */
    RUNG_WGMMA,       /* OpenCL on Hopper: wgmma by patched PTX */
    RUNG_SMALL_BATCH, /* OpenCL on NVIDIA, 8.0 and up, sessions of few rows: mma.sync in kernels that finish soon */
    RUNG_COUNT
};

/* A session of at most so many rows waits for its kernels' beginnings and ends, and for the host's launches, more than
 * for what they compute: RUNG_SMALL_BATCH is for it. After it, the weights that each of its work-groups reads for
 * itself become what it waits for. */
enum { SMALL_BATCH_ROWS = 256 };

#define RUNG_BIT(rung) (1u << (rung))

/* "tiled", "coopmat", ...: what --kernels takes. */
const char *rung_name(enum rung rung);
/* The class of devices that this rung's entries of the static table are for: "nvidia-small-batch", "nvidia-sm90",
 * "nvidia-mma", "coopmat-generic", "generic". */
const char *rung_class(enum rung rung);

struct choices;
struct count;

struct variant {
    const char *kernel; /* that it stands for */
    const char *name;   /* its own: cl/<name>.cl or shaders/<name>.comp */
    enum rung rung;
    bool fuses;      /* it runs calls of optional rows of a plan, too (call_fuses) */
    const char *why; /* it is chosen, for reports */
    /* Whether it runs this call at these sizes; when not, `reason` says why. The call has no sizes yet but ALIGNED. */
    bool (*fits)(const struct call *call, const struct sizes *s, const char **reason);
    void (*size)(struct call *call, const struct sizes *s); /* adds LOCAL_SIZE, TILE_*, ..., maps */
    /* Deals a weight's gradient to several work-groups (calls_divide); NULL: never. */
    void (*divide)(struct call calls[GROUP_MAX_CALLS], int *count, const struct sizes *s);
    size_t (*shared_bytes)(const struct call *call); /* of one work-group */
    void (*count)(struct count *c);                  /* the traffic model (plan/traffic_model.h) */
    /* For `wherry tune` (plan/candidates.h), both may be NULL. `candidates` adds copies of `call`, which has the sizes
     * of `size`, with other ones that the kernel is right with. `derive` makes from sizes that were put in their place
     * what follows from them: maps. */
    void (*candidates)(const struct call *call, const struct sizes *s, struct choices *list);
    void (*derive)(struct call *call, const struct sizes *s);
};

/* All of them, by index from 0; NULL past the last. */
const struct variant *variant_at(size_t index);
/* Says why a variant does not run a call; always false. */
bool variant_refuse(const char **reason, const char *why);
/* That of the entry by which a device with these rungs runs the kernel. */
const char *kernel_class(const char *kernel, uint32_t rungs);
/* The kernel that this one is or stands for. */
const char *kernel_base(const char *kernel);
/* The variant with this name, NULL for a portable kernel. */
const struct variant *variant_find(const char *name);
/* Whether a weight's gradient gives that of the bias, too: the sums of its operand's columns. */
bool call_sums_operand(const struct call *call);
/* Whether the call does more than the portable kernel of its name can: a product that normalizes rows, its operand's or
 * its own, or sums its operand's columns, attention with a product after it. */
bool call_fuses(const struct call *call);
/* Whether a kernel of this name belongs to the rung: one may belong to two. */
bool variant_of_rung(const char *name, enum rung rung);
/* The highest allowed one that runs this call, NULL: the portable kernel does, and `reason` says why where a variant
 * refused it, or is NULL. */
const struct variant *variant_choose(const struct call *call, const struct sizes *s, const char **reason);

#endif
