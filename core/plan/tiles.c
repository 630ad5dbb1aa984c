/* Chooses tile and work-group sizes by device and shape, the batch's contents never: the sum of every output has
 * one order whatever the tile of a product, and row kernels sum in an order that LOCAL_SIZE gives. */
#include "plan/tiles.h"

#include <string.h>

#include "base/round.h"
#include "interface/interface.h"
#include "plan/batch.h"
#include "plan/variants.h"

/* ---- products ---- */

struct tile {
    uint32_t m, n, thread_m, thread_n; /* LOCAL_SIZE is (m / thread_m) * (n / thread_n) */
    uint32_t vectors;                  /* depth of a stage in vectors of 16 bytes */
    double speed;                      /* on many tiles, relative to the largest tile's */
    double filled;                     /* work-groups that a large GPU runs at the same time */
};

/* From large to small: a large tile reads less memory per output, a small one gives work to more multiprocessors.
 * With four vectors every work-item loads one block of four rows a stage, and a row's 64 bytes are used at once. On an
 * NVIDIA compiler the first takes just under 128 registers: two groups a multiprocessor. */
/* clang-format off */
static const struct tile gemm_tiles[] = {
    {128, 128, 8, 8, 4, 1.0, 2 * LARGE_GPU_UNITS}, /* 256 work-items of 64 outputs: 4 reads of shared memory for 64 fma */
    {64, 64, 8, 4, 4, 0.9, 4 * LARGE_GPU_UNITS},   /* 128 of 32 */
    {32, 32, 4, 4, 8, 0, 0}, /* 64 of 16; few groups run, so what counts is how often they wait: deeper stages */
};
/* clang-format on */
enum { GEMM_TILES = sizeof gemm_tiles / sizeof *gemm_tiles };

/* Where work-items are loop iterations or vector lanes: few of them with much work each. The larger one was measured
 * best on PoCL and lavapipe; the smaller one computes less that no row asks for. */
static const struct tile cpu_tile = {64, 64, 8, 8, 4};
static const struct tile cpu_tile_small = {32, 32, 8, 8, 4};

/* Work-groups that a product should have at least: two for each multiprocessor of a large GPU. */
enum { ENOUGH_GROUPS = 2 * LARGE_GPU_UNITS };

static uint32_t tile_items(const struct tile *t) { return t->m / t->thread_m * (t->n / t->thread_n); }

/* Stages are in f32 whatever the storage type. */
static bool tile_fits(const struct tile *t, const struct device_limits *limits, uint32_t vector)
{
    return tile_items(t) <= limits->max_local_size &&
           (size_t)(t->m + t->n) * t->vectors * vector * sizeof(float) <= limits->shared_bytes;
}

/* Work-groups run in rounds, and the last one is seldom full. On an H200, 4096 x 1024 outputs are 256 of the largest
 * tiles, one round: 891 us for 4096 sums each, 1125 in 1024 smaller tiles; 8192 x 768 are 384, a round and a half. */
static const struct tile *gemm_tile(const struct device_limits *limits, uint32_t vector, uint64_t rows,
                                    uint64_t columns)
{
    const struct tile *best = &gemm_tiles[GEMM_TILES - 1];
    double best_speed = 0;
    if (limits->cpu) return rows > 32 ? &cpu_tile : &cpu_tile_small;
    for (int i = 0; i < GEMM_TILES - 1; i++) {
        const struct tile *t = &gemm_tiles[i];
        uint64_t groups = divide_up(rows, t->m) * divide_up(columns, t->n);
        double rounds = (double)divide_up(groups, (uint64_t)t->filled);
        double speed = t->speed * (double)groups / (rounds * t->filled);
        if (tile_fits(t, limits, vector) && groups >= ENOUGH_GROUPS / 2 && speed > best_speed) {
            best = t;
            best_speed = speed;
        }
    }
    return best;
}

static void set_tile(struct call *call, const struct tile *t, uint32_t vector)
{
    call_set(call, CONST_LOCAL_SIZE, tile_items(t));
    call_set(call, CONST_TILE_M, t->m);
    call_set(call, CONST_TILE_N, t->n);
    call_set(call, CONST_TILE_K, t->vectors * vector);
    call_set(call, CONST_THREAD_M, t->thread_m);
    call_set(call, CONST_THREAD_N, t->thread_n);
}

