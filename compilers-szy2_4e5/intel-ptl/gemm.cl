/* The matrix products with a weight. FORM says which:
 * GEMM_NT: y[r][n] = epilogue(sum over k of x[r][k] * w[n][k]);
 * GEMM_NN: y[r][n] = epilogue(sum over k of x[r][k] * w[k][n]);
 * GEMM_TN: y[m][n] = sum over rows r of x[r][m] * w[r][n], the weight's gradient.
 * RUNTIME says which of the sizes is the batch's number of rows, where it is another one.
 * One work-group per tile of y, columns fastest. While a stage is multiplied, the next one is on its way from memory to
 * registers.
 *
 * COLUMN_SUMS: the epilogue's results are also summed over each tile's share of the batch's rows, to
 * partials[row tile][N] or, where those are columns, partials[column tile][M]. A weight's gradient, which sums over
 * them itself, has few tiles and long sums instead of an epilogue, so there it cuts the sum: as many times the tiles as
 * there are parts of PART_ROWS rows, the parts slowest, and their sums go to partials[part][M][N] instead of y. */

#define UNROLL_K _Pragma("unroll 2") /* with 4, NVIDIA's compiler takes more than 128 registers */
/* One tile of a matrix product: its shape, who computes what, and the inner loop. Shared by gemm and bgemm. Twin of
 * shaders/tile.glsl.
 *
 * A work-group computes TILE_M x TILE_N outputs in stages of TILE_K, a work-item THREAD_M x THREAD_N of them: quads that
 * lie THREADS_M (THREADS_N) quads apart, so that neighbours read neighbouring quads of shared memory. All five are
 * powers of two and multiples of 4, TILE_K and TILE_N of VECTOR. */
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

#ifndef TILE_M
#define TILE_M 32
#endif
#ifndef TILE_N
#define TILE_N 32
#endif
#ifndef TILE_K
#define TILE_K 16
#endif
#ifndef THREAD_M
#define THREAD_M 4
#endif
#ifndef THREAD_N
#define THREAD_N 4
#endif

/* Work-items of the group, numbered in patches of 4 x 8 where there are as many: 32 neighbours then read 4 + 8
 * different quads instead of 2 + 16. */
#define THREADS_M (TILE_M / THREAD_M)
#define THREADS_N (TILE_N / THREAD_N)
#define PATCH_M (THREADS_M < 4u ? THREADS_M : 4u)
#define PATCH_N (THREADS_N < 8u ? THREADS_N : 8u)
#define PATCHES_N (THREADS_N / PATCH_N)

/* A stage lies in shared memory as TILE_K rows of QUADS_M quads of the first operand, then as many of QUADS_N. */
#define QUADS_M (TILE_M / 4)
#define QUADS_N (TILE_N / 4)
#define TILE_X_QUADS (TILE_K * QUADS_M)
#define TILE_W_QUADS (TILE_K * QUADS_N)

/* It is loaded in blocks of 4 x VECTOR elements: first those of x, then those of w; BLOCKS per work-item. Where rows
 * lie along k in memory, a block is 4 rows x VECTOR k. Where k is the slow dimension (`major`), it is 4 k x VECTOR
 * rows, already as the stage wants them. */
#define VECTORS_M (TILE_M / VECTOR)
#define VECTORS_N (TILE_N / VECTOR)
#define VECTORS_K (TILE_K / VECTOR)
#define BLOCKS_X (QUADS_M * VECTORS_K)
#define BLOCKS_W (QUADS_N * VECTORS_K)
#define BLOCKS ((BLOCKS_X + BLOCKS_W + LOCAL_SIZE - 1) / LOCAL_SIZE)

/* Eight neighbours (RUN) take eight quads of rows, the next eight the next VECTOR of the same rows: stores to shared
 * memory touch every bank once, and loads use all of a row's 64 bytes. Where k is the slow dimension, neighbours take
 * neighbouring vectors of the same k. */
#define RUN_M (QUADS_M < 8u ? QUADS_M : 8u)
#define RUN_N (QUADS_N < 8u ? QUADS_N : 8u)

