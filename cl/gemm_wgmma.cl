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
 *
 * Work-groups are persistent and take every get_num_groups-th tile. In each, one work-item has the copy engine fill a
 * ring of stages, 64 deep in k; two warpgroups (one where tiles have 64 rows) multiply; their sums go to shared memory as
 * f16, and further warps make the results of them while the next tile is multiplied. After a work-group's last tile
 * nothing is left to hide: there those that multiplied help. Whoever does it, the arithmetic and its order are the same.
 * Sums in parts of the batch's rows stay f32 and go to memory straight from registers; the last of a tile's work-groups
 * adds them, by the warps that multiplied (parts.h), and there are no epilogue warps.
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
 * RUNTIME_N the result's columns end anywhere: of the last eight only those that are there are written. */
#include "common.h"
#include "dropout.h"
#include "hopper.h"
#include "eight.h"
#define TENSOR_MAPS
#define ADDS_PARTS
#include "gemm_arguments.h"

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
/* Of the dimensions that are sizes of the model. */
#define TILES_M ((M + TILE_M - 1) / TILE_M)
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

/* Row tiles that neighbours walk through before the next column tile: what runs at the same time shares both operands.
 */
#ifndef RASTER
#define RASTER 8
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
#define FLOAT_BYTES (COLUMN_TOTALS ? TILE_M / GROUP_ROWS * AT_ONCE * TILE_N * 4 : 0)
#define STAGES_FIT ((SHARED_BYTES - 1024 - SUM_BYTES - FLOAT_BYTES - ONES_BYTES) / STAGE_BYTES)
#define STAGES (STAGES_FIT < 8 ? STAGES_FIT : 8)

/* All of it is one array: between several the compiler leaves gaps, and puts them in an order of its own. All but the
 * barriers are multiples of 1024 long. */
#define SUMS_AT (STAGES * STAGE_BYTES)
#define ONES_AT (SUMS_AT + SUM_BYTES)
#define TOTALS_AT (ONES_AT + ONES_BYTES)
#define BARRIERS_AT (TOTALS_AT + FLOAT_BYTES)
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

struct place {
    uint row, column, part;
};

INLINE struct place place_of(uint tile, const uint row_tiles, const uint column_tiles)
{
    struct place p = {0, 0, 0};
#if PARTS
    p.part = tile / (TILES_M * TILES_N);
    tile %= TILES_M * TILES_N;
#endif
    const uint band = tile / (RASTER * column_tiles), at = tile % (RASTER * column_tiles);
    const uint wide = min((uint)RASTER, row_tiles - band * RASTER);
    p.row = (band * RASTER + at % wide) * TILE_M;
    p.column = at / wide * TILE_N;
    return p;
}

/* Tiles of k in a tile's sums. */
INLINE uint k_tiles_of(const struct place p, const uint rows)
{
#if PARTS
    return (min((uint)PART_ROWS, rows - p.part * PART_ROWS) + DEPTH - 1) / DEPTH;
#elif BATCH_K
    return (rows + DEPTH - 1) / DEPTH;
#else
    return (K + DEPTH - 1) / DEPTH;
#endif
}

INLINE void load_stage(const uint to, __global const uchar *x_map, __global const uchar *w_map, const struct place p,
                      const uint k, const uint barrier)
{
#if X_MAJOR
    UNROLL for (uint c = 0; c < TILE_M / 64; c++)
        tensor_load(to + c * BOX_BYTES, x_map, p.row + c * 64, k, barrier);
#else
    tensor_load(to, x_map, k, p.row, barrier);
#endif
#if W_MAJOR
    UNROLL for (uint c = 0; c < TILE_N / 64; c++)
        tensor_load(to + X_BYTES + c * BOX_BYTES, w_map, p.column + c * 64, k, barrier);
#else
    UNROLL for (uint n = 0; n < TILE_N; n += W_BOX_ROWS)
        tensor_load(to + X_BYTES + n * (DEPTH * 2), w_map, k, p.column + n, barrier);
#endif
}

/* The 16-byte piece of shared memory that holds columns 8 unit to 8 unit + 7 of a row of sums: permuted, so that neither
 * a column of eight rows nor a row has bank conflicts. */
INLINE uint sum_at(const uint row, const uint unit) { return row * (TILE_N * 2) + ((unit ^ row % 8) << 4); }

