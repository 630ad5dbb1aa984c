/* cl/gemm_wgmma.cl stands for gemm on Hopper: which calls it takes, its tiles, its tensor maps. */
#include "base/round.h"
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

enum {
    DEPTH = 64,     /* k of a stage, and the columns of a box */
    BOX_ROWS = 256, /* at most */
    MOST_PARTS = 8,
    LEAST_PART_ROWS = 512,
    LEAST_PART_K = 2048,
    SUM_COLUMNS = 8,   /* of ones, which an operand is multiplied with */
    PIECE_BYTES = 2048 /* of shared memory, by which a warp stores what it has added of parts */
};

/* From large to small: a large tile reads less memory for an output, small ones give work to more multiprocessors.
 * Speeds, of products of rows and of a weight's gradient, are relative to the first. On an H200 in one run, TFLOP/s at
 * 4096 x 4096 x 1024: 128 x 256 574, 128 x 128 530; with sums of 4096: 4096 x 1024 forward in 128 x 256 567, a weight's
 * gradient of 3072 x 1024 in 192 x 128 563. An epilogue of 192 columns leaves a quarter of its lanes idle, which a
 * weight's gradient does not have: 8192 rows of 768 x 768 with a residual and moments take 26.7 us in 128 x 192 and
 * 25.9 in 192 x 128. The small ones are estimates by the bytes that they load. */
struct wgmma_tile {
    uint32_t m, n;
    double rows_speed, weight_speed;
};

static const struct wgmma_tile wgmma_tiles[] = {
    {128, 256, 1.0, 1.0},   {128, 192, 0.94, 0.97}, {192, 128, 0.97, 0.97},
    {128, 128, 0.91, 0.91}, {64, 128, 0.6, 0.6},    {64, 64, 0.4, 0.4},
};
enum { WGMMA_TILES = sizeof wgmma_tiles / sizeof *wgmma_tiles };

enum { NORMAL_ROWS = 64 }; /* of a tile that has all columns */

/* Flop in a second of one of `busy` multiprocessors: they share the device's power. Measured on an H200 with tiles of
 * 128 x 256 and sums of 16,384 or 4096: 6.6e12 where 72 are busy, 5.9 with 96, 5.1 with 128. */
static double multiprocessor_speed(uint64_t busy) { return 8.7e12 - 0.0281e12 * (double)(busy < 60 ? 60 : busy); }

/* The gradient of a weight: few tiles and a long sum, and nothing after it. */
static bool is_weight(const struct call *call) { return call_runtime(call) == RUNTIME_K; }

/* Seconds of outputs of `all` in `parts` of their sums. It says 135 us for 3072 x 768 x 16,384 in 3 parts and 35
 * for 768 x 768 x 16,384 in 7, where 136 and 36 were measured. */
static double seconds(const struct call *call, const struct sizes *s, int tile, uint64_t parts)
{
    const struct wgmma_tile *t = &wgmma_tiles[tile];
    const struct extents all = call_extents(call, s);
    uint64_t units = device_units(s->limits), k_tiles = divide_up(divide_up(all.k, parts), DEPTH);
    uint64_t tiles = divide_up(all.m, t->m) * divide_up(all.n, t->n) * parts, rest = tiles % units;
    double speed = is_weight(call) ? t->weight_speed : t->rows_speed;
    double flop = 2.0 * t->m * t->n * (double)(k_tiles * DEPTH) / speed, finish = 0.7e-6, written = 0;
    if (parts > 1) written = (double)(parts * all.m * all.n) * sizeof(float) / 5e12;
    return (double)(tiles / units) * (flop / multiprocessor_speed(units) + finish) +
           (rest ? flop / multiprocessor_speed(rest) + finish : 0) + written;
}

/* M, N or K, 0 where it is the batch's number of rows. */
static uint32_t dimension(const struct call *call, uint32_t which)
{
    static const uint8_t ids[] = {[RUNTIME_M] = CONST_M, [RUNTIME_N] = CONST_N, [RUNTIME_K] = CONST_K};
    return which == call_runtime(call) ? 0 : call_get(call, ids[which], 1);
}