/* Place of the block's first quad among those of its k in the stage. */
INLINE uint block_place(const uint block, const bool x_major, const bool w_major)
{
    const uint w = block - BLOCKS_X;
    if (block < BLOCKS_X) return x_major ? block % VECTORS_M : block % RUN_M + block / (RUN_M * VECTORS_K) * RUN_M;
    return w_major ? w % VECTORS_N : w % RUN_N + w / (RUN_N * VECTORS_K) * RUN_N;
}
/* First k of the block in its stage. */
INLINE uint block_k(const uint block, const bool x_major, const bool w_major)
{
    const uint w = block - BLOCKS_X;
    if (block < BLOCKS_X) return x_major ? block / VECTORS_M * 4 : block / RUN_M % VECTORS_K * VECTOR;
    return w_major ? w / VECTORS_N * 4 : w / RUN_N % VECTORS_K * VECTOR;
}

/* The quad of rows at a place. `paired`: first those of even number, then the others. So the two quads of a vector of
 * 16-bit floats lie apart, and neighbours store neighbouring quads; and a work-item with two of them has eight columns
 * side by side. All that is loaded `major` is paired. */
INLINE uint place_quad(const uint place, const uint quads, const bool paired)
{
    return paired ? place % (quads / 2) * 2 + place / (quads / 2) : place;
}

/* Quads of outputs: SUM_QUADS for each of THREAD_M rows. */
#define SUM_QUADS (THREAD_N / 4)
#define SUMS (THREAD_M * SUM_QUADS)

INLINE uint thread_m(void)
{
    const uint l = local_number();
    return l / (PATCH_M * PATCH_N) / PATCHES_N * PATCH_M + l / PATCH_N % PATCH_M;
}
INLINE uint thread_n(void)
{
    const uint l = local_number();
    return l / (PATCH_M * PATCH_N) % PATCHES_N * PATCH_N + l % PATCH_N;
}
/* Row of the tile that row i of the work-items of row `m` (thread_m) is. */
INLINE uint sum_row_of(const uint i, const uint m, const bool paired)
{
    return place_quad(i / 4 * THREADS_M + m, QUADS_M, paired) * 4 + i % 4;
}
/* Row of the tile that this work-item's row i is; first column of its quad j. */
INLINE uint sum_row(const uint i, const bool paired) { return sum_row_of(i, thread_m(), paired); }
INLINE uint sum_column(const uint j, const bool paired)
{
    return place_quad(j * THREADS_N + thread_n(), QUADS_N, paired) * 4;
}