/* v as f16, here and not where it is stored: after a condition compilers would make each row's arithmetic a branch of
 * its own, and rows would not overlap. */
#define PACK_HERE(cvt, raw, v)                                                                                         \
    UNROLL for (uint c = 0; c < 4; c++) asm volatile(cvt " %0, %1, %2;" : "=r"(raw[c]) : "f"(v[c * 2 + 1]), "f"(v[c * 2]))

INLINE uint4 pack_here(const float *v)
{
    uint raw[4];
    PACK_HERE("cvt.rn.f16x2.f32", raw, v);
    return (uint4)(raw[0], raw[1], raw[2], raw[3]);
}

/* What is left 0 in the place of some values is done two at a time where it comes last: RELU in the same instruction,
 * and by masks what dropout drops and what was not above 0 before RELU. */
#define COMES_LAST (!RESIDUAL && !EPILOGUE_SUMS)
#define PACKED_RELU (COMES_LAST && !DERIVATIVE && ACTIVATION == ACTIVATION_RELU)
#define PACKED_SLOPE (COMES_LAST && DERIVATIVE == ACTIVATION_RELU)
#define PACKED_DROP (COMES_LAST && DROPOUT && !KEPT && !DRAWN_BLOCKS && (!DERIVATIVE || PACKED_SLOPE))

INLINE uint4 pack_last(const float *v, const uint4 saved, const uint4 drawn)
{
    uint raw[4];
#if PACKED_RELU
    PACK_HERE("cvt.rn.relu.f16x2.f32", raw, v);
#else
    PACK_HERE("cvt.rn.f16x2.f32", raw, v);
#endif
    uint4 result = (uint4)(raw[0], raw[1], raw[2], raw[3]);
#if PACKED_SLOPE
    result &= (uint4)(above_pair(saved.x), above_pair(saved.y), above_pair(saved.z), above_pair(saved.w));
#endif
#if PACKED_DROP
    result &= (uint4)(keep_pair(drawn.x, DROPOUT), keep_pair(drawn.y, DROPOUT), keep_pair(drawn.z, DROPOUT),
                      keep_pair(drawn.w, DROPOUT));
#endif
    return result;
}

/* The first `count` of eight values. */
INLINE void store_first(__global storage *to, const uint4 raw, const uint count)
{
    const uint words[4] = {raw.x, raw.y, raw.z, raw.w};
    UNROLL for (uint c = 0; c < 7; c++)
        if (c < count) ((__global ushort *)to)[c] = (ushort)(words[c / 2] >> c % 2 * 16);
}

/* Eight columns of two rows, or the first `columns` of them. */
INLINE void store_rows(__global storage *to, const uint stride, const uint row, const uint rows, const uint columns,
                       const uint4 *raw)
{
    UNROLL for (uint r = 0; r < 2; r++)
        if (row + r * APART < rows) {
            __global storage *const at = to + (row + r * APART) * stride;
            if (columns >= 8)
                *(__global uint4 *)at = raw[r];
            else
                store_first(at, raw[r], columns);
        }
}

/* What the epilogue reads and writes; what a call does not have is not used. */
struct tensors {
    __global const storage *bias, *residual, *saved, *gamma, *beta;
    __global storage *y, *before;
    __global float *partials, *delta;
    uint4 key;                /* dropout's */
    uint row_end, column_end; /* of y */
};

/* Dropout's scale goes into the bias' addition where what follows may be scaled before. */
#define SCALED ((DROPOUT || KEPT) && !SUM && CAN_SCALE(ACTIVATION))
#if SCALED
#define SCALE DROPOUT_SCALE
#else
#define SCALE 1.0f
#endif

/* The sum over the lanes that share a row, with the same bits in all of them. */
INLINE float row_sum(float v)
{
    UNROLL for (uint bits = 1; bits < 32 / AT_ONCE; bits *= 2) v += shuffle_xor_float(v, bits);
    return v;
}

#if NORM_Y
/* raw = this lane's columns of a row that begins at `from`, 0 where it isn't there. */
INLINE void fetch_own(uint4 *raw, __global const storage *from, const bool there)
{
    UNROLL for (uint u = 0; u < OWN; u++)
        raw[u] = there ? *(__global const uint4 *)(from + u * ROW_LANES * 8) : (uint4)(0);
}

