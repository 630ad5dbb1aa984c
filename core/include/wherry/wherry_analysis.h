/* What moves and what it costs: operators and fusion groups, counted without a device. Part of wherry.h, whose rules
 * hold here.
 */
#ifndef WHERRY_ANALYSIS_H
#define WHERRY_ANALYSIS_H

#include <wherry/wherry.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wherry_class {
    WHERRY_CLASS_CONTRACTION = 0,
    WHERRY_CLASS_NORMALIZATION, /* statistical normalization */
    WHERRY_CLASS_ELEMENTWISE
} wherry_class;

/* An operator of the graph, or a fusion group of the plan. */
typedef struct wherry_cost {
    char name[64];                      /* "layer.0.qkv" */
    char kernel[32];                    /* groups: the kernel that runs it */
    char einsum[40];                    /* contractions, as tensors lie: "bji,qhpi->bjqhp" */
    char dims[16];                      /* letters of the output tensor */
    wherry_class class_;                /* a group's is that of its product, else of its first operator */
    int32_t layer;                      /* -1 outside the layers */
    uint32_t paper_row;                 /* row of the operator table of Ivanov et al., 0 where it has none */
    uint32_t first_operator, operators; /* groups: which operators; operators: its own index and 1 */
    bool backward;                      /* of training's backward pass */
    double flops;
    uint64_t bytes_read, bytes_written; /* each distinct tensor once */
    /* Medians and percentiles, filled by wherry_measure (wherry_measure.h), else 0 */
    double seconds, seconds_p05, seconds_p95;
} wherry_cost;

typedef struct wherry_analysis wherry_analysis;

typedef struct wherry_analysis_desc {
    uint32_t struct_size;
    const wherry_model_config *config;
    uint32_t batch, length; /* sequences of equal length */
    wherry_dtype dtype;     /* 0: f16 */
    const char *plan;       /* NULL: flash */
    wherry_pool pool;       /* 0: none */
    bool normalize;
    bool layer_only;                      /* one encoder layer alone: no embeddings, no pooling */
    const wherry_training_desc *training; /* with the backward pass; `stack` has no say here. NULL: inference */
    /* What if? Nothing of this can be run; it is counted. `split` names groups of the plan, with '+' between them, that
     * become single operators. After that, `fuse` names operators or groups, again with '+': the groups that they are
     * in become one; the list may have several such sums with ',' between them. A name without "layer.N." stands for
     * every layer. "auto" instead: groups by the rule of Ivanov et al. on iteration spaces, of the operators of the
     * plan's graph (of "unfused" when plan is NULL). */
    const char *fuse, *split;
    wherry_output output; /* of config's head instead of an embedding: CLASSES, TOKEN_CLASSES, VOCABULARY or WORDS */
    wherry_weights weights;
} wherry_analysis_desc;

/* Needs no device: counts flop and bytes of every operator and group. */
WHERRY_API wherry_status wherry_analyze(wherry_context *context, const wherry_analysis_desc *desc,
                                        wherry_analysis **out);
WHERRY_API void wherry_analysis_destroy(wherry_analysis *analysis);
WHERRY_API const wherry_cost *wherry_analysis_operators(const wherry_analysis *analysis, size_t *count);
WHERRY_API const wherry_cost *wherry_analysis_groups(const wherry_analysis *analysis, size_t *count);
/* The operators once more, but those of a layer that share a row of the operator table of Ivanov et al. are one:
 * softmax and its dropout, and their gradients. */
WHERRY_API const wherry_cost *wherry_analysis_rows(const wherry_analysis *analysis, size_t *count);
/* The index of the group that this operator, counted from 0, belongs to; SIZE_MAX: there is no such operator. */
WHERRY_API size_t wherry_analysis_group_of(const wherry_analysis *analysis, size_t op);
/* Bytes that the forward pass keeps for the backward pass in this plan. */
WHERRY_API uint64_t wherry_analysis_saved_bytes(const wherry_analysis *analysis);
/* The graph with its groups as clusters and bytes on its edges, in Graphviz's language. The text lives as long as the
 * analysis. */
WHERRY_API const char *wherry_analysis_dot(const wherry_analysis *analysis);

/* The ways in which two groups become one (Ivanov et al., figure 3), by how the second depends on the first. */
typedef enum wherry_fusion_pattern {
    WHERRY_FUSION_SIBLINGS = 1, /* it does not */
    WHERRY_FUSION_MAP_MAP,      /* element by element */
    WHERRY_FUSION_REDUCE_MAP,   /* the first reduces, the second is for every element again */
    WHERRY_FUSION_MAP_REDUCE    /* the second reduces what the first makes */
} wherry_fusion_pattern;

/* What an operator or a group gives a device's units to do. */
typedef struct wherry_work {
    uint64_t bytes; /* each distinct tensor once */
    double contraction_flops, other_flops;
} wherry_work;

WHERRY_API void wherry_analysis_work(const wherry_analysis *analysis, size_t group, wherry_work *out);

/* One decision of the rule on two groups. */
typedef struct wherry_fusion {
    char first[64], second[64]; /* as groups are named: operators with '+' between them */
    /* "bj/i": for each b and j, a reduction over i; "bji": no reduction; "" where the groups have no common one */
    char space[16];
    wherry_fusion_pattern pattern;
    bool accepted;
    char reason[160];        /* why it was refused, "" when it was not */
    uint32_t launches_saved; /* by making them one; of a refused one: what it would have saved */
    uint64_t bytes_saved;
    wherry_work work[2]; /* of the two while they are apart */
} wherry_fusion;

/* With `fuse`: the decisions in the order in which they were taken; of a what-if the rule's opinion, which does not
 * keep it from being counted. */
WHERRY_API const wherry_fusion *wherry_analysis_fusions(const wherry_analysis *analysis, size_t *count);

/* Which part of a training step is measured (wherry_measure.h); inference has no parts. */
typedef enum wherry_phase { WHERRY_PHASE_ALL = 0, WHERRY_PHASE_FORWARD, WHERRY_PHASE_BACKWARD } wherry_phase;

#ifdef __cplusplus
}
#endif
#endif
