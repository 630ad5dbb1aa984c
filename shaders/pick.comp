#version 450
#extension GL_GOOGLE_include_directive : require
/* Y [ROWS][N]: row IDS[r] of X for each row r, and 0 where that is NO_ROW: the rows of tokens that have a label, and the
 * gradients of all tokens' from theirs. Twin of cl/pick.cl.
 *
 * A work-group per row of Y. Any LOCAL_SIZE is right. */
#include "common.glsl"

layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_LABELLED;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT_OF(SLOT_IDS, uint, ids);
OUTPUT(SLOT_Y, y);

void main()
{
    const uint row = group_number();
    if (row < batch[ROWS]) {
        const uint from = ids[row];
        for (uint column = local_number() * ACCESS; column < N; column += LOCAL_SIZE * ACCESS) {
            float v[VECTOR];
            UNROLL for (uint c = 0; c < VECTOR; c++) v[c] = 0.0;
            if (from != NO_ROW) {
                LOAD_ACCESS(x, from * N + column, v);
            }
            STORE_ACCESS(y, row * N + column, v);
        }
    }
}
