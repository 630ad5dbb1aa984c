/* Encoding from end to end on every device: golden vectors, batch invariance, memory as planned, warm starts, limits
 * and bad input. */
#define _POSIX_C_SOURCE 200809L
#include "base/half.h"
#include "interface/interface.h"
#include "runtime/session.h"
#include "support.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const plan_names[] = {"flash", "paper", "unfused"};
static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;
static bool has_f16[SUPPORT_MAX_DEVICES], compiles_long[SUPPORT_MAX_DEVICES]; /* drivers of CPUs */

/* ---- a context that counts ---- */

struct counter {
    size_t allocations, live;
};

static void *count_alloc(size_t size, void *user)
{
    struct counter *c = user;
    c->allocations++;
    c->live++;
    return malloc(size);
}

static void count_free(void *pointer, void *user)
{
    struct counter *c = user;
    c->live--;
    free(pointer);
}

static bool unoptimized; /* see support_context */

static wherry_context *context_make(struct counter *counter, const char *cache)
{
    wherry_context *context;
    const wherry_context_desc desc = {.struct_size = sizeof desc,
                                      .alloc = counter ? count_alloc : NULL,
                                      .free = counter ? count_free : NULL,
                                      .user = counter,
                                      .cache_dir = cache ? cache : getenv("WHERRY_TEST_CACHE"),
                                      .unoptimized = unoptimized};
    assert_int_equal(wherry_context_create(&desc, &context), WHERRY_STATUS_OK);
    return context;
}

#define OK(context, call)                                                                                              \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", #call, wherry_status_name(status_), wherry_last_error(context));           \
    } while (0)

static wherry_model_config small_config(void)
{
    return (wherry_model_config){.struct_size = sizeof(wherry_model_config),
                                 .layers = 2,
                                 .hidden = 64,
                                 .heads = 2,
                                 .feed_forward = 136,
                                 .vocabulary = 97,
                                 .positions = 128,
                                 .token_types = 2,
                                 .pooler = true,
                                 .epsilon = 1e-12f};
}

/* Context, device, model and session in one. */
struct setup {
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
};

static struct setup setup_make(struct counter *counter, const char *cache, const char *device, wherry_session_desc desc)
{
    struct setup s;
    wherry_model_config config = small_config();
    s.context = context_make(counter, cache);
    OK(s.context, wherry_device_open(s.context, device, &s.device));
    OK(s.context, wherry_model_create_random(s.context, &config, 3, &s.model));
    desc.struct_size = sizeof desc;
    desc.kernels = support_kernels(device);
    OK(s.context, wherry_session_create(s.context, s.device, s.model, &desc, &s.session));
    return s;
}

static void setup_free(struct setup *s)
{
    wherry_session_destroy(s->session);
    wherry_model_close(s->model);
    wherry_device_close(s->device);
    wherry_context_destroy(s->context);
}

/* Sizes of kernels follow from it: where it is the same, drivers compile once. */
enum { MOST_TOKENS = 400 };

/* ---- results do not depend on the batch ---- */