/* sum += the stage's product, in ascending k. */
INLINE void multiply(const __local float4 *tile, float4 *sum)
{
    MULTIPLY(sum, SUM_QUADS, tile, thread_m(), QUADS_M, tile, TILE_X_QUADS + thread_n(), QUADS_N, TILE_K);
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
/* Scalar formulas of the kernels, written once for OpenCL C and GLSL, so that both compute the same function. They are
 * built on exp2, fma and division alone, whose accuracy both languages bound; erf and tanh are in one language only, or
 * in a quality that differs from driver to driver. A NaN that goes in comes out. */
#ifndef WHERRY_KERNEL_FORMULAS_H
#define WHERRY_KERNEL_FORMULAS_H

#ifdef __OPENCL_C_VERSION__
#define FORMULA static inline
#define FORMULA_ABS fabs
#else
#define FORMULA
#define FORMULA_ABS abs
#endif

/* erfc(a) for a >= 0 as 2^q(a), q a polynomial without constant term: the minimax fit of log2(erfc) on [0, 4.4] under
 * the weight erfc, which makes the error of erfc itself level. Its absolute error there is 2e-9 before rounding, about
 * 1e-7 with it; beyond, q keeps falling and the result is below 1e-9. No cancellation for large a, as 1 - erf(a) has.
 */
#define ERFC_FIRST (-1.17851361e-06f)
#define ERFC_STEPS(STEP)                                                                                               \
    STEP(2.36077190e-05f)                                                                                              \
    STEP(-2.02889846e-04f)                                                                                             \
    STEP(9.58345302e-04f)                                                                                              \
    STEP(-2.41465276e-03f)                                                                                             \
    STEP(1.88824944e-04f)                                                                                              \
    STEP(2.76804642e-02f)                                                                                              \
    STEP(-1.48298136e-01f)                                                                                             \
    STEP(-9.18443860e-01f)                                                                                             \
    STEP(-1.62790724e+00f)

FORMULA float erfc_positive(float a)
{
    a = a > 7.0f ? 7.0f : a; /* 2^q stays a normal number */
    float q = ERFC_FIRST;
#define ERFC_STEP(coefficient) q = fma(q, a, coefficient);
    ERFC_STEPS(ERFC_STEP)
#undef ERFC_STEP
    return exp2(q * a);
}

/* Absolute error below 2e-7. */
FORMULA float erf_portable(float x)
{
    float tail = erfc_positive(FORMULA_ABS(x));
    return x < 0.0f ? tail - 1.0f : 1.0f - tail;
}

/* x * Phi(x) = 0.5 x (1 + erf(x / sqrt 2)). Left of zero 1 + erf is the tail itself. */
FORMULA float gelu(float x)
{
    float tail = 0.5f * erfc_positive(0.70710678f * FORMULA_ABS(x));
    return x < 0.0f ? x * tail : x * (1.0f - tail);
}

/* e^-x for x in [-87, 87] at most. */
FORMULA float exp_negative(float x) { return exp2(-1.44269504f * x); }

/* 0.5 x (1 + tanh(u)) = x / (1 + e^-2u) with u = sqrt(2 / pi) (x + 0.044715 x^3). */
FORMULA float gelu_tanh(float x)
{
    float a = x < -9.0f ? -9.0f : x; /* e^-2u stays finite; tanh is 1 in size long before */
    a = a > 9.0f ? 9.0f : a;
    float u = 0.79788456f * fma(0.044715f * a * a, a, a);
    return x / (1.0f + exp_negative(2.0f * u));
}

/* Absolute error below 2e-7; exactly 1 in size from 10 on, where tanh rounds to it. */
FORMULA float tanh_safe(float x)
{
    float a = FORMULA_ABS(x);
    a = a > 10.0f ? 10.0f : a;
    float e = exp_negative(2.0f * a);
    float t = (1.0f - e) / (1.0f + e);
    return x < 0.0f ? -t : t;
}

/* `activation` is a constant, so that one branch is left. */
FORMULA float activate(uint activation, float x)
{
    if (activation == ACTIVATION_RELU) return x < 0.0f ? 0.0f : x;
    if (activation == ACTIVATION_GELU) return gelu(x);
    if (activation == ACTIVATION_GELU_TANH) return gelu_tanh(x);
    if (activation == ACTIVATION_TANH) return tanh_safe(x);
    return x;
}

/* ---- derivatives of the activations ----
 * Where they are flat, arguments are cut off: a product of a huge x with the smallest normal number is not 0. */

/* Phi(x) + x phi(x). Absolute error below 3e-7. */
FORMULA float gelu_derivative(float x)
{
    float a = x < -13.0f ? -13.0f : x; /* phi(a) stays a normal number */
    a = a > 13.0f ? 13.0f : a;
    float tail = 0.5f * erfc_positive(0.70710678f * FORMULA_ABS(a));
    float density = 0.39894228f * exp2(-0.72134752f * a * a);
    return fma(a, density, a < 0.0f ? tail : 1.0f - tail);
}

/* Of x s with s = 1 / (1 + e^-2u): s + x s (1 - s) 2u'. Absolute error below 5e-7. */
FORMULA float gelu_tanh_derivative(float x)
{
    float a = x < -9.0f ? -9.0f : x;
    a = a > 9.0f ? 9.0f : a;
    float square = a * a;
    float u = 0.79788456f * fma(0.044715f * square, a, a);
    float e = exp_negative(2.0f * u);
    float s = 1.0f / (1.0f + e);
    return fma(a * 1.59576912f * fma(0.134145f, square, 1.0f), s * (e * s), s); /* e * s is 1 - s */
}

/* Of `activation` where `saved` went into it; for RELU it may be what came out, too, and for TANH it is. */
FORMULA float derivative(uint activation, float saved)
{
    if (activation == ACTIVATION_RELU) return saved > 0.0f ? 1.0f : 0.0f;
    if (activation == ACTIVATION_GELU) return gelu_derivative(saved);
    if (activation == ACTIVATION_GELU_TANH) return gelu_tanh_derivative(saved);
    if (activation == ACTIVATION_TANH) return fma(-saved, saved, 1.0f);
    return 1.0f;
}

#endif
/* What gemm and its variants are called with: the constants and the arguments. cl/gemm.cl says what is computed of
 * them. */
#ifndef FORM
#define FORM GEMM_NT
#endif
#ifndef M
#define M 32
#endif
#ifndef N
#define N 32
#endif
#ifndef K
#define K 32
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif
#ifndef BIAS
#define BIAS 0
#endif
#ifndef ACTIVATION
#define ACTIVATION ACTIVATION_NONE
#endif
#ifndef RESIDUAL
#define RESIDUAL 0
#endif
#ifndef SUM
#define SUM 0
#endif
#ifndef DERIVATIVE
#define DERIVATIVE ACTIVATION_NONE
#endif
#ifndef DELTA
#define DELTA 0
#endif
#ifndef HEAD_DIM
#define HEAD_DIM 8
#endif
#ifndef COLUMN_SUMS
#define COLUMN_SUMS 0
#endif
#ifndef NORM
#define NORM 0
#endif
#ifndef NORM_Y
#define NORM_Y 0
#endif
#ifndef EPSILON
#define EPSILON 0x2b8cbcccu /* 1e-12 */
#endif

#ifndef RUNTIME
#define RUNTIME RUNTIME_FORM
#endif

/* Which size is the batch's number of rows. */
#define BATCH_M (RUNTIME == RUNTIME_M || (RUNTIME == RUNTIME_FORM && FORM != GEMM_TN))
#define BATCH_N (RUNTIME == RUNTIME_N)
#define BATCH_K (RUNTIME == RUNTIME_K || (RUNTIME == RUNTIME_FORM && FORM == GEMM_TN))
/* Whether k is the slow dimension of an operand. */
#define X_MAJOR (FORM == GEMM_TN)
#define W_MAJOR (FORM != GEMM_NT)
/* Sums over the batch's rows in parts, and the results' sums over them. */
#define PARTS (BATCH_K && COLUMN_SUMS)
#define EPILOGUE_SUMS (!BATCH_K && COLUMN_SUMS)
/* x is summed over the batch's rows on the way: the gradient of the bias with that of the weight. */
#define OPERAND_SUMS (BATCH_K && SUM)

#ifndef X_STRIDE
#define X_STRIDE (X_MAJOR ? M : K)
#endif
#ifndef X_OFFSET
#define X_OFFSET 0
#endif
#ifndef W_STRIDE
#define W_STRIDE (W_MAJOR ? N : K)
#endif
#ifndef W_OFFSET
#define W_OFFSET 0
#endif
#ifndef Y_STRIDE
#define Y_STRIDE N
#endif
#ifndef Y_OFFSET
#define Y_OFFSET 0
#endif

/* ---- arguments ---- */

#if BIAS
#define ARGUMENT_BIAS , INPUT(bias)
#define BEGIN_BIAS BEGIN(bias)
#else
#define ARGUMENT_BIAS
#define BEGIN_BIAS
#endif
#if RESIDUAL
#define ARGUMENT_RESIDUAL , INPUT(residual)
#define BEGIN_RESIDUAL BEGIN(residual)
#else
#define ARGUMENT_RESIDUAL
#define BEGIN_RESIDUAL
#endif
#if NORM || NORM_Y
#define ARGUMENT_NORM , INPUT(gamma), INPUT(beta)
#define BEGIN_NORM                                                                                                     \
    BEGIN(gamma);                                                                                                      \
    BEGIN(beta)
#else
#define ARGUMENT_NORM
#define BEGIN_NORM
#endif
#define READS_SAVED (DERIVATIVE || DELTA)
#if READS_SAVED
#define ARGUMENT_SAVED , INPUT(saved)
#define BEGIN_SAVED BEGIN(saved)
#else
#define ARGUMENT_SAVED
#define BEGIN_SAVED
#endif
#if DELTA
#define ARGUMENT_DELTA , OUTPUT_OF(float, delta)
#define BEGIN_DELTA BEGIN_OUTPUT_OF(float, delta)
#else
#define ARGUMENT_DELTA
#define BEGIN_DELTA
#endif
#if COLUMN_SUMS
#define ARGUMENT_PARTIALS , OUTPUT_OF(float, partials)
#define BEGIN_PARTIALS BEGIN_OUTPUT_OF(float, partials)
#else
#define ARGUMENT_PARTIALS
#define BEGIN_PARTIALS
#endif
/* Whoever adds the parts has the result. */
#if PARTS && !defined(ADDS_PARTS)
#define ARGUMENT_Y
#define BEGIN_Y
#else
#define ARGUMENT_Y , OUTPUT(y)
#define BEGIN_Y BEGIN_OUTPUT(y)
#endif
/* Of sums over the batch's rows x's; with NORM what the layernorm of x gives; else what goes into the activation. */
#if SUM
#define ARGUMENT_BEFORE , OUTPUT(before)
#define BEGIN_BEFORE BEGIN_OUTPUT(before)
#else
#define ARGUMENT_BEFORE
#define BEGIN_BEFORE
#endif
/* Where operands are loaded by the copy engine: the program's tensor maps, and the number of the first of this call's. */
#ifdef TENSOR_MAPS
#define ARGUMENT_MAPS , __global const uchar *restrict maps, const uint map_at
#else
#define ARGUMENT_MAPS
#endif
/* Where the kernel itself adds sums in parts: the program's counters, and the number of the first of this call's. */
#if PARTS && defined(ADDS_PARTS)
#define ARGUMENT_COUNTERS , __global uint *restrict counters, const uint counter_at
#else
#define ARGUMENT_COUNTERS
#endif
#if DROPOUT
#define ARGUMENT_SITE , const uint site
#else
#define ARGUMENT_SITE
#endif

#define PRODUCT_ARGUMENTS                                                                                              \
    BATCH_ARGUMENT, INPUT(x),                                                                                   \
        INPUT(w) ARGUMENT_BIAS ARGUMENT_RESIDUAL ARGUMENT_NORM ARGUMENT_SAVED ARGUMENT_DELTA ARGUMENT_PARTIALS         \
            ARGUMENT_Y ARGUMENT_BEFORE ARGUMENT_MAPS ARGUMENT_COUNTERS ARGUMENT_SITE

#define BEGIN_PRODUCT                                                                                                  \
    BEGIN_OF(uint, batch);                                                                                             \
    BEGIN(x);                                                                                                          \
    BEGIN(w);                                                                                                          \
    BEGIN_BIAS;                                                                                                        \
    BEGIN_RESIDUAL;                                                                                                    \
    BEGIN_NORM;                                                                                                        \
    BEGIN_SAVED;                                                                                                       \
    BEGIN_DELTA;                                                                                                       \
    BEGIN_PARTIALS;                                                                                                    \
    BEGIN_Y;                                                                                                           \
    BEGIN_BEFORE

#ifndef PART_ROWS
#define PART_ROWS TILE_K
#endif

/* Quads of columns lie paired: then a unit's two are read without bank conflicts. */
#define PAIR_N true

/* `rows` is the batch's number of them. */
#define END_M (BATCH_M ? rows : M)
#define END_N (BATCH_N ? rows : N)
#define TILES_M ((END_M + TILE_M - 1) / TILE_M)
#define TILES_N (BATCH_N ? max((rows + TILE_N - 1) / TILE_N, 1u) : (N + TILE_N - 1) / TILE_N) /* no batch: no row */
/* Stages end where the sum does. */
#define WHOLE_STAGES (!BATCH_K && K % TILE_K == 0)

/* The sums go to memory by way of the stages' place in shared memory, where a work-item takes eight columns side by side
 * and every LANES-th row: wide accesses, one call of dropout's generator, and a loop instead of code and registers for
 * all of a work-item's sums at once. As many rows of sums as there is place for make a chunk, in which a work-item has
 * CHUNK of its THREAD_M rows; that is at least one, because THREADS_M is at most TILE_K. */
#define UNITS_N (TILE_N / 8)
#define LANES (LOCAL_SIZE / UNITS_N)
#define CHUNK_PLACE ((TILE_X_QUADS + TILE_W_QUADS) / (THREADS_M * QUADS_N))
#define CHUNK (CHUNK_PLACE >= THREAD_M ? THREAD_M : CHUNK_PLACE >= 4 ? 4 : CHUNK_PLACE >= 2 ? 2 : 1)

/* Whether the loop over chunks stays one. Without an epilogue it costs more than it saves. */
#if FORM == GEMM_NT && (ACTIVATION || DROPOUT || RESIDUAL)
#define FOR_CHUNKS ROLLED for
#else
#define FOR_CHUNKS UNROLL for
#endif

/* Eight elements of a row of the output from `column` on, a multiple of 8. */
#if ALIGNED
#define LOAD_UNIT(v, name, at, column) LOAD_EIGHT(v, name, at, (column) + 4 < END_N)
#define STORE_UNIT(name, at, v, column) STORE_EIGHT(name, at, v, (column) + 4 < END_N)
#else
#define LOAD_UNIT(v, name, at, column)                                                                                 \
    LOAD_SOME((v)[0], name, at, column, END_N);                                                                        \
    LOAD_SOME((v)[1], name, (at) + 4, (column) + 4, END_N)
#define STORE_UNIT(name, at, v, column)                                                                                \
    STORE_SOME(name, at, (v)[0], column, END_N);                                                                       \
    STORE_SOME(name, (at) + 4, (v)[1], (column) + 4, END_N)
#endif

/* Whether there is k0 + r of a block whose k is slow: written for few registers. */
#define K_THERE(b, r) (WHOLE_STAGES ? block_rows[b] > 0 : k0 + r < block_end[b])

/* Starts the loads of this work-item's blocks of the stage at k0. */
INLINE void fetch_stage(__global const storage *x, __global const storage *w, const uint *block_at,
                       const int *block_rows, const uint *block_end, const uint k0, const uint depth, uint4 *raw)
{
    UNROLL
    for (uint b = 0; b < BLOCKS; b++) {
        const uint block = local_number() + b * LOCAL_SIZE;
        const uint k = k0 + block_k(block, X_MAJOR, W_MAJOR);
        const uint end = WHOLE_STAGES ? k + VECTOR : depth;
        const uint left = ALIGNED != 0 ? VECTOR : max(block_rows[b], 0);
        if (block < BLOCKS_X) {
            UNROLL
            for (int r = 0; r < 4; r++) {
#if X_MAJOR
                FETCH_VECTOR(raw[b * 4 + r], x, block_at[b] + (k0 + r) * X_STRIDE, K_THERE(b, r), 0, left,
                             ALIGNED != 0);
#else
                /* What lies after the batch's rows may be no number. */
                FETCH_VECTOR(raw[b * 4 + r], x, block_at[b] + k0 + r * X_STRIDE, r < block_rows[b], k, end,
                             ALIGNED != 0 && (!BATCH_K || k + VECTOR <= end));
#endif
            }
        } else if (block < BLOCKS_X + BLOCKS_W) {
            UNROLL
            for (int r = 0; r < 4; r++) {
#if W_MAJOR
                FETCH_VECTOR(raw[b * 4 + r], w, block_at[b] + (k0 + r) * W_STRIDE, K_THERE(b, r), 0, left,
                             ALIGNED != 0);
#else
                FETCH_VECTOR(raw[b * 4 + r], w, block_at[b] + k0 + r * W_STRIDE, r < block_rows[b], k, end,
                             ALIGNED != 0);
#endif
            }
        }
    }
}

#if COLUMN_SUMS
INLINE void store_floats(__global float *to, const uint at, const float4 *v, const uint column)
{
    UNROLL
    for (uint c = 0; c < 2; c++) {
#if ALIGNED
        if (column + c * 4 < N) *(__global float4 *)(to + at + c * 4) = v[c];
#else
        if (column + c * 4 < N) to[at + c * 4] = v[c].x;
        if (column + c * 4 + 1 < N) to[at + c * 4 + 1] = v[c].y;
        if (column + c * 4 + 2 < N) to[at + c * 4 + 2] = v[c].z;
        if (column + c * 4 + 3 < N) to[at + c * 4 + 3] = v[c].w;
#endif
    }
}
#endif

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void gemm(PRODUCT_ARGUMENTS)
{
    BEGIN_PRODUCT;
    __local float4 tile[TILE_X_QUADS + TILE_W_QUADS];

    const uint rows = batch[ROWS];
    const uint part = PARTS ? group_number() / (TILES_M * TILES_N) : 0;
    const uint row0 = (PARTS ? group_number() / TILES_N % TILES_M : group_number() / TILES_N) * TILE_M;
    const uint column0 = group_number() % TILES_N * TILE_N;
    const uint begin = part * PART_ROWS;
    const uint depth = PARTS ? min(begin + PART_ROWS, rows) : BATCH_K ? rows : K;
    if (PARTS ? begin < rows : row0 < END_M) {
        /* This work-item's blocks: where they begin, how many rows there are from there on (and where k is slow, how
         * many k), and where they go. */
        uint block_at[BLOCKS], block_to[BLOCKS], block_end[BLOCKS];
        int block_rows[BLOCKS];
        UNROLL
        for (uint b = 0; b < BLOCKS; b++) {
            const uint block = local_number() + b * LOCAL_SIZE;
            const uint place = block_place(block, X_MAJOR, W_MAJOR);
            const uint k = block_k(block, X_MAJOR, W_MAJOR);
            const uint row = block < BLOCKS_X ? row0 + place_quad(place, QUADS_M, X_MAJOR) * 4
                                              : column0 + place_quad(place, QUADS_N, PAIR_N) * 4;
            if (block < BLOCKS_X)
                block_at[b] = X_OFFSET + (X_MAJOR ? k * X_STRIDE + row : row * X_STRIDE + k);
            else
                block_at[b] = W_OFFSET + (W_MAJOR ? k * W_STRIDE + row : row * W_STRIDE + k);
            block_rows[b] = (int)(block < BLOCKS_X ? END_M : END_N) - (int)row;
            block_end[b] = block_rows[b] > 0 && k < depth ? depth - k : 0;
            block_to[b] = k * (block < BLOCKS_X ? QUADS_M : QUADS_N) + place + (block < BLOCKS_X ? 0 : TILE_X_QUADS);
        }

        float4 sum[SUMS];
        UNROLL
        for (uint i = 0; i < SUMS; i++) sum[i] = (float4)(0.0f);

        uint4 raw[BLOCKS * 4];
        fetch_stage(x, w, block_at, block_rows, block_end, begin, depth, raw);
        for (uint k0 = begin; k0 < depth; k0 += TILE_K) {
            barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the stage before any more */
            UNROLL
            for (uint b = 0; b < BLOCKS; b++) {
                const uint block = local_number() + b * LOCAL_SIZE;
                const uint quads = block < BLOCKS_X ? QUADS_M : QUADS_N;
                if (block < BLOCKS_X + BLOCKS_W) {
                    if (block < BLOCKS_X ? X_MAJOR : W_MAJOR)
                        PUT_VECTORS(tile, block_to[b], quads, raw, b * 4);
                    else
                        PUT_ROWS(tile, block_to[b], quads, raw, b * 4);
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (k0 + TILE_K < depth) fetch_stage(x, w, block_at, block_rows, block_end, k0 + TILE_K, depth, raw);
            multiply(tile, sum);
        }

        /* The same columns in all rows. */
        const uint unit = local_number() % UNITS_N, lane = local_number() / UNITS_N, column = column0 + unit * 8;
        /* Without a bias, zeros of which no compiler knows: sums that went straight to shared memory would have to lie
         * in the order of its quads in registers, where the inner loop is slower. */
        float4 b[SUM_QUADS];
        UNROLL
        for (uint j = 0; j < SUM_QUADS; j++) {
            b[j] = (float4)((float)(rows >> 31));
#if BIAS && !BATCH_N
            const uint c = column0 + sum_column(j, PAIR_N);
            LOAD_SOME(b[j], bias, c, c, N);
#endif
        }
#if DROPOUT && BATCH_N && !KEPT
        const uint4 key = dropout_key(batch, site);
#endif
#if EPILOGUE_SUMS && !BATCH_N
        float4 total[2] = {(float4)(0.0f), (float4)(0.0f)};
#endif
        FOR_CHUNKS (uint chunk = 0; chunk < THREAD_M; chunk += CHUNK) {
            barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the last stage or chunk any more */
            UNROLL
            for (uint i = 0; i < THREAD_M; i++) {
                if (i / CHUNK * CHUNK == chunk) {
                    UNROLL
                    for (uint j = 0; j < SUM_QUADS; j++)
                        tile[(i % CHUNK * THREADS_M + thread_m()) * QUADS_N + j * THREADS_N + thread_n()] =
                            sum[i * SUM_QUADS + j] + b[j];
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            ROLLED
            for (uint at = lane; at < CHUNK * THREADS_M; at += LANES) {
                const uint row = row0 + sum_row_of(chunk + at / THREADS_M, at % THREADS_M, X_MAJOR);
#if EPILOGUE_SUMS && BATCH_N
                float of_tokens = 0.0f;
#endif
                if (row < END_M && column < END_N) {
                    float4 v[2] = {tile[at * QUADS_N + unit], tile[at * QUADS_N + QUADS_N / 2 + unit]};
#if BIAS && BATCH_N
                    const float of_row = LOAD(bias, row);
                    v[0] += of_row;
                    v[1] += of_row;
#endif
#if SUM
                    STORE_UNIT(before, row * Y_STRIDE + column, v, column);
#endif
                    UNROLL
                    for (uint c = 0; c < 2; c++)
                        /* In pairs, as in pack_vector: Oclgrind stores four scalars twice. */
                        v[c] = (float4)((float2)(activate(ACTIVATION, v[c].x), activate(ACTIVATION, v[c].y)),
                                        (float2)(activate(ACTIVATION, v[c].z), activate(ACTIVATION, v[c].w)));
#if KEPT
                    v[0] *= DROPOUT_SCALE;
                    v[1] *= DROPOUT_SCALE;
#elif DROPOUT && BATCH_N
                    UNROLL
                    for (uint c = 0; c < 2; c++)
                        v[c] *= (float4)(dropout_factor(key, column + c * 4, row),
                                         dropout_factor(key, column + c * 4 + 1, row),
                                         dropout_factor(key, column + c * 4 + 2, row),
                                         dropout_factor(key, column + c * 4 + 3, row));
#elif DROPOUT
                    const uint4 words = dropout_words(batch, site, row, column);
                    v[0] *= dropout_half(words, false);
                    v[1] *= dropout_half(words, true);
#endif
#if DERIVATIVE
                    float4 d[2];
                    LOAD_UNIT(d, saved, row * Y_STRIDE + column, column);
                    UNROLL
                    for (uint c = 0; c < 2; c++)
                        v[c] *= (float4)(derivative(DERIVATIVE, d[c].x), derivative(DERIVATIVE, d[c].y),
                                         derivative(DERIVATIVE, d[c].z), derivative(DERIVATIVE, d[c].w));
#endif
#if RESIDUAL
                    float4 r[2];
                    LOAD_UNIT(r, residual, row * Y_STRIDE + column, column);
                    v[0] += r[0];
                    v[1] += r[1];
#endif
#if EPILOGUE_SUMS && BATCH_N
                    UNROLL
                    for (uint c = 0; c < 2; c++) {
                        const uint at_column = column + c * 4;
                        of_tokens += at_column < rows ? v[c].x : 0.0f;
                        of_tokens += at_column + 1 < rows ? v[c].y : 0.0f;
                        of_tokens += at_column + 2 < rows ? v[c].z : 0.0f;
                        of_tokens += at_column + 3 < rows ? v[c].w : 0.0f;
                    }
#elif EPILOGUE_SUMS
                    total[0] += v[0];
                    total[1] += v[1];
#endif
#if PARTS
                    store_floats(partials, (part * M + row) * N + column, v, column);
#else
                    STORE_UNIT(y, Y_OFFSET + row * Y_STRIDE + column, v, column);
#endif
                }
#if EPILOGUE_SUMS && BATCH_N
                tile[at * QUADS_N + unit].x = of_tokens; /* in the place of what only this work-item read */
#endif
            }
#if EPILOGUE_SUMS && BATCH_N
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint at = local_number(); at < CHUNK * THREADS_M; at += LOCAL_SIZE) {
                const uint row = row0 + sum_row_of(chunk + at / THREADS_M, at % THREADS_M, X_MAJOR);
                float sums = 0.0f;
                for (uint u = 0; u < UNITS_N; u++) sums += tile[at * QUADS_N + u].x;
                if (row < M) partials[column0 / TILE_N * M + row] = sums;
            }
#endif
        }
#if EPILOGUE_SUMS && !BATCH_N
        barrier(CLK_LOCAL_MEM_FENCE);
        tile[lane * QUADS_N + unit * 2] = total[0];
        tile[lane * QUADS_N + unit * 2 + 1] = total[1];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane == 0 && column < N) {
            UNROLL
            for (uint c = 0; c < 2; c++) {
                total[c] = tile[unit * 2 + c];
                for (uint m = 1; m < LANES; m++) total[c] += tile[m * QUADS_N + unit * 2 + c];
            }
            store_floats(partials, row0 / TILE_M * N + column, total, column);
        }
#endif
        LAST_BARRIER;
    }
}
