/* What a device can do, what each kernel does, and how far apart they are.
 *
 *   wherry_roof_measure -> ceilings           wherry_measure -> groups           wherry_derive: one by the other
 *
 * SI units everywhere: seconds, bytes, bytes per second, flop per second. A number that was not measured is 0 with
 * n = 0, and what follows from it is NAN: never a guess. docs/measuring.md says how each is measured. */
#ifndef WHERRY_MEASURE_H
#define WHERRY_MEASURE_H

#include <wherry/wherry.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One quantity, measured n times; seconds. */
typedef struct wherry_time {
    double median, p05, p95, min, mean;
    double ci_low, ci_high; /* of the median, 95 %: order statistics, no assumption on the distribution */
    double cv;              /* standard deviation over mean */
    double first;           /* the first run of this work in the process, warm-up included */
    uint32_t n, outliers;   /* outliers: modified z-score above 14.8 */
} wherry_time;

/* ---- where the time of a start goes ---- */

typedef struct wherry_part {
    char name[24];
    double seconds;           /* on the clock */
    double processor_seconds; /* of all the process' threads, drivers' among them */
} wherry_part;

/* What a context that was made with `timed` has spent so far in the thread that made it, by parts that exclude each
 * other, in the order of a start: listing each API's devices, opening, model, plan, kernels, weights,
 * runs, and the rest, which is the caller's own time, too. First of all what the process had used of the processor
 * before the context was made, for which no clock ran: both its times are that. Another thread may ask once that one is
 * in no call; it sees the account as the last change of parts left it. Fills at most *count entries of `out`
 * (which may be NULL) and sets *count to the number there is. */
WHERRY_API wherry_status wherry_context_parts(wherry_context *context, wherry_part *out, size_t *count);

/* ---- the device's timer ---- */

typedef enum wherry_timer_status {
    WHERRY_TIMER_OK = 0,
    WHERRY_TIMER_ABSENT,    /* the driver has none: times are the host's, of many runs */
    WHERRY_TIMER_BACKWARDS, /* an end before its start */
    WHERRY_TIMER_STUCK,     /* equal or zero stamps around work that took time */
    WHERRY_TIMER_UNIT       /* not as many seconds as the host's clock says */
} wherry_timer_status;

typedef struct wherry_timer_info {
    wherry_timer_status status;
    char kind[16];       /* "timestamp" (Vulkan), "event" (OpenCL), "host" where the device's is not used */
    double tick_seconds; /* as the driver says */
    uint32_t valid_bits;
    double slope;     /* device seconds per host second, over work 1, 2, 4 and 8 times as long; NAN: unknown */
    char reason[160]; /* of a status that is not OK */
} wherry_timer_info;

WHERRY_API const char *wherry_timer_status_name(wherry_timer_status status); /* "ok", "absent", ... Never NULL. */

/* ---- ceilings ---- */

typedef enum wherry_unit { WHERRY_UNIT_BYTES = 0, WHERRY_UNIT_FLOPS, WHERRY_UNIT_SECONDS } wherry_unit;

/* Ids: "dram.read", "dram.write", "dram.copy", "dram.triad" (read and written bytes are both counted); "cache.read",
 * "cache.copy": the same far below the cache edge; "compute.f32", "compute.f16", "compute.matrix";
 * "launch.seconds" and "launch.bandwidth": a and b of T = a + V/b over copies of V bytes; "launch.gap": between two
 * dependent kernels; "host.submit": what the host spends on handing over a run of one kernel and waiting for it. */
typedef struct wherry_ceiling {
    char id[24];
    char config[48]; /* "4 x 16 B, 256/group": accesses of a work-item at a time, work-items of a group */
    wherry_unit unit;
    wherry_dtype dtype;       /* of the data, 0 where there is none */
    bool best;                /* of its id: what is divided by */
    double value;             /* per second: bytes, flop; or seconds. By the median */
    double amount;            /* bytes or flop of one timed run; of unit SECONDS 1 */
    uint64_t footprint_bytes; /* of all buffers that one run touches */
    wherry_time time;
} wherry_ceiling;

