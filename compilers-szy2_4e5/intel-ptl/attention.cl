/* Attention without stored scores:
 * y[j][h][p] = sum over k of softmax over k of (SCALE * x[j][h] . w[k][h]) * v[k][h][p].
 *
 * One work-group per query tile and head walks over the keys of the sequence in steps of TILE_N: scores of TILE_M x
 * TILE_N from stages of TILE_K channels, then their softmax as far as it is known (the largest score and the sum of each
 * row are carried on, and what was summed before is rescaled), then the product with the values. A work-item owns
 * THREAD_M rows and every THREADS_N-th key, later the same rows and every THREADS_N-th quad of channels; so the rows'
 * statistics live in its registers. Steps begin at the sequence's first key: the result depends on its own sequence
 * alone. Dropout has its place at the weights, after their total. RELATIVE: a bias by distance comes to the scores.
 *
 * LSE: the logarithm of a row's sum of exponentials goes to lse; the backward kernels make the weights from it anew. */
#ifndef POCL_DEVICE_ADDRESS_BITS
#define UNROLL_K _Pragma("unroll 16") /* with 4, 5 % slower on an H200 */
#endif
/* What attention and its backward kernels share: the shape of a tile of scores, how operands come into shared memory,
 * who computes what, dropout's bits. Twin of shaders/attention.glsl.
 *
 * A work-group has TILE_M rows of one head (queries; keys in attention_backward) and walks over the columns (the other side
 * of the scores) of their sequence in steps of TILE_N. A tile of TILE_M x TILE_N scores is a product over the channels,
 * in stages of TILE_K; what is made of the scores goes through shared memory and is multiplied with columns x channels.
 * A work-item owns THREAD_M rows and every THREADS_N-th column, later the same rows and every THREADS_N-th quad of
 * channels. */
/* How the operands of products come into shared memory and their results out: what gemm, bgemm and attention share.
 * Twin of shaders/product.glsl.
 *
 * A tile lies in shared memory k-major and in f32: a quad (float4) holds four consecutive rows of the operand at one k.
 * So the inner loop is vector loads and fma alone, and every output is one work-item's chain of fma over ascending k:
 * the same bits whatever the tile. */
/* What every OpenCL kernel shares: arguments, loads and stores of the storage type, the group's number, reductions over
 * a work-group. Twin of shaders/common.glsl: the same names, so that kernels differ by dialect only. */
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
#define SLOT_EXTRA 13   /* a third output, or a further operand */
#define SLOT_RELATIVE 9 /* [buckets][HEADS]: what is added to a score after SCALE, by the distance of its key */
#define SLOT_DISTANCES                                                                                                 \
    7 /* float [tokens][2][HEADS]: sums of scores' gradients by distance; a sequence of length l has those of          \
          -min(l - 1, RELATIVE) to min(l - 1, RELATIVE) first, and zeros after them */

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
#define CONST_NORM 7       /* 1: layernorm over N, with SLOT_GAMMA and SLOT_BETA; gemm: of x's rows, over K */
#define CONST_EPSILON 8    /* float */
#define CONST_SUM                                                                                                      \
    9 /* 1: also write what the layernorm reads to SLOT_SUM; a weight's gradient: the sums of x over the rows */
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
#define CONST_BATCHED 26 /* bgemm: BATCHED_SCORES or BATCHED_CONTEXT; roof_memory: see there */
#define CONST_TILE_M 27  /* rows of the output per work-group */
#define CONST_TILE_N 28
#define CONST_TILE_K 29
#define CONST_THREAD_M 30 /* outputs per work-item */
#define CONST_THREAD_N 31
#define CONST_ALIGNED 32 /* 1: every row of every operand starts on 16 bytes, so that 16-byte accesses are allowed */
#define CONST_FORM 33    /* gemm: GEMM_*; roof_*: ROOF_* (kernel/roof.h) */
#define CONST_M 34       /* rows of the output that are a size of the model, 0: of ROWS */
#define CONST_DROPOUT 35 /* threshold: an element is dropped when its 16 random bits are below it; 0: none */
#define CONST_DERIVATIVE                                                                                               \
    36 /* ACTIVATION_*: multiply by its derivative at SLOT_SAVED: what went into the activation; for                   \
          RELU that or what came out of it, for TANH what came out */
#define CONST_COLUMN_SUMS 37 /* sums over rows to SLOT_PARTIALS; see the kernels that have it */
#define CONST_PART_ROWS 38   /* rows of one part; where there are PARTS, of one turn of a part */
#define CONST_SETS 39        /* vectors of N in one part */
#define CONST_LSE 40         /* LSE_* */
#define CONST_SOFTMAX 41     /* 0: softmax does dropout alone */
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
#define CONST_COUNT 66
/* The Vulkan backend gives it to every kernel; OpenCL's compilers know what they compile for. */
#define CONST_CPU CONST_COUNT /* 1: the device is a CPU */

/* Where a head's channels begin in a token's row, `stride` elements from the next one's: in a row of Q, K and V, or of
 * one tensor of heads. */
#define HEAD_AT(head, stride) ((head) * (QKV_INTERLEAVED != 0 ? (stride) / HEADS : HEAD_DIM))

#define ACTIVATION_NONE 0
#define ACTIVATION_RELU 1
#define ACTIVATION_GELU 2
#define ACTIVATION_GELU_TANH 3
#define ACTIVATION_TANH 4

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
#define HEADER_AT_QUERY_TILES 7    /* [query tiles][2]: sequence, first query position */
#define HEADER_AT_SCORE_TILES                                                                                          \
    8 /* [score tiles][2]: sequence, first query position | first key position << 16, in tiles */
/* Dropout's random numbers (kernel/random.h): */
#define HEADER_SEED 9 /* two words */
#define HEADER_STEP 11
/* With a bias by distance, [2 * RELATIVE + 1]: the table's row for each distance of a key, from -RELATIVE on. */
#define HEADER_AT_BUCKETS 12
#define HEADER_WORDS 16

/* Work-groups are numbered linearly: x + y * GRID_WIDTH, because some devices allow only 65,535 in a dimension. */
#define GRID_WIDTH 32768

#endif

#ifndef F16
#define F16 0
#endif
#ifndef LOCAL_SIZE
#define LOCAL_SIZE 64
#endif
#ifndef ALIGNED
#define ALIGNED 0
#endif
#ifndef ONE_BUFFER
#define ONE_BUFFER 0
#endif

/* `half` is only ever pointed to, which needs no cl_khr_fp16. */
#if F16
typedef half storage;
#else
typedef float storage;
#endif

/* Elements in 16 bytes. */
#if F16
#define VECTOR 8
#else
#define VECTOR 4
#endif

/* For functions with a pointer to local memory. PoCL 3.1 shares the array between its threads where such a function is
 * called more than once and not inlined: clang then puts the array's name in the argument's place, and PoCL does not
 * see it there. */
#define INLINE static inline __attribute__((always_inline))

/* Before a loop of constant length over a private array: unrolled, the array is in registers. */
#define UNROLL _Pragma("unroll")

/* The same where the loop stores sums that a GPU keeps in registers. PoCL has no such registers, and compiles a store to
 * 16-bit floats for a second each time that it stands there. */
#ifdef POCL_DEVICE_ADDRESS_BITS
#define UNROLL_STORES
#else
#define UNROLL_STORES UNROLL
#endif
/* Before a loop that is to stay one. */
#define ROLLED _Pragma("unroll 1")

/* An argument is a buffer and the element where the tensor begins in it; BEGIN makes the pointer named `name` of both.
 * ONE_BUFFER: all are of one buffer, which is the first argument, and the element alone is left of each: on NVIDIA's
 * driver every further buffer costs the host 0.4 us a launch. The first tensor, `batch`, brings the buffer along. */
