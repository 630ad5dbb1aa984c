/* What needs no Hopper to be right about its products: which calls are taken, tiles and tensor maps, parts of a
 * weight's gradient, and the patch that turns NVIDIA's PTX into Hopper's. */
#include "interface/interface.h"
#include "plan/batch.h"
#include "plan/candidates.h"
#include "plan/variants.h"
#include "support.h"
#ifdef WHERRY_HAVE_OPENCL
#include "backends/opencl/opencl.h"
#endif

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The kernels' formulas of eight values, as C. */
#define __OPENCL_C_VERSION__ 120
#define INLINE static inline
#define UNROLL
typedef unsigned uint;
static float exp2_fast(float x) { return exp2f(x); }
#include "cl/eight.h"

#include <cmocka.h>

static const struct device_limits hopper = {.f16 = true,
                                            .shared_bytes = 49152,
                                            .max_local_size = 1024,
                                            .nvidia_sm = 90,
                                            .compute_units = 132,
                                            .rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_WGMMA)};

/* y [rows or m][n] with sums of k, where rows are no constant. */
static void make_call(struct call *call, uint32_t form, uint32_t m, uint32_t n, uint32_t k)
{
    *call = (struct call){.kernel = "gemm", .launch = LAUNCH_TILES};
    call->arguments[call->n_arguments++] = (struct call_argument){.slot = SLOT_Y, .written = true};
    call_set(call, CONST_FORM, form);
    if (n) call_set(call, CONST_N, n);
    if (form == GEMM_TN)
        call_set(call, CONST_M, m);
    else
        call_set(call, CONST_K, k);
}

static void assert_map(const struct call_map *map, uint8_t slot, uint32_t rows, uint32_t columns, uint32_t stride,
                       uint32_t offset, uint32_t box_rows)
{
    assert_int_equal(map->slot, slot);
    assert_int_equal(map->rows, rows);
    assert_int_equal(map->columns, columns);
    assert_int_equal(map->stride, stride);
    assert_int_equal(map->offset, offset);
    assert_int_equal(map->box_rows, box_rows);
    assert_int_equal(map->box_columns, 64);
}

static void assert_tile(const struct call *call, uint32_t m, uint32_t n)
{
    assert_string_equal(call->kernel, "gemm_wgmma");
    assert_int_equal(call_get(call, CONST_TILE_M, 0), m);
    assert_int_equal(call_get(call, CONST_TILE_N, 0), n);
    assert_int_equal(call_get(call, CONST_GROUPS, 0), 132);
    assert_int_equal(call_get(call, CONST_LOCAL_SIZE, 0), m == 192 ? 640 : m >= 128 ? 512 : 384);
}

/* A sum in two parts that the kernel itself adds: one warpgroup less, eight warps that count in each of its tiles. */
static void assert_parts(const struct call *call, uint32_t m, uint32_t n, uint32_t part_rows, uint32_t tiles)
{
    assert_string_equal(call->kernel, "gemm_wgmma");
    assert_int_equal(call_get(call, CONST_TILE_M, 0), m);
    assert_int_equal(call_get(call, CONST_TILE_N, 0), n);
    assert_int_equal(call_get(call, CONST_PART_ROWS, 0), part_rows);
    assert_int_equal(call_get(call, CONST_LOCAL_SIZE, 0), 384);
    assert_int_equal(call->counters, tiles * 8);
    assert_true(call_has_slot(call, SLOT_Y) && call_has_slot(call, SLOT_PARTIALS));
    for (int i = 1; i < call->n_arguments; i++) assert_true(call->arguments[i - 1].slot < call->arguments[i].slot);
    uint64_t sums = call_sums_operand(call) ? 8 : 0;
    assert_int_equal(call_scratch_bytes(call, 2 * part_rows), 2 * (uint64_t)tiles * m * (n + sums) * sizeof(float));
}

