/* All kernels that multiply in bf16 by this instruction set. */
#include "vector.h"

#include "backends/cpu/step.h"

#define KERNELS(ROW)                                                                                                   \
    ROW(gemm)                                                                                                          \
    ROW(attention)                                                                                                     \
    ROW(roof_matrix)

#define DECLARE(name) extern const struct cpu_kernel CPU_NAME(cpu_##name##_bf16);
KERNELS(DECLARE)
#define ADDRESS(name) &CPU_NAME(cpu_##name##_bf16),
static const struct cpu_kernel *const kernels[] = {KERNELS(ADDRESS) NULL};

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

extern const struct cpu_kernels CPU_NAME(cpu_kernels);
const struct cpu_kernels CPU_NAME(cpu_kernels) = {TEXT(CPU_ISA), kernels};
