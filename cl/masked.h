/* Which keys a query sees and ALiBi's bias, for single scores. Twin of shaders/masked.glsl. */
#ifndef BEFORE
#define BEFORE 0
#endif
#ifndef AFTER
#define AFTER 0
#endif
#ifndef ALIBI
#define ALIBI 0
#endif
#include "formulas.h"
#include "mask.h"

/* A kernel for neither has none of it. */
#define MASKED (BEFORE > 0 || AFTER > 0)

/* A score before SCALE, of a key `offset` tokens after the query; slope: the head's over SCALE. */
INLINE float masked_score(const float score, const int offset, const float slope)
{
    const float biased = ALIBI != 0 ? fma(-slope, fabs((float)(offset)), score) : score;
    return !MASKED || mask_sees(offset, BEFORE, AFTER) ? biased : HIDDEN_SCORE;
}

/* Four scores, their keys `step` tokens after one another, the first one `offset` tokens after the query. */
INLINE float4 mask_quad(const float4 score, const int offset, const int step)
{
    return (float4)(mask_sees(offset, BEFORE, AFTER) ? score.x : HIDDEN_SCORE,
                    mask_sees(offset + step, BEFORE, AFTER) ? score.y : HIDDEN_SCORE,
                    mask_sees(offset + 2 * step, BEFORE, AFTER) ? score.z : HIDDEN_SCORE,
                    mask_sees(offset + 3 * step, BEFORE, AFTER) ? score.w : HIDDEN_SCORE);
}

/* What ALiBi adds to them. */
INLINE float4 alibi_quad(const float slope, const int offset, const int step)
{
    return -slope * (float4)(fabs((float)(offset)), fabs((float)(offset + step)), fabs((float)(offset + 2 * step)),
                             fabs((float)(offset + 3 * step)));
}

/* What the exponential of a score becomes. */
INLINE float masked_weight(const float score, const float weight)
{
    return !MASKED || score > 0.5f * HIDDEN_SCORE ? weight : 0.0f;
}

INLINE float4 masked_weights(const float4 score, const float4 weight)
{
    return (float4)(masked_weight(score.x, weight.x), masked_weight(score.y, weight.y),
                    masked_weight(score.z, weight.z), masked_weight(score.w, weight.w));
}
