/* Vectors of floats as wide as the processor's, which every kernel here is written in. A file of this folder is
 * compiled once for each instruction set (cmake/cpu.cmake); CPU_ISA is its name, LANES how many floats a register has.
 *
 * Where the compiler knows no vectors (it is neither GCC nor Clang), a vector is one float, and the same code is right.
 * What each lane computes depends on that lane alone, so that a value is the same wherever it stands in a row. */
#ifndef WHERRY_CPU_VECTOR_H
#define WHERRY_CPU_VECTOR_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/round.h"
#include "interface/interface.h"

#define CPU_JOIN_(a, b) a##_##b
#define CPU_JOIN(a, b) CPU_JOIN_(a, b)
/* The name of something for this instruction set: cpu_gemm_avx2. */
#define CPU_NAME(name) CPU_JOIN(name, CPU_ISA)

#if !defined(__GNUC__)
#define LANES 1
#elif defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif

/* Vector registers: 32 or 16. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define MANY_REGISTERS 1
#else
#define MANY_REGISTERS 0
#endif

#ifdef __SSE2__
#include <immintrin.h>
#endif

#ifdef __GNUC__
#define INLINE static inline __attribute__((always_inline))
typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef float loose_vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
INLINE vec v_load(const float *from) { return *(const loose_vec *)from; }
INLINE void v_store(float *to, vec v) { *(loose_vec *)to = v; }
INLINE vec v_set(float x) { return x - (vec){0}; }
INLINE ivec v_bits(vec v) { return (ivec)v; }
INLINE vec v_float(ivec v) { return (vec)v; }
/* All ones in lanes where it is so. A NaN is neither above nor below. */
INLINE ivec v_above(vec a, vec b) { return (ivec)(a > b); }
INLINE ivec v_same(ivec a, ivec b) { return (ivec)(a == b); }
INLINE ivec v_whole(int32_t x) { return x - (ivec){0}; }
INLINE vec v_number(ivec v) { return __builtin_convertvector(v, vec); }
INLINE vec v_choose(ivec mask, vec yes, vec no) { return (vec)((mask & (ivec)yes) | (~mask & (ivec)no)); }
INLINE float v_lane(vec v, int lane) { return v[lane]; }
#else
#define INLINE static inline
typedef float vec;
typedef int32_t ivec;
INLINE vec v_load(const float *from) { return *from; }
INLINE void v_store(float *to, vec v) { *to = v; }
INLINE vec v_set(float x) { return x; }
INLINE ivec v_bits(vec v)
{
    ivec bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}
INLINE vec v_float(ivec v)
{
    vec f;
    memcpy(&f, &v, sizeof f);
    return f;
}
INLINE ivec v_above(vec a, vec b) { return -(a > b); }
INLINE ivec v_same(ivec a, ivec b) { return -(a == b); }
INLINE ivec v_whole(int32_t x) { return x; }
INLINE vec v_number(ivec v) { return (vec)v; }
INLINE vec v_choose(ivec mask, vec yes, vec no) { return mask ? yes : no; }
INLINE float v_lane(vec v, int lane) { return (void)lane, v; }
#endif

/* Before a loop of few turns, whose number is known when it is compiled. */
#ifdef __GNUC__
#define UNROLL _Pragma("GCC unroll 8")
#else
#define UNROLL
#endif

/* Asks for the line of the cache that has this address; far: in the second level, for what is used some time later. */
#ifdef __GNUC__
#define v_prefetch(at) __builtin_prefetch(at)
#define v_prefetch_far(at) __builtin_prefetch(at, 0, 2)
#else
#define v_prefetch(at) ((void)(at))
#define v_prefetch_far(at) ((void)(at))
#endif

/* Stores whole vectors around the caches, which are not read for them and keep what they have; `to` begins on a
 * vector's bytes. v_stream_end before another thread is told of them. */
