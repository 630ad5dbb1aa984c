/* The products of gemm_experts.cl, the same forms, arguments and results, by mma.sync on NVIDIA's GPUs from sm_80 on:
 * 16-bit storage, lengths that are multiples of 8.
 *
 * Stages and results are gemm_mma's (mma_tile.h, epilogue.h), but copies gather rows by the expert's list, and results
 * go to the list's rows. A work-item keeps which rows its pieces are of: where rows are x's lines, the same in all
 * stages; where they are summed over, it reads those of the next stage behind the copies of one, so that none waits for
 * the list. */
#include "epilogue.h"

#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef TILE_K
#define TILE_K 32
#endif
#ifndef WARP_M
#define WARP_M 64
#endif
#ifndef WARP_N
#define WARP_N 64
#endif
#ifndef STAGES
#define STAGES 3
#endif
#include "expert_tile.h"

/* Every step-th row of the list from at + k on, of which there are `left` from `at` on; of those that are not there any
 * number: a choice between places, where one whether to read would be a branch. */
#define READ_ROWS(rows, at, step, count, left, k)                                                                      \
    {                                                                                                                  \
        UNROLL for (uint i_ = 0; i_ < (count); i_++)                                                                   \
            (rows)[i_] = ids[(left) > (int)((k) + i_ * (step)) ? (at) + (k) + i_ * (step) : 0];                        \
    }

#if OF_ROWS
#define FETCH_X(to, k) gather(to, x_from, x_rows, M, false, X_STEP, X_PIECES, x_inside, x_left - (int)(k))
#define FETCH_W(to, k)                                                                                                 \
    {                                                                                                                  \
        gather(to, w_from, w_rows, N, TOKEN_ROWS != 0, W_STEP, W_PIECES, w_inside, w_left - (int)(k));                 \
        READ_ROWS(x_rows, listed + x_line, X_STEP, X_PIECES, x_left, (k) + TILE_K);                                    \
        READ_ROWS(w_rows, listed + w_line, W_STEP, W_PIECES, w_left, (k) + TILE_K);                                    \
    }
#else
#define FETCH_X(to, k)                                                                                                 \
    gather(to, x_from + (k), x_rows, K, TOKEN_ROWS != 0, X_STEP, X_PIECES, x_inside, x_left - (int)(k))
#endif
#include "mma_tile.h"

/* Pieces of a stage that a work-item copies. */
#define X_PIECES (X_LINES / X_STEP)
#define W_PIECES (W_LINES / W_STEP)

/* As `fetch`, of pieces of these rows. */
INLINE void gather(const uint to, __global const storage *from, const uint *rows, const uint length,
                   const bool by_token, const uint step, const uint count, const uint inside, const int left)
{
    UNROLL for (uint i = 0; i < count; i++)
        copy_async(to + i * LOCAL_SIZE * 16, from + LISTED_AT(rows[i], length, by_token),
                   OF_ROWS ? inside != 0 && left > (int)(i * step) : (inside >> i & 1) != 0 && left > 0);
}

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void gemm_experts_mma(BATCH_ARGUMENT
    , INPUT(x)
    , INPUT(w)
    , INPUT_OF(uint, ids)
    ARGUMENT_SAVED
    ARGUMENT_Y
    ARGUMENT_BEFORE
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN(w);
    BEGIN_OF(uint, ids);
    BEGIN_SAVED;
    BEGIN_Y;
    BEGIN_BEFORE;
    __local uint4 tile[STAGES * STAGE_BYTES / 16] __attribute__((aligned(128)));

    uint expert, begin, end, row0;
    find_tile(batch, ids, &expert, &begin, &end, &row0);
    if (expert >= EXPERTS) return;
    const uint column0 = group_number() % TILES_N * TILE_N, listed = EXPERTS + begin, rows = end - begin;
    const uint row_end = OF_ROWS ? M : rows, depth = OF_ROWS ? rows : K;
    const uint lane = local_number() % WARP, warp = local_number() / WARP;
    const uint warp_m = warp / WARPS_N, warp_n = warp % WARPS_N;

    float sum[FRAGMENTS_M * FRAGMENTS_N * 4];
    UNROLL for (uint i = 0; i < FRAGMENTS_M * FRAGMENTS_N * 4; i++) sum[i] = 0.0f;

    /* What this work-item copies. */
    const uint base = SHARED_ADDRESS(tile), l = local_number();
    const uint x_line = l / X_CHUNKS, x_chunk = l % X_CHUNKS, w_line = l / W_CHUNKS, w_chunk = l % W_CHUNKS;
    const uint x_to = tile_chunk(x_line, x_chunk, X_CHUNKS), w_to = X_BYTES + tile_chunk(w_line, w_chunk, W_CHUNKS);
    const uint x_row = row0 + (X_MAJOR ? x_chunk * 8 : x_line), x_k = X_MAJOR ? x_line : x_chunk * 8;
    const uint w_row = column0 + (W_MAJOR ? w_chunk * 8 : w_line), w_k = W_MAJOR ? w_line : w_chunk * 8;
    const uint x_inside = pieces_inside(x_row, X_STEP, X_MAJOR ? 1 : X_PIECES, row_end);
    const uint w_inside = pieces_inside(w_row, W_STEP, W_MAJOR ? 1 : W_PIECES, N);
    const int x_left = (int)depth - (int)x_k, w_left = (int)depth - (int)w_k;
    __global const storage *x_from = x + (X_MAJOR ? x_row : x_k);
    uint x_rows[X_PIECES];
#if OF_ROWS
    __global const storage *w_from = w + w_row;
    uint w_rows[W_PIECES];
    READ_ROWS(x_rows, listed + x_line, X_STEP, X_PIECES, x_left, 0);
    READ_ROWS(w_rows, listed + w_line, W_STEP, W_PIECES, w_left, 0);
#else
    __global const storage *w_from =
        w + (size_t)expert * (N * K) + (W_MAJOR ? w_k * W_STRIDE + w_row : w_row * W_STRIDE + w_k);
    READ_ROWS(x_rows, listed + x_row, X_STEP, X_PIECES, (int)row_end - (int)x_row, 0);
#endif
    const uint x_fragments = x_fragments_at(warp_m, lane), w_fragments = w_fragments_at(warp_n, lane);
    const uint k_tiles = (depth + TILE_K - 1) / TILE_K;
    MULTIPLY_STAGES(sum, base, x_fragments, w_fragments, k_tiles);

    /* As in gemm_mma: a lane finishes eight columns of a row. */
    uint to[FRAGMENTS_M * 2];
    UNROLL for (uint i = 0; i < FRAGMENTS_M * 2; i++)
    {
        const uint row = row0 + warp_m * WARP_M + i * 8 + lane / 4;
        to[i] = OF_ROWS ? expert * M + row : ids[row < row_end ? listed + row : 0];
    }
    UNROLL for (uint j = 0; j < FRAGMENTS_N; j += 4)
    {
        const uint column = column0 + warp_n * WARP_N + (j + lane % 4) * 8;
        UNROLL for (uint i = 0; i < FRAGMENTS_M * 2; i++)
        {
            float v[8];
            take_eight(v, sum, i, j, lane);
            if (row0 + warp_m * WARP_M + i * 8 + lane / 4 < row_end && column < N) FINISH(v, 0, to[i], column);
        }
    }
}
