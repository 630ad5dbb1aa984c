/* The products of a mixture of experts, and their weights' gradients, by mma.sync: cl/gemm_experts_mma.cl. */
#include "interface/interface.h"
#include "plan/mma_tiles.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    if (!s->f16) return variant_refuse(reason, "its operands have 16 bits");
    return call_get(call, CONST_ALIGNED, 0) || variant_refuse(reason, "its rows start on 16 bytes");
}

/* Tiles of rows of an expert, which has more or less than its share of them: its last tile is half full. */
static double tiles_of_rows(const struct call *call, const struct sizes *s, uint32_t tile_m)
{
    uint64_t m = call_get(call, CONST_M, 0);
    double tiles_each = 0.5 + (double)experts_rows(call, s->max_rows) / tile_m;
    if (m) return (double)divide_up(m, tile_m);
    return tiles_each < 1 ? 1 : tiles_each;
}

/* Work-groups run in rounds, each as long as its tiles are large; the sums are as long with any tile. */
static double tile_cost(const struct call *call, const struct sizes *s, int tile, uint64_t parts)
{
    const struct mma_tile *t = &mma_tiles[tile];
    uint64_t groups = (uint64_t)(call_get(call, CONST_EXPERTS, 1) * tiles_of_rows(call, s, t->m)) *
                      divide_up(call_get(call, CONST_N, 1), t->n),
             at_once = (uint64_t)t->groups * device_units(s->limits);
    (void)parts;
    return (double)(divide_up(groups, at_once) * t->groups * t->m * t->n) / t->speed;
}

static void size(struct call *call, const struct sizes *s)
{
    static const struct tile_search search = {MMA_TILES, 1, 0, mma_tile_fits, tile_cost};
    uint64_t parts;
    mma_tile_set(call, &mma_tiles[tile_search(&search, call, s, &parts)]);
}

const struct variant variant_gemm_experts_mma = {
    .kernel = "gemm_experts",
    .name = "gemm_experts_mma",
    .rung = RUNG_MMA,
    .takes = {CONST_N, CONST_K, CONST_M, CONST_ROWS, CONST_FORM, CONST_EXPERTS, CONST_CHOSEN, CONST_TOKEN_ROWS,
              CONST_ACTIVATION, CONST_DERIVATIVE, CONST_SUM},
    .why = "tensor cores by mma.sync",
    .fits = fits,
    .size = size,
    .shared_bytes = mma_shared_bytes,
    .count = count_experts,
    .describe = mma_describe,
};