#if ONE_BUFFER
#define INPUT_OF(type, name) const ulong name##_at
#define OUTPUT_OF(type, name) const ulong name##_at
#define BATCH_ARGUMENT __global uchar *one_buffer, const ulong batch_at
#define BEGIN_OF(type, name) __global const type *name = (__global const type *)one_buffer + name##_at
#define BEGIN_OUTPUT_OF(type, name) __global type *name = (__global type *)one_buffer + name##_at
#else
#define INPUT_OF(type, name) __global const type *restrict name##_buffer, const ulong name##_at
#define OUTPUT_OF(type, name) __global type *restrict name##_buffer, const ulong name##_at
#define BATCH_ARGUMENT INPUT_OF(uint, batch)
#define BEGIN_OF(type, name) __global const type *name = name##_buffer + name##_at
#define BEGIN_OUTPUT_OF(type, name) __global type *name = name##_buffer + name##_at
#endif
#define INPUT(name) INPUT_OF(storage, name)
#define OUTPUT(name) OUTPUT_OF(storage, name)
#define BEGIN(name) BEGIN_OF(storage, name)
#define BEGIN_OUTPUT(name) BEGIN_OUTPUT_OF(storage, name)

/* One element, any alignment. */
#if F16
#define LOAD(name, at) vload_half((at), name)
#define STORE(name, at, value) vstore_half_rte((value), (at), name)
#else
#define LOAD(name, at) (name)[at]
#define STORE(name, at, value) (name)[at] = (value)
#endif

/* VECTOR elements at once, to or from float v[VECTOR]: `at` is a multiple of VECTOR and the tensor starts on 16 bytes
 * (ALIGNED). The 16 bytes travel as a uint4 and are taken apart in private memory, which every compiler keeps in
 * registers; vload_half8 becomes eight loads on some. A vector may be accessed as halves; an array of uint may not:
 * stores to it by another type are lost where the compiler goes by types. */
#define LOAD_VECTOR(name, at, v) unpack_vector(*(__global const uint4 *)((name) + (at)), (v))
#define STORE_VECTOR(name, at, v) *(__global uint4 *)((name) + (at)) = pack_vector(v)

static inline void unpack_vector(const uint4 raw, float *v)
{
#if F16
    for (uint c = 0; c < VECTOR; c++) v[c] = vload_half(c, (const half *)&raw);
#else
    v[0] = as_float(raw.x);
    v[1] = as_float(raw.y);
    v[2] = as_float(raw.z);
    v[3] = as_float(raw.w);
#endif
}

static inline uint4 pack_vector(const float *v)
{
#if F16
    uint4 raw;
    for (uint c = 0; c < VECTOR; c++) vstore_half_rte(v[c], c, (half *)&raw);
    return raw;
#else
    /* In pairs: Oclgrind 21.10 takes a store of four scalars apart and then finds it uninitialised. */
    return (uint4)((uint2)(as_uint(v[0]), as_uint(v[1])), (uint2)(as_uint(v[2]), as_uint(v[3])));
#endif
}

/* What one load or store moves in kernels for any N: VECTOR elements where ALIGNED, else one. */
#if ALIGNED
#define ACCESS VECTOR
#define LOAD_ACCESS(name, at, v) LOAD_VECTOR(name, at, v)
#define STORE_ACCESS(name, at, v) STORE_VECTOR(name, at, v)
#else
#define ACCESS 1
#define LOAD_ACCESS(name, at, v) (v)[0] = LOAD(name, at)
#define STORE_ACCESS(name, at, v) STORE(name, at, (v)[0])
#endif

/* The same as they lie in memory, raw_access: what is loaded long before it is used costs fewer registers so. */
#if ALIGNED
typedef uint4 raw_access;
#define FETCH_ACCESS(raw, name, at) raw = *(__global const uint4 *)((name) + (at))
#define UNPACK_ACCESS(raw, v) unpack_vector(raw, v)
#else
typedef float raw_access;
#define FETCH_ACCESS(raw, name, at) raw = LOAD(name, at)
#define UNPACK_ACCESS(raw, v) (v)[0] = (raw)
#endif

/* ACCESS floats from v to a tensor of floats. */
#if ALIGNED
#define STORE_FLOATS(name, at, v)                                                                                      \
    UNROLL for (uint c_ = 0; c_ < VECTOR; c_ += 4)                                                                     \
    {                                                                                                                  \
        *(__global float4 *)((name) + (at) + c_) =                                                                     \
            (float4)((float2)((v)[c_], (v)[c_ + 1]), (float2)((v)[c_ + 2], (v)[c_ + 3]));                              \
    }
#else
#define STORE_FLOATS(name, at, v) (name)[at] = (v)[0]
#endif

/* v = ACCESS floats from a tensor of floats. */
#if ALIGNED
#define LOAD_FLOATS(name, at, v)                                                                                       \
    UNROLL for (uint c_ = 0; c_ < VECTOR; c_ += 4)                                                                     \
    {                                                                                                                  \
        const float4 quad_ = *(__global const float4 *)((name) + (at) + c_);                                           \
        (v)[c_] = quad_.x;                                                                                             \
        (v)[c_ + 1] = quad_.y;                                                                                         \
        (v)[c_ + 2] = quad_.z;                                                                                         \
        (v)[c_ + 3] = quad_.w;                                                                                         \
    }
#else
#define LOAD_FLOATS(name, at, v) (v)[0] = (name)[at]
#endif

/* The last statement under a condition that has barriers in it. PoCL 3.1 lets the first work-item decide for all about
 * a branch that leaves the kernel from there; with a barrier after it no branch does. */
#define LAST_BARRIER barrier(CLK_LOCAL_MEM_FENCE)

/* Work-groups are numbered through both dimensions of the grid. */
static inline uint group_number(void) { return get_group_id(0) + get_group_id(1) * GRID_WIDTH; }
static inline uint local_number(void) { return get_local_id(0); }

/* ---- reductions over the work-group, or over each team of TEAM neighbours in it ----
 * Every work-item gets the result. Two levels instead of a tree: three barriers whatever the size, and no dependence on
 * sub-groups. The order of the sum depends on TEAM only. A kernel declares __local float scratch[REDUCE_WORDS]; and all
 * work-items call together. */
#ifndef TEAM
#define TEAM LOCAL_SIZE
#endif
#define TEAMS (LOCAL_SIZE / TEAM)
#define REDUCE_PARTS 8
#define REDUCE_WORDS (LOCAL_SIZE + TEAMS * REDUCE_PARTS)

INLINE float group_sum(const float x, __local float *scratch)
{
    const uint l = local_number(), lane = l % TEAM, parts = LOCAL_SIZE + l / TEAM * REDUCE_PARTS;
    scratch[l] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < REDUCE_PARTS) {
        float part = 0.0f;
        for (uint i = lane; i < TEAM; i += REDUCE_PARTS) part += scratch[l - lane + i];
        scratch[parts + lane] = part;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0.0f;
    for (uint i = 0; i < min((uint)REDUCE_PARTS, (uint)TEAM); i++) sum += scratch[parts + i];
    barrier(CLK_LOCAL_MEM_FENCE); /* the scratch may be used again */
    return sum;
}

/* `count` sums at once, in place, in an order that depends on LOCAL_SIZE and `count` only; a power of two up to
 * REDUCE_PARTS. Three barriers for all of them: first a work-item adds `count` of one sum's values, then eight
 * work-items divide what is left between them. The scratch may be used again at once. A kernel declares
 * __local float scratch[GROUP_SUMS_WORDS(count)]. The strides keep neighbours in different banks. */
