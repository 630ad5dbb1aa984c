/* The residual in the epilogue of gemm_coopmat: what is added to a work-item's next rows is on its way, in the registers in
 * which x's part of a stage came. From the last stage's product on, where no other stage is asked for then. (glslang makes
 * an && whose right side is long a branch, even of constants: hence the nested conditions.) */

/* Rows of a piece below each other that are one work-item's: where columns are tokens, a call of dropout's generator is for
 * eight of them in one column. */
#define BLOCK (ACROSS && DROPOUT > 0 && KEPT == 0 ? 8 : 1)

/* The one that it has after row r. */
uint row_after(const uint r) { return r + (r % BLOCK < BLOCK - 1 ? 1 : LANES * BLOCK - (BLOCK - 1)); }

/* Whether a work-item has as many rows in each chunk, so that those of the next one follow. */
#define ROWS_FOLLOW (CHUNK % (LANES * BLOCK) == 0)
#define ADDENDS (ROWS_FOLLOW ? X_LOADS : 1)
#define ADDENDS_EARLY (RESIDUAL != 0 ? (ROWS_FOLLOW ? ENDS_FREE : false) : false)

uint addend_row; /* of the piece, which is asked for next */

/* Past the end they are others, and not used: a load under a condition would be waited for. */
uvec4 fetch_addend(const uint piece_row, const uint row_end, const uint column, const uint column_end)
{
    const uint row = min(piece_row + addend_row, row_end - 1);
    addend_row = row_after(addend_row);
    return residual_wide[(row * Y_STRIDE + min(column, column_end - 1)) / 8];
}

/* Those of the first rows from `first` on. */
void fetch_addends(const uint first, const uint piece_row, const uint row_end, const uint column, const uint column_end)
{
    addend_row = first;
    UNROLL
    for (uint i = 0; i < ADDENDS; i++) raw_x[i] = fetch_addend(piece_row, row_end, column, column_end);
}

/* That of the next row. */
uvec4 next_addend(const uint piece_row, const uint row_end, const uint column, const uint column_end)
{
    const uvec4 addend = raw_x[0];
    UNROLL
    for (uint i = 1; i < ADDENDS; i++) raw_x[i - 1] = raw_x[i];
    raw_x[ADDENDS - 1] = fetch_addend(piece_row, row_end, column, column_end);
    return addend;
}
