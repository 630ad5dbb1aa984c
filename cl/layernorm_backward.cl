/* The gradients of a layernorm and of what stands around it. d = X (+ residual), s = saved, z = the standardized s;
 *   NORM_DX   r = rstd * (g - mean(g) - z * mean(g * z)) with g = d * gamma, else r = d; ADDEND: the residual is added
 *             to r, not to X. SUM: sum = r. Y = dropout(r), where there is NORM_DX or RESIDUAL.
 *   NORM_DW   partials of d * z and d, the gradients of gamma and beta;
 *   BIAS_SUM  partials of what goes to Y (RESULT) or of extra (OPERAND).
 * Twin of shaders/layernorm_backward.comp.
 *
 * A work-group walks over the PART_ROWS rows of one part; the sums over rows stay in the registers of the work-item
 * that owns the columns and are stored once. The next row's loads are on the way during the current row's reductions,
 * of which there are two, of two sums each: s and g; then (s - mean)^2 and g * (s - mean), which wait for the mean.
 * LOCAL_SIZE: N / 8 rounded up to a power of two, from 32 to 256: few columns a work-item, because each of them takes
 * up to ten registers. Any power of two is right. */
#include "common.h"

#ifndef RESIDUAL
#define RESIDUAL 0
#endif
#ifndef ADDEND
#define ADDEND 0
#endif
#ifndef EPSILON
#define EPSILON 0x2b8cbcccu /* 1e-12 */
#endif
#ifndef SUM
#define SUM 0
#endif
#ifndef NORM_DW
#define NORM_DW 0
#endif
#ifndef NORM_DX
#define NORM_DX 0
#endif
#ifndef BIAS_SUM
#define BIAS_SUM BIAS_SUM_NONE
#endif
#ifndef PART_ROWS
#define PART_ROWS 1
#endif
#include "dropout.h"
#include "row.h"

#define STATISTICS (NORM_DX || NORM_DW) /* z is needed */
#define HAS_Y (NORM_DX || RESIDUAL)
#define PART_SETS (2 * NORM_DW + (BIAS_SUM != BIAS_SUM_NONE)) /* vectors of a part's sums */

/* raw = name[first ...] */
#define FETCH(raw, name, first)                                                                                        \
    UNROLL for (uint i = 0; i < STEPS; i++) { FETCH_ACCESS(raw[i], name, (first) + column_inside(i)); }

/* The vector number `set` of this part's sums. */
#define STORE_PART(set, sums)                                                                                          \
    UNROLL for (uint i = 0; i < STEPS; i++)                                                                            \
    {                                                                                                                  \
        if (column_of(i) < N) {                                                                                        \
            STORE_FLOATS(partials, (group_number() * PART_SETS + (set)) * N + column_of(i), sums[i]);                  \
        }                                                                                                              \
    }

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void layernorm_backward(INPUT_OF(uint, batch)
    , INPUT(x)
#if RESIDUAL
    , INPUT(residual)
#endif
#if NORM_DX
    , INPUT(gamma)
#endif
#if STATISTICS
    , INPUT(saved)
#endif
#if PART_SETS
    , OUTPUT_OF(float, partials)
#endif
#if BIAS_SUM == BIAS_SUM_OPERAND
    , INPUT(extra)
#endif
#if HAS_Y
    , OUTPUT(y)
#endif
#if SUM
    , OUTPUT(sum)
#endif
#if DROPOUT
    , const uint site
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
#if RESIDUAL
    BEGIN(residual);
    raw_access next_residual[STEPS];
#endif
#if STATISTICS
    BEGIN(saved);
    raw_access next_saved[STEPS];
    __local float2 pairs[2][REDUCE_WORDS];
#endif
#if BIAS_SUM == BIAS_SUM_OPERAND
    BEGIN(extra);
    raw_access next_extra[STEPS];
#endif
#if HAS_Y
    BEGIN_OUTPUT(y);
#endif
#if SUM
    BEGIN_OUTPUT(sum);
#endif
    const uint first = group_number() * PART_ROWS, end = min(first + PART_ROWS, batch[ROWS]);
    if (first < end) {
        raw_access next_x[STEPS];
        float gamma_sums[STEPS][ACCESS], beta_sums[STEPS][ACCESS], bias_sums[STEPS][ACCESS];
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) gamma_sums[i][c] = beta_sums[i][c] = bias_sums[i][c] = 0.0f;
        }
