/* Which tile of a mixture's products a work-group has: one per tile, columns fastest. A tile has rows of one expert:
 * which, and which of its rows, it counts from the ends of the experts' rows, so that nothing is padded but an expert's
 * last tile; there are at most EXPERTS tiles more than rows / TILE_M. Of a weight's gradient it has rows of an expert's
 * weight. `ids` is the list that dispatch.cl makes. Twin of shaders/expert_tile.glsl. */
#ifndef EXPERTS
#define EXPERTS 1
#endif
#ifndef CHOSEN
#define CHOSEN 1
#endif
#ifndef TOKEN_ROWS
#define TOKEN_ROWS 0
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif

#define OF_ROWS (FORM == GEMM_TN) /* what is summed over */
#define TILES_M ((M + TILE_M - 1) / TILE_M)
#define TILES_N ((N + TILE_N - 1) / TILE_N)

/* Where a row of an operand begins that has one for each of the list's rows, or one for each token. */
#define LISTED_AT(row, length, by_token) ((by_token) ? (row) / CHOSEN * (length) : (row) * (length))

/* The expert, EXPERTS or more: there is no such tile; where its rows begin and end in the list; and the tile's first
 * row, of them or of the weight's. Of a batch of no rows, a driver's first launch (backends/opencl/program.c), nobody
 * made a list: whatever lies in its place is not read. */
INLINE void find_tile(__global const uint *batch, __global const uint *ids, uint *expert, uint *begin, uint *end,
                      uint *row0)
{
    uint place = group_number() / TILES_N, at = batch[ROWS] > 0 ? 0 : EXPERTS, first = 0, last = 0;
    if (OF_ROWS) {
        at += place / TILES_M;
        place %= TILES_M;
        if (at > 0 && at < EXPERTS) first = ids[at - 1];
    }
    if (at < EXPERTS) last = ids[at];
    while (!OF_ROWS && at < EXPERTS && place >= (last - first + TILE_M - 1) / TILE_M) {
        place -= (last - first + TILE_M - 1) / TILE_M;
        first = last;
        at++;
        if (at < EXPERTS) last = ids[at];
    }
    *expert = at;
    *begin = first;
    *end = last;
    *row0 = place * TILE_M;
}
