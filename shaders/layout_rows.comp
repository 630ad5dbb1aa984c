#version 450
#extension GL_GOOGLE_include_directive : require
/* The fused kernels of Ivanov et al. with their tensors in any orders, for measuring alone (docs/layouts.md): no session
 * runs it. Twin of cl/layout_rows.cl; core/interface/layouts.h says what the constants are.
 *
 * Vectors of VECTOR elements go along the letter THREAD_M, work-items along THREAD_N. Where something is reduced, a
 * work-group has one row, or the VECTOR rows beside each other where vectors go along another letter, which are VECTOR
 * partial results then instead of one. A tensor whose fastest letter is the vector's is loaded 16 bytes at a time,
 * others element by element. All tensors that are read lie in X, all that are written in Y. */
#include "common.glsl"
#include "layouts.h"
#include "random.h"

#define PHILOX_WORD uint
#define PHILOX_MUL(high, low, a, b) umulExtended(a, b, high, low)

layout(constant_id = CONST_FORM) const uint FORM = LAYOUT_BEI;
layout(constant_id = CONST_TILE_M) const uint TILE_M = 1;
layout(constant_id = CONST_TILE_N) const uint TILE_N = 1;
layout(constant_id = CONST_TILE_K) const uint TILE_K = 8;
layout(constant_id = CONST_TILE_V) const uint TILE_V = 1;
layout(constant_id = CONST_THREAD_M) const uint THREAD_M = 2;
layout(constant_id = CONST_THREAD_N) const uint THREAD_N = 2;
layout(constant_id = CONST_X_STRIDE) const uint X_STRIDE = 0xf012;
layout(constant_id = CONST_X_OFFSET) const uint X_OFFSET = 0xf012;
layout(constant_id = CONST_W_STRIDE) const uint W_STRIDE = 0xf012;
layout(constant_id = CONST_W_OFFSET) const uint W_OFFSET = 0xf012;
layout(constant_id = CONST_V_STRIDE) const uint V_STRIDE = 0xf012;
layout(constant_id = CONST_V_OFFSET) const uint V_OFFSET = 0xf012;
layout(constant_id = CONST_Y_STRIDE) const uint Y_STRIDE = 0xf012;
layout(constant_id = CONST_Y_OFFSET) const uint Y_OFFSET = 0xf012;
/* VECTOR, as something that is known when the pipeline is made: until then loops stay loops, and the module small. */
const uint WIDTH = THREAD_M < 4 ? VECTOR : 0;

/* Each order's distances, and the one between the elements of a vector. */
#define ORDER(order, value)                                                                                            \
    const uint order##_0 = LAYOUT_STRIDE4(value, 0);                                                                   \
    const uint order##_1 = LAYOUT_STRIDE4(value, 1);                                                                   \
    const uint order##_2 = LAYOUT_STRIDE4(value, 2);                                                                   \
    const uint order##_3 = LAYOUT_STRIDE4(value, 3);                                                                   \
    const uint order##_STEP = THREAD_M == 0   ? order##_0                                                              \
                              : THREAD_M == 1 ? order##_1                                                              \
                              : THREAD_M == 2 ? order##_2                                                              \
                                              : order##_3;
ORDER(X_STRIDE, X_STRIDE)
ORDER(X_OFFSET, X_OFFSET)
ORDER(W_STRIDE, W_STRIDE)
ORDER(W_OFFSET, W_OFFSET)
ORDER(V_STRIDE, V_STRIDE)
ORDER(V_OFFSET, V_OFFSET)
ORDER(Y_STRIDE, Y_STRIDE)
ORDER(Y_OFFSET, Y_OFFSET)
ORDER(ROW, LAYOUT_ALONE(2))

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
OUTPUT(SLOT_Y, y);

