/* Ceilings of arithmetic: independent chains of fused multiply-add, f32, or f16 with F16. Twin of
 * shaders/roof_arithmetic.comp.
 *
 * A work-item has THREAD_M vectors of eight chains: two on a GPU, whose work-items hide each other's latency, eight where
 * a vector is one register of a processor. y gets the sum of each work-item's chains, so that none can be left out. */
#include "common.h"
#include "roof.h"

#ifndef FORM
#define FORM ROOF_PORTABLE
#endif
#ifndef THREAD_M
#define THREAD_M 2
#endif

#if !F16
typedef float8 chain;
#elif FORM == ROOF_PORTABLE
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half8 chain;
#endif

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void roof_arithmetic(BATCH_ARGUMENT, OUTPUT_OF(float, y))
{
    BEGIN_OF(uint, batch);
    BEGIN_OUTPUT_OF(float, y);
    const uint group = group_number();
    if (group < batch[ROOF_GROUPS]) {
        const uint turns = batch[ROOF_TURNS];
        const float factor = as_float(batch[ROOF_FACTOR]), addend = as_float(batch[ROOF_ADDEND]);
        const float start = (float)local_number() * (1.0f / 1024.0f);
#if F16 && FORM == ROOF_PTX
        /* Pairs of halves in registers: a vector of eight chains is four of them. */
        uint a[4 * THREAD_M], m, c;
        asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b32 %0, {h, h}; }" : "=r"(m) : "f"(factor));
        asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b32 %0, {h, h}; }" : "=r"(c) : "f"(addend));
        UNROLL for (uint i = 0; i < 4 * THREAD_M; i++)
            asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b32 %0, {h, h}; }" : "=r"(a[i]) : "f"(start + 0.125f * i));
        for (uint turn = 0; turn < turns; turn++) {
            UNROLL for (uint u = 0; u < ROOF_UNROLLED; u++)
            {
                UNROLL for (uint i = 0; i < 4 * THREAD_M; i++)
                    asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(a[i]) : "r"(m), "r"(c));
            }
        }
        float sum = 0.0f;
        UNROLL for (uint i = 0; i < 4 * THREAD_M; i++)
        {
            float low, high;
            asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
                : "=f"(low), "=f"(high)
                : "r"(a[i]));
            sum += low + high;
        }
#else
        chain a[THREAD_M];
#if F16
        const chain m = (chain)((half)factor), c = (chain)((half)addend);
        UNROLL for (uint i = 0; i < THREAD_M; i++) a[i] = (chain)((half)(start + 0.125f * i));
#else
        const chain m = (chain)(factor), c = (chain)(addend);
        UNROLL for (uint i = 0; i < THREAD_M; i++)
            a[i] = (chain)(start) + (float)i * 0.125f + (chain)(0.0f, 0.01f, 0.02f, 0.03f, 0.04f, 0.05f, 0.06f, 0.07f);
#endif
        for (uint turn = 0; turn < turns; turn++) {
            UNROLL for (uint u = 0; u < ROOF_UNROLLED; u++)
            {
                UNROLL for (uint i = 0; i < THREAD_M; i++) a[i] = fma(a[i], m, c);
            }
        }
        float sum = 0.0f;
        UNROLL for (uint i = 0; i < THREAD_M; i++)
            sum += (float)a[i].s0 + (float)a[i].s1 + (float)a[i].s2 + (float)a[i].s3 + (float)a[i].s4 +
                   (float)a[i].s5 + (float)a[i].s6 + (float)a[i].s7;
#endif
        y[group * LOCAL_SIZE + local_number()] = sum;
    }
}
