#version 450
#extension GL_GOOGLE_include_directive : require
/* Y = layernorm(word[ids] or X, + position[positions], + type[types]), any of these, a token per team; SUM also
 * stores what the layernorm reads. Ids are trusted: the host compares them with the tables' sizes. Where M is given,
 * WORD has the M rows of its table that come after W_OFFSET elements, and only their tokens' rows are written. Twin of
 * cl/embed.cl.
 *
 * LOCAL_SIZE, TEAM: as layernorm; one team without NORM. */
#define REDUCE
#include "common.glsl"

layout(constant_id = CONST_WORD) const uint WORD = 0;
layout(constant_id = CONST_POSITION) const uint POSITION = 0;
layout(constant_id = CONST_TYPE) const uint TYPE = 0;
layout(constant_id = CONST_NORM) const uint NORM = 0;
layout(constant_id = CONST_SUM) const uint SUM = 0;
layout(constant_id = CONST_M) const uint M = 0;
layout(constant_id = CONST_W_OFFSET) const uint W_OFFSET = 0;
layout(constant_id = CONST_EPSILON) const uint EPSILON = 0x2b8cbcccu; /* 1e-12 */
#include "row.glsl"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_GAMMA, gamma);
INPUT(SLOT_BETA, beta);
INPUT_OF(SLOT_IDS, uint, ids);
INPUT(SLOT_WORD, word);
INPUT_OF(SLOT_POSITIONS, uint, positions);
INPUT(SLOT_POSITION, position);
INPUT_OF(SLOT_TYPES, uint, types);
INPUT(SLOT_TYPE, type);
OUTPUT(SLOT_Y, y);
OUTPUT(SLOT_SUM, sum);

void main()
{
    if (FIRST_ROW < batch[ROWS]) {
        BEGIN_ROW;
        bool here = stored;
        if (WORD != 0) {
            const uint asked = ids[row] - W_OFFSET / N; /* wraps around where it is before them */
            here = stored && (M == 0 || asked < M);
            ROW_LOAD(word, (M == 0 || asked < M ? asked : 0) * N);
        } else {
            ROW_LOAD(x, row * N);
        }
        if (POSITION != 0) {
            ROW_ADD(position, positions[row] * N);
        }
        if (TYPE != 0) {
            ROW_ADD(type, types[row] * N);
        }
        if (SUM != 0) {
            if (here) {
                ROW_STORE(sum, row * N);
            }
        }
        if (NORM != 0) {
            row_standardize(uintBitsToFloat(EPSILON));
            ROW_SCALE_SHIFT(gamma, beta);
        }
        if (here) {
            ROW_STORE(y, row * N);
        }
    }
}