uint64_t device_units(const struct device_limits *limits)
{
    return limits->compute_units ? limits->compute_units : LARGE_GPU_UNITS;
}

/* ---- attention and its two products ---- */

/* Entries of the query tile table count as many rows, those of the score tile table as many in both directions. Where
 * shared memory is small, half as many let attention keep to 16 KiB. On a CPU the kernels of half as many are compiled
 * in half the time (backward: PoCL 20 -> 10 s, lavapipe 7 -> 4), and are faster but for lavapipe's with heads of 64. */
static uint32_t attention_rows(const struct device_limits *limits)
{
    bool portable = !(limits->rungs & RUNG_BIT(RUNG_COOPMAT)); /* kernels of cooperative matrices have 64 */
    return (limits->cpu && portable) || limits->shared_bytes < 32768 ? 32 : 64;
}

uint32_t tile_queries(const struct device_limits *limits) { return attention_rows(limits); }

uint32_t tile_scores(const struct device_limits *limits) { return attention_rows(limits); }

/* Narrow tiles of the context for narrow heads. */
static void set_bgemm(struct call *call, const struct device_limits *limits, uint32_t vector)
{
    uint32_t rows = attention_rows(limits);
    bool narrow =
        call_get(call, CONST_BATCHED, BATCHED_SCORES) != BATCHED_SCORES && call_get(call, CONST_HEAD_DIM, 1) <= 32;
    set_tile(call, &(struct tile){rows, narrow ? 32 : rows, rows / 8, 4, 4}, vector);
}

/* Square tiles; a work-item has 8 x 4 scores, as many sums with 64 channels: 3 reads of shared memory for 32 fma. Where
 * there are 48 KiB of shared memory, forward keeps all 64 channels of the queries there: 43 KiB, 27 TFLOP/s on an H200
 * instead of 22. Where memory is small, a work-item has 4 x 4. */
static void set_attention_tile(struct call *call, const struct device_limits *limits, uint32_t thread, uint32_t tile_k,
                               uint32_t values)
{
    uint32_t rows = attention_rows(limits);
    call_set(call, CONST_LOCAL_SIZE, rows / thread * (rows / 4));
    call_set(call, CONST_TILE_M, rows);
    call_set(call, CONST_TILE_N, rows);
    call_set(call, CONST_TILE_K, tile_k);
    call_set(call, CONST_TILE_V, values);
    call_set(call, CONST_THREAD_M, thread);
}

static bool attention_roomy(const struct device_limits *limits) { return limits->shared_bytes >= 49152; }

static void set_attention(struct call *call, const struct device_limits *limits)
{
    bool wide = call_get(call, CONST_HEAD_DIM, 1) > 64, roomy = attention_roomy(limits);
    set_attention_tile(call, limits, attention_rows(limits) < 64 ? 4 : 8,
                       !roomy ? 16
                       : wide ? 32
                              : 64,
                       !roomy && wide ? 16 : 32);
}

/* Keys' and values' sums of 8 rows and 128 channels would not stay in registers: there a work-item has 4. Parts give
 * work to a large GPU, four groups for each multiprocessor at the session's limits where that takes several; each part
 * costs a sum of the queries' gradients in memory. On an H200, 8 x 512 tokens, 16 heads: 982, 779, 788, 796 us with 1,
 * 2, 4 and 8 parts. */
static void set_attention_backward(struct call *call, const struct device_limits *limits, uint64_t max_rows,
                                   uint32_t longest)
{
    bool wide = call_get(call, CONST_HEAD_DIM, 1) > 64, roomy = attention_roomy(limits) && !wide;
    uint32_t rows = attention_rows(limits);
    uint64_t tiles = divide_up(longest, rows), sequences = longest ? divide_up(max_rows, longest) : 1;
    uint64_t groups = sequences * call_get(call, CONST_HEADS, 1), parts = 2 * ENOUGH_GROUPS / groups;
    if (parts > tiles) parts = tiles;
    set_attention_tile(call, limits, rows < 64 || (wide && limits->max_local_size >= 256) ? 4 : 8, roomy ? 32 : 16,
                       roomy  ? 64
                       : wide ? 16
                              : 32);
    call_set(call, CONST_PARTS, limits->cpu || parts < 1 ? 1 : (uint32_t)parts);
}