/* In three parts of K, or in none. */
static void assert_tile_parts(const struct call *call, uint32_t tiles)
{
    uint32_t words[HEADER_WORDS] = {[HEADER_TOKENS] = 2457};
    assert_string_equal(call->kernel, "gemm_wgmma");
    assert_int_equal(call->counters, tiles * 8);
    assert_int_equal(call_get(call, CONST_PART_ROWS, 0), tiles ? 10176 : 0);
    assert_int_equal(call_has_slot(call, SLOT_PARTIALS), tiles > 0);
    assert_int_equal(call_scratch_bytes(call, 2688), 3 * (uint64_t)tiles * 128 * 256 * sizeof(float));
    if (!tiles) return;
    assert_int_equal(call_parts(call, 2457), 3);
    assert_int_equal(call_grid(call, true, words).x, 132);
    assert_int_equal(call_get(call, CONST_LOCAL_SIZE, 0), 384);
}

static void test_large(void **state)
{
    (void)state;
    struct call call;
    make_call(&call, GEMM_NT, 0, 3072, 1024);
    call_set(&call, CONST_X_STRIDE, 1536);
    call_set(&call, CONST_X_OFFSET, 512);
    call_tiles(&call, NULL, &hopper, true, 4096, 512);
    assert_tile(&call, 128, 256);
    assert_int_equal(call.n_maps, 2);
    assert_map(&call.maps[0], SLOT_X, 0, 1024, 1536, 512, 128);
    assert_map(&call.maps[1], SLOT_W, 3072, 1024, 1024, 0, 256);

    /* The gradient of the input: w's rows are k. */
    make_call(&call, GEMM_NN, 0, 1024, 3072);
    call_set(&call, CONST_COLUMN_SUMS, 1);
    call_tiles(&call, NULL, &hopper, true, 4096, 512);
    assert_tile(&call, 128, 256);
    assert_int_equal(call_get(&call, CONST_PART_ROWS, 0), 128);
    assert_map(&call.maps[0], SLOT_X, 0, 3072, 3072, 0, 128);
    assert_map(&call.maps[1], SLOT_W, 3072, 1024, 1024, 0, 64);
}

/* Rows of channels: the batch's rows are a map's columns where they lie along its rows. */
static void test_channels(void **state)
{
    (void)state;
    struct call call;
    make_call(&call, GEMM_NT, 0, 0, 1024);
    call_set(&call, CONST_RUNTIME, RUNTIME_N);
    call_set(&call, CONST_M, 4096);
    call_set(&call, CONST_Y_STRIDE, 4160);
    call_set(&call, CONST_COLUMN_SUMS, 1);
    call_tiles(&call, NULL, &hopper, true, 4096, 512);
    assert_tile(&call, 128, 256);
    assert_int_equal(call_get(&call, CONST_PART_ROWS, 0), 256);
    assert_map(&call.maps[0], SLOT_X, 4096, 1024, 1024, 0, 128);
    assert_map(&call.maps[1], SLOT_W, 0, 1024, 1024, 0, 256);

    make_call(&call, GEMM_NN, 0, 1024, 4096);
    call_set(&call, CONST_FORM, GEMM_TN);
    call_set(&call, CONST_RUNTIME, RUNTIME_M);
    call_set(&call, CONST_X_STRIDE, 4160);
    call_tiles(&call, NULL, &hopper, true, 4096, 512);
    assert_tile(&call, 128, 256);
    assert_map(&call.maps[0], SLOT_X, 4096, 0, 4160, 0, 64);
    assert_map(&call.maps[1], SLOT_W, 4096, 1024, 1024, 0, 64);

    struct call calls[GROUP_MAX_CALLS];
    int count = 1;
    make_call(&calls[0], GEMM_TN, 3072, 1024, 0);
    call_set(&calls[0], CONST_FORM, GEMM_NN);
    call_set(&calls[0], CONST_RUNTIME, RUNTIME_K);
    call_set(&calls[0], CONST_X_STRIDE, 4160);
    call_set(&calls[0], CONST_SUM, 1);
    assert_true(call_sums_operand(&calls[0]));
    call_tiles(&calls[0], NULL, &hopper, true, 4096, 512);
    calls_divide(calls, &count, &hopper, true, 4096);
    assert_int_equal(count, 1);
    assert_tile(&calls[0], 192, 128);
    assert_map(&calls[0].maps[0], SLOT_X, 3072, 0, 4160, 0, 192);
    assert_map(&calls[0].maps[1], SLOT_W, 0, 1024, 1024, 0, 64);

    count = 1;
    make_call(&calls[0], GEMM_TN, 1024, 1024, 0);
    call_set(&calls[0], CONST_FORM, GEMM_NN);
    call_set(&calls[0], CONST_RUNTIME, RUNTIME_K);
    call_set(&calls[0], CONST_X_STRIDE, 4160);
    call_tiles(&calls[0], NULL, &hopper, true, 4096, 512);
    calls_divide(calls, &count, &hopper, true, 4096);
    assert_int_equal(count, 1);
    assert_parts(&calls[0], 128, 128, 2048, 64);
}

