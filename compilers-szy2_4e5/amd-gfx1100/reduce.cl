/* The sum over the parts of partials [parts][SETS][N], stored as SETS vectors of N: Y, SUM, EXTRA. Twin of
 * shaders/reduce.comp.
 *
 * A work-group sums TILE_N neighbouring columns; LOCAL_SIZE / TILE_N work-items share one, each takes every SHARERS-th
 * part in ascending order, and their sums are added in the work-items' order. 32 bytes of a part are one access of
 * memory: TILE_N 8 gives work to the most multiprocessors, LOCAL_SIZE 256 then has 32 sharers, and all of the up to 528
 * parts that a GPU has are on the way at the same time. Any powers of two are right. */
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

#ifndef N
#define N 1
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif
#ifndef SETS
#define SETS 1
#endif
#ifndef PART_ROWS
#define PART_ROWS 1
#endif
#ifndef PARTS
#define PARTS UINT_MAX
#endif
#ifndef TILE_N
#define TILE_N 8
#endif

#define SHARERS (LOCAL_SIZE / TILE_N)
#define AT_ONCE (SHARERS > 1 ? 17 : 4)

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void reduce(BATCH_ARGUMENT
    , INPUT_OF(float, partials)
#if SETS > 2
    , OUTPUT(extra)
#endif
    , OUTPUT(y)
#if SETS > 1
    , OUTPUT(sum)
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(float, partials);
    BEGIN_OUTPUT(y);
    __local float scratch[LOCAL_SIZE];
    const uint parts = min((batch[ROWS] + PART_ROWS - 1) / PART_ROWS, (uint)PARTS);
    const uint first = group_number() * TILE_N;
    if (parts > 0 && first < SETS * N) {
        const uint column = first + local_number() % TILE_N;
        const uint from = min(column, (uint)(SETS * N - 1));
        float part_sum = 0.0f;
        for (uint part = local_number() / TILE_N; part < parts; part += AT_ONCE * SHARERS) {
            float v[AT_ONCE];
            UNROLL for (uint a = 0; a < AT_ONCE; a++)
                v[a] = part + a * SHARERS < parts ? partials[(part + a * SHARERS) * (SETS * N) + from] : 0.0f;
            UNROLL for (uint a = 0; a < AT_ONCE; a++) part_sum += v[a];
        }
        scratch[local_number()] = part_sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (local_number() < TILE_N && column < SETS * N) {
            float total = 0.0f;
            UNROLL for (uint i = 0; i < SHARERS; i++) total += scratch[i * TILE_N + local_number()];
            if (column < N) {
                STORE(y, column, total);
            }
#if SETS > 1
            BEGIN_OUTPUT(sum);
            if (column >= N && column < 2 * N) {
                STORE(sum, column - N, total);
            }
#endif
#if SETS > 2
            BEGIN_OUTPUT(extra);
            if (column >= 2 * N) {
                STORE(extra, column - 2 * N, total);
            }
#endif
        }
        LAST_BARRIER;
    }
}