/* finish() where the result is normalized. A lane has OWN pieces of a row; bias, gamma and beta come from the cache for
 * each row, because there are no registers for them. */
INLINE void finish_normalized(const struct tensors *t, __local const uchar *sums, const struct place p,
                              const uint worker, const uint workers, const uint barrier, const uint parity,
                              const bool dry)
{
    const uint lane = local_number() % 32, unit = lane % ROW_LANES;
    const uint rows = dry ? 0 : min(t->row_end - p.row, (uint)TILE_M);
    __global storage *to = t->y + Y_OFFSET + (ulong)p.row * Y_STRIDE + unit * 8;
    uint step = dry ? STEPS - 1 : worker, row = step * AT_ONCE + lane / ROW_LANES;
#if RESIDUAL
    __global const storage *residual = t->residual + (ulong)p.row * N + unit * 8;
    uint4 next_residual[OWN];
    fetch_own(next_residual, residual + row * N, row < rows);
#endif
    if (!dry) mbarrier_wait(barrier, parity);
    ROLLED for (; step < STEPS; step += workers)
    {
        const uint next_row = row + workers * AT_ONCE;
        uint4 raw[OWN];
        float v[OWN][8], total = 0.0f, squares[8];
        UNROLL for (uint u = 0; u < OWN; u++)
            raw[u] = row < rows ? *(__local const uint4 *)(sums + sum_at(row, unit + u * ROW_LANES)) : (uint4)(0);
#if RESIDUAL
        uint4 raw_residual[OWN];
        UNROLL for (uint u = 0; u < OWN; u++) raw_residual[u] = next_residual[u];
        fetch_own(next_residual, residual + next_row * N, next_row < rows);
#endif
        UNROLL for (uint u = 0; u < OWN; u++)
        {
            float addend[8];
            unpack_vector(raw[u], v[u]);
#if BIAS
            unpack_vector(load_again(t->bias + (unit + u * ROW_LANES) * 8), addend);
            UNROLL for (uint c = 0; c < 8; c++) v[u][c] += addend[c];
#endif
#if RESIDUAL
            unpack_vector(raw_residual[u], addend);
            UNROLL for (uint c = 0; c < 8; c++) v[u][c] += addend[c];
#endif
            total += sum_eight(v[u]);
        }
        const float mean = row_sum(total) * (1.0f / (float)(N));
        UNROLL for (uint c = 0; c < 8; c++) squares[c] = 0.0f;
        UNROLL for (uint u = 0; u < OWN; u++)
        {
            UNROLL for (uint c = 0; c < 8; c++) v[u][c] -= mean;
            UNROLL for (uint c = 0; c < 8; c++) squares[c] = fma(v[u][c], v[u][c], squares[c]);
        }
        uint4 raw_gamma[OWN], raw_beta[OWN], result[OWN];
        UNROLL for (uint u = 0; u < OWN; u++)
        {
            raw_gamma[u] = load_again(t->gamma + (unit + u * ROW_LANES) * 8);
            raw_beta[u] = load_again(t->beta + (unit + u * ROW_LANES) * 8);
        }
        const float variance = row_sum(sum_eight(squares)) * (1.0f / (float)(N));
        const float scale = rsqrt(variance + as_float((uint)(EPSILON)));
        UNROLL for (uint u = 0; u < OWN; u++)
        {
            float factor[8], addend[8];
            unpack_vector(raw_gamma[u], factor);
            unpack_vector(raw_beta[u], addend);
            UNROLL for (uint c = 0; c < 8; c++) v[u][c] = fma(v[u][c] * scale, factor[c], addend[c]);
            result[u] = pack_here(v[u]);
        }
        UNROLL for (uint u = 0; u < OWN; u++)
            if (row < rows) *(__global uint4 *)(to + row * Y_STRIDE + u * ROW_LANES * 8) = result[u];
        row = next_row;
    }
}
#else
/* The first of the two rows of a tile that a work-item has in a step. */
INLINE uint row_of(const uint step, const uint lane)
{
#if DRAWN_BLOCKS
    return step / GROUP_STEPS * GROUP_ROWS + lane / UNITS * 8 + step % GROUP_STEPS * 2;
#else
    return step * STEP_ROWS + lane / UNITS;
#endif
}

