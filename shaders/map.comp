#version 450
#extension GL_GOOGLE_include_directive : require
/* Y = SCALE * dropout(activation(X + bias)) * derivative(saved) + residual, element by element over rows of N; SUM also stores
 * X + bias. RUNTIME_N: over M rows of as many as the batch has, Y_STRIDE apart; the bias is by row. Twin of
 * cl/map.cl.
 *
 * One access of each operand per work-item: what hides the latency is the number of work-items, so LOCAL_SIZE is what
 * fills a compute unit, 128 or 256. Any power of two is right. */
#include "common.glsl"

layout(constant_id = CONST_M) const uint M = 1;
layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;
layout(constant_id = CONST_BIAS) const uint BIAS = 0;
layout(constant_id = CONST_ACTIVATION) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = CONST_RESIDUAL) const uint RESIDUAL = 0;
layout(constant_id = CONST_DERIVATIVE) const uint DERIVATIVE = ACTIVATION_NONE;
layout(constant_id = CONST_SUM) const uint SUM = 0;
layout(constant_id = CONST_SCALE) const uint SCALE = 0x3f800000u; /* 1 */
layout(constant_id = CONST_RUNTIME) const uint RUNTIME = RUNTIME_FORM;
layout(constant_id = CONST_Y_STRIDE) const uint Y_STRIDE = 0;
#define BATCH_N (RUNTIME == RUNTIME_N)
#include "formulas.h"
#include "slopes.h"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_BIAS, bias);
INPUT(SLOT_RESIDUAL, residual);
INPUT(SLOT_SAVED, saved);
OUTPUT(SLOT_Y, y);
OUTPUT(SLOT_SUM, sum);
#include "dropout.glsl"

void main()
{
    const uint item = group_number() * LOCAL_SIZE + local_number();
    const uint of_row = max((batch[ROWS] + ACCESS - 1) / ACCESS, 1u);
    const uint row = item / of_row, column = item % of_row * ACCESS;
    const uint at = BATCH_N ? row * Y_STRIDE + column : item * ACCESS;
    if (BATCH_N ? row < M && column < batch[ROWS] : at < batch[ROWS] * N) {
        float v[VECTOR];
        LOAD_ACCESS(x, at, v);
        if (BIAS != 0 && BATCH_N) {
            const float b = LOAD(bias, row);
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] += b;
        } else if (BIAS != 0) {
            float b[VECTOR];
            LOAD_ACCESS(bias, at % N, b);
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] += b[c];
        }
        if (SUM != 0) {
            STORE_ACCESS(sum, at, v);
        }
        UNROLL for (uint c = 0; c < ACCESS; c++) v[c] = activate_or_slope(ACTIVATION, v[c]);
        if (SCALE != 0x3f800000u) {
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] *= uintBitsToFloat(SCALE);
        }
        if (DROPOUT != 0 && BATCH_N) {
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] *= dropout_factor(dropout_key(), column + c, row);
        } else if (DROPOUT != 0) {
            dropout_access(v, at / N, at % N);
        }
        if (DERIVATIVE != 0) {
            float s[VECTOR];
            LOAD_ACCESS(saved, at, s);
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] *= derivative_or_given(DERIVATIVE, s[c]);
        }
        if (RESIDUAL != 0) {
            float r[VECTOR];
            LOAD_ACCESS(residual, at, r);
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] += r[c];
        }
        STORE_ACCESS(y, at, v);
    }
}
