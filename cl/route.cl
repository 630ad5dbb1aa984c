/* The experts of each token: those CHOSEN of EXPERTS whose scores are highest, of equal ones the first, the best one
 * first; DELTA [token][CHOSEN] are their weights, by the softmax of all scores, with NORMALIZED divided by their sum, IDS
 * their numbers. Twin of shaders/route.comp.
 *
 * A work-item per token, so that nothing else in the batch is looked at. Any LOCAL_SIZE is right. */
#include "common.h"
#include "experts.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void route(BATCH_ARGUMENT
    , INPUT(x)
    , OUTPUT_OF(uint, ids)
    , OUTPUT_OF(float, delta)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OUTPUT_OF(uint, ids);
    BEGIN_OUTPUT_OF(float, delta);
    const uint token = group_number() * LOCAL_SIZE + local_number();
    if (token < batch[ROWS]) {
        const float peak = scores_peak(x, token);
        float last_score = 0.0f, sum = 0.0f, weights[CHOSEN];
        uint last = EXPERTS;
        for (uint k = 0; k < CHOSEN; k++) {
            /* The next in descending order after the one before. */
            uint best = EXPERTS;
            float score = 0.0f;
            for (uint e = 0; e < EXPERTS; e++) {
                const float s = LOAD(x, token * EXPERTS + e);
                const bool left = k == 0 || s < last_score || (s == last_score && e > last);
                if (left && (best == EXPERTS || s > score)) {
                    best = e;
                    score = s;
                }
            }
            last = min(best, EXPERTS - 1u); /* scores that are no numbers: none is the best */
            last_score = score;
            weights[k] = score_exp(score - peak);
            sum += weights[k];
            ids[token * CHOSEN + k] = last;
        }
        if (NORMALIZED == 0) sum = scores_sum(x, token, peak);
        for (uint k = 0; k < CHOSEN; k++) delta[token * CHOSEN + k] = weights[k] / sum;
    }
}