#define GROUP_SUMS_SHARE(count) (LOCAL_SIZE / (count)) /* values of a sum after the first step */
#define GROUP_SUMS_WORDS(count)                                                                                        \
    ((LOCAL_SIZE + GROUP_SUMS_SHARE(count)) * (count) + LOCAL_SIZE + (count) + REDUCE_PARTS)

INLINE void group_sums(float *x, const uint count, __local float *scratch)
{
    const uint l = local_number(), share = GROUP_SUMS_SHARE(count), stride = LOCAL_SIZE + share;
    __local float *second = scratch + stride * count, *last = second + LOCAL_SIZE + count;
    UNROLL for (uint s = 0; s < count; s++) scratch[s * stride + l] = x[s];
    barrier(CLK_LOCAL_MEM_FENCE);
    float part = 0.0f;
    UNROLL for (uint i = 0; i < count; i++) part += scratch[l / share * stride + l % share + i * share];
    second[l / share * (share + 1) + l % share] = part;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < REDUCE_PARTS) {
        const uint sharers = REDUCE_PARTS / count;
        part = 0.0f;
        UNROLL for (uint i = 0; i < LOCAL_SIZE / REDUCE_PARTS; i++)
            part += second[l / sharers * (share + 1) + l % sharers + i * sharers];
        last[l] = part;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (uint s = 0; s < count; s++)
    {
        x[s] = last[s * (REDUCE_PARTS / count)];
        UNROLL for (uint i = 1; i < REDUCE_PARTS / count; i++) x[s] += last[s * (REDUCE_PARTS / count) + i];
    }
}

INLINE float group_max(const float x, __local float *scratch)
{
    const uint l = local_number(), lane = l % TEAM, parts = LOCAL_SIZE + l / TEAM * REDUCE_PARTS;
    scratch[l] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < REDUCE_PARTS) {
        float part = x;
        for (uint i = lane; i < TEAM; i += REDUCE_PARTS) part = fmax(part, scratch[l - lane + i]);
        scratch[parts + lane] = part;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float largest = scratch[parts];
    for (uint i = 1; i < min((uint)REDUCE_PARTS, (uint)TEAM); i++) largest = fmax(largest, scratch[parts + i]);
    barrier(CLK_LOCAL_MEM_FENCE);
    return largest;
}

/* Four elements: what a work-item holds of a row of the output. 8 bytes of f16, 16 of f32. */
#if F16
#define LOAD_QUAD(name, at) unpack_quad(*(__global const uint2 *)((name) + (at)))
#define STORE_QUAD(name, at, v) *(__global uint2 *)((name) + (at)) = pack_quad(v)

INLINE float4 unpack_quad(const uint2 raw)
{
    const half *halves = (const half *)&raw;
    return (float4)(vload_half(0, halves), vload_half(1, halves), vload_half(2, halves), vload_half(3, halves));
}

INLINE uint2 pack_quad(const float4 v)
{
    uint2 raw;
    half *halves = (half *)&raw;
    vstore_half_rte(v.x, 0, halves);
    vstore_half_rte(v.y, 1, halves);
    vstore_half_rte(v.z, 2, halves);
    vstore_half_rte(v.w, 3, halves);
    return raw;
}

/* Eight elements, v[0] and v[1]; `second`: whether there is v[1]. With 16-bit floats that is one access and always. */
#define LOAD_EIGHT(v, name, at, second)                                                                                \
    {                                                                                                                  \
        const uint4 eight = *(__global const uint4 *)((name) + (at));                                                  \
        (v)[0] = unpack_quad(eight.lo);                                                                                \
        (v)[1] = unpack_quad(eight.hi);                                                                                \
    }
#define STORE_EIGHT(name, at, v, second)                                                                               \
    *(__global uint4 *)((name) + (at)) = (uint4)(pack_quad((v)[0]), pack_quad((v)[1]))
#else
#define LOAD_QUAD(name, at) (*(__global const float4 *)((name) + (at)))
#define STORE_QUAD(name, at, v) *(__global float4 *)((name) + (at)) = (v)
#define LOAD_EIGHT(v, name, at, second)                                                                                \
    {                                                                                                                  \
        (v)[0] = LOAD_QUAD(name, at);                                                                                  \
        (v)[1] = (second) ? LOAD_QUAD(name, (at) + 4) : (float4)(0.0f);                                                \
    }
#define STORE_EIGHT(name, at, v, second)                                                                               \
    {                                                                                                                  \
        STORE_QUAD(name, at, (v)[0]);                                                                                  \
        if (second) STORE_QUAD(name, (at) + 4, (v)[1]);                                                                \
    }
#endif

/* v = the same where `at` may be anything: the elements `column`, `column` + 1, ... of a row of `end`. */
#define LOAD_SOME(v, name, at, column, end) v = load_some(name, at, column, end)
#define STORE_SOME(name, at, v, column, end) store_some(name, at, v, column, end)

INLINE float4 load_some(__global const storage *from, const uint at, const uint column, const uint end)
{
    float4 v = (float4)(0.0f);
    if (column < end) v.x = LOAD(from, at);
    if (column + 1 < end) v.y = LOAD(from, at + 1);
    if (column + 2 < end) v.z = LOAD(from, at + 2);
    if (column + 3 < end) v.w = LOAD(from, at + 3);
    return v;
}

INLINE void store_some(__global storage *to, const uint at, const float4 v, const uint column, const uint end)
{
    if (column < end) STORE(to, at, v.x);
    if (column + 1 < end) STORE(to, at + 1, v.y);
    if (column + 2 < end) STORE(to, at + 2, v.z);
    if (column + 3 < end) STORE(to, at + 3, v.w);
}

/* raw = VECTOR elements from `at` on, in the storage type (16 bytes in flight cost four registers). They are the
 * elements `k`, `k` + 1, ... of a row of `end`; what lies beyond, or in no row (`there` false), is 0. `wide`: `at` and
 * `end` are multiples of VECTOR. */
#define FETCH_VECTOR(raw, name, at, there, k, end, wide) raw = fetch_vector(name, at, there, k, end, wide)

INLINE uint4 fetch_vector(__global const storage *from, const uint at, const bool there, const uint k, const uint end,
                          const bool wide)
{
    if (wide) return there && k < end ? *(__global const uint4 *)(from + at) : (uint4)(0);
    float v[VECTOR];
    UNROLL
    for (uint c = 0; c < VECTOR; c++) v[c] = there && k + c < end ? LOAD(from, at + c) : 0.0f;
    return pack_vector(v);
}

/* Four rows of VECTOR elements, raw[first] and the next three, become VECTOR quads: tile[at], tile[at + quads], ... */
#define PUT_ROWS(tile, at, quads, raw, first) put_rows(tile, at, quads, (raw) + (first))

INLINE void put_rows(__local float4 *tile, const uint at, const uint quads, const uint4 *raw)
{
    float v[4][VECTOR];
    UNROLL
    for (uint r = 0; r < 4; r++) unpack_vector(raw[r], v[r]);
    UNROLL
    for (uint c = 0; c < VECTOR; c++) tile[at + c * quads] = (float4)(v[0][c], v[1][c], v[2][c], v[3][c]);
}

/* VECTOR elements that are k-major in memory already become VECTOR / 4 quads side by side. */
#define PUT_VECTOR(tile, at, raw) put_vector(tile, at, raw)

INLINE void put_vector(__local float4 *tile, const uint at, const uint4 raw)
{
    float v[VECTOR];
    unpack_vector(raw, v);
    UNROLL
    for (uint c = 0; c < VECTOR / 4; c++)
        tile[at + c] = (float4)(v[c * 4], v[c * 4 + 1], v[c * 4 + 2], v[c * 4 + 3]);
}

