/* The matrix instructions of NVIDIA's GPUs from sm_80 on, as inline PTX: loads of 8 x 8 matrices from shared memory, and
 * products of 16-bit floats that are added up in 32 bits.
 *
 * Fragments, as PTX deals them to the 32 lanes of a warp (lane = 4 g + q): of the first operand, 16 rows x 16 k, a lane
 * has the pairs of k from 2 q and from 2 q + 8 on, of the rows g and g + 8; of the second, 16 k x 8 columns, the same
 * pairs of column g; of the sums, 16 x 8, the columns 2 q and 2 q + 1 of the rows g and g + 8. */
#include "nvidia.h"

/* The same as load_matrices (nvidia.h), and a lane gets the pair of rows 2 q, 2 q + 1 of column g. */
INLINE uint4 load_transposed(const uint at)
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
    asm("mma.sync.aligned.m16n8k16.row.col.f32." NARROW "." NARROW ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b_low), "r"(b_high));
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
                const float other = shuffle_xor_float((lane & bit) != 0 ? v[low] : v[high], bit);
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
