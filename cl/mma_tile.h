/* A tile of a product by mma.sync: how its operands' stages come into shared memory and from there to a warp. What
 * gemm_mma, gemm_experts_mma and gemm_pool_mma share. The sizes TILE_M, TILE_N, TILE_K, WARP_M and WARP_N, and which
 * operand is X_MAJOR or W_MAJOR, are given. */
#define WARPS_M (TILE_M / WARP_M)
#define WARPS_N (TILE_N / WARP_N)

/* Of a warp: fragments of 16 rows, pairs of fragments of 8 columns, and steps of 16 k in a stage. */
#define FRAGMENTS_M (WARP_M / 16)
#define PAIRS_N (WARP_N / 16)
#define FRAGMENTS_N (2 * PAIRS_N)
#define STEPS (TILE_K / 16)

/* An operand's stage: lines along k, or k lines where k is slow. */
#define X_LINES (X_MAJOR ? TILE_K : TILE_M)
#define X_CHUNKS ((X_MAJOR ? TILE_M : TILE_K) / 8)
#define W_LINES (W_MAJOR ? TILE_K : TILE_N)
#define W_CHUNKS ((W_MAJOR ? TILE_N : TILE_K) / 8)
#define X_BYTES (TILE_M * TILE_K * 2)
#define STAGE_BYTES ((TILE_M + TILE_N) * TILE_K * 2)

/* A work-item copies every LOCAL_SIZE-th piece of 16 bytes: the same piece of every so many lines, a multiple of 8, so
 * that all of its lines are permuted alike. */
#define X_STEP (LOCAL_SIZE / X_CHUNKS)
#define W_STEP (LOCAL_SIZE / W_CHUNKS)

/* Bit i: the work-item's piece i lies inside in the direction that is not k. */
INLINE uint pieces_inside(const uint first, const uint step, const uint count, const uint end)
{
    uint inside = 0;
    UNROLL for (uint i = 0; i < count; i++) inside |= first + i * step < end ? 1u << i : 0;
    return inside;
}

/* Starts the copies of a work-item's pieces of an operand's stage; `left`: how many k there are from its first one
 * on. */
INLINE void fetch(const uint to, __global const storage *from, const uint stride, const uint step, const uint count,
                  const bool major, const uint inside, const int left)
{
    UNROLL for (uint i = 0; i < count; i++)
        copy_async(to + i * LOCAL_SIZE * 16, from + (size_t)(i * step) * stride,
                   major ? inside != 0 && left > (int)(i * step) : (inside >> i & 1) != 0 && left > 0);
}

/* Both operands' stage `k` elements from the first one. Whose lines do not follow each other defines its own; the
 * stages are asked for in order. */
#ifndef FETCH_X
#define FETCH_X(to, k)                                                                                                 \
    fetch(to, x_from + (size_t)(k) * (X_MAJOR ? X_STRIDE : 1), X_STRIDE, X_STEP, X_LINES / X_STEP, X_MAJOR, x_inside,  \
          x_left - (int)(k))
#endif
#ifndef FETCH_W
#define FETCH_W(to, k)                                                                                                 \
    fetch(to, w_from + (size_t)(k) * (W_MAJOR ? W_STRIDE : 1), W_STRIDE, W_STEP, W_LINES / W_STEP, W_MAJOR, w_inside,  \
          w_left - (int)(k))
#endif
#define FETCH_STAGE(to, k)                                                                                             \
    {                                                                                                                  \
        FETCH_X((to) + x_to, k);                                                                                       \
        FETCH_W((to) + w_to, k);                                                                                       \
    }

/* Where the rows lie within a stage that a lane of a warp names when its matrices are loaded: which, follows from the
 * order in which multiply_add wants them, of x rows first, of w k first. */
INLINE uint x_fragments_at(const uint warp_m, const uint lane)
{
    return X_MAJOR ? tile_chunk(lane % 8 + lane / 16 * 8, warp_m * (WARP_M / 8) + lane / 8 % 2, X_CHUNKS)
                   : tile_chunk(warp_m * WARP_M + lane % 16, lane / 16, X_CHUNKS);
}

INLINE uint w_fragments_at(const uint warp_n, const uint lane)
{
    return X_BYTES + (W_MAJOR ? tile_chunk(lane % 16, warp_n * (WARP_N / 8) + lane / 16, W_CHUNKS)
                              : tile_chunk(warp_n * WARP_N + lane % 8 + lane / 16 * 8, lane / 8 % 2, W_CHUNKS));
}

/* Where matrices begin, of which fragment and step are the index: steps follow each other in lines or within the
 * permuted pieces of a line, and fragments the other way. */
