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
/* The weights of words of gemm_pool.comp, the same arguments and results, on a device's matrix units, in 16 bits and
 * added in f32: for K a multiple of 8.
 *
 * A work-group has a sequence and TILE_N words, sequences fastest, and goes through the sequence's tokens TILE_M at a
 * time, as gemm_coopmat does: a sub-group has THREAD_M x THREAD_N of a tile's sums, in matrices. They go through shared
 * memory, as many rows of them at a time as there is place for, and a work-item joins its own rows of eight columns. At
 * the end those of a column are joined in the order of the work-items. */
#include "product.glsl"
#include "formulas.h"

layout(constant_id = CONST_TILE_M) const uint TILE_M = 128;
layout(constant_id = CONST_TILE_N) const uint TILE_N = 128;
layout(constant_id = CONST_TILE_K) const uint TILE_K = 64;
layout(constant_id = CONST_THREAD_M) const uint THREAD_M = 64;
layout(constant_id = CONST_THREAD_N) const uint THREAD_N = 64;
layout(constant_id = CONST_MATRIX_M) const uint MATRIX_M = 16;
layout(constant_id = CONST_MATRIX_N) const uint MATRIX_N = 16;
layout(constant_id = CONST_MATRIX_K) const uint MATRIX_K = 16;
layout(constant_id = CONST_SUBGROUP) const uint SUBGROUP = 32;
layout(constant_id = CONST_N) const uint N = 32;
layout(constant_id = CONST_K) const uint K = 32;
layout(constant_id = CONST_BIAS) const uint BIAS = 0;
layout(constant_id = CONST_ACTIVATION) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = CONST_POOL) const uint POOL = POOL_MAX;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_W, w);
INPUT(SLOT_BIAS, bias);
OUTPUT(SLOT_Y, y);

#define LARGEST (POOL == POOL_MAX)
#define PIECES_N (TILE_N / THREAD_N)
#define PIECES (TILE_M / THREAD_M * PIECES_N)
#define MATRICES_M (THREAD_M / MATRIX_M)
#define MATRICES_N (THREAD_N / MATRIX_N)
#define WIDTH (TILE_K / 8)

/* A stage lies in shared memory as in memory, in vectors of 16 bytes, with one more at the end of each row: then rows
 * that are read together begin in different banks. */
#define PITCH (WIDTH + 1)
#define X_VECTORS (TILE_M * PITCH)
#define STAGE_VECTORS (X_VECTORS + TILE_N * PITCH)
#define SUMS_PITCH (THREAD_N / 4 + 1)
#define STAGE_LEAST (PIECES * SUMS_PITCH * MATRIX_M)
#define UNITS (THREAD_N / 8)
#define LANES (SUBGROUP / UNITS)
#define JOINED (TILE_M / THREAD_M * LANES * TILE_N / 4)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define PLACE LARGER(LARGER(STAGE_VECTORS, STAGE_LEAST), JOINED)
shared uvec4 stages[PLACE];

#define X_LOADS ((TILE_M * WIDTH + LOCAL_SIZE - 1) / LOCAL_SIZE)
#define W_LOADS ((TILE_N * WIDTH + LOCAL_SIZE - 1) / LOCAL_SIZE)
uvec4 raw_x[X_LOADS], raw_w[W_LOADS];

/* Starts the loads of one operand's part of the stage at k0. Past the end of rows or of k the last vector is loaded
 * again, for a load under a condition would be waited for; rows past the end are not joined, and PUT makes 0 of what
 * lies beyond k. */
#define FETCH(raw, name, loads, begin, row0, end)                                                                      \
    UNROLL for (uint i = 0; i < (loads); i++)                                                                          \
    {                                                                                                                  \
        const uint at = local_number() + i * LOCAL_SIZE;                                                               \
        const uint row = min((row0) + at / WIDTH, (end)-1), k = min(k0 + at % WIDTH * 8, K - 8);                       \
        raw[i] = name##_wide[(((begin) + row) * K + k) / 8];                                                           \
    }
#define PUT(raw, loads, rows, to)                                                                                      \
    UNROLL for (uint i = 0; i < (loads); i++)                                                                          \
    {                                                                                                                  \
        const uint at = local_number() + i * LOCAL_SIZE;                                                               \
        if (at < (rows) * WIDTH)                                                                                       \
            stages[(to) + at / WIDTH * PITCH + at % WIDTH] = k0 + at % WIDTH * 8 < K ? raw[i] : uvec4(0);              \
    }

void fetch_stage(const uint k0, const uint first, const uint row0, const uint length, const uint column0)
{
    FETCH(raw_x, x, X_LOADS, first, row0, length)
    FETCH(raw_w, w, W_LOADS, 0, column0, N)
}

void put_stage(const uint k0)
{
    PUT(raw_x, X_LOADS, TILE_M, 0)
    PUT(raw_w, W_LOADS, TILE_N, X_VECTORS)
}

#define STAGE_ROWS (PLACE / (PIECES * SUMS_PITCH) / MATRIX_M * MATRIX_M)
#define CHUNK (STAGE_ROWS < THREAD_M ? STAGE_ROWS : THREAD_M)

vec4 finish(const vec4 v, const vec4 of)
{
    return vec4(activate(ACTIVATION, v.x + of.x), activate(ACTIVATION, v.y + of.y), activate(ACTIVATION, v.z + of.z),
                activate(ACTIVATION, v.w + of.w));
}

