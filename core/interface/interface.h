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
#define SLOT_Y 14 /* the group's last output */
#define SLOT_SUM                                                                                                       \
    15 /* a second output, made before Y: the sum before a layernorm, the value before an activation, ... */
#define SLOT_COUNT 16
/* Training's arguments, and attention's, take the numbers of others in other kernels, because many devices bind no more
 * than 16 buffers. LSE, DELTA and PARTIALS are float[] whatever the storage type, as 8, 10 and 12 are uint[]. */
#define SLOT_LSE 8       /* float [tokens][heads]: ln of the sum of exp(SCALE * score) of a query; written or read */
#define SLOT_SAVED 9     /* what the forward pass kept: the value before an activation, a layernorm's input, ... */
#define SLOT_DELTA 10    /* float [tokens][heads]: the product of attention's output with its gradient */
#define SLOT_GRADIENT 11 /* a second gradient: that of attention's output */
#define SLOT_PARTIALS                                                                                                  \
    12 /* float [parts][sets][N]: sums over the rows of one part, for the kernel "reduce"; of attention's backward     \
          pass [parts][tokens][HEADS * HEAD_DIM] */
#define SLOT_ANGLES 12        /* float [tokens][HEAD_DIM]: cosine and sine of each pair of channels of a token */
#define SLOT_EXTRA 13         /* a third output, or a further operand; of losses float [rows][targets + 1] */
#define SLOT_TURN_POSITIONS 4 /* attention's gradients have POSITIONS here, */
#define SLOT_TURN 5           /* and POSITION, the angles */
#define SLOT_RELATIVE 9       /* [buckets][HEADS]: what is added to a score after SCALE, by the distance of its key */
#define SLOT_MOMENTS                                                                                                   \
    8 /* float [strips][tokens] with RMS, else [strips][tokens][2], tokens those of the batch: of MOMENTS_STRIP        \
         columns */
/* Of mixtures of experts SLOT_DELTA is float [tokens][CHOSEN], weights of experts or their gradients; SLOT_IDS uint
 * [tokens][CHOSEN], numbers of experts, or in products what SLOT_POSITIONS is for dispatch: uint [EXPERTS], ends of
 * experts' rows, then the rows of the first expert, the second, ..., each token * CHOSEN + number. */
#define SLOT_DISTANCES                                                                                                 \
    7 /* float [tokens][2][HEADS]: sums of scores' gradients by distance; a sequence of length l has those of          \
          -min(l - 1, RELATIVE) to min(l - 1, RELATIVE) first, and zeros after them */

/* ---- specialization constants ----
 * Vulkan: constant_id. OpenCL: -D NAME=value with NAME as below without "CONST_". Those not given keep the kernel's
 * default. A float is passed as its bits (as_float, uintBitsToFloat). */
#define CONST_LOCAL_SIZE 0 /* work-items of a work-group, all in dimension x */
#define CONST_N 1          /* row length of the output; columns of a product */
#define CONST_K 2          /* reduction length of a product; pick: what ROWS is, of X */
#define CONST_ROWS                                                                                                     \
    3 /* index in the batch header of the number of rows: HEADER_TOKENS, HEADER_SEQUENCES, HEADER_LABELLED or          \
       HEADER_NEXT */
#define CONST_BIAS 4       /* 1: add SLOT_BIAS [N] */
#define CONST_ACTIVATION 5 /* ACTIVATION_*, after the bias */
#define CONST_RESIDUAL 6   /* 1: add SLOT_RESIDUAL [rows, N], after the activation */
#define CONST_NORM 7       /* 1: layernorm over N, with SLOT_GAMMA and SLOT_BETA; gemm: of x's rows, over K */
#define CONST_EPSILON 8    /* float */
#define CONST_SUM                                                                                                      \
    9 /* 1: also write what the layernorm reads to SLOT_SUM; a weight's gradient: the sums of x over the rows */
