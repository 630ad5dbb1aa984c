/* gemm_coopmat: products by the matrix units that Vulkan's cooperative matrices reach. */
#include "base/round.h"
#include "base/text.h"
#include "interface/interface.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

struct tile {
    uint32_t m, n, k;          /* of a work-group's stage */
    uint32_t piece_m, piece_n; /* of a sub-group */
    uint32_t split, stages;    /* sub-groups that share a piece's k; stages in shared memory */
    uint32_t resident;         /* work-groups that a multiprocessor holds */
    double alone, full; /* microseconds for a tile of k in one work-group of a multiprocessor, in `resident` of them */
    bool normal;        /* its rows of x are normalized */
};

/* From large to small, all measured at 4096 x 4096 x 4096 on an H200 (TFLOP/s). The first: 327. Its 248 registers let
 * two work-groups share a multiprocessor, of which one loads while the other multiplies; a work-group waits for its own
 * loads, however early they begin (two stages in registers: 225), so what leaves one a multiprocessor is slower: 128 x
 * 256 x 32: 235, pieces of 64 x 32: 268, 128 x 192: 223. Stages of 32 are half a line of memory in a row: 265. The
 * second and third: 247 and 180. The last two are for few rows: all sub-groups share one sum, and the time is that of
 * the loads; 32 rows of 384 x 1536 take 7.7 and 5.0 us, 32 of 384 x 384 take 4.8 and 3.9, timer and dispatch included.
 * `full` of the last two and `alone` of the second and third are estimates. */
static const struct tile tiles[] = {
    {128, 128, 64, 64, 64, 1, 1, 2, 1.04, 1.73}, {128, 64, 64, 64, 32, 1, 1, 2, 0.75, 1.08},
    {64, 64, 64, 32, 32, 1, 2, 4, 0.60, 1.49},   {32, 32, 128, 32, 32, 8, 1, 2, 0.33, 0.70},
    {16, 16, 384, 16, 16, 8, 1, 3, 0.36, 1.00},
};
/* Where shared memory or a work-group is too small for all of these. */
static const struct tile tile_small = {64, 64, 32, 32, 32, 1, 1, 4, 0.45, 1.2};
/* A CPU's compiler makes plain code of all the matrices of a piece: few of them. */
static const struct tile tile_cpu = {16, 16, 16, 8, 16, 1, 1, 1, 1, 1};

enum { TILES = sizeof tiles / sizeof *tiles, MOST_PARTS = 16, LEAST_PART_DEPTH = 256, CPU_NORMAL_K = 64 };
/* Of a work-item, in its registers: half of those that a GPU has for one at most. */
enum { SUMS_MOST = 128 };

static uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }

static uint32_t tile_items(const struct tile *t, const struct device_limits *limits)
{
    return t->m / t->piece_m * (t->n / t->piece_n) * t->split * limits->coopmat_subgroup;
}

/* Bytes of the array that the shader declares: the stages, or one row of matrices for each sub-group. */
static size_t tile_bytes(uint32_t m, uint32_t n, uint32_t k, uint32_t piece_n, uint32_t sub_groups, uint32_t stages,
                         uint32_t matrix_m, uint32_t form)
{
    uint32_t x = form == GEMM_TN ? k * (m / 8 + 1) : m * (k / 8 + 1);
    uint32_t w = form == GEMM_NT ? n * (k / 8 + 1) : k * (n / 8 + 1);
    return (size_t)16 * most(stages * (x + w), sub_groups * (piece_n / 4 + 1) * matrix_m);
}

static bool tile_fits(const struct tile *t, const struct device_limits *limits, uint32_t form)
{
    uint32_t m = limits->coopmat_m, n = limits->coopmat_n, k = limits->coopmat_k, size = limits->coopmat_subgroup;
    if (!m || !size || t->piece_m % m || t->piece_n % n || t->k / t->split % k || m % 8 || n % 8 || k % 8) return false;
    if (t->piece_m * t->piece_n > SUMS_MOST * size) return false;
    if (size * t->split % (t->piece_n / 8) || tile_items(t, limits) > limits->max_local_size) return false;
    size_t scratch = t->normal ? tile_items(t, limits) * sizeof(float) : 0;
    return tile_bytes(t->m, t->n, t->k, t->piece_n, tile_items(t, limits) / size, t->stages, m, form) + scratch <=
           limits->shared_bytes;
}

