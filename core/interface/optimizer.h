/* What the host and the kernels of optimizers agree on: optimizer_add, optimizer_sum and optimizer_step, and those of
 * core/train/handover.h. Included by C, OpenCL C and GLSL, so it holds nothing but #define lines. */
#ifndef WHERRY_KERNEL_OPTIMIZER_H
#define WHERRY_KERNEL_OPTIMIZER_H

/* Elements of a tensor that a work-group has: a multiple of 4. A tensor's last chunk may have fewer. */
#define OPTIMIZER_CHUNK 8192
/* Tensors begin at multiples of so many elements. */
#define OPTIMIZER_GAP 64

/* CONST_FORM of optimizer_step; see core/train/optimizer.h. */
#define OPTIMIZER_FORM_ADAMW 0
#define OPTIMIZER_FORM_MOMENTUM 1
#define OPTIMIZER_FORM_PLAIN 2  /* no moments */
#define OPTIMIZER_FORM_LAMB 3   /* u in the gradient's place, and sums of p^2 and u^2 */
#define OPTIMIZER_FORM_CHANGE 4 /* p = p - rate u */
/* With these, and alone of optimizer_add: gradients are the session's own, X, and nothing is accumulated. */
#define OPTIMIZER_DIRECT 8

/* CONST_FORM of optimizer_sum. */
#define OPTIMIZER_SUM_NORM 0   /* of all gradients, and what follows from it */
#define OPTIMIZER_SUM_RATIOS 1 /* LAMB's q, a work-group for each tensor */

/* optimizer_add: what becomes of what is accumulated. All of them tell the sums of its squares. */
#define OPTIMIZER_KEEP 0
#define OPTIMIZER_SET 1 /* = weight * gradient */
#define OPTIMIZER_ADD 2 /* += weight * gradient */

/* The batch buffer's words; those from FACTOR on are floats, where nothing else is said. */
#define OPTIMIZER_ACTIVE 0 /* 0: nothing is done, as with the batch of nothing at a kernel's first launch */
#define OPTIMIZER_MODE 1
#define OPTIMIZER_FACTOR 2     /* gradients': their weight; 1 of what is accumulated already */
#define OPTIMIZER_FIRST_OLD 3  /* beta1, momentum */
#define OPTIMIZER_FIRST_NEW 4  /* 1 - beta1 */
#define OPTIMIZER_SECOND_OLD 5 /* beta2 */
#define OPTIMIZER_SECOND_NEW 6 /* 1 - beta2 */
#define OPTIMIZER_EPSILON 7
#define OPTIMIZER_FIRST_SCALE 8  /* LAMB: m's bias correction */
#define OPTIMIZER_SECOND_SCALE 9 /* v's; ADAMW: that of its root */
#define OPTIMIZER_MAX_NORM 10    /* 0: gradients are not clipped */
#define OPTIMIZER_SUMS 11        /* an uint: floats of PARTIALS */
#define OPTIMIZER_TENSORS 12     /* an uint: tensors or parts that have rates */
/* From here on two of each tensor or part: its rate (ADAMW: with m's bias correction), and its decay (ADAMW: what p is
 * multiplied with). */
#define OPTIMIZER_RATES 32

/* The table of a launch, uint in SLOT_IDS: the number of chunks, then of each: */
#define OPTIMIZER_TABLE 1
#define CHUNK_AT 0       /* its first element in what the optimizer keeps */
#define CHUNK_GRADIENT 1 /* in the gradients */
#define CHUNK_WEIGHT 2   /* in the weights */
#define CHUNK_COUNT 3    /* elements */
#define CHUNK_TENSOR 4   /* its rates */
#define CHUNK_WORDS 5

/* What optimizer_sum tells optimizer_step: floats. */
#define VERDICT_FINITE 0 /* 1; 0: nothing is changed */
#define VERDICT_CLIP 1
#define VERDICT_NORM 2
#define VERDICT_RATIOS 4 /* from here on of each tensor or part, of LAMB */
#define VERDICT_WORDS VERDICT_RATIOS

/* The table of LAMB's ratios, uint: of each tensor or part, */
#define RATIO_WORDS 3
#define RATIO_BEGIN                                                                                                    \
    0 /* where in the table its chunks are: of each where in PARTIALS its sums of p^2 and of u^2 are                   \
       */
#define RATIO_END 1
#define RATIO_ADAPTS 2 /* 0: its ratio is 1 */

/* The words of handover_take and handover_give. */
#define HANDOVER_ACTIVE 0
#define HANDOVER_COUNT 1 /* elements */
#define HANDOVER_AT 2    /* the first in the loss's memory */
#define HANDOVER_KEEPS 3 /* what is flagged stays so */
/* Work-groups, of which each has a flag: 0, or infinity where one of its values is not finite. */
#define HANDOVER_GROUPS 64

#endif