#define CONST_WORD 10 /* 1: x = SLOT_WORD[ids] (else x = SLOT_X) */
#define CONST_POSITION                                                                                                 \
    11                     /* 1: + SLOT_POSITION[positions]; take: the first of an example's rows that is taken;       \
                               entropy*: the number of X's first column among the words */
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
#define CONST_BATCHED 26 /* bgemm: BATCHED_SCORES or BATCHED_CONTEXT; roof_memory: see there */
#define CONST_TILE_M 27  /* rows of the output per work-group */
#define CONST_TILE_N 28
#define CONST_TILE_K 29
#define CONST_THREAD_M 30 /* outputs per work-item */
#define CONST_THREAD_N 31
#define CONST_ALIGNED 32 /* 1: every row of every operand starts on 16 bytes, so that 16-byte accesses are allowed */
#define CONST_FORM 33    /* gemm: GEMM_*; roof_*: ROOF_* (kernel/roof.h); take, pairs: OF_*; loss*: FORM_* */
#define CONST_M 34       /* rows of the output that are a size of the model, 0: of ROWS */
#define CONST_DROPOUT 35 /* threshold: an element is dropped when its 16 random bits are below it; 0: none */
#define CONST_DERIVATIVE                                                                                               \
    36 /* ACTIVATION_*: multiply by its derivative at SLOT_SAVED: what went into the activation; for                   \
          RELU that or what came out of it, for TANH what came out */
#define CONST_COLUMN_SUMS 37 /* sums over rows to SLOT_PARTIALS; see the kernels that have it */
#define CONST_PART_ROWS 38   /* rows of one part; where there are PARTS, of one turn of a part */
#define CONST_SETS                                                                                                     \
    39               /* vectors of N in one part; take, pairs: rows of an example, 0: all; loss, loss_backward with    \
                        RUNTIME_N: the columns over the number of rows */
#define CONST_LSE 40 /* LSE_* */
#define CONST_SOFTMAX 41 /* 0: softmax does dropout alone */
#define CONST_DELTA                                                                                                    \
    42 /* 1: softmax_backward reads SLOT_DELTA instead of summing; gemm writes it: the sums over a head's HEAD_DIM     \
          columns of its result times SLOT_SAVED */
#define CONST_NORM_DW 43  /* layernorm_backward: gradients of gamma and beta */
#define CONST_NORM_DX 44  /* layernorm_backward: gradient of the input */
#define CONST_BIAS_SUM 45 /* layernorm_backward: BIAS_SUM_* */
#define CONST_ADDEND 46   /* 1: layernorm_backward adds SLOT_RESIDUAL to its result, not to the gradient it reads */
#define CONST_TILE_V 47   /* attention: keys (queries) that what is made of the scores is multiplied with at once */
#define CONST_PARTS                                                                                                    \
    48 /* attention_backward: parts that a sequence's tiles of keys are split into; layernorm_backward, reduce: parts  \
          that the rows are split into, PART_ROWS at a time and in turns */
#define CONST_KEPT 49 /* 1: SLOT_SAVED is 0 where an element was dropped, so that nothing is drawn to drop it again */
#define CONST_QUERY_ROWS                                                                                               \
    50 /* attention_backward_wgmma: queries whose sums stay in shared memory, at least the longest sequence's; 0: they \
          go to SLOT_PARTIALS from tile to tile. With them and one part the kernel has no SLOT_PARTIALS: it writes the \
          queries' gradient. attention_backward_coopmat: queries of a work-group */
/* Kernels of cooperative matrices: the shape of one, and the work-items of the sub-group that it lies in. */
#define CONST_MATRIX_M 51
#define CONST_MATRIX_N 52
#define CONST_MATRIX_K 53
#define CONST_SUBGROUP 54
#define CONST_BLOCKS 55 /* attention on cooperative matrices: matrices of rows that a sub-group owns */
#define CONST_STAGES 56 /* of a product's operands, TILE_K deep each: in shared memory, or on their way there */
#define CONST_WARP_M 57 /* outputs of a warp */
#define CONST_WARP_N 58
#define CONST_GROUPS 59  /* work-groups at most, which then share the work; 0: as many as the launch says */
#define CONST_TEAM 60    /* work-items that share a row, where several rows share a work-group */
#define CONST_ENTRIES 61 /* attention_coopmat: entries of the query tile table that a work-group has */
#define CONST_NORM_Y 62  /* 1: gemm: layernorm over N of its result, with SLOT_GAMMA and SLOT_BETA */
#define CONST_QKV_INTERLEAVED                                                                                          \
    63 /* 1: a token's row of Q, K and V has those of a head side by side; 0: all heads' of each */
#define CONST_RUNTIME                                                                                                  \
    64 /* gemm, map, transpose: RUNTIME_*, which size is the batch's number of rows, where it is not what FORM says */
#define CONST_RELATIVE                                                                                                 \
    65 /* add SLOT_RELATIVE to the scores; keys at least so far from the query share a row. 0: nothing is added */
