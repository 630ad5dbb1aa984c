/* Changes the weights of all tensors by what their gradients add up to, GRADIENT: FORM says how, core/train/optimizer.h
 * with which formula. A work-group has a chunk. In f16 the weights that are computed with are SAVED, floats, and W is
 * what is rounded of them; in f32 they are W. DELTA and EXTRA are the first and the second moment. LAMB leaves u in
 * GRADIENT and its chunk's sums, of p^2 and of u^2, in PARTIALS. With OPTIMIZER_DIRECT gradients are the session's, X.
 * What optimizer_sum found is the VERDICT. Twin of shaders/optimizer_step.comp.
 *
 * A work-item moves 4 elements at a time, LOCAL_SIZE times 4 after the ones before, so that the order of a sum follows
 * from LOCAL_SIZE, and has AT_ONCE of them on their way. Any power of two is right. */
#include "common.h"
#include "optimizer.h"
#include "quad.h"

#ifndef FORM
#define FORM OPTIMIZER_FORM_ADAMW
#endif

#define DIRECT (FORM >= OPTIMIZER_DIRECT)
#define RULE (FORM % OPTIMIZER_DIRECT)
#define HAS_SECOND (RULE == OPTIMIZER_FORM_ADAMW || RULE == OPTIMIZER_FORM_LAMB)
#define HAS_FIRST (HAS_SECOND || RULE == OPTIMIZER_FORM_MOMENTUM)
#define HAS_SUMS (RULE == OPTIMIZER_FORM_LAMB)
#define HAS_GRADIENT (!DIRECT || HAS_SUMS)

#define AT_ONCE 2

/* Four elements of each, or one and three that are nothing. */
struct quads {
    float4 p, m, v, g;
};

