/* What is planned for matrix units, without any: which kernels products and attention have, and their sizes. */
#include "interface/interface.h"
#include "plan/variants.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- attention on Hopper ---- */

static struct call attention_call(bool backward, uint32_t heads, uint32_t head_dim, bool odd_rows)
{
    struct call call = {.kernel = backward ? "attention_backward" : "attention",
                        .launch = backward ? LAUNCH_SEQUENCES : LAUNCH_QUERIES};
    call_set(&call, CONST_HEADS, heads);
    call_set(&call, CONST_HEAD_DIM, head_dim);
    call_set(&call, CONST_SCALE, 0x3e000000);
    call_set(&call, CONST_X_STRIDE, 3 * heads * head_dim + (odd_rows ? 1 : 0));
    if (!backward) return call;
    call.arguments[call.n_arguments++] =
        (struct call_argument){.slot = SLOT_PARTIALS, .written = true, .tensor = TENSOR_SCRATCH};
    call.arguments[call.n_arguments++] = (struct call_argument){.slot = SLOT_Y, .written = true, .tensor = 1};
    return call;
}

static void test_attention(void **state)
{
    (void)state;
    const struct device_limits hopper = {.f16 = true,
                                         .shared_bytes = 49152,
                                         .max_local_size = 1024,
                                         .compute_units = 132,
                                         .nvidia_sm = 90,
                                         .rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_WGMMA)};
    for (int backward = 0; backward < 2; backward++) {
        const char *portable = backward ? "attention_backward" : "attention";
        const struct {
            uint32_t head_dim;
            bool f16, odd_rows;
        } refused[] = {{backward ? 128 : 96, true, false}, {48, true, false}, {64, false, false}, {64, true, true}};
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
            struct call call = attention_call(backward, 16, refused[i].head_dim, refused[i].odd_rows);
            assert_non_null(call_tiles(&call, NULL, &hopper, refused[i].f16, 4096, 512)); /* says why */
            assert_string_equal(call.kernel, portable);
        }
        for (uint32_t head_dim = 32; head_dim <= (backward ? 64 : 128); head_dim *= 2) {
            struct call call = attention_call(backward, 16, head_dim, false);
            assert_non_null(call_tiles(&call, NULL, &hopper, true, 4096, 512));
            assert_string_equal(variant_find(call.kernel)->kernel, portable);
            assert_int_equal(call_get(&call, CONST_GROUPS, 0), 132);
            assert_in_range(call_shared_bytes(&call), 49152, 232448);
        }
    }
    /* Wide heads leave no registers to a third warpgroup that computes; a bias by distance fits beside their tiles. */
    for (uint32_t head_dim = 64; head_dim <= 128; head_dim *= 2) {
        struct call call = attention_call(false, 16, head_dim, false);
        assert_non_null(call_tiles(&call, NULL, &hopper, true, 8192, 8192));
        assert_int_equal(call_get(&call, CONST_TILE_M, 0), head_dim == 64 ? 192 : 128);
        assert_int_equal(call_get(&call, CONST_LOCAL_SIZE, 0), head_dim == 64 ? 512 : 384);
        call_set(&call, CONST_RELATIVE, 128);
        assert_in_range(call_shared_bytes(&call), 131072, 232448);
    }
    /* Where the queries' sums stay in shared memory and one part has all keys, nothing is left to add. */
    static const struct {
        uint64_t rows;
        uint32_t longest, parts, query_rows;
        int calls;
    } passes[] = {{16384, 512, 1, 512, 1}, {4096, 512, 1, 512, 1},  {512, 512, 4, 512, 2},
                  {12288, 96, 1, 192, 1},  {32768, 16384, 4, 0, 2}, {131072, 2048, 1, 0, 2}};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        struct call calls[GROUP_MAX_CALLS] = {attention_call(true, 16, 64, false), {.kernel = "attention_dq"}};
        int count = 2;
        call_tiles(&calls[0], NULL, &hopper, true, passes[i].rows, passes[i].longest);
        calls_divide(calls, &count, &hopper, true, passes[i].rows);
        assert_int_equal(count, passes[i].calls);
        assert_int_equal(call_get(&calls[0], CONST_PARTS, 0), passes[i].parts);
        assert_int_equal(call_get(&calls[0], CONST_QUERY_ROWS, 1), passes[i].query_rows);
        assert_in_range(call_shared_bytes(&calls[0]), 116736, 232448); /* more than half of a multiprocessor's */
        uint64_t scratch = count == 1 ? 0 : passes[i].parts * passes[i].rows * 16 * 64 * sizeof(float);
        assert_int_equal(call_scratch_bytes(&calls[0], passes[i].rows), scratch);
        if (count == 1) continue;
        call_tiles(&calls[1], &calls[0], &hopper, true, passes[i].rows, passes[i].longest);
        assert_int_equal(call_get(&calls[1], CONST_PARTS, 0), passes[i].parts);
        assert_int_equal(call_get(&calls[1], CONST_TILE_M, 0), 128);
    }
}

