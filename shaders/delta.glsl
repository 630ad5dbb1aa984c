/* delta[r][h] from the results of gemm_coopmat: the product of a head's columns with what lies at their place in `saved`.
 * A piece has whole heads. A work-item multiplies its units of eight columns where they lie in shared memory, and after
 * a barrier heads' units are added, in ascending order, by one work-item each. */

/* DELTA: the rows of `saved` that a work-item has of a chunk, all on their way at the same time; elsewhere none is. */
#define SAVED_LOADS (DELTA != 0 ? (CHUNK + LANES - 1) / LANES : 1)
uvec4 raw_saved[SAVED_LOADS];

void fetch_saved(const uint row0, const uint row_end, const uint column)
{
    UNROLL
    for (uint i = 0; i < SAVED_LOADS; i++)
        raw_saved[i] = saved_wide[(min(row0 + i * LANES, row_end - 1) * N + min(column, N - 8)) / 8];
}

/* The results that a work-item left at `from`, LANES rows from one to the next: each becomes its product with `saved`. */
void multiply_saved(const uint from, const uint lane)
{
    UNROLL
    for (uint i = 0; i < SAVED_LOADS; i++) {
        if (lane + i * LANES < CHUNK) {
            const uint at = from + i * LANES * SUMS_PITCH;
            const vec4 v[2] = UNPACK_UNIT(stages[at]), s[2] = UNPACK_UNIT(raw_saved[i]);
            stages[at].x = floatBitsToUint(dot(v[0], s[0]) + dot(v[1], s[1]));
        }
    }
}

/* Of a piece's heads in the rows of a chunk, from the products of their units. */
void store_delta(const uint staged, const uint item, const uint row0, const uint row_end, const uint column0)
{
    const uint heads = THREAD_N / HEAD_DIM;
    for (uint i = item; i < CHUNK * heads; i += SUBGROUP * SPLIT) {
        const uint r = i / heads, head = i % heads, column = column0 + head * HEAD_DIM;
        if (row0 + r < row_end && column < N) {
            const uint from = staged + r * SUMS_PITCH + head * (HEAD_DIM / 4);
            float sum = 0.0;
            for (uint u = 0; u < HEAD_DIM / 8; u++) sum += uintBitsToFloat(stages[from + u * 2].x);
            delta[(row0 + r) * (N / HEAD_DIM) + column / HEAD_DIM] = sum;
        }
    }
}
