/* The fused kernels of Ivanov et al. with their tensors in any orders, for measuring alone (docs/layouts.md): no session
 * runs it. Twin of shaders/layout_rows.comp; core/interface/layouts.h says what the constants are.
 *
 * Vectors of VECTOR elements go along the letter THREAD_M, work-items along THREAD_N. Where something is reduced, a
 * work-group has one row, or the VECTOR rows beside each other where vectors go along another letter, which are VECTOR
 * partial results then instead of one. A tensor whose fastest letter is the vector's is loaded 16 bytes at a time,
 * others element by element. All tensors that are read lie in X, all that are written in Y. */
#include "common.h"
#include "layouts.h"
#include "random.h"

#define PHILOX_WORD uint
#define PHILOX_MUL(high, low, a, b)                                                                                    \
    high = mul_hi((uint)(a), b);                                                                                       \
    low = (a)*b

#define REDUCES(l) ((LAYOUT_REDUCED(FORM) >> (l)&1u) != 0u)
#define VECTOR_REDUCED REDUCES(THREAD_M)
#define PARTIALS (VECTOR_REDUCED ? 1u : (uint)VECTOR)
#define PARTIAL(c) (VECTOR_REDUCED ? 0u : (c))
/* Elements that a work-item has of the letter of threads. */
#define OWN (THREAD_N == THREAD_M ? (uint)VECTOR : 1u)
#define UNIT(l) ((l) == THREAD_N ? LOCAL_SIZE * OWN : (l) == THREAD_M ? (uint)VECTOR : 1u)
#define PIECES(l) ((LAYOUT_SIZE(l) + UNIT(l) - 1u) / UNIT(l))
#define OUTER(l) (REDUCES(l) ? 1u : PIECES(l))
#define TURNS(l) (REDUCES(l) ? PIECES(l) : 1u)
#define ALL_OUTER (OUTER(0) * OUTER(1) * OUTER(2) * OUTER(3))
#define ALL_TURNS (TURNS(0) * TURNS(1) * TURNS(2) * TURNS(3))
#define ROW_LENGTH (FORM == LAYOUT_SM || FORM == LAYOUT_BS ? TILE_V : TILE_K)

#define AT(order)                                                                                                      \
    (c0 * LAYOUT_STRIDE4(order, 0) + c1 * LAYOUT_STRIDE4(order, 1) + c2 * LAYOUT_STRIDE4(order, 2) +                   \
     c3 * LAYOUT_STRIDE4(order, 3))

/* v = the vector at the coordinates of tensor number `slot`. */
#define GET(v, slot, order)                                                                                            \
    float v[VECTOR];                                                                                                   \
    {                                                                                                                  \
        const uint at_ = batch[LAYOUT_INPUTS + (slot)] + AT(order);                                                    \
        if (LAYOUT_STRIDE4(order, THREAD_M) == 1u) {                                                                   \
            LOAD_VECTOR(x, at_, v);                                                                                    \
        } else {                                                                                                       \
            UNROLL for (uint c = 0; c < VECTOR; c++) v[c] = LOAD(x, at_ + c * LAYOUT_STRIDE4(order, THREAD_M));        \
        }                                                                                                              \
    }
#define PUT(slot, order, v)                                                                                            \
    {                                                                                                                  \
        const uint at_ = batch[LAYOUT_OUTPUTS + (slot)] + AT(order);                                                   \
        if (LAYOUT_STRIDE4(order, THREAD_M) == 1u) {                                                                   \
            STORE_VECTOR(y, at_, v);                                                                                   \
        } else {                                                                                                       \
            UNROLL_STORES for (uint c = 0; c < VECTOR; c++)                                                            \
                STORE(y, at_ + c * LAYOUT_STRIDE4(order, THREAD_M), v[c]);                                             \
        }                                                                                                              \
    }
/* What was reduced, by the first work-item; the order has none of the reduced letters. */
#define PUT_REDUCED(slot, order, v)                                                                                    \
    if (l == 0) {                                                                                                      \
        if (VECTOR_REDUCED) {                                                                                          \
            STORE(y, batch[LAYOUT_OUTPUTS + (slot)] + AT(order), v[0]);                                                \
        } else {                                                                                                       \
            PUT(slot, order, v);                                                                                       \
        }                                                                                                              \
    }
#define EACH UNROLL for (uint c = 0; c < VECTOR; c++)

#define NUMBER (((c0 * TILE_N + c1) * TILE_K + c2) * TILE_V + c3)