/* The same of four consecutive k, raw[first] and the next three, `quads` apart; the second quad of a vector of 16-bit
 * floats lies half of that after the first (tile.h: paired). */
#define PUT_VECTORS(tile, at, quads, raw, first) put_vectors(tile, at, quads, (raw) + (first))

INLINE void put_vectors(__local float4 *tile, const uint at, const uint quads, const uint4 *raw)
{
    UNROLL
    for (uint r = 0; r < 4; r++) {
        float v[VECTOR];
        unpack_vector(raw[r], v);
        UNROLL
        for (uint c = 0; c < VECTOR / 4; c++)
            tile[at + r * quads + c * (quads / 2)] = (float4)(v[c * 4], v[c * 4 + 1], v[c * 4 + 2], v[c * 4 + 3]);
    }
}

/* sum += the product of two tiles in shared memory, in ascending k up to `count`: a work-item's THREAD_M rows, quads
 * that lie THREADS_M apart from a[a_at] on, times `quads` quads of columns that lie THREADS_N apart from b[b_at] on. A
 * k is a_step and b_step quads. UNROLL_K: how many k the compiler sees at a time, of which it loads some ahead. */
#ifndef UNROLL_K
#define UNROLL_K _Pragma("unroll 4")
#endif
#define MULTIPLY(sum, quads, a, a_at, a_step, b, b_at, b_step, count)                                                  \
    UNROLL_K for (uint k = 0; k < (count); k++)                                                                        \
    {                                                                                                                  \
        float a_k[THREAD_M];                                                                                           \
        float4 b_k[quads];                                                                                             \
        UNROLL for (uint i = 0; i < THREAD_M / 4; i++)                                                                 \
        {                                                                                                              \
            const float4 quad = (a)[(a_at) + k * (a_step) + i * THREADS_M];                                            \
            a_k[i * 4] = quad.x;                                                                                       \
            a_k[i * 4 + 1] = quad.y;                                                                                   \
            a_k[i * 4 + 2] = quad.z;                                                                                   \
            a_k[i * 4 + 3] = quad.w;                                                                                   \
        }                                                                                                              \
        UNROLL for (uint j = 0; j < (quads); j++) b_k[j] = (b)[(b_at) + k * (b_step) + j * THREADS_N];                 \
        UNROLL for (uint i = 0; i < THREAD_M; i++)                                                                     \
        {                                                                                                              \
            UNROLL for (uint j = 0; j < (quads); j++)                                                                  \
                (sum)[i * (quads) + j] = fma((float4)(a_k[i]), b_k[j], (sum)[i * (quads) + j]);                        \
        }                                                                                                              \
    }
/* Dropout as kernels do it (core/interface/random.h is the definition). Twin of shaders/dropout.glsl. A kernel with
 * DROPOUT > 0 has `const uint site` as its last argument; the seed and the step are in the batch header. */
#ifndef DROPOUT
#define DROPOUT 0
#endif
#ifndef KEPT
#define KEPT 0
#endif
/* Dropout's random numbers: the definition, for C, OpenCL C and GLSL, and so also the reference's. Counter-based, so
 * that a mask is recomputed wherever it is needed and never stored: Philox-4x32 with 7 rounds (Salmon et al., "Parallel
 * random numbers: as easy as 1, 2, 3", SC 2011, who show that 7 pass BigCrush).
 *
 * key      the seed's low and high word
 * counter  row, column / 8, site, step
 *
 * One call decides eight neighbouring columns: column c takes the low (c even) or high half of word (c % 8) / 2, and is
 * dropped when those 16 bits are below the threshold round(p * 65536). Kept values are scaled by
 * 65536 / (65536 - threshold). The row is the token's number in the batch, times the heads plus the head for
 * attention's weights, whose column is the key's position in its sequence. The site is 4 * layer + DROPOUT_*. */
#ifndef WHERRY_KERNEL_RANDOM_H
#define WHERRY_KERNEL_RANDOM_H

#define DROPOUT_ATTENTION 0 /* attention's weights */
#define DROPOUT_OUT 1       /* after attention's output product and its bias */
#define DROPOUT_ACTIVATION 2
#define DROPOUT_LIN2 3

/* The counter c0 to c3 becomes the result. All arguments are variables of 32 unsigned bits, the key's are changed, too.
 * PHILOX_MUL(high, low, a, b), each language's own: the two words of the product of a and b. */
#define PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                                           \
    {                                                                                                                  \
        PHILOX_WORD high0, low0, high1, low1;                                                                          \
        PHILOX_MUL(high0, low0, 0xD2511F53u, c0);                                                                      \
        PHILOX_MUL(high1, low1, 0xCD9E8D57u, c2);                                                                      \
        c0 = high1 ^ c1 ^ k0;                                                                                          \
        c1 = low1;                                                                                                     \
        c2 = high0 ^ c3 ^ k1;                                                                                          \
        c3 = low0;                                                                                                     \
        k0 += 0x9E3779B9u;                                                                                             \
        k1 += 0xBB67AE85u;                                                                                             \
    }

#define PHILOX(c0, c1, c2, c3, k0, k1)                                                                                 \
    PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                                               \
    PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                                               \
    PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                                               \
    PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                                               \
    PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                                               \
    PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                                               \
    PHILOX_ROUND(c0, c1, c2, c3, k0, k1)

#endif

#define PHILOX_WORD uint
#define PHILOX_MUL(high, low, a, b)                                                                                    \
    high = mul_hi((uint)(a), b);                                                                                       \
    low = (a)*b

/* What a kept value is multiplied by. */
#define DROPOUT_SCALE (65536.0f / (65536.0f - (float)(DROPOUT)))

/* What of the counter and the key is the same for all elements: the seed, the step, the site. Loops over rows keep it,
 * because a compiler may load it again after every store or barrier. */
static inline uint4 dropout_key(__global const uint *batch, const uint site)
{
    return (uint4)(batch[HEADER_SEED], batch[HEADER_SEED + 1], batch[HEADER_STEP], site);
}

/* The random words of the eight columns around `column`. */
static inline uint4 dropout_words_keyed(const uint4 key, const uint row, const uint column)
{
    uint c0 = row, c1 = column / 8, c2 = key.w, c3 = key.z, k0 = key.x, k1 = key.y;
    PHILOX(c0, c1, c2, c3, k0, k1)
    return (uint4)(c0, c1, c2, c3);
}

static inline uint4 dropout_words(__global const uint *batch, const uint site, const uint row, const uint column)
{
    return dropout_words_keyed(dropout_key(batch, site), row, column);
}

/* The factors of two columns in one word. */
static inline float2 dropout_pair(const uint word)
{
    return (float2)((word & 0xffff) < DROPOUT ? 0.0f : DROPOUT_SCALE, (word >> 16) < DROPOUT ? 0.0f : DROPOUT_SCALE);
}

/* v, eight columns that are scaled already, with 0 for those that are dropped. */
static inline void drop_eight(float *v, const uint4 words)
{
    v[0] = (words.x & 0xffff) < DROPOUT ? 0.0f : v[0];
    v[1] = (words.x >> 16) < DROPOUT ? 0.0f : v[1];
    v[2] = (words.y & 0xffff) < DROPOUT ? 0.0f : v[2];
    v[3] = (words.y >> 16) < DROPOUT ? 0.0f : v[3];
    v[4] = (words.z & 0xffff) < DROPOUT ? 0.0f : v[4];
    v[5] = (words.z >> 16) < DROPOUT ? 0.0f : v[5];
    v[6] = (words.w & 0xffff) < DROPOUT ? 0.0f : v[6];
    v[7] = (words.w >> 16) < DROPOUT ? 0.0f : v[7];
}