static void test_small(void **state)
{
    (void)state;
    struct call call;
    make_call(&call, GEMM_NT, 0, 384, 384);
    call_tiles(&call, NULL, &hopper, true, 32, 32);
    assert_tile(&call, 64, 64);
    /* 384 columns are one and a half of 256; 192 would leave lanes of the epilogue idle. */
    make_call(&call, GEMM_NT, 0, 384, 1536);
    call_tiles(&call, NULL, &hopper, true, 8192, 128);
    assert_tile(&call, 192, 128);
    assert_int_equal(call_get(&call, CONST_LOCAL_SIZE, 0), 640);
    assert_map(&call.maps[0], SLOT_X, 0, 1536, 1536, 0, 192);
}

static void test_weight(void **state)
{
    (void)state;
    struct call calls[GROUP_MAX_CALLS];
    int count = 1;
    /* 32 of the largest tiles would leave most multiprocessors idle. */
    make_call(&calls[0], GEMM_TN, 1024, 1024, 0);
    call_tiles(&calls[0], NULL, &hopper, true, 4096, 512);
    calls_divide(calls, &count, &hopper, true, 4096);
    assert_int_equal(count, 1);
    assert_parts(&calls[0], 128, 128, 2048, 64);
    assert_map(&calls[0].maps[0], SLOT_X, 0, 1024, 1024, 0, 64);
    assert_map(&calls[0].maps[1], SLOT_W, 0, 1024, 1024, 0, 64);
    /* 128 tiles of 192 rows need no parts. */
    count = 1;
    make_call(&calls[0], GEMM_TN, 3072, 1024, 0);
    call_tiles(&calls[0], NULL, &hopper, true, 4096, 512);
    calls_divide(calls, &count, &hopper, true, 4096);
    assert_int_equal(count, 1);
    assert_tile(&calls[0], 192, 128);
}

/* The bias' gradient comes with the weight's, in parts, too; elsewhere no kernel gives both. */
static void test_weight_and_bias(void **state)
{
    (void)state;
    struct call calls[GROUP_MAX_CALLS];
    int count = 1;
    make_call(&calls[0], GEMM_TN, 3072, 1024, 0);
    call_set(&calls[0], CONST_SUM, 1);
    assert_true(call_fuses(&calls[0]));
    call_tiles(&calls[0], NULL, &hopper, true, 4096, 512);
    calls_divide(calls, &count, &hopper, true, 4096);
    assert_int_equal(count, 1);
    assert_tile(&calls[0], 192, 128);
    struct call alone = calls[0];
    call_set(&alone, CONST_SUM, 0);
    assert_int_equal(call_shared_bytes(&calls[0]), call_shared_bytes(&alone) + 1024); /* ones */

    struct device_limits matrices = hopper;
    matrices.rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_MMA) | RUNG_BIT(RUNG_SMALL_BATCH);
    make_call(&calls[0], GEMM_TN, 3072, 1024, 0);
    call_set(&calls[0], CONST_SUM, 1);
    call_tiles(&calls[0], NULL, &matrices, true, 4096, 512);
    assert_string_equal(calls[0].kernel, "gemm");
    count = 1;
    make_call(&calls[0], GEMM_TN, 1024, 1024, 0);
    call_set(&calls[0], CONST_SUM, 1);
    call_tiles(&calls[0], NULL, &hopper, true, 4096, 512);
    calls_divide(calls, &count, &hopper, true, 4096);
    assert_int_equal(count, 1);
    assert_parts(&calls[0], 128, 128, 2048, 64);
    assert_true(call_sums_operand(&calls[0]));
}

