/* Products of an example's rows X [columns][examples][N]. OF_FORWARD: Y [examples] is first . second, with SETS 3 first .
 * (second - third). OF_BACKWARD: X [examples] is the gradient of that, and Y [ROWS][N] becomes that of the rows, which
 * are SAVED. Twin of shaders/pairs.comp.
 *
 * A work-group per row of the result; the order of a sum depends on LOCAL_SIZE, N and ACCESS alone. Any power of two is
 * right. */
#include "common.h"

#ifndef N
#define N 1
#endif
#ifndef ROWS
#define ROWS HEADER_SEQUENCES
#endif
#ifndef SETS
#define SETS 2
#endif
#ifndef FORM
#define FORM OF_FORWARD
#endif

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void pairs(BATCH_ARGUMENT
    , INPUT(x)
#if FORM == OF_BACKWARD
    , INPUT(saved)
#endif
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OUTPUT(y);
    const uint row = group_number(), examples = batch[HEADER_SEQUENCES];
#if FORM == OF_BACKWARD
    BEGIN(saved);
    if (row < batch[ROWS]) {
        const uint example = row % examples, second = example + examples, third = second + examples;
        const float d = row >= 2 * examples ? -LOAD(x, example) : LOAD(x, example);
        const uint from = row < examples ? second : example;
        for (uint column = local_number() * ACCESS; column < N; column += LOCAL_SIZE * ACCESS) {
            float v[ACCESS], other[ACCESS];
            LOAD_ACCESS(saved, from * N + column, v);
            UNROLL for (uint c = 0; c < ACCESS; c++) other[c] = 0.0f;
            if (SETS > 2 && row < examples) {
                LOAD_ACCESS(saved, third * N + column, other);
            }
            UNROLL for (uint c = 0; c < ACCESS; c++) v[c] = d * (v[c] - other[c]);
            STORE_ACCESS(y, row * N + column, v);
        }
    }
#else
    __local float scratch[REDUCE_WORDS];
    if (row < batch[ROWS]) {
        const uint second = row + examples, third = second + examples;
        float part = 0.0f;
        for (uint column = local_number() * ACCESS; column < N; column += LOCAL_SIZE * ACCESS) {
            float a[ACCESS], b[ACCESS], other[ACCESS];
            LOAD_ACCESS(x, row * N + column, a);
            LOAD_ACCESS(x, second * N + column, b);
            UNROLL for (uint c = 0; c < ACCESS; c++) other[c] = 0.0f;
            if (SETS > 2) {
                LOAD_ACCESS(x, third * N + column, other);
            }
            UNROLL for (uint c = 0; c < ACCESS; c++) part = fma(a[c], b[c] - other[c], part);
        }
        const float sum = group_sum(part, scratch);
        if (local_number() == 0) STORE(y, row, sum);
        LAST_BARRIER;
    }
#endif
}