vec4 together(const vec4 a, const vec4 c) { return LARGEST ? max(a, c) : a + c; }

void main()
{
    const uint sequences = batch[HEADER_SEQUENCES];
    const uint sequence = group_number() % max(sequences, 1u);
    const uint column0 = group_number() / max(sequences, 1u) * TILE_N;
    if (sequences == 0 || column0 >= N) return;
    const uint first = batch[batch[HEADER_AT_OFFSETS] + sequence];
    const uint length = batch[batch[HEADER_AT_OFFSETS] + sequence + 1] - first;

    const uint piece = gl_SubgroupID, piece_m = piece / PIECES_N * THREAD_M, piece_n = piece % PIECES_N * THREAD_N;
    const uint item = gl_SubgroupInvocationID, unit = item % UNITS, lane = item / UNITS;
    const uint staged = piece * CHUNK * SUMS_PITCH, column = column0 + piece_n + unit * 8;
    vec4 b[2] = {vec4(0.0), vec4(0.0)}, held[2];
    if (BIAS != 0) {
        LOAD_SOME(b[0], bias, column, column, N);
        LOAD_SOME(b[1], bias, column + 4, column + 4, N);
    }
    held[0] = held[1] = vec4(LARGEST ? -3.402823466e38 : 0.0);

    ROLLED
    for (uint row0 = 0; row0 < length; row0 += TILE_M) {
        coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator> sum[MATRICES_M * MATRICES_N];
        UNROLL
        for (uint i = 0; i < MATRICES_M * MATRICES_N; i++)
            sum[i] = coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>(0.0);
        fetch_stage(0, first, row0, length, column0);
        for (uint k0 = 0; k0 < K; k0 += TILE_K) {
            put_stage(k0);
            barrier();
            fetch_stage(k0 + TILE_K, first, row0, length, column0); /* after the last one, its last vectors again */
            UNROLL
            for (uint k = 0; k < TILE_K; k += MATRIX_K) {
                coopmat<OPERAND, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA> a[MATRICES_M];
                coopmat<OPERAND, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB> c;
                UNROLL
                for (uint i = 0; i < MATRICES_M; i++)
                    coopMatLoad(a[i], stages, (piece_m + i * MATRIX_M) * PITCH + k / 8, PITCH,
                                gl_CooperativeMatrixLayoutRowMajor);
                UNROLL
                for (uint j = 0; j < MATRICES_N; j++) {
                    coopMatLoad(c, stages, X_VECTORS + (piece_n + j * MATRIX_N) * PITCH + k / 8, PITCH,
                                gl_CooperativeMatrixLayoutColumnMajor);
                    UNROLL
                    for (uint i = 0; i < MATRICES_M; i++)
                        sum[i * MATRICES_N + j] = coopMatMulAdd(a[i], c, sum[i * MATRICES_N + j]);
                }
            }
            barrier(); /* nobody reads the stage any more */
        }

        /* The largest is looked for among the sums: bias and activation rise with them. */
        ROLLED
        for (uint chunk = 0; chunk < THREAD_M; chunk += CHUNK) {
            UNROLL
            for (uint i = 0; i < MATRICES_M; i++) {
                if (i * MATRIX_M / CHUNK * CHUNK == chunk) {
                    UNROLL
                    for (uint j = 0; j < MATRICES_N; j++)
                        coopMatStore(sum[i * MATRICES_N + j], stages,
                                     staged + i * MATRIX_M % CHUNK * SUMS_PITCH + j * MATRIX_N / 4, SUMS_PITCH,
                                     gl_CooperativeMatrixLayoutRowMajor);
                }
            }
            subgroupBarrier();
            ROLLED
            for (uint r = lane; r < CHUNK; r += LANES) {
                if (lane < LANES && chunk + r < THREAD_M && row0 + piece_m + chunk + r < length) {
                    const uint from = staged + r * SUMS_PITCH + unit * 2;
                    UNROLL
                    for (uint c = 0; c < 2; c++) {
                        const vec4 v = uintBitsToFloat(stages[from + c]);
                        held[c] = together(held[c], LARGEST ? v : finish(v, b[c]));
                    }
                }
            }
            subgroupBarrier();
        }
        barrier(); /* the next stage goes where the sums were */
    }

    if (lane < LANES) {
        const uint to = ((piece / PIECES_N * LANES + lane) * PIECES_N + piece % PIECES_N) * UNITS + unit;
        stages[to * 2] = floatBitsToUint(held[0]);
        stages[to * 2 + 1] = floatBitsToUint(held[1]);
    }
    barrier();
    for (uint at = local_number(); at < TILE_N / 4; at += LOCAL_SIZE) {
        const uint own = column0 + at * 4;
        vec4 all = uintBitsToFloat(stages[at]), of = vec4(0.0);
        for (uint m = 1; m < TILE_M / THREAD_M * LANES; m++)
            all = together(all, uintBitsToFloat(stages[m * (TILE_N / 4) + at]));
        if (BIAS != 0) LOAD_SOME(of, bias, own, own, N);
        if (LARGEST) all = finish(all, of);
        if (own < N) STORE_SOME(y, sequence * N + own, all, own, N);
    }
}