/* What is measured for such a call can give both, whole or in parts; each is what it says when it is applied. */
static void test_weight_and_bias_choices(void **state)
{
    (void)state;
    struct choices *list = calloc(1, sizeof *list);
    struct call call;
    make_call(&call, GEMM_TN, 3072, 1024, 0);
    call_set(&call, CONST_SUM, 1);
    const struct sizes sizes = call_sizes(&call, NULL, &hopper, true, 4096, 512);
    choices_legal(&call, &sizes, list);
    int in_parts = 0;
    for (int i = 0; i < list->n; i++) {
        struct call calls[GROUP_MAX_CALLS] = {call};
        struct choice applied;
        char have[CHOICE_TEXT], want[CHOICE_TEXT];
        int count = 1;
        assert_string_equal(list->of[i].kernel, "gemm_wgmma");
        choice_apply(&list->of[i], calls, 0, &count, &sizes);
        assert_int_equal(count, 1);
        assert_int_equal(calls[0].counters > 0, call_get(&calls[0], CONST_PART_ROWS, 0) > 0);
        assert_true(choice_of(&calls[0], NULL, &applied));
        choice_text(&applied, have);
        choice_text(&list->of[i], want);
        assert_string_equal(have, want);
        in_parts += calls[0].counters > 0;
    }
    assert_true(in_parts > 0 && in_parts < list->n);
    free(list);
}

/* A part ends where a stage does, whatever the rows: else it would take rows of the next one. */
static void test_parts(void **state)
{
    (void)state;
    for (uint64_t rows = 1; rows < 40000; rows = rows * 5 / 3 + 7) {
        struct call calls[GROUP_MAX_CALLS];
        int count = 1;
        make_call(&calls[0], GEMM_TN, 768, 768, 0);
        call_tiles(&calls[0], NULL, &hopper, true, rows, 512);
        calls_divide(calls, &count, &hopper, true, rows);
        assert_true(count == 1 || call_get(&calls[0], CONST_PART_ROWS, 1) % 64 == 0);
    }
}

/* The gradient of rows by scores of a vocabulary: 84 tiles for 132 multiprocessors, and a sum long enough for parts;
 * not where a residual comes after it, or the sum is a layer's. */
static void test_parts_of_k(void **state)
{
    (void)state;
    for (int plain = 0; plain < 3; plain++) {
        struct call calls[GROUP_MAX_CALLS], *call = &calls[0];
        int count = 1;
        make_call(call, GEMM_NN, 0, 1024, plain == 2 ? 4096 : 30522);
        if (plain == 1) call_set(call, CONST_RESIDUAL, 1);
        call_set(call, CONST_X_STRIDE, plain == 2 ? 4096 : 30528);
        call_tiles(call, NULL, &hopper, true, 2688, 512);
        calls_divide(calls, &count, &hopper, true, 2688);
        assert_int_equal(count, 1);
        assert_tile_parts(call, plain ? 0 : 84);
    }
}

static void test_refused(void **state)
{
    (void)state;
    struct call call;
    make_call(&call, GEMM_NT, 0, 100, 64);
    const char *reason = call_tiles(&call, NULL, &hopper, true, 512, 512);
    assert_string_equal(call.kernel, "gemm");
    assert_non_null(reason);
    make_call(&call, GEMM_NT, 0, 128, 64);
    call_tiles(&call, NULL, &hopper, false, 512, 512);
    assert_string_equal(call.kernel, "gemm");
    struct device_limits other = hopper;
    other.rungs = RUNG_BIT(RUNG_TILED);
    make_call(&call, GEMM_NT, 0, 128, 64);
    reason = call_tiles(&call, NULL, &other, true, 512, 512);
    assert_string_equal(call.kernel, "gemm");
    assert_non_null(strstr(reason, "round of work-groups")); /* the portable kernel's own, nothing refused it */
}

