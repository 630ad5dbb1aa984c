#version 450
#extension GL_GOOGLE_include_directive : require
/* The gradient of each token's scores, SAVED, by way of the weights of its experts IDS, whose gradients are DELTA: of a
 * weight p(x) of all scores' softmax by score y p(x) ((x == y) - p(y)); with NORMALIZED the softmax is that of the scores
 * chosen, and other scores get 0. Twin of cl/route_backward.cl.
 *
 * A work-item per token. Any LOCAL_SIZE is right. */
#include "common.glsl"

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT_OF(SLOT_IDS, uint, ids);
INPUT(SLOT_SAVED, saved);
INPUT_OF(SLOT_DELTA, float, delta);
OUTPUT(SLOT_Y, y);
#define SCORES saved
#include "experts.glsl"

void main()
{
    const uint token = group_number() * LOCAL_SIZE + local_number();
    if (token < batch[ROWS]) {
        const float peak = scores_peak(token);
        float sum = 0.0, mean = 0.0;
        if (NORMALIZED != 0) {
            for (uint k = 0; k < CHOSEN; k++)
                sum += score_exp(LOAD(saved, token * EXPERTS + ids[token * CHOSEN + k]) - peak);
        } else {
            sum = scores_sum(token, peak);
        }
        for (uint k = 0; k < CHOSEN; k++) {
            const float p = score_exp(LOAD(saved, token * EXPERTS + ids[token * CHOSEN + k]) - peak) / sum;
            mean = fma(delta[token * CHOSEN + k], p, mean);
        }
        for (uint e = 0; e < EXPERTS; e++) {
            const float p = score_exp(LOAD(saved, token * EXPERTS + e) - peak) / sum;
            float d = NORMALIZED != 0 ? 0.0 : -mean;
            for (uint k = 0; k < CHOSEN; k++)
                if (ids[token * CHOSEN + k] == e) d = delta[token * CHOSEN + k] - mean;
            STORE(y, token * EXPERTS + e, d * p);
        }
    }
}