/* A copy of `bytes` (read and written together), again and again over the same buffers: the working-set sweep, and the
 * launch regime. */
typedef struct wherry_roof_point {
    uint64_t bytes;
    wherry_time time;
} wherry_roof_point;

typedef struct wherry_roof wherry_roof;

typedef struct wherry_roof_desc {
    uint32_t struct_size;
    uint64_t dram_bytes; /* of each buffer of the DRAM ceilings; 0: 1 GiB on a GPU, 64 MiB on a CPU driver, less where
                            the device's limits or its memory ask for it */
    double warm_seconds; /* 0: 0.5. Clocks are warm when three windows agree within 1 %, and not before this */
    uint32_t repeats;    /* 0: 21 */
    bool zeros;          /* data: zeros instead of random floats, to see what compression brings */
    const char *only;    /* NULL: all. Ids, or their first parts ("dram,compute"), with commas */
} wherry_roof_desc;

/* Measures ceilings through the same API as everything else; rounds of different configurations alternate, so that
 * drift hits all alike. Takes seconds. The reference has no kernels: WHERRY_STATUS_UNSUPPORTED. desc may be NULL. A
 * timer that lies is no error: see wherry_roof_timer. */
WHERRY_API wherry_status wherry_roof_measure(wherry_device *device, const wherry_roof_desc *desc,
                                             wherry_progress progress, void *user, wherry_roof **out);
WHERRY_API void wherry_roof_destroy(wherry_roof *roof);
/* All configurations, ids together, the best of each first. */
WHERRY_API const wherry_ceiling *wherry_roof_ceilings(const wherry_roof *roof, size_t *count);
/* The best one of an id; NULL: this device has none (no 16-bit arithmetic, no matrix unit), or it was not asked for. */
WHERRY_API const wherry_ceiling *wherry_roof_ceiling(const wherry_roof *roof, const char *id);
WHERRY_API const wherry_roof_point *wherry_roof_sweep(const wherry_roof *roof, size_t *count);
/* What "launch.seconds" and "launch.bandwidth" were fitted to. */
WHERRY_API const wherry_roof_point *wherry_roof_launches(const wherry_roof *roof, size_t *count);
/* The largest working set that the last cache holds, by the sweep; 0: no edge was found. */
WHERRY_API uint64_t wherry_roof_cache_bytes(const wherry_roof *roof);
WHERRY_API const wherry_timer_info *wherry_roof_timer(const wherry_roof *roof);
/* The sentinel, one copy, at the beginning and the end of the measuring: how far the device drifted meanwhile. */
WHERRY_API void wherry_roof_sentinel(const wherry_roof *roof, wherry_time *first, wherry_time *last);

/* The device's timer against the host's clock; wherry_roof_measure does it, too. */
WHERRY_API wherry_status wherry_timer_test(wherry_device *device, wherry_timer_info *out);

/* ---- groups ---- */

typedef struct wherry_measure_desc {
    uint32_t struct_size;
    wherry_phase phase;
    uint32_t repeats;     /* 0: 50 */
    double warm_seconds;  /* 0: 0.5 */
    bool cold;            /* also every group alone, its buffers taken in turn so that no cache holds them */
    uint64_t cache_bytes; /* what "so that no cache holds them" means; of wherry_roof_cache_bytes. 0: 64 MiB */
    bool alone;           /* also every group alone, again and again over the same buffers */
} wherry_measure_desc;

/* What moves when a group runs; bytes of all its kernels. */
typedef struct wherry_traffic {
    uint64_t unique_read, unique_written;       /* Q: each tensor once (as in wherry_cost) */
    uint64_t model_read, model_written;         /* D: what the kernels are written to move from memory: a tile that is
                                                   read again counts again, unless what lies between fits the cache */
    uint64_t requested_read, requested_written; /* what their work-items ask of the caches, registers and shared memory
                                                   aside: every re-read counts */
    uint64_t footprint;                         /* of all tensors */
} wherry_traffic;

/* One of a group's kernels, and what it takes of a multiprocessor, as the driver says; 0: unknown, or none. */
typedef struct wherry_kernel_use {
    char name[32];
    char variant[64];       /* tile sizes and other choices: "128x128x16, 8x8 a work-item"; "" */
    char reason[128];       /* why this kernel and no other; "" where there is no other */
    uint32_t registers;     /* of a work-item, of 32 bits */
    uint32_t spilled_bytes; /* of a work-item, that do not fit them */
    uint32_t shared_bytes;  /* of a work-group */
    uint32_t waves;         /* sub-groups that are resident at a time, on a multiprocessor or one of its SIMD units, by
                               which the driver counts */
    uint32_t waves_most;    /* that there can be of any kernel: waves / waves_most is the occupancy */
    uint32_t subgroup_size; /* work-items of a sub-group */
    uint32_t code_bytes;    /* of instructions */
} wherry_kernel_use;

enum { WHERRY_GROUP_KERNELS = 2 };

typedef struct wherry_group_measure {
    wherry_cost cost; /* its seconds are the warm ones */
    wherry_traffic traffic;
    uint32_t launches;
    wherry_kernel_use kernels[WHERRY_GROUP_KERNELS]; /* [launches] */
    wherry_time warm, cold;                          /* as in the step; alone with rotating buffers */
    wherry_time alone;                               /* one run of the group after the other, nothing between them */
    uint32_t cold_sets;                              /* buffer sets that were rotated */
    wherry_timer_status timer; /* not OK: warm is empty, cold by the host's clock over many runs */
} wherry_group_measure;

/* Of a run as a whole. */
typedef struct wherry_step_measure {
    uint32_t struct_size; /* set by the caller */
    wherry_time host;     /* without timestamps: what a caller waits for */
    wherry_time kernels;  /* the sum of its groups' times by the device's timer */
    wherry_timer_info timer;
} wherry_step_measure;

/* Runs the batch `repeats` times without timestamps and `repeats` times with the device's around every group, after at
 * least `warm_seconds` of the same work: an encode with its copies; a training step with random x and loss gradient on
 * the device already, and without copies. Fills at most *count entries of `groups` (NULL: none) and sets *count to the
 * number there is; groups of another phase have n = 0. `step` may be NULL. A timer that lies is no error. `cold` and
 * `alone` need a session with keep_intermediates, because the groups' inputs are those of the step, and are
 * WHERRY_STATUS_UNSUPPORTED by the reference, which has no kernels. `cold` takes up to a quarter of the device's memory
 * meanwhile. */
WHERRY_API wherry_status wherry_measure(wherry_session *session, const wherry_batch *batch,
                                        const wherry_measure_desc *desc, wherry_group_measure *groups, size_t *count,
                                        wherry_step_measure *step);

/* ---- tuning: sizes of kernels, measured on this device ---- */

typedef struct wherry_tune_desc {
    uint32_t struct_size;
    uint32_t candidates; /* of one kernel call at most; 0: 40 */
    uint32_t rounds;     /* a candidate and the static table's sizes take turns; 0: 15, fewer where that takes long */
    bool fresh;          /* measure again what an earlier tuning measured */
    bool all;            /* measure also what would be cut: whether the best is among it */
    uint32_t share, shares; /* shares > 0: nothing is measured or chosen. Of the kernels that would be, this share (0 to
                               shares - 1) is compiled, into the cache folder: for as many processes at the same time,
                               where a driver's compiler gains little by threads, as NVIDIA's OpenCL */
} wherry_tune_desc;

