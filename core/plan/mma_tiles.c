#include "plan/mma_tiles.h"

#include "base/text.h"
#include "interface/interface.h"

/* A warp's 64 x 64 sums are as many as its registers hold. Two work-groups of four warps hide each other's beginnings
 * and ends; one of eight reads less: 128 x 128 wants 6.3 TB/s of an H200's L2 cache for 400 TFLOP/s, 128 x 256 a
 * quarter less. There 8192^3 ran at 446, 431, 405 and 376 TFLOP/s with the first four, 4096 x 3072 x 1024 at 397, 385,
 * 374 and 367. The fifth is for outputs that give the others no work, the last for experts of few rows; the speeds of
 * both are estimates. */
const struct mma_tile mma_tiles[MMA_TILES] = {
    {128, 256, 64, 64, 64, 3, 1.0, 1, true},   /* 144 KB */
    {128, 256, 32, 64, 64, 4, 0.97, 1, false}, /* 96 KB */
    {128, 128, 64, 64, 64, 3, 0.91, 2, true},  /* 96 KB for each of two */
    {128, 128, 32, 64, 64, 4, 0.84, 2, false}, /* 64 KB */
    {64, 64, 64, 32, 32, 3, 0.6, 2, false},    /* 48 KB */
    {32, 128, 64, 32, 32, 3, 0.5, 2, false},   /* 60 KB */
};

/* 96 KB are what every chip from sm_80 on gives one work-group (sm_86: 99), A100 and Hopper give 163 and more. */
bool mma_tile_fits(const struct call *call, const struct sizes *s, int tile)
{
    (void)call;
    return !mma_tiles[tile].roomy || s->limits->nvidia_sm == 80 || s->limits->nvidia_sm == 90;
}

void mma_tile_set(struct call *call, const struct mma_tile *t)
{
    call_set(call, CONST_LOCAL_SIZE, t->m / t->warp_m * (t->n / t->warp_n) * 32);
    call_set(call, CONST_TILE_M, t->m);
    call_set(call, CONST_TILE_N, t->n);
    call_set(call, CONST_TILE_K, t->k);
    call_set(call, CONST_WARP_M, t->warp_m);
    call_set(call, CONST_WARP_N, t->warp_n);
    call_set(call, CONST_STAGES, t->stages);
}

size_t mma_shared_bytes(const struct call *call)
{
    return (size_t)(call_get(call, CONST_TILE_M, 0) + call_get(call, CONST_TILE_N, 0)) *
           call_get(call, CONST_TILE_K, 0) * 2 * call_get(call, CONST_STAGES, 1);
}

void mma_describe(const struct call *call, struct text_writer *text)
{
    text_add(text, "%ux%ux%u, %ux%u a warp, %u stages", (unsigned)call_get(call, CONST_TILE_M, 1),
             (unsigned)call_get(call, CONST_TILE_N, 1), (unsigned)call_get(call, CONST_TILE_K, 1),
             (unsigned)call_get(call, CONST_WARP_M, 1), (unsigned)call_get(call, CONST_WARP_N, 1),
             (unsigned)call_get(call, CONST_STAGES, 1));
}
