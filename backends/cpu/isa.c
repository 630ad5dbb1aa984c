/* Chooses among the instruction sets that the kernels were compiled for (cmake/cpu.cmake). */
#include <stdlib.h>
#include <string.h>

#include "cpu.h"

#if defined(WHERRY_CPU_AVX512BF16) || defined(WHERRY_CPU_AMX)
#include <cpuid.h>
#endif

extern const struct cpu_kernels cpu_kernels_baseline, cpu_kernels_avx2, cpu_kernels_avx512, cpu_kernels_avx512bf16,
    cpu_kernels_amx;

#if defined(WHERRY_CPU_AVX2) || defined(WHERRY_CPU_AVX512) || defined(WHERRY_CPU_AVX512BF16) || defined(WHERRY_CPU_AMX)
/* WHERRY_CPU_ISA names the best set that may be taken, to compare with. The sets, from the least on. */
static const char *const sets[] = {"baseline", "avx2", "avx512", "avx512bf16", "amx"};
enum { SETS = sizeof sets / sizeof *sets };

static bool may_take(const char *set)
{
    const char *most = getenv("WHERRY_CPU_ISA");
    int named = SETS - 1, at = 0;
    for (int i = 0; most && i < SETS; i++)
        if (!strcmp(most, sets[i])) named = i;
    while (strcmp(sets[at], set) != 0) at++;
    return at <= named;
}
#endif

#ifdef WHERRY_CPU_AVX2
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif

#ifdef WHERRY_CPU_AVX512
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif

/* The words of the processor's description: CPUID, leaf 7. */
#if defined(WHERRY_CPU_AVX512BF16) || defined(WHERRY_CPU_AMX)
struct features {
    unsigned eax, ebx, ecx, edx;
};

static struct features features_of(unsigned subleaf)
{
    struct features f = {0};
    return __get_cpuid_count(7, subleaf, &f.eax, &f.ebx, &f.ecx, &f.edx) ? f : (struct features){0};
}
#endif

#ifdef WHERRY_CPU_AVX512BF16
static bool has_avx512bf16(void) { return has_avx512() && (features_of(1).eax >> 5 & 1); }
#endif

#ifdef WHERRY_CPU_AMX
/* AMX-BF16 and AMX-TILE; kernels/gemm_bf16.c rounds by AVX512-BF16. The system has to keep the tiles, and to have said
 * that this process may use them. */
static bool has_amx(void)
{
    unsigned edx = features_of(0).edx;
    return (edx >> 22 & 1) && (edx >> 24 & 1) && has_avx512() && (features_of(1).eax >> 5 & 1) && tiles_allowed();
}
#endif

const struct cpu_kernels *cpu_kernels_choose(void)
{
#ifdef WHERRY_CPU_AVX512
    if (may_take("avx512") && has_avx512()) return &cpu_kernels_avx512;
#endif
#ifdef WHERRY_CPU_AVX2
    if (may_take("avx2") && has_avx2()) return &cpu_kernels_avx2;
#endif
    return &cpu_kernels_baseline;
}

const struct cpu_kernels *cpu_bf16_choose(void)
{
#ifdef WHERRY_CPU_AMX
    if (may_take("amx") && has_amx()) return &cpu_kernels_amx;
#endif
#ifdef WHERRY_CPU_AVX512BF16
    if (may_take("avx512bf16") && has_avx512bf16()) return &cpu_kernels_avx512bf16;
#endif
    return NULL;
}

const struct cpu_kernel *cpu_kernel_find(const struct cpu_kernels *kernels, const char *name)
{
    for (const struct cpu_kernel *const *k = kernels->kernels; *k; k++)
        if (!strcmp((*k)->name, name)) return *k;
    return NULL;
}