/* One distinct kernel call of the plan: a kernel with what it computes, for sessions with such limits. */
typedef struct wherry_tune_result {
    char group[64];                     /* the first that has it */
    char work[64];                      /* "4096 x 1024 x 1024 NT": what it computes */
    char usual[96];                     /* kernel and sizes of the static table */
    char best[96];                      /* those chosen; the same where none is better at 95 % confidence */
    bool chosen;                        /* others than the static table's */
    uint32_t groups;                    /* of the plan with this call */
    double usual_seconds, best_seconds; /* medians, taking turns; of a group's second kernel alone, of its first one
                                           with what follows; 0: nothing was measured */
    uint32_t measured;                  /* candidates, now or earlier */
    uint32_t known;                     /* of them earlier */
    uint32_t wrong;                     /* whose numbers were not those of the static table's: never chosen */
    uint32_t failed;                    /* that could not be compiled or run */
    uint32_t refused;                   /* left out: the device, or this session, can't run them */
    uint32_t cut;                       /* left out by the bound of bytes and flop, or because there were enough */
    char reason[192];  /* why there is nothing to choose, or what was wrong with the last one that was wrong */
    uint64_t key;      /* of the work: the same for whatever does the same */
    char layouts[160]; /* of the session that it was measured in, as in wherry_session_plan */
    const struct wherry_tune_candidate *candidates; /* [measured], as long as the call takes */
} wherry_tune_result;

typedef enum wherry_tune_verdict { WHERRY_TUNE_RIGHT = 0, WHERRY_TUNE_WRONG, WHERRY_TUNE_FAILED } wherry_tune_verdict;

/* One candidate of a kernel call, beside the static table's sizes; alone, one run after the other. */
typedef struct wherry_tune_candidate {
    char sizes[128]; /* kernel and sizes */
    bool cut;        /* wherry_tune_desc.all: it would have been left out */
    wherry_tune_verdict verdict;
    wherry_time time, usual; /* n = 0 where it is not right */
    double nmse;
    char reason[160]; /* what was wrong */
} wherry_tune_candidate;

typedef struct wherry_tune_summary {
    uint32_t struct_size; /* set by the caller */
    uint32_t works, chosen, measured, known, wrong, failed;
    double usual_seconds, best_seconds; /* sums over all groups of the plan */
    char file[512];                     /* that sessions use from now on */
} wherry_tune_summary;

/* Called with each result; returning false cancels. */
typedef bool (*wherry_tune_callback)(const wherry_tune_result *result, void *user);

/* Measures for every distinct kernel call of the session's plan which sizes are the fastest on its device, for sessions
 * of such limits (rows count up to the next power of two), on this batch, which should be a full one. A candidate's
 * outputs are compared with those of the static table's sizes, at a small batch and at this one, before it is timed; a
 * better one is confirmed by a second measurement, and chosen when the intervals of the medians are apart and it saves
 * at least 1 %. Every measurement is on disk when the next one begins, so that a tuning that was stopped goes on where
 * it was. Sessions that are created from then on use what was chosen, whatever their batches.
 *
 * The session must have been made with keep_intermediates and with tuning = "", and the context must have a cache
 * folder. The reference has no kernels: WHERRY_STATUS_UNSUPPORTED. desc, progress and callback may be NULL. */
WHERRY_API wherry_status wherry_tune(wherry_session *session, const wherry_batch *batch, const wherry_tune_desc *desc,
                                     wherry_progress progress, wherry_tune_callback callback, void *user,
                                     wherry_tune_summary *summary);

/* ---- tuning: orders of tensors, measured and chosen for a plan as a whole ---- */

enum { WHERRY_LAYOUT_TENSORS = 12, WHERRY_LAYOUT_ORDERS = 12, WHERRY_LAYOUT_WORKS = 16 };

/* A tensor whose order can be chosen, in every layer, its gradient with it. */
typedef struct wherry_layout_tensor {
    char name[16];
    char orders[WHERRY_LAYOUT_ORDERS][16]; /* [count], the model's first */
    uint32_t count, chosen;
} wherry_layout_tensor;

