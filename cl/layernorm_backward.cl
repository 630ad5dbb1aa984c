/* The gradients of a layernorm and of what stands around it. d = X (+ residual), s = saved, z = the standardized s;
 *   NORM_DX   r = rstd * (g - mean(g) - z * mean(g * z)) with g = d * gamma, else r = d; ADDEND: the residual is added
 *             to r, not to X. SUM: sum = r. Y = dropout(r), where there is NORM_DX or RESIDUAL.
 *   NORM_DW   partials of d * z and d, the gradients of gamma and beta (BETA);
 *   BIAS_SUM  partials of what goes to Y (RESULT) or of extra (OPERAND).
 * Twin of shaders/layernorm_backward.comp.
 *
 * A work-group takes PART_ROWS rows at a time, its own ones and then those PARTS * PART_ROWS further on, so that at any
 * time all groups together are in one stretch of memory: where each had a stretch of its own, one after the other, a
 * pass took 5 % longer on an H200. The sums over rows stay in the registers of the work-item that owns the columns and
 * are stored once. The next rows' loads are on the way during the current rows' reductions, of which there are two for
 * all of them: sums of s and g; then of (s - mean)^2 and g * (s - mean), which wait for the mean (with RMS, both means
 * being 0, these alone). Several rows share
 * their barriers and keep the work-items busy between them. Past the last row come zeros, which change no sum.
 * LOCAL_SIZE: N / VECTOR rounded up to a power of two or to whole sub-groups, 32 to 256: few columns each, for they
 * take three sums' registers and more for each row. Any multiple of 8 is right. PART_ROWS: 1, 2 or 4. */
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
#ifndef PARTS
#define PARTS 1
#endif
#ifndef PART_ROWS
#define PART_ROWS 1
#endif
#include "dropout.h"
#include "row.h"

#define STATISTICS (NORM_DX || NORM_DW) /* z is needed */
#define HAS_Y (NORM_DX || RESIDUAL)
#define PART_SETS ((1 + BETA) * NORM_DW + (BIAS_SUM != BIAS_SUM_NONE)) /* vectors of a part's sums */

#define AT_ONCE PART_ROWS
#define TURN (PARTS * AT_ONCE) /* rows of one turn of all parts */
#define SUMS ((1 + NORM_DX) * AT_ONCE)

/* raw = the rows `first` to `first` + AT_ONCE - 1 of name, where some repeat at the end */
#define FETCH(raw, name, first)                                                                                        \
    UNROLL for (uint a = 0; a < AT_ONCE; a++)                                                                          \
    {                                                                                                                  \
        UNROLL for (uint i = 0; i < STEPS; i++)                                                                        \
        {                                                                                                              \
            FETCH_ACCESS(raw[a][i], name, min((first) + a, rows - 1) * N + column_inside(i));                          \
        }                                                                                                              \
    }

/* The same where there are such rows: a branch that all work-items take alike. */
#define FETCH_NEXT(raw, name)                                                                                          \
    if (row + TURN < rows) {                                                                                           \
        FETCH(raw, name, row + TURN);                                                                                  \
    }

/* raw = next, or zeros for rows past the end */
#define TAKE(raw, next)                                                                                                \
    UNROLL for (uint a = 0; a < AT_ONCE; a++)                                                                          \
    {                                                                                                                  \
        UNROLL for (uint i = 0; i < STEPS; i++) raw[a][i] = row + a < rows ? next[a][i] : (raw_access)(0);             \
    }

/* d of step i of row a of those held */
#if RESIDUAL && !ADDEND
#define UNPACK_D(a, i)                                                                                                 \
    UNPACK_ACCESS(raw_x[a][i], d);                                                                                     \
    UNPACK_ACCESS(raw_residual[a][i], r);                                                                              \
    UNROLL for (uint c = 0; c < ACCESS; c++) d[c] += r[c]
#else
#define UNPACK_D(a, i) UNPACK_ACCESS(raw_x[a][i], d)
#endif

/* The vector number `set` of this part's sums. */
#define STORE_PART(set, sums)                                                                                          \
    UNROLL for (uint i = 0; i < STEPS; i++)                                                                            \
    {                                                                                                                  \
        if (in_row(i)) {                                                                                               \
            STORE_FLOATS(partials, (group_number() * PART_SETS + (set)) * N + column_of(i), sums[i]);                  \
        }                                                                                                              \
    }

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void layernorm_backward(BATCH_ARGUMENT
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
    raw_access raw_residual[AT_ONCE][STEPS], next_residual[AT_ONCE][STEPS];
#endif
#if STATISTICS
    BEGIN(saved);
    raw_access raw_saved[AT_ONCE][STEPS], next_saved[AT_ONCE][STEPS];
    __local float scratch[GROUP_SUMS_WORDS(SUMS)];
#endif
#if BIAS_SUM == BIAS_SUM_OPERAND
    BEGIN(extra);
    raw_access raw_extra[AT_ONCE][STEPS], next_extra[AT_ONCE][STEPS];
#endif
#if HAS_Y
    BEGIN_OUTPUT(y);
#endif
#if SUM
    BEGIN_OUTPUT(sum);
#endif
    const uint first = group_number() * AT_ONCE, rows = batch[ROWS];
    if (first < rows && group_number() < PARTS) {
        raw_access raw_x[AT_ONCE][STEPS], next_x[AT_ONCE][STEPS];
        float gamma_sums[STEPS][ACCESS], beta_sums[STEPS][ACCESS], bias_sums[STEPS][ACCESS];
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) gamma_sums[i][c] = beta_sums[i][c] = bias_sums[i][c] = 0.0f;
        }
