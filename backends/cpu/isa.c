/* Chooses among the instruction sets that the kernels were compiled for (cmake/cpu.cmake). */
#include <stdlib.h>
#include <string.h>

#include "cpu.h"

extern const struct cpu_kernels cpu_kernels_baseline, cpu_kernels_avx2, cpu_kernels_avx512;

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

/* WHERRY_CPU_ISA names a lesser one, to compare with. */
const struct cpu_kernels *cpu_kernels_choose(void)
{
    const char *most = getenv("WHERRY_CPU_ISA");
    if (most && !strcmp(most, "baseline")) return &cpu_kernels_baseline;
#ifdef WHERRY_CPU_AVX512
    if (has_avx512() && !(most && !strcmp(most, "avx2"))) return &cpu_kernels_avx512;
#endif
#ifdef WHERRY_CPU_AVX2
    if (has_avx2()) return &cpu_kernels_avx2;
#endif
    return &cpu_kernels_baseline;
}

const struct cpu_kernel *cpu_kernel_find(const struct cpu_kernels *kernels, const char *name)
{
    for (const struct cpu_kernel *const *k = kernels->kernels; *k; k++)
        if (!strcmp((*k)->name, name)) return *k;
    return NULL;
}
