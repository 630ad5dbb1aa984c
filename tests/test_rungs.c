/* What computes products: that it can be chosen, that a device without it says so, and that a rung whose check of its
 * numbers fails is left out, named, and the run still right. */
#include "interface/interface.h"
#include "plan/constants.h"
#include "plan/variants.h"
#include "runtime/session.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static wherry_context *context;
static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;

static const uint32_t lengths[] = {70, 1, 33, 0};
enum { TOKENS = 104, SEQUENCES = 3, HIDDEN = 128 };

static wherry_model *make_model(void)
{
    wherry_model_config config = {.struct_size = sizeof config,
                                  .layers = 2,
                                  .hidden = HIDDEN,
                                  .heads = 2,
                                  .feed_forward = 256,
                                  .vocabulary = 101,
                                  .positions = 128,
                                  .token_types = 2};
    wherry_model *model;
    assert_int_equal(wherry_model_create_random(context, &config, 3, &model), 0);
    return model;
}

static wherry_status open_session(wherry_device *device, const wherry_model *model, const char *gemm,
                                  wherry_dtype dtype, wherry_session **out)
{
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = TOKENS,
                                      .max_sequences = SEQUENCES,
                                      .dtype = dtype,
                                      .pool = WHERRY_POOL_MEAN,
                                      .kernels = gemm};
    return wherry_session_create(context, device, model, &desc, out);
}

static void encode(wherry_session *session, float *out)
{
    wherry_batch batch = support_batch(lengths, 101, 2, 5);
    wherry_status status = wherry_encode(session, &batch, out, SEQUENCES * HIDDEN);
    if (status) fail_msg("encode: %s", wherry_last_error(context));
    support_batch_free(&batch);
}

static double difference(const float *a, const float *b)
{
    double d = 0, size = 0;
    for (int i = 0; i < SEQUENCES * HIDDEN; i++) {
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return d / size;
}

/* ---- the table ---- */

static void test_table(void **state)
{
    (void)state;
    struct device_limits limits = {.f16 = true,
                                   .shared_bytes = 49152,
                                   .max_local_size = 1024,
                                   .compute_units = 132,
                                   .nvidia_sm = 90,
                                   .coopmat_m = 16,
                                   .coopmat_n = 16,
                                   .coopmat_k = 16,
                                   .coopmat_subgroup = 32,
                                   .coopmat_f16_sums = true,
                                   .coopmat2 = true};
    for (int form = GEMM_NT; form <= GEMM_TN; form++)
        for (int r = 0; r < RUNG_COUNT; r++) {
            struct call call = {.kernel = "gemm", .launch = LAUNCH_TILES}, other;
            const char *why;
            call_set(&call, CONST_FORM, (uint32_t)form);
            call_set(&call, CONST_N, 1024);
            call_set(&call, form == GEMM_TN ? CONST_M : CONST_K, 1024);
            limits.rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(r);
            other = call;
            why = call_tiles(&call, NULL, &limits, true, r == RUNG_SMALL_BATCH ? 128 : 4096, 512);
            const struct variant *variant = variant_find(call.kernel);
            if (r == RUNG_TILED || (r == RUNG_SMALL_BATCH && form != GEMM_NT)) {
                assert_string_equal(call.kernel, "gemm");
                continue;
            }
            assert_non_null(variant);
            assert_int_equal(variant->rung, r);
            assert_string_equal(variant->kernel, "gemm");
            assert_string_equal(why, variant->why);
            assert_in_range(call_shared_bytes(&call), 1, r >= RUNG_MMA ? 232448 : 101376);
            call_tiles(&other, NULL, &limits, false, 4096, 512); /* of f32 the portable kernel */
            assert_string_equal(other.kernel, "gemm");
        }
}

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
        static const struct {
            uint32_t head_dim;
            bool f16, odd_rows;
        } refused[] = {{128, true, false}, {48, true, false}, {64, false, false}, {64, true, true}};
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
            struct call call = attention_call(backward, 16, refused[i].head_dim, refused[i].odd_rows);
            assert_non_null(call_tiles(&call, NULL, &hopper, refused[i].f16, 4096, 512)); /* says why */
            assert_string_equal(call.kernel, portable);
        }
        for (uint32_t head_dim = 32; head_dim <= 64; head_dim += 32) {
            struct call call = attention_call(backward, 16, head_dim, false);
            assert_non_null(call_tiles(&call, NULL, &hopper, true, 4096, 512));
            assert_string_equal(variant_find(call.kernel)->kernel, portable);
            assert_int_equal(call_get(&call, CONST_GROUPS, 0), 132);
            assert_in_range(call_shared_bytes(&call), 49152, 232448);
        }
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