static void make_normal(struct call *call, uint32_t n, uint32_t k)
{
    make_call(call, GEMM_NT, 0, n, k);
    call_set(call, CONST_BIAS, 1);
    call_set(call, CONST_RESIDUAL, 1);
    call_set(call, CONST_NORM_Y, 1);
}

/* A result is normalized in tiles of whole rows, of which the weight's come in two boxes; no tuned size is another. */
static void test_normal(void **state)
{
    (void)state;
    struct choices *list = calloc(1, sizeof *list);
    struct call call;
    char text[WORK_TEXT], plain[WORK_TEXT];
    make_normal(&call, 384, 1536);
    assert_true(call_fuses(&call));
    const struct sizes sizes = call_sizes(&call, NULL, &hopper, true, 8192, 128);
    choices_legal(&call, &sizes, list);
    assert_int_equal(list->n, 1);
    work_text(&call, &sizes, text);
    call_tiles(&call, NULL, &hopper, true, 8192, 128);
    assert_string_equal(call.kernel, "gemm_wgmma");
    assert_int_equal(call_get(&call, CONST_TILE_M, 0), 64);
    assert_int_equal(call_get(&call, CONST_TILE_N, 0), 384);
    assert_int_equal(call_get(&call, CONST_LOCAL_SIZE, 0), 512);
    assert_map(&call.maps[0], SLOT_X, 0, 1536, 1536, 0, 64);
    assert_map(&call.maps[1], SLOT_W, 384, 1536, 1536, 0, 192);
    assert_in_range(call_shared_bytes(&call), 3 * (64 + 384) * 128, 232448);
    call_set(&call, CONST_NORM_Y, 0);
    work_text(&call, &sizes, plain);
    assert_string_not_equal(text, plain);
    free(list);
}

/* Not of rows that no tile holds, nor of so few that most multiprocessors would have none, nor by other kernels. */
static void test_normal_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t n, rungs;
        uint64_t rows;
        bool taken;
    } cases[] = {{384, RUNG_BIT(RUNG_WGMMA), 4224, true},
                 {384, RUNG_BIT(RUNG_WGMMA), 4160, false},
                 {768, RUNG_BIT(RUNG_WGMMA), 8192, false},
                 {384, RUNG_BIT(RUNG_WGMMA) | RUNG_BIT(RUNG_SMALL_BATCH), 4224, true},
                 {384, RUNG_BIT(RUNG_MMA) | RUNG_BIT(RUNG_SMALL_BATCH), 128, false},
                 {384, RUNG_BIT(RUNG_MMA) | RUNG_BIT(RUNG_COOPMAT), 8192, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct device_limits limits = hopper;
        struct call call;
        limits.rungs = RUNG_BIT(RUNG_TILED) | cases[i].rungs;
        make_normal(&call, cases[i].n, 384);
        call_tiles(&call, NULL, &limits, true, cases[i].rows, 128);
        assert_string_equal(call.kernel, cases[i].taken ? "gemm_wgmma" : "gemm");
    }
    /* On a part of a GPU, too, few rows are left to the products that normalize their operands. */
    struct device_limits few = hopper;
    struct call call;
    few.rungs |= RUNG_BIT(RUNG_SMALL_BATCH);
    few.compute_units = 4;
    make_normal(&call, 384, 384);
    call_tiles(&call, NULL, &few, true, SMALL_BATCH_ROWS, 128);
    assert_string_equal(call.kernel, "gemm");
    call_tiles(&call, NULL, &few, true, SMALL_BATCH_ROWS + 1, 128);
    assert_string_equal(call.kernel, "gemm_wgmma");
}