const uint REDUCED = LAYOUT_REDUCED(FORM);
#define REDUCES(l) ((REDUCED >> (l)&1u) != 0u)
const bool VECTOR_REDUCED = REDUCES(THREAD_M);
const uint PARTIALS = VECTOR_REDUCED ? 1 : VECTOR;
#define PARTIAL(c) (VECTOR_REDUCED ? 0u : (c))
/* Elements that a work-item has of the letter of threads. */
const uint OWN = THREAD_N == THREAD_M ? VECTOR : 1;
#define UNIT(l) ((l) == THREAD_N ? LOCAL_SIZE * OWN : (l) == THREAD_M ? VECTOR : 1)
#define PIECES(l) ((LAYOUT_SIZE(l) + UNIT(l) - 1) / UNIT(l))
#define OUTER(l) (REDUCES(l) ? 1 : PIECES(l))
#define TURNS(l) (REDUCES(l) ? PIECES(l) : 1)
#define ALL_OUTER (OUTER(0) * OUTER(1) * OUTER(2) * OUTER(3))
#define ALL_TURNS (TURNS(0) * TURNS(1) * TURNS(2) * TURNS(3))
#define ROW_LENGTH (FORM == LAYOUT_SM || FORM == LAYOUT_BS ? TILE_V : TILE_K)

#define AT(order) (c0 * order##_0 + c1 * order##_1 + c2 * order##_2 + c3 * order##_3)