static void set_map(struct call_map *map, uint8_t slot, const struct call *call, uint32_t rows, uint32_t columns,
                    uint32_t stride, uint32_t offset, uint32_t box_rows)
{
    *map = (struct call_map){.slot = slot,
                             .rows_of = (uint8_t)call_get(call, CONST_ROWS, HEADER_TOKENS),
                             .rows = rows,
                             .columns = columns,
                             .stride = stride,
                             .offset = offset,
                             .box_rows = box_rows,
                             .box_columns = DEPTH};
}

/* Boxes follow from the tile. */
static void derive(struct call *call, const struct sizes *s)
{
    uint32_t form = call_get(call, CONST_FORM, GEMM_NT), tile_n = call_get(call, CONST_TILE_N, 1);
    uint32_t m = dimension(call, RUNTIME_M), n = dimension(call, RUNTIME_N), k = dimension(call, RUNTIME_K);
    bool x_major = form == GEMM_TN, w_major = form != GEMM_NT;
    uint32_t x_columns = x_major ? m : k, w_columns = w_major ? n : k;
    (void)s;
    call->n_maps = 2;
    set_map(&call->maps[0], SLOT_X, call, x_major ? k : m, x_columns, call_get(call, CONST_X_STRIDE, x_columns),
            call_get(call, CONST_X_OFFSET, 0), x_major ? DEPTH : call_get(call, CONST_TILE_M, 1));
    set_map(&call->maps[1], SLOT_W, call, w_major ? k : n, w_columns, call_get(call, CONST_W_STRIDE, w_columns),
            call_get(call, CONST_W_OFFSET, 0),
            w_major             ? DEPTH
            : tile_n > BOX_ROWS ? tile_n / 2
                                : tile_n);
}

static bool normalizes(const struct call *call) { return call_get(call, CONST_NORM_Y, 0) != 0; }

/* Warpgroups that multiply: two share the columns of rows that are normalized. */
static uint32_t consumers_of(uint32_t tile_m, bool normalizes)
{
    return tile_m == 192 ? 3 : tile_m >= 128 || normalizes ? 2 : 1;
}

static void set_tile(struct call *call, const struct sizes *s, const struct wgmma_tile *t)
{
    call_set(call, CONST_LOCAL_SIZE, (consumers_of(t->m, normalizes(call)) + 2) * 128);
    call_set(call, CONST_TILE_M, t->m);
    call_set(call, CONST_TILE_N, t->n);
    call_set(call, CONST_TILE_K, DEPTH);
    call_set(call, CONST_GROUPS, (uint32_t)device_units(s->limits));
    derive(call, s);
}

/* Of whole rows. */
static struct wgmma_tile tile_normal(const struct call *call)
{
    return (struct wgmma_tile){.m = NORMAL_ROWS, .n = call_get(call, CONST_N, 1)};
}

static void size(struct call *call, const struct sizes *s)
{
    static const struct tile_search search = {WGMMA_TILES, 1, 0, NULL, seconds};
    uint64_t parts;
    if (normalizes(call)) {
        struct wgmma_tile t = tile_normal(call);
        set_tile(call, s, &t);
        return;
    }
    set_tile(call, s, &wgmma_tiles[tile_search(&search, call, s, &parts)]);
    call_sums_tiles(call);
}

/* What the last work-group of a tile reads of the others' sums, by 40 bytes a clock; two microseconds until it has
 * begun, and a bit more than one in each round before the last, while which nothing is multiplied. */
static double adding_seconds(const struct wgmma_tile *t, const struct device_limits *limits, uint64_t tiles,
                             uint64_t parts)
{
    if (parts < 2) return 0;
    uint64_t rounds = divide_up(tiles * parts, device_units(limits));
    return (double)((parts - 1) * t->m * t->n) * sizeof(float) / 70e9 + 2e-6 + (double)(rounds - 1) * 1.2e-6;
}

static double divided_seconds(const struct call *call, const struct sizes *s, int tile, uint64_t parts)
{
    const struct wgmma_tile *t = &wgmma_tiles[tile];
    struct extents all = call_extents(call, s);
    return seconds(call, s, tile, parts) +
           adding_seconds(t, s->limits, divide_up(all.m, t->m) * divide_up(all.n, t->n), parts);
}