/* The parts are those of attention_backward. */
static void set_attention_dq(struct call *call, const struct call *before)
{
    call_set(call, CONST_TILE_M, call_get(before, CONST_TILE_M, 1));
    call_set(call, CONST_PARTS, call_get(before, CONST_PARTS, 1));
}

/* ---- rows ---- */

/* A power of two from 32 to 256 and not above the device's limit, near `items`: the kernels' heads say why. */
static uint32_t row_size(const struct device_limits *limits, uint32_t items)
{
    uint32_t size = 32;
    while (size < 256 && size < items && size * 2 <= limits->max_local_size) size *= 2;
    return size;
}

/* A part's rows are walked through by one group: many parts for a GPU, few where a core runs one group after the
 * other. */
static void set_scatter(struct call *call, const struct device_limits *limits, uint32_t vectors, uint64_t max_rows)
{
    call_set(call, CONST_LOCAL_SIZE, row_size(limits, vectors > 128 ? vectors : 128));
    if (call_get(call, CONST_COLUMN_SUMS, 0))
        call_set(call, CONST_PART_ROWS,
                 (uint32_t)divide_up(max_rows ? max_rows : 1, limits->cpu ? 4 : 2 * LARGE_GPU_UNITS));
}

/* ---- sums over rows ----
 * A part is so many rows that the parts of the largest batch run at the same time: four work-groups for each
 * multiprocessor of a large GPU. Few parts on a CPU, where work-groups take turns and each writes its sums. */

static uint32_t part_rows(const struct device_limits *limits, uint64_t max_rows, uint32_t columns)
{
    uint64_t parts = limits->cpu ? 8 : 4 * LARGE_GPU_UNITS / (columns < 4 ? columns : 4),
             rows = divide_up(max_rows, parts);
    return rows ? (uint32_t)rows : 1;
}

/* Rows that a work-group takes at a time, at most its `share`, and so many that four groups run on a multiprocessor: a
 * row takes the registers of d and z and of what is loaded of the next one. Measured on an H200; the most leaves room
 * for the sums over rows. */
