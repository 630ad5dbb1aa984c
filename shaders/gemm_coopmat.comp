#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#if BF16
#extension GL_EXT_bfloat16 : require
#define OPERAND bfloat16_t
#else
#define OPERAND float16_t
#endif
#pragma use_vulkan_memory_model
/* The matrix products of gemm.comp on a device's matrix units, in 16 bits and added in f32: the same arguments, forms
 * and epilogues, for rows of multiples of 8 elements (ALIGNED).
 *
 *                        w: TILE_N columns
 *                      +---------+---------+
 *        TILE_K of k:  | a stage, then the |  in shared memory; the one after it is in registers, on its way
 *                      | next one          |
 *      x: TILE_K       +---------+---------+
 *     +---------+      +---------+---------+
 *     | TILE_M  |      | piece 0 | piece 1 |  THREAD_M x THREAD_N: a sub-group's, in matrices of
 *     | rows    |      +---------+---------+  MATRIX_M x MATRIX_N sums in its registers
 *     |         |      | piece 2 | piece 3 |  SPLIT > 1: so many sub-groups have a piece, each a part of
 *     +---------+      +---------+---------+  every stage's k
 *
 * A work-group computes TILE_M x TILE_N outputs in stages of TILE_K, a sub-group THREAD_M x THREAD_N of them, which
 * stay in its registers. Where there are more sub-groups than such pieces, SPLIT of them share a piece: each takes its
 * part of every stage's k, and their sums are added in the order of the parts. While a stage is multiplied, the next one
 * is on its way from memory to registers; with two STAGES in shared memory one barrier a stage is enough.
 *
 * GATE and ROTARY as in gemm.comp: a work-item has eight columns side by side, which are whole pairs, and where a gate
 * makes four of them, neighbours' stores of 8 bytes are one access.
 *
 * SCALES: w has elements of 8 bits, which become 16-bit floats on their way to shared memory; the sums of a column are
 * then scaled.
 *
 * DELTA: delta[r][h], the product of the results of a head with `saved`, where pieces have whole heads.
 *
 * MOMENTS: rows of the result get the moments that a norm after it wants, by strips of MOMENTS_STRIP columns, which are one
 * sub-group's; or rows of x were never normalized, and sums are multiplied by what is left of the norm, a factor for each
 * row: gamma and x's mean are in w.
 *
 * NORM: x are rows before a layernorm over K, done here by every work-group of a row, where one stage holds all of k;
 * the first of them stores what comes of it to `before`. */
#include "product.glsl"
#include "formulas.h"
#include "gemm_coopmat_sizes.glsl"

layout(constant_id = CONST_FORM) const uint FORM = GEMM_NT;
layout(constant_id = CONST_M) const uint M = 32;
layout(constant_id = CONST_N) const uint N = 32;
layout(constant_id = CONST_K) const uint K = 32;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;
layout(constant_id = CONST_RUNTIME) const uint GIVEN_RUNTIME = RUNTIME_FORM;
layout(constant_id = CONST_BIAS) const uint BIAS = 0;
layout(constant_id = CONST_ACTIVATION) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = CONST_RESIDUAL) const uint RESIDUAL = 0;
layout(constant_id = CONST_SUM) const uint SUM = 0;
layout(constant_id = CONST_DERIVATIVE) const uint DERIVATIVE = ACTIVATION_NONE;
layout(constant_id = CONST_GATE) const uint GATE = GATE_NONE;
layout(constant_id = CONST_ROTARY) const uint ROTARY = ROTARY_NONE;
layout(constant_id = CONST_QKV_INTERLEAVED) const uint QKV_INTERLEAVED = 0;
layout(constant_id = CONST_SCALES) const uint SCALES = 0;
layout(constant_id = CONST_DELTA) const uint DELTA = 0;
layout(constant_id = CONST_HEAD_DIM) const uint HEAD_DIM = 8;
layout(constant_id = CONST_COLUMN_SUMS) const uint COLUMN_SUMS = 0;
layout(constant_id = CONST_PART_ROWS) const uint PART_ROWS = 16;
layout(constant_id = CONST_NORM) const uint NORM = 0;
layout(constant_id = CONST_EPSILON) const uint EPSILON = 0x2b8cbcccu; /* 1e-12 */
layout(constant_id = CONST_MOMENTS) const uint MOMENTS = MOMENTS_NONE;
layout(constant_id = CONST_RMS) const uint RMS = RMS_NONE;