/* raw = two rows' values at `from`: rows `row` and APART further of `rows`. */
INLINE void fetch_rows(uint4 *raw, __global const storage *from, const uint row, const uint rows)
{
    UNROLL for (uint r = 0; r < 2; r++)
        raw[r] = row + r * APART < rows ? *(__global const uint4 *)(from + (row + r * APART) * Y_STRIDE) : (uint4)(0);
}

#if BIAS && BATCH_N
/* Those of the two rows. */
INLINE void fetch_bias(float *to, __global const storage *bias, const uint row, const uint rows)
{
    UNROLL for (uint r = 0; r < 2; r++)
        to[r] = row + r * APART < rows ? LOAD(bias, row + r * APART) * SCALE : 0.0f;
}
#endif

#if DRAWN_BLOCKS
/* Which of eight channels of eight tokens are kept: bit c of byte i is that of channel + c, token + i. */
INLINE uint2 draw_block(const uint4 key, const uint token, const uint channel)
{
    uint2 kept = 0;
    ROLLED for (uint i = 0; i < 8; i += 4)
    {
        uint four = 0;
        UNROLL for (uint c = 0; c < 4; c++)
            four |= dropout_bits(dropout_words_keyed(key, token + i + c, channel)) << c * 8;
        kept = (uint2)(kept.y, four);
    }
    return kept;
}
#endif

/* Makes results of a tile's sums: by `workers` warps, of which this one is number `worker`, once `barrier` is after
 * phase `parity`; `dry`: nothing, by instructions that are fetched before they are needed. Which warp does what changes
 * no bit. Where columns are summed all meet at the barrier with number `meeting`. */
