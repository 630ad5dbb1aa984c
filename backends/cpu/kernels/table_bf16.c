/* All kernels that compute in bf16 by this instruction set. */
#include "vector.h"

#include "backends/cpu/step.h"

extern const struct cpu_kernel CPU_NAME(cpu_gemm_bf16);
extern const struct cpu_kernel CPU_NAME(cpu_attention_bf16);
static const struct cpu_kernel *const kernels[] = {&CPU_NAME(cpu_gemm_bf16), &CPU_NAME(cpu_attention_bf16), NULL};

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

extern const struct cpu_kernels CPU_NAME(cpu_kernels);
const struct cpu_kernels CPU_NAME(cpu_kernels) = {TEXT(CPU_ISA), kernels};