/* Bit c is set when column c of the eight is kept. */
static inline uint dropout_bits(const uint4 words)
{
    uint bits = 0;
    bits |= (words.x & 0xffff) < DROPOUT ? 0 : 1;
    bits |= (words.x >> 16) < DROPOUT ? 0 : 2;
    bits |= (words.y & 0xffff) < DROPOUT ? 0 : 4;
    bits |= (words.y >> 16) < DROPOUT ? 0 : 8;
    bits |= (words.z & 0xffff) < DROPOUT ? 0 : 16;
    bits |= (words.z >> 16) < DROPOUT ? 0 : 32;
    bits |= (words.w & 0xffff) < DROPOUT ? 0 : 64;
    bits |= (words.w >> 16) < DROPOUT ? 0 : 128;
    return bits;
}

/* The factors of four of the eight columns: the lower or the higher ones. */
static inline float4 dropout_half(const uint4 words, const bool high)
{
    return (float4)(dropout_pair(high ? words.z : words.x), dropout_pair(high ? words.w : words.y));
}

/* The factors of the columns `column` to `column` + 3, a multiple of 4. */
static inline float4 dropout_quad(__global const uint *batch, const uint site, const uint row, const uint column)
{
    return dropout_half(dropout_words(batch, site, row, column), column % 8 != 0);
}

/* v, the ACCESS columns from `column` on, times their factors. */
static inline void dropout_keyed(float *v, const uint4 key, const uint row, const uint column)
{
    const uint4 words = dropout_words_keyed(key, row, column);
#if ACCESS == 1
    v[0] *= (dropout_bits(words) >> column % 8 & 1) ? DROPOUT_SCALE : 0.0f;
#elif ACCESS == 4
    const float4 factor = dropout_half(words, column % 8 != 0);
    v[0] *= factor.x;
    v[1] *= factor.y;
    v[2] *= factor.z;
    v[3] *= factor.w;
#else
    const float2 f0 = dropout_pair(words.x), f1 = dropout_pair(words.y), f2 = dropout_pair(words.z),
                 f3 = dropout_pair(words.w);
    v[0] *= f0.x;
    v[1] *= f0.y;
    v[2] *= f1.x;
    v[3] *= f1.y;
    v[4] *= f2.x;
    v[5] *= f2.y;
    v[6] *= f3.x;
    v[7] *= f3.y;
#endif
}

/* The factor of one element. */
static inline float dropout_factor(const uint4 key, const uint row, const uint column)
{
    return (dropout_bits(dropout_words_keyed(key, row, column)) >> column % 8 & 1) ? DROPOUT_SCALE : 0.0f;
}

static inline void dropout_access(float *v, __global const uint *batch, const uint site, const uint row,
                                  const uint column)
{
    dropout_keyed(v, dropout_key(batch, site), row, column);
}
/* What attention, its backward pass and their variants are called with: the constants and the arguments. cl/attention.cl
 * and cl/attention_backward.cl say what is computed of them. */
#ifndef HEADS
#define HEADS 1
#endif
#ifndef HEAD_DIM
#define HEAD_DIM 32
#endif
#ifndef QKV_INTERLEAVED
#define QKV_INTERLEAVED 0
#endif
#ifndef SCALE
#define SCALE 0x3f800000u /* 1 */
#endif
#ifndef LSE
#define LSE LSE_NONE
#endif
#ifndef X_STRIDE
#define X_STRIDE HEAD_DIM
#endif
#ifndef X_OFFSET
#define X_OFFSET 0
#endif
#ifndef W_STRIDE
#define W_STRIDE HEAD_DIM
#endif
#ifndef W_OFFSET
#define W_OFFSET 0
#endif
#ifndef V_STRIDE
#define V_STRIDE HEAD_DIM
#endif
#ifndef V_OFFSET
#define V_OFFSET 0
#endif
#ifndef Y_STRIDE
#define Y_STRIDE HEAD_DIM
#endif
#ifndef Y_OFFSET
#define Y_OFFSET 0
#endif

#if LSE == LSE_WRITE
#define ARGUMENT_LSE , OUTPUT_OF(float, lse)
#define BEGIN_LSE BEGIN_OUTPUT_OF(float, lse)
#else
#define ARGUMENT_LSE
#define BEGIN_LSE
#endif
/* A bias of scores by the distance of key and query: the head's row of it in shared memory. Twin of
 * shaders/distances.glsl. */
#ifndef RELATIVE
#define RELATIVE 0
#endif

/* From the key that is RELATIVE before its query to the one that is as many after it; what is farther is as these. */
#define DISTANCES (2 * RELATIVE + 1)
#define FARTHEST ((int)(RELATIVE))

#if RELATIVE > 0
INLINE uint distance_at(const int offset) { return (uint)(max(min(offset, FARTHEST), -FARTHEST) + FARTHEST); }

/* The table's element for keys `offset` tokens after the query. */
INLINE float table_bias(__global const storage *relative, __global const uint *batch, const uint head, const uint at)
{
    return LOAD(relative, batch[batch[HEADER_AT_BUCKETS] + at] * HEADS + head);
}

/* All of a head, times a factor; to be used after a barrier. */
INLINE void load_biases(__local float *biases, __global const storage *relative, __global const uint *batch,
                        const uint head, const float factor)
{
    for (uint i = local_number(); i < DISTANCES; i += LOCAL_SIZE)
        biases[i] = table_bias(relative, batch, head, i) * factor;
}

INLINE float bias_of(const __local float *biases, const int offset) { return biases[distance_at(offset)]; }

/* Four, each `step` after the one before. */
INLINE float4 bias_quad(const __local float *biases, const int offset, const int step)
{
    return (float4)(bias_of(biases, offset), bias_of(biases, offset + step), bias_of(biases, offset + 2 * step),
                    bias_of(biases, offset + 3 * step));
}
#endif
#if RELATIVE > 0
#define ARGUMENT_RELATIVE , INPUT(relative)
#define BEGIN_RELATIVE BEGIN(relative)
#define ARGUMENT_DISTANCES , OUTPUT_OF(float, distances)
#define BEGIN_DISTANCES BEGIN_OUTPUT_OF(float, distances)
#else
#define ARGUMENT_RELATIVE
#define BEGIN_RELATIVE
#define ARGUMENT_DISTANCES
#define BEGIN_DISTANCES
#endif
#if DROPOUT > 0
#define ARGUMENT_SITE , const uint site
#else
#define ARGUMENT_SITE
#endif

#define OPERANDS BATCH_ARGUMENT, INPUT(x), INPUT(w), INPUT(v)
#define BEGIN_OPERANDS                                                                                                 \
    BEGIN_OF(uint, batch);                                                                                             \
    BEGIN(x);                                                                                                          \
    BEGIN(w);                                                                                                          \
    BEGIN(v)

/* Forward. */
#define ATTENTION_ARGUMENTS OPERANDS ARGUMENT_LSE ARGUMENT_RELATIVE, OUTPUT(y) ARGUMENT_SITE
#define BEGIN_ATTENTION                                                                                                \
    BEGIN_OPERANDS;                                                                                                    \
    BEGIN_LSE;                                                                                                         \
    BEGIN_RELATIVE;                                                                                                    \
    BEGIN_OUTPUT(y)

/* Backward; a kernel that leaves no partial sums defines NO_PARTIALS before. */
#ifdef NO_PARTIALS
#define ARGUMENT_PARTIALS
#define BEGIN_PARTIALS __global float *partials = 0
#else
#define ARGUMENT_PARTIALS , OUTPUT_OF(float, partials)
#define BEGIN_PARTIALS BEGIN_OUTPUT_OF(float, partials)
#endif
#define ATTENTION_BACKWARD_ARGUMENTS                                                                                   \
    OPERANDS ARGUMENT_DISTANCES, INPUT_OF(float, lse) ARGUMENT_RELATIVE, INPUT_OF(float, delta),                       \
        INPUT(gradient) ARGUMENT_PARTIALS, OUTPUT(y) ARGUMENT_SITE
