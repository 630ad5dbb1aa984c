/* The kernels that measure layouts: numbers of orders drawn at random, and all that a configuration's number stands
 * for.
 */
#include "../tools/paper.h"
#include "measure/layout_bench.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Small, no two alike but j and k, and most of them no multiple of a tile. */
static const char letters[] = "bjkhpiuqv";
static const uint32_t sizes[] = {8, 24, 24, 16, 8, 40, 72, 3, 2};

static wherry_context *context;
static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;

static uint64_t drawn(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 20;
}

/* ---- the space ---- */

/* The paper's numbers, of its kernels and of the contractions' layouts that are one GEMM. */
static void test_counts(void **state)
{
    (void)state;
    struct error e;
    for (int n = 0; n < PAPER_KERNELS + PAPER_EINSUMS; n++) {
        struct layout_work work;
        const char *name = n < PAPER_KERNELS ? paper_kernels[n].name : paper_einsums[n - PAPER_KERNELS].einsum;
        assert_true(layout_work_open(&support_host, name, paper_letters, paper_sizes, false, &work, &e));
        assert_int_equal(work.configurations,
                         n < PAPER_KERNELS ? paper_kernels[n].configurations : paper_einsums[n - PAPER_KERNELS].valid);
        layout_work_close(&support_host, &work);
        if (n < PAPER_KERNELS) continue;
        assert_true(layout_work_open(&support_host, name, paper_letters, paper_sizes, true, &work, &e));
        assert_int_equal(work.configurations, paper_einsums[n - PAPER_KERNELS].permutations);
        layout_work_close(&support_host, &work);
    }
}

/* Every number is another configuration. */
static void test_numbers(void **state)
{
    (void)state;
    static const char *const names[] = {"AIB", "BSB", "BEI", "BAOB", "phbk,hbjk->phbj"};
    struct error e;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct layout_work work;
        assert_true(layout_work_open(&support_host, names[n], letters, sizes, false, &work, &e));
        char(*texts)[128] = calloc((size_t)work.configurations, sizeof *texts);
        assert_non_null(texts);
        for (uint64_t i = 0; i < work.configurations; i++) {
            struct layout_config config;
            layout_config_at(&work, i, &config);
            layout_config_text(&work, &config, texts[i], sizeof *texts);
        }
        qsort(texts, (size_t)work.configurations, sizeof *texts, (int (*)(const void *, const void *))strcmp);
        for (uint64_t i = 1; i < work.configurations; i++) assert_string_not_equal(texts[i - 1], texts[i]);
        free(texts);
        layout_work_close(&support_host, &work);
    }
}

static void expect_default(const char *name, const char *expected)
{
    struct layout_work work;
    struct layout_config config;
    struct error e;
    char text[128];
    assert_true(layout_work_open(&support_host, name, letters, sizes, false, &work, &e));
    layout_config_at(&work, work.usual, &config);
    layout_config_text(&work, &config, text, sizeof text);
    assert_string_equal(text, expected);
    layout_work_close(&support_host, &work);
}

static void test_defaults(void **state)
{
    (void)state;
    expect_default("SM", "hbjk,hbjk,hbjk v=k t=k");
    expect_default("BSB", "bji,bji,bji v=i t=j");
    expect_default("BAIB", "hpbj,hpbj,hpbj,hp,hp,hp v=j t=j");
    expect_default("bji,ui->bju", "bji,ui->bju");
    expect_default("qphi,ibj->qphbj", "qphi,ibj->qphbj");
}

/* Triples that are one call of a library are one kernel. */
static void test_merged(void **state)
{
    (void)state;
    struct error e;
    for (int n = 0; n < PAPER_EINSUMS; n++) {
        struct layout_work work;
        struct call calls[LAYOUT_TRIPLES];
        uint32_t different = 0;
        assert_true(
            layout_work_open(&support_host, paper_einsums[n].einsum, paper_letters, paper_sizes, false, &work, &e));
        for (uint64_t i = 0; i < work.configurations; i++) {
            struct layout_config config;
            bool seen = false;
            layout_config_at(&work, i, &config);
            struct call *call = &calls[different];
            assert_true(layout_call_make(&work, &config, true, call) > 0);
            for (uint32_t c = 0; c < different && !seen; c++)
                seen = !memcmp(calls[c].constants, call->constants, sizeof call->constants);
            different += !seen;
        }
        /* A call of the library may have A and B exchanged, or C and so M and N: the kernel has twice as many at most.
         */
        assert_true(different >= paper_einsums[n].gemms && different <= 2 * paper_einsums[n].gemms);
        layout_work_close(&support_host, &work);
    }
}

