/* The table of kernels: what the planner knows of each. A plan names portable ones, the lowest rung; others stand for
 * them where a device has what they need. Such a variant takes the arguments of the kernel that it stands for, and its
 * constants mean the same, so that a call changes its kernel and its sizes only. */
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
#define RUNGS_OF_MOMENTS                                                                                               \
    (RUNG_BIT(RUNG_WGMMA) | RUNG_BIT(RUNG_COOPMAT)) /* which have norms in products (graph/fold.h) */

enum { TAKES_MOST = 32 };

/* "tiled", "coopmat", ...: what --kernels takes. */
const char *rung_name(enum rung rung);
/* The class of devices that this rung's entries of the static table are for: "nvidia-small-batch", "nvidia-sm90",
 * "nvidia-mma", "coopmat-generic", "generic". */
const char *rung_class(enum rung rung);

struct choices;
struct count;
struct text_writer;

/* What the planner knows of a kernel. It stands in core/plan/kernels/<name>.c, and that it stands there puts it into
 * the table: the build collects them (cmake/variants.cmake). */
struct variant {
    const char *kernel; /* that it stands for: a portable one for itself */
    const char *name;   /* its own: cl/<name>.cl or shaders/<name>.comp */
    enum rung rung;     /* RUNG_TILED: it is portable */
    /* The constants that say what is computed (plan/constants.h: CONSTANT_WORK) and that it knows, ended by a 0; it
     * runs no call that has another one. */
    uint8_t takes[TAKES_MOST];
    bool sums_operand; /* it knows SUM of a weight's gradient, too (call_sums_operand) */
    bool pitched;      /* rows of any length have whole vectors where their strides have */
    bool slopes;       /* it makes slopes of activations, or multiplies with them (call_has_slopes) */
    const char *why;   /* it is chosen, for reports */
    /* Whether it runs this call at these sizes; when not, `reason` says why. The call has no sizes yet but ALIGNED.
     * NULL: any. A portable kernel's looks at the call and the device, never at the number of rows. */
    bool (*fits)(const struct call *call, const struct sizes *s, const char **reason);
    void (*size)(struct call *call, const struct sizes *s); /* adds LOCAL_SIZE, TILE_*, ..., maps */
    /* Deals a weight's gradient to several work-groups, or, where it `adds`, another product (calls_divide); NULL:
     * never. */
    void (*divide)(struct call calls[GROUP_MAX_CALLS], int *count, const struct sizes *s);
    /* Makes of a call in parts with its sizes one that adds them itself, with counters; NULL: a second kernel does.
     * Such a kernel may have the sums of rows of the batch in parts, too. */
    void (*adds)(struct call *call, const struct sizes *s);
    size_t (*shared_bytes)(const struct call *call); /* of one work-group; NULL: none, or little */
    /* Of partial sums, where the call writes some. NULL: as the portable kernel; where that has none, N for a part. */
    uint64_t (*scratch_bytes)(const struct call *call, uint64_t max_rows);
    void (*count)(struct count *c); /* the traffic model (plan/traffic_model.h) */
    /* For `wherry tune` (plan/candidates.h), all may be NULL. `candidates` adds copies of `call`, which has the sizes
     * of `size`, with other ones that the kernel is right with. `derive` makes from sizes that were put in their place
     * what follows from them: maps. Of a portable kernel, `registers` are a work-item's, about; no run takes less
     * seconds than `bound` on a large GPU. */
    void (*candidates)(const struct call *call, const struct sizes *s, struct choices *list);
    void (*derive)(struct call *call, const struct sizes *s);
    uint32_t (*registers)(const struct call *call, const struct sizes *s);
    double (*bound)(const struct call *call, const struct sizes *s);
    /* The sizes as text (call_variant); NULL: describe_sizes and describe_rows. */
    void (*describe)(const struct call *call, struct text_writer *text);
};

/* The table, in the order of the files; NULL ends it. */
extern const struct variant *const variants[];

/* All of them, by index from 0, the highest rung first; NULL past the last. */
const struct variant *variant_at(size_t index);
/* Says why a variant does not run a call; always false. */
bool variant_refuse(const char **reason, const char *why);
/* Whether it runs this call at these sizes; when not, `reason` says why. */
bool variant_runs(const struct variant *variant, const struct call *call, const struct sizes *s, const char **reason);
/* For backends, of a call that is about to run: the same of a portable kernel; a variant was asked when it was chosen,
 * and what has no row is the backend's own. Of `s` there are the limits and the type. */
bool call_runs(const struct call *call, const struct sizes *s, const char **reason);
/* That of the entry by which a device with these rungs runs the kernel. */
const char *kernel_class(const char *kernel, uint32_t rungs);
/* The kernel that this one is or stands for. */
const char *kernel_base(const char *kernel);
/* The kernel with this name, NULL: there is none in the table. */
const struct variant *kernel_row(const char *name);
/* The same, NULL for a portable kernel. */
const struct variant *variant_find(const char *name);
/* Whether a weight's gradient gives that of the bias, too: the sums of its operand's columns. */
bool call_sums_operand(const struct call *call);
/* Whether it makes the slope of an activation, or multiplies with one that was made. */
bool call_has_slopes(const struct call *call);
/* Whether the call does more than the portable kernel of its name can: a product that normalizes rows, its operand's or
 * its own, or sums its operand's columns, attention with a product after it. */
bool call_fuses(const struct call *call);
/* Whether a kernel whose epilogue takes so many (4 or 8) neighbouring results of a row can gate them, or turn them: of
 * calls that do neither always. */
bool call_moments_fit(const struct call *call, const char **reason);
bool call_pairs_fit(const struct call *call, uint32_t channels, const char **reason);
/* Whether a kernel of this name belongs to the rung: one may belong to two. */
bool variant_of_rung(const char *name, enum rung rung);
/* The highest allowed one that runs this call, NULL: the portable kernel does, and `reason` says why where a variant
 * refused it, or is NULL. */
const struct variant *variant_choose(const struct call *call, const struct sizes *s, const char **reason);

/* Tile and work-items: "128x128x32, 8x8 a work-item", "256 a work-group". */
void describe_sizes(const struct call *call, struct text_writer *text);
/* What rows of a kernel of rows share: ", 16 a row", ", 64 rows a part". */
void describe_rows(const struct call *call, struct text_writer *text);

#endif