/* The tile, and over how many work-groups a sum is split: of a weight's gradient; of rows of the batch where a part is
 * long enough to hide that there is no epilogue beside it. */
static const struct wgmma_tile *divided_tile(const struct call *call, const struct sizes *s, uint64_t *parts)
{
    static const struct tile_search weights = {WGMMA_TILES, MOST_PARTS, LEAST_PART_ROWS, NULL, divided_seconds},
                                    rows = {WGMMA_TILES, MOST_PARTS, LEAST_PART_K, NULL, divided_seconds};
    return &wgmma_tiles[tile_search(is_weight(call) ? &weights : &rows, call, s, parts)];
}

/* Sums that nothing comes after. */
static bool is_plain(const struct call *call)
{
    static const uint8_t others[] = {CONST_BIAS,       CONST_ACTIVATION,  CONST_RESIDUAL, CONST_SUM,   CONST_DROPOUT,
                                     CONST_DERIVATIVE, CONST_KEPT,        CONST_NORM_Y,   CONST_DELTA, CONST_GATE,
                                     CONST_ROTARY,     CONST_COLUMN_SUMS, CONST_MOMENTS};
    bool more = false;
    for (size_t i = 0; i < sizeof others; i++) more |= call_get(call, others[i], 0) != 0;
    return !more;
}

/* Those of a session are left to gemm_small_batch. */
static bool few_rows(const struct sizes *s)
{
    return s->max_rows <= SMALL_BATCH_ROWS && s->limits->rungs & RUNG_BIT(RUNG_SMALL_BATCH);
}

/* Whether it can normalize its result, a product with a weight and what inference puts after it: rows of which tiles
 * have all columns, and so many that their tiles keep half of the multiprocessors busy. Few rows are
 * gemm_small_batch's, which normalizes what it reads. */
static bool fits_normal(const struct call *call, const struct sizes *s, const char **reason)
{
    static const uint8_t others[] = {CONST_ACTIVATION, CONST_DERIVATIVE,  CONST_DROPOUT, CONST_KEPT,
                                     CONST_SUM,        CONST_COLUMN_SUMS, CONST_GATE,    CONST_ROTARY};
    uint32_t n = call_get(call, CONST_N, 1);
    bool idle = 2 * divide_up(s->max_rows, NORMAL_ROWS) < device_units(s->limits), more = false;
    for (size_t i = 0; i < sizeof others; i++) more |= call_get(call, others[i], 0) != 0;
    bool usual = call_get(call, CONST_FORM, GEMM_NT) == GEMM_NT && call_runtime(call) == RUNTIME_M;
    *reason = !usual || more                                ? "it normalizes sums with a bias and a residual"
              : n != 64 && n != 128 && n != 256 && n != 384 ? "its tiles have no whole rows of this length"
              : few_rows(s) || idle                         ? "tiles of whole rows would be too few"
                                                            : NULL;
    return !*reason;
}

/* Whether it can sum over the heads of its result: lanes side by side share one, and tiles of each width have whole
 * ones. Few rows are gemm_small_batch's, even with a kernel after it. */
static bool fits_heads(const struct call *call, const struct sizes *s, const char **reason)
{
    uint32_t dim = call_get(call, CONST_HEAD_DIM, 1), n = call_get(call, CONST_N, 1);
    *reason = call_runtime(call) != RUNTIME_M || call_writes_slice(call) ? "it sums over the heads of rows of tokens"
              : dim < 8 || dim > 64 || dim & (dim - 1) || n % dim        ? "lanes do not share heads of this size"
              : few_rows(s)                                              ? "few rows are left to gemm_small_batch"
                                                                         : NULL;
    return !*reason;
}

/* Rows of both operands and of the result begin on 16 bytes, whatever is in them: the copy engine leaves out what comes
 * after a row's end. Results are stored eight at a time, and of the last eight of a row the rest is its pitch's. */
