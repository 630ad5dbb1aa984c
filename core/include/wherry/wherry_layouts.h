/* Measuring what the orders of tensors in memory are worth on a device. */
#ifndef WHERRY_LAYOUTS_H
#define WHERRY_LAYOUTS_H

#include <wherry/wherry_measure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- layouts, measured: one kernel or contraction with its tensors in any orders (docs/layouts.md) ----
 *
 * With kernels for that purpose alone, which no session runs. */

typedef struct wherry_layout_bench wherry_layout_bench;

typedef struct wherry_layout_bench_desc {
    uint32_t struct_size;
    const char *name;      /* AIB, SM, BDRLN, BRD, BSB, BLNRD, BDRB, EBSB, BAOB, BS, BAIB, BEI: the fused kernels of
                              Ivanov et al.; or a contraction, "qphi,ibj->qphbj" */
    const char *letters;   /* letters[n] has the size sizes[n] */
    const uint32_t *sizes; /* 1 to 2^20 */
    wherry_dtype dtype;    /* F32 or F16, of all tensors; sums are in f32. 0: F16 where the device stores it */
    uint32_t repeats;      /* measured runs of a configuration at most, to 64; 0: 5. Slow ones have fewer */
    bool any_orders;       /* of a contraction all triples of orders, not those alone that are one GEMM */
    const char *cache;     /* a folder that compiled kernels come from and go to; NULL: nothing is kept */
    bool compile_only; /* nothing is run: wherry_layout_bench_measure compiles into the cache folder of the device's own
                          context, and leaves `results` alone. For processes that compile side by side before one of
                          them measures with that folder as its `cache`. */
} wherry_layout_bench_desc;

typedef enum wherry_layout_verdict {
    WHERRY_LAYOUT_RIGHT = 0, /* what was looked at is what the reference in double precision has */
    WHERRY_LAYOUT_WRONG,     /* it is not: no time */
    WHERRY_LAYOUT_REFUSED    /* 16 bytes do not divide the letter that vectors go along: not run */
} wherry_layout_verdict;

typedef struct wherry_layout_result {
    wherry_layout_verdict verdict;
    wherry_time time; /* seconds of a run by the device's timer, right after another one: with warm caches */
    char text[120];   /* what is wrong */
} wherry_layout_result;

/* Takes device memory for the tensors, and a device of its own beside the one given, with nothing kept on disk but in
 * `cache`; compile_only neither. Fails with WHERRY_STATUS_UNSUPPORTED where the device has no kernels for it, no timer,
 * or too small buffers. */
WHERRY_API wherry_status wherry_layout_bench_create(wherry_device *device, const wherry_layout_bench_desc *desc,
                                                    wherry_layout_bench **out);
WHERRY_API void wherry_layout_bench_destroy(wherry_layout_bench *bench); /* accepts NULL */
/* Configurations are numbered from 0. Of a kernel: every order of each tensor, letter of vectors and of threads; of a
 * contraction: the triples of orders that are one GEMM. */
WHERRY_API uint64_t wherry_layout_bench_configurations(const wherry_layout_bench *bench);
/* The one whose orders are those of the model's letters as the paper writes them, with vectors and threads along the
 * last letter that can have them; of a contraction the einsum as it was given. */
WHERRY_API uint64_t wherry_layout_bench_default(const wherry_layout_bench *bench);
/* "bji,jib,... v=i t=j", letters slowest first; of a contraction an einsum. "" where there is no such configuration. */
WHERRY_API void wherry_layout_bench_text(const wherry_layout_bench *bench, uint64_t configuration, char *text,
                                         size_t size);
/* Those that differ from one in the order of one tensor, or in the letter of vectors or of threads; of a contraction
 * none. Returns how many, at most `room`. */
WHERRY_API size_t wherry_layout_bench_neighbours(const wherry_layout_bench *bench, uint64_t configuration,
                                                 uint64_t *out, size_t room);
/* Compiles, runs, checks and times these configurations; results[n] is of configurations[n]. `progress` as for
 * wherry_session_prepare, may be NULL. */
WHERRY_API wherry_status wherry_layout_bench_measure(wherry_layout_bench *bench, const uint64_t *configurations,
                                                     size_t count, wherry_progress progress, void *user,
                                                     wherry_layout_result *results);

#ifdef __cplusplus
}
#endif
#endif
