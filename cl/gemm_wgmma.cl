/* The kernel gemm on Hopper's tensor cores: the same arguments, forms and epilogues (gemm.cl), after them `maps` and
 * `map_at`, the tensor maps of x and w. f16 with ALIGNED only.
 *
 *                                   w: TILE_N columns of the result
 *                                 +-----------------------------+
 *            stages of the ring:  |  DEPTH (64) k, then the next |  in shared memory, filled by the copy engine
 *                                 +-----------------------------+
 *       x: DEPTH k
 *      +----------+               +-----------------------------+
 *      | TILE_M   |               | warpgroup 0: BLOCKS x 64    |  sums in registers: wgmma of 64 x WIDTH x 16,
 *      | rows of  |               +-----------------------------+  four of them for the k of a stage
 *      | the      |               | warpgroup 1: BLOCKS x 64    |  NORM_Y: both have the same 64 rows, each
 *      | result   |               | rows                        |  COLUMNS of the columns
 *      +----------+               +-----------------------------+
 *                                     | as f16, through shared memory
 *                                     v
 *                                 the epilogue warps: bias, activation, dropout, residual, layernorm -> y
 *                                 (gemm_wgmma_epilogue.h)
 *
 * Work-groups are persistent and take every get_num_groups-th tile. In each, one work-item has the copy engine fill a
 * ring of stages, 64 deep in k; two warpgroups (of 64 rows one, of 192 three) multiply; their sums go to shared memory as
 * f16, and further warps make the results of them while the next tile is multiplied. After a work-group's last tile
 * nothing is left to hide: there those that multiplied help. Whoever does it, the arithmetic and its order are the same.
 * Sums in parts, of the batch's rows or of K, stay f32 and go to memory straight from registers; the last of a tile's
 * work-groups adds them, by the warps that multiplied (parts.h), and there are no epilogue warps.
 *
 * With MOMENTS rows of the result get the moments that a norm after it wants, or rows of x were never normalized: gamma
 * and x's mean are in w, and the epilogue multiplies each row by what is left of the norm, a factor
 * (gemm_wgmma_moments.h).
 *
 * With NORM_Y a tile holds whole rows of the result, and what makes it normalizes them: with a bias and a residual
 * only. Two warpgroups then multiply the same 64 rows, each by half of the columns.
 *
 * Sums over the batch's rows (GEMM_TN, RUNTIME_K) with SUM also give before[m], that of x, the gradient of the bias: x
 * is in shared memory anyway, and a product with ones adds it.
 *
 * With DELTA the epilogue also gives delta[r][h], the product of the results of a head with `saved`, which has their
 * place: lanes side by side have a head's columns, and tiles have whole heads.
 *
 * What lies after the batch's rows may be anything: the copy engine puts zeros there, in rows and in columns. With
 * RUNTIME_N the result's columns end anywhere: of the last eight only those that are there are written. Rows of scores
 * end anywhere, too, but have room for all eight (Y_STRIDE). */
#define LAUNCHED_WHOLE
#include "common.h"
#include "dropout.h"
#include "hopper.h"
#include "eight.h"
#define TENSOR_MAPS
#define ADDS_PARTS
#include "gemm_arguments.h"
#include "gate.h"
#include "rotary.h"

#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 256
#endif
#ifndef PART_ROWS
#define PART_ROWS 64
#endif

/* Where k is the slow dimension of an operand: boxes of 64 of its rows or columns times 64 k. The instruction wants
 * literals. */
#if X_MAJOR
#define X_TRANSPOSED 1
#else
#define X_TRANSPOSED 0
#endif
#if W_MAJOR
#define W_TRANSPOSED 1
#else
#define W_TRANSPOSED 0
#endif

/* Warpgroups that a tile's columns are split over, and how many each of them has. */
#define SHARES (NORM_Y ? 2 : 1)
#define COLUMNS (TILE_N / SHARES)

/* Columns of one product. 256 would take more registers than a work-item begins with, which the driver's compiler
 * refuses. */
#if COLUMNS % 128 == 0
#define WIDTH 128
#define MULTIPLY WGMMA_128
#define WAIT(d) WGMMA_WAIT(0, 64, d)
#elif COLUMNS == 192
#define WIDTH 192
#define MULTIPLY WGMMA_192
#define WAIT(d) WGMMA_WAIT(0, 96, d)
#elif COLUMNS == 64
#define WIDTH 64
#define MULTIPLY WGMMA_64
#define WAIT(d) WGMMA_WAIT(0, 32, d)
#else
#define WIDTH 32
#define MULTIPLY WGMMA_32
#define WAIT(d) WGMMA_WAIT(0, 16, d)
#endif

/* Warpgroups that multiply, and how many 64 rows each of them has. */
#define CONSUMERS (TILE_M == 192 ? 3 : TILE_M >= 128 ? 2 : SHARES)
#define BLOCKS (TILE_M / 64 * SHARES / CONSUMERS)
#define SUMS (COLUMNS / 2)
/* Where two products have the same rows of x, these come into registers: shared memory, which reads 128 bytes a clock,
 * is busier than the tensor cores are. Epilogues that do more than add something would then have too few. In us on an
 * H200, all layers, 32 x 512 tokens: NomicBERT's qkv 1325 -> 1301, out 503 -> 481, lin2 1476 -> 1440; BERT large's lin1,
 * with GELU, 5925 -> 6308. */
#define X_REGISTERS                                                                                                    \
    (BLOCKS == 1 && COLUMNS == 2 * WIDTH && !X_MAJOR && !NORM_Y && !PARTS && !OPERAND_SUMS && !GATE && !DERIVATIVE &&  \
     !DROPOUT && !KEPT && ACTIVATION == ACTIVATION_NONE && !MOMENTS)
#define TILES_N ((N + TILE_N - 1) / TILE_N)

#define DEPTH 64 /* k of a stage: rows of 128 bytes */
#define BOX_BYTES (64 * DEPTH * 2)
#define X_BYTES (TILE_M * DEPTH * 2)
#define W_BOX_ROWS (TILE_N > 256 ? TILE_N / 2 : TILE_N)
#define STAGE_BYTES (X_BYTES + TILE_N * DEPTH * 2)
#if PARTS
#define SUM_BYTES (WARPS * PIECE_BYTES)
#else
#define SUM_BYTES (TILE_M * TILE_N * 2)
#endif

/* The epilogue: a work-item takes 8 columns, a warp in one step as many rows as that gives, and twice: what one row waits
 * for, the other does not. Where columns are summed, a warp's steps of 8 rows make one sum. A row that is normalized has
 * at most 16 lanes, and each of them OWN times 8 columns. */
#define UNITS (TILE_N / 8)
#define ROW_LANES (NORM_Y && UNITS > 16 ? 16 : UNITS)
#define OWN (UNITS / ROW_LANES)
#define AT_ONCE (32 / ROW_LANES)
#define STEP_ROWS (AT_ONCE * (NORM_Y ? 1 : 2))
#define GROUP_ROWS (COLUMN_TOTALS ? 8 : DRAWN_BLOCKS ? AT_ONCE * 8 : STEP_ROWS)
#define GROUP_STEPS (GROUP_ROWS / STEP_ROWS)
#define STEPS (TILE_M / STEP_ROWS)

/* Sums of the results over the batch's rows: those go down columns, or along rows. */
#define COLUMN_TOTALS (EPILOGUE_SUMS && !BATCH_N)
#define ROW_TOTALS (EPILOGUE_SUMS && BATCH_N)

/* Dropout's generator decides eight channels of a token at once. Where they are eight rows a work-item takes those in a
 * group of steps, so that the eight calls for its columns are of use for all of them. */
#define DRAWN_BLOCKS (BATCH_N && DROPOUT && !KEPT)
#define APART (DRAWN_BLOCKS ? 1 : AT_ONCE) /* a work-item's two rows in one step */

/* Ones to multiply x with, 8 rows of a stage. */
#define ONES_BYTES (OPERAND_SUMS ? 8 * DEPTH * 2 : 0)

#define SHARED_BYTES 232448
/* Factors of two tiles' rows, then moments of the next one's; or sums of columns. */
#if MOMENTS == MOMENTS_READ
#define FLOAT_BYTES (2 * TILE_M * 4 + MOMENTS_BYTES)
#else
#define FLOAT_BYTES (COLUMN_TOTALS ? TILE_M / GROUP_ROWS * AT_ONCE * TILE_N * 4 : 0)
#endif
#define STAGES_FIT ((SHARED_BYTES - 1024 - SUM_BYTES - FLOAT_BYTES - ONES_BYTES) / STAGE_BYTES)
#define STAGES (STAGES_FIT < 8 ? STAGES_FIT : 8)

/* All of it is one array: between several the compiler leaves gaps, and puts them in an order of its own. All but the
 * barriers are multiples of 1024 long. */
#define SUMS_AT (STAGES * STAGE_BYTES)
#define ONES_AT (SUMS_AT + SUM_BYTES)
#define FLOATS_AT (ONES_AT + ONES_BYTES)
#define BARRIERS_AT (FLOATS_AT + FLOAT_BYTES)
#define PLACE_BYTES (BARRIERS_AT + (2 * STAGES + 2) * 8)

/* Warps that finish: the last ones. The first of the two warpgroups that don't multiply has the one that loads. Those
 * that multiply finish the last tile, too. */
#define EPILOGUE_WARPS 7
#define FIRST_EPILOGUE_WARP (CONSUMERS * 4 + 8 - EPILOGUE_WARPS)

/* With 96 sums or more, those that multiply need more registers than the 128 that each of 512 begins with; those that
 * normalize 24 columns of a row need more than others that finish; and those that add parts need up to 64 beside their
 * sums, for which they are one warpgroup less. */
#if PARTS && COLUMNS >= 192
#define LOADER_REGISTERS REGISTERS_GIVE(40)
#define CONSUMER_REGISTERS REGISTERS_TAKE(232)
#define EPILOGUE_REGISTERS
#elif PARTS && CONSUMERS == 3
#define LOADER_REGISTERS REGISTERS_GIVE(56)
#define CONSUMER_REGISTERS REGISTERS_TAKE(152)
#define EPILOGUE_REGISTERS
#elif NORM_Y && COLUMNS >= 192
#define LOADER_REGISTERS REGISTERS_GIVE(112)
#define CONSUMER_REGISTERS REGISTERS_TAKE(144)
#define EPILOGUE_REGISTERS REGISTERS_GIVE(112)
#elif X_REGISTERS
#define LOADER_REGISTERS REGISTERS_GIVE(80)
#define CONSUMER_REGISTERS REGISTERS_TAKE(176)
#define EPILOGUE_REGISTERS REGISTERS_GIVE(80)
#elif COLUMNS >= 192
#define LOADER_REGISTERS REGISTERS_GIVE(96)
#define CONSUMER_REGISTERS REGISTERS_TAKE(160)
#define EPILOGUE_REGISTERS REGISTERS_GIVE(96)
#else
#define LOADER_REGISTERS
#define CONSUMER_REGISTERS
#define EPILOGUE_REGISTERS
#endif

#if PARTS
#include "parts.h"
#endif

