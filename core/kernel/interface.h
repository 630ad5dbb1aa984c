/* What the host and every kernel must agree on: argument slots, specialization constants, the batch header. Included by
 * C, OpenCL C and GLSL, so it holds nothing but #define lines. */
#ifndef WHERRY_KERNEL_INTERFACE_H
#define WHERRY_KERNEL_INTERFACE_H

/* ---- argument slots ----
 * Vulkan: the binding number. OpenCL: arguments stand in ascending order of slot, only the present ones; each is a pair
 * (pointer to the buffer's start, ulong offset in elements of the argument's type). Slot 0 is always there. */
#define SLOT_BATCH 0 /* uint[]: the batch header and its tables */
#define SLOT_X 1     /* first operand: rows of tokens (A of a product, queries, scores, ...) */
#define SLOT_W 2     /* second operand of a product: weights [n][k], or keys / values of a batched one */
#define SLOT_V 3     /* third operand of attention: values */
#define SLOT_BIAS 4
#define SLOT_RESIDUAL 5
#define SLOT_GAMMA 6
#define SLOT_BETA 7
#define SLOT_IDS 8        /* uint[]: token ids */
#define SLOT_WORD 9       /* embedding tables */
#define SLOT_POSITIONS 10 /* uint[] */
#define SLOT_POSITION 11
#define SLOT_TYPES 12 /* uint[] */
#define SLOT_TYPE 13
#define SLOT_Y 14   /* the group's last output */
#define SLOT_SUM 15 /* a second output: the sum before a layernorm, where a later group needs it */
#define SLOT_COUNT 16

/* ---- specialization constants ----
 * Vulkan: constant_id. OpenCL: -D NAME=value with NAME as below without "CONST_". Those not given keep the kernel's
 * default. A float is passed as its bits (as_float, uintBitsToFloat). */
#define CONST_LOCAL_SIZE 0 /* work-items of a work-group, all in dimension x */
#define CONST_N 1          /* row length of the output; columns of a product */
#define CONST_K 2          /* reduction length of a product */
#define CONST_ROWS 3       /* index in the batch header of the number of rows: HEADER_TOKENS or HEADER_SEQUENCES */
#define CONST_BIAS 4       /* 1: add SLOT_BIAS [N] */
#define CONST_ACTIVATION 5 /* ACTIVATION_*, after the bias */
#define CONST_RESIDUAL 6   /* 1: add SLOT_RESIDUAL [rows, N], after the activation */
#define CONST_NORM 7       /* 1: layernorm over N, with SLOT_GAMMA and SLOT_BETA */
#define CONST_EPSILON 8    /* float */
#define CONST_SUM 9        /* 1: also write what the layernorm reads to SLOT_SUM */
#define CONST_WORD 10      /* 1: x = SLOT_WORD[ids] (else x = SLOT_X) */
#define CONST_POSITION 11  /* 1: + SLOT_POSITION[positions] */
#define CONST_TYPE 12      /* 1: + SLOT_TYPE[types] */
#define CONST_POOL 13      /* POOL_* */
#define CONST_NORMALIZE 14 /* 1: divide by the L2 norm */
#define CONST_HEADS 15
#define CONST_HEAD_DIM 16
#define CONST_SCALE 17    /* float: scores are multiplied by it before the softmax */
#define CONST_X_STRIDE 18 /* elements from one token's row to the next, where an operand is a slice of wider rows */
#define CONST_X_OFFSET 19 /* elements before the first row */
#define CONST_W_STRIDE 20
#define CONST_W_OFFSET 21
#define CONST_V_STRIDE 22
#define CONST_V_OFFSET 23
#define CONST_Y_STRIDE 24
#define CONST_Y_OFFSET 25
#define CONST_BATCHED 26 /* bgemm: BATCHED_SCORES or BATCHED_CONTEXT */
#define CONST_TILE_M 27  /* rows of the output per work-group */
#define CONST_TILE_N 28
#define CONST_TILE_K 29
#define CONST_THREAD_M 30 /* outputs per work-item */
#define CONST_THREAD_N 31
#define CONST_ALIGNED 32 /* 1: every row of every operand starts on 16 bytes, so that 16-byte accesses are allowed */
#define CONST_COUNT 33

#define ACTIVATION_NONE 0
#define ACTIVATION_RELU 1
#define ACTIVATION_GELU 2
#define ACTIVATION_GELU_TANH 3
#define ACTIVATION_TANH 4

#define POOL_NONE 0 /* the rows are already one per sequence (normalize alone) */
#define POOL_MEAN 1
#define POOL_CLS 2
#define POOL_MAX 3

#define BATCHED_SCORES 0  /* y[s][h][j][k] = sum_p x[j][h][p] * w[k][h][p] */
#define BATCHED_CONTEXT 1 /* y[j][h][p] = sum_k x[s][h][j][k] * w[k][h][p] */

/* ---- the batch buffer: uint words ---- */
#define HEADER_TOKENS 0
#define HEADER_SEQUENCES 1
#define HEADER_QUERY_TILES 2 /* entries of the query tile table */
#define HEADER_SCORE_TILES 3 /* entries of the score tile table */
/* Word index in this buffer where a table begins: */
#define HEADER_AT_OFFSETS 4 /* [sequences + 1]: first token of each sequence */
#define HEADER_AT_SCORE_OFFSETS                                                                                        \
    5 /* [sequences]: sum of length^2 of the sequences before; times HEADS it is the first score element */
#define HEADER_AT_TOKEN_SEQUENCE 6 /* [tokens]: the sequence that a token belongs to */
#define HEADER_AT_QUERY_TILES 7    /* [query tiles][2]: sequence, first query position */
#define HEADER_AT_SCORE_TILES                                                                                          \
    8 /* [score tiles][2]: sequence, first query position | first key position << 16, in tiles */
#define HEADER_WORDS 16

/* Work-groups are numbered linearly: x + y * GRID_WIDTH, because some devices allow only 65,535 in a dimension. */
#define GRID_WIDTH 32768

#endif
