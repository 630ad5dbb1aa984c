/* gemm_wgmma's epilogue: what its warps make of a tile's sums, which lie in shared memory in the storage type: bias, activation,
 * dropout, residual, sums over rows and columns; or, of whole rows, their layernorm. After hopper.h and what gemm_wgmma.cl
 * defines of tiles. */

/* The 16-byte piece of shared memory that holds columns 8 unit to 8 unit + 7 of a row of sums: permuted, so that neither
 * a column of eight rows nor a row has bank conflicts. */
INLINE uint sum_at(const uint row, const uint unit) { return row * (TILE_N * 2) + ((unit ^ row % 8) << 4); }

/* v in the storage type, here and not where it is stored: after a condition compilers would make each row's arithmetic a branch of
 * its own, and rows would not overlap. */
#define PACK_HERE(cvt, raw, v)                                                                                         \
    UNROLL for (uint c = 0; c < 4; c++) asm volatile(cvt " %0, %1, %2;" : "=r"(raw[c]) : "f"(v[c * 2 + 1]), "f"(v[c * 2]))

INLINE uint4 pack_here(const float *v)
{
    uint raw[4];
    PACK_HERE("cvt.rn." NARROW "x2.f32", raw, v);
    return (uint4)(raw[0], raw[1], raw[2], raw[3]);
}

/* What is left 0 in the place of some values is done two at a time where it comes last: RELU in the same instruction,
 * and by masks what dropout drops and what was not above 0 before RELU. */
#define COMES_LAST (!RESIDUAL && !EPILOGUE_SUMS && !GATE)
/* Nothing but the residual comes after the sums, which have 16 bits, too: they are added two at a time. */
#define PACKED_RESIDUAL                                                                                                \
    (RESIDUAL && !BIAS && !ROTARY && !GATE && !SUM && !DROPOUT && !KEPT && !DERIVATIVE && !DELTA && !EPILOGUE_SUMS &&  \
     ACTIVATION == ACTIVATION_NONE && MOMENTS != MOMENTS_READ)
/* Nothing but what is given multiplies them: the same. */
#define PACKED_GIVEN                                                                                                   \
    (DERIVATIVE == ACTIVATION_GIVEN && !RESIDUAL && !BIAS && !ROTARY && !SUM && !DROPOUT && !KEPT && !DELTA &&         \
     !EPILOGUE_SUMS && ACTIVATION == ACTIVATION_NONE && !MOMENTS)
#define PACKED_RELU (COMES_LAST && !DERIVATIVE && ACTIVATION == ACTIVATION_RELU)
#define PACKED_SLOPE (COMES_LAST && DERIVATIVE == ACTIVATION_RELU)
#define PACKED_DROP (COMES_LAST && DROPOUT && !KEPT && !DRAWN_BLOCKS && (!DERIVATIVE || PACKED_SLOPE))

INLINE uint4 pack_last(const float *v, const uint4 saved, const uint4 drawn)
{
    uint raw[4];
#if PACKED_RELU
    PACK_HERE("cvt.rn.relu." NARROW "x2.f32", raw, v);
#else
    PACK_HERE("cvt.rn." NARROW "x2.f32", raw, v);
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
    __global float *partials, *delta, *made_moments;
    __global const float *moments;
    __global const uint *positions;
    __global const float *position; /* their angles */
    uint4 key;                      /* dropout's */
    uint row_end, column_end;       /* of y */
};

/* Of pairs of neighbours: results are half as many, or, of gradients, twice. */
#define MAKES_HALVES (GATE && !DERIVATIVE)
#define MAKES_PAIRS (GATE && DERIVATIVE)
#define GATED (GATE == GATE_ODD ? 1 : 0)
#define OTHER (GATE == GATE_ODD ? 0 : 1)
#define SAVED_PIECES (MAKES_PAIRS ? 2 : 1)

/* Dropout's scale goes into the bias' addition where what follows may be scaled before. */
#define SCALED ((DROPOUT || KEPT) && !SUM && CAN_SCALE(ACTIVATION) && !MAKES_HALVES)
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
#include "gemm_wgmma_normal.h"
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

