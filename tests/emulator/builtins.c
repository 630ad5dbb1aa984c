/* OpenCL C's functions that kernels call, under the names by which clang calls them. */
#include "emulator.h"

#include <math.h>
#include <string.h>

typedef float float4 __attribute__((vector_size(16)));

#define NAMED(symbol) __asm__(symbol) EXPORT

/* ---- where a work-item is; all work-groups have one row of items ---- */

uint64_t local_id(uint32_t d) NAMED("_Z12get_local_idj");
uint64_t local_id(uint32_t d) { return d ? 0 : item->number; }
uint64_t local_size(uint32_t d) NAMED("_Z14get_local_sizej");
uint64_t local_size(uint32_t d) { return d ? 1 : group.launch->items; }
uint64_t group_id(uint32_t d) NAMED("_Z12get_group_idj");
uint64_t group_id(uint32_t d) { return d < 3 ? group.id[d] : 0; }
uint64_t group_count(uint32_t d) NAMED("_Z14get_num_groupsj");
uint64_t group_count(uint32_t d) { return d < 3 ? group.launch->groups[d] : 1; }
uint64_t global_size(uint32_t d) NAMED("_Z15get_global_sizej");
uint64_t global_size(uint32_t d) { return group_count(d) * local_size(d); }
uint64_t global_offset(uint32_t d) NAMED("_Z17get_global_offsetj");
uint64_t global_offset(uint32_t d) { return d < 3 ? group.launch->offset[d] : 0; }
uint64_t global_id(uint32_t d) NAMED("_Z13get_global_idj");
uint64_t global_id(uint32_t d) { return global_offset(d) + group_id(d) * local_size(d) + local_id(d); }

void group_barrier(uint32_t flags) NAMED("_Z7barrierj");
void group_barrier(uint32_t flags)
{
    (void)flags;
    meet(&group.named[0], 0, group.launch->items, true);
}

/* ---- 16-bit floats, in every address space ---- */

#define HALVES(space)                                                                                                  \
    float load_##space(uint64_t at, const uint16_t *p) NAMED("_Z10vload_halfmP" #space "KDh");                         \
    float load_##space(uint64_t at, const uint16_t *p) { return half_to_float(p[at]); }                                \
    void store_##space(float value, uint64_t at, uint16_t *p) NAMED("_Z15vstore_half_rtefmP" #space "Dh");             \
    void store_##space(float value, uint64_t at, uint16_t *p) { p[at] = float_to_half(value); }
HALVES(U8CLglobal)
HALVES(U7CLlocal)
HALVES(U9CLprivate)

/* ---- atomics ----
 * Work-items take turns where they wait for one another, and nowhere else. */

uint32_t atomic_or_local(volatile uint32_t *p, uint32_t bits) NAMED("_Z9atomic_orPU7CLlocalVjj");
uint32_t atomic_or_local(volatile uint32_t *p, uint32_t bits)
{
    uint32_t before = *p;
    *p = before | bits;
    return before;
}

/* ---- numbers ---- */

#define ONE(name, f, x)                                                                                                \
    float name##_1(float x) NAMED(f);                                                                                  \
    float name##_1(float x)
ONE(exp2, "_Z4exp2f", x) { return exp2f(x); }
ONE(native_exp2, "_Z11native_exp2f", x) { return exp2f(x); }
ONE(exp, "_Z3expf", x) { return expf(x); }
ONE(log2, "_Z4log2f", x) { return log2f(x); }
ONE(log, "_Z3logf", x) { return logf(x); }
ONE(sqrt, "_Z4sqrtf", x) { return sqrtf(x); }
ONE(rsqrt, "_Z5rsqrtf", x) { return 1.0f / sqrtf(x); }
ONE(tanh, "_Z4tanhf", x) { return tanhf(x); }
ONE(fabs, "_Z4fabsf", x) { return fabsf(x); }

uint32_t clz_1(uint32_t x) NAMED("_Z3clzj");
uint32_t clz_1(uint32_t x) { return x ? (uint32_t)__builtin_clz(x) : 32; }

float fma_1(float a, float b, float c) NAMED("_Z3fmafff");
float fma_1(float a, float b, float c) { return fmaf(a, b, c); }
float max_1(float a, float b) NAMED("_Z3maxff");
float max_1(float a, float b) { return a < b ? b : a; }
float min_1(float a, float b) NAMED("_Z3minff");
float min_1(float a, float b) { return b < a ? b : a; }
float fmax_1(float a, float b) NAMED("_Z4fmaxff");
float fmax_1(float a, float b) { return fmaxf(a, b); }
float fmin_1(float a, float b) NAMED("_Z4fminff");
float fmin_1(float a, float b) { return fminf(a, b); }

float4 fma_4(float4 a, float4 b, float4 c) NAMED("_Z3fmaDv4_fS_S_");
float4 fma_4(float4 a, float4 b, float4 c)
{
    for (int i = 0; i < 4; i++) c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}
float4 fmax_4(float4 a, float4 b) NAMED("_Z4fmaxDv4_fS_");
float4 fmax_4(float4 a, float4 b)
{
    for (int i = 0; i < 4; i++) a[i] = fmaxf(a[i], b[i]);
    return a;
}
float4 exp2_4(float4 a) NAMED("_Z4exp2Dv4_f");
float4 exp2_4(float4 a)
{
    for (int i = 0; i < 4; i++) a[i] = exp2f(a[i]);
    return a;
}

uint32_t max_u(uint32_t a, uint32_t b) NAMED("_Z3maxjj");
uint32_t max_u(uint32_t a, uint32_t b) { return a < b ? b : a; }
uint32_t min_u(uint32_t a, uint32_t b) NAMED("_Z3minjj");
uint32_t min_u(uint32_t a, uint32_t b) { return b < a ? b : a; }
int32_t max_i(int32_t a, int32_t b) NAMED("_Z3maxii");
int32_t max_i(int32_t a, int32_t b) { return a < b ? b : a; }
int32_t min_i(int32_t a, int32_t b) NAMED("_Z3minii");
int32_t min_i(int32_t a, int32_t b) { return b < a ? b : a; }
uint64_t max_l(uint64_t a, uint64_t b) NAMED("_Z3maxmm");
uint64_t max_l(uint64_t a, uint64_t b) { return a < b ? b : a; }
uint64_t min_l(uint64_t a, uint64_t b) NAMED("_Z3minmm");
uint64_t min_l(uint64_t a, uint64_t b) { return b < a ? b : a; }
uint32_t high_u(uint32_t a, uint32_t b) NAMED("_Z6mul_hijj");
uint32_t high_u(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }
