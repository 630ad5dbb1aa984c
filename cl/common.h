/* What every OpenCL kernel shares: arguments, loads and stores of the storage type, the group's number, reductions over
 * a work-group. Twin of shaders/common.glsl: the same names, so that kernels differ by dialect only. */
#include "interface.h"

#ifndef F16
#define F16 0
#endif
#ifndef BF16
#define BF16 0
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
#ifndef GROUP_ATTRIBUTE
#define GROUP_ATTRIBUTE 1
#endif

/* Some drivers run no kernel that declares the size of its work-groups (backends/quirks.c). */
#if !GROUP_ATTRIBUTE
#define reqd_work_group_size(x, y, z)
#endif

/* Elements of 16 bits are f16 or, with BF16, the upper halves of floats: no OpenCL has a type for those, and they are
 * taken apart by bits. `half` is only ever pointed to, which needs no cl_khr_fp16. */
#if BF16
typedef ushort storage;
#elif F16
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

#if BF16
static inline float bf16_float(const uint bits) { return as_float(bits << 16); }

/* Rounded to nearest, ties to even; what is too large becomes infinity, and a NaN stays one. */
static inline uint bf16_bits(const float v)
{
    const uint bits = as_uint(v);
    return (bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

/* Two in a word. */
static inline float2 bf16_floats(const uint pair) { return (float2)(as_float(pair << 16), as_float(pair & 0xffff0000u)); }
static inline uint bf16_pair(const float low, const float high) { return bf16_bits(low) | bf16_bits(high) << 16; }
#endif

/* One element, any alignment. */
#if BF16
#define LOAD(name, at) bf16_float((name)[at])
#define STORE(name, at, value) (name)[at] = (ushort)bf16_bits(value)
#elif F16
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
#if BF16
    const float2 v0 = bf16_floats(raw.x), v2 = bf16_floats(raw.y), v4 = bf16_floats(raw.z), v6 = bf16_floats(raw.w);
    v[0] = v0.x;
    v[1] = v0.y;
    v[2] = v2.x;
    v[3] = v2.y;
    v[4] = v4.x;
    v[5] = v4.y;
    v[6] = v6.x;
    v[7] = v6.y;
#elif F16
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
#if BF16
    return (uint4)((uint2)(bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3])),
                   (uint2)(bf16_pair(v[4], v[5]), bf16_pair(v[6], v[7])));
#elif F16
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

/* The last statement of a loop with barriers in it whose end depends on the work-item. PoCL 6.0 lets the first work-item
 * decide for all about the branch before the loop's end; with a barrier after it it does not. */
#ifdef POCL_DEVICE_ADDRESS_BITS
#define LOOP_BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#else
#define LOOP_BARRIER
#endif

/* Work-groups are numbered through both dimensions of the grid, from the launch's first one on, which is the offset in a
 * dimension that has nothing else. Kernels whose work-groups take tiles in turns are launched whole (plan/launches.h). */
#ifdef LAUNCHED_WHOLE
static inline uint group_number(void) { return get_group_id(0) + get_group_id(1) * GRID_WIDTH; }
#else
static inline uint group_number(void)
{
    return get_group_id(0) + get_group_id(1) * GRID_WIDTH + (uint)get_global_offset(2);
}
#endif
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