/* Whether k is the slow dimension of an operand. */
#define X_MAJOR (FORM == GEMM_TN)
#define W_MAJOR (FORM != GEMM_NT)
/* Which size is the batch's number of rows. A row of x or y along them has room for a multiple of 8; after the batch
 * anything may lie there, NaN too. In x it makes outputs that nobody has (M), or counts as 0 (K); y is not written. */
#define RUNTIME (GIVEN_RUNTIME != RUNTIME_FORM ? GIVEN_RUNTIME : X_MAJOR ? RUNTIME_K : RUNTIME_M)
#define ACROSS (RUNTIME == RUNTIME_N)
/* Sums over the batch's rows in parts, and the results' sums over them: of a tile's columns, or of a piece's rows, of
 * which partials[columns of pieces][M] has one each (PART_ROWS is THREAD_N). */
#define PARTS (RUNTIME == RUNTIME_K ? COLUMN_SUMS != 0 : false)
#define EPILOGUE_SUMS (RUNTIME == RUNTIME_M ? COLUMN_SUMS != 0 : false)
#define ROW_SUMS (ACROSS ? COLUMN_SUMS != 0 : false)

/* 0: rows without gaps. */
layout(constant_id = CONST_X_STRIDE) const uint GIVEN_X_STRIDE = 0;
layout(constant_id = CONST_X_OFFSET) const uint X_OFFSET = 0;
layout(constant_id = CONST_W_STRIDE) const uint GIVEN_W_STRIDE = 0;
layout(constant_id = CONST_W_OFFSET) const uint W_OFFSET = 0;
layout(constant_id = CONST_Y_STRIDE) const uint GIVEN_Y_STRIDE = 0;
layout(constant_id = CONST_Y_OFFSET) const uint Y_OFFSET = 0;
#define X_STRIDE (GIVEN_X_STRIDE != 0 ? GIVEN_X_STRIDE : X_MAJOR ? M : K)
#define W_STRIDE (GIVEN_W_STRIDE != 0 ? GIVEN_W_STRIDE : W_MAJOR ? N : K)
#define Y_STRIDE (GIVEN_Y_STRIDE != 0 ? GIVEN_Y_STRIDE : N)

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_W, w);
layout(set = 0, binding = SLOT_W) restrict readonly buffer w_eights { uvec2 w_bytes[]; };
layout(set = 0, binding = SLOT_W) restrict readonly buffer w_floats { vec4 scales[]; };
INPUT(SLOT_BIAS, bias);
INPUT(SLOT_RESIDUAL, residual);
INPUT(SLOT_GAMMA, gamma);
INPUT(SLOT_BETA, beta);
INPUT(SLOT_SAVED, saved);
INPUT_OF(SLOT_POSITIONS, uint, positions);
INPUT_OF(SLOT_POSITION, vec4, position_quads);
OUTPUT_OF(SLOT_DELTA, float, delta);
INPUT_OF(SLOT_MOMENTS, float, moments);
INPUT_OF(SLOT_MOMENTS, vec2, moments_pairs);
OUTPUT_OF(SLOT_MOMENTS, float, made_moments);
OUTPUT_OF(SLOT_MOMENTS, vec2, made_moments_pairs);
layout(set = 0, binding = SLOT_PARTIALS) restrict writeonly buffer partials_pairs { vec4 partials_quads[]; };
OUTPUT_OF(SLOT_PARTIALS, float, partials);
OUTPUT(SLOT_Y, y);
QUADS_OF(SLOT_Y, y, writeonly);
OUTPUT(SLOT_SUM, before);
#include "dropout.glsl"
#include "gate.glsl"
#include "rotary.glsl"

#define TILES_OF(size, tile) (((size) + (tile) - 1) / (tile))
/* Rows of tiles that are walked through together, down before across: the work-groups that run at the same time then
 * read a near-square piece of both operands, which the cache keeps. */
#define RASTER 8

/* After the stages, one vector for each work-item that normalizes; or the rows' factors. */
#define STAGES_MORE (NORM != 0 ? LOCAL_SIZE : MOMENTS == MOMENTS_READ ? TILE_M / 4 : 0)
#define WIDENS (SCALES != 0)
#include "gemm_coopmat_tile.glsl"

