/* gemm_experts: the products of a mixture of experts, and their weights' gradients. */
#include "interface/interface.h"
#include "plan/kernels/tiled.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* As gemm's, of which the first is for experts that have whole tiles of rows. */
static const struct tile tiles[] = {{128, 128, 8, 8, 4, 1.0, 0}, {64, 64, 8, 4, 4, 0.9, 0}, {32, 32, 4, 4, 8, 0, 0}};
static const struct tile tile_cpu = {32, 64, 8, 8, 4, 0, 0};
enum { TILES = sizeof tiles / sizeof *tiles };

static uint64_t rows_each(const struct call *call, uint64_t rows)
{
    return divide_up(rows * call_get(call, CONST_CHOSEN, 1), call_get(call, CONST_EXPERTS, 1));
}

/* Work-groups, where experts have as many rows each. */
static uint64_t groups_of(const struct call *call, uint64_t rows, const struct tile *t)
{
    uint64_t m = call_get(call, CONST_M, 0);
    return call_get(call, CONST_EXPERTS, 1) * divide_up(m ? m : rows_each(call, rows), t->m) *
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
            (!call_get(call, CONST_M, 0) && rows_each(call, s->max_rows) < tiles[t].m)))
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

/* Of the list: what work-items read of it, and its length. */
static void reads_list(struct count *c, uint64_t ends, uint64_t rows, uint64_t length)
{
    uint64_t all = ends * get(c, CONST_LOCAL_SIZE, 64) + rows;
    reads(c, SLOT_IDS, all);
    if (all > length) reads_again(c, SLOT_IDS, all - length, length * sizeof(uint32_t));
}

/* With as many rows for each expert: how many each really has is known when route has run. Of weights, which are read
 * once for a tile of rows, it may be one tile more or less for each expert, and as many more or fewer ends of rows that
 * are passed. Columns of tiles are neighbours, which share rows and an expert's weights. */
static void count_traffic(struct count *c)
{
    uint64_t rows = rows_of(c), all = rows * get(c, CONST_CHOSEN, 1), experts = get(c, CONST_EXPERTS, 1),
             with_rows = least(all, experts), each = rows_each(c->call, rows);
    uint64_t m = get(c, CONST_M, 0), n = get(c, CONST_N, 1), k = get(c, CONST_K, 1);
    uint64_t tile_m = get(c, CONST_TILE_M, 32), tile_n = get(c, CONST_TILE_N, 32);
    uint64_t columns = divide_up(n, tile_n), tiles_of_rows = divide_up(each, tile_m), vector = vector_of(c);
    if (m) { /* of a weight's gradient */
        uint64_t tiles_m = divide_up(m, tile_m), distance = each * (m + n) * c->storage;
        uint64_t right = get(c, CONST_TOKEN_ROWS, 0) ? rows : all;
        reads(c, SLOT_X, all * m * columns);
        reads_again(c, SLOT_X, all * m * (columns - 1), distance);
        reads(c, SLOT_W, all * n * tiles_m);
        reads_again(c, SLOT_W, (all * tiles_m - right) * n, distance);
        /* The first expert's rows begin at 0; a row of the list is read for each vector of both operands. */
        reads_list(c, (2 * experts - 1) * tiles_m * columns,
                   all * (columns * divide_up(m, vector) + tiles_m * divide_up(n, vector)), all + experts);
        writes(c, SLOT_Y, experts * m * n);
        return;
    }
    uint64_t left = get(c, CONST_TOKEN_ROWS, 0) ? rows : all, distance = (tile_m * k + n * k) * c->storage;
    reads(c, SLOT_X, all * k * columns);
    reads_again(c, SLOT_X, (all * columns - left) * k, distance);
    reads(c, SLOT_W, with_rows * tiles_of_rows * n * k);
    reads_again(c, SLOT_W, with_rows * (tiles_of_rows - 1) * n * k, distance);
    /* For each vector of a stage, and for eight results. */
    reads_list(c, columns * ends_walked(divide_up(all, tile_m) + experts, tiles_of_rows, with_rows, experts),
               all * (columns * (get(c, CONST_TILE_K, 16) / vector) + divide_up(n, 8)), all + experts);
    reads(c, SLOT_SAVED, all * n);
    writes(c, SLOT_Y, all * n);
    writes(c, SLOT_SUM, all * n);
}

const struct variant variant_gemm_experts = {
    .kernel = "gemm_experts",
    .name = "gemm_experts",
    .takes = {CONST_N, CONST_K, CONST_M, CONST_ROWS, CONST_FORM, CONST_EXPERTS, CONST_CHOSEN, CONST_TOKEN_ROWS,
              CONST_ACTIVATION, CONST_DERIVATIVE, CONST_SUM},
    .why = "the largest tile that experts fill with rows",
    .size = size,
    .shared_bytes = tiled_shared_bytes,
    .count = count_traffic,
    .candidates = candidates,
    .registers = tiled_registers,
};
