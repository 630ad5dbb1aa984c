/* Norms' halves in gemm_wgmma's epilogue (MOMENTS_*): moments of what becomes the next product's rows, by strips of
 * MOMENTS_STRIP columns, which eight lanes side by side have; or a factor for each row of sums, of such moments. The
 * epilogue is seldom far ahead of the products, so it waits for no memory: moments of the next tile's rows are copied to
 * shared memory while a tile is finished. A strip's moments have the same bits whatever tile it is in, and so have
 * factors. For gemm_wgmma.cl and its epilogue alone. */
#if RMS == RMS_NONE
#define MOMENTS_EACH 2
typedef float2 moments_type; /* of a strip: sum, sum of squares */
#else
#define MOMENTS_EACH 1
typedef float moments_type;
#endif

#if MOMENTS == MOMENTS_WRITTEN
/* Of two rows, of which this lane has eight columns. An even lane sums the first one, its neighbour the second, and of four
 * lanes two the values, and two their squares. */
INLINE void write_moments(__global float *to, float v[2][8], const uint row, const uint rows)
{
    const uint lane = local_number() % 32;
    const bool odd = lane % 2;
    float squares[2] = {0.0f, 0.0f};
    UNROLL for (uint r = 0; r < 2; r++)
    {
        UNROLL for (uint c = 0; c < 8; c++) squares[r] = fma(v[r][c], v[r][c], squares[r]);
    }
    float total = (odd ? squares[1] : squares[0]) + shuffle_xor_float(odd ? squares[0] : squares[1], 1);
    const uint at = row + (odd ? APART : 0);
    const bool writes = lane % 8 < 2 && at < rows;
#if RMS == RMS_NONE
    const bool high = lane / 2 % 2;
    const float sums[2] = {sum_eight(v[0]), sum_eight(v[1])};
    const float sum = (odd ? sums[1] : sums[0]) + shuffle_xor_float(odd ? sums[0] : sums[1], 1);
    total = (high ? total : sum) + shuffle_xor_float(high ? sum : total, 2);
    total += shuffle_xor_float(total, 4);
    const float other = shuffle_xor_float(total, 2);
    if (writes) *(__global float2 *)(to + at * 2) = (float2)(total, other);
#else
    total += shuffle_xor_float(total, 2);
    total += shuffle_xor_float(total, 4);
    if (writes) to[at] = total;
#endif
}
#elif MOMENTS == MOMENTS_READ
#define STRIPS (K / MOMENTS_STRIP)
#define COPIED_STRIPS (STRIPS < 16 ? STRIPS : 16) /* what shared memory has room for beside the stages */
#define MOMENTS_BYTES (COPIED_STRIPS * TILE_M * MOMENTS_EACH * 4)

INLINE __global const moments_type *moments_at(const struct tensors *t, const uint row, const uint strip)
{
    return (__global const moments_type *)t->moments + (size_t)strip * t->row_end + row;
}

/* Starts copies of those of row `item` of a tile, which begins at row0; a tile's rows are the first of these
 * work-items'. */
INLINE void copy_moments(const uint to, const struct tensors *t, const uint row0, const uint item)
{
    const uint row = min(row0 + item, t->row_end - 1);
    UNROLL for (uint s = 0; s < COPIED_STRIPS && item < TILE_M; s++)
        COPY_SMALL(to + (s * TILE_M + item) * (MOMENTS_EACH * 4), moments_at(t, row, s), MOMENTS_EACH * 4);
    copy_commit();
}

/* What is left of the norm for the row whose moments this work-item has copied. Sums of squares and squares of sums cancel by
 * no more than storing in 16 bits took from the values. */
INLINE void put_factor(__local float *factors, const __local moments_type *copied, const struct tensors *t,
                       const uint row0, const uint item)
{
    moments_type total = 0.0f;
    COPY_WAIT(0);
    const uint row = min(item, (uint)TILE_M - 1);
    UNROLL for (uint s = 0; s < COPIED_STRIPS; s++) total += copied[s * TILE_M + row];
    for (uint s = COPIED_STRIPS; s < STRIPS; s++) total += *moments_at(t, min(row0 + row, t->row_end - 1), s);
#if RMS == RMS_NONE
    const float squares = fmax(fma(-total.x, total.x * (1.0f / (float)(K)), total.y), 0.0f);
#else
    const float squares = total;
#endif
    if (item < TILE_M)
        factors[item] = LOAD(t->gamma, 0) * rsqrt(fma(squares, 1.0f / (float)(K), as_float((uint)(EPSILON))));
}
#endif