static void invariance(const char *device, const char *plan, wherry_dtype dtype, wherry_pool pool)
{
    struct setup s =
        setup_make(NULL, NULL, device,
                   (wherry_session_desc){.max_tokens = MOST_TOKENS, .dtype = dtype, .plan = plan, .pool = pool});
    const uint32_t lengths[] = {5, 128, 1, 65, 33, 64, 17, 0};
    wherry_batch all = support_batch(lengths, 97, 2, 11);
    uint32_t tokens = all.offsets[all.sequences];
    float *together = calloc((size_t)tokens * 64, sizeof(float)), *alone = calloc((size_t)tokens * 64, sizeof(float));
    OK(s.context, wherry_encode(s.session, &all, together, (size_t)tokens * 64));
    for (uint32_t i = 0; i < all.sequences; i++) { /* alone, and as the second of two */
        uint32_t first = all.offsets[i], length = lengths[i];
        size_t row = pool == WHERRY_POOL_NONE ? first : i, rows = pool == WHERRY_POOL_NONE ? length : 1;
        for (int after = 0; after < 2; after++) {
            uint32_t offsets[3] = {0, after ? 7 : length, 7 + length};
            int32_t ids[160] = {1, 2, 3, 4, 5, 6, 7}, types[160] = {0};
            memcpy(ids + (after ? 7 : 0), all.ids + first, length * sizeof *ids);
            memcpy(types + (after ? 7 : 0), all.types + first, length * sizeof *types);
            wherry_batch one = {sizeof one, after ? 2 : 1, offsets, ids, types};
            OK(s.context, wherry_encode(s.session, &one, alone, (size_t)tokens * 64));
            const float *at = alone + (after ? (pool == WHERRY_POOL_NONE ? 7 : 1) * 64 : 0);
            if (memcmp(together + row * 64, at, rows * 64 * sizeof(float)))
                fail_msg("%s %s dtype %d: sequence %u has other bits %s", device, plan, (int)dtype, i,
                         after ? "after another" : "alone");
        }
    }
    free(together);
    free(alone);
    support_batch_free(&all);
    setup_free(&s);
}

static void test_batch_invariance(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++)
        for (size_t p = 0; p < 3; p++)
            for (wherry_dtype t = WHERRY_DTYPE_F32; t <= (p ? WHERRY_DTYPE_F32 : WHERRY_DTYPE_F16); t++)
                if (t == WHERRY_DTYPE_F32 || has_f16[d])
                    invariance(devices[d], plan_names[p], t, p ? WHERRY_POOL_MEAN : WHERRY_POOL_NONE);
}

/* ---- what the device has of the batch before ---- */

/* Batches that share lengths, types or the number of tokens with the one before, and ones that are refused between
 * them: each result has the bits that a session gives whose first batch it is. */
static void test_batch_after_batch(void **state)
{
    (void)state;
    const uint32_t lengths[][4] = {{20, 3, 9, 0}, {20, 3, 9, 0}, {3, 20, 9, 0}, {16, 16, 0}, {20, 3, 9, 0}};
    enum { SHAPES = sizeof lengths / sizeof *lengths };
    const wherry_session_desc desc = {.max_tokens = MOST_TOKENS, .max_sequences = 3};
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s = setup_make(NULL, NULL, devices[d], desc);
        float alone[SHAPES][2][3 * 64]; /* without types, and with them */
        for (int b = 0; b < 3 * SHAPES; b++) {
            wherry_batch batch = support_batch(lengths[b / 3], 97, 2, 3), wrong = batch;
            const int32_t ids[32] = {-1};
            float after[3 * 64];
            int first = 0, typed = b % 3 != 1; /* first: of the same lengths */
            wrong.ids = ids;
            if (b % 3 == 1) batch.types = NULL;
            if (b % 3 == 2)
                assert_int_equal(wherry_encode(s.session, &wrong, after, 3 * 64), WHERRY_STATUS_INVALID_ARGUMENT);
            OK(s.context, wherry_encode(s.session, &batch, after, 3 * 64));
            while (memcmp(lengths[first], lengths[b / 3], sizeof *lengths)) first++;
            if (first == b / 3 && b % 3 < 2) {
                struct setup fresh = setup_make(NULL, NULL, devices[d], desc);
                OK(fresh.context, wherry_encode(fresh.session, &batch, alone[first][typed], 3 * 64));
                setup_free(&fresh);
            }
            if (memcmp(after, alone[first][typed], batch.sequences * 64 * sizeof(float)))
                fail_msg("%s: batch %d has other bits after another", devices[d], b);
            batch.types = wrong.types;
            support_batch_free(&batch);
        }
        setup_free(&s);
    }
}

/* ---- plans and devices agree with the reference device ---- */

