/* gemm_coopmat: products by the matrix units that Vulkan's cooperative matrices reach. */
#include "base/round.h"
#include "interface/interface.h"
#include "plan/matrix_tiles.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

enum { MOST_PARTS = 16, LEAST_PART_DEPTH = 256, CPU_NORMAL_K = 64, SHORT_SUM = 1536 };

static uint32_t form_of(const struct call *call) { return call_get(call, CONST_FORM, GEMM_NT); }

static bool large_fits(const struct call *call, const struct sizes *s, int tile)
{
    return matrix_tile_fits(&matrix_tiles[tile], s->limits, form_of(call), 0);
}

/* Of short sums of rows the last of several rounds takes as long as a full one: on an H200 8192 x 768 x 768 are 384
 * work-groups and take 65.5 us, twice as many rows 97.3. Not of long ones: 8192 x 768 x 2304 take 101 us, in 516 of the
 * smaller tile 117. */
static double large_seconds(const struct call *call, const struct sizes *s, int tile, uint64_t parts)
{
    struct extents all = call_extents(call, s);
    const struct matrix_tile *t = &matrix_tiles[tile];
    uint64_t units = device_units(s->limits), round = units * t->resident;
    uint64_t groups = divide_up(all.m, t->m) * divide_up(all.n, t->n) * parts;
    if (call_runtime(call) != RUNTIME_K && all.k <= SHORT_SUM && groups > round) groups = round_up(groups, round);
    return matrix_tile_seconds(t, units, groups, divide_up(all.k, parts)) + parts_seconds(all.m, all.n, parts);
}

/* *parts: over how many work-groups the sum is split, at most `most_parts`. NULL: no tile fits this device. */
static const struct matrix_tile *tile_of(const struct call *call, const struct sizes *s, uint64_t most_parts,
                                         uint64_t *parts)
{
    const struct tile_search search = {MATRIX_TILES, most_parts, LEAST_PART_DEPTH, large_fits, large_seconds};
    const struct matrix_tile *other = matrix_tile_other(s->limits);
    int best = s->limits->cpu ? -1 : tile_search(&search, call, s, parts);
    if (best >= 0) return &matrix_tiles[best];
    *parts = 1;
    return matrix_tile_fits(other, s->limits, form_of(call), 0) ? other : NULL;
}

/* A product that normalizes its rows has all of their k in one stage; work-groups are many, for rows are few. */
static struct matrix_tile tile_normal(const struct call *call, const struct device_limits *limits)
{
    struct matrix_tile t = {16, 16, 0, limits->cpu ? 8 : 16, 16, 1, 1, 1, 1, 1};
    uint32_t step = limits->coopmat_k ? limits->coopmat_k : 1, k = call_get(call, CONST_K, 1);
    while (!limits->cpu && t.split < 8 && 2 * t.split * step <= k) t.split *= 2;
    t.k = (uint32_t)(divide_up(k, t.split * step) * t.split * step);
    return t;
}

/* A CPU's for moments: a sub-group has a strip of columns. */
static const struct matrix_tile tile_cpu_strips = {16, 64, 16, 8, 64, 1, 1, 1, 1, 1};

/* Moments it writes of strips that a sub-group has, or reads for many rows: few are left to what normalizes them. */
static bool fits_moments(const struct call *call, const struct sizes *s, const char **reason)
{
    uint64_t parts;
    const struct matrix_tile *t = s->limits->cpu ? &tile_cpu_strips : tile_of(call, s, 1, &parts);
    bool written = call_get(call, CONST_MOMENTS, 0) == MOMENTS_WRITTEN;
    bool room = matrix_tile_fits(t, s->limits, form_of(call), t->m * sizeof(float));
    if (!call_moments_fit(call, reason)) return false;
    *reason = s->max_rows <= SMALL_BATCH_ROWS                    ? "few rows are left to products that normalize them"
              : !room || (written && t->piece_n % MOMENTS_STRIP) ? "a sub-group has no whole strip of columns"
                                                                 : NULL;
    return !*reason;
}

/* Of the calls of optional rows only those: not the columns of an operand (call_fuses). */
static bool fits_normal(const struct call *call, const struct sizes *s, const char **reason)
{
    struct matrix_tile t = tile_normal(call, s->limits);
    size_t scratch = matrix_tile_items(&t, s->limits) * sizeof(float);
    /* A CPU's compiler takes minutes for the code of a long stage. */
    bool long_code = s->limits->cpu && t.k > CPU_NORMAL_K;
    bool weight_rows = call_get(call, CONST_FORM, GEMM_NT) == GEMM_NT && call_runtime(call) == RUNTIME_M;
    *reason = !weight_rows                     ? "it normalizes rows for a product with a weight's rows only"
              : s->max_rows > SMALL_BATCH_ROWS ? "the session's batches have too many rows to normalize them often"
              : long_code || !matrix_tile_fits(&t, s->limits, GEMM_NT, scratch)
                  ? "rows that it can normalize are one stage"
                  : NULL;
    return !*reason;
}

