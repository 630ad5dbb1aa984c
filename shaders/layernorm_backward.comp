#version 450
#extension GL_GOOGLE_include_directive : require
/* The gradients of a layernorm and of what stands around it. d = X (+ residual), s = saved, z = the standardized s;
 *   NORM_DX   r = rstd * (g - mean(g) - z * mean(g * z)) with g = d * gamma, else r = d; ADDEND: the residual is added
 *             to r, not to X. SUM: sum = r. Y = dropout(r), where there is NORM_DX or RESIDUAL.
 *   NORM_DW   partials of d * z and d, the gradients of gamma and beta;
 *   BIAS_SUM  partials of what goes to Y (RESULT) or of extra (OPERAND).
 * Twin of cl/layernorm_backward.cl.
 *
 * A work-group walks over the PART_ROWS rows of one part; the sums over rows stay in the registers of the work-item
 * that owns the columns and are stored once. The next row's loads are on the way during the current row's reductions,
 * of which there are two, of two sums each: s and g; then (s - mean)^2 and g * (s - mean), which wait for the mean.
 * LOCAL_SIZE: N / 8 rounded up to a power of two, from 32 to 256: few columns a work-item, because each of them takes
 * up to ten registers. Any power of two is right. */
#define REDUCE
#define REDUCE_PAIRS
#include "common.glsl"

layout(constant_id = CONST_RESIDUAL) const uint RESIDUAL = 0;
layout(constant_id = CONST_ADDEND) const uint ADDEND = 0;
layout(constant_id = CONST_EPSILON) const uint EPSILON = 0x2b8cbcccu; /* 1e-12 */
layout(constant_id = CONST_SUM) const uint SUM = 0;
layout(constant_id = CONST_NORM_DW) const uint NORM_DW = 0;
layout(constant_id = CONST_NORM_DX) const uint NORM_DX = 0;
layout(constant_id = CONST_BIAS_SUM) const uint BIAS_SUM = BIAS_SUM_NONE;
layout(constant_id = CONST_PART_ROWS) const uint PART_ROWS = 1;
#include "row.glsl"

const uint STATISTICS = NORM_DX | NORM_DW; /* z is needed */
const uint HAS_Y = NORM_DX | RESIDUAL;
const uint PART_SETS = 2 * NORM_DW + (BIAS_SUM != BIAS_SUM_NONE ? 1 : 0); /* vectors of a part's sums */

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

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_RESIDUAL, residual);
INPUT(SLOT_GAMMA, gamma);
INPUT(SLOT_SAVED, saved);
OUTPUT_OF(SLOT_PARTIALS, float, partials);
OUTPUT_OF(SLOT_PARTIALS, vec4, partials_quads);
INPUT(SLOT_EXTRA, extra);
OUTPUT(SLOT_Y, y);
OUTPUT(SLOT_SUM, sum);
#include "dropout.glsl"

