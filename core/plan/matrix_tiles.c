#include "plan/matrix_tiles.h"

#include "base/round.h"
#include "base/text.h"
#include "interface/interface.h"
#include "plan/variants.h"

/* From large to small, measured at 4096 x 4096 x 4096 on an H200 (TFLOP/s). The first: 327. Its 248 registers let
 * two work-groups share a multiprocessor, of which one loads while the other multiplies; a work-group waits for its own
 * loads, however early they begin (two stages in registers: 225), so what leaves one a multiprocessor is slower: 128 x
 * 256 x 32: 235, pieces of 64 x 32: 268, 128 x 192: 223. Stages of 32 are half a line of memory in a row: 265. The
 * second, for what leaves the first's last round nearly empty: a round of it takes 0.79 of the first's (16,384 x 768 x
 * 768). The third and fourth: 247 and 180. The last two are for few rows: all sub-groups share one sum, and the
 * time is that of the loads; 32 rows of 384 x 1536 take 7.7 and 5.0 us, 32 of 384 x 384 take 4.8 and 3.9, timer and
 * dispatch included. `full` of the last two and `alone` of the second to fourth are estimates. */
const struct matrix_tile matrix_tiles[MATRIX_TILES] = {
    {128, 128, 64, 64, 64, 1, 1, 2, 1.04, 1.73}, {96, 128, 64, 48, 64, 1, 1, 2, 0.86, 1.40},
    {128, 64, 64, 64, 32, 1, 1, 2, 0.75, 1.08},  {64, 64, 64, 32, 32, 1, 2, 4, 0.60, 1.49},
    {32, 32, 128, 32, 32, 8, 1, 2, 0.33, 0.70},  {16, 16, 384, 16, 16, 8, 1, 3, 0.36, 1.00},
};
static const struct matrix_tile tile_small = {64, 64, 32, 32, 32, 1, 1, 4, 0.45, 1.2};
/* A CPU's compiler makes plain code of all the matrices of a piece: few of them. */
static const struct matrix_tile tile_cpu = {16, 16, 16, 8, 16, 1, 1, 1, 1, 1};

/* Of a work-item, in its registers: half of those that a GPU has for one at most. */
enum { SUMS_MOST = 128 };

const struct matrix_tile *matrix_tile_other(const struct device_limits *limits)
{
    return limits->cpu ? &tile_cpu : &tile_small;
}

uint32_t matrix_tile_items(const struct matrix_tile *t, const struct device_limits *limits)
{
    return t->m / t->piece_m * (t->n / t->piece_n) * t->split * limits->coopmat_subgroup;
}

/* The stages, or one row of matrices for each sub-group. */
static size_t stage_bytes(uint32_t m, uint32_t n, uint32_t k, uint32_t piece_n, uint32_t sub_groups, uint32_t stages,
                          uint32_t matrix_m, uint32_t form)
{
    uint32_t x = form == GEMM_TN ? k * (m / 8 + 1) : m * (k / 8 + 1);
    uint32_t w = form == GEMM_NT ? n * (k / 8 + 1) : k * (n / 8 + 1);
    uint32_t all = stages * (x + w), sums = sub_groups * (piece_n / 4 + 1) * matrix_m;
    return (size_t)16 * (all > sums ? all : sums);
}

bool matrix_tile_fits(const struct matrix_tile *t, const struct device_limits *limits, uint32_t form, size_t more)
{
    uint32_t m = limits->coopmat_m, n = limits->coopmat_n, k = limits->coopmat_k, size = limits->coopmat_subgroup;
    if (!m || !size || t->piece_m % m || t->piece_n % n || t->k / t->split % k || m % 8 || n % 8 || k % 8) return false;
    if (t->piece_m * t->piece_n > SUMS_MOST * size) return false;
    if (size * t->split % (t->piece_n / 8) || matrix_tile_items(t, limits) > limits->max_local_size) return false;
    uint32_t items = matrix_tile_items(t, limits), sub_groups = items / size;
    /* Work-items that load x transposed have the same place in all of its rows. */
    if (form == GEMM_TN && items % (t->m / 8)) return false;
    return stage_bytes(t->m, t->n, t->k, t->piece_n, sub_groups, t->stages, m, form) + more <= limits->shared_bytes;
}

/* Work-groups run in rounds. In one that is not full, a multiprocessor's share of them takes a share of the time. */
double matrix_tile_seconds(const struct matrix_tile *t, uint64_t units, uint64_t groups, uint64_t depth)
{
    uint64_t full = groups / (units * t->resident), rest = groups % (units * t->resident);
    double k_tile = (double)full * t->full;
    if (rest) k_tile += t->alone;
    if (rest > units) k_tile += (t->full - t->alone) * (double)(divide_up(rest, units) - 1) / (t->resident - 1);
    return k_tile * (double)divide_up(depth, t->k) * 1e-6;
}

void matrix_tile_set(struct call *call, const struct matrix_tile *t, const struct device_limits *limits)
{
    call_set(call, CONST_LOCAL_SIZE, matrix_tile_items(t, limits));
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

size_t matrix_stage_bytes(const struct call *call)
{
    return stage_bytes(
        call_get(call, CONST_TILE_M, 0), call_get(call, CONST_TILE_N, 0), call_get(call, CONST_TILE_K, 0),
        call_get(call, CONST_THREAD_N, 0), call_get(call, CONST_LOCAL_SIZE, 0) / call_get(call, CONST_SUBGROUP, 1),
        call_get(call, CONST_STAGES, 1), call_get(call, CONST_MATRIX_M, 0), call_get(call, CONST_FORM, GEMM_NT));
}

uint64_t matrix_k_loaded(const struct call *call, uint64_t k, uint64_t depth, bool of_rows)
{
    uint64_t tile_k = call_get(call, CONST_TILE_K, 16);
    uint64_t tiles = depth ? divide_up(k, depth) * divide_up(depth, tile_k) : 0;
    return (tiles + (!of_rows && k >= 32 * tile_k)) * tile_k;
}

void matrix_tile_describe(const struct call *call, struct text_writer *text)
{
    text_add(text, "%ux%ux%u, %ux%u a sub-group", (unsigned)call_get(call, CONST_TILE_M, 1),
             (unsigned)call_get(call, CONST_TILE_N, 1), (unsigned)call_get(call, CONST_TILE_K, 1),
             (unsigned)call_get(call, CONST_THREAD_M, 1), (unsigned)call_get(call, CONST_THREAD_N, 1));
    describe_rows(call, text);
}
