/* Scores of a token's experts: what route and its gradient share. Twin of shaders/experts.glsl. */
#ifndef EXPERTS
#define EXPERTS 1
#endif
#ifndef CHOSEN
#define CHOSEN 1
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif
#ifndef NORMALIZED
#define NORMALIZED 0
#endif

/* exp2, as softmax has it: all drivers have that of it alike. */
INLINE float score_exp(const float x) { return exp2(x * 1.44269504f); }

INLINE float scores_peak(__global const storage *scores, const uint token)
{
    float peak = LOAD(scores, token * EXPERTS);
    for (uint e = 1; e < EXPERTS; e++) peak = max(peak, LOAD(scores, token * EXPERTS + e));
    return peak;
}

INLINE float scores_sum(__global const storage *scores, const uint token, const float peak)
{
    float sum = 0.0f;
    for (uint e = 0; e < EXPERTS; e++) sum += score_exp(LOAD(scores, token * EXPERTS + e) - peak);
    return sum;
}