/* Sums over the heads of a result: where every tile has whole ones that lanes can share, and rows are not few. */
static void test_heads(void **state)
{
    (void)state;
    static const struct {
        uint32_t n, dim, rungs;
        uint64_t rows;
        bool taken;
    } cases[] = {{1024, 64, RUNG_BIT(RUNG_WGMMA), 4096, true},
                 {384, 32, RUNG_BIT(RUNG_WGMMA), 8192, true}, /* in tiles of 192 columns */
                 {64, 8, RUNG_BIT(RUNG_WGMMA), 100, true},
                 {1024, 128, RUNG_BIT(RUNG_WGMMA), 4096, false},
                 {960, 40, RUNG_BIT(RUNG_WGMMA), 4096, false},
                 {1024, 64, RUNG_BIT(RUNG_WGMMA) | RUNG_BIT(RUNG_SMALL_BATCH), SMALL_BATCH_ROWS, false},
                 {1024, 64, RUNG_BIT(RUNG_WGMMA) | RUNG_BIT(RUNG_SMALL_BATCH), SMALL_BATCH_ROWS + 1, true},
                 {1024, 64, RUNG_BIT(RUNG_MMA) | RUNG_BIT(RUNG_SMALL_BATCH), 4096, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct device_limits limits = hopper;
        struct call call;
        limits.rungs = RUNG_BIT(RUNG_TILED) | cases[i].rungs;
        make_call(&call, GEMM_NN, 0, cases[i].n, 1024);
        call_set(&call, CONST_DELTA, 1);
        call_set(&call, CONST_HEAD_DIM, cases[i].dim);
        assert_true(call_fuses(&call));
        call_tiles(&call, NULL, &limits, true, cases[i].rows, 128);
        assert_string_equal(call.kernel, cases[i].taken ? "gemm_wgmma" : "gemm");
        if (cases[i].taken) assert_int_equal(call_get(&call, CONST_TILE_N, 0) % cases[i].dim, 0);
    }
    /* Not those of a slice of wider rows, whose gradient is no tensor of heads. */
    struct call call;
    make_call(&call, GEMM_NN, 0, 1024, 1024);
    call_set(&call, CONST_DELTA, 1);
    call_set(&call, CONST_HEAD_DIM, 64);
    call_set(&call, CONST_Y_STRIDE, 3072);
    call_tiles(&call, NULL, &hopper, true, 4096, 128);
    assert_string_equal(call.kernel, "gemm");
}

/* What a multiprocessor of Hopper has, and stages enough that one is loaded while another is multiplied. */
static void test_shared(void **state)
{
    (void)state;
    static const uint32_t columns[] = {64, 128, 384, 768, 1024, 3072};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        for (uint32_t form = GEMM_NT; form <= GEMM_TN; form++)
            for (uint32_t rows = 1; rows <= 65536; rows *= 4) {
                struct call call;
                make_call(&call, form, 768, columns[i], 768);
                if (form == GEMM_NN) call_set(&call, CONST_COLUMN_SUMS, 1);
                if (form == GEMM_TN && columns[i] >= 768) call_set(&call, CONST_SUM, 1);
                call_tiles(&call, NULL, &hopper, true, rows, 512);
                if (!strcmp(call.kernel, "gemm")) continue; /* not in parts */
                size_t stage = (call_get(&call, CONST_TILE_M, 0) + call_get(&call, CONST_TILE_N, 0)) * 128;
                assert_in_range(call_shared_bytes(&call), 3 * stage, 232448);
            }
}

#ifdef WHERRY_HAVE_OPENCL
static const char *patched(const char *text, char *out, size_t room)
{
    size_t size = strlen(text);
    memset(out, '#', room);
    memcpy(out, text, size);
    if (!opencl_patch_ptx(out, &size)) return NULL;
    assert_true(size < room);
    out[size] = 0;
    return out;
}

static void test_patch(void **state)
{
    (void)state;
    char out[256];
    assert_string_equal(patched(".target sm_90, texmode_independent\n.entry a()\n.reqntid 128, 1, 1\n{\n//@wgmma.x;\n}",
                                out, sizeof out),
                        ".target sm_90a, texmode_independent\n.entry a()\n.reqntid 128, 1, 1\n{\n   wgmma.x;\n}");
    /* Without the line the assembler ignores setmaxnreg. */
    assert_string_equal(patched(".target sm_90\n.reqntid 512, 1, 1\n{\n//@setmaxnreg.inc 8;\n}", out, sizeof out),
                        ".target sm_90a\n.reqntid 512, 1, 1\n.minnctapersm 1\n{\n   setmaxnreg.inc 8;\n}");
    assert_null(patched(".target sm_90\n{\nadd;\n}", out, sizeof out));
    assert_null(patched(".target sm_80\n{\n//@wgmma.x;\n}", out, sizeof out));
    assert_null(patched(".target sm_90a\n{\n//@wgmma.x;\n}", out, sizeof out));
}
#endif

/* GELU of every size that 16 bits hold, scaled for dropout and not: as near as its rounding. */
static void test_gelu(void **state)
{
    (void)state;
    static const float scales[] = {1.0f, 1.0f / 0.9f, 2.0f};
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++)
        for (double x = 1e-4; x < 65504; x *= 1.001)
            for (int sign = -1; sign <= 1; sign += 2) {
                float v[8], d[8];
                double tail = 0.5 * erfc(x / sqrt(2)), want = sign < 0 ? -x * tail : x - x * tail;
                double slope = (sign < 0 ? tail : 1 - tail) + sign * x * exp(-x * x / 2) * 0.3989422804014327;
                for (int c = 0; c < 8; c++) {
                    v[c] = (float)(sign * x * scales[s]);
                    d[c] = (float)(sign * x);
                }
                activate_eight(ACTIVATION_GELU, scales[s], v);
                for (int c = 0; c < 8; c++)
                    assert_true(fabs(v[c] / scales[s] - want) <= 2e-5 * fabs(want) + ldexp(1, -26));
                for (int c = 0; c < 8; c++) v[c] = 1;
                derive_eight(ACTIVATION_GELU, v, d);
                for (int c = 0; c < 8; c++) assert_true(fabs(v[c] - slope) <= 2e-5);
            }
}

