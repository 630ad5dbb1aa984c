/* Rotary positions (core/graph/rotary.c): which columns of a row of Q, K and V are turned, and by what. Twin of
 * shaders/rotary.glsl. */

#ifndef KEY_HEADS
#define KEY_HEADS 0
#endif
/* The columns of Q and K, where V has not as many as each. */
#define ROTARY_COLUMNS (KEY_HEADS != 0 ? N - KEY_HEADS * HEAD_DIM : N / 3 * 2)
#define ROTARY_TURNS(column) (QKV_INTERLEAVED != 0 ? (column) / HEAD_DIM % 3 < 2 : (column) < ROTARY_COLUMNS)

/* The pairs (x, y) and (z, w) of a token at `position`, from `column` on; what lies after the row's end stays. */
static inline float4 rotary_quad(const float4 v, __global const float *table, const uint position, const uint column)
{
    float4 turned = v;
    UNROLL for (uint c = 0; c < 4; c += 2)
    {
        if (column + c < N && ROTARY_TURNS(column + c)) {
            const uint at = position * HEAD_DIM + (column + c) % HEAD_DIM;
            const float cosine = table[at], sine = ROTARY == ROTARY_BACKWARD ? -table[at + 1] : table[at + 1];
            if (c == 0)
                turned.xy = (float2)(fma(-v.y, sine, v.x * cosine), fma(v.x, sine, v.y * cosine));
            else
                turned.zw = (float2)(fma(-v.w, sine, v.z * cosine), fma(v.z, sine, v.w * cosine));
        }
    }
    return turned;
}

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

/* The angles of eight channels from `column` on of a token at `position`; HEAD_DIM is a multiple of 8. */
static inline void rotary_fetch_eight(float4 *turn, __global const float *table, const uint position, const uint column,
                                      const bool turns)
{
    __global const float4 *const from = (__global const float4 *)(table + position * HEAD_DIM + column % HEAD_DIM);
    turn[0] = turns ? from[0] : (float4)(0.0f);
    turn[1] = turns ? from[1] : (float4)(0.0f);
}

/* v, eight channels, turned by them. */
static inline void rotary_turn_eight(float *v, const float4 *angles)
{
    const float turn[8] = {angles[0].x, angles[0].y, angles[0].z, angles[0].w,
                           angles[1].x, angles[1].y, angles[1].z, angles[1].w};
    rotary_turn(v, turn, 8);
}

/* v, eight channels from `column` on, of a token at `position`. */
static inline void rotary_eight(float *v, __global const float *table, const uint position, const uint column)
{
    if (ROTARY_TURNS(column)) {
        float4 angles[2];
        rotary_fetch_eight(angles, table, position, column, true);
        rotary_turn_eight(v, angles);
    }
}