static inline void step(struct quads *q, __global const uint *batch, const float clip, const float rate,
                        const float decay)
{
    const float first_old = as_float(batch[OPTIMIZER_FIRST_OLD]), first_new = as_float(batch[OPTIMIZER_FIRST_NEW]);
    const float second_old = as_float(batch[OPTIMIZER_SECOND_OLD]), second_new = as_float(batch[OPTIMIZER_SECOND_NEW]);
    const float first_scale = as_float(batch[OPTIMIZER_FIRST_SCALE]);
    const float second_scale = as_float(batch[OPTIMIZER_SECOND_SCALE]), epsilon = as_float(batch[OPTIMIZER_EPSILON]);
#if RULE != OPTIMIZER_FORM_CHANGE
    q->g = q->g * as_float(batch[OPTIMIZER_FACTOR]) * clip;
#endif
#if HAS_SECOND
    q->m = fma(q->g - q->m, first_new, q->m);
    q->v = fma(q->g * q->g, second_new, q->v * second_old);
#endif
#if RULE == OPTIMIZER_FORM_ADAMW
    q->p = q->p * decay - rate * (q->m / (sqrt(q->v) * second_scale + epsilon));
#elif RULE == OPTIMIZER_FORM_LAMB
    q->g = fma(q->p, decay, q->m * first_scale / (sqrt(q->v * second_scale) + epsilon));
#elif RULE == OPTIMIZER_FORM_MOMENTUM
    q->m = fma(q->m, first_old, fma(q->p, decay, q->g));
    q->p = fma(q->m, -rate, q->p);
#elif RULE == OPTIMIZER_FORM_PLAIN
    q->p = fma(fma(q->p, decay, q->g), -rate, q->p);
#else
    q->p = fma(q->g, -rate, q->p);
#endif
}

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void optimizer_step(BATCH_ARGUMENT
#if DIRECT
    , INPUT(x)
#endif
    , OUTPUT(w)
    , INPUT_OF(float, verdict)
    , INPUT_OF(uint, chunks)
#if F16
    , OUTPUT_OF(float, saved)
#endif
#if HAS_FIRST
    , OUTPUT_OF(float, first)
#endif
#if HAS_GRADIENT
    , OUTPUT_OF(float, gradient)
#endif
#if HAS_SUMS
    , OUTPUT_OF(float, partials)
#endif
#if HAS_SECOND
    , OUTPUT_OF(float, second)
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
#if DIRECT
    BEGIN(x);
#endif
    BEGIN_OUTPUT(w);
    BEGIN_OF(float, verdict);
    BEGIN_OF(uint, chunks);
#if F16
    BEGIN_OUTPUT_OF(float, saved);
#endif
#if HAS_FIRST
    BEGIN_OUTPUT_OF(float, first);
#endif
#if HAS_GRADIENT
    BEGIN_OUTPUT_OF(float, gradient);
#endif
#if HAS_SUMS
    BEGIN_OUTPUT_OF(float, partials);
    __local float scratch[REDUCE_WORDS];
    float4 weights = 0.0f, changes = 0.0f;
#endif
#if HAS_SECOND
    BEGIN_OUTPUT_OF(float, second);
#endif
    const uint chunk = group_number();
    if (batch[OPTIMIZER_ACTIVE] != 0 && verdict[VERDICT_FINITE] != 0.0f && chunk < chunks[0]) {
        const uint entry = OPTIMIZER_TABLE + chunk * CHUNK_WORDS;
        const uint at = chunks[entry + CHUNK_AT], weight_at = chunks[entry + CHUNK_WEIGHT];
        const uint count = chunks[entry + CHUNK_COUNT], tensor = chunks[entry + CHUNK_TENSOR];
        const float decay = as_float(batch[OPTIMIZER_RATES + 2 * tensor + 1]), clip = verdict[VERDICT_CLIP];
#if RULE == OPTIMIZER_FORM_CHANGE
        const float rate = as_float(batch[OPTIMIZER_RATES + 2 * tensor]) * verdict[VERDICT_RATIOS + tensor];
#else
        const float rate = as_float(batch[OPTIMIZER_RATES + 2 * tensor]);
#endif
#if DIRECT
        const uint from = chunks[entry + CHUNK_GRADIENT];
#endif
#if F16
        __global float *p = saved + at;
#else
        __global float *p = w + weight_at;
#endif
        const uint whole = count / 4 * 4, stride = 4 * LOCAL_SIZE;
        for (uint i = 4 * local_number(); i < whole; i += AT_ONCE * stride) {
            struct quads q[AT_ONCE];
            UNROLL for (uint k = 0; k < AT_ONCE; k++)
            {
                const uint inside = min(i + k * stride, whole - 4);
                q[k].p = *(__global float4 *)(p + inside);
#if DIRECT
                q[k].g = load_quad(x, from + inside);
#else
                q[k].g = *(__global float4 *)(gradient + at + inside);
#endif
#if HAS_FIRST
                q[k].m = *(__global float4 *)(first + at + inside);
#endif
#if HAS_SECOND
                q[k].v = *(__global float4 *)(second + at + inside);
#endif
            }
            UNROLL for (uint k = 0; k < AT_ONCE; k++)
            {
                const uint own = i + k * stride;
                step(&q[k], batch, clip, rate, decay);
                if (own < whole) {
#if HAS_FIRST
                    *(__global float4 *)(first + at + own) = q[k].m;
#endif
#if HAS_SECOND
                    *(__global float4 *)(second + at + own) = q[k].v;
#endif
#if HAS_SUMS
                    *(__global float4 *)(gradient + at + own) = q[k].g;
                    weights = fma(q[k].p, q[k].p, weights);
                    changes = fma(q[k].g, q[k].g, changes);
#else
                    *(__global float4 *)(p + own) = q[k].p;
#if F16
                    store_quad(w, weight_at + own, q[k].p);
#endif
#endif
                }
            }
        }
        const uint last = whole + local_number();
        if (last < count) {
            struct quads q = {.p = (float4)(p[last], 0.0f, 0.0f, 0.0f)};
#if DIRECT
            q.g = (float4)(LOAD(x, from + last), 0.0f, 0.0f, 0.0f);
#else
            q.g = (float4)(gradient[at + last], 0.0f, 0.0f, 0.0f);
#endif
#if HAS_FIRST
            q.m = (float4)(first[at + last], 0.0f, 0.0f, 0.0f);
#endif
#if HAS_SECOND
            q.v = (float4)(second[at + last], 0.0f, 0.0f, 0.0f);
#endif
            step(&q, batch, clip, rate, decay);
#if HAS_FIRST
            first[at + last] = q.m.x;
#endif
#if HAS_SECOND
            second[at + last] = q.v.x;
#endif
#if HAS_SUMS
            gradient[at + last] = q.g.x;
            weights.x = fma(q.p.x, q.p.x, weights.x);
            changes.x = fma(q.g.x, q.g.x, changes.x);
#else
            p[last] = q.p.x;
#if F16
            STORE(w, weight_at + last, q.p.x);
#endif
#endif
        }
#if HAS_SUMS
        const float weight_sum = group_sum((weights.x + weights.y) + (weights.z + weights.w), scratch);
        const float change_sum = group_sum((changes.x + changes.y) + (changes.z + changes.w), scratch);
        if (local_number() == 0) {
            partials[2 * chunk] = weight_sum;
            partials[2 * chunk + 1] = change_sum;
        }
        LAST_BARRIER;
#endif
    }
}