static uint32_t layernorm_backward_rows(const struct call *call, uint32_t access, uint32_t share)
{
    uint32_t size = call_get(call, CONST_LOCAL_SIZE, 1), dx = call_get(call, CONST_NORM_DX, 0);
    uint32_t steps = (uint32_t)divide_up(call_get(call, CONST_N, 1), (uint64_t)access * size);
    uint32_t operands = 1 + call_get(call, CONST_RESIDUAL, 0) + (dx || call_get(call, CONST_NORM_DW, 0)) +
                        (call_get(call, CONST_BIAS_SUM, BIAS_SUM_NONE) == BIAS_SUM_OPERAND);
    uint32_t registers = (2 * steps * access + operands * steps * (access > 1 ? 4 : 1)) * size;
    uint32_t most = (dx ? 7168 : 12288) / registers;
    if (share < most) most = share;
    return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

/* A work-item owns one vector's columns, which with all sums and two rows of f16 take up to 128 registers: so few that
 * four groups of 128 run on a multiprocessor. Where there are sums over rows, all groups run at the same time;
 * elsewhere a group has up to four rows. */
static void set_layernorm_backward(struct call *call, const struct device_limits *limits, uint32_t vector,
                                   uint32_t access, uint64_t max_rows)
{
    bool sums = call_get(call, CONST_NORM_DW, 0) || call_get(call, CONST_BIAS_SUM, BIAS_SUM_NONE) != BIAS_SUM_NONE;
    call_set(call, CONST_LOCAL_SIZE, row_size(limits, (uint32_t)divide_up(call_get(call, CONST_N, 1), vector)));
    uint32_t share = part_rows(limits, max_rows, 1);
    call_set(call, CONST_PART_ROWS, layernorm_backward_rows(call, access, share));
    if (!sums && share > 4) share = 4;
    call_set(call, CONST_PARTS, (uint32_t)divide_up(max_rows ? max_rows : 1, share));
}

/* Of the sizes from 256 down to 64 the one that leaves the fewest work-items after a row's end. */
static uint32_t columns_size(const struct device_limits *limits, uint32_t vectors)
{
    uint32_t size = row_size(limits, vectors), best = size;
    for (; size >= 64; size /= 2)
        if (divide_up(vectors, size) * size < divide_up(vectors, best) * best) best = size;
    return best;
}

/* The kernel has up to eight rows' loads in flight. */
static void set_columns(struct call *call, const struct device_limits *limits, uint32_t access, uint64_t max_rows)
{
    uint32_t n = call_get(call, CONST_N, 1), size = columns_size(limits, (uint32_t)divide_up(n, access));
    uint32_t rows = part_rows(limits, max_rows, (uint32_t)divide_up(n, size * access));
    call_set(call, CONST_LOCAL_SIZE, size);
    call_set(call, CONST_TILE_N, size * access);
    call_set(call, CONST_PART_ROWS, (uint32_t)divide_up(rows, 8) * 8);
}

/* 32 bytes of a part's sums, 32 parts at the same time. On a CPU a vector's width and few parts. */
static void set_reduce(struct call *call, const struct call *before, const struct device_limits *limits)
{
    if (before) {
        call_set(call, CONST_PART_ROWS, call_get(before, CONST_PART_ROWS, 1));
        call_set(call, CONST_PARTS, call_get(before, CONST_PARTS, UINT32_MAX));
    }
    call_set(call, CONST_LOCAL_SIZE, row_size(limits, limits->cpu ? 64 : 256));
    call_set(call, CONST_TILE_N, limits->cpu ? 16 : 8);
}

/* ---- alignment ---- */

/* Tensors begin on 256 bytes, so that lengths, strides and offsets decide. */
static bool aligned(const struct call *call, uint32_t vector)
{
    static const uint8_t lengths[] = {CONST_N,        CONST_M,        CONST_K,        CONST_HEAD_DIM,
                                      CONST_X_STRIDE, CONST_X_OFFSET, CONST_W_STRIDE, CONST_W_OFFSET,
                                      CONST_V_STRIDE, CONST_V_OFFSET, CONST_Y_STRIDE, CONST_Y_OFFSET};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        if (call_get(call, lengths[i], 0) % vector) return false;
    return true;
}

/* ---- one row per kernel ---- */

enum { POOL_ITEM_BYTES = 40 }; /* of shared memory: a vector of floats, and what reductions need */

static void size_row(struct call *call, const struct sizes *s, uint32_t items)
{
    call_set(call, CONST_LOCAL_SIZE, row_size(s->limits, items));
}

static void size_gemm(struct call *call, const struct sizes *s)
{
    uint32_t runtime = call_runtime(call);
    uint64_t m = runtime == RUNTIME_M ? s->max_rows : call_get(call, CONST_M, 1),
             n = runtime == RUNTIME_N ? s->max_rows : call_get(call, CONST_N, 1);
    set_tile(call, gemm_tile(s->limits, s->vector, m, n), s->vector);
    call_sums_tiles(call);
}

void call_sums_tiles(struct call *call)
{
    if (!call_get(call, CONST_COLUMN_SUMS, 0)) return;
    uint8_t side = call_runtime(call) == RUNTIME_N ? CONST_TILE_N : CONST_TILE_M;
    call_set(call, CONST_PART_ROWS, call_get(call, side, 1));
}

static void size_bgemm(struct call *call, const struct sizes *s) { set_bgemm(call, s->limits, s->vector); }

static void size_attention(struct call *call, const struct sizes *s) { set_attention(call, s->limits); }

static void size_attention_backward(struct call *call, const struct sizes *s)
{
    set_attention_backward(call, s->limits, s->max_rows, s->longest);
}

static void size_attention_dq(struct call *call, const struct sizes *s)
{
    if (s->before) set_attention_dq(call, s->before);
    size_row(call, s, 256);
}

/* Eight work-items share a head. */
static void size_delta(struct call *call, const struct sizes *s)
{
    size_row(call, s, 8 * call_get(call, CONST_HEADS, 1));
}

/* Short rows share a work-group: 8192 of 384 f16 take 7.5 us on an H200 through OpenCL in teams of 16, four of them a
 * group, 9.6 in groups of 32 for a row each, which wait for one another to be started. From 32 work-items on, a row
 * alone is faster: 16,384 of 768 take 16.2 us, in groups of four such teams 17.3. */
static void size_norm(struct call *call, const struct sizes *s)
{
    uint32_t items = call_get(call, CONST_N, 1) / (4 * s->vector), team = LEAST_TEAM;
    size_row(call, s, items);
    while (team < items) team *= 2;
    if (team < 32) call_set(call, CONST_LOCAL_SIZE, row_size(s->limits, 64));
    call_set(call, CONST_TEAM, team < 32 ? team : call_get(call, CONST_LOCAL_SIZE, 1));
}

/* Without a layernorm nothing is added up, and a row needs no team. */
static void size_embed(struct call *call, const struct sizes *s)
{
    if (call_get(call, CONST_NORM, 0))
        size_norm(call, s);
    else
        size_row(call, s, call_get(call, CONST_N, 1) / (4 * s->vector));
}

/* Work-items for half of a sequence's tokens, as far as all sequences' run at the same time on a large GPU. At most
 * 32 tokens at a time, because their sums are added one after the other. */
static void size_pool(struct call *call, const struct sizes *s)
{
    uint32_t row = call_get(call, CONST_N, 1) / s->vector, pool = call_get(call, CONST_POOL, POOL_NONE);
    uint64_t longest = s->longest ? s->longest : 1, sequences = divide_up(s->max_rows ? s->max_rows : 1, longest);
    uint64_t most = device_units(s->limits) * 2048 / sequences, tokens = longest / 2 < 32 ? longest / 2 : 32;
    if (most > 1024) most = 1024;
    if (most > tokens * row) most = tokens * row;
    if (most > s->limits->max_local_size) most = s->limits->max_local_size;
    if (most > s->limits->shared_bytes / POOL_ITEM_BYTES) most = s->limits->shared_bytes / POOL_ITEM_BYTES;
    size_row(call, s, row);
    if (s->limits->cpu || (pool != POOL_MEAN && pool != POOL_MAX)) return;
    uint32_t size = call_get(call, CONST_LOCAL_SIZE, 1);
    while (size * 2 <= most) size *= 2;
    call_set(call, CONST_LOCAL_SIZE, size);
}

static void size_pool_backward(struct call *call, const struct sizes *s)
{
    bool most = call_get(call, CONST_POOL, POOL_NONE) == POOL_MAX;
    size_row(call, s, call_get(call, CONST_N, 1) / (most ? s->vector : 4 * s->vector));
}

static void size_scatter(struct call *call, const struct sizes *s)
{
    set_scatter(call, s->limits, call_get(call, CONST_N, 1) / s->vector, s->max_rows);
}

/* A team's registers hold 16 scores a work-item: as few work-items as hold the longest row, up to 512 scores. */
static void size_softmax(struct call *call, const struct sizes *s)
{
    uint32_t team = 8;
    while (team < 32 && 16 * team < s->longest) team *= 2;
    size_row(call, s, 128);
    call_set(call, CONST_TEAM, team);
}

static void size_layernorm_backward(struct call *call, const struct sizes *s)
{
    set_layernorm_backward(call, s->limits, s->vector, s->access, s->max_rows);
}

static void size_columns(struct call *call, const struct sizes *s)
{
    set_columns(call, s->limits, s->access, s->max_rows);
}

static void size_reduce(struct call *call, const struct sizes *s) { set_reduce(call, s->before, s->limits); }

/* Bytes of a tile of floats, its rows one longer. */
static size_t transpose_bytes(uint32_t m, uint32_t n) { return (size_t)n * (m + 1) * sizeof(float); }

/* Of 16-bit floats a work-item has two vectors of a tile, and eight work-groups run on a multiprocessor. */
static void size_transpose(struct call *call, const struct sizes *s)
{
    uint32_t tile = transpose_bytes(64, 64) <= s->limits->shared_bytes ? 64 : 32;
    call_set(call, CONST_TILE_M, tile);
    call_set(call, CONST_TILE_N, tile);
    size_row(call, s, tile * tile / 16);
}

/* What fills a compute unit. */
static void size_map(struct call *call, const struct sizes *s) { size_row(call, s, 256); }

/* The class "generic" of the static table of kernels; plan/variants.c has the other classes. */
static const struct {
    const char *kernel;
    void (*size)(struct call *call, const struct sizes *s);
    const char *why; /* these sizes */
} kernel_sizes[] = {
    {"attention", size_attention, "queries stay in shared memory where it has room for a head's channels"},
    {"attention_backward", size_attention_backward, "parts of the keys fill four work-groups a multiprocessor"},
    {"attention_dq", size_attention_dq, "the parts that attention_backward made"},
    {"bgemm", size_bgemm, "tiles of the batch's tables, narrow ones for narrow heads"},
    {"columns", size_columns, "a work-item owns 16 bytes of columns; parts fill four work-groups a multiprocessor"},
    {"delta", size_delta, "eight work-items share a head"},
    {"embed", size_embed, "four 16-byte loads of a row in flight"},
    {"gemm", size_gemm, "the tile whose last round of work-groups is fullest"},
    {"layernorm", size_norm, "four 16-byte loads of a row in flight"},
    {"layernorm_backward", size_layernorm_backward, "registers for four work-groups a multiprocessor"},
    {"map", size_map, "work-items hide the latency"},
    {"pool", size_pool, "sequences are few: a vector of a token a work-item, several tokens at a time"},
    {"pool_backward", size_pool_backward, "four 16-byte stores of a row in flight"},
    {"reduce", size_reduce, "32 bytes of a part's sums, 17 parts of each work-item on their way"},
    {"scatter", size_scatter, "128 ids at a time, a vector of the row a work-item"},
    {"softmax", size_softmax, "512 scores in the registers of a sub-group"},
    {"softmax_backward", size_softmax, "512 scores in the registers of a sub-group"},
    {"transpose", size_transpose, "128 bytes of a row and of a column, all loads of a tile in flight"},
};

struct sizes call_sizes(struct call *call, const struct call *before, const struct device_limits *limits, bool f16,
                        uint64_t max_rows, uint32_t longest)
{
    struct sizes s = {.before = before,
                      .limits = limits,
                      .f16 = f16,
                      .vector = f16 ? 8 : 4,
                      .max_rows = max_rows,
                      .longest = longest};
    call_set(call, CONST_ALIGNED, aligned(call, s.vector));
    s.access = call_get(call, CONST_ALIGNED, 0) ? s.vector : 1;
    return s;
}

const char *call_size(struct call *call, const struct sizes *s)
{
    const struct variant *variant = variant_find(call->kernel);
    if (variant) {
        variant->size(call, s);
        return variant->why;
    }
    for (size_t i = 0; i < sizeof kernel_sizes / sizeof *kernel_sizes; i++)
        if (!strcmp(call->kernel, kernel_sizes[i].kernel)) {
            kernel_sizes[i].size(call, s);
            return kernel_sizes[i].why;
        }
    size_map(call, s);
    return NULL;
}

const char *call_tiles(struct call *call, const struct call *before, const struct device_limits *limits, bool f16,
                       uint64_t max_rows, uint32_t longest)
{
    const struct sizes sizes = call_sizes(call, before, limits, f16, max_rows, longest);
    const char *refused;
    const struct variant *variant = variant_choose(call, &sizes, &refused);
    if (variant) call->kernel = variant->name;
    const char *why = call_size(call, &sizes);
    return refused && !variant ? refused : why;
}

/* ---- weights' gradients in parts ---- */

enum { MOST_PARTS = 8 };

double parts_seconds(uint64_t m, uint64_t n, uint64_t parts)
{
    return parts > 1 ? (double)(parts * m * n) * 2 * sizeof(float) / 3.5e12 + 4e-6 : 0;
}

/* Seconds of a product in `parts`, and of the kernel that adds them, on a large GPU: 37 TFLOP/s when every round of
 * work-groups is full, 3.5 TB/s. Only the quotient counts, and that depends little on the device. */
static double divided_seconds(const struct tile *t, uint64_t m, uint64_t n, uint64_t rows, uint64_t parts)
{
    double groups = (double)(divide_up(m, t->m) * divide_up(n, t->n) * parts);
    double rounds = (double)divide_up((uint64_t)groups, (uint64_t)t->filled);
    double product = 2.0 * (double)(m * n * rows) / (37e12 * t->speed * groups / (rounds * t->filled));
    return product + parts_seconds(m, n, parts);
}

void calls_split(struct call calls[GROUP_MAX_CALLS], int *count, const struct device_limits *limits, uint32_t part_rows)
{
    struct call *call = &calls[0], *reduce = &calls[1];
    uint32_t m = call_get(call, CONST_M, 0), n = call_get(call, CONST_N, 1);
    call_set(call, CONST_COLUMN_SUMS, 1);
    call_set(call, CONST_PART_ROWS, part_rows);
    *reduce = (struct call){.kernel = "reduce", .launch = LAUNCH_COLUMNS};
    for (int i = 0; i < call->n_arguments; i++) {
        struct call_argument *y = &call->arguments[i];
        if (y->slot != SLOT_Y) continue;
        reduce->arguments[reduce->n_arguments++] =
            (struct call_argument){.slot = SLOT_PARTIALS, .tensor = TENSOR_SCRATCH};
        reduce->arguments[reduce->n_arguments++] = *y;
        *y = (struct call_argument){.slot = SLOT_PARTIALS, .written = true, .tensor = TENSOR_SCRATCH};
    }
    call_set(reduce, CONST_N, m * n);
    call_set(reduce, CONST_ROWS, call_get(call, CONST_ROWS, HEADER_TOKENS));
    call_set(reduce, CONST_SETS, 1);
    call_set(reduce, CONST_LOCAL_SIZE, row_size(limits, 256));
    call_set(reduce, CONST_TILE_N, call_get(reduce, CONST_LOCAL_SIZE, 1)); /* few parts, many columns */
    call_set(reduce, CONST_PART_ROWS, part_rows);
    *count = 2;
}

void call_take_away(struct call *call, uint8_t slot)
{
    int kept = 0;
    for (int i = 0; i < call->n_arguments; i++)
        if (call->arguments[i].slot != slot) call->arguments[kept++] = call->arguments[i];
    call->n_arguments = kept;
}

void calls_drop(const struct call *call, int *count)
{
    const struct variant *variant = variant_find(call->kernel);
    if (variant && !strcmp(variant->kernel, "attention_backward") && !call_has_slot(call, SLOT_PARTIALS)) *count = 1;
}

bool call_writes_slice(const struct call *call)
{
    return call_get(call, CONST_Y_OFFSET, 0) || call_get(call, CONST_Y_STRIDE, 0);
}

void calls_divide(struct call calls[GROUP_MAX_CALLS], int *count, const struct device_limits *limits, bool f16,
                  uint64_t max_rows)
{
    struct call *call = &calls[0];
    const struct variant *variant = variant_find(call->kernel);
    calls_drop(call, count);
    uint64_t m = call_get(call, CONST_M, 0), n = call_get(call, CONST_N, 1);
    uint32_t vector = f16 ? 8 : 4;
    if (*count > 1 || limits->cpu || strcmp(variant ? variant->kernel : call->kernel, "gemm") ||
        call_runtime(call) != RUNTIME_K || call_writes_slice(call) || m * n > UINT32_MAX / MOST_PARTS)
        return;
    if (variant) {
        const struct sizes sizes = call_sizes(call, NULL, limits, f16, max_rows, 0);
        if (variant->divide) variant->divide(calls, count, &sizes);
        return;
    }
    const struct tile *best = NULL;
    uint64_t parts = 1;
    double least = 0;
    for (int i = 0; i < GEMM_TILES - 1; i++)
        for (uint64_t p = 1; p <= MOST_PARTS && (p == 1 || p * 256 <= max_rows); p++) {
            double seconds = divided_seconds(&gemm_tiles[i], m, n, max_rows, p);
            if (!tile_fits(&gemm_tiles[i], limits, vector) || (best && seconds >= least)) continue;
            best = &gemm_tiles[i];
            parts = p;
            least = seconds;
        }
    if (!best || parts == 1) return;
    set_tile(call, best, vector);
    uint32_t tile_k = call_get(call, CONST_TILE_K, 1);
    calls_split(calls, count, limits, (uint32_t)(divide_up(divide_up(max_rows, parts), tile_k) * tile_k));
}

uint64_t call_scratch_bytes(const struct call *call, uint64_t max_rows)
{
    uint64_t sets = 0, width = call_get(call, CONST_N, 1);
    for (int i = 0; i < call->n_arguments; i++)
        if (call->arguments[i].written && call->arguments[i].tensor == TENSOR_SCRATCH) sets = 1;
    if (!sets) return 0;
    if (!strncmp(call->kernel, "attention_backward", 18))
        return max_rows * call_get(call, CONST_PARTS, 1) * call_get(call, CONST_HEADS, 1) *
               call_get(call, CONST_HEAD_DIM, 1) * sizeof(float);
    if (!strcmp(call->kernel, "layernorm_backward"))
        sets = 2 * call_get(call, CONST_NORM_DW, 0) + (call_get(call, CONST_BIAS_SUM, BIAS_SUM_NONE) != BIAS_SUM_NONE);
    if (!strcmp(call->kernel, "scatter") || call_runtime(call) == RUNTIME_K) width *= call_get(call, CONST_M, 1);
    if (call_runtime(call) == RUNTIME_N) width = call_get(call, CONST_M, 1);
    return call_parts(call, max_rows) * sets * width * sizeof(float);
}

/* Quads (16 bytes) of the arrays that cl/attention*.cl and shaders/attention*.comp declare. */
static size_t attention_quads(const struct call *call)
{
    size_t rows = call_get(call, CONST_TILE_M, 0), columns = call_get(call, CONST_TILE_N, 0),
           tile_k = call_get(call, CONST_TILE_K, 0), head = call_get(call, CONST_HEAD_DIM, 0);
    size_t threads_n = call_get(call, CONST_LOCAL_SIZE, 0) / (rows / call_get(call, CONST_THREAD_M, 1));
    size_t values = call_get(call, CONST_TILE_V, 0) * (size_t)divide_up(head, 4 * threads_n) * threads_n;
    size_t x = tile_k * rows / 4, w = tile_k * columns / 4, weights = columns * (rows / 4 + 1);
    size_t statistics = threads_n * rows / 4, keep = call_get(call, CONST_DROPOUT, 0) ? rows * columns / 64 : 0;
    if (!strcmp(call->kernel, "attention"))
        return x + (w > weights ? w : weights) + (values > statistics ? values : statistics) + keep;
    return (2 * (x + w) > weights + values ? 2 * (x + w) : weights + values) + columns / 2 + keep;
}

size_t call_shared_bytes(const struct call *call)
{
    const struct variant *variant = variant_find(call->kernel);
    if (variant) return variant->shared_bytes(call);
    if (!strcmp(call->kernel, "attention_dq")) return 0;
    if (!strncmp(call->kernel, "attention", 9)) return attention_quads(call) * 4 * sizeof(float);
    if (!strcmp(call->kernel, "pool")) return call_get(call, CONST_LOCAL_SIZE, 0) * POOL_ITEM_BYTES;
    if (!strcmp(call->kernel, "delta")) return call_get(call, CONST_LOCAL_SIZE, 0) * sizeof(float);
    if (!strcmp(call->kernel, "transpose"))
        return transpose_bytes(call_get(call, CONST_TILE_M, 0), call_get(call, CONST_TILE_N, 0));
    size_t sides = call_get(call, CONST_TILE_M, 0) + call_get(call, CONST_TILE_N, 0);
    return sides * call_get(call, CONST_TILE_K, 0) * sizeof(float); /* gemm, bgemm */
}