static bool rows_aligned(const struct call *call)
{
    uint32_t form = call_get(call, CONST_FORM, GEMM_NT);
    uint32_t m = dimension(call, RUNTIME_M), n = dimension(call, RUNTIME_N), k = dimension(call, RUNTIME_K);
    uint32_t strides = call_get(call, CONST_X_STRIDE, form == GEMM_TN ? m : k) |
                       call_get(call, CONST_W_STRIDE, form != GEMM_NT ? n : k) | call_get(call, CONST_Y_STRIDE, n);
    uint32_t offsets =
        call_get(call, CONST_X_OFFSET, 0) | call_get(call, CONST_W_OFFSET, 0) | call_get(call, CONST_Y_OFFSET, 0);
    return (strides | offsets) % 8 == 0;
}

/* What comes with the results has its place in rows without a pitch. */
static bool plain_results(const struct call *call)
{
    static const uint8_t others[] = {CONST_RESIDUAL, CONST_DERIVATIVE, CONST_DROPOUT,     CONST_KEPT, CONST_DELTA,
                                     CONST_NORM_Y,   CONST_SUM,        CONST_COLUMN_SUMS, CONST_GATE, CONST_ROTARY};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (call_get(call, others[i], 0)) return false;
    return true;
}

/* Slopes come with activations and gates of rows of tokens; those of a gate are multiplied by sums as they are. */
static bool fits_slopes(const struct call *call, const char **reason)
{
    static const uint8_t others[] = {CONST_BIAS, CONST_RESIDUAL, CONST_SUM,   CONST_DROPOUT,
                                     CONST_KEPT, CONST_ROTARY,   CONST_DELTA, CONST_MOMENTS};
    bool made = call_get(call, CONST_SUM, 0) == SUM_SLOPE, more = false;
    bool given = call_get(call, CONST_DERIVATIVE, ACTIVATION_NONE) == ACTIVATION_GIVEN;
    for (size_t i = 0; i < sizeof others; i++) more |= call_get(call, others[i], 0) != 0;
    *reason = made && (call_runtime(call) != RUNTIME_M || call_get(call, CONST_RESIDUAL, 0))
                  ? "slopes come with activations of rows of tokens"
              : given && call_get(call, CONST_GATE, GATE_NONE) && more ? "a gate's slopes are multiplied by sums alone"
                                                                       : NULL;
    return !*reason;
}

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    bool whole = dimension(call, RUNTIME_N) % 8 == 0;
    *reason = !s->f16                          ? "products by wgmma are of f16"
              : !rows_aligned(call)            ? "rows that begin on no multiple of 16 bytes"
              : !whole && !plain_results(call) ? "N is no multiple of 8"
              : call_get(call, CONST_NORM, 0)  ? "it normalizes no operand"
                                               : NULL;
    if (*reason || !fits_slopes(call, reason) || !call_pairs_fit(call, 8, reason)) return false;
    if (!call_moments_fit(call, reason)) return false;
    if (call_get(call, CONST_MOMENTS, 0) && few_rows(s))
        return variant_refuse(reason, "few rows are left to gemm_small_batch");
    if (normalizes(call)) return fits_normal(call, s, reason);
    return !call_get(call, CONST_DELTA, 0) || fits_heads(call, s, reason);
}

static void divide(struct call calls[GROUP_MAX_CALLS], int *count, const struct sizes *s)
{
    uint64_t parts;
    if (!is_weight(&calls[0]) && !is_plain(&calls[0])) return;
    const struct wgmma_tile *best = divided_tile(&calls[0], s, &parts);
    if (parts == 1) return;
    set_tile(&calls[0], s, best);
    calls_split(calls, count, s, rows_in_parts(call_extents(&calls[0], s).k, parts, DEPTH));
}

static uint32_t adding_items(const struct call *call)
{
    return (consumers_of(call_get(call, CONST_TILE_M, 1), false) + 1) * 128;
}

/* Warps that multiply add what the same ones of other work-groups made of the tile, and no warps finish it. */
static void adds(struct call *call, const struct sizes *s)
{
    uint32_t tile_m = call_get(call, CONST_TILE_M, 1), tile_n = call_get(call, CONST_TILE_N, 1);
    struct extents all = call_extents(call, s);
    uint64_t tiles = divide_up(all.m, tile_m) * divide_up(all.n, tile_n);
    call_set(call, CONST_LOCAL_SIZE, adding_items(call));
    call->counters = (uint32_t)tiles * consumers_of(tile_m, false) * 4;
}

