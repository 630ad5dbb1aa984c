/* Norms of gemm_wgmma's rows of x, whose gamma is in the weight, as is the mean that a layernorm takes from x: rows of
 * the weight sum to 0 (graph/fold.h). What is left is a factor for each row of sums. Those that multiply a row read it
 * in shared memory, too, while the tensor cores do. For gemm_wgmma.cl alone. */
#if NORM
/* Times that a warpgroup releases a stage: its products end at once, but each warp has read for itself. */
#define RELEASES 4

/* Of this work-item's two rows, those of its sums, over a quarter of the columns. A row's moments have the same bits
 * whatever its number: of a stage two parts are added, whichever was loaded first, and in the end the quarters. */
struct moments {
    float shift[2]; /* x's first element: a row may be far from 0 beside what it deviates */
    float sum[2], squares[2];
};

/* This work-item's first row in its warpgroup's box of x. The second is 8 rows further. */
INLINE uint moments_row(void) { return (local_number() / 32 % 4 * 16 + local_number() % 32 / 4) * 128; }

INLINE void moments_clear(struct moments *m)
{
    UNROLL for (uint h = 0; h < 2; h++) m->shift[h] = m->sum[h] = m->squares[h] = 0.0f;
}

/* Odd rows begin with the other half of a stage's columns: so eight lanes, which two rows have, meet all banks. */
INLINE void moments_add(struct moments *m, __local const uchar *x, const bool first)
{
    const uint row = local_number() % 32 / 4, unit = local_number() % 4 ^ row % 2 * 4 ^ row;
    UNROLL for (uint h = 0; h < 2; h++)
    {
        __local const uchar *const from = x + h * 1024;
        float sum[2] = {0.0f, 0.0f}, squares[2] = {0.0f, 0.0f};
#if RMS == RMS_NONE
        if (first) m->shift[h] = LOAD((__local const storage *)(from + (row << 4)), 0);
#endif
        UNROLL for (uint part = 0; part < 2; part++)
        {
            float v[8];
            unpack_vector(*(__local const uint4 *)(from + ((unit ^ part * 4) << 4)), v);
            UNROLL for (uint c = 0; c < 8; c++)
            {
#if RMS == RMS_NONE
                v[c] -= m->shift[h];
                sum[part] += v[c];
#endif
                squares[part] = fma(v[c], v[c], squares[part]);
            }
        }
        m->sum[h] += sum[0] + sum[1];
        m->squares[h] += squares[0] + squares[1];
    }
}

/* Weights were divided by the power of two that gamma's place holds. */
INLINE float power_of(__global const storage *gamma)
{
    return LOAD(gamma, 0) + (RMS == RMS_ONE_GAMMA ? 1.0f : 0.0f);
}

INLINE void moments_scale(const struct moments *m, const float power, float *sums)
{
    UNROLL for (uint h = 0; h < 2; h++)
    {
        const float mean = quad_sum(m->sum[h]) * (1.0f / (float)(K));
        const float square = quad_sum(m->squares[h]) * (1.0f / (float)(K));
        const float scale = power * rsqrt(fmax(square - mean * mean, 0.0f) + as_float((uint)(EPSILON)));
        UNROLL for (uint i = 0; i < SUMS; i += 4)
        {
            sums[i + 2 * h] *= scale;
            sums[i + 2 * h + 1] *= scale;
        }
    }
}
#else
#define RELEASES 1
#endif
