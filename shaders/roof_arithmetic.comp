#version 450
#extension GL_GOOGLE_include_directive : require
/* Ceilings of arithmetic: independent chains of fused multiply-add, f32, or f16 with F16. Twin of
 * cl/roof_arithmetic.cl.
 *
 * A work-item has THREAD_M vectors of eight chains: two on a GPU, whose work-items hide each other's latency. y gets the
 * sum of each work-item's chains, so that none can be left out. */
#include "common.glsl"
#include "roof.h"
#if F16
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define real float16_t
#define chain f16vec2
#define WIDTH 2
#else
#define real float
#define chain vec4
#define WIDTH 4
#endif

layout(constant_id = CONST_THREAD_M) const uint THREAD_M = 2;

INPUT_OF(SLOT_BATCH, uint, batch);
OUTPUT_OF(SLOT_Y, float, y);

/* A vector of eight chains is several of the types that hardware has. */
const uint COUNT = THREAD_M * 8 / WIDTH;

void main()
{
    const uint group = group_number();
    if (group < batch[ROOF_GROUPS]) {
        const uint turns = batch[ROOF_TURNS];
        const float factor = uintBitsToFloat(batch[ROOF_FACTOR]), addend = uintBitsToFloat(batch[ROOF_ADDEND]);
        const float start = float(local_number()) * (1.0 / 1024.0);
        chain a[COUNT];
        const chain m = chain(real(factor)), c = chain(real(addend));
        UNROLL for (uint i = 0; i < COUNT; i++)
#if F16
            a[i] = chain(real(start + 0.125 * float(i / 4)));
#else
            a[i] = chain(start + 0.125 * float(i / 2)) + float(i % 2) * 0.04 + vec4(0.0, 0.01, 0.02, 0.03);
#endif
        for (uint turn = 0; turn < turns; turn++) {
            UNROLL for (uint u = 0; u < ROOF_UNROLLED; u++)
            {
                UNROLL for (uint i = 0; i < COUNT; i++) a[i] = fma(a[i], m, c);
            }
        }
        float sum = 0.0;
        UNROLL for (uint i = 0; i < COUNT; i++)
        {
            UNROLL for (uint k = 0; k < WIDTH; k++) sum += float(a[i][k]);
        }
        y[group * LOCAL_SIZE + local_number()] = sum;
    }
}