/* Steps that the residual comes ahead, and slopes that are all that is read, which are written out, so that a load need
 * not have come when the next one's registers become its own: two, but beside dropout, whose words want the registers
 * (7 % of the product there). */
#define AHEAD ((RESIDUAL && !DROPOUT) || PACKED_GIVEN ? 2 : 1)

/* Of a warp's steps, groups of which are taken by the workers in turns. */
INLINE bool closes(const uint step) { return step % GROUP_STEPS == GROUP_STEPS - 1; }

INLINE uint step_after(const uint step, const uint workers)
{
    return step + (closes(step) ? (workers - 1) * GROUP_STEPS + 1 : 1);
}

/* raw = two rows' values at `from`: rows `row` and APART further of `rows`. */
INLINE void fetch_rows(uint4 *raw, __global const storage *from, const uint row, const uint rows)
{
    UNROLL for (uint r = 0; r < 2; r++)
        raw[r] = row + r * APART < rows ? *(__global const uint4 *)(from + (row + r * APART) * Y_STRIDE) : (uint4)(0);
}

/* The same of what is saved with them: of each row's eight columns SAVED_PIECES. */
INLINE void fetch_saved(uint4 *raw, __global const storage *from, const uint row, const uint rows)
{
    UNROLL for (uint r = 0; r < 2; r++)
    {
        UNROLL for (uint i = 0; i < SAVED_PIECES; i++)
            raw[r * SAVED_PIECES + i] =
                row + r * APART < rows
                    ? *(__global const uint4 *)(from + (row + r * APART) * (Y_STRIDE * SAVED_PIECES) + i * 8)
                    : (uint4)(0);
    }
}

#include "gemm_wgmma_gate.h"
#include "gemm_wgmma_moments.h"

#if ROTARY
/* Positions of two rows' tokens. */
INLINE void fetch_positions(uint *to, __global const uint *positions, const uint row, const uint rows)
{
    UNROLL for (uint r = 0; r < 2; r++) to[r] = row + r * APART < rows ? positions[row + r * APART] : 0;
}

/* The angles of eight columns of both, which are turned or not. */
#define FETCH_TURNS(to, turns)                                                                                         \
    UNROLL for (uint r = 0; r < 2; r++) rotary_fetch_eight((to) + r * 2, t->position, position[r], column, turns)
#endif

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
 * no bit. Where columns are summed, in `floats`, all meet at the barrier with number `meeting`; where moments are read,
 * the rows' factors are there. */
