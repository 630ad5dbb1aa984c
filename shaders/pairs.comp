#version 450
#extension GL_GOOGLE_include_directive : require
/* Products of an example's rows X [columns][examples][N]. OF_FORWARD: Y [examples] is first . second, with SETS 3 first .
 * (second - third). OF_BACKWARD: X [examples] is the gradient of that, and Y [ROWS][N] becomes that of the rows, which
 * are SAVED. Twin of cl/pairs.cl.
 *
 * A work-group per row of the result; the order of a sum depends on LOCAL_SIZE, N and ACCESS alone. Any power of two is
 * right. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_SEQUENCES;
layout(constant_id = CONST_SETS) const uint SETS = 2;
layout(constant_id = CONST_FORM) const uint FORM = OF_FORWARD;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_SAVED, saved);
OUTPUT(SLOT_Y, y);

void main()
{
    const uint row = group_number(), examples = batch[HEADER_SEQUENCES];
    if (FORM == OF_BACKWARD) {
        if (row < batch[ROWS]) {
            const uint example = row % examples, second = example + examples, third = second + examples;
            const float d = row >= 2 * examples ? -LOAD(x, example) : LOAD(x, example);
            const uint from = row < examples ? second : example;
            for (uint column = local_number() * ACCESS; column < N; column += LOCAL_SIZE * ACCESS) {
                float v[VECTOR], other[VECTOR];
                LOAD_ACCESS(saved, from * N + column, v);
                UNROLL for (uint c = 0; c < VECTOR; c++) other[c] = 0.0;
                if (SETS > 2 && row < examples) {
                    LOAD_ACCESS(saved, third * N + column, other);
                }
                UNROLL for (uint c = 0; c < ACCESS; c++) v[c] = d * (v[c] - other[c]);
                STORE_ACCESS(y, row * N + column, v);
            }
        }
    } else if (row < batch[ROWS]) {
        const uint second = row + examples, third = second + examples;
        float part = 0.0;
        for (uint column = local_number() * ACCESS; column < N; column += LOCAL_SIZE * ACCESS) {
            float a[VECTOR], b[VECTOR], other[VECTOR];
            LOAD_ACCESS(x, row * N + column, a);
            LOAD_ACCESS(x, second * N + column, b);
            UNROLL for (uint c = 0; c < VECTOR; c++) other[c] = 0.0;
            if (SETS > 2) {
                LOAD_ACCESS(x, third * N + column, other);
            }
            UNROLL for (uint c = 0; c < ACCESS; c++) part = fma(a[c], b[c] - other[c], part);
        }
        const float sum = group_sum(part);
        if (local_number() == 0) STORE(y, row, sum);
    }
}