/* Work-items of a row that is normalized. */
#define SHARERS (LOCAL_SIZE / TILE_M)

float row_total(const float share)
{
    const uint first = local_number() / SHARERS * SHARERS;
    float total = 0.0;
    stages[PLACE + local_number()].x = floatBitsToUint(share);
    barrier();
    for (uint i = 0; i < SHARERS; i++) total += uintBitsToFloat(stages[PLACE + first + i].x);
    barrier();
    return total;
}

#define UNPACK_UNIT(raw) {unpack_quad((raw).xy), unpack_quad((raw).zw)}

/* The rows of x in shared memory. */
void normalize_rows(const uint row0, const uint row_end, const uint column0)
{
    const uint r = local_number() / SHARERS, first = local_number() % SHARERS, row = row0 + r;
    const vec4 ones = vec4(1.0);
    float share = 0.0;
    for (uint c = first; c < K / 8; c += SHARERS) {
        const vec4 v[2] = UNPACK_UNIT(stages[r * X_PITCH + c]);
        share += dot(v[0], ones) + dot(v[1], ones);
    }
    const float mean = row_total(share) / float(K);
    share = 0.0;
    for (uint c = first; c < K / 8; c += SHARERS) {
        const vec4 v[2] = UNPACK_UNIT(stages[r * X_PITCH + c]);
        share += dot(v[0] - mean, v[0] - mean) + dot(v[1] - mean, v[1] - mean);
    }
    const float scale = 1.0 / sqrt(row_total(share) / float(K) + uintBitsToFloat(EPSILON));
    for (uint c = first; c < K / 8; c += SHARERS) {
        const vec4 v[2] = UNPACK_UNIT(stages[r * X_PITCH + c]);
        vec4 g[2], b[2];
        LOAD_EIGHT(g, gamma, c * 8, true);
        LOAD_EIGHT(b, beta, c * 8, true);
        const uvec4 unit = uvec4(pack_quad(fma((v[0] - mean) * scale, g[0], b[0])),
                                 pack_quad(fma((v[1] - mean) * scale, g[1], b[1])));
        stages[r * X_PITCH + c] = unit;
        if (SUM != 0 && column0 == 0 && row < row_end) before_wide[(row * K + c * 8) / 8] = unit;
    }
    barrier();
}

#include "moments.glsl"

/* Eight elements of a row from `at` on, a multiple of 8; those from `column` on, of which the last may have no row of
 * the batch. */
#define STORE_UNIT(name, at, v, column, end)                                                                           \
    if (!ACROSS || (column) + 8 <= (end)) {                                                                            \
        name##_wide[(at) / 8] = uvec4(pack_quad(v[0]), pack_quad(v[1]));                                               \
    } else {                                                                                                           \
        STORE_SOME(name, at, v[0], column, end)                                                                        \
        STORE_SOME(name, (at) + 4, v[1], (column) + 4, end)                                                            \
    }

void store_floats(const uint at, const vec4 v[2])
{
    partials_quads[at / 4] = v[0];
    partials_quads[at / 4 + 1] = v[1];
}

#include "residual.glsl"
#include "delta.glsl"

/* Bits of what is kept of such a block, a byte for each token from `column` on. */
uvec2 kept_block(const uint row, const uint column)
{
    const uvec4 key = dropout_key();
    uvec2 bits = uvec2(0);
    ROLLED
    for (uint c = 0; c < 4; c++)
        bits |= uvec2(dropout_bits(dropout_words_keyed(key, column + c, row)),
                      dropout_bits(dropout_words_keyed(key, column + c + 4, row)))
                << (c * 8);
    return bits;
}

/* The factors of four tokens' channel c. */
vec4 kept_factors(const uint bits, const uint c)
{
    const uvec4 bit = uvec4(bits >> c, bits >> (c + 8), bits >> (c + 16), bits >> (c + 24)) & 1u;
    return mix(vec4(0.0), vec4(DROPOUT_SCALE), bvec4(bit));
}

/* Of those elements that have a row of the batch. */
float unit_sum(const vec4 v[2], const uint count)
{
    const uvec4 c = uvec4(0, 1, 2, 3);
    return dot(mix(vec4(0.0), v[0], lessThan(c, uvec4(count))), vec4(1.0)) +
           dot(mix(vec4(0.0), v[1], lessThan(c + 4, uvec4(count))), vec4(1.0));
}

