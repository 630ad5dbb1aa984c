/* Rotary positions (core/graph/rotary.c): which columns of a row of Q, K and V are turned, and by what. Twin of
 * cl/rotary.h. */

#define ROTARY_TURNS(column) (QKV_INTERLEAVED != 0 ? (column) / HEAD_DIM % 3 < 2 : (column) < N / 3 * 2)

/* v, `count` neighbouring channels, an even number from an even one on; `turn` has each pair's cosine and sine. */
#define ROTARY_TURN(v, turn, count)                                                                                    \
    UNROLL for (uint c_ = 0; c_ < count; c_ += 2)                                                                      \
    {                                                                                                                  \
        const float cosine_ = turn[c_], sine_ = ROTARY == ROTARY_BACKWARD ? -turn[c_ + 1] : turn[c_ + 1], x_ = v[c_];  \
        v[c_] = fma(-v[c_ + 1], sine_, x_ * cosine_);                                                                  \
        v[c_ + 1] = fma(x_, sine_, v[c_ + 1] * cosine_);                                                               \
    }
