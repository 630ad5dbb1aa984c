/* Products of a mixture of experts by cooperative matrices: shaders/gemm_experts_coopmat.comp. */
#include "base/round.h"
#include "interface/interface.h"
#include "plan/matrix_tiles.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

static uint32_t form_of(const struct call *call) { return call_get(call, CONST_FORM, GEMM_NT); }

/* The list's rows of a tile; of a weight's gradient those of two stages. */
static size_t list_bytes(uint32_t m, uint32_t k, uint32_t form)
{
    return (form == GEMM_TN ? 2 * k : m) * sizeof(uint32_t);
}

static bool tile_fits(const struct call *call, const struct sizes *s, const struct matrix_tile *t)
{
    return matrix_tile_fits(t, s->limits, form_of(call), list_bytes(t->m, t->k, form_of(call)));
}

static bool large_fits(const struct call *call, const struct sizes *s, int tile)
{
    return tile_fits(call, s, &matrix_tiles[tile]);
}

/* Tiles of the experts' rows in a batch of so many tokens: an expert's last one is half full, more or less. */
static uint64_t tiles_of_rows(const struct call *call, uint64_t tokens, uint64_t tile_m)
{
    uint64_t rows = tokens * call_get(call, CONST_CHOSEN, 1), experts = least(rows, call_get(call, CONST_EXPERTS, 1));
    uint64_t tiles = divide_up(2 * rows + experts * tile_m, 2 * tile_m);
    return tiles > experts ? tiles : experts;
}

/* As gemm_coopmat's. */
static double large_seconds(const struct call *call, const struct sizes *s, int tile, uint64_t parts)
{
    (void)parts;
    const struct matrix_tile *t = &matrix_tiles[tile];
    uint64_t m = call_get(call, CONST_M, 0), columns = divide_up(call_get(call, CONST_N, 1), t->n);
    uint64_t tiles = m ? call_get(call, CONST_EXPERTS, 1) * divide_up(m, t->m) : tiles_of_rows(call, s->max_rows, t->m);
    uint64_t depth = m ? experts_rows(call, s->max_rows) : call_get(call, CONST_K, 1);
    return matrix_tile_seconds(t, device_units(s->limits), tiles * columns, depth);
}

/* NULL: none fits this device. */
static const struct matrix_tile *tile_of(const struct call *call, const struct sizes *s)
{
    const struct tile_search search = {MATRIX_TILES, 1, 0, large_fits, large_seconds};
    const struct matrix_tile *other = matrix_tile_other(s->limits);
    uint64_t parts;
    int best = s->limits->cpu ? -1 : tile_search(&search, call, s, &parts);
    if (best >= 0) return &matrix_tiles[best];
    return tile_fits(call, s, other) ? other : NULL;
}

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    if (!s->f16) return variant_refuse(reason, "cooperative matrices take f16");
    if (!call_get(call, CONST_ALIGNED, 0)) return variant_refuse(reason, "rows are no multiples of 8 elements");
    return tile_of(call, s) || variant_refuse(reason, "no tile is made of this device's cooperative matrices");
}

static void size(struct call *call, const struct sizes *s) { matrix_tile_set(call, tile_of(call, s), s->limits); }

static size_t shared_bytes(const struct call *call)
{
    return matrix_stage_bytes(call) +
           list_bytes(call_get(call, CONST_TILE_M, 0), call_get(call, CONST_TILE_K, 0), form_of(call));
}

/* ---- its traffic ---- */

/* Beside what is multiplied: where a tile has more rows than its expert or its weight, and a stage more of k, the last
 * ones are loaded again. */
static void count_traffic(struct count *c)
{
    uint64_t rows = rows_of(c), all = rows * get(c, CONST_CHOSEN, 1), experts = get(c, CONST_EXPERTS, 1),
             each = experts_rows(c->call, rows), with_rows = least(all, experts);
    uint64_t m = get(c, CONST_M, 0), n = get(c, CONST_N, 1), k = get(c, CONST_K, 1);
    uint64_t tile_m = get(c, CONST_TILE_M, 32), tile_n = get(c, CONST_TILE_N, 32), columns = divide_up(n, tile_n);
    count_experts(c);
    if (m) {
        uint64_t tiles_m = divide_up(m, tile_m), loaded = with_rows * matrix_k_loaded(c->call, each, each, true);
        reads(c, SLOT_X, (tiles_m * tile_m * loaded - m * all) * columns);
        reads(c, SLOT_W, (columns * tile_n * loaded - n * all) * tiles_m);
        return;
    }
    uint64_t loaded = matrix_k_loaded(c->call, k, k, false), tiles = with_rows * divide_up(each, tile_m);
    reads(c, SLOT_X, (tiles * tile_m * loaded - all * k) * columns);
    reads(c, SLOT_W, (columns * tile_n * loaded - n * k) * tiles);
}

const struct variant variant_gemm_experts_coopmat = {
    .kernel = "gemm_experts",
    .name = "gemm_experts_coopmat",
    .rung = RUNG_COOPMAT,
    .takes = {CONST_N, CONST_K, CONST_M, CONST_ROWS, CONST_FORM, CONST_EXPERTS, CONST_CHOSEN, CONST_TOKEN_ROWS,
              CONST_ACTIVATION, CONST_DERIVATIVE, CONST_SUM},
    .why = "cooperative matrices: f16 added in f32 by matrix units",
    .fits = fits,
    .size = size,
    .shared_bytes = shared_bytes,
    .count = count_traffic,
    .describe = matrix_tile_describe,
};