static void test_refused(void **state)
{
    (void)state;
    struct layout_work work;
    struct error e;
    const uint32_t large[] = {1 << 20, 1 << 20, 1 << 20, 16, 8, 40, 72, 3, 2}, none[9] = {0};
    assert_false(layout_work_open(&support_host, "XYZ", letters, sizes, false, &work, &e));
    layout_work_close(&support_host, &work);
    assert_false(layout_work_open(&support_host, "abcdefgh,ijklmnop->abcdefgh", letters, sizes, false, &work, &e));
    layout_work_close(&support_host, &work);
    assert_false(layout_work_open(&support_host, "SM", letters, large, false, &work, &e));
    assert_non_null(strstr(e.text, "--batch"));
    layout_work_close(&support_host, &work);
    assert_false(layout_work_open(&support_host, "bji,ui->bju", letters, large, false, &work, &e));
    layout_work_close(&support_host, &work);
    assert_false(layout_work_open(&support_host, "BEI", letters, none, false, &work, &e));
    layout_work_close(&support_host, &work);
}

/* ---- on devices ---- */

static void check_work(const char *id, wherry_device *device, const char *name, wherry_dtype dtype, size_t count)
{
    enum { MOST = 8 };
    const wherry_layout_bench_desc desc = {.struct_size = sizeof desc,
                                           .name = name,
                                           .letters = letters,
                                           .sizes = sizes,
                                           .dtype = dtype,
                                           .repeats = 1,
                                           .any_orders = true};
    wherry_layout_bench *bench;
    wherry_layout_result results[MOST];
    uint64_t which[MOST], random = strlen(name) + (uint64_t)name[0] * dtype, right = 0;
    if (wherry_layout_bench_create(device, &desc, &bench)) fail_msg("%s: %s", id, wherry_last_error(context));
    which[0] = wherry_layout_bench_default(bench);
    for (size_t n = 1; n < count; n++) which[n] = drawn(&random) % wherry_layout_bench_configurations(bench);
    if (wherry_layout_bench_measure(bench, which, count, NULL, NULL, results))
        fail_msg("%s, %s: %s", id, name, wherry_last_error(context));
    for (size_t n = 0; n < count; n++) {
        char text[128];
        wherry_layout_bench_text(bench, which[n], text, sizeof text);
        if (results[n].verdict == WHERRY_LAYOUT_WRONG)
            print_error("%s, %s, %s, dtype %d: %s\n", id, name, text, (int)dtype, results[n].text);
        assert_int_not_equal(results[n].verdict, WHERRY_LAYOUT_WRONG);
        if (results[n].verdict) continue;
        assert_true(results[n].time.median > 0 && results[n].time.n == 1);
        right++;
    }
    assert_true(right > 0);
    which[0] = wherry_layout_bench_configurations(bench);
    assert_int_equal(wherry_layout_bench_measure(bench, which, 1, NULL, NULL, results), WHERRY_STATUS_INVALID_ARGUMENT);
    wherry_layout_bench_destroy(bench);
}

static void test_devices(void **state)
{
    (void)state;
    static const char *const products[] = {"qphi,ibj->qphbj", "phbk,phbj->hbjk", "phbk,hbjk->phbj", "bji,bju->iu"};
    bool few = getenv("WHERRY_TEST_FEW");
    for (size_t d = 0; d < n_devices; d++) {
        wherry_device *device;
        wherry_device_limits limits = {.struct_size = sizeof limits};
        assert_int_equal(wherry_device_open(context, devices[d], &device), WHERRY_STATUS_OK);
        wherry_device_query(device, &limits);
        if (strcmp(devices[d], "cpu") == 0 || strcmp(devices[d], "reference") == 0) {
            const wherry_layout_bench_desc desc = {
                .struct_size = sizeof desc, .name = "BEI", .letters = letters, .sizes = sizes};
            wherry_layout_bench *bench;
            assert_int_equal(wherry_layout_bench_create(device, &desc, &bench), WHERRY_STATUS_UNSUPPORTED);
            wherry_device_close(device);
            continue;
        }
        for (size_t n = 0; n < LAYOUT_FORMS + sizeof products / sizeof *products; n++) {
            const char *name = n < LAYOUT_FORMS ? layout_forms[n].name : products[n - LAYOUT_FORMS];
            bool f16 = limits.f16 && n % 2;
            check_work(devices[d], device, name, f16 ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32, few ? 1 : 2);
        }
        wherry_device_close(device);
    }
}

static int make_context(void **state)
{
    (void)state;
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = getenv("WHERRY_TEST_CACHE")};
    if (wherry_context_create(&desc, &context)) return 1;
    n_devices = support_devices(context, devices);
    return 0;
}

static int destroy_context(void **state)
{
    (void)state;
    wherry_context_destroy(context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts),   cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_defaults), cmocka_unit_test(test_merged),
                                       cmocka_unit_test(test_refused),  cmocka_unit_test(test_devices)};
    return cmocka_run_group_tests(tests, make_context, destroy_context);
}
