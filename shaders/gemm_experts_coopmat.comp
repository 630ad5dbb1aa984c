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
/* The products of rows with the weights of their experts of gemm_experts.comp on a device's matrix units, in 16 bits and
 * added in f32: the same arguments, forms and epilogues, for rows of multiples of 8 elements (ALIGNED).
 *
 * A work-group's tile goes through stages of k as in gemm_coopmat.comp, one after the other in ascending k: a row's sums
 * depend on the tile's sizes, never on what else is in the batch. The stages' rows are gathered where they lie: which
 * these are stands in shared memory. They are the tile's own rows or, of a weight's gradient, k's: then those of a stage
 * are on their way as long as the stage before it is, and lie beside its own. */
#include "product.glsl"
#include "formulas.h"
#include "gemm_coopmat_sizes.glsl"

layout(constant_id = CONST_FORM) const uint FORM = GEMM_NT;
layout(constant_id = CONST_M) const uint M = 32;
layout(constant_id = CONST_N) const uint N = 32;
layout(constant_id = CONST_K) const uint K = 32;
layout(constant_id = CONST_ACTIVATION) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = CONST_DERIVATIVE) const uint DERIVATIVE = ACTIVATION_NONE;
layout(constant_id = CONST_SUM) const uint SUM = 0;

#include "expert_tile.glsl"

INPUT(SLOT_X, x);
INPUT(SLOT_W, w);
INPUT(SLOT_SAVED, saved);
OUTPUT(SLOT_Y, y);
OUTPUT(SLOT_SUM, before);

/* Which of the sizes is known when it runs. */
#define RUNTIME (OF_ROWS ? RUNTIME_K : RUNTIME_M)

/* Rows of a stage that the list tells, where those of the stage to be fetched begin in `listed`, and where the expert's
 * begin in the list and in the weights. */
#define LISTED (OF_ROWS ? TILE_K : TILE_M)
shared uint listed[OF_ROWS ? 2 * LISTED : LISTED];
uint listed_at, list, weight_at;
#define LISTED_ROW(r) listed[listed_at + min(r, LISTED - 1)]
#define X_AT(r, row, k)                                                                                                \
    (OF_ROWS ? LISTED_AT(LISTED_ROW(r), M, false) + (row) : LISTED_AT(LISTED_ROW(r), K, TOKEN_ROWS != 0) + (k))
#define W_AT(r, row, k)                                                                                                \
    (OF_ROWS   ? LISTED_AT(LISTED_ROW(r), N, TOKEN_ROWS != 0) + (row)                                                  \
     : W_MAJOR ? weight_at + (k) * N + (row)                                                                           \
               : weight_at + (row) * K + (k))
#include "gemm_coopmat_tile.glsl"

/* This work-item's places of the list on their way there. After the expert's last row it comes again: what it gives is
 * not stored, or counts as 0. */
#define LISTINGS ((LISTED + LOCAL_SIZE - 1) / LOCAL_SIZE)
uint listing[LISTINGS];

void fetch_list(const uint first, const uint rows)
{
    UNROLL
    for (uint i = 0; i < LISTINGS; i++)
        listing[i] = ids[list + min(first + local_number() + i * LOCAL_SIZE, rows - 1)];
}

void put_list(const uint at)
{
    UNROLL
    for (uint i = 0; i < LISTINGS; i++) {
        const uint r = local_number() + i * LOCAL_SIZE;
        if (LISTED % LOCAL_SIZE == 0 || r < LISTED) listed[at + r] = listing[i];
    }
}

/* A stage, and with OF_ROWS the rows of the next one. */
void put_both(const uint at, const uint k0, const uint depth)
{
    put_stage(at, k0, depth);
    if (OF_ROWS) put_list(LISTED - listed_at);
}

void epilogue(inout vec4 v[2], const uint to)
{
    if (SUM != 0) STORE_EIGHT(before, to, v, true);
    UNROLL
    for (uint c = 0; c < 2; c++)
        v[c] = vec4(activate(ACTIVATION, v[c].x), activate(ACTIVATION, v[c].y), activate(ACTIVATION, v[c].z),
                    activate(ACTIVATION, v[c].w));
    if (DERIVATIVE != 0) {
        vec4 d[2];
        LOAD_EIGHT(d, saved, to, true);
        UNROLL
        for (uint c = 0; c < 2; c++)
            v[c] *= vec4(derivative(DERIVATIVE, d[c].x), derivative(DERIVATIVE, d[c].y),
                         derivative(DERIVATIVE, d[c].z), derivative(DERIVATIVE, d[c].w));
    }
    STORE_EIGHT(y, to, v, true);
}

void main()
{
    uint expert, begin, end, row0;
    find_tile(expert, begin, end, row0);
    if (expert >= EXPERTS) return;
    const uint column0 = group_number() % TILES_N * TILE_N, rows = end - begin;
    const uint row_end = OF_ROWS ? M : rows, depth = OF_ROWS ? rows : K;
    list = EXPERTS + begin;
    weight_at = expert * (N * K);
    listed_at = 0;

    const uint piece = gl_SubgroupID % PIECES, share = gl_SubgroupID / PIECES;
    const uint piece_m = piece / PIECES_N * THREAD_M, piece_n = piece % PIECES_N * THREAD_N;
    ACCUMULATOR sum[MATRICES_M * MATRICES_N];
    UNROLL
    for (uint i = 0; i < MATRICES_M * MATRICES_N; i++) sum[i] = ACCUMULATOR(0.0);

    uint at = 0;
    if (rows > 0) {
        fetch_list(OF_ROWS ? 0 : row0, rows);
        put_list(0);
        barrier();
        fetch_stage(0, depth, row0, row_end, column0, N);
        if (OF_ROWS) fetch_list(TILE_K, rows);
        if (STAGES > 1) {
            put_both(0, 0, depth);
            barrier();
        }
    }
    for (uint k0 = 0; k0 < depth; k0 += TILE_K) {
        const bool more = k0 + TILE_K < depth;
        if (STAGES == 1) {
            put_both(0, k0, depth);
            barrier();
        }
        if (OF_ROWS) listed_at = LISTED - listed_at;
        if (more || LOADS_ALWAYS) {
            fetch_stage(k0 + TILE_K, depth, row0, row_end, column0, N);
            if (OF_ROWS) fetch_list(k0 + 2 * TILE_K, rows);
        }
        MULTIPLY_STAGE(sum, at, share, piece_m, piece_n)
        if (STAGES > 1) {
            at = STAGE_VECTORS - at;
            if (more) put_both(at, k0 + TILE_K, depth);
        }
        barrier(); /* the stage that was put is there, and nobody reads the one before any more */
    }

    /* The same columns in all rows. */
    const uint item = share * SUBGROUP + gl_SubgroupInvocationID, unit = item % UNITS, lane = item / UNITS;
    const uint staged = piece * SPLIT * CHUNK * SUMS_PITCH, column = column0 + piece_n + unit * 8;
    ROLLED
    for (uint chunk = 0; chunk < THREAD_M; chunk += CHUNK) {
        STAGE_SUMS(sum, chunk, staged, share)
        piece_barrier();
        ROLLED
        for (uint r = lane; r < CHUNK; r += LANES) {
            const uint place = piece_m + chunk + r;
            if (chunk + r < THREAD_M && row0 + place < row_end && column < N) {
                STAGED_SUMS(v, staged + r * SUMS_PITCH + unit * 2)
                const uint row = OF_ROWS ? expert * M + row0 + place : listed[place];
                epilogue(v, row * N + column);
            }
        }
        piece_barrier();
    }
}