/* v = the vector at the coordinates of tensor number `slot`. */
#define GET(v, slot, order)                                                                                            \
    float v[VECTOR];                                                                                                   \
    {                                                                                                                  \
        const uint at_ = batch[LAYOUT_INPUTS + (slot)] + AT(order);                                                    \
        if (order##_STEP == 1) {                                                                                       \
            LOAD_VECTOR(x, at_, v);                                                                                    \
        } else {                                                                                                       \
            UNROLL for (uint c = 0; c < WIDTH; c++) v[c] = LOAD(x, at_ + c * order##_STEP);                           \
        }                                                                                                              \
    }
#define PUT(slot, order, v)                                                                                            \
    {                                                                                                                  \
        const uint at_ = batch[LAYOUT_OUTPUTS + (slot)] + AT(order);                                                   \
        if (order##_STEP == 1) {                                                                                       \
            STORE_VECTOR(y, at_, v);                                                                                   \
        } else {                                                                                                       \
            UNROLL for (uint c = 0; c < WIDTH; c++) STORE(y, at_ + c * order##_STEP, v[c]);                           \
        }                                                                                                              \
    }
/* What was reduced, by the first work-item; the order has none of the reduced letters. */
#define PUT_REDUCED(slot, order, v)                                                                                    \
    if (l == 0) {                                                                                                      \
        if (VECTOR_REDUCED) {                                                                                          \
            STORE(y, batch[LAYOUT_OUTPUTS + (slot)] + AT(order), v[0]);                                                \
        } else {                                                                                                       \
            PUT(slot, order, v)                                                                                        \
        }                                                                                                              \
    }
#define EACH UNROLL for (uint c = 0; c < WIDTH; c++)
#define SUMMED(sum, value)                                                                                             \
    EACH sum[PARTIAL(c)] += (value)

#define NUMBER (((c0 * TILE_N + c1) * TILE_K + c2) * TILE_V + c3)

/* mask = 1 for what is kept, else 0. */
void draw(out float mask[VECTOR], const uint number)
{
    uint w0 = number, w1 = 0, w2 = 0, w3 = 0, k0 = LAYOUT_SEED, k1 = 0;
    PHILOX(w0, w1, w2, w3, k0, k1)
    const uint words[4] = uint[4](w0, w1, w2, w3);
    UNROLL for (uint c = 0; c < WIDTH / 2; c++)
    {
        mask[2 * c] = (words[c] & 0xffffu) < LAYOUT_THRESHOLD ? 0.0 : 1.0;
        mask[2 * c + 1] = (words[c] >> 16) < LAYOUT_THRESHOLD ? 0.0 : 1.0;
    }
}

shared float scratch[VECTOR * (LOCAL_SIZE + 1)];
shared float result[VECTOR];

/* Each of the PARTIALS values becomes the work-group's sum, or its largest. All work-items call it. */
void combine(inout float v[VECTOR], const bool largest)
{
    const uint l = local_number();
    for (uint c = 0; c < PARTIALS; c++) scratch[c * (LOCAL_SIZE + 1) + l] = v[c];
    barrier();
    if (l < PARTIALS) {
        float all = scratch[l * (LOCAL_SIZE + 1)];
        for (uint i = 1; i < LOCAL_SIZE; i++) {
            const float one = scratch[l * (LOCAL_SIZE + 1) + i];
            all = largest ? max(all, one) : all + one;
        }
        result[l] = all;
    }
    barrier();
    EACH v[c] = result[PARTIAL(c)];
    barrier();
}

float sum0[VECTOR], sum1[VECTOR], sum2[VECTOR];
uint b0, b1, b2, b3; /* coordinates of the first turn */

/* The coordinates of a turn. Beyond the last element (`inside` false) a work-item does nothing. */
#define COORDINATES(turn)                                                                                              \
    uint left_ = turn;                                                                                                 \
    const uint t3 = left_ % TURNS(3);                                                                                  \
    left_ /= TURNS(3);                                                                                                 \
    const uint t2 = left_ % TURNS(2);                                                                                  \
    left_ /= TURNS(2);                                                                                                 \
    const uint t1 = left_ % TURNS(1), t0 = left_ / TURNS(1);                                                           \
    const uint c0 = b0 + t0 * UNIT(0) + (THREAD_N == 0 ? l * OWN : 0u);                                                \
    const uint c1 = b1 + t1 * UNIT(1) + (THREAD_N == 1 ? l * OWN : 0u);                                                \
    const uint c2 = b2 + t2 * UNIT(2) + (THREAD_N == 2 ? l * OWN : 0u);                                                \
    const uint c3 = b3 + t3 * UNIT(3) + (THREAD_N == 3 ? l * OWN : 0u);                                                \
    const bool inside = THREAD_N == 0   ? c0 < TILE_M                                                                  \
                        : THREAD_N == 1 ? c1 < TILE_N                                                                  \
                        : THREAD_N == 2 ? c2 < TILE_K                                                                  \
                                        : c3 < TILE_V

/* What READ gives of a form that reads twice. */
#define READ_BS                                                                                                        \
    GET(v, 0, X_STRIDE)                                                                                                \
    GET(mask, 1, X_OFFSET)                                                                                             \
    GET(d, 2, X_OFFSET)                                                                                                \
    EACH d[c] *= mask[c] * LAYOUT_KEPT_SCALE;
#define READ_BLNRD                                                                                                     \
    GET(v, 0, X_STRIDE)                                                                                                \
    GET(diff, 1, X_OFFSET)
#define READ_BDRLN                                                                                                     \
    GET(v, 0, X_STRIDE)                                                                                                \
    GET(residual, 1, X_OFFSET)                                                                                         \
    GET(bias, 2, ROW)                                                                                                  \
    float mask[VECTOR], r[VECTOR];                                                                                     \
    draw(mask, NUMBER);                                                                                                \
    EACH v[c] += bias[c];                                                                                              \
    EACH r[c] = v[c] * mask[c] * LAYOUT_KEPT_SCALE + residual[c];

void once(const uint l, const uint c0, const uint c1, const uint c2, const uint c3)
{
    if (FORM == LAYOUT_AIB) {
        for (uint q = 0; q < 3; q++) {
            GET(v, q, X_STRIDE)
            GET(bias, 3 + q, W_STRIDE)
            EACH v[c] += bias[c];
            PUT(q, X_OFFSET, v)
        }
    } else if (FORM == LAYOUT_BRD) {
        GET(v, 0, X_STRIDE)
        GET(bias, 1, ROW)
        float mask[VECTOR];
        draw(mask, NUMBER);
        EACH v[c] += bias[c];
        PUT(0, X_OFFSET, v)
        PUT(1, W_STRIDE, mask)
        EACH v[c] = max(v[c], 0.0) * mask[c] * LAYOUT_KEPT_SCALE;
        PUT(2, W_OFFSET, v)
    } else if (FORM == LAYOUT_BEI) {
        GET(v, 0, X_STRIDE)
        GET(h, 1, X_OFFSET)
        EACH v[c] += h[c];
        PUT(0, W_STRIDE, v)
    } else if (FORM == LAYOUT_BSB) {
        GET(v, 0, X_STRIDE)
        GET(normed, 1, X_OFFSET)
        GET(scale, 2, ROW)
        SUMMED(sum0, v[c] * normed[c]);
        SUMMED(sum1, v[c]);
        EACH v[c] *= scale[c];
        PUT(0, W_STRIDE, v)
    } else if (FORM == LAYOUT_BDRB) {
        GET(v, 0, X_STRIDE)
        GET(mask, 1, X_OFFSET)
        GET(before, 2, W_STRIDE)
        EACH v[c] = before[c] > 0.0 ? v[c] * mask[c] * LAYOUT_KEPT_SCALE : 0.0;
        SUMMED(sum0, v[c]);
        PUT(0, W_OFFSET, v)
    } else if (FORM == LAYOUT_EBSB) {
        GET(v, 0, X_STRIDE)
        GET(h, 1, X_OFFSET)
        GET(normed, 2, W_STRIDE)
        GET(other, 3, W_OFFSET)
        GET(scale, 4, ROW)
        EACH v[c] += h[c];
        SUMMED(sum0, v[c] * normed[c]);
        SUMMED(sum1, v[c]);
        SUMMED(sum2, other[c]);
        EACH v[c] *= scale[c];
        PUT(0, V_STRIDE, v)
    } else if (FORM == LAYOUT_BAOB) {
        GET(v, 0, X_STRIDE)
        SUMMED(sum0, v[c]);
    } else if (FORM == LAYOUT_BAIB) {
        GET(v, 0, X_STRIDE)
        GET(h, 1, X_OFFSET)
        GET(other, 2, W_STRIDE)
        SUMMED(sum0, v[c]);
        SUMMED(sum1, h[c]);
        SUMMED(sum2, other[c]);
    } else if (FORM == LAYOUT_SM) {
        /* sum0: the largest so far, sum1: the sum of exponentials of what is less by that. */
        GET(v, 0, X_STRIDE)
        EACH
        {
            const float most = max(sum0[PARTIAL(c)], v[c]);
            sum1[PARTIAL(c)] = sum1[PARTIAL(c)] * exp(sum0[PARTIAL(c)] - most) + exp(v[c] - most);
            sum0[PARTIAL(c)] = most;
        }
    } else if (FORM == LAYOUT_BS) {
        READ_BS
        SUMMED(sum0, v[c] * d[c]);
    } else if (FORM == LAYOUT_BLNRD) {
        READ_BLNRD
        SUMMED(sum0, v[c]);
        SUMMED(sum1, v[c] * diff[c]);
    } else if (FORM == LAYOUT_BDRLN) {
        READ_BDRLN
        SUMMED(sum0, r[c]);
        SUMMED(sum1, r[c] * r[c]);
    }
}

void again(const uint l, const uint c0, const uint c1, const uint c2, const uint c3)
{
    if (FORM == LAYOUT_SM) {
        GET(v, 0, X_STRIDE)
        float mask[VECTOR];
        draw(mask, NUMBER);
        EACH v[c] = exp(v[c] - sum0[c]) / sum1[c];
        PUT(0, X_OFFSET, v)
        PUT(1, W_STRIDE, mask)
        EACH v[c] *= mask[c] * LAYOUT_KEPT_SCALE;
        PUT(2, W_STRIDE, v)
    } else if (FORM == LAYOUT_BS) {
        READ_BS
        EACH v[c] *= d[c] - sum0[c];
        PUT(0, W_STRIDE, v)
    } else if (FORM == LAYOUT_BLNRD) {
        READ_BLNRD
        GET(mask, 2, W_STRIDE)
        GET(s, 3, V_OFFSET)
        EACH v[c] = s[c] * (v[c] - (sum0[c] + diff[c] * s[c] * s[c] * sum1[c]) / float(ROW_LENGTH));
        PUT(0, W_OFFSET, v)
        EACH v[c] *= mask[c] * LAYOUT_KEPT_SCALE;
        PUT(1, V_STRIDE, v)
    } else if (FORM == LAYOUT_BDRLN) {
        READ_BDRLN
        GET(scale, 3, ROW)
        GET(shift, 4, ROW)
        PUT(0, W_STRIDE, v)
        PUT(2, V_STRIDE, mask)
        EACH r[c] -= sum0[c];
        PUT(4, Y_STRIDE, r)
        EACH r[c] *= sum1[c];
        PUT(3, V_OFFSET, r)
        EACH r[c] = r[c] * scale[c] + shift[c];
        PUT(1, W_OFFSET, r)
    }
}

/* What the first reading gave, for all work-items, and where it is a result of its own to Y. */
void reduce(const uint l)
{
    const uint c0 = REDUCES(0) ? 0 : b0, c1 = REDUCES(1) ? 0 : b1, c2 = REDUCES(2) ? 0 : b2, c3 = REDUCES(3) ? 0 : b3;
    if (FORM == LAYOUT_SM) {
        float most[VECTOR] = sum0;
        combine(most, true);
        UNROLL for (uint c = 0; c < PARTIALS; c++) sum1[c] *= exp(sum0[c] - most[c]);
        sum0 = most;
    } else {
        combine(sum0, false);
    }
    if (FORM != LAYOUT_BDRB && FORM != LAYOUT_BAOB && FORM != LAYOUT_BS) combine(sum1, false);
    if (FORM == LAYOUT_EBSB || FORM == LAYOUT_BAIB) combine(sum2, false);
    if (FORM == LAYOUT_BSB || FORM == LAYOUT_EBSB) {
        PUT_REDUCED(1, ROW, sum0)
        PUT_REDUCED(2, ROW, sum1)
    }
    if (FORM == LAYOUT_EBSB) {
        PUT_REDUCED(3, ROW, sum2)
    } else if (FORM == LAYOUT_BDRB) {
        PUT_REDUCED(1, ROW, sum0)
    } else if (FORM == LAYOUT_BAOB) {
        PUT_REDUCED(0, ROW, sum0)
    } else if (FORM == LAYOUT_BAIB) {
        PUT_REDUCED(0, W_OFFSET, sum0)
        PUT_REDUCED(1, V_STRIDE, sum1)
        PUT_REDUCED(2, V_OFFSET, sum2)
    } else if (FORM == LAYOUT_BDRLN) {
        /* The mean and 1 / the standard deviation. */
        EACH sum0[c] /= float(ROW_LENGTH);
        EACH sum1[c] = 1.0 / sqrt(max(sum1[c] / float(ROW_LENGTH) - sum0[c] * sum0[c], 0.0) + LAYOUT_EPSILON);
        PUT_REDUCED(5, Y_OFFSET, sum1)
    }
}

void main()
{
    const uint l = local_number();
    uint rest = group_number();
    if (batch[LAYOUT_LIVE] != 0 && rest < ALL_OUTER) {
        b3 = rest % OUTER(3) * UNIT(3);
        rest /= OUTER(3);
        b2 = rest % OUTER(2) * UNIT(2);
        rest /= OUTER(2);
        b1 = rest % OUTER(1) * UNIT(1);
        b0 = rest / OUTER(1) * UNIT(0);
        EACH sum0[c] = FORM == LAYOUT_SM ? -1e30 : 0.0;
        EACH sum1[c] = 0.0;
        EACH sum2[c] = 0.0;
        for (uint turn = 0; turn < ALL_TURNS; turn++) {
            COORDINATES(turn);
            if (inside) once(l, c0, c1, c2, c3);
        }
        if (REDUCED != 0) reduce(l);
        if (LAYOUT_TWICE(FORM)) {
            for (uint turn = 0; turn < ALL_TURNS; turn++) {
                COORDINATES(turn);
                if (inside) again(l, c0, c1, c2, c3);
            }
        }
    }
}
