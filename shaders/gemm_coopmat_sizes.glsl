/* Sizes of a work-group's tile of a product on cooperative matrices. */
layout(constant_id = CONST_TILE_M) const uint TILE_M = 32;
layout(constant_id = CONST_TILE_N) const uint TILE_N = 32;
layout(constant_id = CONST_TILE_K) const uint TILE_K = 128;
layout(constant_id = CONST_THREAD_M) const uint THREAD_M = 32;
layout(constant_id = CONST_THREAD_N) const uint THREAD_N = 32;
layout(constant_id = CONST_STAGES) const uint STAGES = 1;
layout(constant_id = CONST_MATRIX_M) const uint MATRIX_M = 16;
layout(constant_id = CONST_MATRIX_N) const uint MATRIX_N = 16;
layout(constant_id = CONST_MATRIX_K) const uint MATRIX_K = 16;
layout(constant_id = CONST_SUBGROUP) const uint SUBGROUP = 32;

/* Sub-groups of a tile, and what a sub-group has. */
#define PIECES_N (TILE_N / THREAD_N)
#define PIECES (TILE_M / THREAD_M * PIECES_N)
#define SPLIT (LOCAL_SIZE / SUBGROUP / PIECES)
#define STEP_K (TILE_K / SPLIT)
#define MATRICES_M (THREAD_M / MATRIX_M)
#define MATRICES_N (THREAD_N / MATRIX_N)