#define BEGIN_ATTENTION_BACKWARD                                                                                       \
    BEGIN_OPERANDS;                                                                                                    \
    BEGIN_OF(float, lse);                                                                                              \
    BEGIN_OF(float, delta);                                                                                            \
    BEGIN(gradient);                                                                                                   \
    BEGIN_PARTIALS;                                                                                                    \
    BEGIN_RELATIVE;                                                                                                    \
    BEGIN_DISTANCES;                                                                                                   \
    BEGIN_OUTPUT(y)

#ifndef TILE_V
#define TILE_V 32
#endif
#ifndef TILE_M
#define TILE_M 32
#endif
#ifndef TILE_N
#define TILE_N 32
#endif
#ifndef TILE_K
#define TILE_K 32
#endif
#ifndef THREAD_M
#define THREAD_M 4
#endif

/* Elements from one row of the gradient of attention's output to the next. */
#define GRADIENT_STRIDE (HEADS * HEAD_DIM)

/* LOCAL_SIZE is THREADS_M times THREADS_N, a power of two. TILE_M and THREAD_M are multiples of 4, TILE_N of
 * 4 * THREADS_N, TILE_K of VECTOR; with dropout, keys come in sixteens. */
#define THREADS_M (TILE_M / THREAD_M)
#define THREADS_N (LOCAL_SIZE / THREADS_M)
#define QUADS_M (TILE_M / 4)
#define QUADS_N (TILE_N / 4)
#define COLUMN_QUADS (QUADS_N / THREADS_N)                               /* of a work-item */
#define CHANNEL_QUADS ((HEAD_DIM + 4 * THREADS_N - 1) / (4 * THREADS_N)) /* likewise; 0 beyond HEAD_DIM */
#define QUADS_V (CHANNEL_QUADS * THREADS_N)
#define SCORES (THREAD_M * COLUMN_QUADS)
#define SUMS (THREAD_M * CHANNEL_QUADS)

/* One quad of padding keeps the neighbours that store a column of the weights on different banks. */
#define QUADS_P (QUADS_M + 1)

/* Stages of rows and of columns, columns x channels, and weights, in shared memory. */
#define TILE_X_QUADS (TILE_K * QUADS_M)
#define TILE_W_QUADS (TILE_K * QUADS_N)
#define TILE_V_QUADS (TILE_V * QUADS_V)
#define TILE_P_QUADS (TILE_N * QUADS_P)

#define VECTORS_K (TILE_K / VECTOR)
#define VECTORS_V (QUADS_V * 4 / VECTOR)
#define BLOCKS_X (QUADS_M * VECTORS_K)
#define BLOCKS_W (QUADS_N * VECTORS_K)
#define BLOCKS_V (TILE_V / 4 * VECTORS_V)
#define ROUNDS(blocks) (((blocks) + LOCAL_SIZE - 1) / LOCAL_SIZE)

/* exp(x) is 2^(x log2 e): the scores are scaled once for both. */
#define LOG2E 1.44269504f

/* Neighbours take RUN quads of rows (or columns), the next ones the next VECTOR of channels of the same rows. */
#define RUN ((QUADS_M | QUADS_N) % 8 == 0 ? 8u : 1u)

INLINE uint block_quad(const uint block) { return block % RUN + block / (RUN * VECTORS_K) * RUN; }
INLINE uint block_channel(const uint block) { return block / RUN % VECTORS_K * VECTOR; }

INLINE uint thread_m(void) { return local_number() / THREADS_N; }
INLINE uint thread_n(void) { return local_number() % THREADS_N; }
/* Row of the tile that this work-item's row i is; first column of its quad j, whose others follow every THREADS_N;
 * first channel of its quad j. */
INLINE uint held_row(const uint i) { return (i / 4 * THREADS_M + thread_m()) * 4 + i % 4; }
INLINE uint held_column(const uint j) { return j * 4 * THREADS_N + thread_n(); }
INLINE uint held_channel(const uint j) { return (j * THREADS_N + thread_n()) * 4; }

/* The block of four rows x VECTOR that this work-item loads in round b. Block 0 is the work-item `turn`'s: loads that
 * follow each other begin where the one before ended, so that all work-items have as many. */
INLINE uint block_of(const uint b, const uint turn)
{
    return (local_number() + LOCAL_SIZE - turn % LOCAL_SIZE) % LOCAL_SIZE + b * LOCAL_SIZE;
}

/* tile[tile_at ...] = channels p0 to p0 + TILE_K of the rows from name[at] on, of which there are `count`:
 * [channel][row]. */
#define LOAD_ROWS(tile, tile_at, name, at, stride, count, p0, turn)                                                    \
    load_rows((tile) + (tile_at), name, at, stride, count, p0, turn)

INLINE void load_rows(__local float4 *tile, __global const storage *from, const uint at, const uint stride,
                      const uint count, const uint p0, const uint turn)
{
    UNROLL
    for (uint b = 0; b < ROUNDS(BLOCKS_X); b++) {
        const uint block = block_of(b, turn);
        const uint quad = block_quad(block);
        const uint p = block_channel(block);
        if (block < BLOCKS_X && p0 + p < HEAD_DIM) {
            __global const storage *begin = from + (at + quad * 4 * stride + p0 + p);
            uint4 raw[4];
            UNROLL
            for (uint r = 0; r < 4; r++)
                FETCH_VECTOR(raw[r], begin, r * stride, quad * 4 + r < count, p0 + p, HEAD_DIM, ALIGNED != 0);
            PUT_ROWS(tile, p * QUADS_M + quad, QUADS_M, raw, 0);
        }
    }
}

/* The same of the columns: [channel][column], a quad holds every THREADS_N-th. */
#define LOAD_COLUMNS(tile, tile_at, name, at, stride, count, p0, turn)                                                 \
    load_columns((tile) + (tile_at), name, at, stride, count, p0, turn)

INLINE void load_columns(__local float4 *tile, __global const storage *from, const uint at, const uint stride,
                         const uint count, const uint p0, const uint turn)
{
    UNROLL
    for (uint b = 0; b < ROUNDS(BLOCKS_W); b++) {
        const uint block = block_of(b, turn);
        const uint quad = block_quad(block);
        const uint p = block_channel(block);
        if (block < BLOCKS_W && p0 + p < HEAD_DIM) {
            const uint column = quad / THREADS_N * (4 * THREADS_N) + quad % THREADS_N;
            __global const storage *begin = from + (at + column * stride + p0 + p);
            uint4 raw[4];
            UNROLL
            for (uint r = 0; r < 4; r++)
                FETCH_VECTOR(raw[r], begin, r * THREADS_N * stride, column + r * THREADS_N < count, p0 + p, HEAD_DIM,
                             ALIGNED != 0);
            PUT_ROWS(tile, p * QUADS_N + quad, QUADS_N, raw, 0);
        }
    }
}

/* All channels of TILE_V columns: [column][channel]. */
#define LOAD_CHANNELS(tile, tile_at, name, at, stride, count) load_channels((tile) + (tile_at), name, at, stride, count)