/* mask = 1 for what is kept, else 0. */
INLINE void draw(float *mask, const uint number)
{
    uint w0 = number, w1 = 0, w2 = 0, w3 = 0, k0 = LAYOUT_SEED, k1 = 0;
    PHILOX(w0, w1, w2, w3, k0, k1)
    mask[0] = (w0 & 0xffff) < LAYOUT_THRESHOLD ? 0.0f : 1.0f;
    mask[1] = (w0 >> 16) < LAYOUT_THRESHOLD ? 0.0f : 1.0f;
    mask[2] = (w1 & 0xffff) < LAYOUT_THRESHOLD ? 0.0f : 1.0f;
    mask[3] = (w1 >> 16) < LAYOUT_THRESHOLD ? 0.0f : 1.0f;
#if VECTOR == 8
    mask[4] = (w2 & 0xffff) < LAYOUT_THRESHOLD ? 0.0f : 1.0f;
    mask[5] = (w2 >> 16) < LAYOUT_THRESHOLD ? 0.0f : 1.0f;
    mask[6] = (w3 & 0xffff) < LAYOUT_THRESHOLD ? 0.0f : 1.0f;
    mask[7] = (w3 >> 16) < LAYOUT_THRESHOLD ? 0.0f : 1.0f;
#endif
}

