/* The cosine and sine of each pair of channels of a token, by which rotary positions turn it: ANGLES[token][N], of
 * POSITION[length - 1][N], which has for each length of a text what a pair turns by from one position to the next. IDS
 * has each token's length less 1. Twin of shaders/angles.comp.
 *
 * One access per work-item, as rotary.cl. Any LOCAL_SIZE that is a power of two is right. */
#include "common.h"
#include "formulas.h"

#include "angles.h"

#ifndef N
#define N 2
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void angles(BATCH_ARGUMENT
    , INPUT_OF(uint, lengths)
    , INPUT_OF(uint, positions)
    , INPUT_OF(float, position)
    , OUTPUT_OF(float, angles)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(uint, lengths);
    BEGIN_OF(uint, positions);
    BEGIN_OF(float, position);
    BEGIN_OUTPUT_OF(float, angles);
    const uint at = (group_number() * LOCAL_SIZE + local_number()) * ACCESS;
    if (at < batch[ROWS] * N) {
        const uint token = at / N, from = lengths[token] * N + at % N, place = positions[token];
        UNROLL for (uint c = 0; c < ACCESS; c++)
        {
            const uint pair = (from + c) & ~1u; /* N is even */
            const float whole = position[pair], part = position[pair + 1];
            const uint units = angle_units(place, whole, part);
            angles[at + c] = angle_cosine((at + c) % 2 == 0 ? units : units - ANGLE_QUARTER, angle_rest(place, part));
        }
    }
}
