/* Norms' halves in gemm_wgmma's epilogue (MOMENTS_*): moments of what becomes the next product's rows, by strips of
 * MOMENTS_STRIP columns, which eight lanes side by side have; or a factor for each row of sums, of such moments. A strip's
 * moments have the same bits whatever tile it is in, and so have factors. For gemm_wgmma_epilogue.h alone. */
#define MOMENTS_EACH (RMS == RMS_NONE ? 2 : 1)

#if MOMENTS == MOMENTS_WRITTEN
#define STRIPS (N / MOMENTS_STRIP)

/* Of two rows, of which this lane has eight columns in 16 bits. An even lane sums the first one, its neighbour the second,
 * and of four lanes two the differences from the strip's first value, and two their squares: sums that are large beside
 * what rows deviate would cancel. */
INLINE void write_moments(__global float *to, const uint4 *raw, const uint row, const uint rows)
{
    const uint lane = local_number() % 32;
    const bool odd = lane % 2, high = lane / 2 % 2;
    float v[8], squares[2] = {0.0f, 0.0f};
#if RMS == RMS_NONE
    float sum[2] = {0.0f, 0.0f}, shift[2];
#endif
    UNROLL for (uint r = 0; r < 2; r++)
    {
        unpack_vector(raw[r], v);
#if RMS == RMS_NONE
        shift[r] = shuffle_from_float(v[0], lane & 24);
        UNROLL for (uint c = 0; c < 8; c++)
        {
            v[c] -= shift[r];
            sum[r] += v[c];
        }
#endif
        UNROLL for (uint c = 0; c < 8; c++) squares[r] = fma(v[c], v[c], squares[r]);
    }
    float mine = odd ? squares[1] : squares[0];
    mine += shuffle_xor_float(odd ? squares[0] : squares[1], 1);
    const uint at = row + (odd ? APART : 0);
#if RMS == RMS_NONE
    float of_sum = odd ? sum[1] : sum[0];
    of_sum += shuffle_xor_float(odd ? sum[0] : sum[1], 1);
    float total = high ? mine : of_sum;
    total += shuffle_xor_float(high ? of_sum : mine, 2);
    total += shuffle_xor_float(total, 4);
    const float other = shuffle_xor_float(total, 2), mean = total * (1.0f / MOMENTS_STRIP);
    const float2 made = (float2)((odd ? shift[1] : shift[0]) + mean, fmax(fma(-total, mean, other), 0.0f));
    if (lane % 8 < 2 && at < rows) *(__global float2 *)(to + at * (STRIPS * 2)) = made;
#else
    mine += shuffle_xor_float(mine, 2);
    mine += shuffle_xor_float(mine, 4);
    if (lane % 8 < 2 && at < rows) to[at * STRIPS] = mine;
#endif
}
#elif MOMENTS == MOMENTS_READ
#define STRIPS (K / MOMENTS_STRIP)
#define UNROLL_STRIPS _Pragma("unroll 16")

/* Of a warp's rows, in the order in which it comes to them: step `worker`, then that so many `workers` further. Each lane
 * has the factor of one; they are at most 20. */
INLINE float row_factor(const struct tensors *t, const struct place p, const uint worker, const uint workers,
                        const bool dry)
{
    const uint lane = local_number() % 32;
    const uint row = (worker + lane / STEP_ROWS * workers) * STEP_ROWS + lane % STEP_ROWS;
    if (dry || row >= min(t->row_end - p.row, (uint)TILE_M)) return 0.0f;
    __global const float *from = t->moments + (size_t)(p.row + row) * (STRIPS * MOMENTS_EACH);
    float squares = 0.0f;
#if RMS == RMS_NONE
    /* Chan's formula for as many values in each: means are of those from the first. */
    float sum = 0.0f, means = 0.0f;
    const float first = from[0];
    UNROLL_STRIPS for (uint s = 0; s < STRIPS; s++)
    {
        const float2 of_strip = *(__global const float2 *)(from + s * 2);
        const float mean = of_strip.x - first;
        sum += mean;
        means = fma(mean, mean, means);
        squares += of_strip.y;
    }
    squares = fma(fmax(fma(-sum, sum * (1.0f / STRIPS), means), 0.0f), (float)MOMENTS_STRIP, squares);
#else
    UNROLL_STRIPS for (uint s = 0; s < STRIPS; s++) squares += from[s];
#endif
    return LOAD(t->gamma, 0) * rsqrt(fma(squares, 1.0f / (float)(K), as_float((uint)(EPSILON))));
}
#endif