/* Sub-groups own two matrices of rows where sequences have more than 64 and enough work-groups remain. */
static void test_attention_matrices(void **state)
{
    (void)state;
    struct device_limits limits = {.f16 = true,
                                   .shared_bytes = 49152,
                                   .max_local_size = 1024,
                                   .rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_COOPMAT),
                                   .coopmat_m = 16,
                                   .coopmat_n = 16,
                                   .coopmat_k = 16,
                                   .coopmat_subgroup = 32,
                                   .coopmat_f16_sums = true,
                                   .coopmat2 = true};
    static const struct {
        uint64_t rows;
        uint32_t longest, forward, queries, parts;
        bool cpu;
    } passes[] = {{16384, 512, 128, 128, 12, false}, {16384, 65, 128, 128, 3, false}, {16384, 64, 64, 64, 2, false},
                  {512, 512, 64, 128, 12, false},    {128, 128, 64, 64, 4, false},    {32, 32, 64, 64, 2, false},
                  {138, 129, 128, 128, 5, true}};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        for (uint32_t head_dim = 32; head_dim <= 64; head_dim += 32)
            for (int backward = 0; backward < 2; backward++) {
                struct call call = attention_call(backward, 16, head_dim, false);
                uint32_t forward = head_dim == 32 && !passes[i].cpu ? 64 : passes[i].forward; /* short heads: one */
                limits.cpu = passes[i].cpu;
                call_set(&call, CONST_DROPOUT, 6554);
                assert_non_null(call_tiles(&call, NULL, &limits, true, passes[i].rows, passes[i].longest));
                assert_string_equal(call.kernel, backward ? "attention_backward_coopmat" : "attention_coopmat");
                assert_int_equal(call_get(&call, CONST_LOCAL_SIZE, 0), 128);
                assert_int_equal(call_get(&call, CONST_TILE_M, 0), backward ? 64 : forward);
                assert_int_equal(call_get(&call, CONST_BLOCKS, 0), backward ? 1 : forward / 64);
                assert_in_range(call_shared_bytes(&call), 1, limits.shared_bytes);
                if (backward) {
                    assert_int_equal(call_get(&call, CONST_QUERY_ROWS, 0), passes[i].queries);
                    assert_int_equal(call_get(&call, CONST_PARTS, 0), passes[i].parts);
                } else {
                    assert_int_equal(call_get(&call, CONST_ENTRIES, 0), forward / 64);
                }
            }
    limits.shared_bytes = 32768; /* steps of 32 */
    for (int backward = 0; backward < 2; backward++) {
        struct call call = attention_call(backward, 16, 64, false);
        call_set(&call, CONST_DROPOUT, 6554);
        call_tiles(&call, NULL, &limits, true, 16384, 512);
        assert_int_equal(call_get(&call, CONST_TILE_N, 0), 32);
        assert_in_range(call_shared_bytes(&call), 1, limits.shared_bytes);
    }
    struct call call = attention_call(true, 16, 136, false);
    call_tiles(&call, NULL, &limits, true, 16384, 512);
    assert_string_equal(call.kernel, "attention_backward"); /* too many channels */
}