#if defined(__GNUC__) && defined(__SSE2__)
#define STREAMS 1
#if LANES == 16
INLINE void v_stream(float *to, vec v) { _mm512_stream_ps(to, (__m512)v); }
#elif LANES == 8
INLINE void v_stream(float *to, vec v) { _mm256_stream_ps(to, (__m256)v); }
#else
INLINE void v_stream(float *to, vec v) { _mm_stream_ps(to, (__m128)v); }
#endif
INLINE void v_stream_end(void) { _mm_sfence(); }
#else
#define STREAMS 0
INLINE void v_stream(float *to, vec v) { v_store(to, v); }
INLINE void v_stream_end(void) {}
#endif

/* One rounding where the processor has such an instruction, which the compiler may use here (-ffp-contract). */
INLINE vec v_fma(vec a, vec b, vec c) { return a * b + c; }
/* The larger one; a NaN in `a` stays. */
INLINE vec v_max(vec a, vec b) { return v_choose(v_above(b, a), b, a); }
INLINE vec v_min(vec a, vec b) { return v_choose(v_above(a, b), b, a); }
INLINE vec v_abs(vec a) { return v_float(v_bits(a) & INT32_MAX); }
INLINE vec v_zero(void) { return v_set(0.0f); }

/* The lanes in an order that depends on nothing. */
INLINE float v_sum(vec v)
{
    float sum = v_lane(v, 0);
    for (int lane = 1; lane < LANES; lane++) sum += v_lane(v, lane);
    return sum;
}

/* ---- rows: elements i to i + LANES - 1 of a row of n, of which the last vector may have fewer ---- */

INLINE vec v_load_at(const float *row, size_t i, size_t n)
{
    if (i + LANES <= n) return v_load(row + i);
    float some[LANES] = {0};
    for (size_t c = 0; c < LANES && i + c < n; c++) some[c] = row[i + c];
    return v_load(some);
}

INLINE void v_store_at(float *row, size_t i, size_t n, vec v)
{
    if (i + LANES <= n) {
        v_store(row + i, v);
        return;
    }
    float some[LANES];
    v_store(some, v);
    for (size_t c = 0; c < LANES && i + c < n; c++) row[i + c] = some[c];
}

#define FOR_VECTORS(i, n) for (size_t i = 0; i < (n); i += LANES)

/* The first `count` lanes, and zeros. */
INLINE vec v_first(vec v, size_t count)
{
    float some[LANES];
    v_store(some, v);
    for (size_t c = count; c < LANES; c++) some[c] = 0.0f;
    return v_load(some);
}

/* Elements that a row of n takes in scratch memory: whole vectors. */
static inline size_t padded(size_t n) { return (n + LANES - 1) / LANES * LANES; }

/* Of a row in scratch memory: what lies after its end becomes 0, so that sums may go to the last vector's. */
static inline void row_end(float *row, size_t n)
{
    for (size_t i = n; i < padded(n); i++) row[i] = 0.0f;
}

/* The sums of a row in scratch memory that ends with zeros. Four chains, because an addition takes some cycles; their
 * order depends on n alone. */
static inline float row_sum(const float *row, size_t n)
{
    vec sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int c = 0; c < 4; c++) sum[c] += v_load(row + i + c * LANES);
    for (; i < n; i += LANES) sum[0] += v_load(row + i);
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* Likewise of the products of two rows. */
static inline float row_dot(const float *a, const float *b, size_t n)
{
    vec sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int c = 0; c < 4; c++) sum[c] = v_fma(v_load(a + i + c * LANES), v_load(b + i + c * LANES), sum[c]);
    for (; i < n; i += LANES) sum[0] = v_fma(v_load(a + i), v_load(b + i), sum[0]);
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

static inline void row_scale(float *row, size_t n, float factor)
{
    FOR_VECTORS(i, n) v_store(row + i, v_load(row + i) * v_set(factor));
}

#endif