/* A warp has 16 rows of a tile, with those of their sums over the operand. */
static uint64_t partials_of(const struct call *call)
{
    return (uint64_t)call->counters * 16 *
           (call_get(call, CONST_TILE_N, 1) + (call_sums_operand(call) ? SUM_COLUMNS : 0));
}

static uint64_t scratch_bytes(const struct call *call, uint64_t max_rows)
{
    if (call->counters) return call_parts(call, max_rows) * partials_of(call) * sizeof(float);
    return kernel_row("gemm")->scratch_bytes(call, max_rows);
}

/* All tiles, of a weight's gradient also in parts of whole stages; of whole rows there is one. */
static void candidates(const struct call *sized, const struct sizes *s, struct choices *list)
{
    bool weight = is_weight(sized);
    for (int i = 0; i < WGMMA_TILES && !normalizes(sized); i++) {
        struct call call = *sized;
        set_tile(&call, s, &wgmma_tiles[i]);
        if (!weight) call_sums_tiles(&call);
        choices_add(list, &call);
        if (weight) call_set(&call, CONST_LOCAL_SIZE, adding_items(&call));
        for (uint64_t p = 2; weight && p <= MOST_PARTS && choices_part_rows(list, p, 1) >= LEAST_PART_ROWS; p++) {
            call_set(&call, CONST_PART_ROWS, choices_part_rows(list, p, DEPTH));
            choices_add(list, &call);
        }
    }
}

/* As the kernel counts: stages as many as fit, at most 8, the tile's sums in f16 or pieces of them, its columns' in
 * f32, ones. */
static size_t shared_bytes(const struct call *call)
{
    size_t m = call_get(call, CONST_TILE_M, 0), n = call_get(call, CONST_TILE_N, 0), all = 232448;
    bool column_sums = call_get(call, CONST_COLUMN_SUMS, 0);
    size_t sums = call->counters || (is_weight(call) && column_sums)
                      ? consumers_of((uint32_t)m, false) * 4 * PIECE_BYTES
                      : m * n * 2;
    size_t totals = call_runtime(call) == RUNTIME_M && column_sums ? m / 8 * (32 / (n / 8)) * n * 4 : 0;
    size_t ones = call_sums_operand(call) ? 8 * DEPTH * 2 : 0;
    size_t stage = (m + n) * DEPTH * 2, stages = (all - 1024 - sums - totals - ones) / stage;
    return (stages < 8 ? stages : 8) * (stage + 16) + sums + totals + ones + 16;
}

/* ---- its traffic ---- */

/* Seven warps make a tile's results; lanes with the same eight columns load the same bias. For a row that is normalized
 * it is loaded again. */
static void count_traffic(struct count *c)
{
    uint64_t parts = c->call->counters ? call_parts(c->call, rows_of(c)) : 1;
    if (parts > 1) {
        writes_scratch(c, SLOT_PARTIALS, parts * partials_of(c->call));
        reads(c, SLOT_PARTIALS, (parts - 1) * partials_of(c->call));
    }
    count_moments(c);
    count_product(c, 8,
                  get(c, CONST_NORM_Y, 0) ? get(c, CONST_TILE_M, 64) : 7 * (32 / (get(c, CONST_TILE_N, 256) / 8)));
}

const struct variant variant_gemm_wgmma = {
    .kernel = "gemm",
    .name = "gemm_wgmma",
    .rung = RUNG_WGMMA,
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
              CONST_NORM_Y,      CONST_DELTA,
              CONST_HEAD_DIM,    CONST_GATE,
              CONST_ROTARY,      CONST_QKV_INTERLEAVED,
              CONST_KEY_HEADS,   CONST_MOMENTS,
              CONST_RMS},
    .sums_operand = true,
    .slopes = true,
    .why = "wgmma with tiles by the tensor copy engine, Hopper's fastest",
    .fits = fits,
    .size = size,
    .divide = divide,
    .adds = adds,
    .scratch_bytes = scratch_bytes,
    .shared_bytes = shared_bytes,
    .count = count_traffic,
    .candidates = candidates,
    .derive = derive,
};
