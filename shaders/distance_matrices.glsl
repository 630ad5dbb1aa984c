/* ---- sums by distance ----
 * A subgroup has sums of its own, one for each distance up to RELATIVE and EDGE more on either side, so that neighbours,
 * each of whom adds up a diagonal of a matrix, never add to the same one. A matrix that is all beyond RELATIVE counts as
 * one that just is. */
#define EDGE (MATRIX_M + MATRIX_N - 2)
#define DISTANCE_SUMS (2 * (RELATIVE + EDGE) + 1)
shared float distance_sums[RELATIVE > 0 ? SUBGROUPS * DISTANCE_SUMS : 1];
shared float change_tile[RELATIVE > 0 ? SUBGROUPS * MATRIX_M * MATRIX_N : 1];

#define SUM_DISTANCES(change, apart)                                                                                   \
    {                                                                                                                  \
        subgroupBarrier(); /* nobody reads the matrix before any more */                                               \
        coopMatStore(change, change_tile, gl_SubgroupID * MATRIX_M * MATRIX_N, MATRIX_N, BY_ROWS);                     \
        subgroupBarrier();                                                                                             \
        add_diagonals(apart);                                                                                          \
    }

void add_diagonals(const int given)
{
    const int apart = clamp(given, -FARTHEST - int(MATRIX_N - 1), FARTHEST + int(MATRIX_M - 1));
    for (uint d = gl_SubgroupInvocationID; d <= EDGE; d += SUBGROUP) {
        float all = 0.0;
        for (uint row = 0; row < MATRIX_M; row++) {
            const uint column = row + d - (MATRIX_M - 1);
            if (column < MATRIX_N) all += change_tile[(gl_SubgroupID * MATRIX_M + row) * MATRIX_N + column];
        }
        const int offset = apart + int(d) - int(MATRIX_M - 1);
        distance_sums[gl_SubgroupID * DISTANCE_SUMS + uint(offset + FARTHEST + int(EDGE))] += all;
    }
}

/* distances[e][head] of a sequence (shaders/distance_sums.comp), `at` being that of its first one. */
void store_distances(const uint at, const uint tokens)
{
    const int most = min(int(tokens) - 1, FARTHEST);
    barrier();
    for (int e = int(local_number()); e < 2 * int(tokens); e += int(LOCAL_SIZE)) {
        const int offset = e - most;
        const int low = offset == -FARTHEST ? offset - int(EDGE) : offset,
                  high = offset == FARTHEST ? offset + int(EDGE) : offset;
        float all = 0.0;
        for (uint s = 0; s < SUBGROUPS && e <= 2 * most; s++)
            for (int o = low; o <= high; o++) all += distance_sums[s * DISTANCE_SUMS + uint(o + FARTHEST + int(EDGE))];
        distances[at + uint(e) * HEADS] = all * uintBitsToFloat(SCALE) * KEPT_SCALE;
    }
}