#if DROPOUT
        const uint4 key = dropout_key(batch, site);
#endif
#if NORM_DX
        BEGIN(gamma);
        float scale[STEPS][ACCESS];
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            LOAD_ACCESS(gamma, column_inside(i), scale[i]);
            UNROLL for (uint c = 0; c < ACCESS; c++) scale[i][c] = SCALE_OF(scale[i][c]);
        }
#endif
        FETCH(next_x, x, first);
#if RESIDUAL
        FETCH(next_residual, residual, first);
#endif
#if STATISTICS
        FETCH(next_saved, saved, first);
#endif
#if BIAS_SUM == BIAS_SUM_OPERAND
        FETCH(next_extra, extra, first);
#endif
        for (uint row = first; row < rows; row += TURN) {
            TAKE(raw_x, next_x);
            FETCH_NEXT(next_x, x);
#if RESIDUAL
            TAKE(raw_residual, next_residual);
            FETCH_NEXT(next_residual, residual);
#endif
#if STATISTICS
            TAKE(raw_saved, next_saved);
            FETCH_NEXT(next_saved, saved);
#endif
#if BIAS_SUM == BIAS_SUM_OPERAND
            TAKE(raw_extra, next_extra);
            FETCH_NEXT(next_extra, extra);
#endif
            float d[ACCESS], z[ACCESS], r[ACCESS]; /* r begins as what is added to it */
#if STATISTICS
            float mean[SUMS], part[SUMS]; /* of s, then of g */
            UNROLL for (uint a = 0; a < SUMS; a++) mean[a] = part[a] = 0.0f;
#if RMS == RMS_NONE
            UNROLL for (uint a = 0; a < AT_ONCE; a++)
            {
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    UNPACK_ACCESS(raw_saved[a][i], z);
                    UNROLL for (uint c = 0; c < ACCESS; c++) mean[a] += in_row(i) ? z[c] : 0.0f;
#if NORM_DX
                    UNPACK_D(a, i);
                    UNROLL for (uint c = 0; c < ACCESS; c++)
                        mean[AT_ONCE + a] += in_row(i) ? d[c] * scale[i][c] : 0.0f;
#endif
                }
            }
            group_sums(mean, SUMS, scratch);
            UNROLL for (uint a = 0; a < SUMS; a++) mean[a] *= 1.0f / (float)(N);
#endif
            UNROLL for (uint a = 0; a < AT_ONCE; a++)
            {
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    UNPACK_ACCESS(raw_saved[a][i], z);
#if NORM_DX
                    UNPACK_D(a, i);
#endif
                    UNROLL for (uint c = 0; c < ACCESS; c++)
                    {
                        z[c] -= mean[a];
                        part[a] = in_row(i) ? fma(z[c], z[c], part[a]) : part[a];
#if NORM_DX
                        part[AT_ONCE + a] =
                            in_row(i) ? fma(d[c] * scale[i][c], z[c], part[AT_ONCE + a]) : part[AT_ONCE + a];
#endif
                    }
                }
            }
            group_sums(part, SUMS, scratch);
#endif
            UNROLL for (uint a = 0; a < AT_ONCE; a++)
            {
#if STATISTICS
                const float rstd = rsqrt(fma(part[a], 1.0f / (float)(N), as_float((uint)(EPSILON))));
#endif
#if NORM_DX
                const float along = part[AT_ONCE + a] * (1.0f / (float)(N)) * rstd; /* mean(g * z) */
#endif
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    UNPACK_D(a, i);
#if STATISTICS
                    UNPACK_ACCESS(raw_saved[a][i], z);
#endif
#if ADDEND
                    UNPACK_ACCESS(raw_residual[a][i], r);
#endif
                    UNROLL for (uint c = 0; c < ACCESS; c++)
                    {
#if STATISTICS
                        z[c] = (z[c] - mean[a]) * rstd;
#endif
#if NORM_DW
                        gamma_sums[i][c] = fma(d[c], z[c], gamma_sums[i][c]);
                        beta_sums[i][c] += d[c];
#endif
#if NORM_DX
                        const float v = rstd * (fma(-z[c], along, d[c] * scale[i][c]) - mean[AT_ONCE + a]);
#else
                        const float v = d[c];
#endif
#if ADDEND
                        r[c] += v;
#else
                        r[c] = v;
#endif
                    }
#if SUM
                    if (row + a < rows && in_row(i)) {
                        STORE_ACCESS(sum, (row + a) * N + column_of(i), r);
                    }
#endif
#if DROPOUT
                    dropout_keyed(r, key, row + a, column_of(i));
#endif
#if BIAS_SUM == BIAS_SUM_RESULT
                    UNROLL for (uint c = 0; c < ACCESS; c++) bias_sums[i][c] += r[c];
#endif
#if BIAS_SUM == BIAS_SUM_OPERAND
                    float v[ACCESS];
                    UNPACK_ACCESS(raw_extra[a][i], v);
                    UNROLL for (uint c = 0; c < ACCESS; c++) bias_sums[i][c] += v[c];
#endif
#if HAS_Y
                    if (row + a < rows && in_row(i)) {
                        STORE_ACCESS(y, (row + a) * N + column_of(i), r);
                    }
#endif
                }
            }
        }
#if PART_SETS
        BEGIN_OUTPUT_OF(float, partials);
#endif
#if NORM_DW
        STORE_PART(0, gamma_sums);
#if BETA
        STORE_PART(1, beta_sums);
#endif
#endif
#if BIAS_SUM
        STORE_PART((1 + BETA) * NORM_DW, bias_sums);
#endif
#if STATISTICS
        LAST_BARRIER;
#endif
    }
}