/* Products of cooperative matrices sum over the heads of their result where a sub-group's piece has whole ones. */
static void test_matrices_and_heads(void **state)
{
    (void)state;
    const struct device_limits limits = {.f16 = true,
                                         .shared_bytes = 49152,
                                         .max_local_size = 1024,
                                         .rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_COOPMAT),
                                         .compute_units = 132,
                                         .coopmat_m = 16,
                                         .coopmat_n = 16,
                                         .coopmat_k = 16,
                                         .coopmat_subgroup = 32};
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
        call_tiles(&call, NULL, &limits, true, cases[i].rows, 128);
        assert_string_equal(call.kernel, cases[i].taken ? "gemm_coopmat" : "gemm");
        if (cases[i].taken) assert_int_equal(call_get(&call, CONST_THREAD_N, 1) % cases[i].dim, 0);
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
                assert_int_equal(call_get(&call, CONST_LOCAL_SIZE, 0) / shapes[i].subgroup * shapes[i].m *
                                     call_get(&call, CONST_BLOCKS, 0),
                                 call_get(&call, CONST_TILE_M, 0));
            }
            for (uint64_t rows = 32; rows <= 16384; rows *= 8)
                for (int form = GEMM_NT; form <= GEMM_TN; form++) {
                    struct call call = {.kernel = "gemm", .launch = LAUNCH_TILES};
                    call_set(&call, CONST_FORM, (uint32_t)form);
                    call_set(&call, CONST_N, 1024);
                    call_set(&call, form == GEMM_TN ? CONST_M : CONST_K, 1024);
                    call_tiles(&call, NULL, &limits, true, rows, 32);
                    uint32_t m = call_get(&call, CONST_THREAD_M, 0), n = call_get(&call, CONST_THREAD_N, 0);
                    assert_string_equal(call.kernel, "gemm_coopmat");
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

/* One kernel may stand in the table for several rungs: its class is that of the first which the device has. */
static void test_classes(void **state)
{
    (void)state;
    for (int r = 0; r < RUNG_COUNT; r++) {
        assert_non_null(rung_name((enum rung)r));
        assert_non_null(rung_class((enum rung)r));
    }
    uint32_t mma = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_MMA);
    assert_string_equal(kernel_class("attention_mma", mma), rung_class(RUNG_MMA));
    assert_string_equal(kernel_class("attention_mma", mma | RUNG_BIT(RUNG_SMALL_BATCH)), rung_class(RUNG_SMALL_BATCH));
    assert_string_equal(kernel_class("attention", mma), rung_class(RUNG_TILED));
}

/* Each row is found by its name and stands for a portable kernel; what is computed and a kernel does not know, it
 * refuses, and says why. */
static void test_unknown_constants(void **state)
{
    (void)state;
    const struct device_limits all = {.f16 = true,
                                      .shared_bytes = 49152,
                                      .max_local_size = 1024,
                                      .nvidia_sm = 90,
                                      .compute_units = 132,
                                      .rungs = (1u << RUNG_COUNT) - 1,
                                      .coopmat_m = 16,
                                      .coopmat_n = 16,
                                      .coopmat_k = 16,
                                      .coopmat_subgroup = 32,
                                      .coopmat_f16_sums = true,
                                      .coopmat2 = true};
    const struct variant *v;
    for (size_t i = 0; (v = variant_at(i)) != NULL; i++) {
        assert_string_equal(kernel_row(v->name)->name, v->name);
        assert_int_equal(kernel_row(v->kernel)->rung, RUNG_TILED);
        assert_true(v->why && v->size && v->count);
        for (int id = 0; id < CONST_COUNT; id++) {
            struct call call = {.kernel = v->kernel};
            const char *reason = NULL;
            if (constants[id].role != CONSTANT_WORK || memchr(v->takes, id, sizeof v->takes)) continue;
            call_set(&call, CONST_HEADS, 2);
            call_set(&call, (uint8_t)id, 1);
            struct sizes s = call_sizes(&call, NULL, &all, true, 64, 64);
            assert_false(variant_runs(v, &call, &s, &reason));
            assert_non_null(reason);
        }
    }
}

