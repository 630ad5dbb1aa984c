/* Norms' halves in the epilogue of products on cooperative matrices (MOMENTS_*): what cl/gemm_wgmma_moments.h does for
 * wgmma's. Of eight columns of a row each work-item makes mean and squares around it, of a strip one joins eight of these. For
 * gemm_coopmat.comp alone. */
#define MOMENTS_EACH (RMS == RMS_NONE ? 2 : 1)
#define STRIP_UNITS (MOMENTS_STRIP / 8)

/* Of v as it is stored. */
uvec2 unit_moments(const vec4 v[2])
{
    const vec4 ones = vec4(1.0), a = unpack_quad(pack_quad(v[0])), b = unpack_quad(pack_quad(v[1]));
    const float mean = RMS == RMS_NONE ? (dot(a, ones) + dot(b, ones)) / 8.0 : 0.0;
    return floatBitsToUint(vec2(mean, dot(a - mean, a - mean) + dot(b - mean, b - mean)));
}

/* Of the units that lie at `from`, a row's from `column` on; strips are as many as a sub-group's columns have. */
void store_moments(const uint from, const uint row, const uint column)
{
    UNROLL
    for (uint s = 0; s < THREAD_N / MOMENTS_STRIP; s++) {
        const uint strip = column / MOMENTS_STRIP + s, at = (row * (N / MOMENTS_STRIP) + strip) * MOMENTS_EACH;
        if (strip >= N / MOMENTS_STRIP) break;
        float mean = 0.0, squares = 0.0;
        for (uint u = 0; u < STRIP_UNITS; u++) {
            const vec2 unit = uintBitsToFloat(stages[from + (s * STRIP_UNITS + u) * 2].xy);
            mean += unit.x / float(STRIP_UNITS);
            squares += unit.y;
        }
        for (uint u = 0; RMS == RMS_NONE && u < STRIP_UNITS; u++) {
            const float apart = uintBitsToFloat(stages[from + (s * STRIP_UNITS + u) * 2].x) - mean;
            squares = fma(8.0 * apart, apart, squares);
        }
        if (RMS == RMS_NONE) made_moments[at] = mean;
        made_moments[at + MOMENTS_EACH - 1] = squares;
    }
}

/* The factors of a tile's rows, to after the stages. */
void put_factors(const uint row0, const uint row_end)
{
    const uint strips = K / MOMENTS_STRIP;
    for (uint r = local_number(); r < TILE_M; r += LOCAL_SIZE) {
        const uint from = min(row0 + r, row_end - 1) * strips * MOMENTS_EACH;
        /* Means are of those from the first. */
        const float first = moments[from];
        float sum = 0.0, means = 0.0, squares = 0.0;
        ROLLED
        for (uint s = 0; s < strips; s++) {
            if (RMS == RMS_NONE) {
                const float mean = moments[from + s * 2] - first;
                sum += mean;
                means = fma(mean, mean, means);
            }
            squares += moments[from + s * MOMENTS_EACH + MOMENTS_EACH - 1];
        }
        if (RMS == RMS_NONE) squares = fma(max(fma(-sum, sum / float(strips), means), 0.0), float(MOMENTS_STRIP), squares);
        const float factor = LOAD(gamma, 0) / sqrt(squares / float(K) + uintBitsToFloat(EPSILON));
        stages[PLACE + r / 4][r % 4] = floatBitsToUint(factor);
    }
}

float row_factor(const uint r) { return uintBitsToFloat(stages[PLACE + r / 4][r % 4]); }
