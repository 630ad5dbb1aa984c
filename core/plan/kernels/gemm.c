/* gemm: every product with a weight, and of two batches for a weight's gradient. */
#include <string.h>

#include "interface/interface.h"
#include "plan/class_sizes.h"
#include "plan/kernels/tiled.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* From large to small: a large tile reads less memory per output, a small one gives work to more multiprocessors.
 * With four vectors every work-item loads one block of four rows a stage, and a row's 64 bytes are used at once. On an
 * NVIDIA compiler the first takes just under 128 registers: two groups a multiprocessor. */
/* clang-format off */
static const struct tile tiles[] = {
    {128, 128, 8, 8, 4, 1.0, 2 * LARGE_GPU_UNITS}, /* 256 work-items of 64 outputs: 4 reads of shared memory for 64 fma */
    {64, 64, 8, 4, 4, 0.9, 4 * LARGE_GPU_UNITS},   /* 128 of 32 */
};
/* clang-format on */
enum { TILES = sizeof tiles / sizeof *tiles };
/* 64 work-items of 16 outputs; few groups run, so what counts is how often they wait: deeper stages. */
static const struct tile tile_small = {32, 32, 4, 4, 8, 0, 0};

/* Where work-items are loop iterations or vector lanes: few of them with much work each. The larger one was measured
 * best on PoCL and lavapipe; the smaller one computes less that no row asks for. */
static const struct tile tile_cpu = {64, 64, 8, 8, 4, 0, 0};
static const struct tile tile_cpu_small = {32, 32, 8, 8, 4, 0, 0};

/* Of a weight's gradient, and rows of each. */
enum { MOST_PARTS = 8, LEAST_PART_ROWS = 256 };

/* Number `tile` of them; where the device's class has a largest one, that is the first. */
static struct tile tile_at(const struct sizes *s, int tile)
{
    const struct class_row *row = tile ? NULL : class_row("gemm", s->limits);
    struct tile t = tiles[tile];
    if (!row) return t;
    uint32_t vectors = row->tile_k ? row->tile_k / s->vector : t.vectors;
    return (struct tile){row->most_m, row->most_n, row->thread_m, row->thread_n, vectors, t.speed, t.filled};
}

static bool tile_fits(const struct call *call, const struct sizes *s, int tile)
{
    const struct tile t = tile_at(s, tile);
    (void)call;
    return tile_items(&t) <= s->limits->max_local_size &&
           (size_t)(t.m + t.n) * t.vectors * s->vector * sizeof(float) <= s->limits->shared_bytes;
}

/* Products without what follows them may be another rung's, whose epilogues neither gate nor turn: they and a kernel
 * after them are faster than this one. */
static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    static const uint8_t more[] = {CONST_GATE,     CONST_ROTARY,  CONST_ACTIVATION,     CONST_DERIVATIVE,
                                   CONST_HEAD_DIM, CONST_DROPOUT, CONST_QKV_INTERLEAVED};
    const char *ignored;
    struct call plain = *call;
    if (call_get(call, CONST_SCALES, 0) &&
        (call_get(call, CONST_FORM, GEMM_NT) != GEMM_NT || call_runtime(call) != RUNTIME_M))
        return variant_refuse(reason, "weights of 8 bits are of products of rows of tokens with a weight's rows");
    if (!call_get(call, CONST_GATE, GATE_NONE) && !call_get(call, CONST_ROTARY, ROTARY_NONE)) return true;
    if (call_get(call, CONST_COLUMN_SUMS, 0)) return variant_refuse(reason, "of pairs it sums no columns");
    plain.n_constants = 0;
    for (int i = 0; i < call->n_constants; i++)
        if (!memchr(more, call->constants[i].id, sizeof more))
            plain.constants[plain.n_constants++] = call->constants[i];
    return !variant_choose(&plain, s, &ignored) ||
           variant_refuse(reason, "the product alone runs on matrix units, which is faster");
}

/* ---- a tile for all of the sum ---- */

static uint64_t groups_of(const struct call *call, const struct sizes *s, int tile)
{
    struct extents all = call_extents(call, s);
    const struct tile t = tile_at(s, tile);
    return divide_up(all.m, t.m) * divide_up(all.n, t.n);
}

/* With fewer work-groups than a large GPU has multiprocessors the small tile is better. */
static bool tile_fills(const struct call *call, const struct sizes *s, int tile)
{
    return tile_fits(call, s, tile) && groups_of(call, s, tile) >= LARGE_GPU_UNITS;
}