/* Each of the PARTIALS values becomes the work-group's sum, or its largest. All work-items call it. */
INLINE void combine(float *v, const bool largest, __local float *scratch)
{
    const uint l = local_number();
    __local float *result = scratch + VECTOR * (LOCAL_SIZE + 1);
    UNROLL for (uint c = 0; c < PARTIALS; c++) scratch[c * (LOCAL_SIZE + 1) + l] = v[c];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < PARTIALS) {
        float all = scratch[l * (LOCAL_SIZE + 1)];
        for (uint i = 1; i < LOCAL_SIZE; i++) {
            const float one = scratch[l * (LOCAL_SIZE + 1) + i];
            all = largest ? fmax(all, one) : all + one;
        }
        result[l] = all;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (uint c = 0; c < VECTOR; c++) v[c] = result[PARTIAL(c)];
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* The coordinates of a turn. Beyond the last element (`inside` false) a work-item does nothing. */
#define COORDINATES(turn)                                                                                              \
    uint left_ = (turn);                                                                                               \
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

#define SUMMED(sum, value)                                                                                             \
    EACH sum[PARTIAL(c)] += (value)

#if FORM == LAYOUT_AIB
#define ONCE                                                                                                           \
    for (uint q = 0; q < 3; q++) {                                                                                     \
        GET(v, q, X_STRIDE)                                                                                            \
        GET(bias, 3 + q, W_STRIDE)                                                                                     \
        EACH v[c] += bias[c];                                                                                          \
        PUT(q, X_OFFSET, v)                                                                                            \
    }
#elif FORM == LAYOUT_BRD
#define ONCE                                                                                                           \
    GET(v, 0, X_STRIDE)                                                                                                \
    GET(bias, 1, LAYOUT_ALONE(2))                                                                                      \
    float mask[VECTOR];                                                                                                \
    draw(mask, NUMBER);                                                                                                \
    EACH v[c] += bias[c];                                                                                              \
    PUT(0, X_OFFSET, v)                                                                                                \
    PUT(1, W_STRIDE, mask)                                                                                             \
    EACH v[c] = fmax(v[c], 0.0f) * mask[c] * LAYOUT_KEPT_SCALE;                                                        \
    PUT(2, W_OFFSET, v)
#elif FORM == LAYOUT_BEI
#define ONCE                                                                                                           \
    GET(v, 0, X_STRIDE)                                                                                                \
    GET(h, 1, X_OFFSET)                                                                                                \
    EACH v[c] += h[c];                                                                                                 \
    PUT(0, W_STRIDE, v)
#elif FORM == LAYOUT_BSB
#define ONCE                                                                                                           \
    GET(v, 0, X_STRIDE)                                                                                                \
    GET(normed, 1, X_OFFSET)                                                                                           \
    GET(scale, 2, LAYOUT_ALONE(2))                                                                                     \
    SUMMED(sum0, v[c] * normed[c]);                                                                                    \
    SUMMED(sum1, v[c]);                                                                                                \
    EACH v[c] *= scale[c];                                                                                             \
    PUT(0, W_STRIDE, v)
#elif FORM == LAYOUT_BDRB
#define ONCE                                                                                                           \
    GET(v, 0, X_STRIDE)                                                                                                \
    GET(mask, 1, X_OFFSET)                                                                                             \
    GET(before, 2, W_STRIDE)                                                                                           \
    EACH v[c] = before[c] > 0.0f ? v[c] * mask[c] * LAYOUT_KEPT_SCALE : 0.0f;                                          \
    SUMMED(sum0, v[c]);                                                                                                \
    PUT(0, W_OFFSET, v)
#elif FORM == LAYOUT_EBSB
#define ONCE                                                                                                           \
    GET(v, 0, X_STRIDE)                                                                                                \
    GET(h, 1, X_OFFSET)                                                                                                \
    GET(normed, 2, W_STRIDE)                                                                                           \
    GET(other, 3, W_OFFSET)                                                                                            \
    GET(scale, 4, LAYOUT_ALONE(2))                                                                                     \
    EACH v[c] += h[c];                                                                                                 \
    SUMMED(sum0, v[c] * normed[c]);                                                                                    \
    SUMMED(sum1, v[c]);                                                                                                \
    SUMMED(sum2, other[c]);                                                                                            \
    EACH v[c] *= scale[c];                                                                                             \
    PUT(0, V_STRIDE, v)
#elif FORM == LAYOUT_BAOB
#define ONCE                                                                                                           \
    GET(v, 0, X_STRIDE)                                                                                                \
    SUMMED(sum0, v[c]);
#elif FORM == LAYOUT_BAIB
#define ONCE                                                                                                           \
    GET(v, 0, X_STRIDE)                                                                                                \
    GET(h, 1, X_OFFSET)                                                                                                \
    GET(other, 2, W_STRIDE)                                                                                            \
    SUMMED(sum0, v[c]);                                                                                                \
    SUMMED(sum1, h[c]);                                                                                                \
    SUMMED(sum2, other[c]);
#elif FORM == LAYOUT_SM
/* sum0: the largest so far, sum1: the sum of exponentials of what is less by that. */
#define ONCE                                                                                                           \
    GET(v, 0, X_STRIDE)                                                                                                \
    EACH                                                                                                               \
    {                                                                                                                  \
        const float most = fmax(sum0[PARTIAL(c)], v[c]);                                                               \
        sum1[PARTIAL(c)] = sum1[PARTIAL(c)] * exp(sum0[PARTIAL(c)] - most) + exp(v[c] - most);                         \
        sum0[PARTIAL(c)] = most;                                                                                       \
    }
#define AGAIN                                                                                                          \
    GET(v, 0, X_STRIDE)                                                                                                \
    float mask[VECTOR];                                                                                                \
    draw(mask, NUMBER);                                                                                                \
    EACH v[c] = exp(v[c] - sum0[c]) / sum1[c];                                                                         \
    PUT(0, X_OFFSET, v)                                                                                                \
    PUT(1, W_STRIDE, mask)                                                                                             \
    EACH v[c] *= mask[c] * LAYOUT_KEPT_SCALE;                                                                          \
    PUT(2, W_STRIDE, v)
#elif FORM == LAYOUT_BS
#define READ                                                                                                           \
    GET(v, 0, X_STRIDE)                                                                                                \
    GET(mask, 1, X_OFFSET)                                                                                             \
    GET(d, 2, X_OFFSET)                                                                                                \
    EACH d[c] *= mask[c] * LAYOUT_KEPT_SCALE;
#define ONCE                                                                                                           \
    READ                                                                                                               \
    SUMMED(sum0, v[c] * d[c]);
#define AGAIN                                                                                                          \
    READ                                                                                                               \
    EACH v[c] *= d[c] - sum0[c];                                                                                       \
    PUT(0, W_STRIDE, v)
#elif FORM == LAYOUT_BLNRD
#define READ                                                                                                           \
    GET(v, 0, X_STRIDE)                                                                                                \
    GET(diff, 1, X_OFFSET)
#define ONCE                                                                                                           \
    READ                                                                                                               \
    SUMMED(sum0, v[c]);                                                                                                \
    SUMMED(sum1, v[c] * diff[c]);
#define AGAIN                                                                                                          \
    READ                                                                                                               \
    GET(mask, 2, W_STRIDE)                                                                                             \
    GET(s, 3, V_OFFSET)                                                                                                \
    EACH v[c] = s[c] * (v[c] - (sum0[c] + diff[c] * s[c] * s[c] * sum1[c]) / (float)ROW_LENGTH);                       \
    PUT(0, W_OFFSET, v)                                                                                                \
    EACH v[c] *= mask[c] * LAYOUT_KEPT_SCALE;                                                                          \
    PUT(1, V_STRIDE, v)
#else
#define READ                                                                                                           \
    GET(v, 0, X_STRIDE)                                                                                                \
    GET(residual, 1, X_OFFSET)                                                                                         \
    GET(bias, 2, LAYOUT_ALONE(2))                                                                                      \
    float mask[VECTOR], r[VECTOR];                                                                                     \
    draw(mask, NUMBER);                                                                                                \
    EACH v[c] += bias[c];                                                                                              \
    EACH r[c] = v[c] * mask[c] * LAYOUT_KEPT_SCALE + residual[c];
#define ONCE                                                                                                           \
    READ                                                                                                               \
    SUMMED(sum0, r[c]);                                                                                                \
    SUMMED(sum1, r[c] * r[c]);
#define AGAIN                                                                                                          \
    READ                                                                                                               \
    GET(scale, 3, LAYOUT_ALONE(2))                                                                                     \
    GET(shift, 4, LAYOUT_ALONE(2))                                                                                     \
    PUT(0, W_STRIDE, v)                                                                                                \
    PUT(2, V_STRIDE, mask)                                                                                             \
    EACH r[c] -= sum0[c];                                                                                              \
    PUT(4, Y_STRIDE, r)                                                                                                \
    EACH r[c] *= sum1[c];                                                                                              \
    PUT(3, V_OFFSET, r)                                                                                                \
    EACH r[c] = r[c] * scale[c] + shift[c];                                                                            \
    PUT(1, W_OFFSET, r)
#endif

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void layout_rows(BATCH_ARGUMENT, INPUT(x), OUTPUT(y))
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN(x);
    BEGIN_OUTPUT(y);
    __local float scratch[VECTOR * (LOCAL_SIZE + 1) + VECTOR];
    const uint l = local_number();
    uint rest = group_number();
    if (batch[LAYOUT_LIVE] != 0 && rest < ALL_OUTER) {
        const uint b3 = rest % OUTER(3) * UNIT(3);
        rest /= OUTER(3);
        const uint b2 = rest % OUTER(2) * UNIT(2);
        rest /= OUTER(2);
        const uint b1 = rest % OUTER(1) * UNIT(1), b0 = rest / OUTER(1) * UNIT(0);
        float sum0[VECTOR], sum1[VECTOR], sum2[VECTOR];
        EACH sum0[c] = FORM == LAYOUT_SM ? -1e30f : 0.0f;
        EACH sum1[c] = sum2[c] = 0.0f;
        for (uint turn = 0; turn < ALL_TURNS; turn++) {
            COORDINATES(turn);
            if (inside) {
                ONCE
            }
        }
        if (LAYOUT_REDUCED(FORM) != 0u) {
            /* Coordinates of what is reduced: 0. */
            const uint c0 = REDUCES(0) ? 0u : b0, c1 = REDUCES(1) ? 0u : b1, c2 = REDUCES(2) ? 0u : b2,
                       c3 = REDUCES(3) ? 0u : b3;
#if FORM == LAYOUT_SM
            float most[VECTOR];
            UNROLL for (uint c = 0; c < PARTIALS; c++) most[c] = sum0[c];
            combine(most, true, scratch);
            UNROLL for (uint c = 0; c < PARTIALS; c++) sum1[c] *= exp(sum0[c] - most[c]);
            combine(sum1, false, scratch);
            EACH sum0[c] = most[c];
#else
            combine(sum0, false, scratch);
#endif
#if FORM == LAYOUT_BSB || FORM == LAYOUT_EBSB || FORM == LAYOUT_BAIB || FORM == LAYOUT_BLNRD || FORM == LAYOUT_BDRLN
            combine(sum1, false, scratch);
#endif
#if FORM == LAYOUT_EBSB || FORM == LAYOUT_BAIB
            combine(sum2, false, scratch);
#endif
#if FORM == LAYOUT_BSB || FORM == LAYOUT_EBSB
            PUT_REDUCED(1, LAYOUT_ALONE(2), sum0)
            PUT_REDUCED(2, LAYOUT_ALONE(2), sum1)
#endif
#if FORM == LAYOUT_EBSB
            PUT_REDUCED(3, LAYOUT_ALONE(2), sum2)
#elif FORM == LAYOUT_BDRB
            PUT_REDUCED(1, LAYOUT_ALONE(2), sum0)
#elif FORM == LAYOUT_BAOB
            PUT_REDUCED(0, LAYOUT_ALONE(2), sum0)
#elif FORM == LAYOUT_BAIB
            PUT_REDUCED(0, W_OFFSET, sum0)
            PUT_REDUCED(1, V_STRIDE, sum1)
            PUT_REDUCED(2, V_OFFSET, sum2)
#elif FORM == LAYOUT_BDRLN
            /* The mean and 1 / the standard deviation. */
            EACH sum0[c] /= (float)ROW_LENGTH;
            EACH sum1[c] = 1.0f / sqrt(fmax(sum1[c] / (float)ROW_LENGTH - sum0[c] * sum0[c], 0.0f) + LAYOUT_EPSILON);
            PUT_REDUCED(5, Y_OFFSET, sum1)
#endif
        }
#ifdef AGAIN
        for (uint turn = 0; turn < ALL_TURNS; turn++) {
            COORDINATES(turn);
            if (inside) {
                AGAIN
            }
        }
#endif
        LAST_BARRIER;
    }
}
