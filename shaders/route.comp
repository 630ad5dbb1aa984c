#version 450
#extension GL_GOOGLE_include_directive : require
/* The experts of each token: those CHOSEN of EXPERTS whose scores are highest, of equal ones the first, the best one
 * first; DELTA [token][CHOSEN] are their weights, by the softmax of all scores, with NORMALIZED divided by their sum, IDS
 * their numbers. Twin of cl/route.cl.
 *
 * A work-item per token, so that nothing else in the batch is looked at. Any LOCAL_SIZE is right. */
#include "common.glsl"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
OUTPUT_OF(SLOT_IDS, uint, ids);
OUTPUT_OF(SLOT_DELTA, float, delta);
#define SCORES x
#include "experts.glsl"

void main()
{
    const uint token = group_number() * LOCAL_SIZE + local_number();
    if (token < batch[ROWS]) {
        const float peak = scores_peak(token);
        float last_score = 0.0, sum = 0.0, weights[CHOSEN];
        uint last = EXPERTS;
        for (uint k = 0; k < CHOSEN; k++) {
            /* The next in descending order after the one before. */
            uint best = EXPERTS;
            float score = 0.0;
            for (uint e = 0; e < EXPERTS; e++) {
                const float s = LOAD(x, token * EXPERTS + e);
                const bool left = k == 0 || s < last_score || (s == last_score && e > last);
                if (left && (best == EXPERTS || s > score)) {
                    best = e;
                    score = s;
                }
            }
            last = min(best, EXPERTS - 1); /* scores that are no numbers: none is the best */
            last_score = score;
            weights[k] = score_exp(score - peak);
            sum += weights[k];
            ids[token * CHOSEN + k] = last;
        }
        if (NORMALIZED == 0) sum = scores_sum(token, peak);
        for (uint k = 0; k < CHOSEN; k++) delta[token * CHOSEN + k] = weights[k] / sum;
    }
}
