/* Tiles of products on cooperative matrices: what gemm_coopmat and gemm_experts_coopmat choose among
 * (shaders/gemm_coopmat_tile.glsl). */
#ifndef WHERRY_PLAN_MATRIX_TILES_H
#define WHERRY_PLAN_MATRIX_TILES_H

#include "plan/tiles.h"

struct text_writer;

struct matrix_tile {
    uint32_t m, n, k;          /* of a work-group's stage */
    uint32_t piece_m, piece_n; /* of a sub-group */
    uint32_t split, stages;    /* sub-groups that share a piece's k; stages in shared memory */
    uint32_t resident;         /* work-groups that a multiprocessor holds */
    double alone, full; /* microseconds for a tile of k in one work-group of a multiprocessor, in `resident` of them */
};

enum { MATRIX_TILES = 6 };
extern const struct matrix_tile matrix_tiles[MATRIX_TILES];

/* Where none of these is chosen: on a CPU, or where shared memory or a work-group is too small. */
const struct matrix_tile *matrix_tile_other(const struct device_limits *limits);

/* Work-items of a work-group. */
uint32_t matrix_tile_items(const struct matrix_tile *t, const struct device_limits *limits);
/* Whether the device's matrices make it, in a product of this form (GEMM_NT, ...) with `more` bytes of shared memory.
 */
bool matrix_tile_fits(const struct matrix_tile *t, const struct device_limits *limits, uint32_t form, size_t more);
/* Of so many work-groups with stages of so much k each. */
double matrix_tile_seconds(const struct matrix_tile *t, uint64_t units, uint64_t groups, uint64_t depth);
void matrix_tile_set(struct call *call, const struct matrix_tile *t, const struct device_limits *limits);

/* Of a call with its sizes: bytes of the array that the shader declares for stages and sums; how much k is loaded of a
 * sum of `k`, which is `depth` at most in one work-group: stages are whole, and the last of many is loaded twice unless
 * k is the batch's number of rows. */
size_t matrix_stage_bytes(const struct call *call);
uint64_t matrix_k_loaded(const struct call *call, uint64_t k, uint64_t depth, bool of_rows);
void matrix_tile_describe(const struct call *call, struct text_writer *text);

#endif
