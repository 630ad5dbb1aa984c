#version 450
#extension GL_GOOGLE_include_directive : require
/* The gradient of pool: X [sequences][N] is that of a sequence's row, Y [tokens][N] becomes that of its tokens. The
 * mean gives each token X / length, POOL_CLS X to the first token, POOL_LAST to the last, POOL_MAX a column's X to the first of the tokens
 * whose value of it in SAVED is the largest; others get 0. POOL_NONE with NORMALIZE: Y = (X - n (n . X)) / |SAVED|,
 * where n = SAVED / |SAVED| and lengths count as 1e-12 at least, row by row. A token per work-group, for POOL_MAX a
 * sequence. Twin of cl/pool_backward.cl.
 *
 * LOCAL_SIZE: as layernorm, for POOL_MAX as pool, because sequences are few. Any power of two is right. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_POOL) const uint POOL = POOL_NONE;
layout(constant_id = CONST_NORMALIZE) const uint NORMALIZE = 0;
#include "row.glsl"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_SAVED, saved);
OUTPUT(SLOT_Y, y);

float gradient[STEPS][VECTOR];
uint best[STEPS][VECTOR]; /* the token whose value is in `held` */

void main()
{
    const uint row = group_number();
    if (row < batch[ROWS]) {
        const uint offsets = batch[HEADER_AT_OFFSETS];
        if (POOL == POOL_MAX) {
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
                    float value[VECTOR];
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
                    UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] = best[i][c] == token ? gradient[i][c] : 0.0;
                }
                ROW_STORE(y, token * N);
            }
        } else if (NORMALIZE != 0) {
            ROW_LOAD(saved, row * N);
            UNROLL for (uint i = 0; i < STEPS; i++) { LOAD_ACCESS(x, row * N + column_inside(i), gradient[i]); }
            const float scale = 1.0 / max(sqrt(row_square_sum()), 1e-12);
            row_scale(scale);
            float part = 0.0;
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++)
                    part = column_of(i) < N ? fma(held[i][c], gradient[i][c], part) : part;
            }
            const float along = group_sum(part);
            UNROLL for (uint i = 0; i < STEPS; i++)
            {
                UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] = fma(-along, held[i][c], gradient[i][c]);
            }
            row_scale(scale);
            ROW_STORE(y, row * N);
        } else {
            const uint sequence = batch[batch[HEADER_AT_TOKEN_SEQUENCE] + row];
            const uint first = batch[offsets + sequence], count = batch[offsets + sequence + 1] - first;
            ROW_LOAD(x, sequence * N);
            row_scale(POOL == POOL_MEAN ? 1.0 / float(count) : row == first + (POOL == POOL_LAST ? count - 1 : 0) ? 1.0 : 0.0);
            ROW_STORE(y, row * N);
        }
    }
}