static void test_devices_agree(void **state)
{
    (void)state;
    const uint32_t lengths[] = {9, 40, 2, 0};
    wherry_batch batch = support_batch(lengths, 97, 2, 5);
    for (wherry_pool pool = WHERRY_POOL_MEAN; pool <= WHERRY_POOL_POOLER; pool++) {
        float want[3 * 64], got[3 * 64];
        struct setup r = setup_make(
            NULL, NULL, "reference",
            (wherry_session_desc){.max_tokens = 64, .dtype = WHERRY_DTYPE_F32, .pool = pool, .normalize = 1});
        OK(r.context, wherry_encode(r.session, &batch, want, 3 * 64));
        setup_free(&r);
        for (size_t d = 0; d < n_devices; d++)
            for (size_t p = 0; p < 3; p++) {
                if (p && pool != (wherry_pool)p) continue; /* a pooling is the same kernel in each plan */
                struct setup s = setup_make(NULL, NULL, devices[d],
                                            (wherry_session_desc){.max_tokens = MOST_TOKENS,
                                                                  .dtype = WHERRY_DTYPE_F32,
                                                                  .plan = plan_names[p],
                                                                  .pool = pool,
                                                                  .normalize = 1});
                OK(s.context, wherry_encode(s.session, &batch, got, 3 * 64));
                for (int i = 0; i < 3 * 64; i++)
                    if (!(fabsf(got[i] - want[i]) < 2e-5f))
                        fail_msg("%s %s pool %d: value %d is %g, the reference has %g", devices[d], plan_names[p],
                                 (int)pool, i, (double)got[i], (double)want[i]);
                setup_free(&s);
            }
    }
    support_batch_free(&batch);
}

/* ---- embeddings do not depend on how tensors lie ---- */

static void test_layouts_agree(void **state)
{
    (void)state;
    /* As asked for, and as the session tells them. */
    static const char *const layouts[][2] = {
        {"w_lin1=ui,w_qkv=qhpi", ""},
        {"w_qkv=iqhp,w_out=hpi,w_lin1=iu,w_lin2=ui,w_pooler=io",
         "w_qkv=iqhp,w_out=hpi,w_lin1=iu,w_lin2=ui,w_pooler=io"},
        {"w_qkv=hqpi,qkv=bjhqp", "qkv=bjhqp"},
    };
    const uint32_t lengths[] = {9, 40, 2, 0};
    wherry_batch batch = support_batch(lengths, 97, 2, 5);
    for (size_t d = 0; d < n_devices; d++) {
        /* 16-bit kernels of all orders are test_groups'. */
        bool both = has_f16[d] && !compiles_long[d];
        for (wherry_dtype type = WHERRY_DTYPE_F32; type <= (both ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32); type++) {
            float out[3 * 64], first[3 * 64];
            for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
                struct setup s = setup_make(NULL, NULL, devices[d],
                                            (wherry_session_desc){.max_tokens = MOST_TOKENS,
                                                                  .dtype = type,
                                                                  .pool = WHERRY_POOL_POOLER,
                                                                  .normalize = 1,
                                                                  .layouts = layouts[l][0]});
                wherry_session_plan plan = {.struct_size = sizeof plan};
                OK(s.context, wherry_session_query(s.session, &plan));
                assert_string_equal(plan.layouts, layouts[l][1]);
                OK(s.context, wherry_encode(s.session, &batch, out, 3 * 64));
                setup_free(&s);
                if (!l) memcpy(first, out, sizeof first);
                for (int i = 0; i < 3 * 64; i++)
                    if (!(fabsf(out[i] - first[i]) < (type == WHERRY_DTYPE_F32 ? 2e-5f : 2e-3f)))
                        fail_msg("%s dtype %d %s: value %d is %g, without layouts %g", devices[d], (int)type,
                                 layouts[l][0], i, (double)out[i], (double)first[i]);
            }
        }
    }
    support_batch_free(&batch);
}

