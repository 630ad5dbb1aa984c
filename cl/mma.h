/* The matrix instructions of NVIDIA's GPUs from sm_80 on, as inline PTX: asynchronous copies to shared memory, loads of
 * 8 x 8 matrices from there, and products of 16-bit floats that are added up in 32 bits. The compiler targets the
 * device that it finds, so that nothing here needs an extension.
 *
 * Fragments, as PTX deals them to the 32 lanes of a warp (lane = 4 g + q): of the first operand, 16 rows x 16 k, a lane
 * has the pairs of k from 2 q and from 2 q + 8 on, of the rows g and g + 8; of the second, 16 k x 8 columns, the same
 * pairs of column g; of the sums, 16 x 8, the columns 2 q and 2 q + 1 of the rows g and g + 8. */

#define WARP 32

/* Where an array lies in the window of shared memory. */
INLINE uint shared_address(const __local void *p) { return (uint)(size_t)p; }

/* Starts the copy of 16 bytes, or fills with zeros: then nothing is read, and the address may be anything. */
INLINE void copy_async(const uint to, __global const void *from, const bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}

/* Copies since the last commit are one group; waiting leaves the newest `left` groups under way. What has come is seen
 * by others behind a barrier. */
INLINE void copy_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define COPY_WAIT(left) asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory")

/* Four 8 x 8 matrices: lane l names where the row l % 8 of matrix l / 8 lies, and gets the pair q of row g of each; in
 * load_turned the pair of rows 2 q, 2 q + 1 of column g. */
INLINE uint4 load_matrices(const uint at)
{
    uint4 m;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.x), "=r"(m.y), "=r"(m.z), "=r"(m.w)
                 : "r"(at)
                 : "memory");
    return m;
}

INLINE uint4 load_turned(const uint at)
{
    uint4 m;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.x), "=r"(m.y), "=r"(m.z), "=r"(m.w)
                 : "r"(at)
                 : "memory");
    return m;
}

/* sum[0..3] += a * b; a is {row g, row g + 8} of the low k, then of the high ones. */
INLINE void multiply_add(float *sum, const uint4 a, const uint b_low, const uint b_high)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b_low), "r"(b_high));
}

/* The value of the lane whose number differs in the bits of `mask`; all lanes of the warp call together. */
INLINE float exchange(const float v, const uint mask)
{
    float other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(v), "r"(mask));
    return other;
}

/* Two floats as a pair of 16-bit ones, the first in the low half. */
INLINE uint pack_pair(const float low, const float high)
{
    uint pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/* In each quad of lanes: v[2 t], v[2 t + 1] are a lane's pair of four neighbouring fragments of sums, t = 0 to 3; then
 * lane q has all eight columns of fragment q, in order. */
INLINE void turn_quad(float *v, const uint lane)
{
    UNROLL for (uint bit = 1; bit <= 2; bit *= 2)
    {
        UNROLL for (uint t = 0; t < 4; t++)
        {
            if (t & bit) continue;
            UNROLL for (uint c = 0; c < 2; c++)
            {
                const uint low = 2 * t + c, high = 2 * (t + bit) + c;
                const float other = exchange((lane & bit) != 0 ? v[low] : v[high], bit);
                v[low] = (lane & bit) != 0 ? other : v[low];
                v[high] = (lane & bit) != 0 ? v[high] : other;
            }
        }
    }
}

/* A tile lies in shared memory as lines of `chunks` pieces of 16 bytes, a power of two. The pieces of a line are
 * permuted so that eight neighbouring lines' same piece lie in different banks, and so do a line's own. */
INLINE uint tile_chunk(const uint line, const uint chunk, const uint chunks)
{
    const uint turn = chunks >= 8 ? line % 8 : line / (8 / chunks) % chunks;
    return (line * chunks + (chunk ^ turn)) * 16;
}

/* What this warp's lanes have written to shared memory, or read there, is done for all of them. */
#define WARP_BARRIER asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")
