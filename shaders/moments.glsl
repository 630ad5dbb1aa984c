/* Norms' halves in the epilogue of products on cooperative matrices (MOMENTS_*): what cl/gemm_wgmma_moments.h does for
 * wgmma's. Each work-item sums eight columns of a row, of a strip one joins eight of these. For gemm_coopmat.comp alone. */
#define MOMENTS_EACH (RMS == RMS_NONE ? 2 : 1)
#define STRIP_UNITS (MOMENTS_STRIP / 8)

/* Sum and sum of squares. */
uvec2 unit_moments(const vec4 v[2])
{
    const vec4 ones = vec4(1.0);
    const float sum = RMS == RMS_NONE ? dot(v[0], ones) + dot(v[1], ones) : 0.0;
    return floatBitsToUint(vec2(sum, dot(v[0], v[0]) + dot(v[1], v[1])));
}

/* Of the units that lie at `from`, a row's from `column` on; strips are as many as a sub-group's columns have. */
void store_moments(const uint from, const uint row, const uint row_end, const uint column)
{
    UNROLL
    for (uint s = 0; s < THREAD_N / MOMENTS_STRIP; s++) {
        const uint strip = column / MOMENTS_STRIP + s;
        if (strip >= N / MOMENTS_STRIP) break;
        vec2 total = vec2(0.0);
        UNROLL
        for (uint u = 0; u < STRIP_UNITS; u++) total += uintBitsToFloat(stages[from + (s * STRIP_UNITS + u) * 2].xy);
        if (RMS == RMS_NONE)
            made_moments_pairs[strip * row_end + row] = total;
        else
            made_moments[strip * row_end + row] = total.y;
    }
}

/* The factors of a tile's rows, to after the stages. Sums of squares and squares of sums cancel by no more than storing in 16
 * bits took from the values. */
void put_factors(const uint row0, const uint row_end)
{
    const uint strips = K / MOMENTS_STRIP;
    for (uint r = local_number(); r < TILE_M; r += LOCAL_SIZE) {
        const uint row = min(row0 + r, row_end - 1);
        vec2 total = vec2(0.0);
        UNROLL
        for (uint s = 0; s < strips; s++)
            total += RMS == RMS_NONE ? moments_pairs[s * row_end + row] : vec2(0.0, moments[s * row_end + row]);
        const float squares = max(fma(-total.x, total.x / float(K), total.y), 0.0);
        const float factor = LOAD(gamma, 0) / sqrt(squares / float(K) + uintBitsToFloat(EPSILON));
        stages[PLACE + r / 4][r % 4] = floatBitsToUint(factor);
    }
}

float row_factor(const uint r) { return uintBitsToFloat(stages[PLACE + r / 4][r % 4]); }