/* Work-groups run in rounds. In one that is not full, a multiprocessor's share of them takes a share of the time. */
static double tile_seconds(const struct tile *t, uint64_t units, uint64_t m, uint64_t n, uint64_t depth, uint64_t parts)
{
    uint64_t groups = divide_up(m, t->m) * divide_up(n, t->n) * parts,
             k_tiles = divide_up(divide_up(depth, parts), t->k);
    uint64_t full = groups / (units * t->resident), rest = groups % (units * t->resident);
    double k_tile = (double)full * t->full;
    if (rest) k_tile += t->alone;
    if (rest > units) k_tile += (t->full - t->alone) * (double)(divide_up(rest, units) - 1) / (t->resident - 1);
    return k_tile * (double)k_tiles * 1e-6;
}

static uint32_t form_of(const struct call *call) { return call_get(call, CONST_FORM, GEMM_NT); }

static bool large_fits(const struct call *call, const struct sizes *s, int tile)
{
    return tile_fits(&tiles[tile], s->limits, form_of(call));
}

static double large_seconds(const struct call *call, const struct sizes *s, int tile, uint64_t parts)
{
    struct extents all = call_extents(call, s);
    return tile_seconds(&tiles[tile], device_units(s->limits), all.m, all.n, all.k, parts) +
           parts_seconds(all.m, all.n, parts);
}

/* *parts: over how many work-groups the sum is split, at most `most_parts`. NULL: no tile fits this device. */
static const struct tile *tile_of(const struct call *call, const struct sizes *s, uint64_t most_parts, uint64_t *parts)
{
    const struct tile_search search = {TILES, most_parts, LEAST_PART_DEPTH, large_fits, large_seconds};
    const struct tile *other = s->limits->cpu ? &tile_cpu : &tile_small;
    int best = s->limits->cpu ? -1 : tile_search(&search, call, s, parts);
    if (best >= 0) return &tiles[best];
    *parts = 1;
    return tile_fits(other, s->limits, form_of(call)) ? other : NULL;
}

/* A product that normalizes its rows has all of their k in one stage; work-groups are many, for rows are few. */
static struct tile tile_normal(const struct call *call, const struct device_limits *limits)
{
    struct tile t = {16, 16, 0, limits->cpu ? 8 : 16, 16, 1, 1, 1, 1, 1, true};
    uint32_t step = limits->coopmat_k ? limits->coopmat_k : 1, k = call_get(call, CONST_K, 1);
    while (!limits->cpu && t.split < 8 && 2 * t.split * step <= k) t.split *= 2;
    t.k = (uint32_t)(divide_up(k, t.split * step) * t.split * step);
    return t;
}

/* Of the calls of optional rows only those: not the columns of an operand (call_fuses). */
static bool fits_normal(const struct call *call, const struct sizes *s, const char **reason)
{
    struct tile t = tile_normal(call, s->limits);
    /* A CPU's compiler takes minutes for the code of a long stage. */
    bool long_code = s->limits->cpu && t.k > CPU_NORMAL_K;
    bool weight_rows = call_get(call, CONST_FORM, GEMM_NT) == GEMM_NT && call_runtime(call) == RUNTIME_M;
    *reason = !weight_rows                     ? "it normalizes rows for a product with a weight's rows only"
              : s->max_rows > SMALL_BATCH_ROWS ? "the session's batches have too many rows to normalize them often"
              : long_code || !tile_fits(&t, s->limits, GEMM_NT) ? "rows that it can normalize are one stage"
                                                                : NULL;
    return !*reason;
}

/* Whether it can sum over the heads of its result: those are a piece's. */
static bool fits_heads(const struct call *call, const struct tile *t, const char **reason)
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
    const struct tile *t = tile_of(call, s, 1, &parts);
    *reason = !s->f16                             ? "cooperative matrices take f16"
              : !call_get(call, CONST_ALIGNED, 0) ? "rows are no multiples of 8 elements"
              : !t                                ? "no tile is made of this device's cooperative matrices"
                                                  : NULL;
    if (!*reason && call_get(call, CONST_NORM_Y, 0)) *reason = "its work-groups have no whole rows of a result";
    if (!*reason && !call_pairs_fit(call, 4, reason)) return false;
    if (!*reason && call_get(call, CONST_DELTA, 0)) return fits_heads(call, t, reason);
    return !*reason && (!call_get(call, CONST_NORM, 0) || fits_normal(call, s, reason));
}