#define CONST_GATE                                                                                                     \
    66 /* GATE_*: the activation is of that one of two neighbours, and the other is multiplied by it; N counts pairs,  \
          of a product columns */
#define CONST_ROTARY 67 /* ROTARY_*: pairs of channels of Q and K are turned by SLOT_POSITION[positions] */
#define CONST_BEFORE                                                                                                   \
    68 /* a query i sees keys j with i - j < BEFORE; 0: all before it. A key that is not seen has weight 0 */
#define CONST_AFTER 69 /* and those with j - i < AFTER; 0: all after it */
#define CONST_ALIBI 70 /* 1: scores get -slope(head) |i - j| after SCALE (interface/mask.h) */
#define CONST_KEY_HEADS                                                                                                \
    71 /* heads of K and V, each of as many neighbouring heads of Q; a token's row has all heads of Q, then of K, then \
          of V. 0: HEADS */
#define CONST_RMS 72  /* RMS_*: a norm divides by the root of the mean square, nothing is centred */
#define CONST_BETA 73 /* 0: norms have no SLOT_BETA, and no gradient of it is summed; what is not given is 1 */
#define CONST_SCALES                                                                                                   \
    74 /* gemm: W has elements of 8 bits, and its rows' scales, which products are multiplied by, begin so many floats \
          after its beginning; 0: W has the storage type's */
#define CONST_EXPERTS 75 /* of a mixture; its list of rows has so many ends of experts' rows before them */
#define CONST_CHOSEN 76  /* that a token takes: rows of each token, side by side */
#define CONST_TOKEN_ROWS                                                                                               \
    77 /* gemm_experts: 1: the first operand, of a weight's gradient the second, has a row for each token; 0: one for  \
          each of its experts */
#define CONST_NORMALIZED 78 /* route: weights are divided by the sum of those chosen */
#define CONST_WEIGHTED 79   /* combine: rows are multiplied by SLOT_DELTA */
#define CONST_MOMENTS 80    /* gemm: MOMENTS_* */
#define CONST_COUNT 81
/* The Vulkan backend gives it to every kernel; OpenCL's compilers know what they compile for. Its number is no matter
 * of how many others there are, so that a new one leaves compiled shaders as they are. */
#define CONST_CPU 127 /* 1: the device is a CPU */

/* Where a head's channels begin in a token's row, `stride` elements from the next one's: in a row of Q, K and V, or of
 * one tensor of heads. */
#define HEAD_AT(head, stride) ((head) * (QKV_INTERLEAVED != 0 ? (stride) / HEADS : HEAD_DIM))

#define ACTIVATION_NONE 0
#define ACTIVATION_RELU 1
#define ACTIVATION_GELU 2
#define ACTIVATION_GELU_TANH 3
#define ACTIVATION_TANH 4
#define ACTIVATION_LOG1P_RELU 5       /* log(1 + relu(x)): of words' scores, forward alone */
#define ACTIVATION_LOG1P_LOG1P_RELU 6 /* log(1 + that) */
#define ACTIVATION_SILU 7             /* x times its sigmoid */
/* What an activation's gradient is multiplied with, where the forward pass makes it (interface/slopes.h). */
#define SLOPE_GELU 8
#define SLOPE_TANH_GELU 9
#define ACTIVATION_GIVEN 10 /* as a derivative: what is saved is the derivative, with a gate both of a pair */
#define SLOPES_OF 16        /* gate: and its activation: the derivatives by both of a pair, times dropout's factor */
#define SUM_SLOPE 2         /* CONST_SUM: also write the activation's slope, or the gate's, times dropout's factor */

#define RMS_NONE 0
#define RMS_GAMMA 1     /* times gamma */
#define RMS_ONE_GAMMA 2 /* times 1 + gamma */

/* Moments of strips of a row: with RMS sums of squares, else sums and sums of squares. */
#define MOMENTS_STRIP 64
#define MOMENTS_NONE 0
#define MOMENTS_WRITTEN 1 /* those of the result's rows go to SLOT_MOMENTS */
#define MOMENTS_READ                                                                                                   \
    2 /* results are multiplied by SLOT_GAMMA[0] / sqrt(variance of x's row by SLOT_MOMENTS + EPSILON) */

#define GATE_NONE 0
#define GATE_EVEN 1
#define GATE_ODD 2

