#version 450
#extension GL_GOOGLE_include_directive : require
/* The gradients of a layernorm and of what stands around it. d = X (+ residual), s = saved, z = the standardized s;
 *   NORM_DX   r = rstd * (g - mean(g) - z * mean(g * z)) with g = d * gamma, else r = d; ADDEND: the residual is added
 *             to r, not to X. SUM: sum = r. Y = dropout(r), where there is NORM_DX or RESIDUAL.
 *   NORM_DW   partials of d * z and d, the gradients of gamma and beta (BETA);
 *   BIAS_SUM  partials of what goes to Y (RESULT) or of extra (OPERAND).
 * Twin of cl/layernorm_backward.cl.
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
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_RESIDUAL) const uint RESIDUAL = 0;
layout(constant_id = CONST_ADDEND) const uint ADDEND = 0;
layout(constant_id = CONST_EPSILON) const uint EPSILON = 0x2b8cbcccu; /* 1e-12 */
layout(constant_id = CONST_SUM) const uint SUM = 0;
layout(constant_id = CONST_NORM_DW) const uint NORM_DW = 0;
layout(constant_id = CONST_NORM_DX) const uint NORM_DX = 0;
layout(constant_id = CONST_BIAS_SUM) const uint BIAS_SUM = BIAS_SUM_NONE;
layout(constant_id = CONST_PARTS) const uint PARTS = 1;
layout(constant_id = CONST_PART_ROWS) const uint PART_ROWS = 1;
#include "row.glsl"

const uint STATISTICS = NORM_DX | NORM_DW; /* z is needed */
const uint HAS_Y = NORM_DX | RESIDUAL;
const uint PART_SETS = (1 + BETA) * NORM_DW + (BIAS_SUM != BIAS_SUM_NONE ? 1 : 0); /* vectors of a part's sums */

#define AT_ONCE PART_ROWS
const uint TURN = PARTS * AT_ONCE; /* rows of one turn of all parts */
const uint SUMS = (1 + NORM_DX) * AT_ONCE;
GROUP_SUMS

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
        UNROLL for (uint i = 0; i < STEPS; i++) raw[a][i] = row + a < rows ? next[a][i] : raw_access(0);               \
    }

/* d of step i of row a of those held */
#define UNPACK_D(a, i)                                                                                                 \
    UNPACK_ACCESS(raw_x[a][i], d);                                                                                     \
    if (RESIDUAL > ADDEND) {                                                                                           \
        UNPACK_ACCESS(raw_residual[a][i], r);                                                                          \
        UNROLL for (uint c = 0; c < ACCESS; c++) d[c] += r[c];                                                         \
    }

