/* Which tile of a mixture's products a work-group has: one per tile, columns fastest. A tile has rows of one expert:
 * which, and which of its rows, it counts from the ends of the experts' rows, so that nothing is padded but an expert's
 * last tile; there are at most EXPERTS tiles more than rows / TILE_M. Of a weight's gradient it has rows of an expert's
 * weight. IDS is the list that dispatch.comp makes. */
layout(constant_id = CONST_EXPERTS) const uint EXPERTS = 1;
layout(constant_id = CONST_CHOSEN) const uint CHOSEN = 1;
layout(constant_id = CONST_TOKEN_ROWS) const uint TOKEN_ROWS = 0;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;

#define OF_ROWS (FORM == GEMM_TN) /* what is summed over */
#define X_MAJOR OF_ROWS
#define W_MAJOR (FORM != GEMM_NT)
#define TILES_M ((M + TILE_M - 1) / TILE_M)
#define TILES_N ((N + TILE_N - 1) / TILE_N)

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT_OF(SLOT_IDS, uint, ids);

/* Where a row of an operand begins that has one for each of the list's rows, or one for each token. */
#define LISTED_AT(row, length, by_token) ((by_token) ? (row) / CHOSEN * (length) : (row) * (length))

/* The expert, EXPERTS or more: there is no such tile; where its rows begin and end in the list; and the tile's first row,
 * of them or of the weight's. Of a batch without rows nobody made a list. */
void find_tile(out uint expert, out uint begin, out uint end, out uint row0)
{
    uint place = group_number() / TILES_N;
    expert = batch[ROWS] > 0 ? 0 : EXPERTS;
    begin = 0;
    end = 0;
    if (OF_ROWS) {
        expert += place / TILES_M;
        place %= TILES_M;
        if (expert > 0 && expert < EXPERTS) begin = ids[expert - 1];
    }
    if (expert < EXPERTS) end = ids[expert];
    while (!OF_ROWS && expert < EXPERTS && place >= (end - begin + TILE_M - 1) / TILE_M) {
        place -= (end - begin + TILE_M - 1) / TILE_M;
        begin = end;
        expert++;
        if (expert < EXPERTS) end = ids[expert];
    }
    row0 = place * TILE_M;
}
