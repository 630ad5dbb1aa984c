/* The gradient of each token's scores, SAVED, by way of the weights of its experts IDS, whose gradients are DELTA: of a
 * weight p(x) of all scores' softmax by score y p(x) ((x == y) - p(y)); with NORMALIZED the softmax is that of the scores
 * chosen, and other scores get 0. Twin of shaders/route_backward.comp.
 *
 * A work-item per token. Any LOCAL_SIZE is right. */
#include "common.h"
#include "experts.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void route_backward(BATCH_ARGUMENT
    , INPUT_OF(uint, ids)
    , INPUT(saved)
    , INPUT_OF(float, delta)
    , OUTPUT(y)
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OF(uint, ids);
    BEGIN(saved);
    BEGIN_OF(float, delta);
    BEGIN_OUTPUT(y);
    const uint token = group_number() * LOCAL_SIZE + local_number();
    if (token < batch[ROWS]) {
        const float peak = scores_peak(saved, token);
        float sum = 0.0f, mean = 0.0f;
#if NORMALIZED
        for (uint k = 0; k < CHOSEN; k++)
            sum += score_exp(LOAD(saved, token * EXPERTS + ids[token * CHOSEN + k]) - peak);
#else
        sum = scores_sum(saved, token, peak);
#endif
        for (uint k = 0; k < CHOSEN; k++) {
            const float p = score_exp(LOAD(saved, token * EXPERTS + ids[token * CHOSEN + k]) - peak) / sum;
            mean = fma(delta[token * CHOSEN + k], p, mean);
        }
        for (uint e = 0; e < EXPERTS; e++) {
            const float p = score_exp(LOAD(saved, token * EXPERTS + e) - peak) / sum;
            float d = NORMALIZED != 0 ? 0.0f : -mean;
            for (uint k = 0; k < CHOSEN; k++)
                if (ids[token * CHOSEN + k] == e) d = delta[token * CHOSEN + k] - mean;
            STORE(y, token * EXPERTS + e, d * p);
        }
    }
}