static void test_bad_layouts(void **state)
{
    (void)state;
    static const struct {
        const char *layouts, *why;
    } bad[] = {
        {"w_lin1", "no name=letters"},
        {"w_lin1=iu,", "no name=letters"},
        {"w_lin3=iu", "no tensor \"w_lin3\""},
        {"w_lin=iu", "no tensor \"w_lin\""},
        {"=iu", "no tensor \"\""},
        {"w_lin1=", "letters of w_lin1, ui"},
        {"w_lin1=ii", "letters of w_lin1, ui"},
        {"w_lin1=iux", "letters of w_lin1, ui"},
        {"w_qkv=hpqi", "its orders are qhpi, iqhp, hqpi, ihqp"},
        {"w_out=hpi,w_out=ihp", "twice"},
        {"qkv=bhjqp", "its orders are bjqhp, bjhqp"},
        {"w_qkv=hqpi", "a row of w_qkv"},
        {"qkv=bjhqp,w_qkv=iqhp", "a row of w_qkv"},
        {"w_pooler=io", "not used here"},
        {"w_lin1=iu+iu", "w_lin1=iu+ui"},
        {"w_lin1=iu+ui", "in inference give each one order"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wherry_session *none = NULL;
        struct setup s = setup_make(NULL, NULL, "reference", (wherry_session_desc){.pool = WHERRY_POOL_MEAN});
        wherry_session_desc desc = {.struct_size = sizeof desc, .pool = WHERRY_POOL_MEAN, .layouts = bad[i].layouts};
        assert_int_equal(wherry_session_create(s.context, s.device, s.model, &desc, &none),
                         WHERRY_STATUS_INVALID_ARGUMENT);
        if (!strstr(wherry_last_error(s.context), bad[i].why))
            fail_msg("\"%s\": %s", bad[i].layouts, wherry_last_error(s.context));
        assert_null(none);
        setup_free(&s);
    }
}

/* ---- after prepare: no allocation; device memory as planned ---- */

static void test_no_allocation(void **state)
{
    (void)state;
    const uint32_t lengths[] = {30, 2, 0}, longer[] = {100, 1, 20, 0};
    for (size_t d = 0; d < n_devices; d++) {
        if (!strcmp(devices[d], "reference")) continue; /* its operators work in memory of their own: it is no driver */
        for (size_t p = 0; p < 3; p++) {
            struct counter counter = {0};
            struct setup s = setup_make(&counter, NULL, devices[d],
                                        (wherry_session_desc){.max_tokens = MOST_TOKENS, .plan = plan_names[p]});
            wherry_session_plan plan = {.struct_size = sizeof plan};
            OK(s.context, wherry_session_query(s.session, &plan));
            assert_int_equal(s.device->backend->allocated(s.device->handle), 0);
            OK(s.context, wherry_session_prepare(s.session, NULL, NULL, NULL));
            assert_int_equal(s.device->backend->allocated(s.device->handle), plan.device_bytes);
            size_t before = counter.allocations;
            float out[3 * 64];
            for (int i = 0; i < 4; i++) {
                wherry_batch batch = support_batch(i & 1 ? longer : lengths, 97, 2, (uint64_t)i);
                OK(s.context, wherry_encode(s.session, &batch, out, 3 * 64));
                support_batch_free(&batch);
            }
            if (counter.allocations != before)
                fail_msg("%s %s: %zu allocations in 4 encodes", devices[d], plan_names[p],
                         counter.allocations - before);
            assert_int_equal(s.device->backend->allocated(s.device->handle), plan.device_bytes);
            wherry_session_destroy(s.session);
            s.session = NULL;
            assert_int_equal(s.device->backend->allocated(s.device->handle), 0);
            setup_free(&s);
            assert_int_equal(counter.live, 0);
        }
    }
}

/* Every allocation of create, prepare and encode fails once: always an error, never a crash, nothing left behind. */
struct failing {
    struct counter counter;
    size_t fail_at;
};

static void *failing_alloc(size_t size, void *user)
{
    struct failing *f = user;
    return f->counter.allocations + 1 == f->fail_at ? (f->counter.allocations++, NULL) : count_alloc(size, &f->counter);
}

static void failing_free(void *pointer, void *user) { count_free(pointer, &((struct failing *)user)->counter); }

static void test_out_of_memory(void **state)
{
    (void)state;
    wherry_model_config config = small_config();
    for (size_t d = 0; d < n_devices; d++) {
        bool reached_end = false;
        for (size_t at = 1; !reached_end; at += at < 64 ? 1 : 7) {
            struct failing f = {.fail_at = at};
            const wherry_context_desc desc = {
                sizeof desc, failing_alloc, failing_free, NULL, &f, getenv("WHERRY_TEST_CACHE"), unoptimized};
            wherry_context *context = NULL;
            wherry_device *device = NULL;
            wherry_model *model = NULL;
            wherry_session *session = NULL;
            const wherry_session_desc session_desc = {.struct_size = sizeof session_desc, .max_tokens = MOST_TOKENS};
            wherry_status status = wherry_context_create(&desc, &context);
            if (!status) status = wherry_device_open(context, devices[d], &device);
            if (!status) status = wherry_model_create_random(context, &config, 1, &model);
            if (!status) status = wherry_session_create(context, device, model, &session_desc, &session);
            if (!status) status = wherry_session_prepare(session, NULL, NULL, NULL);
            reached_end = !status;
            /* A driver list without memory is no list: the device is then not there. */
            if (status && status != WHERRY_STATUS_OUT_OF_HOST_MEMORY && status != WHERRY_STATUS_NO_DEVICE)
                fail_msg("%s: allocation %zu failed, and the status is %s", devices[d], at, wherry_status_name(status));
            wherry_session_destroy(session);
            wherry_model_close(model);
            wherry_device_close(device);
            wherry_context_destroy(context);
            if (f.counter.live)
                fail_msg("%s: allocation %zu failed, and %zu blocks are left", devices[d], at, f.counter.live);
            assert_true(at < 100000);
        }
    }
}

/* ---- a second start compiles nothing ---- */

static void test_warm_start(void **state)
{
    (void)state;
    char folder[] = "/tmp/wherry-cache-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (size_t d = 0; d < n_devices; d++)
        for (int start = 0; start < 2; start++) {
            struct setup s = setup_make(NULL, folder, devices[d], (wherry_session_desc){.max_tokens = MOST_TOKENS});
            wherry_prepare_info info = {.struct_size = sizeof info};
            OK(s.context, wherry_session_prepare(s.session, NULL, NULL, &info));
            bool compiles = s.device->kernels_hash != 0;
            assert_true(!strcmp(devices[d], "reference") || info.kernels > 0);
            /* The check of a rung on a model this small may have made some of them before. */
            if (compiles && start == 0)
                assert_in_range(info.kernels_compiled, 1, info.kernels);
            else
                assert_int_equal(info.kernels_compiled, 0);
            setup_free(&s);
        }
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* ---- verify sees what is wrong ---- */

static bool remember_failure(const wherry_verify_result *r, void *user)
{
    if (!r->passed) snprintf(user, 64, "%s", r->name);
    return true;
}

static void test_verify_can_fail(void **state)
{
    (void)state;
    const uint32_t lengths[] = {20, 3, 0};
    wherry_batch batch = support_batch(lengths, 97, 2, 9);
    for (size_t d = 0; d < n_devices; d++) {
        if (!strcmp(devices[d], "reference")) continue; /* reads no constants */
        struct setup s = setup_make(NULL, NULL, devices[d],
                                    (wherry_session_desc){.max_tokens = MOST_TOKENS, .keep_intermediates = true});
        int broken = 1;
        while (strcmp(s.session->groups[broken].kernel, "layernorm")) broken++;
        call_set_float(&s.session->calls[broken], CONST_EPSILON, 0.01f);
        wherry_verify_summary summary = {.struct_size = sizeof summary};
        char name[64] = "";
        assert_int_equal(wherry_verify(s.session, &batch, 1, remember_failure, name, &summary),
                         WHERRY_STATUS_VERIFY_FAILED);
        assert_int_equal(summary.failed, 1);
        assert_string_equal(name, s.session->groups[broken].name);
        setup_free(&s);
    }
    support_batch_free(&batch);
}

/* ---- limits and bad input ---- */

static void expect(wherry_context *context, wherry_status got, wherry_status want, const char *part)
{
    if (got != want || !strstr(wherry_last_error(context), part))
        fail_msg("status %s with \"%s\": wanted %s with \"%s\"", wherry_status_name(got), wherry_last_error(context),
                 wherry_status_name(want), part);
}

static void test_bad_batches(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s = setup_make(NULL, NULL, devices[d],
                                    (wherry_session_desc){.max_tokens = 50, .max_sequences = 3, .max_length = 30});
        float out[3 * 64];
        int32_t ids[60] = {0}, types[60] = {0};
        uint32_t offsets[5] = {0, 5, 9, 12, 14};
        wherry_batch good = {sizeof good, 3, offsets, ids, types}, b;
#define BAD(status, part, ...)                                                                                         \
    do {                                                                                                               \
        b = good;                                                                                                      \
        __VA_ARGS__;                                                                                                   \
        expect(s.context, wherry_encode(s.session, &b, out, 3 * 64), status, part);                                    \
    } while (0)
        BAD(WHERRY_STATUS_INVALID_ARGUMENT, "struct_size", b.struct_size = 3);
        BAD(WHERRY_STATUS_INVALID_ARGUMENT, "empty batch", b.sequences = 0);
        BAD(WHERRY_STATUS_INVALID_ARGUMENT, "empty batch", b.ids = NULL);
        BAD(WHERRY_STATUS_TOO_LONG, "this session takes 3 (max_sequences)", b.sequences = 4);
        uint32_t hole[] = {0, 5, 5, 9}, shifted[] = {1, 5, 6, 9}, back[] = {0, 9, 5, 12}, long_one[] = {0, 31, 32, 33},
                 many[] = {0, 20, 40, 51};
        BAD(WHERRY_STATUS_INVALID_ARGUMENT, "sequence 1 has no tokens", b.offsets = hole);
        BAD(WHERRY_STATUS_INVALID_ARGUMENT, "offsets[0] is 1", b.offsets = shifted);
        BAD(WHERRY_STATUS_INVALID_ARGUMENT, "sequence 1 has no tokens", b.offsets = back);
        BAD(WHERRY_STATUS_TOO_LONG, "sequence 0 has 31 tokens: this session takes 30", b.offsets = long_one);
        BAD(WHERRY_STATUS_TOO_LONG, "51 tokens in a batch: this session takes 50", b.offsets = many);
        BAD(WHERRY_STATUS_INVALID_ARGUMENT, "token 4 has the id 97: the vocabulary has 97", ids[4] = 97);
        BAD(WHERRY_STATUS_INVALID_ARGUMENT, "token 4 has the id -1", ids[4] = -1);
        ids[4] = 0;
        BAD(WHERRY_STATUS_INVALID_ARGUMENT, "token 2 has the type 2: this model has 2", types[2] = 2);
        types[2] = 0;
        expect(s.context, wherry_encode(s.session, &good, out, 3 * 64 - 1), WHERRY_STATUS_INVALID_ARGUMENT,
               "the result has 192");
        expect(s.context, wherry_encode(s.session, NULL, out, 3 * 64), WHERRY_STATUS_INVALID_ARGUMENT, "NULL");
        OK(s.context, wherry_encode(s.session, &good, out, 3 * 64)); /* and it still works */
        setup_free(&s);
    }
}

static void test_bad_sessions(void **state)
{
    (void)state;
    struct setup s = setup_make(NULL, NULL, "reference", (wherry_session_desc){.max_tokens = 50});
    wherry_session *session = NULL;
    wherry_session_desc desc;
#define REFUSED(status, part, ...)                                                                                     \
    do {                                                                                                               \
        desc = (wherry_session_desc){.struct_size = sizeof desc, __VA_ARGS__};                                         \
        expect(s.context, wherry_session_create(s.context, s.device, s.model, &desc, &session), status, part);         \
        assert_null(session);                                                                                          \
    } while (0)
    REFUSED(WHERRY_STATUS_INVALID_ARGUMENT, "flash, paper and unfused", .plan = "fused");
    REFUSED(WHERRY_STATUS_TOO_LONG, "positions for 128", .max_length = 129);
    REFUSED(WHERRY_STATUS_INVALID_ARGUMENT, "wherry_pool", .pool = (wherry_pool)17);
    REFUSED(WHERRY_STATUS_OUT_OF_DEVICE_MEMORY, "no batch fits", .memory_budget = 1000);
    desc = (wherry_session_desc){.struct_size = 1};
    expect(s.context, wherry_session_create(s.context, s.device, s.model, &desc, &session),
           WHERRY_STATUS_INVALID_ARGUMENT, "struct_size");
    wherry_device *device = NULL;
    expect(s.context, wherry_device_open(s.context, "voodoo2", &device), WHERRY_STATUS_NO_DEVICE, "reference");
    assert_null(device);
    wherry_model_config config = small_config();
    config.pooler = false;
    wherry_model *model;
    OK(s.context, wherry_model_create_random(s.context, &config, 3, &model));
    desc = (wherry_session_desc){.struct_size = sizeof desc, .pool = WHERRY_POOL_POOLER};
    expect(s.context, wherry_session_create(s.context, s.device, model, &desc, &session), WHERRY_STATUS_UNSUPPORTED,
           "no pooler");
    wherry_model_close(model);
    int32_t ids[8];
    size_t count = 8;
    expect(s.context, wherry_tokenize(s.context, s.model, "a", 1, NULL, 0, 0, ids, NULL, &count),
           WHERRY_STATUS_UNSUPPORTED, "no tokenizer");
    setup_free(&s);
}

/* The error of a budget names the largest batch; that one fits, and one token more does not. */
static void test_budget(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++)
        for (size_t p = 0; p < 3; p++) {
            struct setup s =
                setup_make(NULL, NULL, devices[d], (wherry_session_desc){.max_tokens = 512, .plan = plan_names[p]});
            wherry_session_plan plan = {.struct_size = sizeof plan};
            OK(s.context, wherry_session_query(s.session, &plan));
            wherry_session_desc desc = {.struct_size = sizeof desc,
                                        .max_tokens = 512,
                                        .plan = plan_names[p],
                                        .memory_budget =
                                            plan.weight_bytes + (plan.device_bytes - plan.weight_bytes) / 2};
            wherry_session *session = NULL;
            char budget[64];
            snprintf(budget, sizeof budget, "the budget is %llu", (unsigned long long)desc.memory_budget);
            expect(s.context, wherry_session_create(s.context, s.device, s.model, &desc, &session),
                   WHERRY_STATUS_OUT_OF_DEVICE_MEMORY, budget);
            const char *at = strstr(wherry_last_error(s.context), "largest batch that fits has ");
            assert_non_null(at);
            desc.max_tokens = (uint32_t)strtoul(at + strlen("largest batch that fits has "), NULL, 10);
            assert_in_range(desc.max_tokens, 1, 511);
            desc.max_sequences = 512;
            OK(s.context, wherry_session_create(s.context, s.device, s.model, &desc, &session));
            wherry_session_destroy(session);
            session = NULL;
            desc.max_tokens++;
            expect(s.context, wherry_session_create(s.context, s.device, s.model, &desc, &session),
                   WHERRY_STATUS_OUT_OF_DEVICE_MEMORY, "largest batch");
            setup_free(&s);
        }
}