/* An operator (groups that share one; those of all layers together) with its tensors in these orders. */
typedef struct wherry_layout_time {
    uint32_t orders[WHERRY_LAYOUT_TENSORS]; /* [n_tensors of the operator]: an index of wherry_layout_tensor.orders */
    char kernels[256];                      /* "lin2_dx: gemm_wgmma, 128x256x64; ..." */
    double seconds, low,
        high;   /* in the step, with the table's sizes or those tuned, whichever is faster; median, interval */
    bool tuned; /* some are those tuned */
    bool usual, best, chosen;
    uint64_t works[WHERRY_LAYOUT_WORKS];           /* of its groups, by the key of the first kernel call's result */
    uint32_t counts[WHERRY_LAYOUT_WORKS], n_works; /* how many groups are each */
} wherry_layout_time;

typedef struct wherry_layout_operator {
    char name[96]; /* names of its groups, with '+' between them */
    wherry_class class_;
    bool backward;
    uint32_t tensors[WHERRY_LAYOUT_TENSORS], n_tensors; /* whose orders it depends on */
    const wherry_layout_time *times;
    size_t n_times;
} wherry_layout_operator;

typedef struct wherry_layouts_chosen {
    uint32_t struct_size; /* set by the caller */
    const wherry_layout_tensor *tensors;
    size_t n_tensors;
    const wherry_layout_operator *operators; /* in the order of the step */
    size_t n_operators;
    const wherry_layout_time *times; /* of all of them, back to back */
    char layouts[160];               /* as in wherry_session_desc; "": the model's */
    char reason[256];
    uint64_t combinations, possible; /* of orders: all, and those that a session can have */
    uint64_t measured, known, wrong; /* of these, whose steps were measured, earlier or now; whose results were wrong */
    uint64_t states; /* nodes of the graph whose shortest path is the choice: the optimum, no heuristic */
    double drift;    /* what the model's orders with the static table's sizes took at the end, over the sum of their
                        operators' times before; these, and all sums below, are multiplied by it */
    /* Sums of the kernels' seconds in a run: */
    wherry_time usual, chosen; /* measured at the end, taking turns: the model's orders with the static table's
                                  sizes, and what was chosen */
    wherry_time usual_host, chosen_host; /* the same by the host's clock, without timestamps */
    double path;                         /* length of that path: the least sum of operators' times */
    double predicted;                    /* of the choice: the sum of its operators' times; the path, if it was kept */
    double best_sum;                     /* of every operator's best, which do not fit together */
    double transposed; /* those, with a copy for each further order that a tensor is wanted in: of weights as measured,
                          of activations at the weights' price of an element; NAN: no weight can be copied */
    double forward_first, backward_first; /* orders by one pass' operators alone, the other's as they must be then; 0 in
                                             inference */
    double random_p05, random_median, random_p95; /* of possible combinations taken at random, the table's sizes */
    uint32_t random_n;
} wherry_layouts_chosen;

/* Tunes the sizes of all kernels that sessions like this one (desc without layouts and tuning) have with any orders of
 * their tensors, as wherry_tune does; times each group in the step, with the static table's sizes and with those
 * chosen, a run with the model's orders taking turns; and chooses the orders whose sum is least. What a session with
 * other orders gives is compared with what the model's give before it is timed. The choice is kept when it is faster
 * than the model's orders with the table's sizes at 95 % confidence; sessions like this one use it from then on.
 * Measurements are on disk one by one, as wherry_tune's.
 *
 * Needs a device whose timer can be trusted (else WHERRY_STATUS_UNSUPPORTED, and so is the reference) and a context
 * with a cache folder. What `out` points to lives until wherry_layouts_free. */
WHERRY_API wherry_status wherry_tune_layouts(wherry_context *context, wherry_device *device, const wherry_model *model,
                                             const wherry_session_desc *session, const wherry_batch *batch,
                                             const wherry_tune_desc *desc, wherry_progress progress,
                                             wherry_tune_callback callback, void *user, wherry_tune_summary *summary,
                                             wherry_layouts_chosen *out);
