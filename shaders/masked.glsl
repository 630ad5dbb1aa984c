/* Which keys a query sees and ALiBi's bias, for single scores and four of them. Twin of cl/masked.h. */
layout(constant_id = CONST_BEFORE) const uint GIVEN_BEFORE = 0;
layout(constant_id = CONST_AFTER) const uint GIVEN_AFTER = 0;
layout(constant_id = CONST_ALIBI) const uint ALIBI = 0;
#define BEFORE int(GIVEN_BEFORE)
#define AFTER int(GIVEN_AFTER)
#include "formulas.h"
#include "mask.h"

/* A kernel for neither has none of it. */
#define MASKED (GIVEN_BEFORE > 0 || GIVEN_AFTER > 0)

/* A score before SCALE, of a key `offset` tokens after the query; slope: the head's over SCALE. */
float masked_score(const float score, const int offset, const float slope)
{
    const float biased = ALIBI != 0 ? fma(-slope, float(abs(offset)), score) : score;
    return !MASKED || mask_sees(offset, BEFORE, AFTER) ? biased : HIDDEN_SCORE;
}

/* Four scores, their keys `step` tokens after one another, the first one `offset` tokens after the query. */
vec4 mask_quad(const vec4 score, const int offset, const int step)
{
    return vec4(mask_sees(offset, BEFORE, AFTER) ? score.x : HIDDEN_SCORE,
                mask_sees(offset + step, BEFORE, AFTER) ? score.y : HIDDEN_SCORE,
                mask_sees(offset + 2 * step, BEFORE, AFTER) ? score.z : HIDDEN_SCORE,
                mask_sees(offset + 3 * step, BEFORE, AFTER) ? score.w : HIDDEN_SCORE);
}

/* What ALiBi adds to them. */
vec4 alibi_quad(const float slope, const int offset, const int step)
{
    return -slope * vec4(abs(offset + step * ivec4(0, 1, 2, 3)));
}

/* What the exponential of a score becomes. */
float masked_weight(const float score, const float weight)
{
    return !MASKED || score > 0.5 * HIDDEN_SCORE ? weight : 0.0;
}

vec4 masked_weights(const vec4 score, const vec4 weight)
{
    return vec4(masked_weight(score.x, weight.x), masked_weight(score.y, weight.y), masked_weight(score.z, weight.z),
                masked_weight(score.w, weight.w));
}