INLINE void finish(const struct tensors *t, __local const uchar *sums, __local float *totals, const struct place p,
                   const uint worker, const uint workers, const uint barrier, const uint parity, const uint meeting,
                   const bool dry)
{
    const uint lane = local_number() % 32, unit = lane % UNITS, column = p.column + unit * 8;
    const uint column_end = BATCH_N ? t->column_end : N, columns = BATCH_N ? column_end - column : 8;
    const uint rows = !dry && lane / UNITS < AT_ONCE && column < column_end ? min(t->row_end - p.row, (uint)TILE_M) : 0;
    const ulong begin = (ulong)p.row * Y_STRIDE + column;
    __global storage *to = t->y + Y_OFFSET + (ulong)p.row * Y_STRIDE + column;
    uint step = !dry ? worker * GROUP_STEPS : DRAWN_BLOCKS ? STEPS - GROUP_STEPS : STEPS - 1;
    uint row = row_of(step, lane);
#if DRAWN_BLOCKS
    uint2 kept = 0;
#endif
#if BIAS && BATCH_N
    float next_bias[2];
    fetch_bias(next_bias, t->bias + p.row, row, rows);
#elif BIAS
    float b[8];
    UNROLL for (uint c = 0; c < 8; c++) b[c] = 0.0f;
    if (column < N) LOAD_VECTOR(t->bias, column, b);
    UNROLL for (uint c = 0; c < 8; c++) b[c] *= SCALE;
#endif
#if COLUMN_TOTALS
    float total[8];
    UNROLL for (uint c = 0; c < 8; c++) total[c] = 0.0f;
#endif
    /* What is read from memory is on its way a step ahead. */
#if READS_SAVED
    uint4 next_saved[2];
    fetch_rows(next_saved, t->saved + begin, row, rows);
#endif
#if RESIDUAL
    uint4 next_residual[2];
    fetch_rows(next_residual, t->residual + begin, row, rows);
#endif
    if (!dry) mbarrier_wait(barrier, parity);
    ROLLED for (; step < STEPS;)
    {
        const bool closes = step % GROUP_STEPS == GROUP_STEPS - 1;
        const uint next_step = step + (closes ? (workers - 1) * GROUP_STEPS + 1 : 1);
        const uint next_row = row_of(next_step, lane);
        uint4 raw[2];
        float v[2][8];
        /* Rows that aren't there count as 0. */
        UNROLL for (uint r = 0; r < 2; r++)
            raw[r] = row + r * APART < rows ? *(__local const uint4 *)(sums + sum_at(row + r * APART, unit))
                                            : (uint4)(0);
#if BIAS && BATCH_N
        const float b[2] = {next_bias[0], next_bias[1]};
        fetch_bias(next_bias, t->bias + p.row, next_row, rows);
#endif
#if READS_SAVED
        uint4 raw_saved[2] = {next_saved[0], next_saved[1]};
        fetch_rows(next_saved, t->saved + begin, next_row, rows);
#endif
#if RESIDUAL
        uint4 raw_residual[2] = {next_residual[0], next_residual[1]};
        fetch_rows(next_residual, t->residual + begin, next_row, rows);
#endif
        UNROLL for (uint r = 0; r < 2; r++)
        {
            unpack_vector(raw[r], v[r]);
#if BIAS
            UNROLL for (uint c = 0; c < 8; c++) v[r][c] = fma(v[r][c], SCALE, b[BATCH_N ? r : c]);
#elif SCALED
            UNROLL for (uint c = 0; c < 8; c++) v[r][c] *= SCALE;
#endif
        }
#if SUM && !OPERAND_SUMS
        const uint4 before[2] = {pack_here(v[0]), pack_here(v[1])};
        store_rows(t->before + begin, Y_STRIDE, row, rows, columns, before);
#endif
#if DRAWN_BLOCKS
        if (step % GROUP_STEPS == 0) kept = draw_block(t->key, column, p.row + row);
#endif
        uint4 drawn[2] = {0, 0};
        UNROLL for (uint r = 0; r < 2; r++)
        {
#if !PACKED_RELU
            activate_eight(ACTIVATION, SCALE, v[r]);
#endif
#if (KEPT || DROPOUT) && !SCALED
            UNROLL for (uint c = 0; c < 8; c++) v[r][c] *= DROPOUT_SCALE;
#endif
#if DRAWN_BLOCKS
            UNROLL for (uint c = 0; c < 8; c++)
                v[r][c] = (c < 4 ? kept.x : kept.y) & 1u << (c % 4 * 8 + r) ? v[r][c] : 0.0f;
#elif DROPOUT && !KEPT
            drawn[r] = dropout_words_keyed(t->key, p.row + row + r * APART, column);
#if !PACKED_DROP
            drop_eight(v[r], drawn[r]);
#endif
#endif
#if DERIVATIVE && !PACKED_SLOPE
            float d[8];
            unpack_vector(raw_saved[r], d);
            derive_eight(DERIVATIVE, v[r], d);
#endif
#if RESIDUAL
            float addend[8];
            unpack_vector(raw_residual[r], addend);
            UNROLL for (uint c = 0; c < 8; c++) v[r][c] += addend[c];
#endif
#if DELTA
            /* The results are the sums, which are f16 already. */
            float head_sum = 0.0f, kept_output[8];
            unpack_vector(raw_saved[r], kept_output);
            UNROLL for (uint c = 0; c < 8; c++) head_sum = fma(v[r][c], kept_output[c], head_sum);
            UNROLL for (uint bits = 1; bits < HEAD_DIM / 8; bits *= 2) head_sum += shuffle_xor_float(head_sum, bits);
            if (unit % (HEAD_DIM / 8) == 0 && row + r * APART < rows)
                t->delta[(p.row + row + r * APART) * (N / HEAD_DIM) + column / HEAD_DIM] = head_sum;
#endif
#if ROW_TOTALS
            float total = 0.0f;
            UNROLL for (uint c = 0; c < 8; c++) total += c < columns ? v[r][c] : 0.0f;
            total = row_sum(row + r * APART < rows ? total : 0.0f);
            if (unit == 0 && row + r * APART < rows)
                t->partials[(ulong)(p.column / TILE_N) * M + p.row + row + r * APART] = total;
#elif COLUMN_TOTALS
            UNROLL for (uint c = 0; c < 8; c++) total[c] += !BIAS || row + r * APART < rows ? v[r][c] : 0.0f;
#endif
        }
#if !READS_SAVED
        const uint4 raw_saved[2] = {0, 0};
#endif
        const uint4 result[2] = {pack_last(v[0], raw_saved[0], drawn[0]), pack_last(v[1], raw_saved[1], drawn[1])};
        store_rows(to, Y_STRIDE, row, rows, columns, result);
#if DRAWN_BLOCKS
        kept >>= 2;
#endif
#if COLUMN_TOTALS
        if (closes) {
            if (!dry && lane / UNITS < AT_ONCE) {
                __local float *sum = totals + (step / GROUP_STEPS * AT_ONCE + lane / UNITS) * TILE_N + unit * 8;
                UNROLL for (uint c = 0; c < 8; c++) sum[c] = total[c];
            }
            UNROLL for (uint c = 0; c < 8; c++) total[c] = 0.0f;
        }
#endif
        step = next_step;
        row = next_row;
    }
#if COLUMN_TOTALS
    if (dry) return;
    /* All groups' sums, in their order whoever made them. */
    barrier_named(meeting, workers * 32);
    for (uint c = worker * 32 + lane; c < TILE_N && p.column + c < N; c += workers * 32) {
        float sum = totals[c];
        for (uint g = 1; g < TILE_M / GROUP_ROWS * AT_ONCE; g++) sum += totals[g * TILE_N + c];
        t->partials[(ulong)(p.row / TILE_M) * N + p.column + c] = sum;
    }
    barrier_named(meeting, workers * 32); /* the sums' place may be used again */
#endif
}
#endif

