/* What attention_backward_wgmma does for a bias by distance: biases of its tiles' pairs, and the sums of the scores'
 * gradients by distance. Included after the tiles' sizes. */
#if RELATIVE > 0
/* Biases of all pairs of a tile of keys and one of queries that begin up to so far apart; beyond there is one for all
 * (RELATIVE is at most TILE_KEYS), and a tile farther away takes the place of the last. */
#define APART_LEAST (-2 * TILE_KEYS)
#define APART_MOST (TILE_KEYS + TILE_QUERIES)
#define BIAS_ZERO (TILE_QUERIES - 1 - APART_LEAST)
#define BIASES (BIAS_ZERO + APART_MOST + TILE_KEYS)

/* The sums of scores' gradients by distance. A warpgroup's 64 keys x 64 queries are blocks of 8 x 8, of which those of a
 * diagonal are added up element by element: block diagonal u has the distances 8 u + key - query in its block. Those
 * from -BLOCK_MOST to BLOCK_MOST have a sum of their own in shared memory; what is farther is beyond RELATIVE, and needs
 * one for all. A warp owns the diagonals whose number leaves its own when it is divided by four. */
#define BLOCK_MOST ((int)((RELATIVE + 6) / 8))
#define BLOCK_DIAGONALS (2 * BLOCK_MOST + 1)

INLINE float2 unpack_pair(const uint halves)
{
#if BF16
    return bf16_floats(halves);
#else
    return (float2)(vload_half(0, (const half *)&halves), vload_half(1, (const half *)&halves));
#endif
}

/* One diagonal's sum of a tile: two neighbouring queries of a key. */
INLINE void add_diagonal(__local float2 *diagonals, const int block, const float2 sum, float *far)
{
    if (block > BLOCK_MOST)
        far[1] += sum.x + sum.y;
    else if (block < -BLOCK_MOST)
        far[0] += sum.x + sum.y;
    else
        diagonals[(block + BLOCK_MOST) * 32 + (int)(local_number() % 32)] += sum;
}

/* Of the scores' gradients at `changes`, [key][query], whose first block is of the diagonal `block`, the warp's own:
 * diagonals d and d - 8 of the tile have eight blocks together. */
INLINE void add_diagonals(__local float2 *diagonals, const uint changes, const int block, float *far)
{
    const uint warp = local_number() % WARPGROUP / 32, lane = local_number() % 32;
    UNROLL
    for (uint half_of = 0; half_of < 2; half_of++) {
        const uint d = warp + half_of * 4;
        float2 low = (float2)(0.0f), high = (float2)(0.0f); /* low: of d - 8 */
        UNROLL
        for (uint i = 0; i < 8; i += 4) {
            const uint row = i + lane / 8, chunk = ((row - d) & 7) ^ lane % 8;
            const uint4 four = load_matrices(changes + (row * 8 + lane % 8) * ROW_BYTES + chunk * 16);
            const uint word[4] = {four.x, four.y, four.z, four.w};
            UNROLL
            for (uint k = 0; k < 4; k++) {
                const float2 pair = unpack_pair(word[k]);
                if (i + k >= d)
                    high += pair;
                else
                    low += pair;
            }
        }
        add_diagonal(diagonals, block + (int)d, high, far);
        add_diagonal(diagonals, block + (int)d - 8, low, far);
    }
}

/* The warp's own of its warpgroup begin anew. */
INLINE void clear_diagonals(__local float2 *diagonals)
{
    const int warp = (int)(local_number() % WARPGROUP / 32);
    for (int block = -BLOCK_MOST; block <= BLOCK_MOST; block++)
        if ((block & 3) == warp) diagonals[(block + BLOCK_MOST) * 32 + (int)(local_number() % 32)] = (float2)(0.0f);
}

INLINE float warp_sum(float v)
{
    UNROLL
    for (uint bit = 16; bit > 0; bit /= 2) v += shuffle_xor_float(v, bit);
    return v;
}

/* Of both warpgroups, the sum of a distance within RELATIVE: one element of each column of a block. */
INLINE float diagonal_sum(const __local float2 *diagonals, const int offset)
{
    const int up = offset & 7, block = (offset - up) / 8 + BLOCK_MOST;
    float sum = 0.0f;
    UNROLL
    for (int query = 0; query < 8; query++) {
        const int at = (block + (query + up) / 8) * 64 + (query + up) % 8 * 8 + query;
        const __local float *of = (const __local float *)diagonals;
        sum += of[at] + of[at + BLOCK_DIAGONALS * 64];
    }
    return sum;
}

/* All pairs at least RELATIVE apart, on one side, by a warp: `far` is what has no diagonal of its own. */
INLINE float far_sum(const __local float2 *diagonals, const __local float *far, const bool after)
{
    const uint lane = local_number() % 32;
    float sum = lane < CONSUMERS / 32 ? far[lane * 2 + after] : 0.0f;
    UNROLL
    for (uint i = 0; i < 4; i++) {
        const int block = (after ? 1 : -1) * (BLOCK_MOST - (int)(i / 2));
        const float2 pair = diagonals[(i % 2 * BLOCK_DIAGONALS + block + BLOCK_MOST) * 32 + lane];
        const int apart = 8 * block + (int)(lane / 4) - (int)(lane % 4 * 2);
        sum += (after ? apart >= FARTHEST : apart <= -FARTHEST) ? pair.x : 0.0f;
        sum += (after ? apart - 1 >= FARTHEST : apart - 1 <= -FARTHEST) ? pair.y : 0.0f;
    }
    return warp_sum(sum);
}

/* Stores the sums of a sequence and head (cl/distance_sums.cl), times a factor, by all that compute. `far`: this
 * work-item's; `all_far`: [warp][before, after]. */
INLINE void store_distances(__global float *distances, const uint length, const __local float2 *diagonals, float *far,
                            __local float *all_far, const float factor)
{
    const uint warp = local_number() / 32, most = min(length - 1, (uint)RELATIVE);
    UNROLL
    for (uint side = 0; side < 2; side++) {
        const float sum = warp_sum(far[side]);
        if (local_number() % 32 == 0) all_far[warp * 2 + side] = sum;
        far[side] = 0.0f;
    }
    barrier_named(3, CONSUMERS);
    for (uint e = local_number(); e < 2 * length; e += CONSUMERS) {
        const bool end = most == RELATIVE && (e == 0 || e == 2 * most);
        if (!end) distances[e * HEADS] = e <= 2 * most ? diagonal_sum(diagonals, (int)e - (int)most) * factor : 0.0f;
    }
    if (warp < 2 && most == RELATIVE) {
        const float sum = far_sum(diagonals, all_far, warp == 1) * factor;
        if (local_number() % 32 == 0) distances[warp * 2 * most * HEADS] = sum;
    }
    barrier_named(3, CONSUMERS);
}
#endif
