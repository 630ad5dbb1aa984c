/* Sums in parts, several work-groups a tile: each warp adds what the same warp of the other parts' work-groups made.
 * Whoever comes last does it, so that nobody waits; in the order of the parts' numbers, so that it does
 * not matter who that was. After hopper.h and what gemm_wgmma.cl defines of tiles.
 *
 *      work-group of part 0      of part 1       of part 2
 *      sums -> partials          sums -> ...     sums -> ...          each warp its own rows of the tile, all columns
 *      counter: 0 before         1 before        2 before: the last   one for each warp of a tile; it makes it 0 again
 *                                                | partials of 0 and 1, before and after its own sums
 *                                                v
 *                                                y
 *
 * partials: float4 [part][tile][warp][VECTORS][lane]: a lane reads what the same lane wrote. */

/* The counters' warps, and what a lane has of a part: its sums, with OPERAND_SUMS those of x behind them. */
#define WARPS (CONSUMERS * 4)
#define VECTORS (SUMS / 4 + OPERAND_SUMS)

/* Columns that are added and stored at once, through 2 KB of shared memory of the warp's own. */
#define PIECE 64
#define PIECE_BYTES (16 * PIECE * 2)
#define PIECE_VECTORS (PIECE / 8)

/* What all lanes have written is seen by the warp of whichever work-group counts after this one, and the other way
 * round. Returns how many had come before. */
INLINE uint parts_before(__global uint *counter)
{
    uint before = 0;
    fence_device();
    warp_barrier();
    if (local_number() % 32 == 0) before = count_up(counter);
    before = shuffle_from(before, 0);
    fence_device();
    return before;
}

INLINE void load_vectors(float *v, __global const float4 *from, const uint count)
{
    UNROLL for (uint i = 0; i < count; i++) load_shared_by_device(v + i * 4, from + i * 32);
}

/* sums[count * 4] += those of the other parts, which lie `stride` apart from `first` on. */
INLINE void add_parts(float *sums, __global const float4 *first, const uint stride, const uint own, const uint parts,
                      const uint count)
{
    float before[PIECE_VECTORS * 4], v[PIECE_VECTORS * 4];
    if (own) {
        load_vectors(before, first, count);
        ROLLED for (uint part = 1; part < own; part++)
        {
            load_vectors(v, first + (size_t)part * stride, count);
            UNROLL for (uint i = 0; i < count * 4; i++) before[i] += v[i];
        }
        UNROLL for (uint i = 0; i < count * 4; i++) sums[i] = before[i] + sums[i];
    }
    ROLLED for (uint part = own + 1; part < parts; part++)
    {
        load_vectors(v, first + (size_t)part * stride, count);
        UNROLL for (uint i = 0; i < count * 4; i++) sums[i] += v[i];
    }
}

/* 16 rows of PIECE sums to y, as f16, by way of the warp's own `staging`: 128 bytes a row, permuted as sum_at(). */
INLINE void store_piece(__local uchar *staging, __global storage *y, const float *sums, const uint row,
                        const uint row_end, const uint column)
{
    const uint lane = local_number() % 32, to = SHARED_ADDRESS(staging) + lane % 16 * 128;
    UNROLL for (uint u = 0; u < PIECE / 8; u += 2)
    {
        const float *v = sums + u * 4;
        store_matrices(to + (((u + lane / 16) ^ lane % 8) << 4), pack_halves(v[0], v[1]), pack_halves(v[2], v[3]),
                       pack_halves(v[4], v[5]), pack_halves(v[6], v[7]));
    }
    warp_barrier();
    UNROLL for (uint i = 0; i < 4; i++)
    {
        const uint of_piece = i * 4 + lane / 8, unit = lane % 8;
        const uint4 raw = *(__local const uint4 *)(staging + of_piece * 128 + ((unit ^ of_piece % 8) << 4));
        if (row + of_piece < row_end && column + unit * 8 < N)
            *(__global uint4 *)(y + Y_OFFSET + (ulong)(row + of_piece) * Y_STRIDE + column + unit * 8) = raw;
    }
    warp_barrier(); /* the place may be used again */
}