#if NORM_DX
        BEGIN(gamma);
        float scale[STEPS][ACCESS];
        UNROLL for (uint i = 0; i < STEPS; i++) { LOAD_ACCESS(gamma, column_inside(i), scale[i]); }
#endif
        FETCH(next_x, x, first * N);
#if RESIDUAL
        FETCH(next_residual, residual, first * N);
#endif
#if STATISTICS
        FETCH(next_saved, saved, first * N);
#endif
#if BIAS_SUM == BIAS_SUM_OPERAND
        FETCH(next_extra, extra, first * N);
#endif
        for (uint row = first; row < end; row++) {
            float d[STEPS][ACCESS], z[STEPS][ACCESS], r[STEPS][ACCESS]; /* r begins as what is added to it */
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNPACK_ACCESS(next_x[i], d[i]);
#if RESIDUAL
                UNPACK_ACCESS(next_residual[i], r[i]);
#if !ADDEND
                UNROLL for (uint c = 0; c < ACCESS; c++) d[i][c] += r[i][c];
#endif
#endif
#if STATISTICS
                UNPACK_ACCESS(next_saved[i], z[i]);
#endif
#if BIAS_SUM == BIAS_SUM_OPERAND
                float v[ACCESS];
                UNPACK_ACCESS(next_extra[i], v);
                UNROLL for (uint c = 0; c < ACCESS; c++) bias_sums[i][c] += v[c];
#endif
            }
            if (row + 1 < end) {
                FETCH(next_x, x, (row + 1) * N);
#if RESIDUAL
                FETCH(next_residual, residual, (row + 1) * N);
#endif
#if STATISTICS
                FETCH(next_saved, saved, (row + 1) * N);
#endif
#if BIAS_SUM == BIAS_SUM_OPERAND
                FETCH(next_extra, extra, (row + 1) * N);
#endif
            }
#if STATISTICS
            float2 part = (float2)(0.0f);
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++)
                {
                    part.x += column_of(i) < N ? z[i][c] : 0.0f;
#if NORM_DX
                    part.y += column_of(i) < N ? d[i][c] * scale[i][c] : 0.0f;
#endif
                }
            }
            const float2 mean = group_sum2(part, pairs[0]) / (float)(N);
            part = (float2)(0.0f);
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++)
                {
                    z[i][c] -= mean.x;
                    part.x = column_of(i) < N ? fma(z[i][c], z[i][c], part.x) : part.x;
#if NORM_DX
                    part.y = column_of(i) < N ? fma(d[i][c] * scale[i][c], z[i][c], part.y) : part.y;
#endif
                }
            }
            part = group_sum2(part, pairs[1]) / (float)(N);
            const float rstd = 1.0f / sqrt(part.x + as_float((uint)(EPSILON)));
            const float along = part.y * rstd; /* mean(g * z) */
#endif
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++)
                {
#if STATISTICS
                    z[i][c] *= rstd;
#endif
#if NORM_DW
                    gamma_sums[i][c] = fma(d[i][c], z[i][c], gamma_sums[i][c]);
                    beta_sums[i][c] += d[i][c];
#endif
#if NORM_DX
                    const float v = rstd * (fma(-z[i][c], along, d[i][c] * scale[i][c]) - mean.y);
#else
                    const float v = d[i][c];
#endif
#if ADDEND
                    r[i][c] += v;
#else
                    r[i][c] = v;
#endif
                }
#if SUM
                if (column_of(i) < N) {
                    STORE_ACCESS(sum, row * N + column_of(i), r[i]);
                }
#endif
#if DROPOUT
                dropout_access(r[i], batch, site, row, column_of(i));
#endif
#if BIAS_SUM == BIAS_SUM_RESULT
                UNROLL for (uint c = 0; c < ACCESS; c++) bias_sums[i][c] += r[i][c];
#endif
#if HAS_Y
                if (column_of(i) < N) {
                    STORE_ACCESS(y, row * N + column_of(i), r[i]);
                }
#endif
            }
        }
#if PART_SETS
        BEGIN_OUTPUT_OF(float, partials);
#endif
#if NORM_DW
        STORE_PART(0, gamma_sums);
        STORE_PART(1, beta_sums);
#endif
#if BIAS_SUM
        STORE_PART(2 * NORM_DW, bias_sums);
#endif
#if STATISTICS
        LAST_BARRIER;
#endif
    }
}