__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void gemm_wgmma(PRODUCT_ARGUMENTS)
{
    BEGIN_PRODUCT;
    __local uchar place[PLACE_BYTES] __attribute__((aligned(1024)));
    const uint stages_at = SHARED_ADDRESS(place), filled_at = stages_at + BARRIERS_AT, emptied_at = filled_at + STAGES * 8;
#if !PARTS
    __local uchar *const sums = place + SUMS_AT;
    __local float *const totals = (__local float *)(place + TOTALS_AT);
    const uint sums_at = stages_at + SUMS_AT, given_at = emptied_at + STAGES * 8, taken_at = given_at + 8;
#endif
#if OPERAND_SUMS
    __local uint *const ones = (__local uint *)(place + ONES_AT);
    for (uint i = local_number(); i < ONES_BYTES / 4; i += LOCAL_SIZE) ones[i] = 0x3c003c00; /* two f16 */
    fence_async();
#endif

    const uint rows = batch[ROWS], row_end = BATCH_M ? rows : M, column_end = BATCH_N ? rows : N;
    const uint row_tiles = (row_end + TILE_M - 1) / TILE_M, column_tiles = (column_end + TILE_N - 1) / TILE_N;
    const uint tiles = row_tiles * column_tiles * (PARTS ? (rows + PART_ROWS - 1) / PART_ROWS : 1);
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
#if READS_SAVED
    t.saved = saved;
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
                wgmma_fence();
                UNROLL for (uint step = 0; step < DEPTH / 16; step++)
                {
                    const ulong x_step = x_first + stage * (STAGE_BYTES / 16) + step * (X_MAJOR ? 128 : 2);
                    const ulong w_step = w_first + stage * (STAGE_BYTES / 16) + step * (W_MAJOR ? 128 : 2);
                    UNROLL for (uint b = 0; b < BLOCKS; b++)
                    {
                        UNROLL for (uint n = 0; n < COLUMNS; n += WIDTH)
                            MULTIPLY(sum + b * SUMS + n / 2, x_step + b * (BOX_BYTES / 16),
                                     w_step + n * (DEPTH * 2 / 16), i + step, X_TRANSPOSED, W_TRANSPOSED);
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
            const uint warps_tile = tile % (TILES_M * TILES_N) * WARPS + item / 32;
            __global float4 *const partial = (__global float4 *)partials + (size_t)warps_tile * (VECTORS * 32) + lane;
            const uint stride = TILES_M * TILES_N * WARPS * VECTORS * 32;
            const uint parts = (rows + PART_ROWS - 1) / PART_ROWS;
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
                store_piece(place + SUMS_AT + item / 32 * PIECE_BYTES, y, sums, p.row + item / 32 * 16,
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
    for (bool dry = !consumer; tile < tiles;) {
        const bool last = tile + groups >= tiles;
        const uint worker = consumer ? of_all : of_all - FIRST_EPILOGUE_WARP + (last ? CONSUMERS * 4 : 0);
        const uint workers = EPILOGUE_WARPS + (last ? CONSUMERS * 4 : 0);
#if NORM_Y
        finish_normalized(&t, sums, place_of(tile, row_tiles, column_tiles), worker, workers, given_at, turn, dry);
#else
        finish(&t, sums, totals, place_of(tile, row_tiles, column_tiles), worker, workers, given_at, turn, last ? 1 : 2,
               dry);
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