#ifdef WHERRY_HAVE_OPENCL
/* What is kept of a kernel that is patched depends on what patches it, and of no other one. */
static void test_patch_key(void **state)
{
    (void)state;
    static const char *const kernels[] = {"gemm", "gemm_wgmma"};
    struct host host = support_host;
    struct backend_device device = {.host = &host, .identity = "a device\n"};
    strcpy(host.cache_dir, "folder");
    for (int i = 0; i < 2; i++) {
        struct kernel_build build = {.kernel = kernels[i], .options = ""};
        struct error e;
        assert_true(opencl_kernel_find(build.kernel, &build.source));
        assert_int_equal(opencl_is_marked(&build.source), i);
        assert_true(opencl_build_key(&device, &build, &e));
        assert_int_equal(strstr(build.key, WHERRY_PTX) != NULL, i);
        host_free(&host, build.key);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large),           cmocka_unit_test(test_channels),
        cmocka_unit_test(test_small),           cmocka_unit_test(test_weight),
        cmocka_unit_test(test_parts),           cmocka_unit_test(test_parts_of_k),
        cmocka_unit_test(test_weight_and_bias), cmocka_unit_test(test_weight_and_bias_choices),
        cmocka_unit_test(test_refused),         cmocka_unit_test(test_normal),
        cmocka_unit_test(test_normal_refused),  cmocka_unit_test(test_heads),
        cmocka_unit_test(test_shared),          cmocka_unit_test(test_gelu),
#ifdef WHERRY_HAVE_OPENCL
        cmocka_unit_test(test_patch),           cmocka_unit_test(test_patch_key),
#endif
    };
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    return cmocka_run_group_tests_name("wgmma", tests, NULL, NULL);
}
