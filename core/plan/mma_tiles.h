/* Tiles of products by mma.sync: of warps, with stages in shared memory (cl/mma_tile.h). What gemm_mma,
 * gemm_experts_mma and gemm_pool_mma share. */
#ifndef WHERRY_PLAN_MMA_TILES_H
#define WHERRY_PLAN_MMA_TILES_H

#include "plan/tiles.h"

struct text_writer;

struct mma_tile {
    uint32_t m, n, k, warp_m, warp_n, stages;
    double speed;    /* when every multiprocessor is busy, relative to the first */
    uint32_t groups; /* work-groups that run at the same time on a multiprocessor */
    bool roomy;      /* wants more shared memory than every such chip has */
};

/* The first MMA_TILES_DENSE are for products whose rows have one weight; the last is for experts of few rows. */
enum { MMA_TILES_DENSE = 5, MMA_TILES };
extern const struct mma_tile mma_tiles[MMA_TILES];

/* A search's (plan/tiles.h): whether the chip has the shared memory. */
bool mma_tile_fits(const struct call *call, const struct sizes *s, int tile);
void mma_tile_set(struct call *call, const struct mma_tile *t);
/* Of a call with its sizes. */
size_t mma_shared_bytes(const struct call *call);
void mma_describe(const struct call *call, struct text_writer *text);

#endif