#include "gemm_wgmma_tiles.h"
#include "gemm_wgmma_epilogue.h"

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void gemm_wgmma(PRODUCT_ARGUMENTS)
{
    BEGIN_PRODUCT;
    __local uchar place[PLACE_BYTES] __attribute__((aligned(1024)));
    const uint stages_at = SHARED_ADDRESS(place), filled_at = stages_at + BARRIERS_AT, emptied_at = filled_at + STAGES * 8;
#if !PARTS
    __local uchar *const sums = place + SUMS_AT;
    __local float *const floats = (__local float *)(place + FLOATS_AT);
    const uint sums_at = stages_at + SUMS_AT, given_at = emptied_at + STAGES * 8, taken_at = given_at + 8;
#endif
#if OPERAND_SUMS
    __local uint *const ones = (__local uint *)(place + ONES_AT);
    for (uint i = local_number(); i < ONES_BYTES / 4; i += LOCAL_SIZE) ones[i] = BF16 ? 0x3f803f80 : 0x3c003c00; /* two */
    fence_async();
#endif

    const uint rows = batch[ROWS], row_end = BATCH_M ? rows : M, column_end = BATCH_N ? rows : N;
    const uint row_tiles = (row_end + TILE_M - 1) / TILE_M, column_tiles = (column_end + TILE_N - 1) / TILE_N;
    const uint parts = PARTS ? (SUMMED(rows) + PART_ROWS - 1) / PART_ROWS : 1, tiles = row_tiles * column_tiles * parts;
    const uint groups = get_num_groups(0) * get_num_groups(1);
    const uint item = local_number(), warpgroup = item / 128, warp = item / 32 % 4, lane = item % 32;

#if !PARTS
    struct tensors t;
    t.y = y;
    t.row_end = row_end;
    t.column_end = column_end;
#if BIAS
    t.bias = bias;
#endif
#if RESIDUAL
    t.residual = residual;
#endif
#if NORM_Y
    t.gamma = gamma;
    t.beta = beta;
#endif
#if MOMENTS == MOMENTS_READ
    t.gamma = gamma;
    t.moments = moments;
#elif MOMENTS == MOMENTS_WRITTEN
    t.made_moments = moments;
#endif
#if READS_SAVED
    t.saved = saved;
#endif
#if ROTARY
    t.positions = positions;
    t.position = position;
#endif
#if DELTA
    t.delta = delta;
#endif
#if SUM && !OPERAND_SUMS
    t.before = before;
#endif
#if EPILOGUE_SUMS
    t.partials = partials;
#endif
#if DROPOUT
    t.key = dropout_key(batch, site);
#endif
#endif

    __global const uchar *const x_map = maps + (size_t)map_at * TENSOR_MAP_BYTES, *const w_map = x_map + TENSOR_MAP_BYTES;
    if (item == CONSUMERS * 128) { /* beside the barriers' beginning */
        tensor_map_acquire(x_map);
        tensor_map_acquire(w_map);
    }
    if (item == 0) {
        UNROLL for (uint s = 0; s < STAGES; s++)
        {
            mbarrier_init(filled_at + s * 8, 1);
            mbarrier_init(emptied_at + s * 8, CONSUMERS);
        }
#if !PARTS
        mbarrier_init(given_at, CONSUMERS * 128);
        mbarrier_init(taken_at, EPILOGUE_WARPS * 32);
#endif
        fence_async();
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    uint stage = 0, phase = 0, tile = group_number(), turn = 0;
    if (warpgroup == CONSUMERS) {
        LOADER_REGISTERS;
        if (item == CONSUMERS * 128) {
            for (uint loaded = tile; loaded < tiles; loaded += groups) {
                const struct place p = place_of(loaded, row_tiles, column_tiles);
                const uint count = k_tiles_of(p, rows), begin = PARTS ? p.part * PART_ROWS : 0;
                for (uint i = 0; i < count; i++) {
                    mbarrier_wait(emptied_at + stage * 8, phase ^ 1);
                    mbarrier_expect(filled_at + stage * 8, STAGE_BYTES);
                    load_stage(stages_at + stage * STAGE_BYTES, x_map, w_map, p, begin + i * DEPTH, filled_at + stage * 8);
                    if (++stage == STAGES) {
                        stage = 0;
                        phase ^= 1;
                    }
                }
            }
        }
        if (warp == 0) return;
    } else if (warpgroup < CONSUMERS) {
        CONSUMER_REGISTERS;
        /* This warpgroup's rows of x in the first stage, and its columns of w. */
        const uint x_at = stages_at + warpgroup / SHARES * BLOCKS * BOX_BYTES;
        const uint share = warpgroup % SHARES, w_at = stages_at + X_BYTES + share * (COLUMNS * DEPTH * 2);
#if X_REGISTERS
        const uint x_row = x_at + (warp * 16 + lane % 16) * (DEPTH * 2);
#endif
        const ulong x_first = X_MAJOR ? wgmma_columns(x_at, BOX_BYTES) : wgmma_rows(x_at);
        const ulong w_first = W_MAJOR ? wgmma_columns(w_at, BOX_BYTES) : wgmma_rows(w_at);
#if OPERAND_SUMS
        const ulong ones_all = wgmma_rows(stages_at + ONES_AT);
#endif
        for (; tile < tiles; tile += groups, turn ^= 1) {
            const struct place p = place_of(tile, row_tiles, column_tiles);
            float sum[BLOCKS * SUMS];
            const uint count = k_tiles_of(p, rows);
#if OPERAND_SUMS
            /* A warpgroup adds its part of x in one tile of those that have it, each in another. */
            const bool adds = p.column == warpgroup % TILES_N * TILE_N;
            float added[BLOCKS * 4];
            UNROLL for (uint i = 0; i < BLOCKS * 4; i++) added[i] = 0.0f;
#endif
#if BATCH_K
            if (!count) {
                UNROLL for (uint i = 0; i < BLOCKS * SUMS; i++) sum[i] = 0.0f;
            }
#endif
            for (uint i = 0; i < count; i++) {
                mbarrier_wait(filled_at + stage * 8, phase);
#if X_REGISTERS
                uint x_held[DEPTH / 4];
                UNROLL for (uint step = 0; step < DEPTH / 16; step++)
                {
                    const uint4 four = load_matrices(x_row + stage * STAGE_BYTES + ((step * 2 + lane / 16 ^ lane % 8) << 4));
                    x_held[step * 4] = four.x;
                    x_held[step * 4 + 1] = four.y;
                    x_held[step * 4 + 2] = four.z;
                    x_held[step * 4 + 3] = four.w;
                }
#endif
                wgmma_fence();
                UNROLL for (uint step = 0; step < DEPTH / 16; step++)
                {
                    const ulong x_step = x_first + stage * (STAGE_BYTES / 16) + step * (X_MAJOR ? 128 : 2);
                    const ulong w_step = w_first + stage * (STAGE_BYTES / 16) + step * (W_MAJOR ? 128 : 2);
                    UNROLL for (uint b = 0; b < BLOCKS; b++)
                    {
                        UNROLL for (uint n = 0; n < COLUMNS; n += WIDTH)
#if X_REGISTERS
                            WGMMA_REGISTERS_128(sum + n / 2, x_held + step * 4, w_step + n * (DEPTH * 2 / 16), i + step,
                                                W_TRANSPOSED);
#else
                            MULTIPLY(sum + b * SUMS + n / 2, x_step + b * (BOX_BYTES / 16),
                                     w_step + n * (DEPTH * 2 / 16), i + step, X_TRANSPOSED, W_TRANSPOSED);
#endif
                    }
                }
                wgmma_commit();
#if OPERAND_SUMS
                if (adds) {
                    wgmma_fence();
                    UNROLL for (uint step = 0; step < DEPTH / 16; step++)
                    {
                        const ulong x_step = x_first + stage * (STAGE_BYTES / 16) + step * (X_MAJOR ? 128 : 2);
                        UNROLL for (uint b = 0; b < BLOCKS; b++)
                            WGMMA_8(added + b * 4, x_step + b * (BOX_BYTES / 16), ones_all, 1, X_TRANSPOSED, 0);
                    }
                    wgmma_commit();
                }
#endif
                UNROLL for (uint b = 0; b < BLOCKS * SUMS; b += WIDTH / 2) WAIT(sum + b);
#if OPERAND_SUMS
                UNROLL for (uint b = 0; b < BLOCKS; b++) WGMMA_WAIT(0, 4, added + b * 4);
#endif
                if (item % 128 == 0) mbarrier_arrive(emptied_at + stage * 8);
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            }
#if PARTS
            const uint warps_tile = tile % (row_tiles * column_tiles) * WARPS + item / 32;
            __global float4 *const partial = (__global float4 *)partials + (size_t)warps_tile * (VECTORS * 32) + lane;
            const uint stride = row_tiles * column_tiles * WARPS * VECTORS * 32;
            __global uint *const counter = counters + counter_at + warps_tile;
            if (parts > 1) {
                __global float4 *const to = partial + (size_t)p.part * stride;
                UNROLL for (uint i = 0; i < SUMS; i += 4)
                    to[i / 4 * 32] = (float4)(sum[i], sum[i + 1], sum[i + 2], sum[i + 3]);
#if OPERAND_SUMS
                if (adds) to[SUMS / 4 * 32] = (float4)(added[0], added[1], added[2], added[3]);
#endif
                if (parts_before(counter) != parts - 1) continue;
                if (lane == 0) *counter = 0; /* for the next run */
            }
            UNROLL for (uint piece = 0; piece < TILE_N / PIECE; piece++)
            {
                float *const sums = sum + piece * (PIECE_VECTORS * 4);
                if (parts > 1)
                    add_parts(sums, partial + piece * (PIECE_VECTORS * 32), stride, p.part, parts, PIECE_VECTORS);
                store_piece(place + SUMS_AT + item / 32 * PIECE_BYTES, y, sums, p.row + item / 32 * 16, row_end,
                            p.column + piece * PIECE);
            }
#if OPERAND_SUMS
            if (adds && parts > 1) add_parts(added, partial + SUMS / 4 * 32, stride, p.part, parts, 1);
#endif
#endif
#if OPERAND_SUMS
            UNROLL for (uint h = 0; h < BLOCKS * 2; h++)
            {
                const uint row = p.row + (warpgroup * BLOCKS + h / 2) * 64 + warp * 16 + lane / 4 + h % 2 * 8;
                if (adds && lane % 4 == 0 && row < M) STORE(before, row, added[h * 2]);
            }
#endif
#if !PARTS
            mbarrier_wait(taken_at, turn ^ 1);
            UNROLL for (uint b = 0; b < BLOCKS; b++)
            {
                /* sum_at() of units u + lane / 16, of whose bits the lowest three are permuted. */
                const uint row = (warpgroup / SHARES * BLOCKS + b) * 64 + warp * 16 + lane % 16;
                const uint first = share * (COLUMNS / 8), row_at = sums_at + row * (TILE_N * 2) + (first / 8 << 7);
                const uint swizzle = (lane / 16 ^ first % 8 ^ row % 8) << 4;
                UNROLL for (uint u = 0; u < COLUMNS / 8; u += 2)
                {
                    const float *v = sum + b * SUMS + u * 4;
                    store_matrices(row_at + (swizzle ^ u % 8 << 4) + (u / 8 << 7), pack_halves(v[0], v[1]),
                                   pack_halves(v[2], v[3]), pack_halves(v[4], v[5]), pack_halves(v[6], v[7]));
                }
            }
            mbarrier_arrive(given_at);
#endif
        }
    } else {
        EPILOGUE_REGISTERS;
    }

#if !PARTS
    const uint of_all = item / 32;
    if (warpgroup < CONSUMERS) {
        if (group_number() >= tiles) return;
        EPILOGUE_REGISTERS;
        const uint turns = (tiles - 1 - group_number()) / groups;
        tile = group_number() + turns * groups;
        turn = turns % 2;
    }
    const bool consumer = warpgroup < CONSUMERS;
#if MOMENTS == MOMENTS_READ
    /* Those that multiplied have numbers too large for a row. A condition on them would do the same, but ptxas then takes
     * the loop that multiplies for divergent: 90 instructions a stage for 64. */
    const uint number = item - FIRST_EPILOGUE_WARP * 32, copied_at = stages_at + FLOATS_AT + 2 * TILE_M * 4;
    if (tile < tiles) copy_moments(copied_at, &t, place_of(tile, row_tiles, column_tiles).row, number);
#endif
    for (bool dry = !consumer; tile < tiles;) {
        const bool last = tile + groups >= tiles;
        const uint worker = consumer ? of_all : of_all - FIRST_EPILOGUE_WARP + (last ? CONSUMERS * 4 : 0);
        const uint workers = EPILOGUE_WARPS + (last ? CONSUMERS * 4 : 0);
        const struct place p = place_of(tile, row_tiles, column_tiles);
#if NORM_Y
        finish_normalized(&t, sums, p, worker, workers, given_at, turn, dry);
#else
        __local float *of_tile = floats;
#if MOMENTS == MOMENTS_READ
        of_tile += turn * TILE_M;
        if (!dry) {
            put_factor(of_tile, (__local const moments_type *)(floats + 2 * TILE_M), &t, p.row, number);
            if (!last) copy_moments(copied_at, &t, place_of(tile + groups, row_tiles, column_tiles).row, number);
            barrier_named(last ? 1 : 2, workers * 32);
        }
#endif
        finish(&t, sums, of_tile, p, worker, workers, given_at, turn, last ? 1 : 2, dry);
#endif
        if (!dry) {
            if (!last) mbarrier_arrive(taken_at);
            tile += groups;
            turn ^= 1;
        }
        dry = false;
    }
#endif
}
