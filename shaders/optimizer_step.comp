#version 450
#extension GL_GOOGLE_include_directive : require
/* Changes the weights of all tensors by what their gradients add up to, GRADIENT: FORM says how, core/train/optimizer.h
 * with which formula. A work-group has a chunk. In f16 the weights that are computed with are SAVED, floats, and W is
 * what is rounded of them; in f32 they are W. DELTA and EXTRA are the first and the second moment. LAMB leaves u in
 * GRADIENT and its chunk's sums, of p^2 and of u^2, in PARTIALS. With OPTIMIZER_DIRECT gradients are the session's, X.
 * What optimizer_sum found is the VERDICT. Twin of cl/optimizer_step.cl.
 *
 * A work-item moves 4 elements at a time, LOCAL_SIZE times 4 after the ones before, so that the order of a sum follows
 * from LOCAL_SIZE, and has AT_ONCE of them on their way. Any power of two is right. */
#define REDUCE
#include "common.glsl"
#include "optimizer.h"

layout(constant_id = CONST_FORM) const uint FORM = OPTIMIZER_FORM_ADAMW;

const bool DIRECT = FORM >= OPTIMIZER_DIRECT;
const uint RULE = FORM % OPTIMIZER_DIRECT;
const bool HAS_SECOND = RULE == OPTIMIZER_FORM_ADAMW || RULE == OPTIMIZER_FORM_LAMB;
const bool HAS_FIRST = HAS_SECOND || RULE == OPTIMIZER_FORM_MOMENTUM;
const bool HAS_SUMS = RULE == OPTIMIZER_FORM_LAMB;

#define IN_PLACE(slot, name)                                                                                           \
    layout(set = 0, binding = slot) restrict buffer name##_elements { float name[]; };                                 \
    layout(set = 0, binding = slot) restrict buffer name##_vectors { vec4 name##_quads[]; }

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
layout(set = 0, binding = SLOT_X) restrict readonly buffer x_quadruples { uvec2 x_halves[]; };
INPUT_OF(SLOT_BIAS, float, verdict);
#if F16
OUTPUT(SLOT_W, w);
layout(set = 0, binding = SLOT_W) restrict writeonly buffer w_quadruples { uvec2 w_halves[]; };
IN_PLACE(SLOT_SAVED, p);
#else
IN_PLACE(SLOT_W, p);
#endif
INPUT_OF(SLOT_IDS, uint, chunks);
IN_PLACE(SLOT_DELTA, first);
IN_PLACE(SLOT_GRADIENT, gradient);
OUTPUT_OF(SLOT_PARTIALS, float, partials);
IN_PLACE(SLOT_EXTRA, second);

#define AT_ONCE 2

/* Four elements of each, or one and three that are nothing. */
struct quads {
    vec4 p, m, v, g;
};

/* `at` is a multiple of 4. */
vec4 load_quad(const uint at)
{
#if F16
    const uvec2 raw = x_halves[at / 4];
    return vec4(unpack_pair(raw.x), unpack_pair(raw.y));
#else
    return uintBitsToFloat(x_wide[at / 4]);
#endif
}

/* Read once: what is written might be the same memory, as far as compilers know. */
float first_old, first_new, second_old, second_new, first_scale, second_scale, epsilon, factor;

void read_numbers()
{
    first_old = uintBitsToFloat(batch[OPTIMIZER_FIRST_OLD]);
    first_new = uintBitsToFloat(batch[OPTIMIZER_FIRST_NEW]);
    second_old = uintBitsToFloat(batch[OPTIMIZER_SECOND_OLD]);
    second_new = uintBitsToFloat(batch[OPTIMIZER_SECOND_NEW]);
    first_scale = uintBitsToFloat(batch[OPTIMIZER_FIRST_SCALE]);
    second_scale = uintBitsToFloat(batch[OPTIMIZER_SECOND_SCALE]);
    epsilon = uintBitsToFloat(batch[OPTIMIZER_EPSILON]);
    factor = uintBitsToFloat(batch[OPTIMIZER_FACTOR]);
}

void step_quads(inout quads q, const float clip, const float rate, const float decay)
{
    if (RULE != OPTIMIZER_FORM_CHANGE) q.g = q.g * factor * clip;
    if (HAS_SECOND) {
        q.m = fma(q.g - q.m, vec4(first_new), q.m);
        q.v = fma(q.g * q.g, vec4(second_new), q.v * second_old);
    }
    if (RULE == OPTIMIZER_FORM_ADAMW) {
        q.p = q.p * decay - rate * (q.m / (sqrt(q.v) * second_scale + epsilon));
    } else if (RULE == OPTIMIZER_FORM_LAMB) {
        q.g = fma(q.p, vec4(decay), q.m * first_scale / (sqrt(q.v * second_scale) + epsilon));
    } else if (RULE == OPTIMIZER_FORM_MOMENTUM) {
        q.m = fma(q.m, vec4(first_old), fma(q.p, vec4(decay), q.g));
        q.p = fma(q.m, vec4(-rate), q.p);
    } else if (RULE == OPTIMIZER_FORM_PLAIN) {
        q.p = fma(fma(q.p, vec4(decay), q.g), vec4(-rate), q.p);
    } else {
        q.p = fma(q.g, vec4(-rate), q.p);
    }
}

