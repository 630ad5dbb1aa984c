/* All kernels of this instruction set. */
#include "vector.h"

#include "backends/cpu/step.h"

#define KERNELS(ROW)                                                                                                   \
    ROW(gemm)                                                                                                          \
    ROW(gemm_pool)                                                                                                     \
    ROW(bgemm)                                                                                                         \
    ROW(attention)                                                                                                     \
    ROW(attention_backward)                                                                                            \
    ROW(attention_dq)                                                                                                  \
    ROW(softmax)                                                                                                       \
    ROW(softmax_backward)                                                                                              \
    ROW(layernorm)                                                                                                     \
    ROW(layernorm_backward)                                                                                            \
    ROW(layernorm_pool)                                                                                                \
    ROW(embed)                                                                                                         \
    ROW(pool)                                                                                                          \
    ROW(pool_backward)                                                                                                 \
    ROW(map)                                                                                                           \
    ROW(gate)                                                                                                          \
    ROW(angles)                                                                                                        \
    ROW(rotary)                                                                                                        \
    ROW(heads_norm)                                                                                                    \
    ROW(heads_norm_backward)                                                                                           \
    ROW(columns)                                                                                                       \
    ROW(reduce)                                                                                                        \
    ROW(distance_sums)                                                                                                 \
    ROW(distance_dw)                                                                                                   \
    ROW(delta)                                                                                                         \
    ROW(scatter)                                                                                                       \
    ROW(transpose)                                                                                                     \
    ROW(handover_take)                                                                                                 \
    ROW(handover_give)                                                                                                 \
    ROW(bucket_add)                                                                                                    \
    ROW(bucket_take)                                                                                                   \
    ROW(bucket_scan)                                                                                                   \
    ROW(bucket_pack)                                                                                                   \
    ROW(bucket_sum)                                                                                                    \
    ROW(bucket_unpack)                                                                                                 \
    ROW(adapter_gradient)                                                                                              \
    ROW(adapter_merge)                                                                                                 \
    ROW(optimizer_add)                                                                                                 \
    ROW(optimizer_sum)                                                                                                 \
    ROW(optimizer_step)                                                                                                \
    ROW(take)                                                                                                          \
    ROW(pairs)                                                                                                         \
    ROW(loss)                                                                                                          \
    ROW(loss_sum)                                                                                                      \
    ROW(loss_backward)                                                                                                 \
    ROW(pick)                                                                                                          \
    ROW(entropy)                                                                                                       \
    ROW(entropy_sum)                                                                                                   \
    ROW(entropy_backward)                                                                                              \
    ROW(route)                                                                                                         \
    ROW(route_backward)                                                                                                \
    ROW(dispatch)                                                                                                      \
    ROW(gemm_experts)                                                                                                  \
    ROW(combine)                                                                                                       \
    ROW(combine_weights)                                                                                               \
    ROW(roof_memory)                                                                                                   \
    ROW(roof_arithmetic)

#define DECLARE(name) extern const struct cpu_kernel CPU_NAME(cpu_##name);
KERNELS(DECLARE)
#define ADDRESS(name) &CPU_NAME(cpu_##name),
static const struct cpu_kernel *const kernels[] = {KERNELS(ADDRESS) NULL};

/* What this set is called: of ARM's 64-bit processors all have NEON. */
#ifdef __aarch64__
#define ISA_TEXT "neon"
#else
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define ISA_TEXT TEXT(CPU_ISA)
#endif

extern const struct cpu_kernels CPU_NAME(cpu_kernels);
const struct cpu_kernels CPU_NAME(cpu_kernels) = {ISA_TEXT, kernels};