static void tile_set(struct call *call, const struct tile *t, const struct device_limits *limits)
{
    call_set(call, CONST_LOCAL_SIZE, tile_items(t, limits));
    call_set(call, CONST_TILE_M, t->m);
    call_set(call, CONST_TILE_N, t->n);
    call_set(call, CONST_TILE_K, t->k);
    call_set(call, CONST_THREAD_M, t->piece_m);
    call_set(call, CONST_THREAD_N, t->piece_n);
    call_set(call, CONST_STAGES, t->stages);
    call_set(call, CONST_MATRIX_M, limits->coopmat_m);
    call_set(call, CONST_MATRIX_N, limits->coopmat_n);
    call_set(call, CONST_MATRIX_K, limits->coopmat_k);
    call_set(call, CONST_SUBGROUP, limits->coopmat_subgroup);
}

static void size(struct call *call, const struct sizes *s)
{
    uint64_t parts;
    if (call_get(call, CONST_NORM, 0)) {
        struct tile t = tile_normal(call, s->limits);
        tile_set(call, &t, s->limits);
        return;
    }
    tile_set(call, tile_of(call, s, 1, &parts), s->limits);
    if (!call_get(call, CONST_COLUMN_SUMS, 0)) return;
    /* Sums of columns are a tile's, those of rows a piece's. */
    uint8_t side = call_runtime(call) == RUNTIME_N ? CONST_THREAD_N : CONST_TILE_M;
    call_set(call, CONST_PART_ROWS, call_get(call, side, 1));
}

static void divide(struct call calls[GROUP_MAX_CALLS], int *count, const struct sizes *s)
{
    uint64_t parts;
    const struct tile *t = tile_of(&calls[0], s, MOST_PARTS, &parts);
    if (parts == 1) return;
    tile_set(&calls[0], t, s->limits);
    calls_split(calls, count, s->limits, rows_in_parts(s->max_rows, parts, t->k));
}

static size_t shared_bytes(const struct call *call)
{
    size_t scratch = call_get(call, CONST_NORM, 0) ? call_get(call, CONST_LOCAL_SIZE, 0) * sizeof(float) : 0;
    return scratch + tile_bytes(call_get(call, CONST_TILE_M, 0), call_get(call, CONST_TILE_N, 0),
                                call_get(call, CONST_TILE_K, 0), call_get(call, CONST_THREAD_N, 0),
                                call_get(call, CONST_LOCAL_SIZE, 0) / call_get(call, CONST_SUBGROUP, 1),
                                call_get(call, CONST_STAGES, 1), call_get(call, CONST_MATRIX_M, 0),
                                call_get(call, CONST_FORM, GEMM_NT));
}

static void describe(const struct call *call, struct text_writer *text)
{
    text_add(text, "%ux%ux%u, %ux%u a sub-group", (unsigned)call_get(call, CONST_TILE_M, 1),
             (unsigned)call_get(call, CONST_TILE_N, 1), (unsigned)call_get(call, CONST_TILE_K, 1),
             (unsigned)call_get(call, CONST_THREAD_M, 1), (unsigned)call_get(call, CONST_THREAD_N, 1));
    describe_rows(call, text);
}

/* ---- its traffic ---- */

/* Where a tile has more rows than there are, and a stage more of k, the last ones are loaded again, and so is the last
 * of many stages. */
static void count_traffic(struct count *c)
{
    struct extents all = extents_of(c);
    uint64_t m = all.m, n = all.n, k = all.k;
    uint64_t tile_m = get(c, CONST_TILE_M, 32), tile_n = get(c, CONST_TILE_N, 32), tile_k = get(c, CONST_TILE_K, 16);
    bool weight = call_runtime(c->call) == RUNTIME_K;
    uint64_t part = weight && get(c, CONST_COLUMN_SUMS, 0) ? get(c, CONST_PART_ROWS, 1) : k;
    uint64_t k_tiles = part ? divide_up(k, part) * divide_up(part, tile_k) : 0;
    uint64_t loaded = (k_tiles + (!weight && k >= 32 * tile_k)) * tile_k;
    uint64_t tiles_m = divide_up(m, tile_m), tiles_n = divide_up(n, tile_n);
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
              CONST_KEY_HEADS,   CONST_SCALES},
    .why = "cooperative matrices: f16 added in f32 by matrix units",
    .fits = fits,
    .size = size,
    .divide = divide,
    .shared_bytes = shared_bytes,
    .count = count_traffic,
    .describe = describe,
};
