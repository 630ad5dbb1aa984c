/* OpenCL C's functions for clang's NVPTX target, which has no library: so that ptxas sees whole kernels. Put before a
 * preprocessed kernel. */
#define asm __asm__
#define NVPTX_REGISTER(name)                                                                                           \
    ({                                                                                                                 \
        uint r_;                                                                                                       \
        __asm__ volatile("mov.u32 %0, %%" name ";" : "=r"(r_));                                                        \
        (ulong) r_;                                                                                                    \
    })
#define get_local_id(d) NVPTX_REGISTER("tid.x")
#define get_group_id(d) ((d) ? NVPTX_REGISTER("ctaid.y") : NVPTX_REGISTER("ctaid.x"))
#define get_global_offset(d) 0
#define get_num_groups(d) ((d) ? NVPTX_REGISTER("nctaid.y") : NVPTX_REGISTER("nctaid.x"))
#define barrier(flags) __asm__ volatile("bar.sync 0;" ::: "memory")
#define vload_half(at, p) __builtin_load_halff((p) + (at))
#define vstore_half_rte(value, at, p) __builtin_store_halff(value, (p) + (at))
#define fma(a, b, c) __builtin_fmaf(a, b, c)
#define fmax(a, b) __builtin_fmaxf(a, b)
#define fmin(a, b) __builtin_fminf(a, b)
#define fabs(a) __builtin_fabsf(a)
#define sqrt(a) __builtin_sqrtf(a)
#define rsqrt(a) (1.0f / __builtin_sqrtf(a))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define mul_hi(a, b) ((uint)((ulong)(uint)(a) * (uint)(b) >> 32))
#define exp2(a)                                                                                                        \
    ({                                                                                                                 \
        float e_;                                                                                                      \
        __asm__("ex2.approx.f32 %0, %1;" : "=f"(e_) : "f"(a));                                                         \
        e_;                                                                                                            \
    })
#define log2(a)                                                                                                        \
    ({                                                                                                                 \
        float l_;                                                                                                      \
        __asm__("lg2.approx.f32 %0, %1;" : "=f"(l_) : "f"(a));                                                         \
        l_;                                                                                                            \
    })
#define exp(a) exp2((a)*1.44269504f)
#define tanh(a)                                                                                                        \
    ({                                                                                                                 \
        float t_;                                                                                                      \
        __asm__("tanh.approx.f32 %0, %1;" : "=f"(t_) : "f"(a));                                                        \
        t_;                                                                                                            \
    })
