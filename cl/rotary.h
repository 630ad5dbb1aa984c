/* Rotary positions (core/graph/rotary.c): which columns of a row of Q, K and V are turned, and by what. Twin of
 * shaders/rotary.glsl. */

#define ROTARY_TURNS(column) (QKV_INTERLEAVED != 0 ? (column) / HEAD_DIM % 3 < 2 : (column) < N / 3 * 2)

/* v, `count` neighbouring channels, an even number from an even one on; `turn` has each pair's cosine and sine. */
static inline void rotary_turn(float *v, const float *turn, const uint count)
{
    UNROLL for (uint c = 0; c < count; c += 2)
    {
        const float cosine = turn[c], sine = ROTARY == ROTARY_BACKWARD ? -turn[c + 1] : turn[c + 1], x = v[c];
        v[c] = fma(-v[c + 1], sine, x * cosine);
        v[c + 1] = fma(x, sine, v[c + 1] * cosine);
    }
}