/* ---- choosing by name ---- */

static void test_names(void **state)
{
    (void)state;
    static const char *const names[] = {"coopmat", "mma", "wgmma", "small_batch"};
    wherry_model *model = make_model();
    for (size_t d = 0; d < n_devices; d++) {
        wherry_device *device;
        wherry_session *session;
        assert_int_equal(wherry_device_open(context, devices[d], &device), 0);
        const struct device_limits *limits = device->backend->limits(device->handle);
        assert_int_equal(open_session(device, model, "fast", WHERRY_DTYPE_F32, &session),
                         WHERRY_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(wherry_last_error(context), "\"fast\""));
        if (open_session(device, model, "tiled", WHERRY_DTYPE_F32, &session))
            fail_msg("%s", wherry_last_error(context));
        assert_int_equal(session->library, LIBRARY_REFUSED);
        wherry_session_destroy(session);
        for (int r = RUNG_COOPMAT; r < RUNG_COUNT; r++) {
            assert_int_equal(open_session(device, model, names[r - RUNG_COOPMAT], WHERRY_DTYPE_F32, &session),
                             WHERRY_STATUS_UNSUPPORTED); /* they multiply f16 */
            if (!limits->f16) continue;
            wherry_status status = open_session(device, model, names[r - RUNG_COOPMAT], WHERRY_DTYPE_F16, &session);
            if (limits->rungs & RUNG_BIT(r)) {
                if (status) fail_msg("%s: %s", devices[d], wherry_last_error(context));
                assert_int_equal(session->device_limits.rungs, RUNG_BIT(RUNG_TILED) | RUNG_BIT(r));
                wherry_session_destroy(session);
            } else {
                assert_int_equal(status, WHERRY_STATUS_UNSUPPORTED);
                assert_non_null(strstr(wherry_last_error(context), names[r - RUNG_COOPMAT]));
            }
        }
        if (limits->f16)
            assert_int_equal(open_session(device, model, "clblast", WHERRY_DTYPE_F16, &session),
                             WHERRY_STATUS_UNSUPPORTED);
        wherry_device_close(device);
    }
    wherry_model_close(model);
}

/* Every way to compute products gives the same embeddings, as near as f16 goes. */
static void test_same(void **state)
{
    (void)state;
    wherry_model *model = make_model();
    for (size_t d = 0; d < n_devices; d++) {
        wherry_device *device;
        float tiled[SEQUENCES * HIDDEN], got[SEQUENCES * HIDDEN];
        assert_int_equal(wherry_device_open(context, devices[d], &device), 0);
        const struct device_limits *limits = device->backend->limits(device->handle);
        for (int r = 0; r < RUNG_COUNT && limits->f16; r++) {
            wherry_session *session;
            if (!(limits->rungs & RUNG_BIT(r))) continue;
            assert_int_equal(open_session(device, model, rung_name((enum rung)r), WHERRY_DTYPE_F16, &session), 0);
            encode(session, r ? got : tiled);
            if (r) assert_true(difference(got, tiled) < 1e-5);
            wherry_session_destroy(session);
        }
        wherry_device_close(device);
    }
    wherry_model_close(model);
}

/* ---- a check that fails ---- */

static const struct backend *honest;

/* The device seems to have computed something else: what is longer than a batch's numbers. */
enum { LONGER = 8192 };

static bool read_wrong(struct backend_device *device, struct buffer *buffer, uint64_t offset, void *data,
                       uint64_t bytes, struct error *e)
{
    TRY(honest->buffer_read(device, buffer, offset, data, bytes, e));
    for (uint64_t i = 1; bytes >= LONGER && i < bytes; i += 64) ((unsigned char *)data)[i] ^= 0x04;
    return true;
}