INLINE void load_channels(__local float4 *tile, __global const storage *from, const uint at, const uint stride,
                          const uint count)
{
    UNROLL
    for (uint b = 0; b < ROUNDS(BLOCKS_V); b++) {
        const uint block = local_number() + b * LOCAL_SIZE;
        const uint column = block / VECTORS_V * 4;
        const uint p = block % VECTORS_V * VECTOR;
        if (block < BLOCKS_V) {
            __global const storage *begin = from + (at + column * stride + p);
            uint4 raw[4];
            UNROLL
            for (uint r = 0; r < 4; r++)
                FETCH_VECTOR(raw[r], begin, r * stride, column + r < count, p, HEAD_DIM, ALIGNED != 0);
            UNROLL
            for (uint r = 0; r < 4; r++) PUT_VECTOR(tile, (column + r) * QUADS_V + p / 4, raw[r]);
        }
    }
}

/* score += rows times columns over `channels` channels of the stages x_tile[x_at ...] and w_tile[w_at ...]. */
#define MULTIPLY_STAGES(score, x_tile, x_at, w_tile, w_at, channels)                                                   \
    MULTIPLY(score, COLUMN_QUADS, x_tile, (x_at) + thread_m(), QUADS_M, w_tile, (w_at) + thread_n(), QUADS_N, channels)

/* sum += weights times channels over `columns` columns. */
#define MULTIPLY_CHANNELS(sum, p_tile, p_at, v_tile, v_at, columns)                                                    \
    MULTIPLY(sum, CHANNEL_QUADS, p_tile, (p_at) + thread_m(), QUADS_P, v_tile, (v_at) + thread_n(), QUADS_V, columns)

/* The same with the channels of the `count` columns from name[at] on, stage by stage; the weights may have been stored
 * right before. Ends with a barrier. */
#define MULTIPLY_ROWS(sum, p_tile, p_at, v_tile, v_at, name, at, stride, count)                                        \
    for (uint v0 = 0; v0 < (count); v0 += TILE_V) {                                                                    \
        LOAD_CHANNELS(v_tile, v_at, name, (at) + v0 * (stride), stride, (count)-v0);                                   \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        MULTIPLY_CHANNELS(sum, p_tile, (p_at) + v0 * QUADS_P, v_tile, v_at, min((count)-v0, (uint)TILE_V));            \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
    }

/* tile = this work-item's scores, or what has been made of them: [column][row]. */
#define PUT_SCORES(tile, score) put_scores(tile, score)

INLINE void put_scores(__local float4 *tile, const float4 *score)
{
    UNROLL
    for (uint i = 0; i < THREAD_M / 4; i++) {
        UNROLL
        for (uint j = 0; j < COLUMN_QUADS; j++) {
            const float4 e0 = score[(i * 4) * COLUMN_QUADS + j], e1 = score[(i * 4 + 1) * COLUMN_QUADS + j];
            const float4 e2 = score[(i * 4 + 2) * COLUMN_QUADS + j], e3 = score[(i * 4 + 3) * COLUMN_QUADS + j];
            const uint to = held_column(j) * QUADS_P + i * THREADS_M + thread_m();
            tile[to] = (float4)(e0.x, e1.x, e2.x, e3.x);
            tile[to + THREADS_N * QUADS_P] = (float4)(e0.y, e1.y, e2.y, e3.y);
            tile[to + 2 * THREADS_N * QUADS_P] = (float4)(e0.z, e1.z, e2.z, e3.z);
            tile[to + 3 * THREADS_N * QUADS_P] = (float4)(e0.w, e1.w, e2.w, e3.w);
        }
    }
}

/* The same with rows and columns exchanged, where there are as many of both: [row][column]. A row of what then is
 * multiplied is a column here. */
#define PUT_TRANSPOSED(tile, score) put_transposed(tile, score)

INLINE void put_transposed(__local float4 *tile, const float4 *score)
{
    UNROLL
    for (uint i = 0; i < THREAD_M; i++)
        UNROLL
        for (uint j = 0; j < COLUMN_QUADS; j++)
            tile[held_row(i) * QUADS_P + j * THREADS_N + thread_n()] = score[i * COLUMN_QUADS + j];
}

/* The column that this work-item's row i then is. */
INLINE uint transposed_row(const uint i)
{
    const uint quad = i / 4 * THREADS_M + thread_m();
    return quad / THREADS_N * (4 * THREADS_N) + quad % THREADS_N + i % 4 * THREADS_N;
}

/* The `count` rows from name[at] on = sum. */
#define STORE_SUMS(name, at, stride, count, sum) store_sums(name, at, stride, count, sum)

INLINE void store_sums(__global storage *to, const uint at, const uint stride, const uint count, const float4 *sum)
{
    UNROLL_STORES
    for (uint i = 0; i < THREAD_M; i++) {
        const uint row = held_row(i);
        UNROLL
        for (uint j = 0; j < CHANNEL_QUADS; j++) {
            const uint p = held_channel(j);
            const uint element = at + row * stride + p;
            if (row < count && p < HEAD_DIM) {
                if (ALIGNED != 0)
                    STORE_QUAD(to, element, sum[i * CHANNEL_QUADS + j]);
                else
                    STORE_SOME(to, element, sum[i * CHANNEL_QUADS + j], p, HEAD_DIM);
            }
        }
    }
}

/* ---- dropout ----
 * Which weights of a tile are kept, made by the whole work-group: bit c of a word is for key 16 g + c of one query.
 * [g][query]. */
#if DROPOUT > 0
#define KEEP_WORDS (TILE_M * TILE_N / 16)

/* The `queries` queries from token `token` on, the keys of the step from `key` on. */
INLINE void make_keep(__local uint *keep_tile, __global const uint *batch, const uint site, const uint queries,
                      const uint token, const uint head, const uint key)
{
    UNROLL
    for (uint b = 0; b < ROUNDS(KEEP_WORDS); b++) {
        const uint word = local_number() + b * LOCAL_SIZE;
        const uint row = (token + word % queries) * HEADS + head;
        const uint column = key + word / queries * 16;
        if (word < KEEP_WORDS)
            keep_tile[word] = dropout_bits(dropout_words(batch, site, row, column)) |
                              dropout_bits(dropout_words(batch, site, row, column + 8)) << 8;
    }
}

INLINE float keep_factor(const __local uint *keep_tile, const uint queries, const uint query, const uint key)
{
    return (keep_tile[key / 16 * queries + query] >> key % 16 & 1) != 0 ? DROPOUT_SCALE : 0.0f;
}

/* The factors of four weights of a work-item's quad, which has either one query or one key. */
INLINE float4 keep_quad(const __local uint *keep_tile, const uint queries, const uint query, const uint query_step,
                        const uint key, const uint key_step)
{
    return (float4)(keep_factor(keep_tile, queries, query, key),
                    keep_factor(keep_tile, queries, query + query_step, key + key_step),
                    keep_factor(keep_tile, queries, query + 2 * query_step, key + 2 * key_step),
                    keep_factor(keep_tile, queries, query + 3 * query_step, key + 3 * key_step));
}
#endif

/* Keys and weights take turns in the same memory, so do values and what the work-items of a row tell each other. */
#define ROW_QUADS (THREADS_N * QUADS_M)
#define TILE_WP_QUADS (TILE_W_QUADS > TILE_P_QUADS ? TILE_W_QUADS : TILE_P_QUADS)
#define TILE_VR_QUADS (TILE_V_QUADS > ROW_QUADS ? TILE_V_QUADS : ROW_QUADS)

/* Below every score, and far enough from the end of the range that a difference stays finite. */
#define LOWEST -3.0e38f