/* The angles of eight channels from `column` on, of which four are one head's, of a token at `at_position`. */
void fetch_turns(out vec4 turn[2], const uint at_position, const uint column)
{
    UNROLL
    for (uint i = 0; i < 2; i++) {
        const uint at = column + i * 4;
        turn[i] = vec4(0.0);
        if (at < N && ROTARY_TURNS(at)) turn[i] = position_quads[(at_position * HEAD_DIM + at % HEAD_DIM) / 4];
    }
}

/* Four channels of a row from `column` on. */
vec4 rotated(vec4 v, const vec4 turn, const uint column)
{
    if (ROTARY_TURNS(column)) {
        ROTARY_TURN(v, turn, 4)
    }
    return v;
}

/* Of what eight gated pairs made, the gradients of both of each. */
void store_gradients(const vec4 v[2], const uint at)
{
    ROLLED
    for (uint c = 0; c < 2; c++) {
        vec4 pairs[2];
        LOAD_EIGHT(pairs, saved, 2 * at + c * 8, true);
        pairs[0] = gate_gradient(pairs[0], v[c].xy);
        pairs[1] = gate_gradient(pairs[1], v[c].zw);
        STORE_EIGHT(y, 2 * at + c * 8, pairs, true);
    }
}

/* With a gate what it makes is stored here. */
void epilogue(inout vec4 v[2], const vec4 turn[2], const uvec4 addend, const uint row, const uint column,
              const uint column_end, const uvec2 block)
{
    const uint at = row * Y_STRIDE + column;
    if (SUM != 0 && NORM == 0) {
        STORE_UNIT(before, at, v, column, column_end)
    }
    if (ROTARY != 0) {
        v[0] = rotated(v[0], turn[0], column);
        v[1] = rotated(v[1], turn[1], column + 4);
    }
    if (GATE != 0 && DERIVATIVE == 0) {
        vec4 gated = vec4(gate_quad(v[0]), gate_quad(v[1]));
        if (DROPOUT > 0) gated *= dropout_half(dropout_words(row, column / 2), column / 2 % 8 != 0);
        STORE_QUAD(y, at / 2, gated);
        return;
    }
    UNROLL
    for (uint c = 0; c < 2; c++)
        v[c] = vec4(activate(ACTIVATION, v[c].x), activate(ACTIVATION, v[c].y), activate(ACTIVATION, v[c].z),
                    activate(ACTIVATION, v[c].w));
    if (KEPT > 0) {
        v[0] *= DROPOUT_SCALE;
        v[1] *= DROPOUT_SCALE;
    } else if (BLOCK > 1) {
        v[0] *= kept_factors(block.x, row % BLOCK);
        v[1] *= kept_factors(block.y, row % BLOCK);
    } else if (DROPOUT > 0) {
        const uvec4 words = dropout_words(row, column);
        v[0] *= dropout_half(words, false);
        v[1] *= dropout_half(words, true);
    }
    if (GATE != 0) {
        store_gradients(v, at);
        return;
    }
    if (DERIVATIVE != 0) {
        vec4 d[2];
        LOAD_EIGHT(d, saved, at, true);
        UNROLL
        for (uint c = 0; c < 2; c++)
            v[c] *= vec4(derivative(DERIVATIVE, d[c].x), derivative(DERIVATIVE, d[c].y),
                         derivative(DERIVATIVE, d[c].z), derivative(DERIVATIVE, d[c].w));
    }
    if (RESIDUAL != 0) {
        v[0] += unpack_quad(addend.xy);
        v[1] += unpack_quad(addend.zw);
    }
}