INLINE void finish(const struct tensors *t, __local const uchar *sums, __local float *floats, const struct place p,
                   const uint worker, const uint workers, const uint barrier, const uint parity, const uint meeting,
                   const bool dry)
{
    const uint lane = local_number() % 32, unit = lane % UNITS, column = p.column + unit * 8;
    const uint column_end = BATCH_N ? t->column_end : N, columns = BATCH_N ? column_end - column : 8;
    const uint rows = !dry && lane / UNITS < AT_ONCE && column < column_end ? min(t->row_end - p.row, (uint)TILE_M) : 0;
    const ulong begin = (ulong)p.row * Y_STRIDE + column;
    __global storage *to = t->y + Y_OFFSET + begin * (MAKES_PAIRS ? 2 : 1);
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
#if N % 8 /* the result's rows have a pitch */
    UNROLL for (uint c = 0; c < 8; c++) b[c] = column + c < N ? LOAD(t->bias, column + c) : 0.0f;
#else
    if (column < N) LOAD_VECTOR(t->bias, column, b);
#endif
    UNROLL for (uint c = 0; c < 8; c++) b[c] *= SCALE;
#endif
#if COLUMN_TOTALS
    float total[8];
    UNROLL for (uint c = 0; c < 8; c++) total[c] = 0.0f;
#endif
    /* What is read from memory is on its way a step ahead. */
#if RESIDUAL || PACKED_GIVEN
    uint asked = step; /* for whose residual, or slopes, come next */
#endif
#if PACKED_GIVEN
    uint4 given[AHEAD][2 * SAVED_PIECES];
    UNROLL for (uint i = 0; i < AHEAD; i++, asked = step_after(asked, workers))
    {
        UNROLL for (uint c = 0; c < 2 * SAVED_PIECES; c++) given[i][c] = (uint4)(0);
        fetch_given(given[i], t->saved + begin * SAVED_PIECES, row_of(asked, lane), rows);
    }
#elif READS_SAVED
    uint4 next_saved[2 * SAVED_PIECES];
    fetch_saved(next_saved, t->saved + begin * SAVED_PIECES, row, rows);
#endif
#if RESIDUAL
    uint4 residual[AHEAD][2];
    UNROLL for (uint i = 0; i < AHEAD; i++, asked = step_after(asked, workers))
        fetch_rows(residual[i], t->residual + begin, row_of(asked, lane), rows);
#endif
#if ROTARY /* positions two steps ahead, for they tell where angles lie */
    const bool turns = rows != 0 && ROTARY_TURNS(column);
    __global const uint *const positions = t->positions + p.row;
    uint position[2];
    float4 next_turn[4];
    fetch_positions(position, positions, row, rows);
    FETCH_TURNS(next_turn, turns);
    fetch_positions(position, positions, row_of(step_after(step, workers), lane), rows);
#endif
#if MOMENTS == MOMENTS_WRITTEN
    __global float *made = t->made_moments + (column / MOMENTS_STRIP * (ulong)t->row_end + p.row) * MOMENTS_EACH;
#endif
    if (!dry) mbarrier_wait(barrier, parity);
    ROLLED for (; step < STEPS;) UNROLL for (uint written = 0; written < AHEAD; written++)
    {
        if (written > 0 && step >= STEPS) break;
        const uint next_step = step_after(step, workers), next_row = row_of(next_step, lane);
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
#if PACKED_GIVEN
        uint4 products[2 * SAVED_PIECES];
        UNROLL for (uint r = 0; r < 2; r++)
            multiply_given(products + r * SAVED_PIECES, raw[r], given[written] + r * SAVED_PIECES);
        fetch_given(given[written], t->saved + begin * SAVED_PIECES, row_of(asked, lane), rows);
        asked = step_after(asked, workers);
#if MAKES_PAIRS
        UNROLL for (uint r = 0; r < 2; r++)
            if (row + r * APART < rows) {
                __global uint4 *const at = (__global uint4 *)(to + (row + r * APART) * (2 * Y_STRIDE));
                at[0] = products[r * 2];
                at[1] = products[r * 2 + 1];
            }
#else
        store_rows(to, Y_STRIDE, row, rows, columns, products);
#endif
        step = next_step;
        row = next_row;
        continue;
#elif READS_SAVED
        uint4 raw_saved[2 * SAVED_PIECES];
        UNROLL for (uint i = 0; i < 2 * SAVED_PIECES; i++) raw_saved[i] = next_saved[i];
        fetch_saved(next_saved, t->saved + begin * SAVED_PIECES, next_row, rows);
#endif
#if PACKED_RESIDUAL
        const uint4 added[2] = {add_eight(raw[0], residual[written][0]), add_eight(raw[1], residual[written][1])};
        fetch_rows(residual[written], t->residual + begin, row_of(asked, lane), rows);
        asked = step_after(asked, workers);
        store_rows(to, Y_STRIDE, row, rows, columns, added);
#if MOMENTS == MOMENTS_WRITTEN
        UNROLL for (uint r = 0; r < 2; r++) unpack_vector(added[r], v[r]);
        write_moments(made, v, row, rows);
#endif
        step = next_step;
        row = next_row;
        continue;
#elif RESIDUAL
        const uint4 raw_residual[2] = {residual[written][0], residual[written][1]};
        fetch_rows(residual[written], t->residual + begin, row_of(asked, lane), rows);
        asked = step_after(asked, workers);
#endif
#if ROTARY
        const float4 turn[4] = {next_turn[0], next_turn[1], next_turn[2], next_turn[3]};
        FETCH_TURNS(next_turn, turns);
        fetch_positions(position, positions, row_of(step_after(next_step, workers), lane), rows);
#endif
        UNROLL for (uint r = 0; r < 2; r++)
        {
            unpack_vector(raw[r], v[r]);
#if MOMENTS == MOMENTS_READ
            const float scale = floats[row + r * APART];
#else
            const float scale = SCALE;
#endif
#if BIAS
            UNROLL for (uint c = 0; c < 8; c++) v[r][c] = fma(v[r][c], scale, b[BATCH_N ? r : c]);
#elif SCALED || MOMENTS == MOMENTS_READ
            UNROLL for (uint c = 0; c < 8; c++) v[r][c] *= scale;
#endif
        }
#if SUM && SUM != SUM_SLOPE && !OPERAND_SUMS
        const uint4 before[2] = {pack_here(v[0]), pack_here(v[1])};
        store_rows(t->before + begin, Y_STRIDE, row, rows, columns, before);
#endif
#if ROTARY
        if (turns) {
            UNROLL for (uint r = 0; r < 2; r++) rotary_turn_eight(v[r], turn + r * 2);
        }
#endif
#if MAKES_HALVES
        finish_halves(t, v, p.row, row, rows, column);
        step = next_step;
        row = next_row;
        continue;
#endif
#if DRAWN_BLOCKS
        if (step % GROUP_STEPS == 0) kept = draw_block(t->key, column, p.row + row);
#endif
        uint4 drawn[2] = {0, 0};
#if SUM == SUM_SLOPE
        float slope[2][8];
#endif
        UNROLL for (uint r = 0; r < 2; r++)
        {
#if SUM == SUM_SLOPE
            activate_slope_eight(ACTIVATION, DROPOUT_SCALE, v[r], slope[r]);
#elif !PACKED_RELU
            activate_eight(ACTIVATION, SCALE, v[r]);
#endif
#if (KEPT || DROPOUT) && !SCALED && SUM != SUM_SLOPE
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
#if MAKES_PAIRS && !PACKED_GIVEN
            finish_pairs(to + (row + r * APART) * (2 * Y_STRIDE), v[r], raw_saved + r * 2, row + r * APART < rows);
#elif DERIVATIVE && !PACKED_SLOPE && !PACKED_GIVEN
            float d[8];
            unpack_vector(raw_saved[r], d);
            derive_eight(DERIVATIVE, v[r], d);
#endif
#if RESIDUAL && !PACKED_RESIDUAL
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
#if !READS_SAVED || PACKED_GIVEN
        const uint4 raw_saved[2] = {0, 0};
#endif
#if !MAKES_PAIRS
        const uint4 result[2] = {pack_last(v[0], raw_saved[0], drawn[0]), pack_last(v[1], raw_saved[1], drawn[1])};
        store_rows(to, Y_STRIDE, row, rows, columns, result);
#if MOMENTS == MOMENTS_WRITTEN
        write_moments(made, v, row, rows);
#endif
#endif
#if SUM == SUM_SLOPE
        /* Dropped as the result is (PACKED_DROP). */
        const uint4 before[2] = {pack_last(slope[0], raw_saved[0], drawn[0]), pack_last(slope[1], raw_saved[1], drawn[1])};
        store_rows(t->before + begin, Y_STRIDE, row, rows, columns, before);
#endif
#if DRAWN_BLOCKS
        kept >>= 2;
#endif
#if COLUMN_TOTALS
        if (closes(step)) {
            if (!dry && lane / UNITS < AT_ONCE) {
                __local float *sum = floats + (step / GROUP_STEPS * AT_ONCE + lane / UNITS) * TILE_N + unit * 8;
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
        float sum = floats[c];
        for (uint g = 1; g < TILE_M / GROUP_ROWS * AT_ONCE; g++) sum += floats[g * TILE_N + c];
        t->partials[(ulong)(p.row / TILE_M) * N + p.column + c] = sum;
    }
    barrier_named(meeting, workers * 32); /* the sums' place may be used again */
#endif
}
#endif
