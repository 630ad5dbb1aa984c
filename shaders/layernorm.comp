#version 450
#extension GL_GOOGLE_include_directive : require
/* s = dropout(X + bias) + residual, Y = (s - mean) / sqrt(variance + epsilon) * gamma + beta, a row per team; SUM
 * also stores s. Twin of cl/layernorm.cl.
 *
 * TEAM: N / (4 * VECTOR) rounded to a power of two, from 8 to 256. Then a work-item has four 16-byte loads of each
 * operand in flight, and a short row is one sub-group, whose barriers cost little. LOCAL_SIZE is as much, or 64 where
 * that is several teams. Any powers of two are right. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_BIAS) const uint BIAS = 0;
layout(constant_id = CONST_RESIDUAL) const uint RESIDUAL = 0;
layout(constant_id = CONST_SUM) const uint SUM = 0;
layout(constant_id = CONST_EPSILON) const uint EPSILON = 0x2b8cbcccu; /* 1e-12 */
#include "row.glsl"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_BIAS, bias);
INPUT(SLOT_RESIDUAL, residual);
INPUT(SLOT_GAMMA, gamma);
INPUT(SLOT_BETA, beta);
OUTPUT(SLOT_Y, y);
OUTPUT(SLOT_SUM, sum);
#include "dropout.glsl"

void main()
{
    if (FIRST_ROW < batch[ROWS]) {
        BEGIN_ROW;
        ROW_LOAD(x, row * N);
        if (BIAS != 0) {
            ROW_ADD(bias, 0);
        }
        if (DROPOUT != 0) {
            ROW_DROPOUT(row);
        }
        if (RESIDUAL != 0) {
            ROW_ADD(residual, row * N);
        }
        if (SUM != 0) {
            if (stored) {
                ROW_STORE(sum, row * N);
            }
        }
        row_standardize(uintBitsToFloat(EPSILON));
        ROW_SCALE_SHIFT(gamma, beta);
        if (stored) {
            ROW_STORE(y, row * N);
        }
    }
}