WHERRY_API void wherry_layouts_free(wherry_context *context, wherry_layouts_chosen *chosen);

/* ---- roofline ---- */

/* What is divided by; 0: unknown. */
typedef struct wherry_peaks {
    double bandwidth;             /* of memory, measured: the best of "dram.*" */
    double copy;                  /* "dram.copy" */
    double cache_bandwidth;       /* the best of "cache.*" */
    double theoretical_bandwidth; /* by the driver or the user, never measured */
    double flops;                 /* for the group's class and type */
    double launch;                /* seconds: a of T = a + V/b */
    uint64_t cache_bytes;
} wherry_peaks;

typedef enum wherry_regime {
    WHERRY_REGIME_UNKNOWN = 0, /* two limits within 10 %, or no time to be trusted */
    WHERRY_REGIME_LAUNCH,
    WHERRY_REGIME_CACHE,
    WHERRY_REGIME_MEMORY,
    WHERRY_REGIME_COMPUTE
} wherry_regime;

typedef struct wherry_derived {
    double bandwidth;             /* D / t */
    double bandwidth_unique;      /* Q / t */
    double bandwidth_requested;   /* requested / t */
    double flops_per_second;      /* F / t */
    double intensity;             /* F / Q */
    double intensity_model;       /* F / D */
    double roof_memory;           /* share of min(P, intensity_model * bandwidth) reached; 1: at the roof */
    double roof_cache;            /* the same with the requested bytes and the cache's bandwidth */
    double copy_share;            /* D / t over the copy's */
    double mue, mue_theoretical;  /* Q / (t * B): memory use efficiency, by the measured and the theoretical B */
    double q_over_d, b_over_peak; /* its factors: q_over_d * b_over_peak = mue */
    double limit_seconds;         /* max(Q / B, F / P, launch) */
    double headroom;              /* t / limit */
    wherry_regime regime;
    bool over_peak; /* more than a measured ceiling: flagged, never clamped */
} wherry_derived;

/* `cold`: the times are of cold caches. NAN where something needed is unknown. Pure arithmetic: the same numbers from
 * the same input everywhere, so that reports can be checked. */
WHERRY_API void wherry_derive(const wherry_peaks *peaks, const wherry_traffic *traffic, double flops, double seconds,
                              bool cold, bool timer_ok, wherry_derived *out);
WHERRY_API const char *wherry_regime_name(wherry_regime regime); /* "launch", ... Never NULL. */

/* ---- prediction: the graph and a device's peaks, no device ---- */

/* Peaks as a data sheet or a measurement gives them; 0: unknown. */
typedef struct wherry_device_spec {
    char name[64];
    double bandwidth;    /* of memory */
    double matrix_flops; /* flop per second of products in f16 */
    double f32_flops;    /* of everything else, and of products in f32 */
    double cache_bandwidth;
    double launch_seconds;
    uint64_t cache_bytes;
    char source[192];      /* of the numbers */
    double f16_flops;      /* of everything but matrix units in f16, where a data sheet says so; nothing uses it */
    uint64_t memory_bytes; /* the device's own; 0: unknown, or the system's */
} wherry_device_spec;

/* GPUs of several vendors by their data sheets ("h200", "rx-7900-xtx"); index from 0, NULL after the last. */
WHERRY_API const wherry_device_spec *wherry_device_spec_at(size_t index);
/* The intensity from which on the arithmetic is the limit, in flop per byte. */
WHERRY_API double wherry_device_spec_ridge(const wherry_device_spec *spec, wherry_class class_, wherry_dtype dtype);