/* ---- 16-bit overflow is an error, not a vector of NaN ---- */

static void test_not_finite(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        if (!has_f16[d]) continue;
        struct setup s = setup_make(NULL, NULL, devices[d],
                                    (wherry_session_desc){.max_tokens = MOST_TOKENS, .dtype = WHERRY_DTYPE_F16});
        OK(s.context, wherry_session_prepare(s.session, NULL, NULL, NULL));
        int gamma = 0; /* the last layernorm's scale: infinite on the device */
        for (int t = 0; t < s.session->graph.n_tensors; t++)
            if (s.session->graph.tensors[t].weight == WEIGHT_GAMMA2 && s.session->graph.tensors[t].layer == 1)
                gamma = t;
        uint16_t infinite[64];
        for (int i = 0; i < 64; i++) infinite[i] = half_from_float(INFINITY);
        const struct placement *at = &s.session->memory.of[gamma];
        assert_true(s.device->backend->buffer_write(s.device->handle, s.session->buffers[at->block], at->offset,
                                                    infinite, sizeof infinite, context_error(s.context)));
        const uint32_t lengths[] = {4, 0};
        wherry_batch batch = support_batch(lengths, 97, 2, 1);
        float out[64];
        expect(s.context, wherry_encode(s.session, &batch, out, 64), WHERRY_STATUS_VERIFY_FAILED, "not finite");
        support_batch_free(&batch);
        setup_free(&s);
    }
}