/* Work-groups run in rounds, and the last one is seldom full. On an H200, 4096 x 1024 outputs are 256 of the largest
 * tiles, one round: 891 us for 4096 sums each, 1125 in 1024 smaller tiles; 8192 x 768 are 384, a round and a half. */
static double tile_speed(const struct tile *t, double fastest, uint64_t groups)
{
    double rounds = (double)divide_up(groups, (uint64_t)t->filled);
    return fastest * t->speed * (double)groups / (rounds * t->filled);
}

static double tile_slowness(const struct call *call, const struct sizes *s, int tile, uint64_t parts)
{
    const struct tile t = tile_at(s, tile);
    return -tile_speed(&t, 1, groups_of(call, s, tile) * parts);
}

static struct tile tile_of(const struct call *call, const struct sizes *s)
{
    static const struct tile_search search = {TILES, 1, 0, tile_fills, tile_slowness};
    uint64_t parts;
    if (s->limits->cpu && !class_row("gemm", s->limits))
        return call_extents(call, s).m > 32 ? tile_cpu : tile_cpu_small;
    int best = tile_search(&search, call, s, &parts);
    return best < 0 ? tile_small : tile_at(s, best);
}

static void size(struct call *call, const struct sizes *s)
{
    const struct tile t = tile_of(call, s);
    tile_set(call, &t, s->vector);
    call_sums_tiles(call);
}

/* ---- a weight's gradient in parts ---- */

/* Seconds of a product in `parts`, and of the kernel that adds them, on a large GPU: 37 TFLOP/s when every round of
 * work-groups is full. Only the quotient counts, and that depends little on the device. */
static double divided_seconds(const struct call *call, const struct sizes *s, int tile, uint64_t parts)
{
    struct extents all = call_extents(call, s);
    const struct tile t = tile_at(s, tile);
    double speed = tile_speed(&t, 37e12, groups_of(call, s, tile) * parts);
    return 2.0 * (double)(all.m * all.n * all.k) / speed + parts_seconds(all.m, all.n, parts);
}

static void divide(struct call calls[GROUP_MAX_CALLS], int *count, const struct sizes *s)
{
    static const struct tile_search search = {TILES, MOST_PARTS, LEAST_PART_ROWS, tile_fits, divided_seconds};
    uint64_t parts;
    int best = tile_search(&search, &calls[0], s, &parts);
    if (best < 0 || parts == 1) return;
    const struct tile t = tile_at(s, best);
    tile_set(&calls[0], &t, s->vector);
    calls_split(calls, count, s, rows_in_parts(s->max_rows, parts, call_get(&calls[0], CONST_TILE_K, 1)));
}

static uint64_t scratch_bytes(const struct call *call, uint64_t max_rows)
{
    uint32_t runtime = call_runtime(call);
    uint64_t m = call_get(call, CONST_M, 1), n = call_get(call, CONST_N, 1);
    uint64_t width = runtime == RUNTIME_N ? m : runtime == RUNTIME_K ? m * n : n;
    return call_parts(call, max_rows) * width * sizeof(float);
}

/* ---- candidates ---- */

/* The least seconds on a large GPU, of which only quotients count. */
static const double bound_flops = 40e12, bound_bytes = 3.5e12, bound_launch = 4e-6;
enum { BOUND_ITEMS = 512 }; /* work-items that keep a multiprocessor busy */

/* fma in rounds of work-groups that share what they read of shared memory, every tile's operands, and the partial sums,
 * written and read. */
static double bound(const struct call *call, const struct sizes *s)
{
    struct sizes bucket = *s;
    bucket.max_rows = choices_bucket(s->max_rows);
    struct extents all = call_extents(call, &bucket);
    uint64_t m = all.m, n = all.n, k = all.k;
    uint64_t tile_m = call_get(call, CONST_TILE_M, 1), tile_n = call_get(call, CONST_TILE_N, 1),
             part_rows = call_runtime(call) == RUNTIME_K ? call_get(call, CONST_PART_ROWS, 0) : 0,
             parts = part_rows ? divide_up(k, part_rows) : 1, local = call_get(call, CONST_LOCAL_SIZE, 1);
    uint64_t units = device_units(s->limits);
    uint64_t groups = divide_up(m, tile_m) * divide_up(n, tile_n) * parts,
             at_once = units * (local < BOUND_ITEMS ? BOUND_ITEMS / local : 1);
    double thread_m = call_get(call, CONST_THREAD_M, 1), thread_n = call_get(call, CONST_THREAD_N, 1);
    double reads = (thread_m + thread_n) / (thread_m * thread_n) / 0.3; /* of shared memory, for an fma */
    double flops = 2.0 * (double)tile_m * (double)tile_n * (double)divide_up(k, parts) * (double)at_once *
                   (double)divide_up(groups, at_once) * (reads > 1 ? reads : 1);
    double operands = ((double)divide_up(n, tile_n) * (double)m + (double)divide_up(m, tile_m) * (double)n) *
                      (double)k * (s->f16 ? 2 : 4) / 4; /* most of them from the cache */
    double compute = s->limits->cpu ? 2.0 * (double)(m * n * k) / bound_flops : flops / bound_flops,
           memory = operands / bound_bytes;
    return (compute > memory ? compute : memory) +
           (parts > 1 ? (double)(parts * m * n) * 8 / bound_bytes + bound_launch : 0);
}

