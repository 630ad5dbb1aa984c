/* One tile of a matrix product: its shape, who computes what, and the inner loop. Shared by gemm and bgemm. Twin of
 * cl/tile.h.
 *
 * A work-group computes TILE_M x TILE_N outputs in stages of TILE_K, a work-item THREAD_M x THREAD_N of them: quads that
 * lie THREADS_M (THREADS_N) quads apart, so that neighbours read neighbouring quads of shared memory. All five are
 * powers of two and multiples of 4, TILE_K and TILE_N of VECTOR. */
#include "product.glsl"

layout(constant_id = CONST_TILE_M) const uint TILE_M = 32;
layout(constant_id = CONST_TILE_N) const uint TILE_N = 32;
layout(constant_id = CONST_TILE_K) const uint TILE_K = 16;
layout(constant_id = CONST_THREAD_M) const uint THREAD_M = 4;
layout(constant_id = CONST_THREAD_N) const uint THREAD_N = 4;

/* Work-items of the group, numbered in patches of 4 x 8 where there are as many: 32 neighbours then read 4 + 8
 * different quads instead of 2 + 16. */
#define THREADS_M (TILE_M / THREAD_M)
#define THREADS_N (TILE_N / THREAD_N)
#define PATCH_M (THREADS_M < 4u ? THREADS_M : 4u)
#define PATCH_N (THREADS_N < 8u ? THREADS_N : 8u)
#define PATCHES_N (THREADS_N / PATCH_N)

/* A stage lies in shared memory as TILE_K rows of QUADS_M quads of the first operand, then as many of QUADS_N. */
#define QUADS_M (TILE_M / 4)
#define QUADS_N (TILE_N / 4)
#define TILE_X_QUADS (TILE_K * QUADS_M)
#define TILE_W_QUADS (TILE_K * QUADS_N)

/* It is loaded in blocks of 4 x VECTOR elements: first those of x, then those of w; BLOCKS per work-item. Where rows
 * lie along k in memory, a block is 4 rows x VECTOR k. Where k is the slow dimension (`major`), it is 4 k x VECTOR
 * rows, already as the stage wants them. */
#define VECTORS_M (TILE_M / VECTOR)
#define VECTORS_N (TILE_N / VECTOR)
#define VECTORS_K (TILE_K / VECTOR)
#define BLOCKS_X (QUADS_M * VECTORS_K)
#define BLOCKS_W (QUADS_N * VECTORS_K)
#define BLOCKS ((BLOCKS_X + BLOCKS_W + LOCAL_SIZE - 1) / LOCAL_SIZE)

/* Eight neighbours (RUN) take eight quads of rows, the next eight the next VECTOR of the same rows: stores to shared
 * memory touch every bank once, and loads use all of a row's 64 bytes. Where k is the slow dimension, neighbours take
 * neighbouring vectors of the same k. */
#define RUN_M (QUADS_M < 8u ? QUADS_M : 8u)
#define RUN_N (QUADS_N < 8u ? QUADS_N : 8u)

/* Place of the block's first quad among those of its k in the stage. */
uint block_place(const uint block, const bool x_major, const bool w_major)
{
    const uint w = block - BLOCKS_X;
    if (block < BLOCKS_X) return x_major ? block % VECTORS_M : block % RUN_M + block / (RUN_M * VECTORS_K) * RUN_M;
    return w_major ? w % VECTORS_N : w % RUN_N + w / (RUN_N * VECTORS_K) * RUN_N;
}
/* First k of the block in its stage. */
uint block_k(const uint block, const bool x_major, const bool w_major)
{
    const uint w = block - BLOCKS_X;
    if (block < BLOCKS_X) return x_major ? block / VECTORS_M * 4 : block / RUN_M % VECTORS_K * VECTOR;
    return w_major ? w / VECTORS_N * 4 : w / RUN_N % VECTORS_K * VECTOR;
}

/* The quad of rows at a place. `paired`: first those of even number, then the others. So the two quads of a vector of
 * 16-bit floats lie apart, and neighbours store neighbouring quads; and a work-item with two of them has eight columns
 * side by side. All that is loaded `major` is paired. */
uint place_quad(const uint place, const uint quads, const bool paired)
{
    return paired ? place % (quads / 2) * 2 + place / (quads / 2) : place;
}

/* Quads of outputs: SUM_QUADS for each of THREAD_M rows. */
#define SUM_QUADS (THREAD_N / 4)
#define SUMS (THREAD_M * SUM_QUADS)

uint thread_m()
{
    const uint l = local_number();
    return l / (PATCH_M * PATCH_N) / PATCHES_N * PATCH_M + l / PATCH_N % PATCH_M;
}
uint thread_n()
{
    const uint l = local_number();
    return l / (PATCH_M * PATCH_N) % PATCHES_N * PATCH_N + l % PATCH_N;
}
/* Row of the tile that row i of the work-items of row `m` (thread_m) is. */
uint sum_row_of(const uint i, const uint m, const bool paired)
{
    return place_quad(i / 4 * THREADS_M + m, QUADS_M, paired) * 4 + i % 4;
}
/* Row of the tile that this work-item's row i is; first column of its quad j. */
uint sum_row(const uint i, const bool paired) { return sum_row_of(i, thread_m(), paired); }
uint sum_column(const uint j, const bool paired)
{
    return place_quad(j * THREADS_N + thread_n(), QUADS_N, paired) * 4;
}

shared vec4 tile[TILE_X_QUADS + TILE_W_QUADS];
vec4 sum[SUMS];

/* sum += the stage's product, in ascending k. The loop stays a loop: unrolled it was slower. */
void multiply()
{
    MULTIPLY(sum, SUM_QUADS, tile, thread_m(), QUADS_M, tile, TILE_X_QUADS + thread_n(), QUADS_N, TILE_K, 1);
}