/* Whether it can sum over the heads of its result: those are a piece's. */
static bool fits_heads(const struct call *call, const struct matrix_tile *t, const char **reason)
{
    uint32_t dim = call_get(call, CONST_HEAD_DIM, 1);
    *reason = call_runtime(call) != RUNTIME_M || call_writes_slice(call) ? "it sums over the heads of rows of tokens"
              : dim % 8 || t->piece_n % dim || call_get(call, CONST_N, 1) % dim
                  ? "a sub-group has no whole heads of this size"
                  : NULL;
    return !*reason;
}

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    uint64_t parts;
    const struct matrix_tile *t = tile_of(call, s, 1, &parts);
    *reason = !s->f16                             ? "cooperative matrices take f16"
              : !call_get(call, CONST_ALIGNED, 0) ? "rows are no multiples of 8 elements"
              : !t                                ? "no tile is made of this device's cooperative matrices"
                                                  : NULL;
    if (!*reason && call_get(call, CONST_NORM_Y, 0)) *reason = "its work-groups have no whole rows of a result";
    if (!*reason && !call_pairs_fit(call, 4, reason)) return false;
    if (!*reason && call_get(call, CONST_DELTA, 0)) return fits_heads(call, t, reason);
    if (!*reason && call_get(call, CONST_MOMENTS, 0)) return fits_moments(call, s, reason);
    return !*reason && (!call_get(call, CONST_NORM, 0) || fits_normal(call, s, reason));
}

static void size(struct call *call, const struct sizes *s)
{
    uint64_t parts;
    if (call_get(call, CONST_NORM, 0)) {
        struct matrix_tile t = tile_normal(call, s->limits);
        matrix_tile_set(call, &t, s->limits);
        return;
    }
    bool strips = s->limits->cpu && call_get(call, CONST_MOMENTS, 0);
    matrix_tile_set(call, strips ? &tile_cpu_strips : tile_of(call, s, 1, &parts), s->limits);
    if (!call_get(call, CONST_COLUMN_SUMS, 0)) return;
    /* Sums of columns are a tile's, those of rows a piece's. */
    uint8_t side = call_runtime(call) == RUNTIME_N ? CONST_THREAD_N : CONST_TILE_M;
    call_set(call, CONST_PART_ROWS, call_get(call, side, 1));
}

static void divide(struct call calls[GROUP_MAX_CALLS], int *count, const struct sizes *s)
{
    uint64_t parts;
    const struct matrix_tile *t = tile_of(&calls[0], s, MOST_PARTS, &parts);
    if (parts == 1) return;
    matrix_tile_set(&calls[0], t, s->limits);
    calls_split(calls, count, s, rows_in_parts(s->max_rows, parts, t->k));
}

static size_t shared_bytes(const struct call *call)
{
    bool factors = call_get(call, CONST_MOMENTS, 0) == MOMENTS_READ;
    size_t scratch = call_get(call, CONST_NORM, 0) ? call_get(call, CONST_LOCAL_SIZE, 0) * sizeof(float)
                     : factors                     ? call_get(call, CONST_TILE_M, 0) * sizeof(float)
                                                   : 0;
    return scratch + matrix_stage_bytes(call);
}

/* ---- its traffic ---- */

/* Where a tile has more rows than there are, and a stage more of k, the last ones are loaded again, and so is the last
 * of many stages. */
static void count_traffic(struct count *c)
{
    struct extents all = extents_of(c);
    uint64_t m = all.m, n = all.n, k = all.k;
    uint64_t tile_m = get(c, CONST_TILE_M, 32), tile_n = get(c, CONST_TILE_N, 32);
    bool weight = call_runtime(c->call) == RUNTIME_K;
    uint64_t part = weight && get(c, CONST_COLUMN_SUMS, 0) ? get(c, CONST_PART_ROWS, 1) : k;
    uint64_t loaded = matrix_k_loaded(c->call, k, part, weight);
    uint64_t tiles_m = divide_up(m, tile_m), tiles_n = divide_up(n, tile_n);
    count_moments(c);
    count_product(c, 8, 8 * (uint64_t)get(c, CONST_LOCAL_SIZE, 1) / tile_n);
    reads(c, SLOT_X, (tiles_m * tile_m * loaded - m * k) * tiles_n);
    reads(c, SLOT_W, (tiles_n * tile_n * loaded - n * k) * tiles_m);
}

const struct variant variant_gemm_coopmat = {
    .kernel = "gemm",
    .name = "gemm_coopmat",
    .rung = RUNG_COOPMAT,
    .takes = {CONST_N,           CONST_K,
              CONST_ROWS,        CONST_BIAS,
              CONST_ACTIVATION,  CONST_RESIDUAL,
              CONST_SUM,         CONST_X_STRIDE,
              CONST_X_OFFSET,    CONST_W_STRIDE,
              CONST_W_OFFSET,    CONST_Y_STRIDE,
              CONST_Y_OFFSET,    CONST_FORM,
              CONST_DROPOUT,     CONST_DERIVATIVE,
              CONST_KEPT,        CONST_M,
              CONST_COLUMN_SUMS, CONST_RUNTIME,
              CONST_NORM,        CONST_DELTA,
              CONST_HEAD_DIM,    CONST_GATE,
              CONST_ROTARY,      CONST_QKV_INTERLEAVED,
              CONST_KEY_HEADS,   CONST_SCALES,
              CONST_MOMENTS,     CONST_RMS},
    .why = "cooperative matrices: f16 added in f32 by matrix units",
    .fits = fits,
    .size = size,
    .divide = divide,
    .shared_bytes = shared_bytes,
    .count = count_traffic,
    .describe = matrix_tile_describe,
};
