/* gemm_experts: the products of a mixture of experts, and their weights' gradients. */
#include "interface/interface.h"
#include "plan/kernels/tiled.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* As gemm's, of which the first is for experts that have whole tiles of rows. */
static const struct tile tiles[] = {{128, 128, 8, 8, 4, 1.0, 0}, {64, 64, 8, 4, 4, 0.9, 0}, {32, 32, 4, 4, 8, 0, 0}};
static const struct tile tile_cpu = {32, 64, 8, 8, 4, 0, 0};
enum { TILES = sizeof tiles / sizeof *tiles };

/* Work-groups, where experts have as many rows each. */
static uint64_t groups_of(const struct call *call, uint64_t rows, const struct tile *t)
{
    uint64_t m = call_get(call, CONST_M, 0);
    return call_get(call, CONST_EXPERTS, 1) * divide_up(m ? m : experts_rows(call, rows), t->m) *
           divide_up(call_get(call, CONST_N, 1), t->n);
}

static bool tile_fits(const struct sizes *s, const struct tile *t)
{
    return tile_items(t) <= s->limits->max_local_size &&
           (size_t)(t->m + t->n) * t->vectors * s->vector * sizeof(float) <= s->limits->shared_bytes;
}

static void size(struct call *call, const struct sizes *s)
{
    int t = 0;
    if (s->limits->cpu) {
        tile_set(call, &tile_cpu, s->vector);
        return;
    }
    while (t + 1 < TILES &&
           (!tile_fits(s, &tiles[t]) || groups_of(call, s->max_rows, &tiles[t]) < device_units(s->limits) ||
            (!call_get(call, CONST_M, 0) && experts_rows(call, s->max_rows) < tiles[t].m)))
        t++;
    tile_set(call, &tiles[t], s->vector);
}

static void candidates(const struct call *sized, const struct sizes *s, struct choices *list)
{
    for (int t = 0; t < TILES; t++) {
        struct call call = *sized;
        if (!tile_fits(s, &tiles[t])) continue;
        tile_set(&call, &tiles[t], s->vector);
        choices_add(list, &call);
    }
}

const struct variant variant_gemm_experts = {
    .kernel = "gemm_experts",
    .name = "gemm_experts",
    .takes = {CONST_N, CONST_K, CONST_M, CONST_ROWS, CONST_FORM, CONST_EXPERTS, CONST_CHOSEN, CONST_TOKEN_ROWS,
              CONST_ACTIVATION, CONST_DERIVATIVE, CONST_SUM},
    .why = "the largest tile that experts fill with rows",
    .size = size,
    .shared_bytes = tiled_shared_bytes,
    .count = count_experts,
    .candidates = candidates,
    .registers = tiled_registers,
};