typedef struct wherry_prediction {
    double intensity;       /* flop per byte; NAN without bytes */
    double memory_seconds;  /* bytes over bandwidth */
    double compute_seconds; /* products and the rest run on units of their own: the longer of the two */
    double cache_seconds;   /* bytes over the cache's bandwidth, where they fit into it; else NAN */
    double limit_seconds;   /* the most of memory, compute and launch: what comes from memory is never faster */
    double flops_share;     /* flop per second at the limit, of the most that the device computes in this type */
    wherry_regime bound;    /* which one it is; UNKNOWN where there is nothing to do */
} wherry_prediction;

/* dtype 0: f16. Pure arithmetic. */
WHERRY_API void wherry_predict(const wherry_device_spec *spec, wherry_dtype dtype, const wherry_work *work,
                               wherry_prediction *out);
/* The work of one operator (of a group see wherry_analysis_work). */
WHERRY_API void wherry_operator_work(const wherry_cost *cost, wherry_work *out);
/* Seconds that a decision saves at the limits, or would save. */
WHERRY_API double wherry_predict_fusion(const wherry_device_spec *spec, wherry_dtype dtype,
                                        const wherry_fusion *fusion);
/* How many times as fast a step becomes when of `other_seconds` (everything but contractions) this share stays, 0 to 1:
 * k of n round trips through memory leave k / n, and with 0 it is fusion's bound. */
WHERRY_API double wherry_fusion_gain(double contraction_seconds, double other_seconds, double stays);

/* ---- layouts: the orders in which tensors' letters may lie in memory; no device (docs/layouts.md) ---- */

/* The layouts of a contraction: a triple is an order of each operand's letters and of the result's. */
typedef struct wherry_product_layouts {
    uint64_t m, n, k, batch; /* of the GEMM: letters of the first operand and the result, of the second and the result,
                                of both operands, of all three */
    uint64_t permutations;   /* triples */
    uint64_t valid;          /* those that are one GEMM, or one strided-batched GEMM */
    uint64_t stack_first;    /* of these, where the stack is the slowest letter: its slices are whole; 0 without one */
    uint64_t gemms;          /* different calls of a column-major GEMM among the valid */
    uint64_t packed;         /* of the valid, what packed batches of different lengths can lie in */
    uint64_t by_sequence;    /* where b is in the batch: triples of packed batches that are a GEMM, or a
                                strided-batched one, for each sequence; else 0 */
} wherry_product_layouts;

/* Of an operator, counted from 0; false: it is no contraction. */
WHERRY_API bool wherry_analysis_product_layouts(const wherry_analysis *analysis, size_t op,
                                                wherry_product_layouts *out);
/* Of any contraction: "qphi,ibj->qphbj". letters[n] has the size sizes[n]; `stack` is one of them, or 0. */
WHERRY_API wherry_status wherry_product_layouts_count(wherry_context *context, const char *einsum, const char *letters,
                                                      const uint32_t *sizes, char stack, wherry_product_layouts *out);

/* The configurations of a kernel without a product: an order for each of its tensors, a letter along which it loads
 * vectors, and one that goes over its threads. UINT64_MAX: so many, or more. */
typedef struct wherry_kernel_layouts {
    char tensors[256];            /* letters of each, with ',' between them */
    char vector[16], threads[16]; /* letters to choose from */
    uint64_t configurations;      /* of sequences of one length */
    uint64_t packed;              /* of packed batches */
} wherry_kernel_layouts;

/* Of a group of the plan; false: it has a product, or there is no such group. */
WHERRY_API bool wherry_analysis_kernel_layouts(const wherry_analysis *analysis, size_t group,
                                               wherry_kernel_layouts *out);
/* Of any kernel with these tensors ("hbjk,hbjk,bj": those that must lie alike once) that reduces these letters
 * ("": none). Vectors may go along every letter, threads over those that are reduced, or over every one where none is.
 * `only`: the letters that both are limited to, NULL: no limit. */
WHERRY_API wherry_status wherry_kernel_layouts_count(wherry_context *context, const char *tensors, const char *reduced,
                                                     const char *only, wherry_kernel_layouts *out);

#ifdef __cplusplus
}
#endif
#endif
