/* Rotary positions (core/graph/rotary.c): which columns of a row of Q, K and V are turned, and by what. Twin of
 * cl/rotary.h. */

layout(constant_id = CONST_KEY_HEADS) const uint KEY_HEADS = 0;
/* The columns of Q and K, where V has not as many as each. */
#define ROTARY_COLUMNS (KEY_HEADS != 0 ? N - KEY_HEADS * HEAD_DIM : N / 3 * 2)
#define ROTARY_TURNS(column) (QKV_INTERLEAVED != 0 ? (column) / HEAD_DIM % 3 < 2 : (column) < ROTARY_COLUMNS)

/* v = the pairs (x, y) and (z, w) of a token at `at_position`, from `column` on, turned by `table`; what lies after the
 * row's end stays. */
#define ROTARY_QUAD(v, table, at_position, column)                                                                     \
    UNROLL for (uint c_ = 0; c_ < 4; c_ += 2)                                                                          \
    {                                                                                                                  \
        if ((column) + c_ < N && ROTARY_TURNS((column) + c_)) {                                                        \
            const uint at_ = (at_position) * HEAD_DIM + ((column) + c_) % HEAD_DIM;                                    \
            const float cosine_ = table[at_], sine_ = ROTARY == ROTARY_BACKWARD ? -table[at_ + 1] : table[at_ + 1];    \
            const float x_ = v[c_];                                                                                    \
            v[c_] = fma(-v[c_ + 1], sine_, x_ * cosine_);                                                              \
            v[c_ + 1] = fma(x_, sine_, v[c_ + 1] * cosine_);                                                           \
        }                                                                                                              \
    }

/* v, `count` neighbouring channels, an even number from an even one on; `turn` has each pair's cosine and sine. */
#define ROTARY_TURN(v, turn, count)                                                                                    \
    UNROLL for (uint c_ = 0; c_ < count; c_ += 2)                                                                      \
    {                                                                                                                  \
        const float cosine_ = turn[c_], sine_ = ROTARY == ROTARY_BACKWARD ? -turn[c_ + 1] : turn[c_ + 1], x_ = v[c_];  \
        v[c_] = fma(-v[c_ + 1], sine_, x_ * cosine_);                                                                  \
        v[c_ + 1] = fma(x_, sine_, v[c_ + 1] * cosine_);                                                               \
    }