#define ROTARY_NONE 0
#define ROTARY_FORWARD 1
#define ROTARY_BACKWARD 2 /* by as much the other way: the gradient */
#define ROTARY_ANGLES 3   /* the angles are made: of SLOT_POSITION's frequencies, by a text's length */

/* What each is for; where a weight lies transposed, NT and NN change places, and TN has x and w exchanged. */
#define GEMM_NT 0 /* y[r][n] = sum over k of x[r][k] w[n][k]: forward */
#define GEMM_NN 1 /* y[r][n] = sum over k of x[r][k] w[k][n]: gradient of the input */
#define GEMM_TN 2 /* y[m][n] = sum over rows r of x[r][m] w[r][n]: gradient of the weight */

/* The other two sizes are M, N and K. With RUNTIME_N rows of the output are channels, each Y_STRIDE from the next, in
 * SLOT_SAVED, SLOT_RESIDUAL and SLOT_SUM, too: the bias is by row, and COLUMN_SUMS are a row's over its tiles' columns.
 * Dropout's row is the column here, its column the row. */
#define RUNTIME_FORM 0 /* by FORM: M of NT and NN, K of TN */
#define RUNTIME_M 1
#define RUNTIME_N 2
#define RUNTIME_K 3
#define RUNTIME_NONE 4 /* transpose: both sizes are the model's */

/* entropy*: floats of a row of the state (the largest score, the sum of exponentials by it, the label's score), in a
 * list of rows the one that is none. */
#define ENTROPY_STATE 3
#define NO_ROW 0xffffffffu

/* take, pairs */
#define OF_FORWARD 0
#define OF_BACKWARD 1

/* What a row's loss is, x being what the targets are for. */
#define FORM_CROSS_ENTROPY 0 /* of SCALE * x; one target, the number of the right column */
#define FORM_SQUARED 1       /* a target for each column: the sum of (x - t)^2 */
#define FORM_BINARY 2        /* likewise: of -(SCALE t log(sigmoid x) + (1 - t) log(1 - sigmoid x)) */
#define FORM_COSENT 3        /* one column and target: ln of the sum of exp(SCALE (x - x')) over rows with t' > t */

#define LSE_NONE 0
#define LSE_WRITE 1
#define LSE_READ 2 /* softmax: y = exp(SCALE * x - lse), no sum */

#define BIAS_SUM_NONE 0
#define BIAS_SUM_RESULT 1  /* the columns of the last output are summed, too */
#define BIAS_SUM_OPERAND 2 /* those of SLOT_EXTRA */

#define POOL_NONE 0 /* the rows are already one per sequence (normalize alone) */
#define POOL_MEAN 1
#define POOL_CLS 2
#define POOL_MAX 3
#define POOL_ROW 4      /* token SLOT_IDS[s] of sequence s, counted from its first */
#define POOL_LAST 5     /* its last token */
#define POOL_SQRT 6     /* the sum over the root of the number of tokens */
#define POOL_WEIGHTED 7 /* the mean, token t from 0 counting t + 1 times */
#define POOL_SUM 8

#define BATCHED_SCORES 0     /* y[s][h][j][k] = sum_p x[j][h][p] * w[k][h][p] */
#define BATCHED_CONTEXT 1    /* y[j][h][p] = sum_k x[s][h][j][k] * w[k][h][p] */
#define BATCHED_TRANSPOSED 2 /* y[k][h][p] = sum_j x[s][h][j][k] * w[j][h][p] */

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
#define HEADER_AT_QUERY_TILES 7 /* [query tiles][2]: sequence, first query position; of the shortest sequence first */
#define HEADER_AT_SCORE_TILES                                                                                          \
    8 /* [score tiles][2]: sequence, first query position | first key position << 16, in tiles */
/* Dropout's random numbers (kernel/random.h): */
#define HEADER_SEED 9 /* two words */
#define HEADER_STEP 11
/* With a bias by distance, [2 * RELATIVE + 1]: the table's row for each distance of a key, from -RELATIVE on. */
#define HEADER_AT_BUCKETS 12
#define HEADER_LABELLED 13 /* tokens that have a label (masked language models) */
#define HEADER_NEXT 14     /* sequences that have one (next sentences) */
#define HEADER_AT_ORDER 15 /* a table again, [sequences]: the longest first, of as long ones the last first */
#define HEADER_WORDS 16

/* Work-groups are numbered linearly: x + y * GRID_WIDTH, because some devices allow only 65,535 in a dimension. */
#define GRID_WIDTH 32768

#endif
