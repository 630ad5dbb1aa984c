/* gemm_pool: weights of words, a product with the vocabulary of which a sequence's tokens leave one row. */
#include "interface/interface.h"
#include "plan/kernels/tiled.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* As gemm's. Sequences are the tiles' rows: a longer tile computes what short ones have no tokens for. */
static const struct tile tile_large = {128, 128, 8, 8, 4, 0, 0}, tile_middle = {64, 64, 8, 4, 4, 0, 0},
                         tile_small = {32, 64, 4, 4, 4, 0, 0}, tile_cpu = {64, 64, 8, 8, 4, 0, 0},
                         tile_cpu_small = {32, 32, 8, 8, 4, 0, 0};

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    (void)s;
    uint32_t pool = call_get(call, CONST_POOL, POOL_NONE);
    if (!call_get(call, CONST_K, 0) || call_get(call, CONST_FORM, GEMM_NT) != GEMM_NT)
        return variant_refuse(reason, "there is no product of tokens with a table's rows in it");
    if (pool != POOL_MAX && pool != POOL_SUM) return variant_refuse(reason, "it has the largest or the sum alone");
    return true;
}

static bool tile_runs(const struct tile *t, const struct sizes *s)
{
    return tile_items(t) <= s->limits->max_local_size &&
           (size_t)(t->m + t->n) * t->vectors * s->vector * sizeof(float) <= s->limits->shared_bytes;
}

static void size(struct call *call, const struct sizes *s)
{
    const struct tile *best = &tile_small;
    if (s->limits->cpu)
        best = s->longest > 32 ? &tile_cpu : &tile_cpu_small;
    else if (s->longest > 64 && tile_runs(&tile_large, s))
        best = &tile_large;
    else if (s->longest > 32 && tile_runs(&tile_middle, s))
        best = &tile_middle;
    tile_set(call, best, s->vector);
}

static void candidates(const struct call *sized, const struct sizes *s, struct choices *list)
{
    static const struct tile shapes[] = {{128, 128, 8, 8, 0, 0, 0}, {64, 128, 8, 8, 0, 0, 0}, {64, 64, 8, 8, 0, 0, 0},
                                         {64, 64, 8, 4, 0, 0, 0},   {32, 64, 4, 4, 0, 0, 0},  {32, 32, 4, 4, 0, 0, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t vectors = 2; vectors <= 8; vectors *= 2) {
            struct call call = *sized;
            struct tile t = shapes[i];
            t.vectors = vectors;
            if (!tile_candidate(&t)) continue;
            tile_set(&call, &t, s->vector);
            choices_add(list, &call);
        }
}

/* ---- its traffic ---- */

/* Every work-item loads the bias of its columns. */
static void count_traffic(struct count *c) { count_words(c, get(c, CONST_TILE_M, 32) / get(c, CONST_THREAD_M, 4)); }

const struct variant variant_gemm_pool = {
    .kernel = "gemm_pool",
    .name = "gemm_pool",
    .takes = {CONST_N, CONST_K, CONST_ROWS, CONST_BIAS, CONST_ACTIVATION, CONST_FORM, CONST_POOL},
    .why = "a tile of tokens that the longest sequence fills",
    .fits = fits,
    .size = size,
    .shared_bytes = tiled_shared_bytes,
    .count = count_traffic,
    .candidates = candidates,
    .registers = tiled_registers,
};