void main()
{
    raw_access next_residual[STEPS], next_saved[STEPS], next_extra[STEPS];
    const uint first = group_number() * PART_ROWS, end = min(first + PART_ROWS, batch[ROWS]);
    if (first < end) {
        raw_access next_x[STEPS];
        float gamma_sums[STEPS][VECTOR], beta_sums[STEPS][VECTOR], bias_sums[STEPS][VECTOR];
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) gamma_sums[i][c] = beta_sums[i][c] = bias_sums[i][c] = 0.0;
        }
        float scale[STEPS][VECTOR];
        if (NORM_DX != 0) {
            UNROLL for (uint i = 0; i < STEPS; i++) { LOAD_ACCESS(gamma, column_inside(i), scale[i]); }
        }
        FETCH(next_x, x, first * N);
        if (RESIDUAL != 0) {
            FETCH(next_residual, residual, first * N);
        }
        if (STATISTICS != 0) {
            FETCH(next_saved, saved, first * N);
        }
        if (BIAS_SUM == BIAS_SUM_OPERAND) {
            FETCH(next_extra, extra, first * N);
        }
        for (uint row = first; row < end; row++) {
            float d[STEPS][VECTOR], z[STEPS][VECTOR], r[STEPS][VECTOR]; /* r begins as what is added to it */
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNPACK_ACCESS(next_x[i], d[i]);
                if (RESIDUAL != 0) {
                    UNPACK_ACCESS(next_residual[i], r[i]);
                    if (ADDEND == 0) {
                        UNROLL for (uint c = 0; c < ACCESS; c++) d[i][c] += r[i][c];
                    }
                }
                if (STATISTICS != 0) {
                    UNPACK_ACCESS(next_saved[i], z[i]);
                }
                if (BIAS_SUM == BIAS_SUM_OPERAND) {
                    float v[VECTOR];
                    UNPACK_ACCESS(next_extra[i], v);
                    UNROLL for (uint c = 0; c < ACCESS; c++) bias_sums[i][c] += v[c];
                }
            }
            if (row + 1 < end) {
                FETCH(next_x, x, (row + 1) * N);
                if (RESIDUAL != 0) {
                    FETCH(next_residual, residual, (row + 1) * N);
                }
                if (STATISTICS != 0) {
                    FETCH(next_saved, saved, (row + 1) * N);
                }
                if (BIAS_SUM == BIAS_SUM_OPERAND) {
                    FETCH(next_extra, extra, (row + 1) * N);
                }
            }
            float mean_g = 0.0, rstd = 1.0, along = 0.0;
            if (STATISTICS != 0) {
                vec2 part = vec2(0.0);
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    UNROLL for (uint c = 0; c < ACCESS; c++)
                    {
                        part.x += column_of(i) < N ? z[i][c] : 0.0;
                        if (NORM_DX != 0) part.y += column_of(i) < N ? d[i][c] * scale[i][c] : 0.0;
                    }
                }
                const vec2 mean = group_sum2(part, 0) / float(N);
                mean_g = mean.y;
                part = vec2(0.0);
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    UNROLL for (uint c = 0; c < ACCESS; c++)
                    {
                        z[i][c] -= mean.x;
                        part.x = column_of(i) < N ? fma(z[i][c], z[i][c], part.x) : part.x;
                        if (NORM_DX != 0)
                            part.y = column_of(i) < N ? fma(d[i][c] * scale[i][c], z[i][c], part.y) : part.y;
                    }
                }
                part = group_sum2(part, 1) / float(N);
                rstd = 1.0 / sqrt(part.x + uintBitsToFloat(EPSILON));
                along = part.y * rstd; /* mean(g * z) */
            }
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++)
                {
                    if (STATISTICS != 0) z[i][c] *= rstd;
                    if (NORM_DW != 0) {
                        gamma_sums[i][c] = fma(d[i][c], z[i][c], gamma_sums[i][c]);
                        beta_sums[i][c] += d[i][c];
                    }
                    float v = d[i][c];
                    if (NORM_DX != 0) v = rstd * (fma(-z[i][c], along, v * scale[i][c]) - mean_g);
                    r[i][c] = ADDEND != 0 ? r[i][c] + v : v;
                }
                if (SUM != 0) {
                    if (column_of(i) < N) {
                        STORE_ACCESS(sum, row * N + column_of(i), r[i]);
                    }
                }
                if (DROPOUT != 0) {
                    dropout_access(r[i], row, column_of(i));
                }
                if (BIAS_SUM == BIAS_SUM_RESULT) {
                    UNROLL for (uint c = 0; c < ACCESS; c++) bias_sums[i][c] += r[i][c];
                }
                if (HAS_Y != 0) {
                    if (column_of(i) < N) {
                        STORE_ACCESS(y, row * N + column_of(i), r[i]);
                    }
                }
            }
        }
        if (NORM_DW != 0) {
            STORE_PART(0, gamma_sums);
            STORE_PART(1, beta_sums);
        }
        if (BIAS_SUM != 0) {
            STORE_PART(2 * NORM_DW, bias_sums);
        }
    }
}
