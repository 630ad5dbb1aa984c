/* Scores of a token's experts: what route and its gradient share, of which SCORES is the argument that has them. Twin of
 * cl/experts.h. */
layout(constant_id = CONST_EXPERTS) const uint EXPERTS = 1;
layout(constant_id = CONST_CHOSEN) const uint CHOSEN = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;
layout(constant_id = CONST_NORMALIZED) const uint NORMALIZED = 0;

/* exp2, as softmax has it: all drivers have that of it alike. */
float score_exp(const float x) { return exp2(x * 1.44269504); }

float scores_peak(const uint token)
{
    float peak = LOAD(SCORES, token * EXPERTS);
    for (uint e = 1; e < EXPERTS; e++) peak = max(peak, LOAD(SCORES, token * EXPERTS + e));
    return peak;
}

float scores_sum(const uint token, const float peak)
{
    float sum = 0.0;
    for (uint e = 0; e < EXPERTS; e++) sum += score_exp(LOAD(SCORES, token * EXPERTS + e) - peak);
    return sum;
}