INLINE uint fragment_at(const uint at, const uint fragment, const uint step, const uint chunks, const bool major)
{
    return (at ^ (major ? fragment : step) * 32) + (major ? step : fragment) * 16 * chunks * 16;
}

/* The warp's fragments of step `step` of the stage whose matrices begin at x_at and w_at. */
INLINE void load_fragments(uint4 *a, uint4 *b, const uint x_at, const uint w_at, const uint step)
{
    UNROLL for (uint i = 0; i < FRAGMENTS_M; i++)
    {
        const uint at = fragment_at(x_at, i, step, X_CHUNKS, X_MAJOR);
        a[i] = X_MAJOR ? load_transposed(at) : load_matrices(at);
    }
    UNROLL for (uint i = 0; i < PAIRS_N; i++)
    {
        const uint at = fragment_at(w_at, i, step, W_CHUNKS, W_MAJOR);
        b[i] = W_MAJOR ? load_transposed(at) : load_matrices(at);
    }
}

/* Adds the products of `k_tiles` stages to the sums of the warp's fragments: of the memory at `base`, where the warp's
 * matrices begin at x_fragments and w_fragments within a stage. STAGES - 1 are on their way while one is multiplied,
 * and the matrices of the next step are loaded before those of this one are multiplied. When it is done nothing is on
 * its way, but other warps may still read. */
#define MULTIPLY_STAGES(sum, base, x_fragments, w_fragments, k_tiles)                                                  \
    {                                                                                                                  \
        UNROLL for (uint s = 0; s < STAGES - 1; s++)                                                                   \
        {                                                                                                              \
            FETCH_STAGE(base + s * STAGE_BYTES, s * TILE_K);                                                           \
            copy_commit();                                                                                             \
        }                                                                                                              \
        COPY_WAIT(STAGES - 2);                                                                                         \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
                                                                                                                       \
        uint4 a[2][FRAGMENTS_M], b[2][PAIRS_N];                                                                        \
        uint at = base, free = base + (STAGES - 1) * STAGE_BYTES;                                                      \
        load_fragments(a[0], b[0], at + x_fragments, at + w_fragments, 0);                                             \
        ROLLED for (uint k_tile = 0; k_tile < k_tiles; k_tile++)                                                       \
        {                                                                                                              \
            UNROLL for (uint step = 0; step < STEPS; step++)                                                           \
            {                                                                                                          \
                if (step == STEPS - 1) {                                                                               \
                    COPY_WAIT(STAGES - 2);                                                                             \
                    barrier(CLK_LOCAL_MEM_FENCE); /* the next stage is there, and nobody reads this one any more */    \
                    at = at + STAGE_BYTES == base + STAGES * STAGE_BYTES ? base : at + STAGE_BYTES;                    \
                }                                                                                                      \
                load_fragments(a[(step + 1) % 2], b[(step + 1) % 2], at + x_fragments, at + w_fragments,               \
                               (step + 1) % STEPS);                                                                    \
                if (step == 0) {                                                                                       \
                    FETCH_STAGE(free, (k_tile + STAGES - 1) * TILE_K); /* after the last one zeros, without a branch */\
                    copy_commit();                                                                                     \
                    free = free + STAGE_BYTES == base + STAGES * STAGE_BYTES ? base : free + STAGE_BYTES;              \
                }                                                                                                      \
                UNROLL for (uint i = 0; i < FRAGMENTS_M; i++)                                                          \
                {                                                                                                      \
                    UNROLL for (uint j = 0; j < PAIRS_N; j++)                                                          \
                    {                                                                                                  \
                        const uint4 pair = b[step % 2][j];                                                             \
                        multiply_add(sum + (i * FRAGMENTS_N + 2 * j) * 4, a[step % 2][i], pair.x, pair.y);             \
                        multiply_add(sum + (i * FRAGMENTS_N + 2 * j + 1) * 4, a[step % 2][i], pair.z, pair.w);         \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        COPY_WAIT(0);                                                                                                  \
    }

/* From a warp's sums, eight columns of one of its rows, all of its lanes together: of the four fragments of columns
 * from j on the lane has number lane % 4, of the fragments' rows number i * 8 + lane / 4. */
INLINE void take_eight(float *v, const float *sum, const uint i, const uint j, const uint lane)
{
    UNROLL for (uint c = 0; c < 8; c++) v[c] = sum[(i / 2 * FRAGMENTS_N + j + c / 2) * 4 + i % 2 * 2 + c % 2];
    turn_quad(v, lane);
}
