/* Weights of words by cooperative matrices: shaders/gemm_pool_coopmat.comp. */
#include "base/round.h"
#include "base/text.h"
#include "interface/interface.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

struct tile {
    uint32_t m, n, k, piece_m, piece_n;
};

/* By the longest sequence; four sub-groups each. A CPU's compiler makes plain code of all the matrices of a piece. */
static const struct tile tiles[] = {{128, 128, 64, 64, 64}, {64, 128, 64, 32, 64}, {32, 128, 64, 32, 32}},
                         tile_small = {32, 64, 32, 32, 32}, tile_cpu = {16, 16, 16, 8, 16};

static uint32_t tile_items(const struct tile *t, const struct device_limits *limits)
{
    return t->m / t->piece_m * (t->n / t->piece_n) * limits->coopmat_subgroup;
}

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* Of the array that the shader declares: a stage, a row of matrices for each sub-group, or what is joined at the end.
 */
static size_t tile_bytes(const struct tile *t, uint32_t subgroup, uint32_t matrix_m)
{
    uint32_t pieces = t->m / t->piece_m * (t->n / t->piece_n), lanes = subgroup / (t->piece_n / 8);
    uint32_t stage = (t->m + t->n) * (t->k / 8 + 1), sums = pieces * (t->piece_n / 4 + 1) * matrix_m;
    return (size_t)16 * larger(larger(stage, sums), t->m / t->piece_m * lanes * t->n / 4);
}

static bool tile_fits(const struct tile *t, const struct device_limits *limits)
{
    uint32_t m = limits->coopmat_m, n = limits->coopmat_n, k = limits->coopmat_k, size = limits->coopmat_subgroup;
    return m && size && t->piece_m % m == 0 && t->piece_n % n == 0 && t->k % k == 0 && m % 8 == 0 && n % 8 == 0 &&
           k % 8 == 0 && size % (t->piece_n / 8) == 0 && tile_items(t, limits) <= limits->max_local_size &&
           tile_bytes(t, size, m) <= limits->shared_bytes;
}

/* NULL: none is made of this device's matrices. */
static const struct tile *tile_of(const struct sizes *s)
{
    const struct tile *wanted = s->limits->cpu ? &tile_cpu : &tiles[s->longest > 64 ? 0 : s->longest > 32 ? 1 : 2];
    if (tile_fits(wanted, s->limits)) return wanted;
    return !s->limits->cpu && tile_fits(&tile_small, s->limits) ? &tile_small : NULL;
}

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    uint32_t pool = call_get(call, CONST_POOL, POOL_NONE), k = call_get(call, CONST_K, 0);
    if (!s->f16) return variant_refuse(reason, "cooperative matrices take f16");
    if (!k || k % 8) return variant_refuse(reason, "rows are no multiples of 8 elements");
    if (pool != POOL_MAX && pool != POOL_SUM) return variant_refuse(reason, "it has the largest or the sum alone");
    return tile_of(s) || variant_refuse(reason, "no tile is made of this device's cooperative matrices");
}

static void size(struct call *call, const struct sizes *s)
{
    const struct tile *t = tile_of(s);
    call_set(call, CONST_LOCAL_SIZE, tile_items(t, s->limits));
    call_set(call, CONST_TILE_M, t->m);
    call_set(call, CONST_TILE_N, t->n);
    call_set(call, CONST_TILE_K, t->k);
    call_set(call, CONST_THREAD_M, t->piece_m);
    call_set(call, CONST_THREAD_N, t->piece_n);
    call_set(call, CONST_MATRIX_M, s->limits->coopmat_m);
    call_set(call, CONST_MATRIX_N, s->limits->coopmat_n);
    call_set(call, CONST_MATRIX_K, s->limits->coopmat_k);
    call_set(call, CONST_SUBGROUP, s->limits->coopmat_subgroup);
}

static size_t shared_bytes(const struct call *call)
{
    const struct tile t = {call_get(call, CONST_TILE_M, 1), call_get(call, CONST_TILE_N, 1),
                           call_get(call, CONST_TILE_K, 8), call_get(call, CONST_THREAD_M, 1),
                           call_get(call, CONST_THREAD_N, 8)};
    return tile_bytes(&t, call_get(call, CONST_SUBGROUP, 1), call_get(call, CONST_MATRIX_M, 1));
}

static void describe(const struct call *call, struct text_writer *text)
{
    text_add(text, "%ux%ux%u, %ux%u a sub-group", (unsigned)call_get(call, CONST_TILE_M, 1),
             (unsigned)call_get(call, CONST_TILE_N, 1), (unsigned)call_get(call, CONST_TILE_K, 1),
             (unsigned)call_get(call, CONST_THREAD_M, 1), (unsigned)call_get(call, CONST_THREAD_N, 1));
}

/* ---- its traffic ---- */

/* Rows past a sequence's end and the vocabulary's, and a stage after the last, are loads of the last ones again. Lanes
 * of a sub-group and sub-groups above each other share a column's bias, which is read once more at the end. */
static void count_traffic(struct count *c)
{
    uint64_t n = get(c, CONST_N, 32), k = get(c, CONST_K, 32), sequences = c->words[HEADER_SEQUENCES], rows = 0;
    uint64_t tile_m = get(c, CONST_TILE_M, 32), tile_n = get(c, CONST_TILE_N, 32), tile_k = get(c, CONST_TILE_K, 16);
    uint64_t loaded = (divide_up(k, tile_k) + 1) * tile_k, columns = divide_up(n, tile_n);
    for (uint32_t s = 0; s < sequences; s++) rows += round_up(length_of(c, s), tile_m);
    count_words(
        c, tile_m / get(c, CONST_THREAD_M, 16) * (get(c, CONST_SUBGROUP, 32) / (get(c, CONST_THREAD_N, 16) / 8)) + 1);
    reads(c, SLOT_X, (rows * loaded - c->words[HEADER_TOKENS] * k) * columns);
    reads(c, SLOT_W, (columns * tile_n * loaded - n * k) * (rows / tile_m));
}

const struct variant variant_gemm_pool_coopmat = {
    .kernel = "gemm_pool",
    .name = "gemm_pool_coopmat",
    .rung = RUNG_COOPMAT,
    .takes = {CONST_N, CONST_K, CONST_ROWS, CONST_BIAS, CONST_ACTIVATION, CONST_FORM, CONST_POOL},
    .why = "cooperative matrices: f16 added in f32 by matrix units",
    .fits = fits,
    .size = size,
    .shared_bytes = shared_bytes,
    .count = count_traffic,
    .describe = describe,
};