static bool noted(const wherry_session *session, const char *a, const char *b)
{
    const char *note;
    for (size_t i = 0; (note = wherry_session_note(session, i)); i++)
        if (strstr(note, a) && strstr(note, b)) return true;
    return false;
}

static void test_failing_check(void **state)
{
    (void)state;
    wherry_model *model = make_model();
    size_t tested = 0;
    for (size_t d = 0; d < n_devices; d++) {
        wherry_device *device;
        wherry_session *session;
        float tiled[SEQUENCES * HIDDEN], got[SEQUENCES * HIDDEN];
        assert_int_equal(wherry_device_open(context, devices[d], &device), 0);
        const struct device_limits *limits = device->backend->limits(device->handle);
        if (limits->f16 && limits->rungs != RUNG_BIT(RUNG_TILED)) {
            tested++;
            assert_int_equal(open_session(device, model, "tiled", WHERRY_DTYPE_F16, &session), 0);
            encode(session, tiled);
            wherry_session_destroy(session);
            honest = device->backend;
            struct backend lying = *honest;
            struct host host = context->host;
            lying.buffer_read = read_wrong;
            device->backend = &lying;
            context->host.cache_dir[0] = 0; /* it has that the check was passed */
            memset(context->checks, 0, sizeof context->checks);
            assert_int_equal(open_session(device, model, NULL, WHERRY_DTYPE_F16, &session), 0);
            assert_int_equal(session->device_limits.rungs, RUNG_BIT(RUNG_TILED));
            for (int r = RUNG_TILED + 1; r < RUNG_COUNT; r++)
                if (limits->rungs & RUNG_BIT(r))
                    assert_true(noted(session, rung_name((enum rung)r), limits->cpu ? "a CPU's" : "check fails"));
            encode(session, got);
            assert_memory_equal(got, tiled, sizeof got);
            wherry_session_destroy(session);
            for (int r = RUNG_TILED + 1; r < RUNG_COUNT; r++)
                if (limits->rungs & RUNG_BIT(r))
                    assert_int_equal(open_session(device, model, rung_name((enum rung)r), WHERRY_DTYPE_F16, &session),
                                     WHERRY_STATUS_VERIFY_FAILED);
            device->backend = honest;
            context->host = host;
            memset(context->checks, 0, sizeof context->checks);
        }
        wherry_device_close(device);
    }
    wherry_model_close(model);
    if (!tested) skip();
}

/* A CPU driver may end a work-item's loops early: llvmpipe after 65535 rounds. */
static void test_long_sequences(void **state)
{
    (void)state;
    struct device_limits limits = {.cpu = true, .shared_bytes = 32768, .max_local_size = 256};
    struct sizes sizes = {.limits = &limits};
    struct call call = {.kernel = "layernorm_pool"};
    const char *reason = NULL;
    call_set(&call, CONST_POOL, POOL_MEAN);
    for (uint32_t longest = 0; longest <= 8192; longest += 512) {
        sizes.longest = longest;
        assert_int_equal(call_runs(&call, &sizes, &reason), longest * 18 <= 65535);
        if (longest * 18 > 65535) assert_non_null(strstr(reason, "long sequence"));
    }
    call_set(&call, CONST_POOL, POOL_CLS); /* reads one token */
    assert_true(call_runs(&call, &sizes, &reason));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_long_sequences),
                                       cmocka_unit_test(test_table),
                                       cmocka_unit_test(test_classes),
                                       cmocka_unit_test(test_attention),
                                       cmocka_unit_test(test_attention_matrices),
                                       cmocka_unit_test(test_matrices_and_heads),
                                       cmocka_unit_test(test_any_matrices),
                                       cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_same),
                                       cmocka_unit_test(test_failing_check),
                                       cmocka_unit_test(test_unknown_constants)};
    if (!(context = support_context(NULL, devices, &n_devices))) return 1;
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = cmocka_run_group_tests_name("rungs", tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
