/* What kernels for NVIDIA's GPUs from sm_80 on share, as inline PTX: warps, pairs of 16-bit floats, copies to shared
 * memory. The compiler targets the device that it finds, so that nothing here needs an extension. */

#define WARP 32

#define SHARED_ADDRESS(pointer) ((uint)(size_t)(pointer)) /* local memory's pointers are offsets in a window */

/* What a warp's lanes have written to shared memory, or read there, is done for all of them. */
INLINE void warp_barrier(void) { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

/* The value of the lane whose number differs in these bits; all lanes of the warp call together. */
INLINE uint shuffle_xor(const uint value, const uint bits)
{
    uint result;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(result) : "r"(value), "r"(bits));
    return result;
}

/* The same of a float, and not by way of the other: of that the assembler makes up to 9 registers more in gemm_mma. */
INLINE float shuffle_xor_float(const float value, const uint bits)
{
    float result;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(result) : "f"(value), "r"(bits));
    return result;
}

/* The value of one lane, for all. */
INLINE uint shuffle_from(const uint value, const uint lane)
{
    uint result;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(result) : "r"(value), "r"(lane));
    return result;
}

/* The same of a float. */
INLINE float shuffle_from_float(const float value, const uint lane)
{
    float result;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(result) : "f"(value), "r"(lane));
    return result;
}

/* Over four neighbours: those that share a row of a product's sums. */
INLINE float quad_max(const float v)
{
    const float most = fmax(v, shuffle_xor_float(v, 1));
    return fmax(most, shuffle_xor_float(most, 2));
}

INLINE float quad_sum(const float v)
{
    const float sum = v + shuffle_xor_float(v, 1);
    return sum + shuffle_xor_float(sum, 2);
}

INLINE float sum_eight(const float *v) { return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])); }

/* What PTX calls the storage type. */
#if BF16
#define NARROW "bf16"
#else
#define NARROW "f16"
#endif

/* Two floats in 16 bits each, rounded to nearest, `low` in the low half. */
INLINE uint pack_halves(const float low, const float high)
{
    uint packed;
    asm("cvt.rn." NARROW "x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

/* Eight of them, in order. */
INLINE uint4 pack_eight(const float *v)
{
    return (uint4)(pack_halves(v[0], v[1]), pack_halves(v[2], v[3]), pack_halves(v[4], v[5]), pack_halves(v[6], v[7]));
}

/* All bits of each half of the word are set when that half is no less than the threshold, a constant. Below 0x7c00, the
 * order of f16 is that of their bits: two decisions in two instructions. */
INLINE uint keep_pair(const uint word, const uint threshold)
{
    uint mask;
    if (threshold <= 0x7bff)
        asm("{ .reg .b32 low; min.u16x2 low, %1, %2; set.ge.u32.f16x2 %0, low, %3; }"
            : "=r"(mask)
            : "r"(word), "r"(0x7bff7bff), "r"(threshold * 0x10001u));
    else
        mask = ((word & 0xffff) < threshold ? 0 : 0xffff) | ((word >> 16) < threshold ? 0 : 0xffff0000);
    return mask;
}

/* All bits of each half of two elements are set when that half is above 0. */
INLINE uint above_pair(const uint halves)
{
#if BF16 /* sm_80 does not compare them: the sign is clear, and another bit is set */
    const uint some = (halves & 0x7fff7fffu) + 0x7fff7fffu;
    return ((some & ~halves) >> 15 & 0x10001u) * 0xffffu;
#else
    uint mask;
    asm("set.gt.u32.f16x2 %0, %1, %2;" : "=r"(mask) : "r"(halves), "r"(0));
    return mask;
#endif
}

/* 16 bytes of what this kernel does not write. Compilers don't take it out of a loop, where what they make of it would
 * hold registers. */
INLINE uint4 load_again(__global const void *from)
{
    uint raw[4];
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(raw[0]), "=r"(raw[1]), "=r"(raw[2]), "=r"(raw[3])
                 : "l"(from));
    return (uint4)(raw[0], raw[1], raw[2], raw[3]);
}

/* Four 8 x 8 matrices: lane l names where the row l % 8 of matrix l / 8 lies, and gets of each the pair l % 4 of row
 * l / 4. */
INLINE uint4 load_matrices(const uint at)
{
    uint4 m;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.x), "=r"(m.y), "=r"(m.z), "=r"(m.w)
                 : "r"(at)
                 : "memory");
    return m;
}

/* Starts the copy of 16 bytes, or fills with zeros: then nothing is read, and the address may be anything. */
INLINE void copy_async(const uint to, __global const void *from, const bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}

/* 4 or 8 bytes on as many. */
#define COPY_SMALL(to, from, bytes)                                                                                    \
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(bytes) : "memory")

/* Copies since the last commit are one group; waiting leaves the newest `left` groups under way. What has come is seen
 * by others after a barrier. */
INLINE void copy_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define COPY_WAIT(left) asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory")