/* By KHR_cooperative_matrix alone heads of few channels share what is read in longer sequences. */
static void test_short_heads(void **state)
{
    (void)state;
    struct device_limits limits = {.f16 = true,
                                   .max_local_size = 1024,
                                   .rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_COOPMAT),
                                   .coopmat_m = 16,
                                   .coopmat_n = 16,
                                   .coopmat_k = 16,
                                   .coopmat_subgroup = 32,
                                   .coopmat_f16_sums = true};
    static const struct {
        uint64_t rows;
        uint32_t shared, dim, longest, blocks, strip;
        bool cpu, wide;
    } cases[] = {{16384, 49152, 32, 512, 2, 32, false}, {16384, 49152, 32, 129, 2, 32, false},
                 {16384, 49152, 32, 128, 1, 16, false}, {16384, 49152, 16, 512, 2, 32, false},
                 {512, 49152, 32, 512, 1, 16, false}, /* a GPU would not be filled */
                 {16384, 49152, 64, 512, 2, 16, false}, {16384, 49152, 64, 65, 2, 16, false},
                 {16384, 49152, 64, 64, 1, 16, false},  {16384, 49152, 80, 512, 1, 16, false},
                 {16384, 32768, 32, 512, 2, 16, false}, /* steps of 32 keys have no strips of as many */
                 {16384, 49152, 32, 100, 2, 16, true},  {16384, 49152, 32, 512, 1, 16, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct call call = attention_call(false, 16, cases[i].dim, false);
        limits.shared_bytes = cases[i].shared;
        limits.cpu = cases[i].cpu;
        limits.coopmat_subgroup = cases[i].wide ? 64 : 32;
        call_tiles(&call, NULL, &limits, true, cases[i].rows, cases[i].longest);
        assert_string_equal(call.kernel, "attention_khr");
        assert_int_equal(call_get(&call, CONST_BLOCKS, 0), cases[i].blocks);
        assert_int_equal(call_get(&call, CONST_TILE_V, 0), cases[i].strip);
        assert_in_range(call_shared_bytes(&call), 1, limits.shared_bytes);
    }
}

/* An H200's, through Vulkan. */
static const struct device_limits matrices = {.f16 = true,
                                              .shared_bytes = 49152,
                                              .max_local_size = 1024,
                                              .rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_COOPMAT),
                                              .compute_units = 132,
                                              .coopmat_m = 16,
                                              .coopmat_n = 16,
                                              .coopmat_k = 16,
                                              .coopmat_subgroup = 32};