/* One tile, and for a weight's gradient its sum in parts, too: each of some hundred rows and whole stages. */
static void add_tile(struct choices *list, const struct sizes *s, struct call *call)
{
    uint32_t tile_k = call_get(call, CONST_TILE_K, 1);
    uint64_t rows = choices_bucket(s->max_rows),
             outputs = (uint64_t)call_get(call, CONST_M, 0) * call_get(call, CONST_N, 1);
    bool weight = call_runtime(call) == RUNTIME_K;
    if (!weight) call_sums_tiles(call);
    choices_add(list, call);
    if (!weight || s->limits->cpu || call_writes_slice(call) || outputs > UINT32_MAX / MOST_PARTS) return;
    for (uint64_t parts = 2; parts <= MOST_PARTS && parts * LEAST_PART_ROWS <= rows; parts++) {
        struct call divided = *call;
        call_set(&divided, CONST_PART_ROWS, choices_part_rows(list, parts, tile_k));
        choices_add(list, &divided);
    }
}

static void candidates(const struct call *sized, const struct sizes *s, struct choices *list)
{
    static const struct {
        uint32_t m, n, thread_m, thread_n;
    } shapes[] = {{128, 128, 8, 8}, {128, 64, 8, 8}, {64, 128, 8, 8}, {128, 64, 8, 4}, {64, 128, 8, 4},
                  {64, 64, 8, 8},   {64, 64, 8, 4},  {64, 64, 4, 4},  {64, 32, 4, 4},  {32, 64, 4, 4},
                  {64, 32, 8, 4},   {32, 64, 8, 4},  {32, 32, 8, 8},  {32, 32, 4, 4},  {128, 256, 8, 8},
                  {256, 128, 8, 8}, {256, 64, 8, 8}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t vectors = 2; vectors <= 8; vectors *= 2) {
            struct call call = *sized;
            const struct tile t = {shapes[i].m, shapes[i].n, shapes[i].thread_m, shapes[i].thread_n, vectors, 0, 0};
            if (!tile_candidate(&t)) continue;
            tile_set(&call, &t, s->vector);
            add_tile(list, s, &call);
        }
}

/* ---- its traffic ---- */

/* Every work-item loads the bias of its columns, once for a tile. */
static void count_traffic(struct count *c)
{
    count_product(c, 1, get(c, CONST_TILE_M, 32) / get(c, CONST_THREAD_M, 4));
}

const struct variant variant_gemm = {
    .kernel = "gemm",
    .name = "gemm",
    .takes = {CONST_N,          CONST_K,          CONST_ROWS,        CONST_BIAS,
              CONST_ACTIVATION, CONST_RESIDUAL,   CONST_SUM,         CONST_X_STRIDE,
              CONST_X_OFFSET,   CONST_W_STRIDE,   CONST_W_OFFSET,    CONST_Y_STRIDE,
              CONST_Y_OFFSET,   CONST_FORM,       CONST_M,           CONST_DROPOUT,
              CONST_KEPT,       CONST_DERIVATIVE, CONST_COLUMN_SUMS, CONST_RUNTIME,
              CONST_GATE,       CONST_ROTARY,     CONST_HEAD_DIM,    CONST_QKV_INTERLEAVED,
              CONST_SCALES,     CONST_KEY_HEADS},
    .fits = fits,
    .why = "the tile whose last round of work-groups is fullest",
    .size = size,
    .divide = divide,
    .shared_bytes = tiled_shared_bytes,
    .scratch_bytes = scratch_bytes,
    .count = count_traffic,
    .candidates = candidates,
    .registers = tiled_registers,
    .bound = bound,
};
