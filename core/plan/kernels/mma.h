/* What the products by mma.sync share: tiles of warps, with stages in shared memory (cl/mma_tile.h). */
#ifndef WHERRY_PLAN_KERNELS_MMA_H
#define WHERRY_PLAN_KERNELS_MMA_H

#include "base/text.h"
#include "interface/interface.h"
#include "plan/tiles.h"

struct mma_tile {
    uint32_t m, n, k, warp_m, warp_n, stages;
    double speed;    /* when every multiprocessor is busy, relative to the first */
    uint32_t groups; /* work-groups that run at the same time on a multiprocessor */
    bool roomy;      /* wants more shared memory than every such chip has */
};

/* 96 KB are what every chip from sm_80 on gives one work-group (sm_86: 99), A100 and Hopper give 163 and more. */
static inline bool mma_tile_fits(const struct mma_tile *t, const struct sizes *s)
{
    return !t->roomy || s->limits->nvidia_sm == 80 || s->limits->nvidia_sm == 90;
}

static inline void mma_tile_set(struct call *call, const struct mma_tile *t)
{
    call_set(call, CONST_LOCAL_SIZE, t->m / t->warp_m * (t->n / t->warp_n) * 32);
    call_set(call, CONST_TILE_M, t->m);
    call_set(call, CONST_TILE_N, t->n);
    call_set(call, CONST_TILE_K, t->k);
    call_set(call, CONST_WARP_M, t->warp_m);
    call_set(call, CONST_WARP_N, t->warp_n);
    call_set(call, CONST_STAGES, t->stages);
}

static inline size_t mma_shared_bytes(const struct call *call)
{
    return (size_t)(call_get(call, CONST_TILE_M, 0) + call_get(call, CONST_TILE_N, 0)) *
           call_get(call, CONST_TILE_K, 0) * 2 * call_get(call, CONST_STAGES, 1);
}

static inline void mma_describe(const struct call *call, struct text_writer *text)
{
    text_add(text, "%ux%ux%u, %ux%u a warp, %u stages", (unsigned)call_get(call, CONST_TILE_M, 1),
             (unsigned)call_get(call, CONST_TILE_N, 1), (unsigned)call_get(call, CONST_TILE_K, 1),
             (unsigned)call_get(call, CONST_WARP_M, 1), (unsigned)call_get(call, CONST_WARP_N, 1),
             (unsigned)call_get(call, CONST_STAGES, 1));
}

#endif