void main()
{
    vec4 weights = vec4(0.0), changes = vec4(0.0);
    const uint chunk = group_number();
    if (batch[OPTIMIZER_ACTIVE] != 0 && verdict[VERDICT_FINITE] != 0.0 && chunk < chunks[0]) {
        const uint entry = OPTIMIZER_TABLE + chunk * CHUNK_WORDS;
        const uint at = chunks[entry + CHUNK_AT], weight_at = chunks[entry + CHUNK_WEIGHT];
        const uint count = chunks[entry + CHUNK_COUNT], tensor = chunks[entry + CHUNK_TENSOR];
        const uint from = chunks[entry + CHUNK_GRADIENT];
        const float decay = uintBitsToFloat(batch[OPTIMIZER_RATES + 2 * tensor + 1]), clip = verdict[VERDICT_CLIP];
        float rate = uintBitsToFloat(batch[OPTIMIZER_RATES + 2 * tensor]);
        if (RULE == OPTIMIZER_FORM_CHANGE) rate *= verdict[VERDICT_RATIOS + tensor];
#if F16
        const uint p_at = at;
#else
        const uint p_at = weight_at;
#endif
        const uint whole = count / 4 * 4, stride = 4 * LOCAL_SIZE;
        read_numbers();
        for (uint i = 4 * local_number(); i < whole; i += AT_ONCE * stride) {
            quads q[AT_ONCE];
            UNROLL for (uint k = 0; k < AT_ONCE; k++)
            {
                const uint inside = min(i + k * stride, whole - 4), quad = (at + inside) / 4;
                q[k] = quads(p_quads[(p_at + inside) / 4], vec4(0.0), vec4(0.0), vec4(0.0));
                if (DIRECT) {
                    q[k].g = load_quad(from + inside);
                } else {
                    q[k].g = gradient_quads[quad];
                }
                if (HAS_FIRST) q[k].m = first_quads[quad];
                if (HAS_SECOND) q[k].v = second_quads[quad];
            }
            UNROLL for (uint k = 0; k < AT_ONCE; k++)
            {
                const uint own = i + k * stride, quad = (at + own) / 4;
                step_quads(q[k], clip, rate, decay);
                if (own < whole) {
                    if (HAS_FIRST) first_quads[quad] = q[k].m;
                    if (HAS_SECOND) second_quads[quad] = q[k].v;
                    if (HAS_SUMS) {
                        gradient_quads[quad] = q[k].g;
                        weights = fma(q[k].p, q[k].p, weights);
                        changes = fma(q[k].g, q[k].g, changes);
                    } else {
                        p_quads[(p_at + own) / 4] = q[k].p;
#if F16
                        w_halves[(weight_at + own) / 4] =
                            uvec2(pack_pair(q[k].p.xy), pack_pair(q[k].p.zw));
#endif
                    }
                }
            }
        }
        const uint last = whole + local_number();
        if (last < count) {
            quads q = quads(vec4(p[p_at + last], 0.0, 0.0, 0.0), vec4(0.0), vec4(0.0), vec4(0.0));
            if (DIRECT) {
                q.g.x = LOAD(x, from + last);
            } else {
                q.g.x = gradient[at + last];
            }
            if (HAS_FIRST) q.m.x = first[at + last];
            if (HAS_SECOND) q.v.x = second[at + last];
            step_quads(q, clip, rate, decay);
            if (HAS_FIRST) first[at + last] = q.m.x;
            if (HAS_SECOND) second[at + last] = q.v.x;
            if (HAS_SUMS) {
                gradient[at + last] = q.g.x;
                weights.x = fma(q.p.x, q.p.x, weights.x);
                changes.x = fma(q.g.x, q.g.x, changes.x);
            } else {
                p[p_at + last] = q.p.x;
#if F16
                STORE(w, weight_at + last, q.p.x);
#endif
            }
        }
        if (HAS_SUMS) {
            const float weight_sum = group_sum((weights.x + weights.y) + (weights.z + weights.w));
            const float change_sum = group_sum((changes.x + changes.y) + (changes.z + changes.w));
            if (local_number() == 0) {
                partials[2 * chunk] = weight_sum;
                partials[2 * chunk + 1] = change_sum;
            }
        }
    }
}
