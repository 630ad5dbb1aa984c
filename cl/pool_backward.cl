/* The gradient of pool: X [sequences][N] is that of a sequence's row, Y [tokens][N] becomes that of its tokens. The
 * mean gives each token X / length, POOL_CLS X to the first token, POOL_LAST to the last, POOL_MAX a column's X to the first of the tokens
 * whose value of it in SAVED is the largest; others get 0. POOL_NONE with NORMALIZE: Y = (X - n (n . X)) / |SAVED|,
 * where n = SAVED / |SAVED| and lengths count as 1e-12 at least, row by row. A token per work-group, for POOL_MAX a
 * sequence. Twin of shaders/pool_backward.comp.
 *
 * LOCAL_SIZE: as layernorm, for POOL_MAX as pool, because sequences are few. Any power of two is right. */
#include "common.h"

#ifndef POOL
#define POOL POOL_NONE
#endif
#ifndef NORMALIZE
#define NORMALIZE 0
#endif
#include "row.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void pool_backward(BATCH_ARGUMENT
    , INPUT(x)
#if POOL == POOL_MAX || NORMALIZE
    , INPUT(saved)
#endif
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OUTPUT(y);
#if POOL == POOL_MAX || NORMALIZE
    BEGIN(saved);
    float gradient[STEPS][ACCESS];
#endif
#if NORMALIZE
    __local float scratch[REDUCE_WORDS];
#endif
    const uint row = group_number();
    if (row < batch[ROWS]) {
        const uint offsets = batch[HEADER_AT_OFFSETS];
        float held[STEPS][ACCESS];
#if POOL == POOL_MAX
        uint best[STEPS][ACCESS]; /* the token whose value is in `held` */
        const uint first = batch[offsets + row], end = batch[offsets + row + 1];
        ROW_LOAD(saved, first * N);
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) best[i][c] = first;
            LOAD_ACCESS(x, row * N + column_inside(i), gradient[i]);
        }
        for (uint token = first + 1; token < end; token++) {
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                float value[ACCESS];
                LOAD_ACCESS(saved, token * N + column_inside(i), value);
                UNROLL for (uint c = 0; c < ACCESS; c++)
                {
                    best[i][c] = value[c] > held[i][c] ? token : best[i][c];
                    held[i][c] = max(held[i][c], value[c]);
                }
            }
        }
        for (uint token = first; token < end; token++) {
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] = best[i][c] == token ? gradient[i][c] : 0.0f;
            }
            ROW_STORE(y, token * N);
        }
#elif NORMALIZE
        ROW_LOAD(saved, row * N);
        UNROLL for (uint i = 0; i < STEPS; i++) { LOAD_ACCESS(x, row * N + column_inside(i), gradient[i]); }
        const float scale = 1.0f / max(sqrt(row_square_sum(held, scratch)), 1e-12f);
        row_scale(held, scale);
        float part = 0.0f;
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++)
                part = column_of(i) < N ? fma(held[i][c], gradient[i][c], part) : part;
        }
        const float along = group_sum(part, scratch);
        UNROLL for (uint i = 0; i < STEPS; i++)
        {
            UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] = fma(-along, held[i][c], gradient[i][c]);
        }
        row_scale(held, scale);
        ROW_STORE(y, row * N);
        barrier(CLK_LOCAL_MEM_FENCE); /* PoCL: see LAST_BARRIER in product.h */
#else
        const uint sequence = batch[batch[HEADER_AT_TOKEN_SEQUENCE] + row];
        const uint first = batch[offsets + sequence], count = batch[offsets + sequence + 1] - first;
        ROW_LOAD(x, sequence * N);
        row_scale(held, POOL == POOL_MEAN ? 1.0f / (float)count : row == first + (POOL == POOL_LAST ? count - 1 : 0) ? 1.0f : 0.0f);
        ROW_STORE(y, row * N);
#endif
    }
}