/* The vector number `set` of this part's sums. */
#define STORE_PART(set, sums)                                                                                          \
    UNROLL for (uint i = 0; i < STEPS; i++)                                                                            \
    {                                                                                                                  \
        if (in_row(i)) {                                                                                               \
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
    raw_access raw_residual[AT_ONCE][STEPS], next_residual[AT_ONCE][STEPS];
    raw_access raw_saved[AT_ONCE][STEPS], next_saved[AT_ONCE][STEPS];
    raw_access raw_extra[AT_ONCE][STEPS], next_extra[AT_ONCE][STEPS];
    const uint first = group_number() * AT_ONCE, rows = batch[ROWS];
    if (first < rows && group_number() < PARTS) {
        raw_access raw_x[AT_ONCE][STEPS], next_x[AT_ONCE][STEPS];
        float gamma_sums[STEPS][VECTOR], beta_sums[STEPS][VECTOR], bias_sums[STEPS][VECTOR];
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) gamma_sums[i][c] = beta_sums[i][c] = bias_sums[i][c] = 0.0;
        }
        const uvec4 key = dropout_key();
        float scale[STEPS][VECTOR];
        if (NORM_DX != 0) {
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                LOAD_ACCESS(gamma, column_inside(i), scale[i]);
                UNROLL for (uint c = 0; c < ACCESS; c++) scale[i][c] = SCALE_OF(scale[i][c]);
            }
        }
        FETCH(next_x, x, first);
        if (RESIDUAL != 0) {
            FETCH(next_residual, residual, first);
        }
        if (STATISTICS != 0) {
            FETCH(next_saved, saved, first);
        }
        if (BIAS_SUM == BIAS_SUM_OPERAND) {
            FETCH(next_extra, extra, first);
        }
        for (uint row = first; row < rows; row += TURN) {
            TAKE(raw_x, next_x);
            FETCH_NEXT(next_x, x);
            if (RESIDUAL != 0) {
                TAKE(raw_residual, next_residual);
                FETCH_NEXT(next_residual, residual);
            }
            if (STATISTICS != 0) {
                TAKE(raw_saved, next_saved);
                FETCH_NEXT(next_saved, saved);
            }
            if (BIAS_SUM == BIAS_SUM_OPERAND) {
                TAKE(raw_extra, next_extra);
                FETCH_NEXT(next_extra, extra);
            }
            float d[VECTOR], z[VECTOR], r[VECTOR]; /* r begins as what is added to it */
            float mean[SUMS];                      /* of s, then of g */
            if (STATISTICS != 0) {
                UNROLL for (uint a = 0; a < SUMS; a++) sums[a] = 0.0;
                if (RMS == RMS_NONE) {
                    UNROLL for (uint a = 0; a < AT_ONCE; a++)
                    {
                        UNROLL for (uint i = 0; i < STEPS; i++)
                        {
                            UNPACK_ACCESS(raw_saved[a][i], z);
                            UNROLL for (uint c = 0; c < ACCESS; c++) sums[a] += in_row(i) ? z[c] : 0.0;
                            if (NORM_DX != 0) {
                                UNPACK_D(a, i);
                                UNROLL for (uint c = 0; c < ACCESS; c++)
                                    sums[AT_ONCE + a] += in_row(i) ? d[c] * scale[i][c] : 0.0;
                            }
                        }
                    }
                    group_sums();
                }
                UNROLL for (uint a = 0; a < SUMS; a++)
                {
                    mean[a] = sums[a] * (1.0 / float(N));
                    sums[a] = 0.0;
                }
                UNROLL for (uint a = 0; a < AT_ONCE; a++)
                {
                    UNROLL for (uint i = 0; i < STEPS; i++)
                    {
                        UNPACK_ACCESS(raw_saved[a][i], z);
                        UNROLL for (uint c = 0; c < ACCESS; c++)
                        {
                            z[c] -= mean[a];
                            sums[a] = in_row(i) ? fma(z[c], z[c], sums[a]) : sums[a];
                        }
                        if (NORM_DX != 0) {
                            UNPACK_D(a, i);
                            UNROLL for (uint c = 0; c < ACCESS; c++)
                                sums[AT_ONCE + a] =
                                    in_row(i) ? fma(d[c] * scale[i][c], z[c], sums[AT_ONCE + a]) : sums[AT_ONCE + a];
                        }
                    }
                }
                group_sums();
            }
            UNROLL for (uint a = 0; a < AT_ONCE; a++)
            {
                float rstd = 1.0, along = 0.0; /* along: mean(g * z) */
                if (STATISTICS != 0) rstd = inversesqrt(fma(sums[a], 1.0 / float(N), uintBitsToFloat(EPSILON)));
                if (NORM_DX != 0) along = sums[AT_ONCE + a] * (1.0 / float(N)) * rstd;
                UNROLL for (uint i = 0; i < STEPS; i++)
                {
                    UNPACK_D(a, i);
                    if (STATISTICS != 0) {
                        UNPACK_ACCESS(raw_saved[a][i], z);
                    }
                    if (ADDEND != 0) {
                        UNPACK_ACCESS(raw_residual[a][i], r);
                    }
                    UNROLL for (uint c = 0; c < ACCESS; c++)
                    {
                        if (STATISTICS != 0) z[c] = (z[c] - mean[a]) * rstd;
                        if (NORM_DW != 0) {
                            gamma_sums[i][c] = fma(d[c], z[c], gamma_sums[i][c]);
                            beta_sums[i][c] += d[c];
                        }
                        float v = d[c];
                        if (NORM_DX != 0) v = rstd * (fma(-z[c], along, v * scale[i][c]) - mean[AT_ONCE + a]);
                        r[c] = ADDEND != 0 ? r[c] + v : v;
                    }
                    if (SUM != 0) {
                        if (row + a < rows && in_row(i)) {
                            STORE_ACCESS(sum, (row + a) * N + column_of(i), r);
                        }
                    }
                    if (DROPOUT != 0) {
                        dropout_keyed(r, key, row + a, column_of(i));
                    }
                    if (BIAS_SUM == BIAS_SUM_RESULT) {
                        UNROLL for (uint c = 0; c < ACCESS; c++) bias_sums[i][c] += r[c];
                    }
                    if (BIAS_SUM == BIAS_SUM_OPERAND) {
                        UNPACK_ACCESS(raw_extra[a][i], d);
                        UNROLL for (uint c = 0; c < ACCESS; c++) bias_sums[i][c] += d[c];
                    }
                    if (HAS_Y != 0) {
                        if (row + a < rows && in_row(i)) {
                            STORE_ACCESS(y, (row + a) * N + column_of(i), r);
                        }
                    }
                }
            }
        }
        if (NORM_DW != 0) {
            STORE_PART(0, gamma_sums);
            if (BETA != 0) {
                STORE_PART(1, beta_sums);
            }
        }
        if (BIAS_SUM != 0) {
            STORE_PART((1 + BETA) * NORM_DW, bias_sums);
        }
    }
}