/* ---- two threads, two contexts, one model ---- */

struct thread_work {
    const wherry_model *model;
    const char *device;
    float out[2 * 64];
    wherry_status status;
};

static void *thread_encode(void *user)
{
    struct thread_work *w = user;
    wherry_context *context = NULL;
    wherry_device *device = NULL;
    wherry_session *session = NULL;
    const uint32_t lengths[] = {7, 30, 0};
    wherry_batch batch = support_batch(lengths, 97, 2, 4);
    const wherry_context_desc context_desc = {
        .struct_size = sizeof context_desc, .cache_dir = getenv("WHERRY_TEST_CACHE"), .unoptimized = unoptimized};
    const wherry_session_desc desc = {.struct_size = sizeof desc, .max_tokens = MOST_TOKENS};
    w->status = wherry_context_create(&context_desc, &context);
    if (!w->status) w->status = wherry_device_open(context, w->device, &device);
    if (!w->status) w->status = wherry_session_create(context, device, w->model, &desc, &session);
    for (int i = 0; !w->status && i < 5; i++) w->status = wherry_encode(session, &batch, w->out, 2 * 64);
    wherry_session_destroy(session);
    wherry_device_close(device);
    wherry_context_destroy(context);
    support_batch_free(&batch);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        wherry_context *context = context_make(NULL, NULL);
        wherry_model_config config = small_config();
        wherry_model *model;
        OK(context, wherry_model_create_random(context, &config, 3, &model));
        struct thread_work work[2] = {{model, devices[d], {0}, 0}, {model, devices[d], {0}, 0}};
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, thread_encode, &work[i]), 0);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < 2; i++) assert_int_equal(work[i].status, WHERRY_STATUS_OK);
        assert_memory_equal(work[0].out, work[1].out, sizeof work[0].out);
        wherry_model_close(model);
        wherry_context_destroy(context);
    }
}

int main(void)
{
    wherry_context *context = context_make(NULL, NULL);
    n_devices = support_devices(context, devices);
    unoptimized = support_unoptimized(context, (const char(*)[64])devices, n_devices);
    for (size_t d = 0; d < n_devices; d++) {
        has_f16[d] = support_has_f16(context, devices[d]);
        compiles_long[d] = strchr(devices[d], ':') && !support_is_gpu(context, devices[d]);
    }
    wherry_context_destroy(context);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_agree),     cmocka_unit_test(test_batch_invariance),
        cmocka_unit_test(test_batch_after_batch), cmocka_unit_test(test_layouts_agree),
        cmocka_unit_test(test_bad_layouts),       cmocka_unit_test(test_no_allocation),
        cmocka_unit_test(test_out_of_memory),     cmocka_unit_test(test_warm_start),
        cmocka_unit_test(test_verify_can_fail),   cmocka_unit_test(test_bad_batches),
        cmocka_unit_test(test_bad_sessions),      cmocka_unit_test(test_budget),
        cmocka_unit_test(test_not_finite),        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