/* Products of cooperative matrices sum over the heads of their result where a sub-group's piece has whole ones. */
static void test_matrices_and_heads(void **state)
{
    (void)state;
    static const struct {
        uint32_t n, dim;
        uint64_t rows;
        bool taken;
    } cases[] = {{1024, 64, 4096, true}, {1024, 32, 4096, true}, {1024, 128, 4096, false},
                 {1024, 64, 128, false}, {1024, 16, 128, true},  {960, 40, 4096, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct call call = {.kernel = "gemm", .launch = LAUNCH_TILES};
        call_set(&call, CONST_FORM, GEMM_NN);
        call_set(&call, CONST_N, cases[i].n);
        call_set(&call, CONST_K, cases[i].n);
        call_set(&call, CONST_DELTA, 1);
        call_set(&call, CONST_HEAD_DIM, cases[i].dim);
        call_tiles(&call, NULL, &matrices, true, cases[i].rows, 128);
        assert_string_equal(call.kernel, cases[i].taken ? "gemm_coopmat" : "gemm");
        if (cases[i].taken) assert_int_equal(call_get(&call, CONST_THREAD_N, 1) % cases[i].dim, 0);
    }
}

/* The last of several rounds of work-groups takes as long as a full one where sums are short: where the largest tile
 * leaves it nearly empty, a smaller one takes less time. Not for a weight's gradient. */
static void test_rounds(void **state)
{
    (void)state;
    static const struct {
        uint32_t form, n, k; /* GEMM_TN: m */
        uint64_t rows;
        uint32_t m;
    } cases[] = {{GEMM_NT, 768, 768, 8192, 96},    {GEMM_NN, 768, 768, 8192, 96},    {GEMM_NT, 2304, 768, 8192, 96},
                 {GEMM_NT, 768, 1152, 8192, 96},   {GEMM_NN, 768, 2304, 8192, 128},  {GEMM_NT, 768, 768, 16384, 128},
                 {GEMM_NT, 2304, 768, 16384, 128}, {GEMM_NT, 1024, 1024, 4096, 128}, {GEMM_TN, 768, 8192, 8192, 128}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct call call = {.kernel = "gemm", .launch = LAUNCH_TILES};
        call_set(&call, CONST_FORM, cases[i].form);
        call_set(&call, CONST_N, cases[i].n);
        call_set(&call, cases[i].form == GEMM_TN ? CONST_M : CONST_K, cases[i].k);
        call_tiles(&call, NULL, &matrices, true, cases[i].rows, 128);
        assert_string_equal(call.kernel, "gemm_coopmat");
        assert_int_equal(call_get(&call, CONST_TILE_M, 0), cases[i].m);
        assert_int_equal(call_get(&call, CONST_TILE_N, 0), 128);
    }
}

/* Products of experts take a tile by the rows that an expert has, or by those of its weight, and the list's rows have
 * their place beside it. */
static void test_matrices_and_experts(void **state)
{
    (void)state;
    struct device_limits limits = matrices;
    static const struct {
        uint32_t form, tokens, width, shared, m, n; /* m: 0: of the portable kernel */
    } cases[] = {{GEMM_NT, 16384, 768, 49152, 128, 128}, {GEMM_NN, 16384, 768, 49152, 128, 128},
                 {GEMM_TN, 16384, 768, 49152, 128, 128}, {GEMM_NT, 64, 768, 49152, 16, 16},
                 {GEMM_NT, 16384, 772, 49152, 0, 0},     {GEMM_NT, 16384, 768, 4096, 0, 0},
                 {GEMM_NT, 16384, 768, 37376, 128, 128}, {GEMM_NT, 16384, 768, 37375, 96, 128}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct call call = {.kernel = "gemm_experts", .launch = LAUNCH_EXPERTS};
        call_set(&call, CONST_FORM, cases[i].form);
        call_set(&call, CONST_EXPERTS, 8);
        call_set(&call, CONST_CHOSEN, 2);
        call_set(&call, CONST_N, 3072);
        call_set(&call, cases[i].form == GEMM_TN ? CONST_M : CONST_K, cases[i].width);
        limits.shared_bytes = cases[i].shared;
        call_tiles(&call, NULL, &limits, true, cases[i].tokens, 512);
        assert_string_equal(call.kernel, cases[i].m ? "gemm_experts_coopmat" : "gemm_experts");
        if (!cases[i].m) continue;
        assert_int_equal(call_get(&call, CONST_TILE_M, 0), cases[i].m);
        assert_int_equal(call_get(&call, CONST_TILE_N, 0), cases[i].n);
        assert_in_range(call_shared_bytes(&call), 1, limits.shared_bytes);
    }
}

/* Products and attention are made of whatever shape a driver's matrices have, within its limits. */
static void test_any_matrices(void **state)
{
    (void)state;
    static const struct {
        uint32_t m, n, k, subgroup;
    } shapes[] = {{16, 16, 16, 32}, {16, 16, 16, 64}, {8, 16, 16, 16}, {8, 8, 16, 8},  {8, 8, 16, 16},
                  {8, 8, 8, 8},     {16, 8, 16, 32},  {16, 8, 8, 32},  {8, 16, 8, 16}, {32, 8, 16, 64}};
    static const uint32_t shared[] = {32768, 49152, 65536}, dims[] = {32, 64, 80, 128};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t j = 0; j < 2 * sizeof shared / sizeof *shared; j++) {
            const struct device_limits limits = {.f16 = true,
                                                 .shared_bytes = shared[j / 2],
                                                 .max_local_size = 1024,
                                                 .rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_COOPMAT),
                                                 .coopmat_m = shapes[i].m,
                                                 .coopmat_n = shapes[i].n,
                                                 .coopmat_k = shapes[i].k,
                                                 .coopmat_subgroup = shapes[i].subgroup,
                                                 .coopmat_f16_sums = true,
                                                 .coopmat2 = j % 2};
            bool elements = limits.coopmat2 && limits.coopmat_n == limits.coopmat_k;
            for (size_t d = 0; d < 2 * sizeof dims / sizeof *dims; d++) {
                bool backward = d % 2, more = elements && dims[d / 2] <= 64;
                struct call call = attention_call(backward, 16, dims[d / 2], false);
                call_set(&call, CONST_DROPOUT, 6554);
                call_tiles(&call, NULL, &limits, true, 16384, 512);
                if (shared[j / 2] < 49152 && dims[d / 2] > 64) continue; /* some do, some do not */
                assert_string_equal(call.kernel, backward
                                                     ? more ? "attention_backward_coopmat" : "attention_backward_khr"
                                                 : more ? "attention_coopmat"
                                                        : "attention_khr");
                assert_in_range(call_shared_bytes(&call), 1, limits.shared_bytes);
                assert_in_range(call_get(&call, CONST_LOCAL_SIZE, 0), shapes[i].subgroup, limits.max_local_size);
                assert_int_equal(call_get(&call, CONST_LOCAL_SIZE, 0) % shapes[i].subgroup, 0);
                /* Half a step is of whole matrices, and a sub-group of whole rows of them. */
                assert_int_equal(call_get(&call, CONST_TILE_N, 0) / 2 % shapes[i].n, 0);
                assert_int_equal(call_get(&call, CONST_TILE_N, 0) / 2 % shapes[i].k, 0);
                if (!backward && !more) {
                    uint32_t strip = call_get(&call, CONST_TILE_V, 0);
                    assert_true(strip && strip % shapes[i].n == 0 && strip % shapes[i].k == 0);
                    assert_int_equal(call_get(&call, CONST_TILE_N, 0) / 2 % strip, 0);
                }
                assert_int_equal(call_get(&call, CONST_LOCAL_SIZE, 0) / shapes[i].subgroup * shapes[i].m *
                                     call_get(&call, CONST_BLOCKS, 0),
                                 call_get(&call, CONST_TILE_M, 0));
            }
            for (uint64_t rows = 32; rows <= 16384; rows *= 8)
                for (int form = GEMM_NT; form <= 2 * GEMM_TN + 1; form++) {
                    bool experts = form > GEMM_TN;
                    struct call call = {.kernel = experts ? "gemm_experts" : "gemm", .launch = LAUNCH_TILES};
                    if (experts) call_set(&call, CONST_EXPERTS, 8);
                    call_set(&call, CONST_FORM, (uint32_t)form % (GEMM_TN + 1));
                    call_set(&call, CONST_N, 1024);
                    call_set(&call, form % (GEMM_TN + 1) == GEMM_TN ? CONST_M : CONST_K, 1024);
                    call_tiles(&call, NULL, &limits, true, rows, 32);
                    uint32_t m = call_get(&call, CONST_THREAD_M, 0), n = call_get(&call, CONST_THREAD_N, 0);
                    assert_string_equal(call.kernel, experts ? "gemm_experts_coopmat" : "gemm_coopmat");
                    assert_int_equal(m % shapes[i].m + n % shapes[i].n + call_get(&call, CONST_TILE_K, 0) % shapes[i].k,
                                     0);
                    assert_in_range(m * n / shapes[i].subgroup, 1, 128); /* sums of a work-item */
                    assert_in_range(call_shared_bytes(&call), 1, limits.shared_bytes);
                }
        }
    struct device_limits f32_sums = {.f16 = true,
                                     .shared_bytes = 49152,
                                     .max_local_size = 1024,
                                     .rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_COOPMAT),
                                     .coopmat_m = 16,
                                     .coopmat_n = 16,
                                     .coopmat_k = 16,
                                     .coopmat_subgroup = 32};
    struct call call = attention_call(false, 16, 64, false);
    const char *why = call_tiles(&call, NULL, &f32_sums, true, 16384, 512);
    assert_string_equal(call.kernel, "attention");
    assert_non_null(strstr(why, "sums of 16 bits"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_attention),   cmocka_unit_test(test_attention_matrices),
                                       cmocka_unit_test(test_short_heads), cmocka_unit_test(test_matrices_and_heads),
                                       cmocka_unit_test(test_rounds),      cmocka_unit_test(test_matrices_and_experts),
                                       cmocka_unit_test(test_any_matrices)};
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    return cmocka_run_group_tests_name("matrix_units", tests, NULL, NULL);
}
