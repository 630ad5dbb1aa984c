/* What a kernel is given, and what it is: the same for all instruction sets. */
#ifndef WHERRY_BACKENDS_CPU_STEP_H
#define WHERRY_BACKENDS_CPU_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interface/interface.h"

struct onednn_step;

/* A step with its arguments and constants resolved. */
struct cpu_step {
    float *at[SLOT_COUNT];        /* arguments by slot, NULL: there is none; lists of uint are cast */
    size_t room[SLOT_COUNT];      /* elements of each at the session's limits */
    uint32_t value[CONST_COUNT];  /* constants; those not given have the kernel's default (calls.c) */
    const uint32_t *batch;        /* header and tables */
    uint32_t site;                /* dropout's */
    size_t cache_bytes;           /* of the last cache, 0: unknown. No result depends on it either */
    size_t threads;               /* that share the work: for its division alone, no result depends on it */
    const struct cpu_kernel *how; /* the function, for this processor */
    const char *bf16;             /* the set of the kernel, if it multiplies in bf16; else NULL */
    /* The second operand of a product, in panels (kernels/product.h, in bf16 kernels/tile_bf16.h), where it stays as it
     * is from run to run; else NULL. */
    const void *packed;
    struct onednn_step *onednn; /* where `how` is oneDNN's, else NULL */
    const char *note;           /* what a library does of it where that is worth telling, else NULL */
};

struct count;

/* A kernel for one instruction set. Its work is divided into items, any of which may run at any time on any thread; how
 * many there are follows from the call and the batch (and, where results do not change by it, from `threads`). */
struct cpu_kernel {
    const char *name;
    size_t (*items)(const struct cpu_step *s);
    void (*run)(const struct cpu_step *s, size_t item, float *scratch);
    size_t (*scratch)(const struct cpu_step *s); /* floats that a thread needs for any batch; NULL: none */
    /* Of products, else NULL; there is no batch yet either: bytes of the packed operand, and packing its panel number
     * `item`. */
    size_t (*packed)(const struct cpu_step *s, size_t *panels);
    void (*pack)(const struct cpu_step *s, size_t item, void *packed);
    /* What its items move (traffic.h); NULL: of a kernel that no group runs. */
    void (*count)(const struct cpu_step *s, struct count *c);
};

/* All kernels of one instruction set. */
struct cpu_kernels {
    const char *isa;                         /* "avx512" */
    const struct cpu_kernel *const *kernels; /* NULL ends it */
};

static inline size_t step_rows(const struct cpu_step *s) { return s->batch[s->value[CONST_ROWS]]; }

/* Sequence `i`: its first token and its length. */
struct stretch {
    size_t first, length;
};
static inline struct stretch step_sequence(const struct cpu_step *s, size_t i)
{
    const uint32_t *offsets = s->batch + s->batch[HEADER_AT_OFFSETS];
    return (struct stretch){offsets[i], offsets[i + 1] - offsets[i]};
}

/* Where sequence `i`'s scores begin: [head][query][key]. */
static inline size_t step_scores(const struct cpu_step *s, size_t i)
{
    return (size_t)s->value[CONST_HEADS] * s->batch[s->batch[HEADER_AT_SCORE_OFFSETS] + i];
}

/* Where a head's channels begin in a row whose next one is `stride` further on (interface.h: HEAD_AT). */
static inline size_t step_head(const struct cpu_step *s, size_t head, size_t stride)
{
    return head * (s->value[CONST_QKV_INTERLEAVED] ? stride / s->value[CONST_HEADS] : s->value[CONST_HEAD_DIM]);
}

/* Heads of Q to one of K and V, and the latter's of a head of Q (interface/heads.h). */
static inline size_t step_members(const struct cpu_step *s)
{
    return s->value[CONST_KEY_HEADS] ? s->value[CONST_HEADS] / s->value[CONST_KEY_HEADS] : 1;
}
static inline size_t step_key_head(const struct cpu_step *s, size_t head, size_t stride)
{
    return step_head(s, head / step_members(s), stride);
}

/* Items of `unit` rows each, and the rows of one of them. */
static inline size_t blocks_of(size_t rows, size_t unit) { return (rows + unit - 1) / unit; }
static inline size_t block_end(size_t item, size_t unit, size_t rows)
{
    return (item + 1) * unit < rows ? (item + 1) * unit : rows;
}

#endif