#define LN2 0.693147181f

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1))) void attention(ATTENTION_ARGUMENTS)
{
    BEGIN_ATTENTION;
    __local float4 x_tile[TILE_X_QUADS];   /* [channel][row] */
    __local float4 wp_tile[TILE_WP_QUADS]; /* keys [channel][key], weights [key][row] */
    __local float4 vr_tile[TILE_VR_QUADS]; /* values [key][channel], statistics [work-item of a row][row] */
#if RELATIVE > 0
    __local float biases[DISTANCES];
#endif
#if DROPOUT > 0
    __local uint keep_tile[KEEP_WORDS];
#endif

    const uint tiles = batch[HEADER_QUERY_TILES];
    const uint head = group_number() / max(tiles, 1u);
    if (tiles > 0 && head < HEADS) {
        const uint entry = batch[HEADER_AT_QUERY_TILES] + group_number() % tiles * 2;
        const uint sequence = batch[entry];
        const uint row0 = batch[entry + 1];
        const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
        const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;
        const uint x_at = X_OFFSET + (first + row0) * X_STRIDE + HEAD_AT(head, X_STRIDE);
        const uint w_at = W_OFFSET + first * W_STRIDE + HEAD_AT(head, W_STRIDE);
        const uint v_at = V_OFFSET + first * V_STRIDE + HEAD_AT(head, V_STRIDE);
        const uint y_at = Y_OFFSET + (first + row0) * Y_STRIDE + HEAD_AT(head, Y_STRIDE);
        const uint rows = length - row0;
        const float scale = as_float((uint)SCALE) * LOG2E;

        const uint m = thread_m();
        const uint n = thread_n();
#if RELATIVE > 0
        load_biases(biases, relative, batch, head, LOG2E);
#endif

        float4 sum[SUMS];
        float largest[THREAD_M], total[THREAD_M]; /* total: of this work-item's keys alone */
        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] = (float4)(0.0f);
        UNROLL
        for (uint i = 0; i < THREAD_M; i++) {
            largest[i] = LOWEST;
            total[i] = 0.0f;
        }

        for (uint key0 = 0; key0 < length; key0 += TILE_N) {
            const uint keys = min(length - key0, (uint)TILE_N);
#if DROPOUT > 0
            make_keep(keep_tile, batch, site, TILE_M, first + row0, head, key0);
#endif

            /* ---- scores ---- */
            float4 score[SCORES];
            UNROLL
            for (uint i = 0; i < SCORES; i++) score[i] = (float4)(0.0f);
            for (uint p0 = 0; p0 < HEAD_DIM; p0 += TILE_K) {
                barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the stages before any more */
                if (HEAD_DIM > TILE_K || key0 == 0) LOAD_ROWS(x_tile, 0, x, x_at, X_STRIDE, rows, p0, 0);
                LOAD_COLUMNS(wp_tile, 0, w, w_at + key0 * W_STRIDE, W_STRIDE, keys, p0, 0);
                barrier(CLK_LOCAL_MEM_FENCE);
                MULTIPLY_STAGES(score, x_tile, 0, wp_tile, 0, min((uint)HEAD_DIM - p0, (uint)TILE_K));
            }

            /* ---- the largest score of each row; keys beyond the sequence are no keys ---- */
            float step[THREAD_M];
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                step[i] = LOWEST;
                UNROLL
                for (uint j = 0; j < COLUMN_QUADS; j++) {
                    const uint key = held_column(j);
#if RELATIVE > 0
                    const float4 bias = bias_quad(biases, (int)(key0 + key) - (int)(row0 + held_row(i)), (int)THREADS_N);
                    const float4 s = fma(score[i * COLUMN_QUADS + j], (float4)(scale), bias);
#else
                    const float4 s = score[i * COLUMN_QUADS + j] * scale;
#endif
                    score[i * COLUMN_QUADS + j] = s;
                    if (key < keys) step[i] = fmax(step[i], s.x);
                    if (key + THREADS_N < keys) step[i] = fmax(step[i], s.y);
                    if (key + 2 * THREADS_N < keys) step[i] = fmax(step[i], s.z);
                    if (key + 3 * THREADS_N < keys) step[i] = fmax(step[i], s.w);
                }
            }
            UNROLL
            for (uint i = 0; i < THREAD_M / 4; i++)
                vr_tile[n * QUADS_M + i * THREADS_M + m] =
                    (float4)(step[i * 4], step[i * 4 + 1], step[i * 4 + 2], step[i * 4 + 3]);
            barrier(CLK_LOCAL_MEM_FENCE); /* the keys' tile is free, too */

            /* ---- weights, relative to the largest score so far ---- */
            UNROLL
            for (uint i = 0; i < THREAD_M / 4; i++) {
                float4 most = vr_tile[i * THREADS_M + m];
                UNROLL
                for (uint other = 1; other < THREADS_N; other++)
                    most = fmax(most, vr_tile[other * QUADS_M + i * THREADS_M + m]);
                step[i * 4] = most.x;
                step[i * 4 + 1] = most.y;
                step[i * 4 + 2] = most.z;
                step[i * 4 + 3] = most.w;
            }
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                const float now = fmax(largest[i], step[i]);
                const float shrink = exp2(largest[i] - now);
                largest[i] = now;
                total[i] *= shrink;
                UNROLL
                for (uint j = 0; j < CHANNEL_QUADS; j++) sum[i * CHANNEL_QUADS + j] *= shrink;
                UNROLL
                for (uint j = 0; j < COLUMN_QUADS; j++) {
                    const float4 s = score[i * COLUMN_QUADS + j];
                    const uint key = held_column(j);
                    float4 e;
                    e.x = key < keys ? exp2(s.x - now) : 0.0f;
                    e.y = key + THREADS_N < keys ? exp2(s.y - now) : 0.0f;
                    e.z = key + 2 * THREADS_N < keys ? exp2(s.z - now) : 0.0f;
                    e.w = key + 3 * THREADS_N < keys ? exp2(s.w - now) : 0.0f;
                    total[i] += (e.x + e.y) + (e.z + e.w);
#if DROPOUT > 0
                    e *= keep_quad(keep_tile, TILE_M, held_row(i), 0, key, THREADS_N);
#endif
                    score[i * COLUMN_QUADS + j] = e;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);

            /* ---- weights times values ---- */
            PUT_SCORES(wp_tile, score);
            MULTIPLY_ROWS(sum, wp_tile, 0, vr_tile, 0, v, v_at + key0 * V_STRIDE, V_STRIDE, keys);
        }

        /* ---- the rows' totals, and the mean that they make of the sums ---- */
        UNROLL
        for (uint i = 0; i < THREAD_M / 4; i++)
            vr_tile[n * QUADS_M + i * THREADS_M + m] =
                (float4)(total[i * 4], total[i * 4 + 1], total[i * 4 + 2], total[i * 4 + 3]);
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL
        for (uint i = 0; i < THREAD_M / 4; i++) {
            float4 all = vr_tile[i * THREADS_M + m];
            UNROLL
            for (uint other = 1; other < THREADS_N; other++) all += vr_tile[other * QUADS_M + i * THREADS_M + m];
            total[i * 4] = all.x;
            total[i * 4 + 1] = all.y;
            total[i * 4 + 2] = all.z;
            total[i * 4 + 3] = all.w;
        }
        UNROLL
        for (uint i = 0; i < THREAD_M; i++) {
            UNROLL
            for (uint j = 0; j < CHANNEL_QUADS; j++) sum[i * CHANNEL_QUADS + j] = sum[i * CHANNEL_QUADS + j] / total[i];
        }
        STORE_SUMS(y, y_at, Y_STRIDE, rows, sum);
#if LSE == LSE_WRITE
        UNROLL
        for (uint i = 0; i < THREAD_M; i++)
            if (n == 0 && held_row(i) < rows)
                lse[(first + row0 + held_row(i)) * HEADS + head] = (largest[i] + log2(total[i])) * LN2;
#endif
        LAST_BARRIER;
    }
}
