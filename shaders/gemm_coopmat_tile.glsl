/* A work-group's tile of a product on cooperative matrices: the product of its stages, and its sums on their way out.
 * Included by gemm_coopmat.comp and gemm_experts_coopmat.comp after gemm_coopmat_sizes.glsl, their own constants and
 * arguments, and what the stages ask for. */
#include "gemm_coopmat_stages.glsl"

#define ACCUMULATOR coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>

/* sum += the product of the stage that lies at `at`, in `share`, this sub-group's part of its k, of the piece that begins
 * at row piece_m and column piece_n of the tile. */
#define MULTIPLY_STAGE(sum, at, share, piece_m, piece_n)                                                               \
    UNROLL for (uint k = 0; k < STEP_K; k += MATRIX_K)                                                                 \
    {                                                                                                                  \
        coopmat<OPERAND, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA> a[MATRICES_M];                           \
        coopmat<OPERAND, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB> b;                                       \
        const uint of_stage = (share) * STEP_K + k;                                                                    \
        UNROLL for (uint i = 0; i < MATRICES_M; i++)                                                                   \
        {                                                                                                              \
            const uint m = (piece_m) + i * MATRIX_M;                                                                   \
            if (X_MAJOR)                                                                                               \
                coopMatLoad(a[i], stages, (at) + of_stage * X_PITCH + m / 8, X_PITCH,                                  \
                            gl_CooperativeMatrixLayoutColumnMajor);                                                    \
            else                                                                                                       \
                coopMatLoad(a[i], stages, (at) + m * X_PITCH + of_stage / 8, X_PITCH,                                  \
                            gl_CooperativeMatrixLayoutRowMajor);                                                       \
        }                                                                                                              \
        UNROLL for (uint j = 0; j < MATRICES_N; j++)                                                                   \
        {                                                                                                              \
            const uint n = (piece_n) + j * MATRIX_N;                                                                   \
            if (W_MAJOR)                                                                                               \
                coopMatLoad(b, stages, (at) + X_VECTORS + of_stage * W_PITCH + n / 8, W_PITCH,                         \
                            gl_CooperativeMatrixLayoutRowMajor);                                                       \
            else                                                                                                       \
                coopMatLoad(b, stages, (at) + X_VECTORS + n * W_PITCH + of_stage / 8, W_PITCH,                         \
                            gl_CooperativeMatrixLayoutColumnMajor);                                                    \
            UNROLL for (uint i = 0; i < MATRICES_M; i++)                                                               \
                sum[i * MATRICES_N + j] = coopMatMulAdd(a[i], b, sum[i * MATRICES_N + j]);                             \
        }                                                                                                              \
    }

/* The sums go to memory by way of the stages' place, where eight columns side by side are one work-item's: wide
 * accesses, one call of dropout's generator, and a loop instead of code for all of a sub-group's sums. As many rows of
 * matrices as there is place for make a CHUNK. The SPLIT sub-groups of a piece share its UNITS of eight columns. */
#define STAGE_ROWS (PLACE / (PIECES * SPLIT * SUMS_PITCH) / MATRIX_M * MATRIX_M)
#define CHUNK (STAGE_ROWS < THREAD_M ? STAGE_ROWS : THREAD_M)
#define UNITS (THREAD_N / 8)
#define LANES (SUBGROUP * SPLIT / UNITS)

/* Of those that share a piece. */
void piece_barrier()
{
    if (SPLIT > 1)
        barrier();
    else
        subgroupBarrier();
}

/* Those of the rows from `chunk` on, to `staged`, where each of a piece's sub-groups has CHUNK rows. */
#define STAGE_SUMS(sum, chunk, staged, share)                                                                          \
    UNROLL for (uint i = 0; i < MATRICES_M; i++)                                                                       \
    {                                                                                                                  \
        if (i * MATRIX_M / CHUNK * CHUNK == (chunk)) {                                                                 \
            UNROLL for (uint j = 0; j < MATRICES_N; j++)                                                               \
                coopMatStore(sum[i * MATRICES_N + j], stages,                                                          \
                             (staged) + ((share) * CHUNK + i * MATRIX_M % CHUNK) * SUMS_PITCH + j * MATRIX_N / 4,      \
                             SUMS_PITCH, gl_CooperativeMatrixLayoutRowMajor);                                          \
        }                                                                                                              \
    }

/* vec4 v[2] = the eight sums that lie at `from`, of all sub-groups of a piece. */
#define STAGED_SUMS(v, from)                                                                                           \
    vec4 v[2] = {uintBitsToFloat(stages[from]), uintBitsToFloat(stages[(from) + 1])};                                  \
    UNROLL for (uint s = 1; s < SPLIT; s++)                                                                            \
    {                                                                                                                  \
        v[0] += uintBitsToFloat(stages[(from) + s * CHUNK * SUMS_PITCH]);                                              \
        v[1] += uintBitsToFloat(stages[(from) + s * CHUNK * SUMS_PITCH + 1]);                                          \
    }
