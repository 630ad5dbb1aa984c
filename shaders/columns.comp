#version 450
#extension GL_GOOGLE_include_directive : require
/* v = dropout(X) * derivative(saved), and partials [part][N] = the sum of v over the PART_ROWS rows of each part;
 * COLUMN_SUMS 1 also stores v to Y, 2 the sums alone. Twin of cl/columns.cl.
 *
 * A work-group walks over one part's rows of TILE_N = LOCAL_SIZE * ACCESS columns, which belong to its work-items: a
 * column is summed in ascending order in one register. AT_ONCE rows' loads are in flight, the last rows' too, where
 * some repeat. LOCAL_SIZE: the power of two up to 256 that leaves the fewest work-items idle. Any is right. */
#include "common.glsl"

layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;
layout(constant_id = CONST_X_STRIDE) const uint GIVEN_X_STRIDE = 0; /* 0: rows without gaps */
layout(constant_id = CONST_DERIVATIVE) const uint DERIVATIVE = ACTIVATION_NONE;
layout(constant_id = CONST_COLUMN_SUMS) const uint COLUMN_SUMS = 1;
layout(constant_id = CONST_PART_ROWS) const uint PART_ROWS = 1;
#include "formulas.h"

#define TILES ((N + LOCAL_SIZE * ACCESS - 1) / (LOCAL_SIZE * ACCESS))
const uint AT_ONCE = DERIVATIVE != ACTIVATION_NONE ? 4 : 8;

#define X_STRIDE (GIVEN_X_STRIDE != 0 ? GIVEN_X_STRIDE : N)

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_SAVED, saved);
OUTPUT_OF(SLOT_PARTIALS, float, partials);
OUTPUT_OF(SLOT_PARTIALS, vec4, partials_quads);
OUTPUT(SLOT_Y, y);
#include "dropout.glsl"

void main()
{
    const uint column = (group_number() % TILES * LOCAL_SIZE + local_number()) * ACCESS;
    const uint part = group_number() / TILES;
    const uint end = min((part + 1) * PART_ROWS, batch[ROWS]);
    if (part * PART_ROWS < end && column < N) {
        float sum[VECTOR];
        UNROLL for (uint c = 0; c < ACCESS; c++) sum[c] = 0.0;
        for (uint first = part * PART_ROWS; first < end; first += AT_ONCE) {
            raw_access raw[AT_ONCE], raw_saved[AT_ONCE];
            UNROLL for (uint r = 0; r < AT_ONCE; r++)
            {
                FETCH_ACCESS(raw[r], x, min(first + r, end - 1) * X_STRIDE + column);
                if (DERIVATIVE != 0) {
                    FETCH_ACCESS(raw_saved[r], saved, min(first + r, end - 1) * N + column);
                }
            }
            UNROLL for (uint r = 0; r < AT_ONCE; r++)
            {
                if (first + r < end) {
                    float v[VECTOR];
                    UNPACK_ACCESS(raw[r], v);
                    if (KEPT != 0) {
                        UNROLL for (uint c = 0; c < ACCESS; c++) v[c] *= DROPOUT_SCALE;
                    } else if (DROPOUT != 0) {
                        dropout_access(v, first + r, column);
                    }
                    if (DERIVATIVE != 0) {
                        float s[VECTOR];
                        UNPACK_ACCESS(raw_saved[r], s);
                        UNROLL for (uint c = 0; c < ACCESS; c++) v[c] *= derivative(DERIVATIVE, s[c]);
                    }
                    if (COLUMN_SUMS == 1) {
                        STORE_ACCESS(y, (first + r) * N + column, v);
                    }
                    UNROLL for (uint c = 0; c < ACCESS; c++) sum[c] += v[c];
                }
            }
        }
        STORE_FLOATS(partials, part * N + column, sum);
    }
}