void main()
{
    const uint rows = batch[ROWS];
    const uint row_end = RUNTIME == RUNTIME_M ? rows : M, tiles_m = TILES_OF(row_end, TILE_M);
    const uint column_end = ACROSS ? rows : N, tiles_n = max(TILES_OF(column_end, TILE_N), 1); /* no batch: no row */
    const uint part = PARTS ? group_number() / (tiles_m * tiles_n) : 0;
    const uint number = PARTS ? group_number() % (tiles_m * tiles_n) : group_number();
    const uint band = number / (RASTER * tiles_n), of_band = number % (RASTER * tiles_n);
    if (PARTS ? part * PART_ROWS >= rows : band * RASTER >= tiles_m) return;
    const uint height = min(RASTER, tiles_m - band * RASTER);
    const uint row0 = (band * RASTER + of_band % height) * TILE_M, column0 = of_band / height * TILE_N;
    if (column0 >= column_end) return;
    const uint begin = part * PART_ROWS;
    const uint depth = PARTS ? min(begin + PART_ROWS, rows) : RUNTIME == RUNTIME_K ? rows : K;

    const uint subgroup = gl_SubgroupID;
    const uint piece = subgroup % PIECES, share = subgroup / PIECES;
    const uint piece_m = piece / PIECES_N * THREAD_M, piece_n = piece % PIECES_N * THREAD_N;
    /* In the epilogue: the same columns in all rows. */
    const uint item = share * SUBGROUP + gl_SubgroupInvocationID, unit = item % UNITS, lane = item / UNITS;
    const uint column = column0 + piece_n + unit * 8;
    ACCUMULATOR sum[MATRICES_M * MATRICES_N];
    UNROLL
    for (uint i = 0; i < MATRICES_M * MATRICES_N; i++) sum[i] = ACCUMULATOR(0.0);

    uint at = 0;
    if (begin < depth) fetch_stage(begin, depth, row0, row_end, column0, column_end);
    if (MOMENTS == MOMENTS_READ) put_factors(row0, row_end);
    if (STAGES > 1) {
        put_stage(0, begin, depth);
        barrier();
    }
    for (uint k0 = begin; k0 < depth; k0 += TILE_K) {
        const bool more = k0 + TILE_K < depth;
        if (STAGES == 1) {
            put_stage(0, k0, depth);
            barrier();
            if (NORM != 0) normalize_rows(row0, row_end, column0);
        }
        if (more || LOADS_ALWAYS)
            fetch_stage(k0 + TILE_K, depth, row0, row_end, column0, column_end);
        else if (ADDENDS_EARLY)
            fetch_addends(lane * BLOCK, row0 + piece_m, row_end, column, column_end);
        MULTIPLY_STAGE(sum, at, share, piece_m, piece_n)
        if (STAGES > 1) {
            at = STAGE_VECTORS - at;
            if (more) put_stage(at, k0 + TILE_K, depth);
        }
        barrier(); /* the stage that was put is there, and nobody reads the one before any more */
    }

    const uint staged = piece * SPLIT * CHUNK * SUMS_PITCH;
    vec4 b[2] = {vec4(0.0), vec4(0.0)}, total[2] = {vec4(0.0), vec4(0.0)};
    if (BIAS != 0 && !ACROSS && column < N) LOAD_EIGHT(b, bias, column, true);
    vec4 scale[2] = {vec4(1.0), vec4(1.0)};
    if (SCALES != 0 && column < N) {
        scale[0] = scales[(SCALES + column) / 4];
        scale[1] = scales[(SCALES + column) / 4 + 1];
    }
    uvec2 block = uvec2(0);
    /* A row's angles are on their way while the row before is finished, and the position that tells where they lie a row
     * before that. */
    uint at_position = 0;
    vec4 turn[2] = {vec4(0.0), vec4(0.0)}, next_turn[2] = {vec4(0.0), vec4(0.0)};
    uvec4 addend = uvec4(0);
    ROLLED
    for (uint chunk = 0; chunk < THREAD_M; chunk += CHUNK) {
        const uint chunk_row = row0 + piece_m + chunk, chunk_end = min(row_end, row0 + piece_m + THREAD_M);
        if (DELTA != 0) fetch_saved(chunk_row + lane, row_end, column);
        uint first_position = 0;
        if (ROTARY != 0) {
            first_position = positions[min(chunk_row + lane, row_end - 1)];
            at_position = positions[min(chunk_row + lane + LANES, row_end - 1)];
        }
        if (RESIDUAL != 0 && (chunk == 0 ? !ADDENDS_EARLY : !ROWS_FOLLOW))
            fetch_addends(chunk + lane * BLOCK, row0 + piece_m, row_end, column, column_end);
        STAGE_SUMS(sum, chunk, staged, share)
        if (ROTARY != 0) fetch_turns(next_turn, first_position, column);
        piece_barrier();
        ROLLED
        for (uint r = lane * BLOCK, next; r < CHUNK; r = next) {
            const uint row = row0 + piece_m + chunk + r;
            next = row_after(r);
            if (ROTARY != 0) {
                turn = next_turn;
                fetch_turns(next_turn, at_position, column);
                at_position = positions[min(row + 2 * LANES, row_end - 1)];
            }
            if (RESIDUAL != 0) addend = next_addend(row0 + piece_m, row_end, column, column_end);
            if (chunk + r < THREAD_M && row < row_end && column < column_end) {
                const uint from = staged + r * SUMS_PITCH + unit * 2;
                STAGED_SUMS(v, from)
                if (BIAS != 0 && ACROSS) b[0] = b[1] = vec4(LOAD(bias, row));
                if (SCALES != 0) {
                    v[0] = fma(v[0], scale[0], b[0]);
                    v[1] = fma(v[1], scale[1], b[1]);
                } else if (MOMENTS == MOMENTS_READ) {
                    const vec4 factor = vec4(row_factor(piece_m + chunk + r));
                    v[0] = fma(v[0], factor, b[0]);
                    v[1] = fma(v[1], factor, b[1]);
                } else {
                    v[0] += b[0];
                    v[1] += b[1];
                }
                if (BLOCK > 1 && r % BLOCK == 0) block = kept_block(row, column);
                epilogue(v, turn, addend, row, column, column_end, block);
                if (MOMENTS == MOMENTS_WRITTEN) stages[from].xy = unit_moments(v);
                if (DELTA != 0) stages[from] = uvec4(pack_quad(v[0]), pack_quad(v[1]));
                if (ROW_SUMS) stages[from].x = floatBitsToUint(unit_sum(v, column_end - column));
                if (EPILOGUE_SUMS) {
                    total[0] += v[0];
                    total[1] += v[1];
                }
                if (PARTS) {
                    store_floats((part * M + row) * N + column, v);
                } else if (GATE == 0) {
                    STORE_UNIT(y, Y_OFFSET + row * Y_STRIDE + column, v, column, column_end)
                }
            }
        }
        if (DELTA != 0) multiply_saved(staged + lane * SUMS_PITCH + unit * 2, lane);
        piece_barrier();
        if (DELTA != 0) {
            store_delta(staged, item, chunk_row, chunk_end, column0 + piece_n);
            piece_barrier();
        }
        if (MOMENTS == MOMENTS_WRITTEN) {
            for (uint r = item; r < CHUNK; r += SUBGROUP * SPLIT)
                if (chunk + r < THREAD_M && chunk_row + r < row_end)
                    store_moments(staged + r * SUMS_PITCH, chunk_row + r, row_end, column0 + piece_n);
            piece_barrier();
        }
        if (ROW_SUMS) {
            for (uint r = item; r < CHUNK; r += SUBGROUP * SPLIT) {
                const uint row = row0 + piece_m + chunk + r, first = column0 + piece_n;
                if (chunk + r < THREAD_M && row < row_end && first < column_end) {
                    float sum_of_row = 0.0;
                    for (uint u = 0; u < UNITS && first + u * 8 < column_end; u++)
                        sum_of_row += uintBitsToFloat(stages[staged + r * SUMS_PITCH + u * 2].x);
                    partials[first / THREAD_N * M + row] = sum_of_row;
                }
            }
            piece_barrier();
        }
    }
    /* Over the lanes of a piece, then over the pieces above each other. */
    if (EPILOGUE_SUMS) {
        barrier();
        const uint to = ((piece / PIECES_N * LANES + lane) * PIECES_N + piece % PIECES_N) * UNITS + unit;
        stages[to * 2] = floatBitsToUint(total[0]);
        stages[to * 2 + 1] = floatBitsToUint(total[1]);
        barrier();
        const uint first = local_number();
        if (first < TILE_N / 8 && column0 + first * 8 < N) {
            total[0] = total[1] = vec4(0.0);
            for (uint m = 0; m < TILE_M / THREAD_M * LANES; m++) {
                total[0] += uintBitsToFloat(stages[(m * (TILE_N / 8) + first) * 2]);
                total[1] += uintBitsToFloat(stages[(m * (TILE_N / 8) + first) * 2 + 1]);
            }
            store_floats(row0 / TILE_M * N + column0 + first * 8, total);
        }
    }
}
